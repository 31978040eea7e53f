"""Older records of chains: which are searched, where and when, and that no others are read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from tests.component.simulation.explained import copy
from tests.support.worlds.flow import Flow
from tests.support.worlds.nodes import NodeWorld
from tests.support.worlds.world import TEMPLATE, lifted

from moorage.insight.copy.snapshot import Kept, Snapshot
from moorage.insight.explain.answer import answer
from moorage.insight.explain.document import document_of
from moorage.insight.explain.explanation import Explanation
from moorage.insight.explain.grounds import TOPICS, SnapshotGrounds
from moorage.insight.explain.history import AFTER, BEFORE, Places, Window, complete
from moorage.insight.explain.question import EXPLAINED, ROLLOUT, Question
from moorage.workers.placement.ocm.spec import PLACEMENT as OCM_PLACEMENT
from moorage.workers.placement.ocm.spec import PLACEMENT_DECISION as OCM_DECISION
from moorage_schemas.resources.workload_kinds import RESOURCE_BINDING
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, PLACEMENTS, Topic, partition_of


class Older:
    """Older records in memory, and the requests for them."""

    def __init__(self, records: Iterable[Kept]) -> None:
        self.records = list(records)
        self.windows: list[Window] = []
        self.places: list[Places] = []

    async def of_chains(self, places: Places, wanted: frozenset[bytes]) -> list[Kept]:
        self.places.append(places)
        return [
            one
            for one in self.records
            if one.partition in places.get(one.topic, ()) and one.meta.correlation.encode() in wanted
        ]

    async def of_key(self, topic: Topic, partition: int, key: str) -> list[Kept]:
        return [one for one in self.records if (one.topic, one.partition, one.key) == (topic, partition, key)]

    async def reports(self, windows: Iterable[Window], wanted: frozenset[bytes]) -> list[Kept]:
        asked = list(windows)
        self.windows += asked
        return [
            one
            for one in self.records
            if one.topic is CONDITION_REPORTS
            and one.meta.correlation.encode() in wanted
            and any(one.partition == at.partition and at.since <= one.timestamp <= at.until for at in asked)
        ]


def last_only(flow: Flow) -> Snapshot:
    """The records that a reader of the topics keeps: the last one of each key."""
    last = {(one.topic.short, one.partition, one.key): one for one in copy(flow).all() if one.topic in TOPICS}
    return Snapshot.of(last.values(), partitions=flow.partitions, taken=flow.now)


def failed_node() -> NodeWorld:
    """A node fails, and its pods move."""
    world = NodeWorld("n1", "n2", "n3", settings=lifted(partitions=3))
    world.declare("Deployment", "web", {"replicas": 4, "template": TEMPLATE})
    for name in ("n1", "n2", "n3"):
        world.report(name, status="True")
    world.run()
    world.report("n1", status="False")
    world.flow.advance(400)
    return world


async def explained(world: NodeWorld, pod: str, older: Older) -> Explanation:
    grounds = SnapshotGrounds(last_only(world.flow), lifted(partitions=3))
    told = answer(grounds, Question("Pod", "default", pod))
    assert isinstance(told, Explanation)
    await complete(told, grounds.records, older, world.flow.partitions)
    return told


async def test_with_older_records_chains_are_as_if_all_had_been_read() -> None:
    world = failed_node()
    everything = list(copy(world.flow).all())
    whole = SnapshotGrounds(copy(world.flow), lifted(partitions=3))
    moved = 0
    for pod, placed in world.pods().items():
        told = await explained(world, pod, Older(everything))
        assert document_of(told) == document_of(answer(whole, Question("Pod", "default", pod)))
        assert all(chain.whole for chain in told.chains)
        if placed.replaces:
            moved += 1
            first = next(chain for chain in told.chains if chain.about == "the decision").steps[0].record
            assert first is not None
            assert first.topic is CONDITION_REPORTS
    assert moved


async def test_a_chain_that_is_whole_asks_for_nothing() -> None:
    world = NodeWorld("n1")
    world.declare("Deployment", "web", {"replicas": 1, "template": TEMPLATE})
    world.run()
    older = Older([])
    told = await explained(world, next(iter(world.pods())), older)
    assert told.chains[0].whole
    assert (older.places, older.windows) == ([], [])


async def test_reports_are_looked_for_shortly_before_what_came_of_them() -> None:
    world = failed_node()
    pod = next(name for name, placed in world.pods().items() if placed.replaces)
    older = Older(copy(world.flow).all())
    told = await explained(world, pod, older)
    condition = next(
        step.record for step in told.chains[0].steps if step.record is not None and step.record.topic is CONDITIONS
    )
    assert older.windows == [
        Window(partition_of("Node/n1", 3), condition.timestamp - BEFORE, condition.timestamp + AFTER)
    ]
    assert partition_of("Node/n1", 3) in older.places[1][CONDITIONS], "and conditions where the targets are"


async def test_a_report_from_long_before_is_lost() -> None:
    world = failed_node()
    pod = next(name for name, placed in world.pods().items() if placed.replaces)
    early = timedelta(hours=1)
    records = [
        Kept(one.topic, one.partition, one.offset, one.key, one.event, one.meta, one.timestamp - early, one.raw)
        if one.topic is CONDITION_REPORTS
        else one
        for one in copy(world.flow).all()
    ]
    older = Older(records)
    told = await explained(world, pod, older)
    assert [step.lost != "" for step in told.chains[0].steps].count(True) == 1
    assert len(older.windows) == 1, "nothing new was found, so nothing more is looked for"


async def test_what_is_nowhere_is_lost_and_is_not_looked_for_again() -> None:
    world = failed_node()
    pod = next(name for name, placed in world.pods().items() if placed.replaces)
    older = Older([])
    told = await explained(world, pod, older)
    assert not told.chains[0].whole
    assert len(older.places) == 2
    assert {one.topic for one in copy(world.flow).all()} > {PLACEMENTS}


def test_what_can_be_asked_is_what_placement_places() -> None:
    assert EXPLAINED[:4] == (OCM_PLACEMENT, OCM_DECISION, ROLLOUT, RESOURCE_BINDING)
