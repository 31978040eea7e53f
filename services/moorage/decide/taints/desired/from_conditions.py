"""The taints that a target's state requires: from its conditions and its spec. Also the waiting ones, with reasons.

The taint of a condition may have to wait for two things: until the condition has held for some time (flap damping) and,
if the taint evicts, until the governor grants it (docs/domain.md, "Zones"). When a node changes between not-ready and
unreachable, one taint replaces the other at once and waits for neither. The same applies to a managed cluster
that is unavailable or unreachable.

A managed cluster whose availability was never reported is unreachable from its declaration on (docs/domain.md,
"Managed cluster taints"). If a condition is unknown later, nothing changes, because a restored table may lack records
that were compacted away.

Taints that the state may require belong only to the state (`belongs_to_state`): people and policies cannot add
them.

Flap damping (a hold) is off by default: with a hold of zero, the condition acts at once. A hold counts from the last
change of a condition's status, because only that is stored. So it also starts again when a condition changes between
two statuses that a policy treats alike. The exception is a node's not-ready and unreachable, which count as one state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moorage.decide.kubernetes import taint_keys
from moorage.decide.kubernetes.durations import seconds_of
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.taints.desired.managed_taints import AVAILABLE, UNAVAILABLE, UNREACHABLE, built_in_taint
from moorage.decide.taints.dialects import kubernetes
from moorage.decide.taints.dialects.karmada import READY_TAINTS
from moorage.decide.taints.dialects.kubernetes import ConditionTaint
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import HeldTaint, Taint, TaintEffect, TaintOrigin, TaintRecord
from moorage_schemas.times import format_time
from moorage_schemas.zone import NoExecuteGranted

NO_HOLD: Final = timedelta()
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Holds:
    """How long a condition must hold before it adds a taint, and before it removes one."""

    add: timedelta = NO_HOLD
    remove: timedelta = NO_HOLD


def parse_hold(text: str) -> timedelta | None:
    """Parse a duration such as `30s` or `1m30s`, or `0`. None if the text is not a duration."""
    text = text.strip()
    if text == "0":
        return NO_HOLD
    seconds = seconds_of(text)
    try:
        return None if seconds is None else timedelta(seconds=seconds)
    except OverflowError:
        return None


def holds_since(condition: ConditionChanged) -> datetime:
    """Return since when a condition has its status, by Moorage's clock. Records without that time have the probe's."""
    return condition.status_since or condition.last_transition_time


def hold_end(since: datetime, hold: timedelta) -> datetime | None:
    """Return when a state that began at `since` may act. None if it does not have to wait at all."""
    if hold <= NO_HOLD:
        return None
    try:
        return since + hold
    except OverflowError:
        return _LATEST


Identity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DesiredTaint:
    """A taint that the target's state requires now."""

    key: str
    effect: str
    value: str
    origin: TaintOrigin
    reason: str
    time: datetime | None = None
    """The `timeAdded` of the taint if it is added now. None means the present time."""

    @property
    def identity(self) -> Identity:
        """(key, effect)."""
        return (self.key, self.effect)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a dialect's table, with its taints built once."""

    condition: str
    status: str
    wanted: tuple[DesiredTaint, ...]
    opposite: str
    gated: bool
    """Whether its taints that evict wait for the governor."""


def _row(row: ConditionTaint, *, gated: bool) -> _Row:
    reason = f"condition {row.condition} is {row.status}"
    return _Row(
        row.condition,
        row.status,
        tuple(
            DesiredTaint(taint.key, taint.effect, taint.value, TaintOrigin.CONDITION, reason) for taint in row.taints()
        ),
        row.opposite,
        gated,
    )


def _cluster_rows() -> tuple[ConditionTaint, ...]:
    keys = {status: taint.key for status, taint in READY_TAINTS.items()}
    return tuple(
        ConditionTaint(
            "Ready", status, taint.key, opposite=next(other for name, other in keys.items() if name != status)
        )
        for status, taint in READY_TAINTS.items()
    )


def _managed_rows() -> tuple[ConditionTaint, ...]:
    opposites = {UNAVAILABLE.key: UNREACHABLE.key, UNREACHABLE.key: UNAVAILABLE.key}
    return tuple(
        ConditionTaint(AVAILABLE, status.value, taint.key, (taint.effect,), opposite=opposites[taint.key])
        for status in ConditionStatus
        if (taint := built_in_taint(status.value)) is not None
    )


_ROWS: Final[Mapping[str, tuple[_Row, ...]]] = {
    TargetKind.NODE.value: tuple(_row(row, gated=bool(row.opposite)) for row in kubernetes.CONDITION_TAINTS),
    TargetKind.CLUSTER.value: tuple(_row(row, gated=False) for row in _cluster_rows()),
    TargetKind.MANAGED_CLUSTER.value: tuple(_row(row, gated=False) for row in _managed_rows()),
}
"""By kind of target. A kind that is missing here has no rows."""

_TAINTING: Final = frozenset((kind, row.condition) for kind, rows in _ROWS.items() for row in rows)
"""By kind of target, the conditions from which taints follow."""

_ROW_OF: Final = {
    (kind, desired.identity): row for kind, rows in _ROWS.items() for row in rows for desired in row.wanted
}
"""By kind and (key, effect). Each taint belongs to exactly one row."""


_UNREPORTED: Final[Mapping[str, tuple[str, DesiredTaint]]] = {
    TargetKind.MANAGED_CLUSTER.value: (
        AVAILABLE,
        DesiredTaint(
            UNREACHABLE.key,
            UNREACHABLE.effect,
            UNREACHABLE.value,
            TaintOrigin.CONDITION,
            f"condition {AVAILABLE} was never reported",
        ),
    ),
}
"""By kind of target: the condition that must have been reported, and the taint that the target has until then."""


def leads_to_a_taint(target: str, condition: str) -> bool:
    """Return whether a taint may follow from a condition. Policies may name any condition of a cluster."""
    kind = target.partition("/")[0].rpartition(":")[2]
    return kind == TargetKind.CLUSTER.value or (kind, condition) in _TAINTING


def is_built_in(kind: TargetKind, condition: str) -> bool:
    """Return whether taints follow from a condition of a kind of targets by itself, without a policy."""
    return (kind.value, condition) in _TAINTING


def _system(taint: Taint, reason: str) -> DesiredTaint:
    return DesiredTaint(taint.key, taint.effect, taint.value, TaintOrigin.SYSTEM, reason)


_UNSCHEDULABLE: Final = _system(kubernetes.UNSCHEDULABLE_TAINT, "spec.unschedulable is true")
_UNINITIALIZED: Final = _system(
    kubernetes.UNINITIALIZED_TAINT,
    f"annotated {'='.join(kubernetes.EXTERNAL_CLOUD)}, and spec.providerID is not set yet",
)


def belongs_to_state(document: Mapping[str, Any], key: str, effect: str, value: str) -> bool:
    """Return whether a taint is built in: on this target, only the target's state determines it.

    This is as in upstream's controllers. Kubernetes and Karmada identify their taints by key and effect, with any
    value. OCM also considers the value, so a taint with another value belongs to people, as do the effects of a key
    that the system does not use. `uninitialized` belongs to the state of a node that is declared with an external cloud
    provider; the cloud controller removes it, with any effect, once the node is initialised.
    """
    kind = document.get("kind")
    if (kind, (key, effect)) in _ROW_OF:
        return kind != TargetKind.MANAGED_CLUSTER.value or not value
    if kind != TargetKind.NODE.value:
        return False
    if key == taint_keys.UNINITIALIZED and _external_cloud(document):
        return effect == _UNINITIALIZED.effect or bool(part(document, "spec").get("providerID"))
    return (key, effect) == _UNSCHEDULABLE.identity


def _external_cloud(document: Mapping[str, Any]) -> bool:
    name, external = kubernetes.EXTERNAL_CLOUD
    return part(part(document, "metadata"), "annotations").get(name) == external


def desired_taints(resource: ResourceDeclared, conditions: Mapping[str, ConditionChanged]) -> tuple[DesiredTaint, ...]:
    """Return the taints that the declared state and the conditions of a target require now, by the target's dialect.

    `DesiredTaints` decides whether each of them may be added yet. Targets of a kind without rules require no taints.
    """
    unreported = _unreported(resource.kind, conditions)
    wanted: tuple[DesiredTaint, ...] = () if unreported is None else (unreported,)
    if conditions:
        for row in _ROWS.get(resource.kind, ()):
            condition = conditions.get(row.condition)
            if condition is not None and condition.status == row.status:
                wanted += row.wanted
    return wanted + _of_spec(resource)


def _unreported(kind: str, conditions: Mapping[str, ConditionChanged]) -> DesiredTaint | None:
    condition, desired = _UNREPORTED.get(kind, ("", None))
    return None if condition in conditions else desired


def _of_spec(resource: ResourceDeclared) -> tuple[DesiredTaint, ...]:
    if resource.kind != TargetKind.NODE.value:
        return ()
    wanted: tuple[DesiredTaint, ...] = ()
    spec = part(resource.object, "spec")
    if spec.get("unschedulable") is True:
        wanted += (_UNSCHEDULABLE,)
    if not spec.get("providerID") and _external_cloud(resource.object):
        wanted += (_UNINITIALIZED,)
    return wanted


@dataclass(slots=True)
class DesiredTaints:
    """The taints that a target's state requires now, divided into those that are allowed and those that wait.

    Attributes:
        was_held: the taints that waited before.
        holds: how long conditions must hold.
        incident: for a node, the incident and when it began. 0 while the node is ready.
        grant: the governor's latest decision, if it is about this target and not an earlier one of its name.
        first: whether no decision was ever made about this target.
        decided_there: whether the target's cluster decides on its taints, so that its state requires none here.
    """

    kind: str
    conditions: Mapping[str, ConditionChanged]
    present: Mapping[Identity, TaintRecord]
    was_held: frozenset[Identity]
    now: datetime
    holds: Holds
    incident: tuple[int, datetime | None]
    grant: NoExecuteGranted | None
    zone: str
    first: bool = False
    decided_there: bool = False
    active: dict[Identity, DesiredTaint] = field(default_factory=dict)
    """The taints that are allowed now."""

    held: dict[Identity, HeldTaint] = field(default_factory=dict)
    """The taints that wait."""

    due: datetime | None = None
    """When the next wait, or the next delayed removal, ends. None if only an event can change the taints."""

    def work_out(self, resource: ResourceDeclared) -> None:
        """Divide the required taints into `active` and `held`."""
        if self.decided_there:
            return
        for row in _ROWS.get(self.kind, ()) if self.conditions else ():
            condition = self.conditions.get(row.condition)
            if condition is not None and condition.status == row.status:
                for desired in row.wanted:
                    self._sort(row, desired, condition)
        unreported = _unreported(self.kind, self.conditions)
        if unreported is not None and (self.first or self._of_condition(unreported.identity)):
            self.active[unreported.identity] = unreported
        for desired in _of_spec(resource):
            self.active[desired.identity] = desired

    def stays(self, record: TaintRecord) -> bool:
        """Return whether a taint of a condition stays for a while although the condition no longer requires it.

        It stays while the condition is unknown, and until the condition has held for long enough. A taint that was
        added at the end of its own hold is removed at once if its condition turns out to have ended before.
        """
        row = _ROW_OF.get((self.kind, record.identity))
        if row is None or self.decided_there:
            return False
        condition = self.conditions.get(row.condition)
        if condition is None:
            return True
        if condition.status == row.status or (row.opposite, record.effect) in self.active:
            return False
        if row.gated and record.effect == TaintEffect.NO_EXECUTE.value and self._taken_back():
            return False
        since = holds_since(condition)
        too_soon = self.holds.add > NO_HOLD and since < record.time_added
        end = hold_end(since, self.holds.remove)
        if too_soon or end is None or end <= self.now:
            return False
        self.wait_until(end)
        return True

    def wait_until(self, end: datetime) -> None:
        """Set `due` to this instant, unless it is earlier already."""
        self.due = end if self.due is None else min(self.due, end)

    def _sort(self, row: _Row, desired: DesiredTaint, condition: ConditionChanged) -> None:
        gated = row.gated and desired.effect == TaintEffect.NO_EXECUTE.value
        granted = self._granted() if gated else True
        there = self._of_condition(desired.identity)
        # Not-ready and unreachable are one state, which began with the incident.
        since = (self.incident[1] if row.gated else None) or holds_since(condition)
        if granted is not False and (there or self._swaps(row, desired)):
            self.active[desired.identity] = desired
            return
        end = hold_end(since, self.holds.add)
        if end is not None and end > self.now and not there:
            self.wait_until(end)
            reason = f"{desired.reason}; it must hold until {format_time(end)}"
        elif not granted:
            end = None
            reason = f"{desired.reason}; {self._waits_for_zone(withdrawn=granted is False)}"
        else:
            self.active[desired.identity] = self._timed(desired, end, gated=gated)
            return
        self.held[desired.identity] = HeldTaint(key=desired.key, effect=desired.effect, since=since, reason=reason)

    def _timed(self, desired: DesiredTaint, end: datetime | None, *, gated: bool) -> DesiredTaint:
        """Return the taint with its `timeAdded`. If it waited for the governor, that is the time of the grant."""
        if not gated or self.grant is None or desired.identity not in self.was_held:
            return desired
        time = self.grant.granted_time if end is None else max(self.grant.granted_time, end)
        return DesiredTaint(desired.key, desired.effect, desired.value, desired.origin, desired.reason, time)

    def _granted(self) -> bool | None:
        """Return whether the governor allows the taint for this incident. None if it has not decided."""
        grant = self.grant
        return grant.granted if grant is not None and grant.incident == self.incident[0] else None

    def _taken_back(self) -> bool:
        """Return whether the governor has withdrawn the taint of a target that has recovered."""
        return self.grant is not None and not self.grant.granted

    def _swaps(self, row: _Row, desired: DesiredTaint) -> bool:
        return bool(row.opposite) and self._of_condition((row.opposite, desired.effect))

    def _of_condition(self, identity: Identity) -> bool:
        record = self.present.get(identity)
        return record is not None and TaintOrigin.CONDITION in record.origins

    def _waits_for_zone(self, *, withdrawn: bool) -> str:
        if withdrawn and self.grant is not None:
            return self.grant.reason or f"zone {self.zone} does not grant it"
        return f"waits for a grant in zone {self.zone}"
