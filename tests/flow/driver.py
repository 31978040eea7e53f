"""Drives services through topics in memory on a virtual clock, as the runtime does on Kafka.

A `Flow` holds the topics, the committed offsets and one owner for each service and partition. Everything that passes
between services is encoded and decoded by the runtime's own codec. A step takes a batch, lets the service decide, and
commits output and offsets in one go; a crash throws a partition's state away, and the next step restores it from the
topics in the runtime's order: source tables up to the committed offsets, changelogs and followed topics to their ends.

Nothing happens by itself: `run` works until all is quiet at the present time, `advance` moves the clock from one
wake to the next. With a `random.Random` the order of partitions, the size of batches and the interleaving of sources
are drawn from it; without, records are taken in the order in which they were written.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from moorage.runtime import codec
from moorage.runtime.service import Emit, GlobalView, Input, Malformed, NeedFresh, Service, child_meta
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id, from_headers, to_headers
from moorage_schemas.topics import TOPICS, Cleanup, Topic, partition_of

START = datetime(2026, 1, 1, tzinfo=UTC)

_MAX_ROUNDS = 10_000


class Crash(Enum):
    """Where in a step the process dies."""

    BEFORE_COMMIT = "before commit"
    AFTER_COMMIT = "after commit"


@dataclass(slots=True, eq=False)
class Record:
    """One record of a topic, as Kafka keeps it."""

    topic: Topic
    partition: int
    offset: int
    seq: int
    """Its place among the records of all topics."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    _decoded: dict[bool, Input | Malformed] = field(default_factory=dict)

    def decode(self, *, third_party: bool = False, max_bytes: int | None = None) -> Input | Malformed:
        """The record as a service sees it."""
        if third_party not in self._decoded:
            self._decoded[third_party] = codec.decode(self.topic, self, third_party=third_party, max_bytes=max_bytes)
        return self._decoded[third_party]

    @property
    def name(self) -> str:
        """The key as text."""
        return (self.key or b"").decode()

    @property
    def event(self) -> Any:
        """The event; None for a tombstone. Any, so that tests can look at its fields."""
        decoded = self.decode()
        assert isinstance(decoded, Input), decoded
        return decoded.event

    @property
    def meta(self) -> Meta:
        """The CloudEvents attributes."""
        return from_headers(self.headers)

    @property
    def content(self) -> tuple[str, int, bytes | None, bytes | None, str]:
        """What must be the same on replay: place, key, value and id; not when it was written."""
        return (self.topic.short, self.partition, self.key, self.value, self.meta.id)


@dataclass(slots=True)
class _Partition:
    records: list[Record] = field(default_factory=list)
    end: int = 0

    def since(self, offset: int) -> list[Record]:
        return self.records[bisect.bisect_left(self.records, offset, key=lambda record: record.offset) :]


@dataclass(slots=True)
class _Owner:
    service: Service[Any]
    partition: int
    state: Any
    positions: dict[Topic, int]
    followed: dict[Topic, int]
    poked: bool = True


class Flow:
    """Services, wired through topics in memory."""

    def __init__(
        self,
        services: Sequence[Service[Any]],
        *,
        partitions: int = 3,
        start: datetime = START,
        rng: random.Random | None = None,
        report_max_bytes: int = 65_536,
    ) -> None:
        self.services = {service.name: service for service in services}
        self.partitions = partitions
        self.now = start
        self.lagging: set[str] = set()
        """Services that see followed topics only when they ask for it with `NeedFresh`."""

        self.behind: set[str] = set()
        """Services whose view of the whole learns only what they ask for with `NeedFresh`."""

        self.steps = 0
        self.crash_when: Callable[[str, int], Crash | None] = lambda _service, _partition: None
        """Asked at each step that would commit something."""

        self._rng = rng
        self._max_bytes = report_max_bytes
        self._log = {(topic, p): _Partition() for topic in TOPICS for p in range(partitions)}
        self._seq = 0
        self._committed: dict[tuple[str, Topic, int], int] = {}
        self._owners: dict[tuple[str, int], _Owner] = {}
        self._views: dict[str, tuple[GlobalView, dict[tuple[Topic, int], int]]] = {}

    # What is in the topics.

    def produce(
        self,
        topic: Topic,
        key: str,
        event: Model | None,
        *,
        partition_key: str | None = None,
        id: str = "",  # noqa: A002 - the CloudEvents attribute's own name
        source: str = "test",
        time: datetime | None = None,
    ) -> Record:
        """Write an event from outside; by default the key decides the partition, and the time is the present."""
        meta = Meta(
            id=id or event_id("flow", self._seq),
            source=source,
            type=topic.event_type,
            time=time or self.now,
            subject=key,
        )
        emit = Emit(topic, key, key if partition_key is None else partition_key, event, cause=meta)
        return self._append(emit, meta)

    def produce_raw(
        self,
        topic: Topic,
        partition: int,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Iterable[tuple[str, bytes]] = (),
    ) -> Record:
        """Write any bytes to any partition."""
        log = self._log[topic, partition]
        record = Record(topic, partition, log.end, self._seq, key, value, tuple(headers))
        log.records.append(record)
        log.end += 1
        self._seq += 1
        return record

    def records(self, topic: Topic) -> list[Record]:
        """The records of a topic, in the order in which they were written."""
        found = [record for p in range(self.partitions) for record in self._log[topic, p].records]
        return sorted(found, key=lambda record: record.seq)

    def events(self, topic: Topic) -> list[Any]:
        """The events of a topic, without tombstones, in the order in which they were written."""
        return [record.event for record in self.records(topic) if record.value is not None]

    def table(self, topic: Topic) -> dict[str, Any]:
        """The latest event of each key that is not deleted."""
        latest = {record.name: record for record in self.records(topic)}
        return {key: record.event for key, record in sorted(latest.items()) if record.value is not None}

    def compact(self, topics: Iterable[Topic] = TOPICS, *, keep_tombstones: bool = True) -> None:
        """Keep only the latest record of each key in compacted topics; offsets stay."""
        for topic in topics:
            if topic.cleanup is Cleanup.COMPACT:
                for p in range(self.partitions):
                    log = self._log[topic, p]
                    latest = {record.key: record for record in log.records}
                    log.records = [
                        record
                        for record in log.records
                        if latest[record.key] is record and (keep_tombstones or record.value is not None)
                    ]

    # Work.

    def run(self) -> None:
        """Work until nothing is left to do at the present time."""
        for _ in range(_MAX_ROUNDS):
            moved = [self.step(name, p) for name, p in self._places()]
            if not any(moved):
                return
        raise AssertionError(f"the services do not come to rest at {self.now}: {list(self._pending())}")

    def advance(self, by: timedelta | float) -> None:
        """Move the clock on, by seconds or a timedelta, stopping at each wake on the way."""
        self.advance_to(self.now + (by if isinstance(by, timedelta) else timedelta(seconds=by)))

    def advance_to(self, when: datetime) -> None:
        """Move the clock on to an instant, stopping at each wake on the way."""
        self.run()
        while True:
            wakes = [due for name, p in self._places() if (due := self.next_wake(name, p)) is not None]
            due = min((wake for wake in wakes if wake > self.now), default=None)
            if due is None or due > when:
                break
            self.now = due
            self.run()
        self.now = max(self.now, when)
        self.run()

    def next_wake(self, service: str, partition: int) -> datetime | None:
        """When a partition of a service waits for."""
        owner = self._owner(service, partition)
        return owner.service.next_wake(owner.state)

    def step(self, service: str, partition: int, *, limit: int | None = None, crash: Crash | None = None) -> bool:
        """Let one partition of a service take a batch and do what is due; False when there was nothing to do.

        Args:
            service: its name.
            partition: which.
            limit: records at most.
            crash: die at this point; None asks `crash_when`.
        """
        owner = self._owner(service, partition)
        if service not in self.lagging:
            self._follow(owner)
        if service not in self.behind:
            self._read_globals(service)
        batch = self._take(owner, limit)
        due = owner.service.next_wake(owner.state)
        if not batch and not owner.poked and (due is None or due > self.now):
            return False
        self.steps += 1
        emits = self._decide(owner, batch)
        due = owner.service.next_wake(owner.state)
        if owner.poked or (due is not None and due <= self.now):
            owner.poked = False
            emits += owner.service.wake(owner.state, self.now)
        if not batch and not emits:
            return False
        crash = crash or self.crash_when(service, partition)
        if crash is Crash.BEFORE_COMMIT:
            self.crash(service, partition)
            return True
        self._write(owner.service, partition, emits)
        for record in batch:
            owner.positions[record.topic] = record.offset + 1
        for topic, position in owner.positions.items():
            self._committed[service, topic, partition] = max(
                position, self._committed.get((service, topic, partition), 0)
            )
        if crash is Crash.AFTER_COMMIT:
            self.crash(service, partition)
        return True

    def reconcile(self, service: str | None = None) -> list[Emit]:
        """Let the reconcilers look at every partition; what they repair is written and returned."""
        repairs: list[Emit] = []
        for name, p in self._places():
            if service in {None, name}:
                owner = self._owner(name, p)
                found = owner.service.reconcile(owner.state, self.now)
                self._write(owner.service, p, found)
                repairs += found
        return repairs

    # Faults.

    def crash(self, service: str, partition: int) -> None:
        """Throw a partition's state away; the next step restores it."""
        owner = self._owners.pop((service, partition), None)
        if owner is not None:
            owner.service.drop(owner.state)

    def crash_process(self, service: str) -> None:
        """Throw away every partition of a service and its view of the whole."""
        for p in range(self.partitions):
            self.crash(service, p)
        self._views.pop(service, None)

    def redeliver(self, service: str, topic: Topic, partition: int, count: int = 1) -> None:
        """Give a service the last records of a source that it has had already once more, without a restore."""
        owner = self._owner(service, partition)
        had = [record for record in self._log[topic, partition].records if record.offset < owner.positions[topic]]
        if had:
            owner.positions[topic] = had[-count:][0].offset

    def state(self, service: str, partition: int) -> Any:
        """The state of a partition, restored if need be."""
        return self._owner(service, partition).state

    def partition(self, key: str) -> int:
        """The partition of a key."""
        return partition_of(key, self.partitions)

    # Inside.

    def _places(self) -> list[tuple[str, int]]:
        places = [(name, p) for name in self.services for p in range(self.partitions)]
        if self._rng is not None:
            self._rng.shuffle(places)
        return places

    def _owner(self, name: str, partition: int) -> _Owner:
        owner = self._owners.get((name, partition))
        if owner is not None:
            return owner
        service = self.services[name]
        state = service.new_state(partition)
        if service.globals:
            service.use_globals(state, self._view(name))
        positions = {topic: self._committed.get((name, topic, partition), 0) for topic in service.sources}
        for topic in (topic for topic in service.sources if topic in service.source_tables):
            self._fold(service, state, topic, partition, until=positions[topic])
        for topic in service.changelogs:
            self._fold(service, state, topic, partition)
        owner = self._owners[name, partition] = _Owner(
            service, partition, state, positions, dict.fromkeys(service.follows, 0)
        )
        self._follow(owner)
        return owner

    def _fold(self, service: Service[Any], state: Any, topic: Topic, partition: int, until: int | None = None) -> None:
        for record in self._log[topic, partition].records:
            if until is None or record.offset < until:
                service.apply(state, topic, record.name, record.event)

    def _follow(self, owner: _Owner) -> None:
        for topic, position in owner.followed.items():
            log = self._log[topic, owner.partition]
            for record in log.since(position):
                owner.service.apply(owner.state, topic, record.name, record.event)
            owner.followed[topic] = log.end

    def _view(self, name: str) -> GlobalView:
        if name not in self._views:
            view = self.services[name].new_globals()
            assert view is not None, f"{name} has globals, but no view of them"
            self._views[name] = (view, {})
            self._read_globals(name)
        return self._views[name][0]

    def _read_globals(self, name: str, topics: Iterable[Topic] | None = None) -> None:
        service = self.services[name]
        topics = service.globals if topics is None else tuple(topics)
        if not topics:
            return
        view, positions = self._view(name), self._views[name][1]
        found = [
            record
            for topic in topics
            for p in range(self.partitions)
            for record in self._log[topic, p].since(positions.get((topic, p), 0))
        ]
        if not found:
            return
        for record in sorted(found, key=lambda record: record.seq):
            positions[record.topic, record.partition] = record.offset + 1
            if not view.wants(record.topic, record.name):
                continue
            decoded = record.decode()
            assert isinstance(decoded, Input), decoded
            view.apply(decoded)
        changed = view.changed()
        for (owner_name, p), owner in self._owners.items():
            if owner_name == name and (changed is None or p in set(changed)):
                owner.poked = True

    def _take(self, owner: _Owner, limit: int | None) -> list[Record]:
        waiting = [
            record
            for topic in owner.service.sources
            for record in self._log[topic, owner.partition].since(owner.positions[topic])
        ]
        if self._rng is not None and waiting:
            # The log's order holds within a topic; between topics none does.
            queues = {topic: [r for r in waiting if r.topic is topic] for topic in owner.service.sources}
            count = self._rng.randint(1, len(waiting))
            return [self._rng.choice([q for q in queues.values() if q]).pop(0) for _ in range(count)][:limit]
        return sorted(waiting, key=lambda record: record.seq)[:limit]

    def _decide(self, owner: _Owner, batch: Sequence[Record]) -> list[Emit]:
        emits: list[Emit] = []
        run: list[Input] = []
        for record in batch:
            third_party = record.topic in owner.service.refuses
            decoded = record.decode(third_party=third_party, max_bytes=self._max_bytes)
            if isinstance(decoded, Malformed):
                emits += self._process(owner, run)
                run = []
                emits += owner.service.refuse(owner.state, decoded, self.now)
            else:
                run.append(decoded)
        return emits + self._process(owner, run)

    def _process(self, owner: _Owner, run: Sequence[Input]) -> list[Emit]:
        if not run:
            return []
        try:
            return owner.service.process(owner.state, run, self.now)
        except NeedFresh:
            self._follow(owner)
            self._read_globals(owner.service.name, owner.service.fresh_globals)
            return owner.service.process(owner.state, run, self.now, fresh=True)

    def _write(self, service: Service[Any], partition: int, emits: Sequence[Emit]) -> None:
        seen: dict[tuple[str, str, str], int] = {}
        for emit in emits:
            # The ordinal tells apart several events for one key from one cause, as in the runtime.
            place = (emit.cause.id, emit.topic.short, emit.key)
            ordinal = seen[place] = seen.get(place, -1) + 1
            meta = emit.meta or child_meta(emit, source=f"moorage/{service.name}", now=self.now, ordinal=ordinal)
            record = self._append(emit, meta)
            if emit.topic in service.changelogs:
                assert record.partition == partition, f"{service.name}: {emit.topic.short} {emit.key} strays"

    def _append(self, emit: Emit, meta: Meta) -> Record:
        value = None if emit.event is None else emit.event.model_dump_json().encode()
        return self.produce_raw(
            emit.topic,
            self.partition(emit.partition_key),
            key=emit.key.encode(),
            value=value,
            headers=to_headers(meta),
        )

    def _pending(self) -> Iterator[tuple[str, int, datetime | None]]:
        return ((name, p, self.next_wake(name, p)) for name, p in self._places())


def replay(services: Sequence[Service[Any]], flow: Flow, topics: Sequence[Topic], **options: Any) -> Flow:
    """Give services the records of some topics of a flow once more, at another time and in the same order."""
    again = Flow(services, partitions=flow.partitions, **options)
    for record in sorted((record for topic in topics for record in flow.records(topic)), key=lambda record: record.seq):
        again.produce_raw(record.topic, record.partition, key=record.key, value=record.value, headers=record.headers)
    again.run()
    return again
