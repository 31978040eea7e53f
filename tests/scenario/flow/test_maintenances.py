"""Maintenances through all services on a virtual clock: the governor paces, the taint-manager taints."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.scenario.flow.test_budgets import GuardedWorld
from tests.support.worlds.flow import START
from tests.support.worlds.world import lifted

from moorage_schemas.maintenance import MaintenanceProgressed
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.taint import TargetTainted
from moorage_schemas.times import format_time
from moorage_schemas.topics import BINDINGS, MAINTENANCES, TAINTS

MINUTE, HOUR = 60.0, 3600.0
TAINT = "moorage.io/maintenance"


def fleet(count: int, pods: int, **settings: Any) -> GuardedWorld:
    """Nodes, and a deployment whose pods are on them."""
    world = GuardedWorld(*(f"n{one:02}" for one in range(count)), settings=lifted(partitions=3, **settings))
    world.deployment("web", pods)
    world.run()
    return world


def maintain(world: GuardedWorld, **spec: Any) -> None:
    window = {"start": format_time(START), "duration": "4h"}
    world.guard("Maintenance", "kernel", **{"window": window, **spec})


def state(world: GuardedWorld) -> MaintenanceProgressed:
    event = world.flow.table(MAINTENANCES)["kernel"]
    assert isinstance(event, MaintenanceProgressed)
    return event


def stages(world: GuardedWorld) -> Counter[str]:
    return Counter(one.stage for one in state(world).targets)


def tainted(world: GuardedWorld) -> set[str]:
    events = [event for event in world.flow.table(TAINTS).values() if isinstance(event, TargetTainted)]
    return {event.target.name for event in events if any(taint.key == TAINT for taint in event.taints)}


@pytest.mark.parametrize("crashes", [False, True])
def test_twenty_nodes_two_at_a_time_end_before_the_deadline(*, crashes: bool) -> None:
    world = fleet(20, 20)
    maintain(world, maxAtOnce=2, drainDeadline="3h", releaseAfter="5m")
    for step in range(60):
        world.flow.advance(MINUTE)
        if crashes:
            world.flow.crash_process(("governor", "taint-manager", "eviction", "placement")[step % 4])
        assert len(tainted(world)) <= 2
    assert state(world).phase == "Completed"
    assert stages(world) == {"Done": 20}
    assert tainted(world) == set()
    assert sum(isinstance(event, WorkloadBound) for event in world.flow.table(BINDINGS).values()) == 20


def test_or_names_the_pod_that_holds_it() -> None:
    """A disruption budget keeps the pods. The state names one, with the budget, until the deadline."""
    world = fleet(2, 2, disruption_budget_patience=86400)
    world.pdb(maxUnavailable=0)
    maintain(world, drainDeadline="30m")
    world.flow.advance(MINUTE)
    (draining,) = [one for one in state(world).targets if one.stage == "Draining"]
    pods = [key.split("|")[0] for key in world.flow.table(BINDINGS) if key.endswith(f"/{draining.name}")]
    assert draining.held_by == tuple(f"{pod} (PodDisruptionBudget/default/web)" for pod in sorted(pods))
    assert tainted(world) == {draining.name}
    world.flow.advance(29 * MINUTE)
    assert state(world).phase == "Failed"
    assert stages(world) == {"NotDrained": 1, "Missed": 1}
    assert tainted(world) == set()
    assert world.requested() == []
    assert [one.held_by for one in state(world).targets if one.held_by] == [draining.held_by]


def test_nothing_happens_before_the_window_and_a_deleted_maintenance_ends() -> None:
    world = fleet(2, 2, disruption_budget_patience=86400)
    world.pdb(maxUnavailable=0)
    begin = START.replace(hour=2)
    maintain(world, window={"start": format_time(begin), "duration": "1h"})
    world.flow.advance(HOUR)
    assert (state(world).phase, state(world).next_time, tainted(world)) == ("Scheduled", begin, set())
    world.flow.advance(HOUR)
    assert (state(world).phase, len(tainted(world))) == ("Running", 1)
    world.delete("Maintenance", "kernel")
    world.run()
    assert tainted(world) == set()
    assert "kernel" not in world.flow.table(MAINTENANCES)


def test_a_pause_for_maintenances_holds_one() -> None:
    world = fleet(2, 2)
    world.guard("EvictionPause", "no-maintenance", reasons=["Maintenance"])
    maintain(world)
    world.flow.advance(MINUTE)
    (draining,) = [one for one in state(world).targets if one.stage == "Draining"]
    assert all("EvictionPause/no-maintenance" in holder for holder in draining.held_by)
    world.delete("EvictionPause", "no-maintenance")
    world.flow.advance(MINUTE)
    assert state(world).phase == "Completed"
