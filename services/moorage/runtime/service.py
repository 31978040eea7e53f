"""What a service is to the runtime: topics, a state for each partition, and a pure decision function.

A service never touches Kafka, a clock or a lock. For each partition the runtime restores a state from topics, passes
batches of records to `Service.process`, and writes the result together with the offsets of the batch, in one
transaction. After any failure the state is thrown away and restored from the topics. So `process` may change the state
freely, but only through `Service.apply`, which the restore uses, too.
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
    """A record as it was received, for a dead letter."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Input:
    """One record that a service reads, decoded, with its topic, partition and offset."""

    topic: Topic
    partition: int
    offset: int
    key: str
    event: Model | None
    """None for a tombstone."""

    meta: Meta
    """The CloudEvents attributes. A tombstone has them, too."""

    raw: RawRecord | None = None
    """The record as it was received, for dead letters. Kept only for topics that third parties write."""

    written: datetime | None = None
    """Kafka's timestamp of the record, only for topics that third parties write; None when it is not known.

    It is the time of the writer's clock, or of the broker's where the topic is configured so.
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


@dataclass(frozen=True, slots=True)
class Emit:
    """One record that a service writes."""

    topic: Topic
    key: str
    partition_key: str
    """The key that decides the partition; mostly a target's key."""

    event: Model | None
    """The event; None writes a tombstone."""

    cause: Meta
    """The event that led to this one. Its id becomes the causation id, and its correlation id is passed on."""

    meta: Meta | None = None
    """The attributes to write instead of those of a child event. Only for a record that is passed on unchanged, with
    its id."""

    step: str = ""
    """Distinguishes this record from others to which the same cause leads under the same key; a revision, for example.
    It is part of the event's id. Empty when a cause leads to only one record of the key."""


def child_meta(emit: Emit, *, source: str, now: datetime, ordinal: int = 0) -> Meta:
    """Return the attributes of an emitted event. Its id is a hash of what caused it, never random.

    Args:
        emit: what is written.
        source: the CloudEvents source, such as `moorage/eviction`.
        now: the time of the decision.
        ordinal: distinguishes several events of one step, for one key from one cause.
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
    """Return the id of an emitted event.

    Args:
        emit: what is written.
        ordinal: distinguishes several events of one step, for one key from one cause.
    """
    about = (emit.cause.id, emit.topic.short, emit.key, ordinal)
    return event_id(*about, emit.step) if emit.step else event_id(*about)


def source_name(service: str) -> str:
    """Return the CloudEvents source of a service's events."""
    return f"moorage/{service}"


class NeedFresh(Exception):  # noqa: N818 - a request to the runtime, not an error
    """A decision needs followed tables that are as new as its input: catch up, then call again.

    `process` raises it before it has changed any state, when it misses something that may have been written just before
    the present record. An example is a report about a node that was declared a moment ago. The runtime reads the
    followed topics, and the global ones that the service names in `fresh_globals`, to their present end, folds them in,
    and calls `process` again with `fresh=True`.
    """


@dataclass(frozen=True, slots=True)
class Upstream:
    """Another service that makes one of this service's sources from topics of its own.

    Records of those topics that it has not processed yet may change what is decided here.
    """

    service: str
    """The service's name."""

    topics: tuple[Topic, ...]
    """The topics that it reads. Partition p of them becomes partition p of `via`."""

    via: Topic
    """The topic that it writes: a changelog there, and a source table here. Its records say how far the service had
    come."""

    concerns: Callable[[Topic, str], str | None]
    """Returns the key of this service that a record of `topics` with a given key may change; None for none."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be read to its present end before `Service.wake`, because `wake` decides what cannot be taken back."""

    tables: tuple[Topic, ...] = ()
    """The source tables to read."""

    globals: frozenset[Topic] = frozenset()
    """The global topics to read."""

    upstream: tuple[Upstream, ...] = ()
    """The upstream services whose lag must be known."""

    keys: frozenset[str] | None = None
    """The keys for which that lag must be known; None for all keys."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """The result of reading what `Needs` names."""

    now: datetime
    """When the ends were requested. Everything that was committed by then is known."""

    ends: Mapping[Topic, int] = field(default_factory=dict)
    """The ends to which the tables were read."""

    lagging: frozenset[str] | None = frozenset()
    """The keys about which an upstream service still has records to process; None for all keys."""

    def lags(self, key: str) -> bool:
        """Return whether an upstream service still has records about a key to process."""
        return self.lagging is None or key in self.lagging


S = TypeVar("S")


class Service(ABC, Generic[S]):
    """A service as pure functions over the state of one partition."""

    name: ClassVar[str]
    """The name in kebab case, such as `taint-manager`. The consumer group and the transactional ids begin with it."""

    summary: ClassVar[str] = ""
    """What the service does, in one line. The AsyncAPI document shows it."""

    sources: ClassVar[tuple[Topic, ...]]
    """The topics that it consumes, with committed offsets. Their partitions line up: one owner has partition p of
    all."""

    source_tables: ClassVar[frozenset[Topic]] = frozenset()
    """The sources that the state remembers. On assignment, their records up to the committed offset go through `apply`,
    those from there to the present end go through `catch_up`, and all later ones go through `process`. Before that end
    is reached, no other source is read, and neither `wake` nor `reconcile` is called."""

    changelogs: ClassVar[tuple[Topic, ...]] = ()
    """The service's own outputs that the state rests on. They are restored to their end with `apply` before work
    begins. The owner of partition p writes partition p of them. Each record carries the source offsets that it rests
    on."""

    outputs: ClassVar[tuple[Topic, ...]] = ()
    """Every other topic that it emits to, in any partition. Dead letters need not be named."""

    follows: ClassVar[tuple[Topic, ...]] = ()
    """Co-partitioned topics of other services in which the state only looks things up. They have no committed offsets:
    they are read to their end on assignment, then followed through `apply`. `NeedFresh` brings them up to date for
    `process`."""

    globals: ClassVar[tuple[Topic, ...]] = ()
    """Topics of which every worker reads every partition, into the one `GlobalView` of the process."""

    fresh_globals: ClassVar[frozenset[Topic]] = frozenset()
    """The topics of `globals` that `NeedFresh` also brings up to date. None of them may be written by this service: its
    own transaction may be open, and their end cannot be read before it is over."""

    refuses: ClassVar[frozenset[Topic]] = frozenset()
    """Sources whose records go to `refuse` when they cannot be decoded, because third parties write them."""

    @abstractmethod
    def new_state(self, partition: int) -> S:
        """Return an empty state for a partition."""

    @abstractmethod
    def apply(self, state: S, topic: Topic, key: str, event: Model | None) -> None:
        """Fold one record of a table into the state. Idempotent, and the only way in which the state changes."""

    @abstractmethod
    def process(self, state: S, batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        """Decide on a batch of records, in order.

        The result is deterministic: the same state, batch and `now` give the same result. Whatever is emitted to a
        changelog or changes the state must be applied with `apply` by this method itself, so that later records of the
        batch see it. Records of `source_tables` come through here and must be applied here, too.
        """

    def catch_up(self, state: S, batch: Sequence[Input], now: datetime) -> list[Emit]:
        """Take in records of source tables that were waiting when the partition began.

        The state is not complete yet. Decisions that rest on more than the records themselves belong in `wake`, which
        follows when the tables are read to their ends. So a service whose `process` decides on the whole state only
        folds records in here.
        """
        return self.process(state, batch, now, fresh=True)

    def needs(self, state: S, now: datetime) -> Needs | None:  # noqa: ARG002 - for services whose decisions cannot be taken back
        """Return what must be read to its present end before `wake`; None when nothing must."""
        return None

    def refreshed(self, state: S, found: Freshness) -> None:
        """Take in the result of reading what it needs. `wake` follows at once."""

    def wake(self, state: S, now: datetime) -> list[Emit]:  # noqa: ARG002 - for services that wait for time
        """Do what time, or a change of the global view, has made due. First called when the partition has caught up.

        The first call after a restore is the place to check everything.
        """
        return []

    def next_wake(self, state: S) -> datetime | None:  # noqa: ARG002 - for services that wait for time
        """Return when `wake` has something to do; None for never."""
        return None

    def reconcile(self, state: S, now: datetime) -> list[Emit]:  # noqa: ARG002 - optional
        """Recompute the desired state and return what differs; empty when nothing does."""
        return []

    def refuse(self, state: S, bad: Malformed, now: datetime) -> list[Emit]:  # noqa: ARG002 - optional
        """Return what to write about a record that could not be decoded: a dead letter."""
        return []

    def new_globals(self) -> GlobalView | None:
        """Return the process-wide view of `globals`; None when there are none."""
        return None

    def use_globals(self, state: S, view: GlobalView) -> None:
        """Give a partition's state the global view. Called once, before the state is restored."""

    def drop(self, state: S) -> None:
        """Take back what the state has assumed in the global view: its partition is taken away, or starts afresh."""


class GlobalView(ABC):
    """A view of whole topics, shared by all partitions of a service in one process."""

    @abstractmethod
    def apply(self, record: Input) -> None:
        """Fold in one record. Its partition and offset are for services whose rule is the order of the log."""

    def wants(self, topic: Topic, key: str) -> bool:  # noqa: ARG002 - a view that takes everything ignores them
        """Return whether a record with this key is needed. Records that are not are never decoded."""
        return True

    def changed(self) -> Iterable[int] | None:
        """Return the partitions to wake for the records folded in since the last call; None for all of them."""
        return None
