"""Evictions that are over are removed after a while, and generations do not start again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.worlds.flow import Crash
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import lifted

from moorage.workers.eviction.service import Eviction
from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import PlacementState
from moorage_schemas.topics import BINDINGS, EVICTIONS, GENERATION_FLOORS

RETENTION = 3600.0


def world_of_one_node() -> NodeWorld:
    return NodeWorld("n1", settings=lifted(partitions=3, eviction_retention=RETENTION))


def evicted(world: NodeWorld, name: str, *, times: int = 1) -> int:
    """Evict a pod this number of times, delete it, and return the highest generation of its bindings."""
    for number in range(times):
        world.declare("Pod", name, pod_spec(), uid=f"{name}-{number}")
        world.run()
        world.taint("n1", "bad")
        world.run()
        world.untaint("n1", "bad")
        world.run()
    world.delete("Pod", name)
    world.run()
    return max(int(event.generation) for event in world.flow.events(EVICTIONS) if event.workload.name == name)


def test_a_completed_eviction_is_kept_for_its_time_and_then_removed_with_its_generation() -> None:
    world = world_of_one_node()
    evicted(world, "p")
    ((key, event),) = world.flow.table(EVICTIONS).items()
    assert event.state is EvictionState.COMPLETED
    end = event.decided_time + timedelta(seconds=RETENTION)
    world.flow.advance_to(end - timedelta(microseconds=1))
    assert list(world.flow.table(EVICTIONS)) == [key]
    world.flow.advance_to(end)
    assert world.flow.table(EVICTIONS) == {}
    (floor,) = world.flow.events(GENERATION_FLOORS)
    (record,) = world.flow.records(GENERATION_FLOORS)
    assert floor.generation == event.generation
    assert (record.name, record.partition) == (str(floor.partition), floor.partition)
    assert record.partition == world.flow.records(EVICTIONS)[-1].partition
    assert record.meta.causation_id == world.flow.records(EVICTIONS)[-1].meta.causation_id


@pytest.mark.parametrize("restart", ["", "eviction", "placement"])
@pytest.mark.parametrize("tombstones", [False, True])
def test_a_workload_made_again_gets_generations_above_all_it_had(restart: str, *, tombstones: bool) -> None:
    world = world_of_one_node()
    highest = evicted(world, "p", times=4)
    assert highest > 2
    world.advance(RETENTION + 1)
    world.flow.compact(keep_tombstones=tombstones)
    if restart:
        world.flow.crash_process(restart)
    world.declare("Pod", "p", pod_spec(), uid="another")
    world.run()
    assert world.pods()["p"].state is PlacementState.PLACED
    assert world.flow.events(BINDINGS)[-1].generation == highest + 1


def test_the_floor_of_one_that_was_evicted_seldom_does_not_lower_that_of_others() -> None:
    world = world_of_one_node()
    highest = evicted(world, "often", times=3)
    world.advance(RETENTION / 2)
    assert evicted(world, "once") < highest
    world.advance(RETENTION + 1)
    assert world.flow.table(EVICTIONS) == {}
    assert {event.generation for event in world.flow.table(GENERATION_FLOORS).values()} == {highest}


def test_first_generations_stay_the_first_while_nothing_was_removed() -> None:
    world = world_of_one_node()
    evicted(world, "p", times=3)
    world.declare("Pod", "new", pod_spec())
    world.run()
    assert world.flow.events(BINDINGS)[-1].generation == 1


def test_a_cancelled_eviction_is_kept_while_its_binding_exists_and_then_for_its_time() -> None:
    world = world_of_one_node()
    spec = pod_spec(tolerations=[{"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600}])
    world.declare("Pod", "p", spec)
    world.run()
    world.taint("n1", "bad")
    world.run()
    world.untaint("n1", "bad")
    world.run()
    world.advance(RETENTION * 2)
    (event,) = world.flow.table(EVICTIONS).values()
    assert event.state is EvictionState.CANCELLED, "it may be scheduled again"
    world.delete("Pod", "p")
    world.run()
    assert world.flow.table(EVICTIONS) == {}
    assert [floor.generation for floor in world.flow.events(GENERATION_FLOORS)] == [event.generation]


def test_a_cancelled_eviction_of_an_earlier_binding_is_removed_after_a_restart() -> None:
    world = world_of_one_node()
    spec = pod_spec(tolerations=[{"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600}])
    for _ in range(2):
        world.delete("Pod", "p")
        world.run()
        world.declare("Pod", "p", spec)
        world.run()
        world.taint("n1", "bad")
        world.run()
        world.untaint("n1", "bad")
        world.run()
    earlier, present = sorted(event.generation for event in world.flow.table(EVICTIONS).values())
    world.flow.crash_process("eviction")
    world.run()
    world.advance(RETENTION * 2)
    assert earlier < present
    assert [event.generation for event in world.flow.table(EVICTIONS).values()] == [present]


def test_what_became_old_while_eviction_was_away_is_removed_when_it_is_back() -> None:
    world = world_of_one_node()
    evicted(world, "p")
    world.flow.stop("eviction")
    world.advance(RETENTION * 3)
    assert len(world.flow.table(EVICTIONS)) == 1
    world.flow.start("eviction")
    world.run()
    assert world.flow.table(EVICTIONS) == {}


@pytest.mark.parametrize("crash", [Crash.BEFORE_COMMIT, Crash.AFTER_COMMIT])
def test_a_crash_while_it_is_removed_loses_neither_half(crash: Crash) -> None:
    world = world_of_one_node()
    highest = evicted(world, "p", times=2)
    world.flow.crash_when = lambda service, _partition: crash if service == "eviction" else None
    partition = world.flow.partition("Node/n1")
    world.flow.now += timedelta(seconds=RETENTION + 1)
    world.flow.step("eviction", partition)
    world.flow.crash_when = lambda _service, _partition: None
    removed, floors = world.flow.table(EVICTIONS) == {}, world.flow.events(GENERATION_FLOORS)
    assert removed is bool(floors)
    world.run()
    assert world.flow.table(EVICTIONS) == {}
    assert [floor.generation for floor in world.flow.events(GENERATION_FLOORS)] == [highest]


def test_the_state_keeps_nothing_of_what_was_removed() -> None:
    world = world_of_one_node()
    evicted(world, "p", times=3)
    world.advance(RETENTION + 1)
    partition = world.flow.partition("Node/n1")
    state = world.flow.state(Eviction.name, partition)
    assert len(state.ended) == 0
    assert not any(target.tasks for target in state.targets.values())
