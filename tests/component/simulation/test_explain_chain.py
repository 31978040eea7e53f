"""Chains of events are complete if every record exists, and name the missing ones otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.component.simulation.explained import copy
from tests.support.worlds.nodes import NodeWorld
from tests.support.worlds.world import TEMPLATE, lifted

from moorage.insight.copy.snapshot import Kept
from moorage.insight.explain.chain import Listed, Trail, target_of
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import CONDITIONS, PLACEMENTS, RESOURCES, TAINTS, Topic

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def record(topic: Topic, key: str, name: str, *, cause: str = "", chain: str = "first", seconds: int = 0) -> Kept:
    """A record without an event, because chains only use attributes."""
    when = NOW + timedelta(seconds=seconds)
    meta = Meta(id=name, source="s", type=topic.event_type, time=when, correlation_id=chain, causation_id=cause)
    return Kept(topic, 0, seconds, key, None, meta, when)


@cache
def story() -> tuple[Kept, ...]:
    """All records of a node that fails, and of its pods."""
    world = NodeWorld("n1", "n2", "n3", settings=lifted(partitions=3))
    world.declare("Deployment", "web", {"replicas": 4, "template": TEMPLATE})
    for name in ("n1", "n2", "n3"):
        world.report(name, status="True")
    world.run()
    world.report("n1", status="False")
    world.flow.advance(400)
    return tuple(copy(world.flow).all())


@given(st.data())
@settings(max_examples=60)
def test_whatever_is_missing_the_chain_ends_and_says_so(data: st.DataObject) -> None:
    every = story()
    last = data.draw(st.sampled_from([one for one in every if one.topic in {PLACEMENTS, TAINTS}]))
    whole = Trail(Listed(every)).chain("it", last)
    assert whole.whole
    assert whole.steps[-1].record is last
    inner = [step.record for step in whole.steps[:-1] if step.record is not None]
    gone = data.draw(st.sets(st.sampled_from([one.meta.id for one in inner]))) if inner else set()
    found = Trail(Listed([one for one in every if one.meta.id not in gone])).chain("it", last)
    assert found.steps[-1].record is last
    assert found.whole == (not gone)
    ids = [step.record.meta.id for step in found.steps if step.record is not None]
    assert len(ids) == len(set(ids))
    assert not gone & set(ids)
    assert all(step.note for step in found.steps if step.record is None)
    times = [step.time for step in found.steps if step.time is not None]
    assert times == sorted(times)


def test_what_caused_itself_or_goes_round_ends() -> None:
    own = record(TAINTS, "Node/n1", "a", cause="a")
    assert [step.record for step in Trail(Listed([own])).chain("it", own).steps] == [own]
    one, two = record(TAINTS, "Node/n1", "a", cause="b"), record(CONDITIONS, "Node/n1|Ready", "b", cause="a")
    assert [step.record for step in Trail(Listed([one, two])).chain("it", one).steps] == [two, one]


def test_the_first_event_is_told_as_lost_when_it_is_not_there() -> None:
    condition = record(CONDITIONS, "Node/n1|Ready", "b", cause="first")
    chain = Trail(Listed([condition])).chain("it", condition)
    assert [step.lost for step in chain.steps] == ["first", ""]
    assert "reports are kept for a limited time" in chain.steps[0].note
    assert not chain.whole


def test_the_chain_goes_on_with_what_is_about_the_same_target() -> None:
    taints = record(TAINTS, "Node/n1", "d", cause="c", seconds=3)
    mine = record(CONDITIONS, "Node/n1|Ready", "b", seconds=1)
    other = record(CONDITIONS, "Node/n2|Ready", "e", seconds=2)
    stranger = record(CONDITIONS, "Node/n1|Ready", "f", chain="another", seconds=2)
    chain = Trail(Listed([taints, mine, other, stranger])).chain("it", taints)
    assert [step.record for step in chain.steps] == [mine, None, taints]
    assert "the nearest earlier event" in chain.steps[0].note


def test_a_chain_that_is_part_of_another_is_told_once() -> None:
    condition = record(CONDITIONS, "Node/n1|Ready", "b")
    taints = record(TAINTS, "Node/n1", "c", cause="b")
    trail = Trail(Listed([condition, taints]))
    assert [one.about for one in trail.chains([("taints", taints), ("condition", condition)])] == ["taints"]
    assert [one.about for one in trail.chains([("condition", condition), ("taints", taints)])] == [
        *("condition", "taints")
    ]


def test_the_target_of_a_record() -> None:
    assert target_of(record(RESOURCES, "Node//n1", "a")) == "Node/n1"
    assert target_of(record(RESOURCES, "Pod/default/p", "a")) == ""
    assert target_of(record(CONDITIONS, "Node/n1|Ready", "a")) == "Node/n1"
    assert target_of(record(TAINTS, "ManagedCluster/c", "a")) == "ManagedCluster/c"
