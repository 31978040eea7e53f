"""Runs the real services on topics in memory and a virtual clock, as the runtime runs them on Kafka.

A `MemoryStack` has the topics, the committed offsets, and one task for each service and partition, which drives the
runtime's engine. The stack answers the engine's requests, and commits output and offsets together.

Nothing happens by itself. `run` works until there is nothing left to do at the present time, and `advance` moves the
clock from one wake to the next. Records are processed in the order in which they were written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from typing_extensions import override

from moorage.insight.copy.memory import MemoryTopics, Record
from moorage.insight.copy.snapshot import Snapshot
from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.engine import EngineRules, PartitionEngine
from moorage.runtime.engine.requests import (
    Announce,
    Bounded,
    Bounds,
    CatchUp,
    Read,
    Refresh,
    Request,
    Steps,
    Turn,
    Written,
)
from moorage.runtime.kafka.tables.global_tables import fold_into_view
from moorage.runtime.service import (
    Emit,
    Freshness,
    GlobalView,
    Input,
    Malformed,
    Needs,
    RawRecord,
    RowFormat,
    Service,
    child_meta,
    source_name,
)
from moorage.runtime.wire.record_format import RecordFormat
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.topics import Topic, partition_of

R = TypeVar("R")

_MAX_ROUNDS = 10_000


class RestlessError(AssertionError):
    """The services never come to rest at one instant."""


_AT_ONCE: Final = 1_000_000  # records; small batches have no advantage in memory


def _decoded(_topic: Topic, record: Record) -> Input | Malformed:
    return record.decode()


class MemoryFormat(RecordFormat):
    """Records in memory, with events that need not become bytes. There are no rows, and positions are committed."""

    @override
    def decode(
        self, topic: Topic, record: Record, *, third_party: bool = False, max_bytes: int | None = None
    ) -> Input | Malformed:
        return record.decode(third_party=third_party, max_bytes=max_bytes)

    @override
    def table(self, topic: Topic, record: Record) -> tuple[str, Model | None]:
        return record.name, record.event

    @override
    def rows(self, topic: Topic, reader: RowFormat) -> None:
        return None

    @override
    def positions(self, record: Record, source: str) -> Mapping[str, int] | None:
        return None

    @override
    def written(self, record: Record) -> int:
        return record.seq

    @override
    def raw(self, record: Record) -> RawRecord:
        return RawRecord(record.key, record.value, record.headers)

    @override
    def serialize(self, emit: Emit) -> bytes | None:
        return None


@dataclass(slots=True, eq=False)
class CopyTask:
    """One partition of a service."""

    engine: PartitionEngine[Any]
    followed: dict[str, int]
    """The offset up to which each followed topic has been applied, by short name."""

    @property
    def service(self) -> Service[Any]:
        """The service of the task."""
        return self.engine.service

    @property
    def partition(self) -> int:
        """The partition of the task."""
        return self.engine.partition

    @property
    def state(self) -> Any:
        """The service's state of the partition."""
        return self.engine.state


@dataclass(slots=True, eq=False)
class _View:
    view: GlobalView
    seen: dict[str, int]
    """The `seq` up to which each topic has been applied."""


class MemoryStack:
    """Services that are connected through topics in memory.

    Args:
        start: the time at the start.
        report_max_bytes: the largest record that is accepted from third parties.
        through_codec: whether every event becomes bytes and is decoded again, as on Kafka. Otherwise services pass on
            the events themselves, which is faster and has the same result, because events are immutable.
    """

    def __init__(
        self,
        services: Sequence[Service[Any]],
        *,
        partitions: int,
        start: datetime,
        report_max_bytes: int = 65_536,
        through_codec: bool = False,
    ) -> None:
        self.services = {service.name: service for service in services}
        self.partitions = partitions
        self.now = start
        self.topics = MemoryTopics(partitions, lambda: self.now)
        self.steps = 0
        self._max_bytes = report_max_bytes
        self._through_codec = through_codec
        self._format = MemoryFormat()
        self._committed: dict[tuple[str, str, int], int] = {}
        self._owners: dict[tuple[str, int], CopyTask] = {}
        self._views: dict[str, _View] = {}

    def restore(self, snapshot: Snapshot) -> None:
        """Load a copy. What services have processed in it counts as done."""
        self.topics.load(snapshot)
        for service in self.services.values():
            for topic in service.sources:
                for p in range(self.partitions):
                    self._committed[service.name, topic.short, p] = snapshot.position(service.name, topic, p)

    # Topics.

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
        """Write an event from outside. By default the key determines the partition, and the time is now."""
        meta = Meta(
            id=id or event_id("flow", self.topics.written),
            source=source,
            type=topic.event_type,
            time=time or self.now,
            subject=key,
        )
        return self.write(topic, key, key if partition_key is None else partition_key, event, meta)

    def write(self, topic: Topic, key: str, partition_key: str, event: Model | None, meta: Meta) -> Record:
        """Write an event with its attributes."""
        place = self.partition(partition_key)
        if self._through_codec:
            value = None if event is None else event.model_dump_json().encode()
            return self.topics.append(topic, place, key.encode(), value=value, headers=tuple(to_headers(meta)))
        given = Input(topic, place, self.topics.ends[topic.short, place], key, event, meta, written=self.now)
        return self.topics.append(topic, place, key.encode(), given=given)

    def records(self, topic: Topic) -> list[Record]:
        """Return the records of a topic in the order in which they were written."""
        return self.topics.topic(topic.short)

    def events(self, topic: Topic) -> list[Any]:
        """Return the events of a topic, without tombstones, in the order in which they were written."""
        return [record.event for record in self.records(topic) if not record.gone]

    def table(self, topic: Topic) -> dict[str, Any]:
        """Return the latest event of each key that is not deleted."""
        latest = {record.name: record for record in self.records(topic)}
        return {key: record.event for key, record in sorted(latest.items()) if not record.gone}

    # Work.

    def run(self) -> None:
        """Work until there is nothing left to do at the present time.

        Raises:
            RestlessError: there is always something left to do.
        """
        for _ in range(_MAX_ROUNDS):
            moved = [self.step(name, p) for name, p in self._places()]
            if not any(moved):
                return
        raise RestlessError(f"the services do not come to rest at {self.now}: {list(self._pending())}")

    def advance(self, by: timedelta | float) -> None:
        """Move the clock forward by seconds or a timedelta, and stop at each wake on the way."""
        self.advance_to(self.now + (by if isinstance(by, timedelta) else timedelta(seconds=by)))

    def advance_to(self, when: datetime) -> None:
        """Move the clock forward to an instant, and stop at each wake on the way."""
        for _ in self.wakes(when):
            pass

    def wakes(self, until: datetime) -> Iterator[datetime]:
        """Move the clock forward to an instant. Yields each instant at which something was due, after it is done."""
        self.run()
        while (due := self.next_due()) is not None and due <= until:
            self.now = due
            self.run()
            yield due
        self.now = max(self.now, until)
        self.run()

    def next_due(self, *, without: Collection[str] = ()) -> datetime | None:
        """Return the earliest instant after the present that a partition waits for."""
        wakes = [
            due for name, p in self._places() if name not in without and (due := self.next_wake(name, p)) is not None
        ]
        return min((wake for wake in wakes if wake > self.now), default=None)

    def next_wake(self, service: str, partition: int) -> datetime | None:
        """Return the instant that a partition of a service waits for."""
        return self._owner(service, partition).engine.next_due()

    def step(self, service: str, partition: int, *, limit: int | None = None) -> bool:
        """Let one partition of a service process a batch and do what is due. Return False if nothing was to do."""
        owner = self._owner(service, partition)
        engine = owner.engine
        self._catch_up(owner)
        waiting = engine.waiting
        self._offer(owner, limit)
        offered = engine.waiting > waiting
        due = engine.next_due()
        is_due = (due is not None and due <= self.now) or engine.was_set_back(self.now)
        if not engine.restless and not is_due and engine.caught_up:
            return False
        self.steps += 1
        before, behind = dict(engine.positions), not engine.caught_up
        decision = self._drive(owner, engine.decide(self.now))
        # An engine that is catching up waits for older records, so being offered some is a step of its own.
        moved = engine.positions != before or (behind and (engine.caught_up or offered))
        if moved or decision.emits:
            self._commit(owner, decision)
            return True
        # A portion of a longer check may find nothing to write.
        due = engine.next_due()
        return engine.restless or (due is not None and due <= self.now)

    @property
    def committed(self) -> Mapping[tuple[str, str, int], int]:
        """The next offset that a service has not processed, by service, topic's short name and partition."""
        return self._committed

    def state(self, service: str, partition: int) -> Any:
        """Return the state of a partition, which is restored if necessary."""
        return self._owner(service, partition).state

    def partition(self, key: str) -> int:
        """Return the partition of a key."""
        return partition_of(key, self.partitions)

    # Internal. The driver of the tests overrides some of it.

    def _places(self) -> list[tuple[str, int]]:
        return [(name, p) for name in self.services for p in range(self.partitions)]

    def _catch_up(self, owner: CopyTask) -> None:
        self._follow(owner)
        self._read_globals(owner.service.name)

    def _owner(self, name: str, partition: int) -> CopyTask:
        owner = self._owners.get((name, partition))
        if owner is not None:
            return owner
        service = self.services[name]
        engine = PartitionEngine(
            service,
            partition,
            rules=EngineRules(
                partitions=self.partitions,
                report_max_bytes=self._max_bytes,
                batch_max_records=_AT_ONCE,
                reconcile_interval=None,
                lazy_commit=timedelta(0),
            ),
            form=self._format,
            seconds=lambda: 0.0,  # the duration of a slice does not matter in memory
        )
        owner = self._owners[name, partition] = CopyTask(
            engine, dict.fromkeys((topic.short for topic in service.follows), 0)
        )
        committed: dict[Topic, int | None] = {
            topic: self._committed.get((name, topic.short, partition)) for topic in service.sources
        }
        self._drive(owner, engine.restore(committed, self._view(name).view if service.globals else None))
        return owner

    def _drive(self, owner: CopyTask, steps: Steps[R]) -> R:
        """Run the steps of an engine, and answer their requests."""
        answer: Bounded | Freshness | None = None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as end:
                result: R = end.value
                return result
            answer = self._answer(owner, request)

    def _answer(self, owner: CopyTask, request: Request) -> Bounded | Freshness | None:
        engine, partition = owner.engine, owner.partition
        match request:
            case Bounds():
                ends = {topic: self.topics.ends[topic.short, partition] for topic in (*request.end, *request.committed)}
                return Bounded(dict.fromkeys(request.begin, 0), ends)
            case Read(spans):
                for span in spans:
                    found = self.topics.partition(span.topic, partition, span.begin)
                    engine.fold(span.topic, [record for record in found if record.offset < span.end])
                    if span.topic in owner.service.follows:
                        owner.followed[span.topic.short] = span.end
            case CatchUp(topics):
                self._follow(owner)
                self._read_globals(owner.service.name, topics)
            case Refresh(needs):
                return self._refresh(owner, needs)
            case Turn() | Written() | Announce():
                pass
        return None

    def _refresh(self, owner: CopyTask, needs: Needs) -> Freshness:
        ends = {topic: self.topics.ends[topic.short, owner.partition] for topic in needs.tables}
        self._offer(owner, None, needs.tables)
        if needs.globals:
            self._read_globals(owner.service.name, needs.globals)
        lagging: dict[str, str] = {}
        for one in (one for one in needs.upstream if one.service in self.services):
            for topic, partition in one.read_places(needs.keys, own=owner.partition, partitions=self.partitions):
                done = self._committed.get((one.service, topic.short, partition), 0)
                for record in self.topics.partition(topic, partition, done):
                    key = one.concerns(topic, record.name, record.value or b"")
                    if key is not None:
                        lagging.setdefault(key, one.service)
        return Freshness(self.now, ends, lagging, needs.keys)

    def _follow(self, owner: CopyTask) -> None:
        for topic in owner.service.follows:
            position, end = owner.followed[topic.short], self.topics.ends[topic.short, owner.partition]
            if position < end:
                owner.engine.fold(topic, self.topics.partition(topic, owner.partition, position))
                owner.followed[topic.short] = end

    def _view(self, name: str) -> _View:
        if name not in self._views:
            view = self.services[name].new_globals()
            if view is None:
                raise TypeError(f"{name} has globals, but no view of them")
            self._views[name] = _View(view, {})
            self._read_globals(name)
        return self._views[name]

    def _read_globals(self, name: str, topics: Iterable[Topic] | None = None) -> None:
        chosen = self.services[name].globals if topics is None else tuple(topics)
        if not chosen:
            return
        whole = self._view(name)
        latest = self.topics.latest
        found: list[Record] = []
        for short in [topic.short for topic in chosen]:
            if latest[short] >= (begin := whole.seen.get(short, 0)):
                found += self.topics.topic(short, begin)
                whole.seen[short] = latest[short] + 1
        if not found:
            return
        for record in sorted(found, key=lambda record: record.seq):
            fold_into_view(whole.view, record.topic, record, service=name, decode=_decoded)
        changed = whole.view.changed()
        wanted = range(self.partitions) if changed is None else set(changed)
        for p in wanted:
            if (owner := self._owners.get((name, p))) is not None:
                owner.engine.poked = True

    def _offer(self, owner: CopyTask, limit: int | None, topics: Sequence[Topic] | None = None) -> None:
        """Offer the engine the records that it wants and has not been offered, in the order of `_order`."""
        engine = owner.engine
        wanted = engine.wanted if topics is None else topics
        waiting = self._waiting(owner, wanted)
        for record in self._order(owner, waiting)[:limit] if waiting else ():
            engine.offer(record.topic, [record])
        for topic in wanted:
            fetched = engine.fetched(topic) or 0
            rest = self.topics.partition(topic, owner.partition, fetched)
            engine.passed(topic, rest[0].offset if rest else self.topics.ends[topic.short, owner.partition])

    def _order(self, _owner: CopyTask, waiting: Mapping[str, list[Record]]) -> list[Record]:
        """Return records of several topics in the order in which they are offered: that of writing."""
        found = [record for some in waiting.values() for record in some]
        if len(waiting) > 1:
            found.sort(key=lambda record: record.seq)
        return found

    def _waiting(self, owner: CopyTask, topics: Sequence[Topic]) -> Mapping[str, list[Record]]:
        """Return the records that a task has not been offered, by topic, without topics that have none."""
        waiting = {}
        for topic in topics:
            position = owner.engine.fetched(topic) or 0
            if position < self.topics.ends[topic.short, owner.partition] and (
                found := self.topics.partition(topic, owner.partition, position)
            ):
                waiting[topic.short] = found
        return waiting

    def _commit(self, owner: CopyTask, decision: BatchDecision) -> None:
        """Write the output and the offsets."""
        name, engine = owner.service.name, owner.engine
        self._write(owner.service, owner.partition, decision)
        transaction = engine.prepare(decision)
        for topic, position in engine.positions.items():
            place = (name, topic.short, owner.partition)
            self._committed[place] = max(position, self._committed.get(place, 0))
        if transaction is not None:
            engine.written(transaction)

    def _write(self, service: Service[Any], partition: int, decision: BatchDecision) -> None:
        seen: dict[tuple[str, str, str, str], int] = {}
        changelogs = {topic.short for topic in service.changelogs}
        for (emit, _), configuration in zip(decision.emits, decision.configurations, strict=True):
            # The ordinal distinguishes several events of one key with one cause, as in the runtime.
            place = (emit.cause.id, emit.topic.short, emit.key, emit.step)
            ordinal = seen[place] = seen.get(place, -1) + 1
            meta = emit.meta or child_meta(
                emit, source=source_name(service.name), now=self.now, ordinal=ordinal, configuration=configuration
            )
            record = self.write(emit.topic, emit.key, emit.partition_key, emit.event, meta)
            if emit.topic.short in changelogs and record.partition != partition:
                raise ValueError(f"{service.name}: {emit.topic.short} {emit.key} strays")

    def _pending(self) -> Iterator[tuple[str, int, datetime | None]]:
        return ((name, p, self.next_wake(name, p)) for name, p in self._places())
