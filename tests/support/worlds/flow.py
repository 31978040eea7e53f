"""The stack of the simulation, for tests: all records pass through the codec, and faults can be injected.

A crash throws a partition's state away, and the next step restores it from the topics in the runtime's order. With a
`random.Random` the order of partitions, the size of batches and the interleaving of sources are drawn from it;
without, records are taken in the order in which they were written.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from moorage.insight.copy.memory import Record
from moorage.insight.copy.stack import CopyTask, MemoryStack
from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.service import Emit, Service
from moorage_schemas.topics import TOPICS, Cleanup, Topic

START = datetime(2026, 1, 1, tzinfo=UTC)
_EARLY = datetime.min.replace(tzinfo=UTC)  # means at once

__all__ = ["START", "Crash", "Flow", "Record", "replay"]


class Crash(Enum):
    """The point in a step at which the process dies."""

    BEFORE_COMMIT = "before commit"
    AFTER_COMMIT = "after commit"


class Flow(MemoryStack):
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
        super().__init__(
            services, partitions=partitions, start=start, report_max_bytes=report_max_bytes, through_codec=True
        )
        self.lagging: set[str] = set()
        """Services that see followed topics only when they request it with `NeedFresh`."""

        self.behind: set[str] = set()
        """Services whose global view is only updated when they request it with `NeedFresh`."""

        self.stopped: set[str] = set()
        """Services that are not running. A stopped service is restored when it runs again."""

        self.skew: dict[str, timedelta] = {}
        """The time by which the clock of a service's machine is ahead. Negative if it is behind."""

        self.crash_when: Callable[[str, int], Crash | None] = lambda _service, _partition: None
        """Called at each step that would commit something. Returns where the process dies."""

        self._crash: Crash | None = None
        self._rng = rng

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
        return self.topics.append(topic, partition, key, value=value, headers=tuple(headers))

    def compact(self, topics: Iterable[Topic] = TOPICS, *, keep_tombstones: bool = True) -> None:
        """Keep only the latest record of each key in compacted topics. Offsets stay."""
        for topic in (topic for topic in topics if topic.cleanup is Cleanup.COMPACT):
            records = self.records(topic)
            latest = {(record.partition, record.key): record for record in records}
            self.topics.drop(
                record
                for record in records
                if latest[record.partition, record.key] is not record or (record.gone and not keep_tombstones)
            )

    def step(self, service: str, partition: int, *, limit: int | None = None, crash: Crash | None = None) -> bool:
        """See `Stack`. The process dies at the point `crash`. If None, `crash_when` decides."""
        self._crash = crash
        skew = self.skew.get(service, timedelta())
        self.now += skew
        try:
            return super().step(service, partition, limit=limit)
        finally:
            self.now -= skew

    def next_wake(self, service: str, partition: int) -> datetime | None:
        """The next wake of a partition of a service, by the correct clock."""
        due = super().next_wake(service, partition)
        return due if due is None or due <= _EARLY else due - self.skew.get(service, timedelta())

    def reconcile(self, service: str | None = None) -> list[Emit]:
        """Run the reconcilers on every partition that has caught up. Repairs are written and returned."""
        repairs: list[Emit] = []
        for name, p in self._places():
            if service in {None, name} and self._owner(name, p).engine.caught_up:
                owner, decision = self._owner(name, p), BatchDecision(self.now)
                owner.engine.reconcile(decision)
                while owner.service.is_reconciling(owner.state):
                    owner.engine.reconcile(decision)
                self._write(owner.service, p, decision)
                repairs += [emit for emit, _ in decision.emits]
        return repairs

    # Faults.

    def crash(self, service: str, partition: int) -> None:
        """Discard a partition's state. The next step restores it."""
        owner = self._owners.pop((service, partition), None)
        if owner is not None:
            owner.engine.forget()

    def crash_process(self, service: str) -> None:
        """Discard every partition of a service and its global view."""
        for p in range(self.partitions):
            self.crash(service, p)
        self._views.pop(service, None)

    def stop(self, service: str) -> None:
        """Kill a service."""
        self.crash_process(service)
        self.stopped.add(service)

    def start(self, service: str) -> None:
        """Let a stopped service run again."""
        self.stopped.discard(service)

    def redeliver(self, service: str, topic: Topic, partition: int, count: int = 1) -> None:
        """Give a service the last records of a source once more, without a restore."""
        engine = self._owner(service, partition).engine
        position = engine.positions[topic]
        had = [record for record in self.topics.partition(topic, partition) if record.offset < position]
        for record in had[-count:]:
            engine.offer(topic, [record])

    # Differences from a stack.

    def _places(self) -> list[tuple[str, int]]:
        places = [place for place in super()._places() if place[0] not in self.stopped]
        if self._rng is not None:
            self._rng.shuffle(places)
        return places

    def _catch_up(self, owner: CopyTask) -> None:
        if owner.service.name not in self.lagging:
            self._follow(owner)
        if owner.service.name not in self.behind:
            self._read_globals(owner.service.name)

    def _order(self, owner: CopyTask, waiting: Mapping[str, list[Record]]) -> list[Record]:
        if self._rng is None:
            return super()._order(owner, waiting)
        # There is an order within a topic, but not between topics.
        queues = {topic.short: list(waiting.get(topic.short, ())) for topic in owner.service.sources}
        count = self._rng.randint(1, sum(map(len, queues.values())))
        return [self._rng.choice([q for q in queues.values() if q]).pop(0) for _ in range(count)]

    def _commit(self, owner: CopyTask, decision: BatchDecision) -> None:
        name, partition = owner.service.name, owner.partition
        crash = self._crash or self.crash_when(name, partition)
        if crash is Crash.BEFORE_COMMIT:
            self.crash(name, partition)
            return
        super()._commit(owner, decision)
        if crash is Crash.AFTER_COMMIT:
            self.crash(name, partition)


def replay(services: Sequence[Service[Any]], flow: Flow, topics: Sequence[Topic], **options: Any) -> Flow:
    """Give services the records of some topics of a flow again, at another time and in the same order."""
    again = Flow(services, partitions=flow.partitions, **options)
    for record in sorted((record for topic in topics for record in flow.records(topic)), key=lambda record: record.seq):
        again.produce_raw(record.topic, record.partition, key=record.key, value=record.value, headers=record.headers)
    again.run()
    return again
