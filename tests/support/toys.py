# ruff: noqa: ARG002 - toy services have the parameters of the interface, and do not use all of them
"""Small services for the tests of the runtime, and checks of their output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.service import Emit, Input, NeedFresh, Service
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.topics import DEAD_LETTERS, JOURNAL, Cleanup, Topic, partition_of


class Number(Model):
    event_type: ClassVar[str] = "io.moorage.test.number.v1"

    key: str
    n: int
    needs: str = ""


class Tally(Model):
    event_type: ClassVar[str] = "io.moorage.test.tally.v1"

    key: str
    count: int
    total: int


class Counted(Model):
    event_type: ClassVar[str] = "io.moorage.test.counted.v1"

    key: str
    seq: int
    n: int
    total: int


class Known(Model):
    event_type: ClassVar[str] = "io.moorage.test.known.v1"

    name: str


NUMBERS = Topic("toy-numbers", "key", "key", Number, Cleanup.DELETE, 3_600_000)
TABLE = Topic("toy-table", "key", "key", Number, Cleanup.COMPACT)
KNOWN = Topic("toy-known", "name", "key", Known, Cleanup.COMPACT)
TALLIES = Topic("toy-tallies", "key", "key", Tally, Cleanup.COMPACT)
COUNTED = Topic("toy-counted", "key", "key", Counted, Cleanup.DELETE, 3_600_000)
TOYS = (NUMBERS, TABLE, KNOWN, TALLIES, COUNTED, DEAD_LETTERS)


@dataclass
class CounterState:
    partition: int
    tallies: dict[str, Tally] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    table: dict[str, int] = field(default_factory=dict)


class Counter(Service[CounterState]):
    """Numbers the records of each key. A lost record leads to a gap in `n`, and a duplicate to one more `seq`."""

    name = "counter"
    sources: ClassVar[tuple[Topic, ...]] = (NUMBERS, TABLE)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({TABLE})
    changelogs: ClassVar[tuple[Topic, ...]] = (TALLIES,)
    outputs: ClassVar[tuple[Topic, ...]] = (COUNTED,)
    follows: ClassVar[tuple[Topic, ...]] = (KNOWN,)
    refuses: ClassVar[frozenset[Topic]] = frozenset()

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.fresh_calls = 0
        self.reconciled = 0
        self.dropped = 0

    def new_state(self, partition: int) -> CounterState:
        return CounterState(partition)

    def apply(self, state: CounterState, topic: Topic, key: str, event: Model | None) -> None:
        if topic is TALLIES:
            if event is None:
                state.tallies.pop(key, None)
            elif isinstance(event, Tally):
                state.tallies[key] = event
        elif topic is KNOWN:
            if event is None:
                state.known.discard(key)
            else:
                state.known.add(key)
        elif topic is TABLE:
            if event is None:
                state.table.pop(key, None)
            elif isinstance(event, Number):
                state.table[key] = event.n

    def process(self, state: CounterState, batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        self.batches.append(len(batch))
        self.fresh_calls += fresh
        for record in batch:
            needs = record.event.needs if isinstance(record.event, Number) else ""
            if needs and needs not in state.known and not fresh:
                raise NeedFresh
        emits: list[Emit] = []
        for record in batch:
            emits += self._one(state, record)
        return emits

    def _one(self, state: CounterState, record: Input) -> list[Emit]:
        event = record.event
        if record.topic is TABLE:
            self.apply(state, TABLE, record.key, event)
            return []
        assert isinstance(event, Number)
        before = state.tallies.get(event.key) or Tally(key=event.key, count=0, total=0)
        tally = Tally(key=event.key, count=before.count + 1, total=before.total + event.n)
        self.apply(state, TALLIES, event.key, tally)
        if event.n == -13:
            raise ZeroDivisionError("the state is half changed, and the record is poison")
        # The table's number is added to the second part, so that a missing restore of the table is visible.
        extra = state.table.get(event.key, 0)
        missing = 1_000_000 if event.needs and event.needs not in state.known else 0
        counted = Counted(key=event.key, seq=tally.count, n=event.n, total=tally.total + extra + missing)
        return [
            Emit(TALLIES, event.key, event.key, tally, record.meta),
            Emit(COUNTED, event.key, event.key, counted, record.meta),
        ]

    def reconcile(self, state: CounterState, now: datetime) -> list[Emit]:
        self.reconciled += 1
        return []

    def drop(self, state: CounterState) -> None:
        self.dropped += 1


def settings_for(bootstrap: str, prefix: str, **more: Any) -> Settings:
    values: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "topic_prefix": prefix.rstrip("-"),
        "partitions": 4,
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 300,
        **more,
    }
    return Settings(**values)


async def make_toys(settings: Settings, topics: Sequence[Topic] = TOYS) -> int:
    counts = await ensure_topics(settings, (*topics, JOURNAL))
    return next(iter(counts.values()))


def worker_for(service: Service[Any], settings: Settings) -> Worker:
    return Worker(service, settings, partitions=settings.partitions)


def number_record(topic: Topic, event: Number, *, id_: str = "", trace: str = "") -> tuple[bytes, list[Any]]:
    meta = Meta(id=id_ or event_id(event.key, event.n), source="test", type=topic.event_type, traceparent=trace)
    return event.model_dump_json().encode(), to_headers(meta)


async def write_numbers(settings: Settings, numbers: Sequence[Number], *, topic: Topic = NUMBERS) -> None:
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        for event in numbers:
            value, headers = number_record(topic, event)
            await producer.send(
                topic.name(settings.topic_prefix),
                value,
                key=event.key.encode(),
                partition=partition_of(event.key, settings.partitions),
                headers=headers,
            )
        await producer.flush()


async def write_raw(  # noqa: PLR0917 - a record's parts in their usual order
    settings: Settings,
    topic: Topic,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes]] = (),
    partition: int = 0,
) -> int:
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        sent = await producer.send_and_wait(
            topic.name(settings.topic_prefix), value, key=key, partition=partition, headers=list(headers)
        )
        return int(sent.offset)


async def read_all(settings: Settings, topic: Topic, *, committed_only: bool = True) -> list[Any]:
    """All records of a topic up to its present end, read_committed."""
    name = topic.name(settings.topic_prefix)
    places = [TopicPartition(name, partition) for partition in range(settings.partitions)]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        isolation_level="read_committed" if committed_only else "read_uncommitted",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends = await consumer.end_offsets(places)
        found: list[Any] = []
        while True:
            behind = [tp for tp in places if await consumer.position(tp) < ends[tp]]
            if not behind:
                return found
            for records in (await consumer.getmany(*behind, timeout_ms=100)).values():
                found.extend(records)
    finally:
        await consumer.stop()


async def counted(settings: Settings) -> dict[str, list[Counted]]:
    """The records of the counter by key, in order."""
    found: dict[str, list[Counted]] = {}
    for record in await read_all(settings, COUNTED):
        event = Counted.model_validate_json(record.value)
        found.setdefault(event.key, []).append(event)
    return found


def assert_exactly_once(found: dict[str, list[Counted]], numbers: Sequence[Number]) -> None:
    """Check that each number occurs once and in order, and that the totals are right: nothing is lost or duplicated."""
    wanted: dict[str, list[int]] = {}
    for number in numbers:
        wanted.setdefault(number.key, []).append(number.n)
    assert {key: [event.n for event in events] for key, events in found.items()} == wanted
    for key, events in found.items():
        assert [event.seq for event in events] == list(range(1, len(events) + 1)), key
        total = 0
        for event in events:
            total += event.n
            assert event.total == total, key


def dead_letters(records: Sequence[Any]) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in records]
