"""Parts of the runtime that need no broker: codec, encoder, watchdog, dead letters."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from tests.support.toys import COUNTED, NUMBERS, TABLE, TALLIES, Counted, Counter, Number, Tally

from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.encode import Encoder
from moorage.runtime.kafka.partition.watchdog import OUTAGE_FACTOR, Watchdog
from moorage.runtime.process.member import Behind
from moorage.runtime.service import Emit, Input, Malformed, RawRecord, child_meta
from moorage.runtime.wire import codec
from moorage.runtime.wire.record_format import dead_letter
from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.envelope import EnvelopeError, Meta, from_headers, to_headers
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import DEAD_LETTERS, TAINTS

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

text = st.text(min_size=1, max_size=20)
times = st.one_of(st.none(), st.datetimes(timezones=st.just(UTC), min_value=datetime(1970, 1, 1)))  # noqa: DTZ001 - hypothesis wants it naive
maybe = st.text(max_size=9)
metas = st.builds(Meta, text, text, text, times, maybe, maybe, maybe, maybe, st.integers(0, 10**17), st.just(()))


@given(metas)
def test_the_short_reading_of_headers_gives_what_the_full_one_gives(meta: Meta) -> None:
    headers = to_headers(meta)
    assert codec._meta(dict(headers)) == from_headers(headers) == meta


@given(
    st.dictionaries(
        st.sampled_from(["ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time", "traceparent"]),
        st.one_of(st.binary(max_size=6), st.sampled_from([b"1.0", b"2026-01-01T00:00:00+02:00", b"2026-01-01"])),
    )
)
def test_the_short_reading_refuses_what_the_full_one_refuses(headers: dict[str, bytes]) -> None:
    def outcome(read: Any, argument: Any) -> object:
        try:
            return read(argument)
        except EnvelopeError as error:
            return str(error)

    assert outcome(codec._meta, headers) == outcome(from_headers, list(headers.items()))


@given(st.lists(st.tuples(metas, st.sampled_from(["a", "b"]), st.booleans(), st.sampled_from(["", "1"])), max_size=8))
def test_the_encoders_headers_are_those_of_child_meta(cases: list[tuple[Meta, str, bool, str]]) -> None:
    service = Counter()
    emits = [
        Emit(TALLIES, key, key, Tally(key=key, count=1, total=1), cause, step=step)
        if state
        else Emit(COUNTED, key, key, Counted(key=key, seq=1, n=1, total=1), cause, step=step)
        for cause, key, state, step in cases
    ]
    generations = [number % 3 for number in range(len(emits))]  # 0 while there is no configuration
    decision = BatchDecision(
        NOW,
        emits=[(emit, codec.serialize(emit)) for emit in emits],
        before={NUMBERS: 5, TABLE: 0},
        configurations=generations,
    )
    records = Encoder(service, prefix="p", partitions=4).records(decision, {"toy-numbers": 7, "toy-table": 0})
    seen: dict[tuple[str, str, str, str], int] = {}
    for emit, record, generation in zip(emits, records, generations, strict=True):
        which = (emit.cause.id, emit.topic.short, emit.key, emit.step)
        ordinal = seen.get(which, 0)
        seen[which] = ordinal + 1
        meta = child_meta(emit, source="moorage/counter", now=NOW, ordinal=ordinal, configuration=generation)
        wanted = to_headers(meta)
        if emit.topic is TALLIES:
            wanted.append(("moorage-sources", b"toy-numbers=7,toy-table=0"))
            wanted.append(("moorage-sources-before", b"toy-numbers=5"))
        assert record.headers == wanted
        assert record.topic == emit.topic.name("p")


def test_state_positions_are_taken_from_ones_own_records_only() -> None:
    headers = [("ce_source", b"moorage/counter"), ("moorage-sources", b"toy-numbers=12,toy-table=3,broken,x=y")]
    assert codec.state_positions(headers, "moorage/counter") == {"toy-numbers": 12, "toy-table": 3}
    assert codec.state_positions(headers, "moorage/other") is None
    assert codec.state_positions(headers[:1], "moorage/counter") is None


def test_where_a_batch_began_is_told_by_ones_own_records_only() -> None:
    own = ("ce_source", b"moorage/counter")
    sources = ("moorage-sources", b"toy-numbers=12,toy-table=3")
    headers = [own, sources, ("moorage-sources-before", b"toy-numbers=9")]
    assert codec.positions_before(headers, "moorage/counter") == {"toy-numbers": 9, "toy-table": 3}
    assert codec.positions_before(headers, "moorage/other") is None
    assert codec.positions_before([own, sources, ("moorage-sources-before", b"")], "moorage/counter") == {
        "toy-numbers": 12,
        "toy-table": 3,
    }
    assert codec.positions_before([own, sources], "moorage/counter") == {}, "an earlier version wrote it"


def record(key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes], ...] = ()) -> Any:
    return SimpleNamespace(partition=0, offset=5, key=key, value=value, headers=headers)


def test_a_tombstone_without_attributes_is_known_by_its_place() -> None:
    one, two = codec.decode(TABLE, record(b"k", None)), codec.decode(TABLE, record(b"k", None))
    assert isinstance(one, Input)
    assert one.event is None
    assert isinstance(two, Input)
    assert one.meta.id == two.meta.id != ""


def test_table_records_in_structured_mode_are_read_too() -> None:
    from moorage_schemas.envelope import to_structured  # noqa: PLC0415 - used here only

    event = Number(key="k", n=4)
    body = __import__("json").dumps(to_structured(Meta("i", "s", TABLE.event_type), event)).encode()
    headers = (("content-type", b"application/cloudevents+json"),)
    assert codec.decode_table(TABLE, record(b"k", body, headers)) == ("k", event)
    with pytest.raises(ValueError, match="specversion"):
        codec.decode_table(TABLE, record(b"k", b"{}"))


def test_a_record_without_attributes_counts_neither_live_nor_in_a_restore() -> None:
    bare = record(b"k", b'{"key": "k", "n": 4}')
    assert isinstance(codec.decode(TABLE, bare), Malformed)
    with pytest.raises(ValueError, match="specversion"):
        codec.decode_table(TABLE, bare)


def test_a_field_of_a_newer_version_is_left_out_but_refused_from_a_third_party() -> None:
    target = {"kind": "Node", "name": "n1", "later": 1}
    taint = {
        "key": "k",
        "effect": "NoSchedule",
        "timeAdded": "2026-01-01T00:00:00Z",
        "origins": ["explicit"],
        "new": {},
    }
    value = orjson.dumps({"target": target, "generation": 1, "taints": [taint], "newer": True})
    headers = tuple(to_headers(Meta("i", "s", TAINTS.event_type)))
    found = codec.decode(TAINTS, record(b"Node/n1", value, headers))
    assert isinstance(found, Input)
    assert isinstance(found.event, TargetTainted)
    assert found.event.taints[0].key == "k"
    assert codec.decode_table(TAINTS, record(b"Node/n1", value, headers)) == ("Node/n1", found.event)
    refused = codec.decode(TAINTS, record(b"Node/n1", value, headers), third_party=True)
    assert isinstance(refused, Malformed)
    assert refused.field in {"target.later", "taints.0.new", "newer"}


def test_a_dead_letter_keeps_what_came_and_fits_its_topic() -> None:
    for value in (b"\x01" * 900_000, b'{"a": 1}', b"\xff" * 10, None):
        bad = Malformed(NUMBERS, 1, 2, RawRecord(b"\xffkey", value, (("h", b"\xfe"),)), "NotJSON", "no")
        emit = dead_letter("counter", bad, NOW)
        assert len(codec.serialize(emit) or b"") < DEAD_LETTERS.max_message_bytes
        assert isinstance(emit.event, DeadLettered)
        assert emit.event.original_size == len(value or b"")


@dataclass
class FakeOwner:
    partition: int = 0
    moves: int = 0
    idle: bool = False
    waiting: int = 3
    phase: Any = field(default_factory=lambda: SimpleNamespace(value="Running"))


class Watched:
    """A watchdog over one owner, looked at by hand."""

    def __init__(self) -> None:
        self.owner = FakeOwner()
        self.answers = True
        self.ended: list[str] = []
        self.behind = Behind()
        self.worker = SimpleNamespace(
            name="toy", tasks={0: self.owner}, idle=True, moves=1, lacks="is not in its group", behind=self._behind
        )
        worker: Any = self.worker
        self.dog = Watchdog([worker], limit=10, hidden=20, kafka_answers=self._ask, end=self.ended.append)

    async def _behind(self) -> Behind:
        return self.behind

    async def _ask(self) -> bool:
        return self.answers

    async def check(self, times: int) -> None:
        for _ in range(times):
            await self.dog.check(1.0)


async def test_the_watchdog_ends_a_process_without_progress_after_its_limit() -> None:
    watched = Watched()
    await watched.check(10)
    assert watched.ended == []
    await watched.check(1)
    assert watched.ended == ["toy partition 0 (Running, 3 records waiting) made no progress for 10 s; Kafka answers"]


async def test_progress_and_idleness_calm_the_watchdog() -> None:
    watched = Watched()
    for _ in range(5):
        await watched.check(8)
        watched.owner.moves += 1
    watched.owner.idle = True
    await watched.check(50)
    assert watched.ended == []


async def test_an_owner_that_hears_nothing_of_what_kafka_has_is_stuck_after_what_a_transaction_may_hide() -> None:
    watched = Watched()
    watched.owner.idle, watched.owner.waiting, watched.behind = True, 0, Behind(frozenset({0}))
    await watched.check(15)
    watched.owner.moves += 1  # it was only late
    await watched.check(20)
    assert watched.ended == []
    await watched.check(1)
    what = "toy partition 0 (Running, 0 records waiting) does not receive what Kafka has and"
    assert watched.ended == [f"{what} made no progress for 20 s; Kafka answers"]


async def test_a_worker_that_never_gets_its_share_is_stuck_too_and_catching_up_is_progress() -> None:
    watched = Watched()
    watched.worker.tasks.clear()
    watched.worker.idle = False
    for _ in range(3):
        await watched.check(9)
        watched.worker.moves += 1
    assert watched.ended == []
    await watched.check(11)
    assert watched.ended == ["toy, which is not in its group, made no progress for 10 s; Kafka answers"]


async def test_while_kafka_is_silent_a_longer_limit_holds() -> None:
    watched = Watched()
    watched.answers = False
    await watched.check(10 * OUTAGE_FACTOR)
    assert watched.ended == []
    await watched.check(1)
    assert len(watched.ended) == 1


async def test_a_table_that_stands_still_though_kafka_has_more_is_noticed_however_busy_its_owner_is() -> None:
    watched = Watched()
    table = TopicPartition("moorage.known", 1)
    for position in (3, 4):  # it moves, if slowly
        watched.behind = Behind(tables={table: position})
        for _ in range(10):
            watched.owner.moves += 1
            await watched.check(1)
    watched.behind = Behind()
    await watched.check(1)
    watched.behind = Behind(tables={table: 4})
    for _ in range(10):
        watched.owner.moves += 1
        await watched.check(1)
    assert watched.ended == [], "it had caught up in between"
    await watched.check(1)
    what = "toy, whose table moorage.known partition 1 does not advance although Kafka has more,"
    assert watched.ended == [f"{what} made no progress for 10 s; Kafka answers"]
