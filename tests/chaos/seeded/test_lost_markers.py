"""Markers that are lost on one topic alone, after a commit that was answered at once."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import TopicPartition
from tests.chaos.seeded.checker import check
from tests.chaos.seeded.kafka.inputs import tolerate
from tests.chaos.seeded.kafka.world import CHAINED, SERVICES, World
from tests.chaos.seeded.replay import problems, replayed

from moorage_schemas.refs import WorkloadRef
from moorage_schemas.topics import CONDITIONS, TIMERS

FORMS = pytest.mark.parametrize("services", [tuple(SERVICES), CHAINED], ids=["alone", "chained"])


async def scheduled_without_markers(world: World) -> None:
    people = world.people
    people.node("n1")
    people.pod("p", [tolerate("maint", 100)], nodeName="n1")
    await world.settle()
    timers = TopicPartition(TIMERS.name(world.settings.topic_prefix), 0)
    world.cluster.transactions.losing = {timers}
    people.taint("Node", "n1", "maint")
    while not any(  # noqa: ASYNC110 - virtual time costs nothing
        b'"Scheduled"' in (entry.value or b"") for entry in world.cluster.entries
    ):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    world.cluster.transactions.losing = None


@FORMS
def test_other_services_start_though_a_timer_hangs(services: tuple[str, ...]) -> None:
    """Only its writer can end it, and has no reason to write there."""

    async def story(world: World) -> None:
        await scheduled_without_markers(world)
        world.of("condition-ingest")[0].crash(back_after=1)
        await asyncio.sleep(3)
        await world.ready(within=40)
        await world.settle()

    assert check(World(5, workers=1, settings={"partitions": 1}, services=services).play(story)) == []


@FORMS
def test_the_eviction_is_not_late_for_it(services: tuple[str, ...]) -> None:
    async def story(world: World) -> None:
        await scheduled_without_markers(world)
        await asyncio.sleep(105)
        await world.settle()

    history = World(5, workers=1, settings={"partitions": 1}, services=services).play(story)
    assert check(history) == []
    asked = next(e for e in history.entries if e.topic == "evictions" and b'"Scheduled"' in (e.value or b""))
    gone = next(e for e in history.entries if e.topic == "evictions" and b'"Requested"' in (e.value or b""))
    assert gone.committed - asked.committed < 101


@FORMS
def test_a_report_is_not_lost_because_later_state_is_there(services: tuple[str, ...]) -> None:
    """The condition of one report is lost with its marker; that of the next, of another topic, is not."""

    async def story(world: World) -> None:
        people = world.people
        people.node("n1")
        people.pod("p", nodeName="n1")
        people.report("Node", "n1", status="True")
        await world.settle()
        world.cluster.transactions.losing = {TopicPartition(CONDITIONS.name(world.settings.topic_prefix), 0)}
        await people.report("Node", "n1", status="False")
        await asyncio.sleep(1)
        world.cluster.transactions.losing = None
        assert [tp.topic for _, tp in world.cluster.transactions.lost] == [
            CONDITIONS.name(world.settings.topic_prefix)
        ], "one marker is lost, or the test shows nothing"
        await people.report(
            "Node", "n1", "Healthy", "True", workload=WorkloadRef(kind="Pod", namespace="default", name="p")
        )
        await asyncio.sleep(30)
        await world.settle()

    world = World(5, workers=1, settings={"partitions": 1}, services=services)
    history = world.play(story)
    topics = [e.topic for e in history.entries if e.topic in {"conditions", "workload-conditions"}]
    assert topics == ["conditions", "workload-conditions", "conditions"]
    # A chain has written taints by the lost condition, and does so again by the one that is written anew, which has the
    # same id and a later time.
    allowed = {"nothing_is_done_twice"} if services == CHAINED else set()
    assert {found.invariant for found in check(history)} <= allowed
    told = problems(replayed(world.cluster))
    assert all("was read and no longer exists" in one for one in told) if services == CHAINED else told == []
