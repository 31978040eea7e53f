"""A platform on which a deployer runs workloads, and deployers that read recorded topics in any order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from tests.support.worlds.flow import Flow, Record

from moorage_schemas.base import Model
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.topics import BINDINGS, EVICTIONS, Topic
from moorage_sdk.decisions import Decisions, Place, Remove, Running

TOPICS: Sequence[Topic] = (BINDINGS, EVICTIONS)


def recorded(flow: Flow) -> list[Record]:
    """What a deployer reads, in the order in which it was written."""
    return sorted((record for topic in TOPICS for record in flow.records(topic)), key=lambda record: record.seq)


def event_of(record: Record) -> Model | None:
    """The event of a record. None for a tombstone."""
    if record.value is None:
        return None
    model = WorkloadBound if record.topic is BINDINGS else EvictionDecided
    return model.model_validate_json(record.value)


def decisions_of(records: Iterable[Record]) -> Decisions:
    """The tables after these records."""
    decisions = Decisions()
    for record in records:
        fold(decisions, record)
    return decisions


def fold(decisions: Decisions, record: Record) -> str:
    """Fold a record in. Returns the key of the binding that it concerns."""
    key, event = record.name, event_of(record)
    if record.topic is BINDINGS:
        decisions.fold_binding(key, event if isinstance(event, WorkloadBound) else None)
        return key
    decisions.fold_eviction(key, event if isinstance(event, EvictionDecided) else None)
    return key.rpartition("|")[0]


class RecordedDeployer:
    """A deployer that keeps to the rule, on topics that were recorded.

    Args:
        records: everything that is ever written, in order.
        rng: decides in which order the topics are read, what has been compacted, and when the process is killed.
        on_remove: called with each removal and the number of records that are written by then.
    """

    def __init__(self, records: Sequence[Record], rng: random.Random, on_remove: Callable[[Remove, int], None]) -> None:
        self.running: dict[str, Running] = {}
        """What the platform runs. It survives the deployer."""

        self._records = records
        self._rng = rng
        self._on_remove = on_remove
        self._written = 0
        self._decisions = Decisions()
        self._queues: dict[tuple[str, int], list[Record]] = {}

    def write(self, count: int) -> None:
        """Let more records be written. The deployer has not read them yet."""
        for record in self._records[self._written : self._written + count]:
            self._queues.setdefault((record.topic.short, record.partition), []).append(record)
        self._written = min(self._written + count, len(self._records))

    @property
    def is_done(self) -> bool:
        """Whether everything is written."""
        return self._written == len(self._records)

    def start(self) -> None:
        """Start anew, perhaps after a kill: read both topics to their present ends, then act on everything."""
        self._decisions = Decisions()
        self._queues.clear()
        present = self._records[: self._written]
        last = {(record.topic.short, record.name): record for record in present}
        compacted = self._rng.choice((0.0, 0.5, 1.0))
        without_tombstones = self._rng.random() < 0.3
        left: dict[tuple[str, int], list[Record]] = {}
        for record in present:
            is_last = last[record.topic.short, record.name] is record
            if (not is_last and self._rng.random() < compacted) or (record.value is None and without_tombstones):
                continue
            left.setdefault((record.topic.short, record.partition), []).append(record)
        if without_tombstones:  # then everything older than a tombstone is gone, too
            ended = {place for place, record in last.items() if record.value is None}
            left = {
                place: [one for one in found if (one.topic.short, one.name) not in ended]
                for place, found in left.items()
            }
        self._drain(left, act=False)
        for key in sorted(self._decisions.keys | self.running.keys()):
            self._act(key)

    def read(self, count: int) -> None:
        """Read some of the records that are written, in any order between topics and partitions."""
        for _ in range(count):
            waiting = [queue for queue in self._queues.values() if queue]
            if not waiting:
                return
            self._act(fold(self._decisions, self._rng.choice(waiting).pop(0)))

    def read_all(self) -> None:
        """Read everything that is written."""
        self._drain(self._queues, act=True)

    def _drain(self, queues: dict[tuple[str, int], list[Record]], *, act: bool) -> None:
        while waiting := [queue for queue in queues.values() if queue]:
            key = fold(self._decisions, self._rng.choice(waiting).pop(0))
            if act:
                self._act(key)

    def _act(self, key: str) -> None:
        while (step := self._decisions.step(key, self.running.get(key))) is not None:
            if isinstance(step, Place):
                self.running[key] = Running.of(step.bound)
            else:
                self._on_remove(step, self._written)
                del self.running[key]


class NaiveDeployer:
    """What the contract used to say: run each binding until its tombstone, and remove what is Requested."""

    def __init__(self) -> None:
        self.running: dict[str, WorkloadBound] = {}
        self.reported: list[str] = []
        """The targets about which it reported `Healthy`."""

    def read(self, record: Record) -> None:
        """Act on one record."""
        event = event_of(record)
        if isinstance(event, WorkloadBound):
            self.running[record.name] = event
            self.reported.append(event.target.name)
        elif record.topic is BINDINGS:
            self.running.pop(record.name, None)
        elif isinstance(event, EvictionDecided) and event.state == "Requested":
            self.running.pop(f"{event.workload}|{event.target}", None)
