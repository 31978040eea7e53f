"""What a service is to the runtime: topics, a state for each partition, and a pure decision.

A service never touches Kafka, a clock or a lock. For each partition the runtime restores a state from
topics, hands batches of records to `Service.process`, and writes what comes back, together with
the offsets of what went in, in one transaction. After any failure the state is thrown away and restored from
the topics; so `process` may change the state freely, but only through `Service.apply`, which restoring uses too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Generic, TypeVar

from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.topics import Topic


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as it came, for a dead letter."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Input:
    """One record that a service reads: decoded, with its place."""

    topic: Topic
    partition: int
    offset: int
    key: str
    event: Model | None
    """None for a tombstone."""

    meta: Meta
    """The CloudEvents attributes; of a tombstone too."""

    raw: RawRecord | None = None
    """The record as it came, kept only for topics that third parties write (for dead letters)."""

    written: datetime | None = None
    """Kafka's time of the record, of topics that third parties write; None where it is not known.

    By the clock of the writer, or of the broker where the topic says so."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A record that could not be decoded; only services that list its topic in `refuses` see one."""

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


@dataclass(frozen=True, slots=True)
class Emit:
    """One record that a service writes."""

    topic: Topic
    key: str
    partition_key: str
    """What decides the partition: a target's key, mostly."""

    event: Model | None
    """None writes a tombstone."""

    cause: Meta
    """The event that led here; its id becomes the causation id, its correlation id goes on."""

    meta: Meta | None = None
    """The attributes to write instead of a child's: only for a record that is passed on as it is, with its id."""

    step: str = ""
    """What tells this record from those that the same cause has led to before, or will, under the same key: such as its
    revision. Empty where a cause leads to records of a key once; it is part of the event's id."""


def child_meta(emit: Emit, *, source: str, now: datetime, ordinal: int = 0) -> Meta:
    """The attributes of an emitted event: its id is a hash of what caused it, never random.

    Args:
        emit: what is written.
        source: the CloudEvents source, such as `moorage/eviction`.
        now: the time of the decision.
        ordinal: tells apart several events of one step, for one key from one cause.
    """
    return Meta(
        id=child_id(emit, ordinal),
        source=source,
        type=emit.topic.event_type,
        time=now,
        subject=emit.key,
        correlation_id=emit.cause.correlation,
        causation_id=emit.cause.id,
        traceparent=emit.cause.traceparent,
    )


def child_id(emit: Emit, ordinal: int) -> str:
    """The id of an emitted event.

    Args:
        emit: what is written.
        ordinal: tells apart several events of one step, for one key from one cause.
    """
    about = (emit.cause.id, emit.topic.short, emit.key, ordinal)
    return event_id(*about, emit.step) if emit.step else event_id(*about)


def source_name(service: str) -> str:
    """The CloudEvents source of a service's events."""
    return f"moorage/{service}"


class NeedFresh(Exception):  # noqa: N818 - a request to the runtime, not an error
    """A decision needs followed tables that are as new as the input: catch up, then call again.

    Raised by `process` before it has changed any state, when it misses something that may have been written just before
    the record at hand (a report about a node that was declared a moment ago). The runtime reads the followed topics,
    and the global ones that the service names in `fresh_globals`, up to their present end, folds them in, and calls
    `process` again with `fresh=True`.
    """


@dataclass(frozen=True, slots=True)
class Upstream:
    """Another service that makes one of this service's sources out of topics of its own.

    What stands in those and is not worked through there may be about to change what is decided on here.
    """

    service: str
    """Its name."""

    topics: tuple[Topic, ...]
    """What it reads; partition p of it becomes partition p of `via`."""

    via: Topic
    """What it writes, a changelog of its own and a source table here: its records say how far it had come."""

    concerns: Callable[[Topic, str], str | None]
    """Which of this service's keys a record of `topics` with that key may change; None for none."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be read to its present end before `Service.wake`, because it decides what cannot be taken back."""

    tables: tuple[Topic, ...] = ()
    """Of the source tables."""

    globals: frozenset[Topic] = frozenset()
    """Of the global topics."""

    upstream: tuple[Upstream, ...] = ()
    """Of whom it must be known how far they lag behind."""

    keys: frozenset[str] | None = None
    """About which keys that must be known; None for all of them."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """What was found when `Needs` were met."""

    now: datetime
    """The time at which the ends were asked for: what was committed by then is known."""

    ends: Mapping[Topic, int] = field(default_factory=dict)
    """The ends to which the tables were read."""

    lagging: frozenset[str] | None = frozenset()
    """The keys of which an upstream service has something yet to work through; None for all of them."""

    def lags(self, key: str) -> bool:
        """Whether something about a key is yet to be worked through upstream."""
        return self.lagging is None or key in self.lagging


S = TypeVar("S")


class Service(ABC, Generic[S]):
    """A service as pure functions over the state of one partition."""

    name: ClassVar[str]
    """Kebab-case, such as `taint-manager`; the consumer group and the transactional ids begin with it."""

    summary: ClassVar[str] = ""
    """What it does, in one line; it stands in the AsyncAPI document."""

    sources: ClassVar[tuple[Topic, ...]]
    """Consumed, with committed offsets; their partitions line up: one owner has partition p of all of them."""

    source_tables: ClassVar[frozenset[Topic]] = frozenset()
    """Those sources that the state remembers: on assignment they are read from their beginning up to the
    committed offset into `apply`, from there up to their present end through `catch_up`, and go on through `process`.
    Before that end nothing is read of other sources, and neither `wake` nor `reconcile` is called."""

    changelogs: ClassVar[tuple[Topic, ...]] = ()
    """Own outputs that the state rests on: restored to their end with `apply` before work begins.
    Partition p of the owner; each record carries the source offsets it rests on."""

    outputs: ClassVar[tuple[Topic, ...]] = ()
    """Every other topic that it emits to, whatever the partition; dead letters go without saying."""

    follows: ClassVar[tuple[Topic, ...]] = ()
    """Co-partitioned topics of others that the state only looks things up in: no offsets, read to their end on
    assignment and tailed through `apply`; `process` sees them as fresh as it asks for with `NeedFresh`."""

    globals: ClassVar[tuple[Topic, ...]] = ()
    """Topics of which every worker reads every partition, into the one `GlobalView` of the process."""

    fresh_globals: ClassVar[frozenset[Topic]] = frozenset()
    """Those of `globals` that `NeedFresh` asks for, too. None that this service writes itself: its own transaction
    may be open, and their end is not to be read before it is over."""

    refuses: ClassVar[frozenset[Topic]] = frozenset()
    """Sources whose undecodable records come to `refuse` (third parties write them)."""

    @abstractmethod
    def new_state(self, partition: int) -> S:
        """An empty state for a partition."""

    @abstractmethod
    def apply(self, state: S, topic: Topic, key: str, event: Model | None) -> None:
        """Fold one record of a table into the state. Idempotent; the only way in which the state changes."""

    @abstractmethod
    def process(self, state: S, batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        """Decide on a batch of records, in order.

        Deterministic: the same state, batch and `now` give the same result. Whatever is emitted to a changelog
        or changes the state must be applied with `apply` by this method itself, so that later records
        of the batch see it. Records of `source_tables` come through here and must be applied here too.
        """

    def catch_up(self, state: S, batch: Sequence[Input], now: datetime) -> list[Emit]:
        """Take records of source tables that were waiting when the partition began.

        The picture is not whole yet. What rests on more than the records themselves is for `wake`, which follows when
        the tables are read to their ends; so a service whose `process` decides on the whole only folds here.
        """
        return self.process(state, batch, now, fresh=True)

    def needs(self, state: S, now: datetime) -> Needs | None:  # noqa: ARG002 - for services that cannot take back
        """What must be read to its present end before `wake`; None when nothing must."""
        return None

    def refreshed(self, state: S, found: Freshness) -> None:
        """What it needs is read; `wake` follows at once."""

    def wake(self, state: S, now: datetime) -> list[Emit]:  # noqa: ARG002 - for services that wait for time
        """Do what has come due, or what a change of the global view made due; first when the partition has caught up.

        The first call after a restore is the place to look at everything.
        """
        return []

    def next_wake(self, state: S) -> datetime | None:  # noqa: ARG002 - for services that wait for time
        """When `wake` has something to do; None for never."""
        return None

    def reconcile(self, state: S, now: datetime) -> list[Emit]:  # noqa: ARG002 - optional
        """Recompute the desired state and emit what differs; empty when all is well."""
        return []

    def refuse(self, state: S, bad: Malformed, now: datetime) -> list[Emit]:  # noqa: ARG002 - optional
        """What to write about a record that could not be decoded: a dead letter."""
        return []

    def new_globals(self) -> GlobalView | None:
        """The process-wide view of `globals`; None when there are none."""
        return None

    def use_globals(self, state: S, view: GlobalView) -> None:
        """Give a partition's state its view of the whole, once, before it is restored."""

    def drop(self, state: S) -> None:
        """The partition is taken away or starts afresh: take back what it has assumed in the global view."""


class GlobalView(ABC):
    """A view of whole topics, shared by all partitions of a service in one process."""

    @abstractmethod
    def apply(self, record: Input) -> None:
        """Fold one record in; its partition and offset are there for services whose rule is the log's order."""

    def wants(self, topic: Topic, key: str) -> bool:  # noqa: ARG002 - a view that takes everything asks nothing
        """Whether a record with this key is of use here; those that are not are never decoded."""
        return True

    def changed(self) -> Iterable[int] | None:
        """Partitions to wake after the records folded in since the last call; None for all of them."""
        return None
