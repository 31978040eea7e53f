"""Guards with a schedule or with reasons, through all services on a virtual clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.scenario.flow.test_budgets import GuardedWorld
from tests.support.tables import table
from tests.support.worlds.world import lifted

from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.times import parse_time
from moorage_schemas.topics import EVICTION_ANSWERS, EVICTIONS

FRIDAY_NIGHT = {"cron": "0 22 * * 5", "timeZone": "Europe/Berlin", "duration": "8h"}
BEGIN, END = parse_time("2026-12-04T21:00:00Z"), parse_time("2026-12-05T05:00:00Z")
MINUTE, HOUR = 60.0, 3600.0


def web_at(start: str, *nodes: str) -> GuardedWorld:
    """A deployment with a pod on each node, at a time."""
    world = GuardedWorld(*nodes, settings=lifted(partitions=3), start=parse_time(start))
    world.deployment("web", len(nodes))
    world.run()
    return world


def requests(world: GuardedWorld) -> list[tuple[str, datetime]]:
    """The targets of the requested evictions, with the times of their requests."""
    events = (event for event in world.flow.events(EVICTIONS) if isinstance(event, EvictionDecided))
    return [(one.target.name, one.decided_time) for one in events if one.state is EvictionState.REQUESTED]


def held(world: GuardedWorld) -> set[tuple[str, ...]]:
    return {e.held_by for e in world.flow.table(EVICTIONS).values() if e.state is EvictionState.HELD}


@table("kind", ["EvictionPause", "EvictionBudget"])
def test_never_on_friday_night(kind: str) -> None:
    """What comes due before the window goes at once, and what comes due in it waits for its end."""
    world = web_at("2026-12-04T20:58:00Z", "n1", "n2", "n3")
    limits: dict[str, Any] = {"maxConcurrent": 0} if kind == "EvictionBudget" else {"reason": "the shop is busy"}
    world.guard(kind, "friday", schedule=FRIDAY_NIGHT, **limits)
    world.taint("n1", "bad")
    world.flow.advance(MINUTE)
    assert [name for name, _ in requests(world)] == ["n1"]
    world.flow.advance(MINUTE)
    world.taint("n2", "bad")
    world.flow.advance(HOUR)
    assert held(world) == {(f"{kind}/friday",)}
    world.flow.crash_process("governor")
    world.flow.crash_process("eviction")
    world.flow.advance(HOUR)
    assert [name for name, _ in requests(world)] == ["n1"]
    world.flow.advance(6 * HOUR)
    times = dict(requests(world))
    assert set(times) == {"n1", "n2"}
    assert not [time for time in times.values() if BEGIN <= time < END]
    world.assert_whole()


def test_a_grant_that_is_read_in_the_window_is_not_used() -> None:
    """The eviction service was slow when the grant came. It asks again, and is held."""
    world = web_at("2026-12-04T20:59:30Z", "n1")
    world.guard("EvictionPause", "friday", schedule=FRIDAY_NIGHT)
    world.run()
    world.taint("n1", "bad")
    for _ in range(200):
        if any(event.granted for event in world.flow.events(EVICTION_ANSWERS)):
            break
        for service in ("gateway", "taint-manager", "eviction", "governor"):
            for partition in range(3):
                if (service, partition) in world.flow._places():
                    world.flow.step(service, partition)
    else:
        raise AssertionError("nothing was granted")
    assert requests(world) == []
    world.flow.now = BEGIN
    world.run()
    assert requests(world) == []
    world.flow.advance(MINUTE)
    assert requests(world) == []
    assert held(world) == {("EvictionPause/friday",)}


def test_no_drains_but_failures() -> None:
    """A pause for drains holds those. A node that fails is emptied, also when it was being drained."""
    world = web_at("2026-12-01T12:00:00Z", "n1", "n2", "n3", "n4")
    world.guard("EvictionPause", "no-drains", reasons=["Drain", "Maintenance"])
    world.run()
    world.taint("n1", "moorage.io/drain")
    world.flow.advance(MINUTE)
    assert requests(world) == []
    world.taint("n2", "node.kubernetes.io/out-of-service")
    world.flow.advance(MINUTE)
    assert [name for name, _ in requests(world)] == ["n2"]
    world.taint("n1", "node.kubernetes.io/out-of-service")
    world.flow.advance(10 * MINUTE)
    assert [name for name, _ in requests(world)] == ["n2", "n1"]
    world.assert_whole()
