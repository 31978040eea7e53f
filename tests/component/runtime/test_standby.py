"""What a standby has read is what the owner's state would be, and the owner reads only the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.toys import COUNTED, KNOWN, NUMBERS, TABLE, TALLIES, Counter, CounterState, Known, Number, Tally

from moorage.runtime.engine.engine import EngineRules, PartitionEngine
from moorage.runtime.engine.partition_tables import PartitionTables, Standby
from moorage.runtime.engine.requests import Announce, Bounded, Bounds, Read, Span
from moorage.runtime.service import source_name
from moorage.runtime.wire.codec import SOURCES_HEADER, sources_value
from moorage.runtime.wire.record_format import KafkaFormat
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.topics import Topic

TOPICS = (NUMBERS, TABLE, TALLIES, KNOWN)


@dataclass
class Log:
    """One partition of every topic, as records that are committed."""

    records: dict[Topic, list[Any]] = field(default_factory=lambda: {topic: [] for topic in TOPICS})

    def end(self, topic: Topic) -> int:
        return len(self.records[topic])

    def write(self, topic: Topic, key: str, event: Model | None, rests_on: Mapping[Topic, int] | None = None) -> None:
        meta = Meta(id=f"{topic.short}-{self.end(topic)}", source=source_name(Counter.name), type=topic.event_type)
        headers = to_headers(meta)
        if rests_on is not None:
            headers.append((SOURCES_HEADER, sources_value({one.short: at for one, at in rests_on.items()})))
        record = SimpleNamespace(
            topic=topic.short,
            partition=0,
            offset=self.end(topic),
            key=key.encode(),
            value=None if event is None else event.model_dump_json().encode(),
            headers=headers,
            timestamp=0,
        )
        self.records[topic].append(record)

    def between(self, span: Span) -> list[Any]:
        return self.records[span.topic][span.begin : span.end]


def tables() -> PartitionTables[CounterState]:
    return PartitionTables(Counter(), 0, KafkaFormat(), partitions=1)


def restored(
    log: Log,
    committed: Mapping[Topic, int | None],
    ready: PartitionTables[CounterState] | None = None,
    begin: Mapping[Topic, int] | None = None,
) -> tuple[PartitionEngine[CounterState], list[Span]]:
    """An engine that is restored, and what it read for that."""
    engine = PartitionEngine(Counter(), 0, rules=EngineRules(partitions=1), form=KafkaFormat())
    steps = engine.restore(committed, None, ready=ready)
    answer: Bounded | None = None
    read: list[Span] = []
    while True:
        try:
            request = steps.send(answer)
        except StopIteration:
            return engine, read
        answer = None
        match request:
            case Bounds():
                ends = (*request.end, *request.committed)
                begins = {topic: (begin or {}).get(topic, 0) for topic in request.begin}
                answer = Bounded(begins, {topic: log.end(topic) for topic in ends})
            case Read(spans):
                for span in spans:
                    if span.end > span.begin:
                        read.append(span)
                        engine.fold(span.topic, log.between(span))
            case Announce():
                pass
            case _:
                raise AssertionError(request)


def tally(key: str, count: int) -> Tally:
    return Tally(key=key, count=count, total=count)


def test_a_record_of_a_source_counts_when_its_owner_has_processed_it() -> None:
    log = Log()
    for number in range(4):
        log.write(TABLE, f"k{number}", Number(key=f"k{number}", n=number))
    found = tables()
    standby = Standby(found, most=10)
    standby.offer(TABLE, log.records[TABLE])
    assert found.state.table == {}
    standby.processed({TABLE: 1})
    assert found.state.table == {"k0": 0}
    log.write(TALLIES, "k0", tally("k0", 1), {NUMBERS: 0, TABLE: 3})
    standby.offer(TALLIES, log.records[TALLIES])
    assert found.state.table == {"k0": 0, "k1": 1, "k2": 2}, "the state record rests on them"
    standby.processed({TABLE: 2})
    assert found.positions[TABLE] == 3


def test_a_standby_whose_owner_stands_still_asks_for_no_more() -> None:
    log = Log()
    for number in range(6):
        log.write(TABLE, f"k{number}", Number(key=f"k{number}", n=number))
    standby = Standby(tables(), most=4)
    standby.offer(TABLE, log.records[TABLE][:3])
    assert not standby.is_full(TABLE)
    standby.offer(TABLE, log.records[TABLE][3:5])
    assert standby.is_full(TABLE)
    standby.processed({TABLE: 2})
    assert not standby.has_room(TABLE)
    standby.processed({TABLE: 3})
    assert standby.has_room(TABLE)
    assert not standby.is_full(KNOWN), "a table that is folded in at once is never full"


def test_the_owner_reads_only_the_rest() -> None:
    log = Log()
    for number in range(5):
        log.write(TABLE, f"k{number}", Number(key=f"k{number}", n=number))
        log.write(TALLIES, f"k{number}", tally(f"k{number}", 1), {NUMBERS: number + 1, TABLE: number})
        log.write(KNOWN, f"a{number}", Known(name=f"a{number}"))
    standby = Standby(ready := tables(), most=10)
    for topic in (TABLE, TALLIES, KNOWN):
        standby.offer(topic, log.records[topic][:3])
    engine, read = restored(log, {NUMBERS: 1, TABLE: 1}, ready)
    assert read == [Span(TALLIES, 3, 5), Span(KNOWN, 3, 5), Span(TABLE, 2, 4)]
    cold, everything = restored(log, {NUMBERS: 1, TABLE: 1})
    assert sum(span.end - span.begin for span in everything) == 14
    assert engine.state == cold.state
    assert engine.positions == cold.positions == {NUMBERS: 5, TABLE: 4}


def test_the_owner_begins_with_nothing_when_a_record_is_to_be_processed_again() -> None:
    """The committed offsets were set back."""
    log = Log()
    for number in range(5):
        log.write(TABLE, f"k{number}", Number(key=f"k{number}", n=number))
    standby = Standby(ready := tables(), most=10)
    standby.offer(TABLE, log.records[TABLE])
    standby.processed({TABLE: 4})
    engine, read = restored(log, {NUMBERS: None, TABLE: 2}, ready)
    assert read == [Span(TABLE, 0, 2)]
    assert engine.state.table == {"k0": 0, "k1": 1}
    assert engine.positions[TABLE] == 2


def test_the_owner_begins_with_nothing_when_records_are_gone_that_were_not_read() -> None:
    log = Log()
    for number in range(5):
        log.write(KNOWN, f"a{number}", Known(name=f"a{number}"))
    standby = Standby(ready := tables(), most=10)
    standby.offer(KNOWN, log.records[KNOWN][:2])
    _, read = restored(log, {NUMBERS: None, TABLE: None}, ready, begin={KNOWN: 3})
    assert read == [Span(KNOWN, 3, 5)]
    assert ready.state.known == {"a0", "a1"}


def test_the_owner_begins_with_nothing_when_a_table_is_shorter_than_what_was_read() -> None:
    log, other = Log(), Log()
    for number in range(5):
        log.write(TALLIES, f"k{number}", tally(f"k{number}", 1), {NUMBERS: 0})
    other.write(TALLIES, "k9", tally("k9", 1), {NUMBERS: 0})
    standby = Standby(ready := tables(), most=10)
    standby.offer(TALLIES, log.records[TALLIES])
    engine, _ = restored(other, {NUMBERS: None, TABLE: None}, ready)
    assert engine.state.tallies.keys() == {"k9"}


@st.composite
def histories(draw: st.DrawFn) -> tuple[Log, dict[Topic, int], dict[Topic, int], list[tuple[Topic | None, int]]]:
    """A log as an owner has written it, the offsets at the end, those of before, and how a standby has read it."""
    log = Log()
    positions = {NUMBERS: 0, TABLE: 0}
    committed = dict(positions)
    before = dict(positions)
    keys = st.sampled_from(["a", "b", "c"])
    for step in range(draw(st.integers(1, 12))):
        for _ in range(draw(st.integers(0, 3))):
            key = draw(keys)
            log.write(TABLE, key, draw(st.sampled_from([None, Number(key=key, n=step)])))
        if draw(st.booleans()):
            positions[TABLE] = draw(st.integers(positions[TABLE], log.end(TABLE)))
            positions[NUMBERS] += 1
            key = draw(keys)
            log.write(TALLIES, key, draw(st.sampled_from([None, tally(key, step)])), positions)
        if draw(st.booleans()):
            committed = dict(positions)
        if draw(st.booleans()):
            before = dict(committed)
        key = draw(keys)
        log.write(KNOWN, key, draw(st.sampled_from([None, Known(name=key)])))
    reads = st.lists(st.tuples(st.sampled_from([TABLE, TALLIES, KNOWN, None]), st.integers(1, 4)), max_size=25)
    return log, committed, before, draw(reads)


@given(histories())
def test_however_a_standby_reads_the_owner_has_the_state_of_a_cold_restore(
    history: tuple[Log, dict[Topic, int], dict[Topic, int], Sequence[tuple[Topic | None, int]]],
) -> None:
    log, committed, before, reads = history
    standby = Standby(ready := tables(), most=1000)
    read = dict.fromkeys((TABLE, TALLIES, KNOWN), 0)
    for topic, count in reads:
        if topic is None:
            standby.processed(before)
        elif log.records[topic][read[topic] :]:
            standby.offer(topic, log.records[topic][read[topic] : read[topic] + count])
            read[topic] = min(log.end(topic), read[topic] + count)
    warm, _ = restored(log, committed, ready)
    cold, _ = restored(log, committed)
    assert warm.state == cold.state
    assert warm.positions == cold.positions
    assert COUNTED not in ready.positions
