"""Machines with different clocks: a held eviction is not scheduled again, and pauses hold and release evictions."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.scenario.flow.test_budgets import GuardedWorld
from tests.support.tables import table
from tests.support.worlds.flow import START
from tests.support.worlds.world import lifted

from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.topics import EVICTIONS

DEADLINE = timedelta(seconds=30)
SERVICES = ("governor", "eviction", "timer")
SKEWS = [(service, seconds) for service in SERVICES for seconds in (-20, -2, 2, 20)]


def held_world(service: str, seconds: float) -> GuardedWorld:
    """Two pods that tolerate the taint for 30 s, with a pause. All clocks except one are correct."""
    world = GuardedWorld("n1", settings=lifted(partitions=3))
    world.flow.skew = {service: timedelta(seconds=seconds)}
    tolerations = [{"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]
    world.deployment("web", 2, tolerations=tolerations)
    world.run()
    world.guard("EvictionPause", "all")
    world.flow.run()
    world.taint("n1", "bad")
    world.flow.run()
    return world


def steps(world: GuardedWorld) -> dict[str, list[EvictionState]]:
    """The states that each task went through, without repetitions."""
    found: dict[str, list[EvictionState]] = {}
    for record in world.flow.records(EVICTIONS):
        if isinstance(record.event, EvictionDecided):
            states = found.setdefault(record.name, [])
            if not states or states[-1] is not record.event.state:
                states.append(record.event.state)
    return found


@table(("service", "seconds"), SKEWS)
def test_held_and_scheduled_do_not_alternate(service: str, seconds: float) -> None:
    world = held_world(service, seconds)
    began = world.flow.now
    for _ in range(120):
        world.flow.advance(1)
        world.flow.reconcile()
        world.flow.run()
    assert set(map(tuple, steps(world).values())) == {(EvictionState.SCHEDULED, EvictionState.HELD)}
    assert world.requested() == []
    world.node("s1")
    world.delete("EvictionPause", "all")
    world.flow.advance(25)
    assert len(world.requested()) == 2, "a pause that is over lets go"
    assert world.nodes_of("web") == ["s1", "s1"]
    done = (EvictionState.SCHEDULED, EvictionState.HELD, EvictionState.REQUESTED, EvictionState.COMPLETED)
    assert done in set(map(tuple, steps(world).values()))
    assert world.flow.now - began < timedelta(seconds=150)
    world.assert_whole()


@table(("service", "seconds"), SKEWS)
def test_a_pause_that_the_governor_has_not_read_is_heeded(service: str, seconds: float) -> None:
    world = held_world(service, seconds)
    world.flow.advance(60)
    world.flow.behind.add("governor")
    world.delete("EvictionPause", "all")
    world.flow.run()
    world.flow.behind.clear()
    world.flow.step("governor", world.flow.partition("fleet"))  # it lets go
    world.flow.behind.add("governor")
    world.guard("EvictionPause", "second")
    world.flow.advance(30)
    assert world.requested() == []
    assert {event.held_by for event in world.flow.table(EVICTIONS).values()} == {("EvictionPause/second",)}
    world.flow.behind.clear()
    world.node("s1")
    world.delete("EvictionPause", "second")
    world.flow.advance(25)
    assert len(world.requested()) == 2
    world.assert_whole()


@pytest.mark.parametrize("seconds", [-20, -2, 2, 20])
def test_the_governor_s_clock_moves_no_deadline(seconds: float) -> None:
    """A deadline is judged by eviction's clock. No other clock matters."""
    world = GuardedWorld("n1", settings=lifted(partitions=3))
    world.flow.skew = {"governor": timedelta(seconds=seconds)}
    tolerations = [{"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]
    world.deployment("web", 2, tolerations=tolerations)
    world.guard("EvictionBudget", "wide", maxConcurrent=10)
    world.run()
    tainted = world.flow.now
    world.taint("n1", "bad")
    world.node("s1")
    world.flow.advance(29)
    assert world.requested() == []
    world.flow.advance(2)
    assert len(world.requested()) == 2
    assert tainted >= START
    assert set(map(tuple, steps(world).values())) >= {
        (EvictionState.SCHEDULED, EvictionState.HELD, EvictionState.REQUESTED, EvictionState.COMPLETED)
    }


@table("seconds", [2, 600])
def test_a_timer_whose_clock_is_ahead_evicts_nothing_early(seconds: float) -> None:
    """Its timers fire early. Eviction decides at the deadline by its own clock, though they do not fire again."""
    for service in ("timer", "governor", "taint-manager", "condition-ingest"):
        world = GuardedWorld("n1", settings=lifted(partitions=3))
        world.flow.skew = {service: timedelta(seconds=seconds)}
        tolerations = [{"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]
        world.deployment("web", 2, tolerations=tolerations)
        world.run()
        world.taint("n1", "bad")
        world.node("s1")
        world.flow.advance(29)
        assert world.requested() == [], service
        world.flow.advance(2)
        assert len(world.requested()) == 2, service
        world.assert_whole()
