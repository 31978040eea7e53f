"""Processes that stand still for longer than tombstones are kept."""

from __future__ import annotations

import asyncio

from tests.chaos.seeded.checker import check
from tests.chaos.seeded.kafka.world import World
from tests.support.tables import table

QUIET = 65.0  # longer than taints and conditions of targets that are not there are kept after a start
CLEANED = {"": {"min.compaction.lag.ms": "100", "delete.retention.ms": "4000"}}


@table("service", ["placement", "eviction", "taint-manager", "timer", "governor", "condition-ingest"])
@table("how", ["pause", "cut"])
def test_what_was_deleted_meanwhile_is_forgotten(service: str, how: str) -> None:
    """A process that is stopped, or cut off, goes on from where it was, and its tombstones are gone."""

    async def story(world: World) -> None:
        people = world.people
        world.cluster.clean_every(0.5)
        for name in ("n1", "n2"):
            people.node(name)
            people.report("Node", name, status="True")
        people.declare("EvictionPause", "all", spec={"scope": {}}, namespace="")
        people.pod("p", nodeName="n1")
        await world.settle(quiet=QUIET)
        for replica in world.of(service):
            getattr(replica, how)(20.0)
        await asyncio.sleep(0.1)
        people.delete("Pod", "p")
        people.delete("EvictionPause", "all", namespace="")
        people.delete("Node", "n2")
        await asyncio.sleep(19.0)
        for number in range(3):  # what was deleted is not the last record of its partition
            people.node(f"n{number + 3}")
        await asyncio.sleep(3.0)
        people.pod("q", nodeName="n1")
        people.taint("Node", "n1", "maint")
        await world.settle(quiet=QUIET)

    history = World(3, workers=1, settings={"partitions": 1}, topic_config=CLEANED).play(story)
    assert check(history) == []
