"""Heartbeats: how long a source may be silent about a target before its conditions become Unknown.

A heartbeat of a source is any of its reports about the target that counts, for any condition. The grace period starts
when Moorage accepts the report, by Moorage's clock. The code never reads the clock: `now` is an argument.

A heartbeat that changes nothing is not written each time. So a record states only roughly when a source last reported:
up to the `coarseness` of the source later. A process that has read the reports itself has the exact time. A process
that has only read the record assumes the latest possible time. So after a restart a source may be found silent later
than its grace period requires, but never earlier. (Kubernetes' node lifecycle controller counts anew from its start.)

Manual reports need no repetition. So sources that begin with `cli/`, which is the default of the command line, have no
heartbeats unless a rule in `source_grace_periods` applies to them. Neither have bridges, whose sources begin with
`bridge/`: a bridge watches the leases of its cluster itself, and reports expired ones. While it is stopped, or its link
is cut, nothing is decided.

Silence makes Unknown what the controllers of Kubernetes, Karmada and OCM make Unknown, such as `Ready` (`JUDGED`).
Other conditions keep their last state. A source with a rule of its own in `source_grace_periods` has to repeat
everything that it reports, so all of its conditions become Unknown.

An agent that renews the Lease of its target is alive, as for those controllers. A renewal counts for all sources
without a rule of their own.

A managed cluster may declare how often its agent renews its lease. As in OCM, its grace period is then five times that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from moorage.decide.conditions.reports import KeptCondition, words_of
from moorage.decide.kubernetes.durations import seconds_of
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.taints.desired.addons import lease_grace
from moorage_schemas.condition import ConditionChanged, ConditionReported, ConditionStatus
from moorage_schemas.envelope import event_id
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE

BY_HAND: Final = "cli/"
"""The prefix of sources that report by hand."""

BY_BRIDGE: Final = "bridge/"
"""The prefix of the sources of bridges, which mirror real clusters."""

WITHOUT_HEARTBEATS: Final = (BY_HAND, BY_BRIDGE)
"""The prefixes of sources that are never silent."""

HEARTBEAT_STOPPED: Final = "HeartbeatStopped"
"""The reason of a condition whose source has fallen silent."""

JUDGED: Final[Mapping[TargetKind, frozenset[str]]] = {
    TargetKind.NODE: frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}),
    TargetKind.CLUSTER: frozenset({"Ready"}),
    TargetKind.MANAGED_CLUSTER: frozenset({MANAGED_CLUSTER_AVAILABLE}),
}
"""The types of the conditions that become Unknown when a source without a rule of its own is silent.

See k8s.io/kubernetes/pkg/controller/nodelifecycle, and the cluster controllers of Karmada and OCM."""

LEAST_OFTEN: Final = timedelta(minutes=5)
"""How old the record of a condition may be when its source reports it again. Kubernetes' kubelet also reports a status
that does not change every five minutes (`nodeStatusReportFrequency`)."""

_NOT_WORTH_IT: Final = timedelta(seconds=1)
"""A coarseness below this saves few records, so it is not used."""

_NONE: Final = timedelta()

_LONGEST: Final = timedelta(days=36_500)
_PREFIX: Final = "heartbeat"
_KINDS: Final = ", ".join(kind.value for kind in TargetKind)


@dataclass(frozen=True, slots=True)
class SourceRule:
    """The grace period of some sources about targets of one kind."""

    kind: TargetKind
    source: str
    """A source name, or a prefix followed by `*`."""

    grace: timedelta | None
    """None means that the source may be silent forever."""

    def fits(self, kind: TargetKind, source: str) -> bool:
        """Return whether the rule applies to a source."""
        if kind is not self.kind:
            return False
        return source.startswith(self.source[:-1]) if self.source.endswith("*") else source == self.source


def parse_source_grace_periods(text: str) -> tuple[SourceRule, ...]:
    """Parse the rules of the setting: `Kind:source=duration`, comma-separated, in order.

    A duration is written as `40s`, `5m`, `1m30s` or plain seconds. 0 means no limit.

    Raises:
        ValueError: an item is invalid; the message names the item and the rule.
    """
    return tuple(_rule(item) for item in filter(None, (item.strip() for item in text.split(","))))


def _rule(item: str) -> SourceRule:
    # A source may contain both separators, so the kind ends at the first colon and the duration begins after the last
    # equals sign.
    kind, colon, rest = item.partition(":")
    source, equals, duration = rest.rpartition("=")
    if not (colon and equals and source):
        raise ValueError(f"item {item!r}: must be Kind:source=duration, such as Node:probe/disk=5m")
    if kind not in TargetKind.__members__.values():
        raise ValueError(f"item {item!r}: invalid kind {kind!r}: must be one of {_KINDS}")
    if "*" in source[:-1]:
        raise ValueError(f"item {item!r}: invalid source {source!r}: * may only be its last character")
    seconds = seconds_of(duration, bare=True)
    if seconds is None:
        raise ValueError(
            f"item {item!r}: invalid duration {duration!r}: must be like 40s, 5m or 1m30s, or 0 to wait forever"
        )
    return SourceRule(TargetKind(kind), source, grace_period(seconds))


def grace_period(seconds: float) -> timedelta | None:
    """Return a grace period in seconds. None, meaning no limit, if it is 0 or less, or more than a hundred years."""
    if seconds <= 0 or seconds > _LONGEST.total_seconds():
        return None
    return timedelta(seconds=seconds)


class GracePeriods:
    """Returns the grace period of a source. Equal rules compare as equal.

    Args:
        by_kind: the grace period for each kind of target. None, or a missing kind, means no limit.
        rules: rules for single sources. The first rule that applies takes precedence over everything else.
    """

    def __init__(self, by_kind: Mapping[TargetKind, timedelta | None], rules: tuple[SourceRule, ...] = ()) -> None:
        self._by_kind = dict(by_kind)
        self._rules = rules

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GracePeriods) and (self._by_kind, self._rules) == (other._by_kind, other._rules)

    def __hash__(self) -> int:
        return hash((frozenset(self._by_kind.items()), self._rules))

    def of(self, kind: TargetKind, source: str, own: timedelta | None = None) -> timedelta | None:
        """Return the grace period of a source about a target. None if the source has no heartbeats.

        Args:
            kind: the target's kind.
            source: the source that reports.
            own: the grace period that the target itself requests (`own_grace`). It replaces that of the target's
                kind, unless that one is turned off.
        """
        if (rule := self._rule(kind, source)) is not None:
            return rule.grace
        if source.startswith(WITHOUT_HEARTBEATS):
            return None
        for one, grace in self._by_kind.items():
            if one is kind:  # this runs for every report, and hashing an enumeration takes longer than this loop
                return grace if grace is None or own is None else own
        return None

    def judged(self, kind: TargetKind, source: str) -> frozenset[str] | None:
        """Return the types of the conditions that become Unknown when a source is silent. None for all of them."""
        return JUDGED[kind] if self._rule(kind, source) is None else None

    def _rule(self, kind: TargetKind, source: str) -> SourceRule | None:
        """Return the rule for a source. None if it has none."""
        for rule in self._rules:
            if rule.fits(kind, source):
                return rule
        return None


def coarseness(grace: timedelta | None) -> timedelta:
    """Return for how long after a record of a source its unchanged heartbeats need not be written.

    It is half of the grace period, and at most `LEAST_OFTEN`. It is 0, so that every heartbeat is written, if half of
    the grace period is less than a second.

    Args:
        grace: the grace period of the source. None means that it may be silent forever.
    """
    if grace is None:
        return LEAST_OFTEN
    return _half(grace)


@lru_cache(maxsize=64)  # a fleet has few grace periods, and this runs for each report
def _half(grace: timedelta) -> timedelta:
    half = grace / 2
    return _NONE if half < _NOT_WORTH_IT else min(half, LEAST_OFTEN)


def recorded_until(
    conditions: Mapping[str, KeptCondition], uid: str, source: str, within: timedelta
) -> datetime | None:
    """Return until when a source's records cover its heartbeats. None if it has no condition of this target.

    Args:
        conditions: the conditions of the target.
        uid: the uid of the target.
        source: the source.
        within: the present coarseness of the source. It may be less than what its records state.
    """
    return max(
        (
            held.recorded_time + min(held.unrecorded, within)
            for held in conditions.values()
            if held.source == source and held.target_uid == uid
        ),
        default=None,
    )


def repeats(report: ConditionReported, known: KeptCondition, *, source: str, target_uid: str) -> bool:
    """Return whether a counting report changes nothing but times.

    Args:
        report: the report.
        known: the condition that it is about.
        source: the source of the report.
        target_uid: the uid of the target as declared now.
    """
    return (
        known.status is report.status
        and known.source == source
        and known.target_uid == target_uid
        and known.words == words_of(report)
    )


def may_stay_unrecorded(
    report: ConditionReported,
    known: KeptCondition,
    *,
    source: str,
    conditions: Mapping[str, KeptCondition],
    target_uid: str,
    within: timedelta,
    now: datetime,
) -> bool:
    """Return whether a counting report changes only times, and its source was recorded recently enough.

    A report that changes the status, the reason, the message or the source is a change. The first report after a source
    has fallen silent changes at least the reason.

    Args:
        report: the report.
        known: the condition that it is about.
        source: the source of the report.
        conditions: the conditions of the target, as for `recorded_until`.
        target_uid: the uid of the target as declared now.
        within: the present coarseness of the source.
        now: when the report is accepted.
    """
    is_recent = known.recorded_time <= now < known.recorded_time + LEAST_OFTEN
    if not (is_recent and repeats(report, known, source=source, target_uid=target_uid)):
        return False
    if now < known.recorded_time + min(known.unrecorded, within):
        return True  # its own record is recent enough, whatever those of its source's other conditions are
    until = recorded_until(conditions, target_uid, source, within)
    return until is not None and now < until


def own_grace(declared: ResourceDeclared) -> timedelta | None:
    """Return the grace period that a managed cluster requests by `spec.leaseDurationSeconds`, else None."""
    if declared.kind != TargetKind.MANAGED_CLUSTER.value:
        return None
    return lease_grace(part(declared.object, "spec").get("leaseDurationSeconds"))


@dataclass(frozen=True, slots=True)
class HeartbeatWatch:
    """The timer that watches one source about one target.

    A timer id is never used twice: it contains the target's uid, and the condition and generation of the report that
    started the watch. The generation increases with each report that counts during the target's life, and a uid is
    never reused. So the timer may be deleted (with a tombstone) as soon as there is nothing left to watch: the
    generations that the timer service keeps for a deleted id can never block a new timer.
    """

    id: str
    target_uid: str
    generation: int
    deadline: datetime | None
    """When to check the source. None if the timer is cancelled."""


def timer_id(target: TargetRef, uid: str, began: tuple[str, int], source: str) -> str:
    """Return the id of the timer of a watch.

    Args:
        target: the target of the reports.
        uid: the target's uid.
        began: the type of the condition whose report started the watch, and its generation then.
        source: the source that is watched. It comes last, because it may contain any character.
    """
    condition, generation = began
    return f"{_PREFIX}|{target}|{uid}|{condition}|{generation}|{source}"


@dataclass(frozen=True, slots=True)
class Watched:
    """The source and target that a timer watches."""

    target: str
    uid: str
    source: str


def watched(key: str) -> Watched | None:
    """Parse a timer id. Returns None if it is not the id of a heartbeat timer."""
    parts = key.split("|", 5)
    if len(parts) != 6 or parts[0] != _PREFIX:  # noqa: PLR2004 - as `timer_id` joins them
        return None
    return Watched(parts[1], parts[2], parts[5])


def check_id(watch: HeartbeatWatch) -> str:
    """Return the id of the record that requests another check of a source, for this generation of the timer."""
    return event_id("heartbeat-look", watch.id, watch.generation)


@dataclass(slots=True)
class SourceStatus:
    """The status of one source about one target."""

    heard: datetime
    """When the last report of the source was accepted; the latest possible time if this process has not read it."""

    speaking: dict[str, KeptCondition]
    """The source's conditions that silence would make Unknown, by type. Empty if there is nothing to watch."""


def voice(
    conditions: Mapping[str, KeptCondition],
    uid: str,
    source: str,
    hears_since: datetime | None = None,
    judged: frozenset[str] | None = None,
) -> SourceStatus | None:
    """Return the status of a source about the target with this uid. None if the source has no condition of it.

    A condition belongs to the source of its last report. A condition that is Unknown already cannot become Unknown.

    Args:
        conditions: the conditions of the target.
        uid: the uid of the target.
        source: the source.
        hears_since: the time since which this process has read every report itself. An unrecorded report that a former
    process has read is older. None if that time is unknown.
        judged: the types of the conditions that become Unknown when the source is silent. None for all of them.
    """
    owned = {name: held for name, held in conditions.items() if held.source == source and held.target_uid == uid}
    if not owned:
        return None
    speaking = {
        name: held
        for name, held in owned.items()
        if held.status is not ConditionStatus.UNKNOWN and (judged is None or name in judged)
    }
    # Reports that this process has read are later than all that it has restored.
    heard = [held.accepted_time for held in owned.values() if held.heard]
    if heard:
        return SourceStatus(max(heard), speaking)
    latest = max(held.latest for held in owned.values())
    return SourceStatus(latest if hears_since is None else min(latest, hears_since), speaking)


def silent_since(watch: HeartbeatWatch, status: SourceStatus, grace: timedelta, now: datetime) -> datetime | None:
    """Return since when a source is silent, after its timer has fired. None if it is not silent.

    The timer's deadline may be later than the conditions that the source still owns imply: its last report may have
    been about a condition that another source has reported since.
    """
    due = status.heard + grace
    if due > now:
        return None
    return due if watch.deadline is None else max(due, min(watch.deadline, now))


def check_again(status: SourceStatus, grace: timedelta, now: datetime, fired: datetime) -> datetime:
    """Return when to check a source again after its report.

    Args:
        status: the status of the source.
        grace: the grace period of the source.
        now: the present time, by the clock that sets the acceptance times of reports.
        fired: the present time by the timer's clock. If that clock is ahead, the result is in its time.
    """
    return status.heard + grace + max(timedelta(), fired - now)


def silenced(
    held: KeptCondition, *, target: TargetRef, condition: str, grace: timedelta, since: datetime, now: datetime
) -> ConditionChanged:
    """Return the condition after its source has fallen silent."""
    return ConditionChanged(
        target=target,
        target_uid=held.target_uid,
        type=condition,
        status=ConditionStatus.UNKNOWN,
        reason=HEARTBEAT_STOPPED,
        message=f"{held.source} has not reported on {target} for its grace period of {grace.total_seconds():g} s",
        source=held.source,
        last_transition_time=since,
        last_heartbeat_time=held.last_heartbeat_time,
        generation=held.generation + 1,
        report_id="",
        accepted_time=held.accepted_time,
        status_since=now,
    )
