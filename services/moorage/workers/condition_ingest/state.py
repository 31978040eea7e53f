"""The view of condition-ingest, and its state for one partition, without the messages of conditions."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec
import structlog
from typing_extensions import override

from moorage.decide.conditions.grants import Grants
from moorage.decide.conditions.heartbeats import GracePeriods, HeartbeatWatch, own_grace, watched
from moorage.decide.conditions.report_limits import Rate
from moorage.decide.conditions.reports import KeptCondition, newer_condition
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.taints.desired.from_conditions import leads_to_a_taint
from moorage.runtime.engine.portions import PendingChecks
from moorage.runtime.measures import SeriesTally
from moorage.runtime.reports.report_limiter import ReportLimiter
from moorage.runtime.service import Emit, Input
from moorage.runtime.settings.moorage_configuration import Configuration, ConfiguredView, Derived
from moorage.runtime.wire.value_writer import encode_row, row_type, write_value
from moorage.workers.condition_ingest.condition_lines import ConditionChange
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import BindingKey, ConditionKey, WorkloadConditionKey, condition_key
from moorage_schemas.probe_grant import ProbeGrantChanged
from moorage_schemas.refs import TargetRef
from moorage_schemas.resource import ResourceDeclared, renewed_target, target_of_resource
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import BINDINGS, CONDITIONS, PROBE_GRANTS, TIMERS, WORKLOAD_CONDITIONS, Topic

log = structlog.get_logger(__name__)

V = TypeVar("V")


class IngestView(ConfiguredView):
    """The configuration, and the grants.

    Args:
        is_sealed: whether this process can detect which reports a gateway has accepted.
    """

    def __init__(self, configuration: Configuration, *, is_sealed: bool) -> None:
        super().__init__(configuration)
        self.grants = Grants()
        self._is_sealed = is_sealed
        self._logged: bool | None = None

    @override
    def wants(self, topic: Topic, key: str) -> bool:
        return topic is PROBE_GRANTS or super().wants(topic, key)

    @override
    def apply(self, record: Input) -> None:
        if record.topic is PROBE_GRANTS:
            event = record.event
            self.grants.put(record.key, event.spec if isinstance(event, ProbeGrantChanged) else None)
        else:
            super().apply(record)

    def log_rules(self) -> None:
        """Log which reports count, at first and whenever it has changed."""
        if self._logged is bool(self.grants):
            return
        self._logged = bool(self.grants)
        if not self.grants:
            log.warning("probe_grants.none", consequence="every report counts, whatever its writer")
        elif self._is_sealed:
            log.info("probe_grants.in_force", consequence="only reports that a ProbeGrant covers count")
        else:
            log.warning(
                "probe_grants.not_checked",
                consequence="reports in Kafka without a signature count, whatever their writer",
                missing="MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE",
            )


UNBOUND_KEPT: Final = timedelta(minutes=10)
"""How long the condition of a workload that is not bound is kept after its last report. A deployer may be ahead of the
bindings that this service has read, and a binding may come back."""

UNREPORTED_KEPT: Final = timedelta(hours=24)
"""How long a condition is kept after its last report if no taint can follow from it."""

_FEW: Final = 16
"""The number of types of conditions up to which those of a workload are looked up instead of searched for."""

ISSUER: Final = "condition-ingest"
"""The issuer of this service's timers."""

Table = dict[str, dict[str, KeptCondition]]


@dataclass(frozen=True, slots=True)
class ReportRules:
    """The rules for reports and their sources."""

    graces: GracePeriods
    """How long a source may be silent."""

    skew: timedelta
    """The time by which a report's time may be in the future."""

    max_bytes: int
    """The maximum size of a report in bytes."""

    rate: Rate | None = None
    """How much a source may report to which no grant sets a limit. None for no limit."""


class DueConditions:
    """Conditions to check at a time. Each is contained once, with its first time, until it is taken."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, str, str]] = []
        self._members: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        """Return the number of conditions."""
        return len(self._heap)

    def __contains__(self, place: tuple[str, str]) -> bool:
        """Return whether a condition is to be checked, by target and name."""
        return place in self._members

    @property
    def next(self) -> datetime | None:
        """When the first one is to be checked."""
        return self._heap[0][0] if self._heap else None

    def add(self, due: datetime, target: str, name: str) -> None:
        """Check a condition at that time, unless it is to be checked already."""
        if (target, name) not in self._members:
            self._members.add((target, name))
            heappush(self._heap, (due, target, name))

    def take(self, now: datetime, limit: int) -> Iterator[tuple[str, str]]:
        """Take out those that are due, target and name, until there are enough."""
        while self._heap and limit > 0 and self._heap[0][0] <= now:
            limit -= 1
            _, target, name = heappop(self._heap)
            self._members.discard((target, name))
            yield target, name


class _OfTarget(Protocol):
    """Something that belongs to one target, and not to a later target of the same name."""

    @property
    def target_uid(self) -> str: ...


@dataclass(slots=True)
class ConditionIngestPartition:
    """The state of one partition."""

    partition: int
    rules: Derived[ReportRules]
    """The rules of the present configuration."""

    conditions: Table = field(default_factory=dict)
    """The conditions, by target key and type."""

    workloads: Table = field(default_factory=dict)
    """The conditions of workloads, by target key, then by the workload's key and the type with a `|` between."""

    watches: dict[str, dict[str, HeartbeatWatch]] = field(default_factory=dict)
    """The watches, by target key and source."""

    targets: dict[str, str] = field(default_factory=dict)
    """The uid of each declared target, by its key."""

    began: dict[str, datetime] = field(default_factory=dict)
    """The time at which each target was first declared, truncated to the second, by its key, if its record has it."""

    labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The labels of each declared target that has some, by its key. ProbeGrants select by them."""

    view: IngestView | None = None
    """The view that all partitions share. None in a state that follows nothing."""

    graces: dict[str, timedelta] = field(default_factory=dict)
    """The grace periods that targets set themselves, by the target's key."""

    renewals: dict[str, str] = field(default_factory=dict)
    """The last renewal of each target's Lease, by the clock of its agent. By the target's key."""

    renewed: set[str] = field(default_factory=set)
    """The keys of targets whose Lease has been renewed since `hear`."""

    alive: dict[str, datetime] = field(default_factory=dict)
    """When this process noted the last renewal, by its own clock. By the target's key."""

    moved: set[str] = field(default_factory=set)
    """The keys of targets whose own grace period has just changed."""

    graces_in_use: GracePeriods | None = None
    """The grace periods that the watches were last checked against; None before the first check."""

    refit: PendingChecks = field(default_factory=PendingChecks)
    """The keys of targets whose watches are still to be checked against `graces_in_use`."""

    hears_since: datetime | None = None
    """When the service was first woken after the restore. Every report since then was read by this process."""

    exact: bool = False
    """Whether that check has the time of each source's last report. After a restart it has not."""

    bound: dict[str, set[str]] = field(default_factory=dict)
    """The keys of the workloads that are bound to each target, by the target's key."""

    unbound: DueConditions = field(default_factory=DueConditions)
    """Conditions of workloads that were not bound when last seen."""

    unreported: DueConditions = field(default_factory=DueConditions)
    """Conditions of targets that are removed when they have not been reported for long."""

    types: set[str] = field(default_factory=set)
    """The types of the conditions of workloads, as long as they are few. Deployers report `Healthy`."""

    orphans: set[str] = field(default_factory=set)
    """The keys under which there is state of a target that is not, or no longer, declared."""

    limiter: ReportLimiter = field(default_factory=ReportLimiter)
    """The counts of its sources' reports."""

    round: PendingChecks = field(default_factory=PendingChecks)
    """The targets that the reconciler's present round has still to reach."""

    reported: datetime | None = None
    """When this process has last read a report; None before the first one."""

    tally: SeriesTally[str] = field(default_factory=SeriesTally)
    """The targets whose conditions have changed since they were last counted, and the counts."""

    def check(self, target: str) -> None:
        """Check whether the state under a target's key belongs to a target that is no longer declared."""
        uid = self.targets.get(target)
        if (
            _strange(self.conditions.get(target), uid)
            or _strange(self.workloads.get(target), uid)
            or _strange(self.watches.get(target), uid)
        ):
            self.orphans.add(target)
        else:
            self.orphans.discard(target)

    def apply(self, topic: Topic, key: str, event: Any) -> None:
        """Fold in a condition, a timer, a binding, or a declared target.

        Args:
            topic: the topic of the record.
            key: its key.
            event: the event of the topic or its row, which has the same fields; None for a tombstone.
        """
        if topic is CONDITIONS or topic is WORKLOAD_CONDITIONS:
            self.apply_condition(topic, key, event)
        elif topic is TIMERS:
            self.apply_timer(key, event)
        elif topic is BINDINGS:
            self.apply_binding(BindingKey.parse(key), bound=event is not None)
        else:
            self._apply_resource(key, event)

    def apply_condition(self, topic: Topic, key: str, event: ConditionChanged | None) -> None:
        """Fold in a condition of a target, or of a workload there."""
        if topic is CONDITIONS:
            target, condition_type = ConditionKey.parse(key)
            if event is not None:
                self.put_condition(target, condition_type, event)
            else:
                self._fold(self.conditions, target, condition_type, None)
                self._count_again(target)
        else:
            workload, target, condition_type = WorkloadConditionKey.parse(key)
            name = f"{workload}|{condition_type}"
            self._fold(self.workloads, target, name, event)
            if event is not None:
                self._see(target, name)

    def put_condition(self, target: str, condition_type: str, event: ConditionChanged) -> KeptCondition:
        """Fold in a condition of a target. Return the kept part of it."""
        table = self.conditions.setdefault(target, {})
        known = table.get(condition_type)
        if newer_condition(event, known):
            held = table[sys.intern(condition_type)] = KeptCondition.of(event, sys.intern)
        else:
            held = cast("KeptCondition", known)
        self._count_again(target)
        self._check(target)
        # An existing one has been in `unreported` since it was new.
        if known is None and not leads_to_a_taint(target, condition_type):
            self.unreported.add(held.latest + UNREPORTED_KEPT, target, condition_type)
        return held

    def _apply_resource(self, key: str, event: Model | None) -> None:
        target = target_of_resource(key)
        if target is None:
            if (renewed := renewed_target(key)) is not None:
                self._apply_lease(renewed, event)
            return
        if isinstance(event, ResourceDeclared):
            self.targets[target.key] = sys.intern(event.uid)
            began = _began(event)
            grace = own_grace(event)
            labels = _labels(event)
        else:
            self.targets.pop(target.key, None)
            began, grace, labels = None, None, {}
        _keep(self.labels, target.key, labels or None)
        _keep(self.began, target.key, began)
        if grace != self.graces.get(target.key):
            self.moved.add(target.key)
        _keep(self.graces, target.key, grace)
        self._count_again(target.key)
        self.check(target.key)

    def _apply_lease(self, target: str, event: Model | None) -> None:
        if not isinstance(event, ResourceDeclared):
            for table in (self.renewals, self.alive):
                table.pop(target, None)
            self.renewed.discard(target)
            return
        renewal = str(part(event.object, "spec").get("renewTime") or "")
        if renewal != self.renewals.get(target, ""):
            self.renewals[target] = renewal
            self.renewed.add(target)

    def hear(self, now: datetime) -> None:
        """Note that the agents whose Leases were renewed are alive. Their own clocks do not matter."""
        if self.renewed:
            self.alive.update(dict.fromkeys(self.renewed, now))
            self.renewed.clear()

    def apply_binding(self, key: BindingKey, *, bound: bool) -> None:
        """Fold in a binding, or its end."""
        known = self.bound.setdefault(key.target, set())
        if bound:
            known.add(key.workload)
            return
        known.discard(key.workload)
        if not known:
            del self.bound[key.target]
        if len(self.types) <= _FEW:
            names = [f"{key.workload}|{condition_type}" for condition_type in self.types]
        else:
            names = [name for name in self.workloads.get(key.target, ()) if name.startswith(f"{key.workload}|")]
        for name in names:
            self._see(key.target, name)

    def _see(self, target: str, name: str) -> None:
        """Note to check a condition if its workload is not bound.

        A restore reads conditions before bindings. So all of them are noted, and the first check drops those that are
        bound.
        """
        held = self.workloads.get(target, {}).get(name)
        if held is None or (target, name) in self.unbound:
            return
        workload, condition_type = ConditionKey.parse(name)
        if len(self.types) <= _FEW:
            self.types.add(sys.intern(condition_type))
        if workload not in self.bound.get(target, ()):
            self.unbound.add(held.accepted_time + UNBOUND_KEPT, target, name)

    def unbound_at(self, now: datetime, limit: int) -> list[tuple[str, str]]:
        """Take out the conditions, by target and name, of workloads that are unbound and were reported long ago."""
        found: list[tuple[str, str]] = []
        for target, name in self.unbound.take(now, limit):
            held = self.workloads.get(target, {}).get(name)
            if held is None or ConditionKey.parse(name).target in self.bound.get(target, ()):
                continue
            if (due := held.accepted_time + UNBOUND_KEPT) > now:
                self.unbound.add(due, target, name)
            else:
                found.append((target, name))
        return found

    def unreported_at(self, now: datetime, limit: int) -> list[tuple[str, str]]:
        """Take out the conditions of targets that were last reported long enough ago: target and type.

        A source without a grace period need not repeat what it has reported, so its conditions stay.
        """
        found: list[tuple[str, str]] = []
        for target, name in self.unreported.take(now, limit):
            held = self.conditions.get(target, {}).get(name)
            if held is None:
                continue
            kind = TargetRef.parse(target).kind
            grace = self.rules.value.graces.of(kind, held.source, self.graces.get(target))
            due = held.latest + max(UNREPORTED_KEPT, grace or UNREPORTED_KEPT)
            if grace is None:
                self.unreported.add(now + UNREPORTED_KEPT, target, name)
            elif due > now:
                self.unreported.add(due, target, name)
            else:
                found.append((target, name))
        return found

    def apply_timer(self, key: str, event: SetTimer | None) -> None:
        """Fold in one of this service's own timers."""
        who = watched(key)
        if who is None:
            return
        known = self.watches.get(who.target, {}).get(who.source)
        if event is not None:
            if event.owner != ISSUER or (
                known is not None and known.id == key and known.generation >= event.generation
            ):
                return
            watch = HeartbeatWatch(key, sys.intern(who.uid), event.generation, event.deadline)
            self.watches.setdefault(who.target, {})[sys.intern(who.source)] = watch
        elif known is not None and known.id == key:
            del self.watches[who.target][who.source]
            if not self.watches[who.target]:
                del self.watches[who.target]
        self._check(who.target)

    def _fold(self, table: Table, target: str, name: str, event: ConditionChanged | None) -> None:
        if event is not None:
            known = table.setdefault(target, {})
            if newer_condition(event, known.get(name)):
                known[sys.intern(name)] = KeptCondition.of(event, sys.intern)
        elif (known := table.get(target, {})).pop(name, None) is not None and not known:
            del table[target]
        self._check(target)

    def _count_again(self, target: str) -> None:
        """Note that a target has changed. One that is not declared counts nowhere."""
        if target in self.targets:
            self.tally.touch(target)
        else:
            self.tally.end(target)

    def _check(self, target: str) -> None:
        if target in self.orphans or target not in self.targets:
            self.check(target)


@dataclass(slots=True)
class IngestBatch:
    """The steps of a decision: the state, the time, the cause of the present step, and the output."""

    state: ConditionIngestPartition
    now: datetime
    emits: list[Emit]
    cause: Meta

    def write(
        self,
        topic: Topic,
        key: str,
        target: str,
        event: Model | None,
        *,
        can_wait: bool = False,
        before: str | None = None,
    ) -> None:
        """Fold in a record of a changelog, and write it.

        Args:
            topic: the topic.
            key: the key of the record.
            target: the key of the target.
            event: the event; None for a tombstone.
            can_wait: as in `Emit`.
            before: for a condition, its status until now; empty for a new one.
        """
        self.state.apply(topic, key, event)
        was = ConditionChange(before, event) if before is not None else None
        self.emits.append(Emit(topic, key, target, event, self.cause, can_wait=can_wait, before=was))

    def write_condition(self, target: str, written: Any, *, before: str, can_wait: bool) -> None:
        """Fold in a condition that follows from a report of this process, and write it.

        Args:
            target: the key of the target.
            written: the result of `written_condition`.
            before: its status until now; empty for a new condition.
            can_wait: whether it differs from the one before only in its times.
        """
        # This process has read the report, so the times of the condition are exact.
        name: str = written.type
        self.state.put_condition(target, name, written).heard = True
        key = condition_key(target, name)
        was = ConditionChange(before, written)
        self.emits.append(Emit(CONDITIONS, key, target, encode_row(written), self.cause, can_wait=can_wait, before=was))


_Written = row_type(ConditionChanged)


def written_condition(target: str, values: dict[str, Any]) -> Any:
    """Return a condition as it is written. It has the fields of the model, but its target is text.

    Many reports a second change something, and a model of each would only be made to be encoded.

    Args:
        target: the key of the target.
        values: the fields of the model. The mapping is changed.
    """
    values["target"] = _target_text(target)
    return _Written(**values)


@lru_cache(maxsize=4096)
def _target_text(key: str) -> msgspec.Raw:
    return msgspec.Raw(write_value(TargetRef.parse(key)))


def _keep(table: dict[str, V], key: str, value: V | None) -> None:
    """Set an entry of a table, or remove it (None)."""
    if value is not None:
        table[key] = value
    else:
        table.pop(key, None)


def _began(event: ResourceDeclared) -> datetime | None:
    """Return when a target was first declared. The gateway sets this time, and changes of the target keep it."""
    text = part(event.object, "metadata").get("creationTimestamp")
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo is not None else None


def _labels(event: ResourceDeclared) -> dict[str, str]:
    """Return the labels of a target. Fleets have few different texts, so equal ones are one object."""
    found = part(event.object, "metadata").get("labels")
    if not isinstance(found, Mapping):
        return {}
    return {sys.intern(str(name)): sys.intern(str(value)) for name, value in found.items()}


def _strange(known: Mapping[str, _OfTarget] | None, uid: str | None) -> bool:
    if known is not None:
        for item in known.values():  # a plain loop, because each round of the reconciler runs this over everything
            if item.target_uid != uid:
                return True
    return False
