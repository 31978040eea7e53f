"""The interface of a service: topics, a state for each partition, and a pure decision function.

A service never touches Kafka, a clock or a lock. For each partition the runtime restores a state from topics and passes
batches of records to `Service.process`. It writes the result together with the offsets of the batch, in one
transaction. After any failure the state is discarded and restored from the topics. So `process` may change the state
freely, but only through `Service.apply`, which the restore uses as well.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from moorage.runtime.measures import Measure
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.topics import Topic, partition_of
from moorage_schemas.trace_context import traceparent_of


class RawRecord(Struct, frozen=True, gc=False):
    """A record as it was received, for a dead letter."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """Kafka allows headers without a value."""


class Input(Struct, frozen=True, gc=False):
    """One record that a service reads, decoded, with its topic, partition and offset."""

    topic: Topic
    partition: int
    offset: int
    key: str
    event: Model | None
    """None for a tombstone."""

    meta: Meta
    """The CloudEvents attributes. A tombstone also has them."""

    raw: RawRecord | None = None
    """The record as it was received, for dead letters. Kept only for topics that third parties write."""

    written: datetime | None = None
    """Kafka's timestamp of the record, only for topics that third parties write; None when unknown.

    It comes from the writer's clock, or from the broker's if the topic is configured that way.
    """


@dataclass(frozen=True, slots=True)
class Malformed:
    """A record that could not be decoded. Only services that list its topic in `refuses` see it."""

    topic: Topic
    partition: int
    offset: int
    raw: RawRecord
    reason: str
    """A `RefusalReason` value."""

    message: str
    field: str = ""
    value: str = ""
    rule: str = ""
    count: int = 1
    """The number of such records for which its dead letter stands."""


class Emit(Struct, frozen=True, gc=False):
    """One record that a service writes."""

    topic: Topic
    key: str
    partition_key: str
    """The key that determines the partition, usually a target's key."""

    content: Model | bytes | None
    """The event, or its value as it is written; None writes a tombstone."""

    cause: Meta
    """The event that led to this one. Its id becomes the causation id, and its correlation id is passed on."""

    meta: Meta | None = None
    """The attributes to write instead of those of a child event. Only for a record that is passed on unchanged, with
    its id."""

    step: str = ""
    """Distinguishes this record from others with the same cause and the same key, for example by a revision. It is part
    of the event's id. Empty when a cause has only one record of the key."""

    can_wait: bool = False
    """Whether it changes nothing but times, so that it is committed with the next record that does not wait, or with
    the offsets of the input, within a second."""

    reader: str = ""
    """The service that it is for, if no other acts on it. In a chain with that service, which has it at once, it waits
    until something follows from it that does not, or as above."""

    before: Any = None
    """The part of the state that the record replaces, if the metrics or the lines of the service need it. It is not
    written."""

    @property
    def event(self) -> Model | None:
        """The event. None for a tombstone. It is read anew each time if the content is a value."""
        content = self.content
        return self.topic.event.model_validate_json(content) if isinstance(content, bytes) else content


def child_meta(emit: Emit, *, source: str, now: datetime, ordinal: int = 0, configuration: int = 0) -> Meta:
    """Return the attributes of an emitted event. Its id is a hash of its cause, never random.

    Args:
        emit: the record to write.
        source: the CloudEvents source, such as `moorage/eviction`.
        now: the time of the decision.
        ordinal: distinguishes several events of one step, for one key from one cause.
        configuration: the generation of the configuration by which it was decided; 0 for none.
    """
    identity = child_id(emit, ordinal)
    return Meta(
        id=identity,
        source=source,
        type=emit.topic.event_type,
        time=now,
        subject=emit.key,
        correlation_id=emit.cause.correlation,
        causation_id=emit.cause.id,
        traceparent=traceparent_of(identity, emit.cause.correlation, emit.cause.traceparent),
        configuration=configuration,
    )


def child_id(emit: Emit, ordinal: int) -> str:
    """Return the id of an emitted event.

    Args:
        emit: the record to write.
        ordinal: distinguishes several events of one step, for one key from one cause.
    """
    return event_id(id_text(emit, ordinal))


def id_text(emit: Emit, ordinal: int = 0) -> str:
    """Return the parts of which an emitted event's id is made, joined as `event_id` joins them.

    This runs for every record that is written, and again only for a second event of the same step.
    """
    about = f"{emit.cause.id}\x1f{emit.topic.short}\x1f{emit.key}\x1f{ordinal}"
    return f"{about}\x1f{emit.step}" if emit.step else about


def source_name(service: str) -> str:
    """Return the CloudEvents source of a service's events."""
    return f"moorage/{service}"


class NeedFresh(Exception):  # noqa: N818 - a request to the runtime, not an error
    """A decision needs followed tables that are as new as its input.

    `process` raises it before it has changed any state, when it lacks a record that may have been written just before
    the present one. An example is a report about a node that was declared a moment ago. The runtime then reads the
    followed topics, and the global ones of `fresh_globals`, to their present end. It folds them in, and calls `process`
    again with `fresh=True`.
    """


@dataclass(frozen=True, slots=True)
class Upstream:
    """Another service between what people and probes write and what is decided here.

    What it has read and not processed yet may change the decision. With all services in between, the decision rests on
    everything that was accepted before it.
    """

    service: str
    """The service's name."""

    topics: tuple[Topic, ...]
    """The topics that it reads."""

    writes: Topic
    """The topic that it writes for this service, or for the next service in between."""

    concerns: Callable[[Topic, str, bytes], str | None]
    """Returns the key that a record of `topics` with a given key and value may change; None for none."""

    via: Topic | None = None
    """The source table of this service whose records state how far the upstream service had read; None if none does.
    Then only its committed offsets do."""

    teller: str = ""
    """The writer of `via`, if it is not the upstream service itself: it passes on what it has read (`Service.passes`).
    """

    states: Callable[[str, bytes], tuple[object, object] | None] | None = None
    """Returns the subject of a record with a given key and value, and what it states about it. A record that states the
    same as the one before about its subject changes nothing, so only the first of them concerns anything."""

    where: Callable[[str], str | None] | None = None
    """Returns the partition key of the records of `topics` about one of `Needs.keys`; None when there are none. Without
    this function, they are in the partition of this service's task."""

    lands: Callable[[str], str | None] | None = None
    """Returns in the same way where the service writes what it decides about one of `Needs.keys`."""

    def read_places(self, keys: Iterable[str] | None, *, own: int, partitions: int) -> Iterator[tuple[Topic, int]]:
        """Yield each topic and partition that may have records about some keys; None stands for all keys."""
        for partition in _partitions_of(self.where, keys, own, partitions):
            for topic in self.topics:
                yield topic, partition

    def written_places(self, keys: Iterable[str] | None, *, own: int, partitions: int) -> Iterator[tuple[Topic, int]]:
        """Yield each topic and partition to which the service writes about some keys; None stands for all keys."""
        for partition in _partitions_of(self.lands, keys, own, partitions):
            yield self.writes, partition


def _partitions_of(
    place: Callable[[str], str | None] | None, keys: Iterable[str] | None, own: int, partitions: int
) -> Iterable[int]:
    if place is None:
        return (own,)
    if keys is None:
        return range(partitions)
    return sorted({partition_of(found, partitions) for key in keys if (found := place(key)) is not None})


@dataclass(frozen=True, slots=True)
class Needs:
    """The data to read to its present end before `Service.wake`, because `wake` makes irrevocable decisions."""

    tables: tuple[Topic, ...] = ()
    """The source tables to read."""

    globals: frozenset[Topic] = frozenset()
    """The global topics to read."""

    upstream: tuple[Upstream, ...] = ()
    """The upstream services whose lag to determine."""

    keys: frozenset[str] | None = None
    """The keys for which to determine that lag; None for all keys."""


CHECK_LAG_AGAIN: Final = timedelta(milliseconds=200)
"""The time between two checks of whether upstream services have caught up."""

EVERYTHING: Final = ""
"""The key of `Freshness.lagging` that stands for all keys."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """The result of reading `Needs`."""

    now: datetime
    """When the ends were requested. Everything that was committed by then has been read."""

    ends: Mapping[Topic, int] = field(default_factory=dict)
    """The ends to which the tables were read."""

    lagging: Mapping[str, str] = field(default_factory=dict)
    """The keys about which an upstream service still has records to process, each with the name of the service. The key
    `EVERYTHING` stands for all."""

    keys: frozenset[str] | None = None
    """The keys for which that lag was determined, as in `Needs.keys`; None for all. It is unknown for other keys, which
    may have come up while the tables were read."""

    def covers(self, *keys: str) -> bool:
        """Return whether the lag was determined for these keys."""
        return self.keys is None or self.keys.issuperset(keys)

    def lags(self, *keys: str) -> str:
        """Return the upstream service that still has records about one of these keys to process; empty for none."""
        lagging = self.lagging
        return next((lagging[key] for key in (EVERYTHING, *keys) if key in lagging), "") if lagging else ""


class RowFormat(Protocol):
    """A reader of the values of a table as rows. `RowReader` is one."""

    @property
    def read(self) -> Callable[[bytes], Any | None]:
        """Returns the row of a value; None when the value is to be left to the model."""

    @property
    def keys(self) -> Callable[[bytes], bool] | None:
        """Returns whether the record of a key is read as a row; None for all records."""


S = TypeVar("S")


class DecisionLines(Protocol):
    """Takes the log lines about one record of a decision."""

    def wants(self, kind: str, level: int = logging.INFO) -> bool:
        """Return whether a line of this kind is to be written now. If it is not, for its rate, it is counted."""

    def write(self, kind: str, fields: Mapping[str, object], level: int = logging.INFO) -> None:
        """Write a line. Empty fields are left out."""


Describe = Callable[[Emit, DecisionLines], None]
"""Writes the log lines about a record that is committed. It is called only then, and never in a simulation."""


class Service(ABC, Generic[S]):
    """A service as pure functions over the state of one partition."""

    name: ClassVar[str]
    """The name in kebab case, such as `taint-manager`. The consumer group and the transactional ids begin with it."""

    summary: ClassVar[str] = ""
    """The purpose of the service, in one line. The AsyncAPI document shows it."""

    sources: ClassVar[tuple[Topic, ...]]
    """The topics that it consumes, with committed offsets. Their partitions line up: one task has partition p of all.
    """

    heartbeats: ClassVar[tuple[Topic, ...]] = ()
    """The sources whose records mostly change nothing. Those that come in quick succession are fetched together."""

    source_tables: ClassVar[frozenset[Topic]] = frozenset()
    """The sources whose records are part of the state. On assignment, their records up to the committed offset go to
    `apply`, and those from there to the present end to `catch_up`. All later ones go to `process`. Until that end is
    reached, no other source is read, and neither `wake` nor `reconcile` is called.
    """

    changelogs: ClassVar[tuple[Topic, ...]] = ()
    """The service's own outputs that the state rests on. They are restored to their end with `apply` before work
    begins. The task of partition p writes partition p of them. Each record carries the source offsets that it rests on.
    """

    outputs: ClassVar[tuple[Topic, ...]] = ()
    """All other topics that it emits to, in any partition. Dead letters need not be named."""

    follows: ClassVar[tuple[Topic, ...]] = ()
    """Co-partitioned topics of other services in which the state only looks things up. They have no committed offsets:
    they are read to their end on assignment, then followed through `apply`. `NeedFresh` brings them up to date for
    `process`."""

    globals: ClassVar[tuple[Topic, ...]] = ()
    """Topics of which every worker reads all partitions, into the one `GlobalView` of the process."""

    fresh_globals: ClassVar[frozenset[Topic]] = frozenset()
    """The topics of `globals` that `NeedFresh` also brings up to date. This service must not write to them: its own
    transaction may be open, and their end cannot be read before that has ended.
    """

    upstream: ClassVar[tuple[Upstream, ...]] = ()
    """The services whose lag it may need (`Needs.upstream`): it reads their topics, and their committed offsets."""

    passes: ClassVar[Mapping[Topic, str]] = MappingProxyType({})
    """Source tables whose records state how far their writer had read, with the writer's name. The service's own state
    records pass this on, so that they state how far all services before it had read."""

    refuses: ClassVar[frozenset[Topic]] = frozenset()
    """Sources whose records go to `refuse` when they cannot be decoded, because third parties write them."""

    rows: ClassVar[Mapping[Topic, RowFormat]] = MappingProxyType({})
    """Tables with so many records that their models would take most of the time of a restore. A restore gives their
    records to `apply` as rows where it can."""

    lines: ClassVar[Mapping[Topic, Describe]] = MappingProxyType({})
    """The descriptions of the records that are decisions, for the log (docs/logs.md)."""

    @abstractmethod
    def new_state(self, partition: int) -> S:
        """Return an empty state for a partition."""

    @abstractmethod
    def apply(self, state: S, topic: Topic, key: str, event: Any) -> None:
        """Fold one record of a table into the state. This is idempotent, and the only way to change the state.

        Args:
            state: the state of the partition.
            topic: the topic of the record.
            key: its key.
            event: the event of the topic; None for a tombstone. For a topic of `rows` perhaps the row of the event,
                which has its fields and properties.
        """

    @abstractmethod
    def process(self, state: S, batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        """Decide on a batch of records, in order.

        The result is deterministic: the same state, batch and `now` give the same result. This method itself must
        `apply` every change of the state, including its output to changelogs, so that it counts for later records of
        the batch. Records of `source_tables` are passed to this method and must be applied here as well.
        """

    def catch_up(self, state: S, batch: Sequence[Input], now: datetime) -> list[Emit]:
        """Process records of source tables that were waiting when the partition started.

        The state is still incomplete. Decisions that rest on more than the records themselves belong in `wake`, which
        is called once the tables are read to their ends. So a service whose `process` decides on the whole state only
        folds records in here.
        """
        return self.process(state, batch, now, fresh=True)

    def needs(self, state: S, now: datetime) -> Needs | None:  # noqa: ARG002 - for services with irrevocable decisions
        """Return the data to read to its present end before `wake`; None for nothing."""
        return None

    def refreshed(self, state: S, found: Freshness) -> None:
        """Store the result of reading `needs`. `wake` is called next."""

    def wake(self, state: S, now: datetime) -> list[Emit]:  # noqa: ARG002 - for services that wait for time
        """Do a portion of the work that the time, or a change of the global view, has made due.

        The first call comes when the partition has caught up, and is the right place to begin to check everything. A
        call does a bounded amount of work, by the constants of `portions`. While more is due, `next_wake` returns a
        time in the past, and `wake` is called again after the records that have arrived meanwhile.
        """
        return []

    def next_wake(self, state: S) -> datetime | None:  # noqa: ARG002 - for services that wait for time
        """Return when `wake` has something to do; None for never."""
        return None

    def reconcile(self, state: S, now: datetime) -> list[Emit]:  # noqa: ARG002 - optional
        """Recompute a portion of the desired state and return records for the differences.

        The call begins a round, or continues the one that `is_reconciling` reports.
        """
        return []

    def is_reconciling(self, state: S) -> bool:  # noqa: ARG002 - for services whose rounds take several calls
        """Return whether a round of `reconcile` has begun that is not finished."""
        return False

    def refuse(self, state: S, bad: Malformed, now: datetime) -> list[Emit]:  # noqa: ARG002 - optional
        """Return the dead letter of a record that could not be decoded."""
        return []

    def settle(self, state: S, limit: int) -> bool:  # noqa: ARG002 - for services that count their state
        """Bring the counts of `measures` up to date for a portion of what has changed.

        Args:
            state: the state of the partition.
            limit: the number of changes to count.

        Returns:
            Whether nothing is left to count.
        """
        return True

    def measures(self, state: S, now: datetime) -> Iterable[Measure]:  # noqa: ARG002 - optional
        """Return the numbers of a partition that Prometheus is shown. This must not take longer in a larger fleet."""
        return ()

    def begin_series(self) -> None:
        """Create the usual series of counters, at 0. Called when a process starts to run the service.

        Prometheus' `rate` and `increase` show nothing of the first event of a series that begins with it.
        """

    def committed(self, written: Mapping[Topic, Sequence[Emit]], now: datetime) -> None:
        """Update the metrics of this process for records that are committed now."""

    def new_globals(self) -> GlobalView | None:
        """Return the process-wide view of `globals`; None when there are none."""
        return None

    def use_globals(self, state: S, view: GlobalView) -> None:
        """Give a partition's state the global view. Called once, before the state is restored."""

    def drop(self, state: S) -> None:
        """Undo the state's assumptions in the global view. Called when the partition is taken away or restarts."""


class GlobalView(ABC):
    """A view of whole topics, shared by all partitions of a service in one process."""

    @abstractmethod
    def apply(self, record: Input) -> None:
        """Fold in one record. Services whose decisions depend on the order of the log use its partition and offset."""

    def wants(self, topic: Topic, key: str) -> bool:  # noqa: ARG002 - a view that takes everything ignores them
        """Return whether a record with this key is needed. Other records are never decoded."""
        return True

    def changed(self) -> Iterable[int] | None:
        """Return the partitions to wake for the records folded in since the last call; None for all of them."""
        return None
