"""What happened in a run, as its checker sees it: the records that readers could see, and who was told what when.

It comes from a simulated Kafka, which knows the true order and the true time of everything, or from the topics of a
real run, where both are only as good as the records' timestamps. It shares nothing with what it is used to check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Entry:
    """One record that a reader of committed records could see, at some time."""

    topic: str
    """The short name, such as `taints`."""

    partition: int
    offset: int
    key: str
    value: bytes | None
    """None for a tombstone."""

    headers: Mapping[str, str]
    appended: float
    """True time, in seconds since the epoch, at which the broker took it."""

    committed: float
    """True time at which it could be read; on a real broker, where that is not known, as `appended`, or when a reader
    who followed the topics saw it where that was more than a moment later."""

    order: int
    """Its place in the order in which records became readable, over all partitions."""

    started: float | None = None
    """True time at which whoever wrote it had fenced those before him, and began; None when that is not known."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Somebody outside was told that what he wrote is accepted."""

    time: float
    """True time at which he was told."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class History:
    """One run."""

    entries: Sequence[Entry]
    """By `order`. All that was ever readable, what compaction and retention have taken away since included."""

    acknowledged: Sequence[Acknowledged]
    exact: bool
    """Whether times and order are true (simulated), or as good as the broker's timestamps."""

    began: float
    ended: float
    quiet: bool
    """Whether at the end every process ran, undisturbed, for long enough to come to rest."""

    partitions: int
    skew: float = 0.0
    """Seconds by which the clock of any process was off, at most, ahead or behind."""

    eviction_skew: float | None = None
    """The same of eviction's clocks; None where it is not known to be less."""

    settings: Mapping[str, object] = field(default_factory=dict)
    """The settings that the services ran with, by field name, where they differ from the defaults."""

    views: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """At the end, by process and service: what each replica's tables hold, for comparison with the topics."""

    repairs: Sequence[str] = ()
    """At the end, what each process would still write, by all that it holds in memory, were its reconciler asked."""

    whole: bool = False
    """Whether everything that a record rests on is in it, too: what is declared, and what services read and write."""

    rested: float | None = None
    """True time from which on nobody did anything, and the services had time for rounds of their reconcilers; None when
    there was no such time."""

    rows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By process and partition: how many rows its state had at that time, and at the end."""
