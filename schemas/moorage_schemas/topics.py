"""The table of topics: name, key, partitioning, event and cleanup policy.

All topics are created only from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from moorage_schemas.base import Model
from moorage_schemas.budget import BudgetCounted, EvictionAnswered, EvictionAsked, EvictionSlot
from moorage_schemas.clock import ClockMeasured
from moorage_schemas.condition import ConditionChanged, ConditionReported, WorkloadConditionChanged
from moorage_schemas.configuration import ConfigurationChanged
from moorage_schemas.dead_letter import Audited, DeadLettered
from moorage_schemas.eviction import EvictionDecided, GenerationFloor
from moorage_schemas.journal import StepsTaken
from moorage_schemas.leave_request import LeaveRequested
from moorage_schemas.maintenance import MaintenanceProgressed
from moorage_schemas.placement import WorkloadBound, WorkloadPlaced
from moorage_schemas.probe_grant import ProbeGrantChanged
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.shown import ObjectShown
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.webhook_status import WebhookStatusChanged
from moorage_schemas.zone import NoExecuteGranted, ZoneChanged, ZoneMembered

PARTITIONS = 24
"""The number of partitions of every topic. A fleet may be created with another number. It never changes afterwards."""

_HOUR_MS = 60 * 60 * 1000
_DAY_MS = 24 * _HOUR_MS

COMPACTION_LAG_MS = 10 * 60 * 1000
"""Milliseconds for which a compacted topic keeps every record.

A service that restarts within this time can restore its former state from its source tables: the older record of a key
has not been compacted away in favour of one that the service has not read yet. A longer time would slow down restores,
because there are many heartbeats.
"""

WATCHABLE_MS = _HOUR_MS
"""Milliseconds for which every change of an object is kept, so that watches resume after it."""

TOMBSTONE_RETENTION_MS = 7 * _DAY_MS
"""Milliseconds for which a compacted topic keeps the tombstone of a deleted key."""


_MIB = 1024 * 1024

INDEX_BYTES = _MIB
"""Bytes that Kafka sets aside for each of the two indexes of a segment that is written. Kafka's default is 10 MiB, of
which nearly 500 partitions would map two each. 1 MiB is enough for a segment of 512 MiB."""


@dataclass(frozen=True, slots=True)
class Segments:
    """How the log of a partition is cut into segments.

    Kafka compacts a topic, and deletes old records, by whole segments, and never touches the one that is being written.
    So the segment bounds what a restore reads in addition to the last record of each key, and what is kept after its
    retention. It is cut when it is full, and by the first record that comes after its time is over. Smaller segments
    cost an open file each: with 24 partitions, 100 segments in each are 2,400 files.
    """

    bytes: int
    """The size at which a segment is cut. At least 1 MiB, which Kafka 4 requires."""

    ms: int
    """The age in milliseconds at which a segment is cut."""

    compaction_ms: int = 0
    """Milliseconds after which a record must be compacted, even if its segment is not full and few records are
    outdated. A segment is cut at this age, too. 0 for topics that are not compacted."""

    dirty_ratio: float = 0.5
    """The part of the log that may be uncompacted before Kafka compacts it. Kafka's default is 0.5."""


CHURN = Segments(16 * _MIB, 2 * _HOUR_MS, compaction_ms=2 * _HOUR_MS)
"""For tables whose records are replaced again and again, so that nearly all that is written soon is outdated. The last
records of a partition take far less than a segment, so a restore reads little more than the segment that is written.
Kafka's default segment of 1 GiB and seven days would hold everything that was written in that time."""

LASTING = Segments(64 * _MIB, 24 * _HOUR_MS, compaction_ms=24 * _HOUR_MS, dirty_ratio=0.25)
"""For tables that grow with the fleet and change seldom. The last records of a partition fill many segments, so larger
ones keep the number of files low. With Kafka's default ratio of 0.5, a restore could read twice as much as necessary;
with 0.25 it is at most a third more, and for it each third of the table that changes is one compaction."""

STREAM = Segments(128 * _MIB, _HOUR_MS)
"""For streams that are written at the rate of the fleet and kept for a day. At most an hour more than that is kept."""

SHOWN = Segments(32 * _MIB, _HOUR_MS, compaction_ms=2 * _HOUR_MS, dirty_ratio=0.25)
"""For the objects that the API shows. They grow with the fleet, and each change of one is a record."""

RECORD = Segments(64 * _MIB, 24 * _HOUR_MS)
"""For what is written seldom and kept for days, for people and for replay."""


class Cleanup(StrEnum):
    """What Kafka does with old records."""

    COMPACT = "compact"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, eq=False)
class Topic:
    """One topic of the table. There is one object for each, so that they are compared and hashed by identity."""

    short: str
    """The short name, such as `conditions` for `moorage.conditions.v1`."""

    key: str
    """The parts of the record key, as text."""

    partition_by: str
    """What determines the partition, as text."""

    event: type[Model]
    cleanup: Cleanup
    retention_ms: int = -1
    """Milliseconds. -1 keeps records forever (compacted topics)."""

    writer: str = ""
    """The service or the programs that may write the topic."""

    max_message_bytes: int = 1_048_588
    """Size of the largest record in bytes. The default is Kafka's own."""

    segments: Segments = CHURN
    """How its log is cut into segments, by how it is written."""

    retention_bytes: int = -1
    """Bytes of a partition above which the oldest segments are deleted, whatever their age. -1 sets no limit."""

    compaction_lag_ms: int = COMPACTION_LAG_MS
    """Milliseconds for which a compacted topic keeps every record."""

    compression: str = ""
    """How the broker compresses its records. Empty keeps them as they were sent."""

    log_append_time: bool = False
    """Whether the broker's clock gives its records their time, because the clocks of their writers may be wrong."""

    def name(self, prefix: str = "moorage") -> str:
        """The topic's name in Kafka, such as `moorage.conditions.v1`."""
        return f"{prefix}.{self.short}.v1"

    @property
    def event_type(self) -> str:
        """The CloudEvents type of its records."""
        return str(self.event.event_type)  # type: ignore[attr-defined]  # every event model has one; a test holds it

    def config(self) -> dict[str, str]:
        """Topic settings for Kafka's admin API."""
        settings = {
            "cleanup.policy": self.cleanup.value,
            "max.message.bytes": str(self.max_message_bytes),
            "segment.bytes": str(self.segments.bytes),
            "segment.ms": str(self.segments.ms),
            "segment.index.bytes": str(INDEX_BYTES),
        }
        if self.cleanup is Cleanup.DELETE:
            settings["retention.ms"] = str(self.retention_ms)
            settings["retention.bytes"] = str(self.retention_bytes)
        else:
            # How long a process may be down without missing deletions.
            settings["delete.retention.ms"] = str(TOMBSTONE_RETENTION_MS)
            settings["min.compaction.lag.ms"] = str(self.compaction_lag_ms)
            settings["max.compaction.lag.ms"] = str(self.segments.compaction_ms)
            settings["min.cleanable.dirty.ratio"] = str(self.segments.dirty_ratio)
        if self.log_append_time:
            settings["message.timestamp.type"] = "LogAppendTime"
        if self.compression:
            settings["compression.type"] = self.compression
        return settings


CONDITION_REPORTS = Topic(
    "condition-reports",
    "target",
    "target",
    ConditionReported,
    Cleanup.DELETE,
    _DAY_MS,
    "third parties, gateway",
    segments=STREAM,
    log_append_time=True,
)
CONDITIONS = Topic("conditions", "target|type", "target", ConditionChanged, Cleanup.COMPACT, writer="condition-ingest")
RESOURCES = Topic(
    "resources",
    "kind/namespace/name",
    "target, else the key",
    ResourceDeclared,
    Cleanup.COMPACT,
    writer="gateway",
    segments=LASTING,
)
CONFIGURATION = Topic("configuration", "name", "the fleet", ConfigurationChanged, Cleanup.COMPACT, writer="gateway")
PROBE_GRANTS = Topic("probe-grants", "name", "the fleet", ProbeGrantChanged, Cleanup.COMPACT, writer="gateway")
TAINTS = Topic("taints", "target", "target", TargetTainted, Cleanup.COMPACT, writer="taint-manager")
BINDINGS = Topic(
    "bindings", "workload|target", "target", WorkloadBound, Cleanup.COMPACT, writer="placement", segments=LASTING
)
PLACEMENTS = Topic(
    "placements",
    "workload",
    "owner of the workload",
    WorkloadPlaced,
    Cleanup.COMPACT,
    writer="placement",
    segments=LASTING,
)
TIMERS = Topic("timers", "timer id", "target", SetTimer, Cleanup.COMPACT, writer="the timer's issuer")
TIMER_FIRED = Topic("timer-fired", "timer id", "target", TimerFired, Cleanup.DELETE, _DAY_MS, "timer", segments=STREAM)
EVICTIONS = Topic(
    "evictions",
    "workload|target|generation",
    "target",
    EvictionDecided,
    Cleanup.COMPACT,
    writer="eviction",
    segments=LASTING,
)
EVICTION_REQUESTS = Topic(
    "eviction-requests",
    "workload|target|requester",
    "target",
    LeaveRequested,
    Cleanup.COMPACT,
    writer="gateway",
)
GENERATION_FLOORS = Topic(
    "generation-floors",
    "partition of evictions",
    "that partition",
    GenerationFloor,
    Cleanup.COMPACT,
    writer="eviction",
)
WORKLOAD_CONDITIONS = Topic(
    "workload-conditions",
    "workload|target|type",
    "target",
    WorkloadConditionChanged,
    Cleanup.COMPACT,
    writer="condition-ingest",
    segments=LASTING,
)
ZONE_MEMBERS = Topic("zone-members", "target", "the fleet", ZoneMembered, Cleanup.COMPACT, writer="taint-manager")
ZONES = Topic("zones", "zone", "the fleet", ZoneChanged, Cleanup.COMPACT, writer="governor")
ZONE_GRANTS = Topic("zone-grants", "target", "target", NoExecuteGranted, Cleanup.COMPACT, writer="governor")
EVICTION_ASKS = Topic(
    "eviction-asks", "workload|target|generation", "the fleet", EvictionAsked, Cleanup.COMPACT, writer="eviction"
)
EVICTION_ANSWERS = Topic(
    "eviction-answers",
    "workload|target|generation",
    "target",
    EvictionAnswered,
    Cleanup.DELETE,
    7 * _DAY_MS,
    "governor",
    segments=RECORD,
)
EVICTION_SLOTS = Topic(
    "eviction-slots", "workload|target|generation", "the fleet", EvictionSlot, Cleanup.COMPACT, writer="governor"
)
BUDGETS = Topic("budgets", "budget", "the fleet", BudgetCounted, Cleanup.COMPACT, writer="governor")
MAINTENANCES = Topic(
    "maintenances", "maintenance", "the fleet", MaintenanceProgressed, Cleanup.COMPACT, writer="governor"
)
WEBHOOK_STATUSES = Topic(
    "webhook-statuses", "webhook", "the fleet", WebhookStatusChanged, Cleanup.COMPACT, writer="webhooks"
)
DEAD_LETTERS = Topic(
    "dead-letters",
    "original key",
    "original key",
    DeadLettered,
    Cleanup.DELETE,
    30 * _DAY_MS,
    "all services",
    max_message_bytes=4 * 1_048_576,
    segments=RECORD,
    # A probe that goes wrong is refused at the rate of its reports, with the original in each record.
    retention_bytes=1024 * _MIB,
)
JOURNAL = Topic(
    "journal",
    "run of a process",
    "the writer's own",
    StepsTaken,
    Cleanup.DELETE,
    7 * _DAY_MS,
    "all services",
    segments=RECORD,
)
OBJECTS = Topic(
    "objects",
    "kind/namespace/name",
    "the fleet",
    ObjectShown,
    Cleanup.COMPACT,
    writer="gateway",
    max_message_bytes=4 * 1_048_576,
    segments=SHOWN,
    compaction_lag_ms=WATCHABLE_MS,
    # Objects are long and much alike.
    compression="gzip",
)
CLOCKS = Topic(
    "clocks",
    "run of a process",
    "always the first",
    ClockMeasured,
    Cleanup.DELETE,
    _DAY_MS,
    "all services, gateway",
    segments=STREAM,
    log_append_time=True,
)
AUDIT = Topic("audit", "resource", "resource", Audited, Cleanup.DELETE, 30 * _DAY_MS, "gateway", segments=RECORD)

TOPICS: tuple[Topic, ...] = (
    CONDITION_REPORTS,
    CONDITIONS,
    RESOURCES,
    CONFIGURATION,
    PROBE_GRANTS,
    TAINTS,
    BINDINGS,
    PLACEMENTS,
    TIMERS,
    TIMER_FIRED,
    EVICTIONS,
    EVICTION_REQUESTS,
    GENERATION_FLOORS,
    WORKLOAD_CONDITIONS,
    ZONE_MEMBERS,
    ZONES,
    ZONE_GRANTS,
    EVICTION_ASKS,
    EVICTION_ANSWERS,
    EVICTION_SLOTS,
    BUDGETS,
    MAINTENANCES,
    WEBHOOK_STATUSES,
    DEAD_LETTERS,
    JOURNAL,
    OBJECTS,
    CLOCKS,
    AUDIT,
)


FLEET = "fleet"
"""The partition key of everything that the governor reads and writes, of the configuration, and of the objects that are
shown. It is one partition: the governor decides for the whole fleet, and the objects have one order."""


@lru_cache(maxsize=1 << 18)
def partition_of(partition_key: str, partitions: int = PARTITIONS) -> int:
    """The partition of a key by Kafka's default partitioner (murmur2), so that any client computes the same one."""
    return (murmur2(partition_key.encode()) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 hash with its seed, as an unsigned 32-bit number."""
    mask, multiplier = 0xFFFFFFFF, 0x5BD1E995
    length = len(data)
    value = 0x9747B28C ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        word = (word * multiplier) & mask
        word = ((word ^ (word >> 24)) * multiplier) & mask
        value = ((value * multiplier) & mask) ^ word
    if whole < length:
        value ^= int.from_bytes(data[whole:], "little")
        value = (value * multiplier) & mask
    value = ((value ^ (value >> 13)) * multiplier) & mask
    return value ^ (value >> 15)
