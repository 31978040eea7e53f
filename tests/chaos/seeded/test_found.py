"""What seeds have found, told as short stories."""

from __future__ import annotations

import asyncio

from tests.chaos.seeded.checker import check
from tests.chaos.seeded.kafka.inputs import tolerate
from tests.chaos.seeded.kafka.world import World

NOT_READY = "node.kubernetes.io/not-ready"


async def granted_and_taken_back(world: World) -> None:
    """The last ready node goes, so the governor takes a grant back; the taint-manager stands still just then."""
    people = world.people
    for name in ("n1", "n2"):
        people.node(name, zone="a")
        people.report("Node", name, status="True")
    people.pod("p", [tolerate(NOT_READY, 4)], nodeName="n1")
    await world.settle()
    people.report("Node", "n1", status="False")
    await asyncio.sleep(2.0)
    people.report("Node", "n2", status="False")
    while not any(  # noqa: ASYNC110 - virtual time costs nothing
        b'"granted":false' in (entry.value or b"") for entry in world.cluster.entries
    ):
        await asyncio.sleep(0.001)
    for replica in world.of("taint-manager"):
        replica.pause(4.0)
    await asyncio.sleep(6.0)
    await world.settle()


def test_nobody_is_evicted_whose_taint_the_governor_has_taken_back() -> None:
    history = World(1, settings={"partitions": 1}).play(granted_and_taken_back)
    assert any(b'"Scheduled"' in (entry.value or b"") for entry in history.entries)
    assert not any(b'"Requested"' in (entry.value or b"") for entry in history.entries)
    assert check(history) == []


async def ready_again_and_nobody_there(world: World) -> None:
    """A node is ready again for longer than removals are held, but the taint-manager is away when the hold ends."""
    people = world.people
    for name in ("n1", "n2"):
        people.node(name, zone="a")
        people.report("Node", name, status="True")
    people.pod("p", [tolerate(NOT_READY, 6)], nodeName="n1")
    await world.settle()
    people.report("Node", "n1", status="False")
    await asyncio.sleep(1.0)
    people.report("Node", "n1", status="True")
    await asyncio.sleep(1.0)
    for replica in world.of("taint-manager"):
        replica.cut(12.0)
    await asyncio.sleep(25.0)
    await world.settle()


def test_nobody_is_evicted_for_a_taint_whose_hold_is_over() -> None:
    settings = {"partitions": 1, "taint_remove_hold": 2}
    history = World(1, settings=settings).play(ready_again_and_nobody_there)
    assert any(b'"Scheduled"' in (entry.value or b"") for entry in history.entries)
    assert not any(b'"Requested"' in (entry.value or b"") for entry in history.entries)
    assert check(history) == []


async def due_by_a_clock_that_is_ahead(world: World) -> None:
    """The timer's clock is ahead, and when it fires the taint-manager still has to tell that it has read all."""
    people = world.people
    people.node("n1")
    people.pod("p", [tolerate("maint", 2)], nodeName="n1")
    await world.settle()
    for replica in world.of("timer"):
        replica.skew(1.2)
    people.taint("Node", "n1", "maint")
    await asyncio.sleep(0.75)
    people.report("Node", "n1", status="True")
    await asyncio.sleep(10.0)


def test_an_eviction_whose_timer_fired_early_is_requested_all_the_same() -> None:
    history = World(1, workers=1, settings={"partitions": 1}).play(due_by_a_clock_that_is_ahead)
    assert any(b'"Requested"' in (entry.value or b"") for entry in history.entries)
    assert check(history) == []


async def no_replacement_and_then_one(world: World) -> None:
    """A resource must leave its last cluster and has nowhere to go; then a taint of another cluster is lifted."""
    people = world.people
    for name in ("c0", "c1"):
        people.declare("Cluster", name)
        people.report("Cluster", name, status="True")
    people.declare("ConfigMap", "shared")
    people.declare(
        "PropagationPolicy",
        "all",
        {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "placement": {"clusterAffinity": {"clusterNames": ["c0", "c1"]}},
        },
    )
    await world.settle()
    await people.taint("Cluster", "c1", "maint")
    await asyncio.sleep(5.0)
    await people.taint("Cluster", "c0", "maint")
    await asyncio.sleep(2.0)
    await people.untaint("Cluster", "c1", "maint")
    await asyncio.sleep(15.0)
    await world.settle()


def test_decisions_that_one_request_leads_to_are_told_apart() -> None:
    settings = {"partitions": 1, "feature_gates": "Failover=true", "enable_no_execute_taint_eviction": True}
    world = World(1, workers=1, settings=settings)
    world.deployer()
    history = world.play(no_replacement_and_then_one)
    decided = [
        entry
        for entry in history.entries
        if entry.topic == "placements" and entry.value is not None and b"ConfigMap" in entry.value
    ]
    causes = [entry.headers["ce_causationid"] for entry in decided]
    assert any(b'"NoReplacement"' in (entry.value or b"") for entry in decided)
    assert len(set(causes)) < len(causes), "no request leads to two decisions, so the test shows nothing"
    assert check(history) == []


async def gone_while_its_governor_stood_still(world: World) -> None:
    """A node goes while the governor stands still for longer than its tombstone is kept; then the others are silent."""
    people = world.people
    world.cluster.clean_every(1.5)
    for name in ("n1", "n2", "n3"):
        people.node(name, zone="a")
        people.report("Node", name, status="True")
    await world.settle()
    (owner,) = [one for one in world.of("governor") if one.worker is not None and one.worker.tasks]
    owner.pause(60.0)
    await asyncio.sleep(1.0)
    people.delete("Node", "n1")
    await asyncio.sleep(4.0)
    for name in ("n2", "n3"):
        people.report("Node", name, status="Unknown")
    await asyncio.sleep(60.0)
    await world.settle()


def test_a_standby_does_not_begin_with_a_node_whose_tombstone_is_gone() -> None:
    settings = {"partitions": 1, "session_timeout_ms": 25_000, "node_eviction_rate": 1000.0}
    cleaned = {"": {"min.compaction.lag.ms": "3000", "delete.retention.ms": "8000"}}
    history = World(1, settings=settings, topic_config=cleaned).play(gone_while_its_governor_stood_still)
    assert not any(b'"granted":true' in (entry.value or b"") for entry in history.entries)
    assert check(history) == []
