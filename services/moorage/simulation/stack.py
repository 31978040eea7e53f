"""The real services on topics in memory and a virtual clock, as the runtime drives them on Kafka.

A `Stack` holds the topics, the committed offsets and one owner for each service and partition. A step takes a batch,
lets the service decide, and commits output and offsets in one go. A partition is restored in the runtime's order:
source tables up to the committed offsets, changelogs and followed topics to their ends.

Nothing happens by itself: `run` works until all is quiet at the present time, `advance` moves the clock from one
wake to the next. Records are taken in the order in which they were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from moorage.runtime.service import Emit, GlobalView, Input, Malformed, NeedFresh, Service, child_meta
from moorage.simulation.memory import MemoryTopics, Record
from moorage.simulation.snapshot import Snapshot
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.topics import Topic, partition_of

_MAX_ROUNDS = 10_000


class RestlessError(AssertionError):
    """The services go on for ever at one instant."""


@dataclass(slots=True, eq=False)
class Owner:
    """One partition of a service."""

    service: Service[Any]
    partition: int
    state: Any
    positions: dict[str, int]
    """By the topics' short names, as everything here: a topic's hash is dear."""

    followed: dict[str, int]
    poked: bool = True


@dataclass(slots=True, eq=False)
class _View:
    view: GlobalView
    seen: dict[str, int]
    """Up to which `seq` each topic is folded in."""


class Stack:
    """Services, wired through topics in memory.

    Args:
        services: all that take part.
        partitions: how many each topic has.
        start: the time to begin with.
        report_max_bytes: the largest record that is taken from third parties.
        through_codec: whether every event becomes bytes and is read again, as on Kafka; else services hand the
            events themselves on, which is faster and the same, for events are frozen.
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
        self.topics = MemoryTopics(partitions)
        self.steps = 0
        self._max_bytes = report_max_bytes
        self._through_codec = through_codec
        self._refuses = {one.name: frozenset(topic.short for topic in one.refuses) for one in services}
        self._committed: dict[tuple[str, str, int], int] = {}
        self._owners: dict[tuple[str, int], Owner] = {}
        self._views: dict[str, _View] = {}

    def restore(self, snapshot: Snapshot) -> None:
        """Begin with a copy: what services have worked through there counts as done."""
        self.topics.load(snapshot)
        for service in self.services.values():
            for topic in service.sources:
                for p in range(self.partitions):
                    self._committed[service.name, topic.short, p] = snapshot.position(service.name, topic, p)

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
        given = Input(topic, place, self.topics.ends[topic.short, place], key, event, meta)
        return self.topics.append(topic, place, key.encode(), given=given)

    def records(self, topic: Topic) -> list[Record]:
        """The records of a topic, in the order in which they were written."""
        return self.topics.topic(topic.short)

    def events(self, topic: Topic) -> list[Any]:
        """The events of a topic, without tombstones, in the order in which they were written."""
        return [record.event for record in self.records(topic) if not record.gone]

    def table(self, topic: Topic) -> dict[str, Any]:
        """The latest event of each key that is not deleted."""
        latest = {record.name: record for record in self.records(topic)}
        return {key: record.event for key, record in sorted(latest.items()) if not record.gone}

    # Work.

    def run(self) -> None:
        """Work until nothing is left to do at the present time.

        Raises:
            RestlessError: that never happens.
        """
        for _ in range(_MAX_ROUNDS):
            moved = [self.step(name, p) for name, p in self._places()]
            if not any(moved):
                return
        raise RestlessError(f"the services do not come to rest at {self.now}: {list(self._pending())}")

    def advance(self, by: timedelta | float) -> None:
        """Move the clock on, by seconds or a timedelta, stopping at each wake on the way."""
        self.advance_to(self.now + (by if isinstance(by, timedelta) else timedelta(seconds=by)))

    def advance_to(self, when: datetime) -> None:
        """Move the clock on to an instant, stopping at each wake on the way."""
        for _ in self.wakes(when):
            pass

    def wakes(self, until: datetime) -> Iterator[datetime]:
        """Move the clock on to an instant; gives each at which something was due, once that is done."""
        self.run()
        while (due := self.next_due()) is not None and due <= until:
            self.now = due
            self.run()
            yield due
        self.now = max(self.now, until)
        self.run()

    def next_due(self) -> datetime | None:
        """The earliest instant after the present that some partition waits for."""
        wakes = [due for name, p in self._places() if (due := self.next_wake(name, p)) is not None]
        return min((wake for wake in wakes if wake > self.now), default=None)

    def next_wake(self, service: str, partition: int) -> datetime | None:
        """When a partition of a service waits for."""
        owner = self._owner(service, partition)
        return owner.service.next_wake(owner.state)

    def step(self, service: str, partition: int, *, limit: int | None = None) -> bool:
        """Let one partition of a service take a batch and do what is due; False when there was nothing to do.

        Args:
            service: its name.
            partition: which.
            limit: records at most.
        """
        owner = self._owner(service, partition)
        self._catch_up(owner)
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
        self._commit(owner, batch, emits)
        return True

    @property
    def committed(self) -> Mapping[tuple[str, str, int], int]:
        """By service, topic's short name and partition: the next offset that the service has not worked through."""
        return self._committed

    def state(self, service: str, partition: int) -> Any:
        """The state of a partition, restored if need be."""
        return self._owner(service, partition).state

    def partition(self, key: str) -> int:
        """The partition of a key."""
        return partition_of(key, self.partitions)

    # Inside; the tests' driver does some of it otherwise.

    def _places(self) -> list[tuple[str, int]]:
        return [(name, p) for name in self.services for p in range(self.partitions)]

    def _catch_up(self, owner: Owner) -> None:
        self._follow(owner)
        self._read_globals(owner.service.name)

    def _owner(self, name: str, partition: int) -> Owner:
        owner = self._owners.get((name, partition))
        if owner is not None:
            return owner
        service = self.services[name]
        state = service.new_state(partition)
        if service.globals:
            service.use_globals(state, self._view(name).view)
        positions = {topic.short: self._committed.get((name, topic.short, partition), 0) for topic in service.sources}
        for topic in (topic for topic in service.sources if topic in service.source_tables):
            self._fold(service, state, topic, partition, until=positions[topic.short])
        for topic in service.changelogs:
            self._fold(service, state, topic, partition)
        followed = dict.fromkeys((topic.short for topic in service.follows), 0)
        owner = self._owners[name, partition] = Owner(service, partition, state, positions, followed)
        self._follow(owner)
        return owner

    def _fold(self, service: Service[Any], state: Any, topic: Topic, partition: int, until: int | None = None) -> None:
        for record in self.topics.partition(topic, partition):
            if until is None or record.offset < until:
                service.apply(state, topic, record.name, record.event)

    def _follow(self, owner: Owner) -> None:
        for topic in owner.service.follows:
            position, end = owner.followed[topic.short], self.topics.ends[topic.short, owner.partition]
            if position < end:
                for record in self.topics.partition(topic, owner.partition, position):
                    owner.service.apply(owner.state, topic, record.name, record.event)
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
        view = whole.view
        for record in sorted(found, key=lambda record: record.seq):
            if view.wants(record.topic, record.name):
                decoded = record.decode()
                if not isinstance(decoded, Input):
                    raise TypeError(decoded.message)
                view.apply(decoded)
        changed = view.changed()
        wanted = range(self.partitions) if changed is None else set(changed)
        for p in wanted:
            if (owner := self._owners.get((name, p))) is not None:
                owner.poked = True

    def _take(self, owner: Owner, limit: int | None) -> list[Record]:
        waiting = self._waiting(owner)
        found = [record for some in waiting.values() for record in some]
        if len(waiting) > 1:
            found.sort(key=lambda record: record.seq)
        return found[:limit]

    def _waiting(self, owner: Owner) -> Mapping[str, list[Record]]:
        """What an owner has not taken, by topic, without topics of which it has taken everything."""
        waiting = {}
        for topic in owner.service.sources:
            position = owner.positions[topic.short]
            if position < self.topics.ends[topic.short, owner.partition] and (
                found := self.topics.partition(topic, owner.partition, position)
            ):
                waiting[topic.short] = found
        return waiting

    def _decide(self, owner: Owner, batch: Sequence[Record]) -> list[Emit]:
        emits: list[Emit] = []
        run: list[Input] = []
        refuses = self._refuses[owner.service.name]
        for record in batch:
            third_party = record.topic.short in refuses
            decoded = record.decode(third_party=third_party, max_bytes=self._max_bytes)
            if isinstance(decoded, Malformed):
                emits += self._process(owner, run)
                run = []
                emits += owner.service.refuse(owner.state, decoded, self.now)
            else:
                run.append(decoded)
        return emits + self._process(owner, run)

    def _process(self, owner: Owner, run: Sequence[Input]) -> list[Emit]:
        if not run:
            return []
        try:
            return list(owner.service.process(owner.state, run, self.now))
        except NeedFresh:
            self._follow(owner)
            self._read_globals(owner.service.name, owner.service.fresh_globals)
            return list(owner.service.process(owner.state, run, self.now, fresh=True))

    def _commit(self, owner: Owner, batch: Sequence[Record], emits: Sequence[Emit]) -> None:
        """Write the output and the offsets."""
        self._write(owner.service, owner.partition, emits)
        name = owner.service.name
        for record in batch:
            owner.positions[record.topic.short] = record.offset + 1
        for short, position in owner.positions.items():
            place = (name, short, owner.partition)
            self._committed[place] = max(position, self._committed.get(place, 0))

    def _write(self, service: Service[Any], partition: int, emits: Sequence[Emit]) -> None:
        seen: dict[tuple[str, str, str], int] = {}
        changelogs = {topic.short for topic in service.changelogs}
        for emit in emits:
            # The ordinal tells apart several events for one key from one cause, as in the runtime.
            place = (emit.cause.id, emit.topic.short, emit.key)
            ordinal = seen[place] = seen.get(place, -1) + 1
            meta = emit.meta or child_meta(emit, source=f"moorage/{service.name}", now=self.now, ordinal=ordinal)
            record = self.write(emit.topic, emit.key, emit.partition_key, emit.event, meta)
            if emit.topic.short in changelogs and record.partition != partition:
                raise ValueError(f"{service.name}: {emit.topic.short} {emit.key} strays")

    def _pending(self) -> Iterator[tuple[str, int, datetime | None]]:
        return ((name, p, self.next_wake(name, p)) for name, p in self._places())
