"""Requests to leave, from their record to the end of the binding, with a restart of each service at each point."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.support.worlds.flow import Crash
from tests.support.worlds.karmada import KarmadaWorld
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import WITNESS, World

from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.leave_request import Requester, RequesterKind
from moorage_schemas.placement import PlacementState, WorkloadBound
from moorage_schemas.topics import BINDINGS, EVICTIONS, TIMERS

DRAIN = Requester(kind=RequesterKind.EVICTION_REQUEST, name="drain")
BY_REQUEST = "RequestedByEvictionRequest"


def a_pod() -> tuple[NodeWorld, WorkloadBound]:
    """A bare pod on the only node for it."""
    world = NodeWorld("n1", WITNESS)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    world.declare("Pod", "web", pod_spec())
    world.run()
    return world, binding(world)


def binding(world: World, name: str = "web") -> WorkloadBound:
    """The only binding whose workload's name begins like this."""
    (found,) = [one for one in world.flow.table(BINDINGS).values() if one.workload.name.startswith(name)]
    assert isinstance(found, WorkloadBound)
    return found


def task(world: World, bound: WorkloadBound) -> EvictionDecided:
    """The eviction of a binding."""
    found = world.flow.table(EVICTIONS)[f"{bound.workload}|{bound.target}|{bound.generation}"]
    assert isinstance(found, EvictionDecided)
    return found


def outcomes(world: World, bound: WorkloadBound) -> list[tuple[str, str]]:
    """The states of an eviction, with their reasons. A repeated state is left out."""
    found = [
        (one.state.value, one.reason)
        for one in world.flow.events(EVICTIONS)
        if one is not None and (one.workload, one.generation) == (bound.workload, bound.generation)
    ]
    return list(dict.fromkeys(found))


def test_a_pod_leaves_its_node() -> None:
    world, bound = a_pod()
    world.request_leave(bound, message="kernel update")
    world.run()
    found = task(world, bound)
    assert (found.state, found.requesters, found.taints) == (EvictionState.COMPLETED, (DRAIN,), ())
    assert outcomes(world, bound) == [("Requested", BY_REQUEST), ("Completed", "BindingEnded")]
    assert world.pods()["web"].state is PlacementState.EVICTED


def test_a_pod_leaves_at_the_deadline_and_not_before() -> None:
    world, bound = a_pod()
    world.request_leave(bound, deadline=world.flow.now + timedelta(seconds=30))
    world.run()
    assert task(world, bound).state is EvictionState.SCHEDULED
    world.flow.advance(29)
    world.run()
    assert binding(world) == bound
    world.flow.advance(1)
    world.run()
    assert world.flow.table(BINDINGS) == {}
    assert world.flow.table(TIMERS) == {}


@pytest.mark.parametrize("is_on", [True, False])
def test_a_resource_leaves_its_cluster_although_nothing_taints_it(*, is_on: bool) -> None:
    """Requests count as well while evictions by taints of clusters are switched off."""
    off: dict[str, Any] = {"enable_no_execute_taint_eviction": False}
    world = KarmadaWorld("c1", **({} if is_on else off))
    world.policy()
    world.deploy("web")
    world.run()
    assert world.where() == {"c1": 1}
    world.cluster("c2")
    world.request_leave(world.binding("c1"), kind=RequesterKind.MAINTENANCE, name="c1")
    world.run()
    (found,) = [one for one in world.flow.events(EVICTIONS) if one is not None and one.state is EvictionState.REQUESTED]
    assert (found.reason, found.taints) == ("RequestedByMaintenance", ())
    assert world.where() == {"c2": 1}


def _story(world: NodeWorld, bound: WorkloadBound) -> None:
    """Two requesters and a taint; one withdraws, and the pod leaves at the other's deadline."""
    world.request_leave(bound, "first", deadline=world.flow.now + timedelta(seconds=10))
    world.run()
    world.request_leave(bound, "second", deadline=world.flow.now + timedelta(seconds=20))
    world.run()
    world.flow.advance(5)
    world.withdraw_leave(bound, "first")
    world.run()
    world.flow.advance(14)
    world.run()
    assert binding(world) == bound, "it stays until the deadline of the second"
    world.flow.advance(1)
    world.run()
    assert world.flow.table(BINDINGS) == {}


def _steps() -> int:
    """The number of steps of the story."""
    world, bound = a_pod()
    before = world.flow.steps
    _story(world, bound)
    return world.flow.steps - before


@pytest.mark.parametrize("crash", list(Crash), ids=lambda one: one.name.lower())
def test_a_restart_at_every_point_changes_nothing(crash: Crash) -> None:
    world, bound = a_pod()
    _story(world, bound)
    expected = outcomes(world, bound)
    assert expected == [
        ("Scheduled", BY_REQUEST),
        ("Requested", BY_REQUEST),
        ("Completed", "BindingEnded"),
    ]
    for number in range(_steps()):
        world, bound = a_pod()
        at = world.flow.steps + number
        world.flow.crash_when = lambda _service, _partition, flow=world.flow, at=at: (  # type: ignore[misc]  # defaults bind the loop's values
            crash if flow.steps == at else None
        )
        _story(world, bound)
        assert outcomes(world, bound) == expected, f"step {number}"


@pytest.mark.parametrize("crash", list(Crash), ids=lambda one: one.name.lower())
def test_a_withdrawal_holds_whatever_restarts(crash: Crash) -> None:
    for service in ("eviction", "timer", "placement", "taint-manager"):
        world, bound = a_pod()
        world.request_leave(bound, deadline=world.flow.now + timedelta(seconds=10))
        world.run()
        dies = iter([True, False] * 4)
        world.flow.crash_when = lambda name, _partition, service=service, dies=dies: (  # type: ignore[misc]  # defaults bind the loop's values
            crash if name == service and next(dies, False) else None
        )
        world.flow.advance(9)
        world.withdraw_leave(bound)
        world.flow.advance(2)
        for _ in range(3):
            world.flow.crash_process(service)
        world.flow.crash_when = lambda _service, _partition: None
        world.run()
        assert outcomes(world, bound)[-1] == ("Cancelled", "RequestWithdrawn")
        assert binding(world) == bound
