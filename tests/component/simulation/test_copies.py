"""A copy continues exactly like the fleet itself, whenever it is taken."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from tests.component.simulation.copying import ProbedFleet, copy_of, nothing
from tests.support.tables import table
from tests.support.worlds.flow import START, Flow

from moorage.cli.local import services as live
from moorage.insight.copy import run
from moorage.insight.copy.memory import Record
from moorage.insight.copy.snapshot import Kept, Snapshot
from moorage.insight.copy.stand_ins import lives_on
from moorage.runtime.service import Input
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.envelope import Meta
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import CONDITIONS, RESOURCES, TAINTS, TIMERS, TOPICS

TEN_MINUTES = timedelta(minutes=10)


def written(flow: Flow, since: int) -> dict[str, list[tuple[str, int, bytes | None, bytes | None, str]]]:
    """The records that were written since then, by topic and in order."""
    found = {}
    for topic in TOPICS:
        some = [record for record in flow.records(topic) if record.seq >= since]
        if some:
            found[topic.short] = contents(some)
    return found


def contents(records: list[Record]) -> list[tuple[str, int, bytes | None, bytes | None, str]]:
    """The records of each partition in order."""
    return [record.content for record in sorted(records, key=lambda one: (one.partition, one.seq))]


def busy(seed: int) -> tuple[ProbedFleet, random.Random]:
    """A busy fleet: some of its records have been processed, others have not."""
    rng = random.Random(seed)  # noqa: S311 - the random choices must be repeatable
    made = ProbedFleet({"a": 2, "b": 2}, node_monitor_grace_period=0)
    made.deploy("web", 5, 60)
    made.taint("a1", "bad")
    made.flow.advance(30)
    made.report("b1", "Ready", "False")
    made.taint("a2", "worse")
    places = [(name, p) for name in made.flow.services for p in range(made.flow.partitions)]
    for _ in range(rng.randint(0, 60)):
        made.flow.step(*rng.choice(places), limit=rng.choice([1, 2, None]))
    return made, rng


@table("seed", range(8))
def test_a_copy_writes_what_the_fleet_writes(seed: int) -> None:
    """The bytes and ids are the same, in the same order within each partition."""
    made, _ = busy(seed)
    snapshot, since = copy_of(made.flow), made.flow.topics.written
    found = run.simulate(snapshot, made.settings, nothing, TEN_MINUTES)
    made.flow.advance(TEN_MINUTES)
    assert {short: contents(some) for short, some in found.without.records.items()} == written(made.flow, since)
    assert {short: contents(some) for short, some in found.changed.records.items()} == written(made.flow, since)


@pytest.mark.parametrize("seed", range(4))
def test_the_last_record_of_each_key_is_enough(seed: int) -> None:
    """This holds below the position of the slowest service. Above it everything is kept, as in `Snapshot.load`."""
    made, _ = busy(seed)
    whole = copy_of(made.flow)
    thin = run.simulate(_thinned(whole), made.settings, nothing, TEN_MINUTES)
    thick = run.simulate(whole, made.settings, nothing, TEN_MINUTES)
    assert len(list(_thinned(whole).all())) < len(list(whole.all()))
    for short, some in thick.without.records.items():
        assert contents(thin.without.records[short]) == contents(some)
    assert thin.without.records.keys() == thick.without.records.keys()


def _thinned(whole: Snapshot) -> Snapshot:
    slowest = {
        (topic.short, p): min(
            (at for (_, short, part), at in whole.positions.items() if (short, part) == (topic.short, p)),
            default=whole.ends.get((topic.short, p), 0),
        )
        for topic in TOPICS
        for p in range(whole.partitions)
    }
    last = {(one.topic.short, one.partition, one.key): one for one in _below(whole, slowest)}
    kept = {id(one) for one in last.values()}
    below = {id(one) for one in _below(whole, slowest)}
    return Snapshot.of(
        [one for one in whole.all() if id(one) not in below or id(one) in kept],
        partitions=whole.partitions,
        positions=whole.positions,
        ends=whole.ends,
        taken=whole.taken,
    )


def _below(whole: Snapshot, slowest: dict[tuple[str, int], int]) -> list[Kept]:
    return [one for one in whole.all() if one.offset < slowest[one.topic.short, one.partition]]


def test_every_service_takes_part() -> None:
    assert {one.name for one in run.services(Settings())} == set(live.names())


def test_a_simulation_changes_nothing_in_the_copy() -> None:
    made, _ = busy(1)
    snapshot = copy_of(made.flow)
    before = [(one.topic.short, one.partition, one.offset, one.event, one.meta) for one in snapshot.all()]
    ends, positions = dict(snapshot.ends), dict(snapshot.positions)
    run.simulate(snapshot, made.settings, nothing, TEN_MINUTES)
    assert [(one.topic.short, one.partition, one.offset, one.event, one.meta) for one in snapshot.all()] == before
    assert (snapshot.ends, snapshot.positions) == (ends, positions)


def test_heartbeat_timers_of_the_copy_stay_as_they_are_in_its_topics() -> None:
    """The copy's timer service holds them back. No record is changed for that."""
    made = ProbedFleet({"a": 1})
    stack = run.restored(copy_of(made.flow), made.settings)
    stack.run()
    (timer,) = stack.table(TIMERS).values()
    assert timer.deadline == START + timedelta(seconds=40)
    stack.advance(1000)
    assert {event.status.value for event in stack.table(CONDITIONS).values()} == {"True"}


def taints(name: str, generation: int, offset: int, partition: int = 0) -> Input:
    target = TargetRef(kind=TargetKind.NODE, name=name)
    event = TargetTainted(target=target, generation=generation)
    meta = Meta(id=f"{name}-{generation}", source="test", type=TAINTS.event_type, time=START)
    return Input(TAINTS, partition, offset, target.key, event, meta)


def test_what_a_snapshot_tells() -> None:
    gone = Input(TAINTS, 0, 7, "Node/b", None, Meta(id="gone", source="test", type=TAINTS.event_type))
    snapshot = Snapshot.of([taints("a", 1, 2), taints("b", 1, 4), taints("a", 2, 5), gone], partitions=1)
    assert [one.offset for one in snapshot.records(TAINTS)] == [2, 4, 5, 7]
    assert snapshot.ends == {("taints", 0): 8}
    assert list(snapshot.table(TAINTS)) == ["Node/a"]
    last = snapshot.last(TAINTS, "Node/a")
    assert last is not None
    assert (last.offset, last.timestamp) == (5, START)
    tombstone = snapshot.last(TAINTS, "Node/b")
    assert tombstone is not None
    assert tombstone.event is None
    assert snapshot.last(TAINTS, "Node/c") is None
    found = snapshot.find("a-1")
    assert found is not None
    assert found.offset == 2
    assert snapshot.find("nobody") is None
    assert snapshot.position("eviction", TAINTS, 0) == 8
    assert Snapshot.of([], positions={("eviction", "taints", 0): 3}).position("eviction", TAINTS, 0) == 3
    assert lives_on(snapshot) is snapshot


def test_only_what_is_valid_is_kept_valid() -> None:
    def score(name: str, until: str, offset: int) -> Input:
        body = {
            "kind": "AddOnPlacementScore",
            "metadata": {"name": name, "namespace": "c1"},
            "status": {"validUntil": until},
        }
        event = ResourceDeclared(object=body, version=1)
        return Input(RESOURCES, 0, offset, event.key, event, Meta(id=name, source="test", type="t", time=START))

    old, new = score("old", "2025-12-31T23:59:59Z", 0), score("new", "2026-01-01T00:00:01Z", 1)
    kept = lives_on(Snapshot.of([old, new, score("odd", "soon", 2)], partitions=1, taken=START)).table(RESOURCES)
    untils = {event.name: event.object["status"]["validUntil"] for event in kept.values()}
    assert untils["old"] == "2025-12-31T23:59:59Z"
    assert untils["odd"] == "soon"
    assert untils["new"] > "2100"
