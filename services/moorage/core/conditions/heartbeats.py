"""Heartbeats: for how long a source may be silent about a target before what it said counts no more.

A heartbeat of a source is any report of it about the target that counts, of whatever condition. Time runs from when
Moorage took the report up, by its own clock. Nothing here asks for the time; `now` is an argument.

A person who reports by hand promises no second report: sources that begin with `cli/`, as the command line's do when
none is named, have no heartbeats unless a rule in `source_grace_periods` says otherwise.

A managed cluster may say how often its agent renews its lease; five of these are its grace period then, as in OCM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from moorage.core.apimachinery.durations import seconds_of
from moorage.core.apimachinery.unstructured import part
from moorage.core.conditions.reports import Held
from moorage.core.taints.desired.leases import lease_grace
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.envelope import event_id
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared

BY_HAND: Final = "cli/"
"""What the source of a report by hand begins with."""

HEARTBEAT_STOPPED: Final = "HeartbeatStopped"
"""The reason of a condition whose source has fallen silent."""

_LONGEST: Final = timedelta(days=36_500)
_PREFIX: Final = "heartbeat"
_KINDS: Final = ", ".join(kind.value for kind in TargetKind)


@dataclass(frozen=True, slots=True)
class SourceRule:
    """The grace period of some sources about targets of one kind."""

    kind: TargetKind
    source: str
    """A name, or a beginning with `*` at its end."""

    grace: timedelta | None
    """None waits for ever."""

    def fits(self, kind: TargetKind, source: str) -> bool:
        """Whether a source is meant."""
        if kind is not self.kind:
            return False
        return source.startswith(self.source[:-1]) if self.source.endswith("*") else source == self.source


def parse_source_grace_periods(text: str) -> tuple[SourceRule, ...]:
    """The rules of the setting: `Kind:source=duration`, comma-separated, in order.

    A duration is like `40s`, `5m`, `1m30s`, or plain seconds; 0 waits for ever.

    Raises:
        ValueError: an item is wrong; names the item and the rule.
    """
    return tuple(_rule(item) for item in filter(None, (item.strip() for item in text.split(","))))


def _rule(item: str) -> SourceRule:
    # A source may hold both signs, so the kind ends at the first one and the duration begins after the last.
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
            f"item {item!r}: invalid duration {duration!r}: must be like 40s, 5m or 1m30s, or 0 to wait for ever"
        )
    return SourceRule(TargetKind(kind), source, grace_period(seconds))


def grace_period(seconds: float) -> timedelta | None:
    """A grace period of so many seconds; None, for ever, when they are 0 or more than a hundred years."""
    if seconds <= 0 or seconds > _LONGEST.total_seconds():
        return None
    return timedelta(seconds=seconds)


class GracePeriods:
    """Which grace period a source has.

    Args:
        by_kind: of each kind of target; None waits for ever, and so does a kind that is not there.
        rules: of single sources; the first that fits goes before everything else.
    """

    def __init__(self, by_kind: Mapping[TargetKind, timedelta | None], rules: tuple[SourceRule, ...] = ()) -> None:
        self._by_kind = dict(by_kind)
        self._rules = rules

    def of(self, kind: TargetKind, source: str, own: timedelta | None = None) -> timedelta | None:
        """The grace period of a source about a target; None when it has no heartbeats.

        Args:
            kind: the target's kind.
            source: who reports.
            own: what the target itself asks for, see `own_grace`; counts instead of its kind's, unless that is off.
        """
        for rule in self._rules:
            if rule.fits(kind, source):
                return rule.grace
        grace = None if source.startswith(BY_HAND) else self._by_kind.get(kind)
        return grace if grace is None or own is None else own


def own_grace(declared: ResourceDeclared) -> timedelta | None:
    """The grace period that a target asks for: a managed cluster by `spec.leaseDurationSeconds`, others never."""
    if declared.kind != TargetKind.MANAGED_CLUSTER.value:
        return None
    return lease_grace(part(declared.object, "spec").get("leaseDurationSeconds"))


@dataclass(frozen=True, slots=True)
class HeartbeatWatch:
    """The timer that watches one source about one target.

    Its id is never used again: it holds the target's uid, and the condition and generation by whose report the watch
    began. A generation grows with each report that counts as long as the target lives, and a uid never comes back. So
    the timer may be forgotten (a tombstone) as soon as nothing is left to watch: what the timer service
    remembers of the generations of a forgotten id can never stand in the way of a new one.
    """

    id: str
    target_uid: str
    generation: int
    deadline: datetime | None
    """When to look; empty when it is cancelled."""


def timer_id(target: TargetRef, uid: str, began: tuple[str, int], source: str) -> str:
    """The id of the timer of a watch that began with a condition's generation.

    Args:
        target: what is reported on.
        uid: the target's.
        began: the condition's type, and its generation by the report with which the watch began.
        source: who is watched; comes last, for it may hold any character.
    """
    condition, generation = began
    return f"{_PREFIX}|{target}|{uid}|{condition}|{generation}|{source}"


@dataclass(frozen=True, slots=True)
class Watched:
    """Who is watched by a timer."""

    target: str
    uid: str
    source: str


def watched(key: str) -> Watched | None:
    """Who is watched by the timer of this id; None when it is no heartbeat's."""
    parts = key.split("|", 5)
    if len(parts) != 6 or parts[0] != _PREFIX:  # noqa: PLR2004 - as `timer_id` joins them
        return None
    return Watched(parts[1], parts[2], parts[5])


def look_id(watch: HeartbeatWatch) -> str:
    """The id of the record that asks to look at a source again, for each generation of its timer."""
    return event_id("heartbeat-look", watch.id, watch.generation)


@dataclass(slots=True)
class SourceStatus:
    """What a source says of a target."""

    heard: datetime
    """When its last report was taken up."""

    speaking: dict[str, Held]
    """Its conditions that silence would make Unknown, by type; empty when there is nothing to watch."""


def voice(conditions: Mapping[str, Held], uid: str, source: str) -> SourceStatus | None:
    """What a source says, of all that is known of the target with this uid; None when it says nothing.

    A condition belongs to the source of its last report. One that is Unknown already cannot become so.
    """
    owned = {name: held for name, held in conditions.items() if held.source == source and held.target_uid == uid}
    if not owned:
        return None
    speaking = {name: held for name, held in owned.items() if held.status is not ConditionStatus.UNKNOWN}
    return SourceStatus(max(held.accepted_time for held in owned.values()), speaking)


def silent_since(watch: HeartbeatWatch, said: SourceStatus, grace: timedelta, now: datetime) -> datetime | None:
    """Since when a source whose timer has fired is silent; None when it is not.

    The timer's deadline may be later than what the source still owns tells: its last report was of a condition that
    another source has reported since.
    """
    due = said.heard + grace
    if due > now:
        return None
    return due if watch.deadline is None else max(due, min(watch.deadline, now))


def look_again(said: SourceStatus, grace: timedelta, now: datetime, fired: datetime) -> datetime:
    """When to look again at a source that was heard.

    Args:
        said: what it says.
        grace: its grace period.
        now: the present, by the clock that tells when reports are taken up.
        fired: the present by the timer's clock; when that is ahead, the timer is told the time in its own.
    """
    return said.heard + grace + max(timedelta(), fired - now)


def silenced(
    held: Held, *, target: TargetRef, condition: str, grace: timedelta, since: datetime, now: datetime
) -> ConditionChanged:
    """The condition after its source has fallen silent."""
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
