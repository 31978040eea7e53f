"""Starts and ends the watches of sources, and decides when a timer fires."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from moorage.decide.conditions.heartbeats import (
    BY_HAND,
    HEARTBEAT_STOPPED,
    HeartbeatWatch,
    SourceStatus,
    check_again,
    check_id,
    coarseness,
    may_stay_unrecorded,
    recorded_until,
    silenced,
    silent_since,
    timer_id,
    voice,
)
from moorage.decide.conditions.reports import KeptCondition
from moorage.runtime.service import Emit, Input
from moorage.workers.condition_ingest.state import ISSUER, ConditionIngestPartition, IngestBatch
from moorage_schemas.condition import ConditionChanged, ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.keys import condition_key
from moorage_schemas.refs import TargetRef
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, TIMERS

_NO_WATCHES: Final[Mapping[str, HeartbeatWatch]] = MappingProxyType({})
_NONE: Final = timedelta()

_FAR: Final = timedelta(seconds=5)
"""A deadline further away than this may be set a second later. Nearly always the source reports before it again."""

_AHEAD: Final = timedelta(seconds=1)
"""By how much the clock of the timer may be ahead of this one."""

_OVERDUE: Final = timedelta(minutes=10)
"""How long after a deadline `repair` relies on the timer. Later, the record that it has fired may have expired unread.
Clocks differ, so a deadline may also be this much later than the grace period allows.
"""


class HeartbeatMonitor:
    """Starts, continues and ends the watch of each source about each target.

    Args:
        source: the CloudEvents source of the service's own records.
    """

    def __init__(self, source: str) -> None:
        self._source = source

    def begin(
        self, step: IngestBatch, watch: HeartbeatWatch | None, target: TargetRef, condition: ConditionChanged
    ) -> None:
        """Watch a source that reports on a target for the first time, or again."""
        source, uid = condition.source, condition.target_uid
        if watch is not None and watch.target_uid != uid:
            # It watched an earlier target of that name.
            step.write(TIMERS, watch.id, target.key, None)
            watch = None
        grace = self._period(step.state, target, source)
        if grace is None or condition.status is ConditionStatus.UNKNOWN or condition.accepted_time is None:
            return
        if not self.is_judged(step.state, target, source, condition.type):
            return
        if watch is None:
            began = (condition.type, condition.generation)
            watch = HeartbeatWatch(timer_id(target, uid, began, source), uid, 0, None)
        _set(step, watch, target, source, condition.accepted_time + grace)

    def taken_over(self, step: IngestBatch, lost: KeptCondition, target: TargetRef) -> None:
        """Check the former source of a condition that another source has reported: it may have no condition left."""
        watch = step.state.watches.get(target.key, {}).get(lost.source)
        if watch is None:
            return
        kept = step.state.conditions[target.key]
        status = _voice(step.state, target, lost.target_uid, lost.source)
        if status is None or not status.speaking:
            step.write(TIMERS, watch.id, target.key, None)
            return
        grace = self._period(step.state, target, lost.source)
        if grace is None or watch.deadline is None:
            return
        # A former process heard its reports before this one began. A deadline after the grace period would be mended
        # after the next restart.
        before = step.state.hears_since or step.now
        last = lost.latest if lost.heard else min(lost.latest, before)
        # Its last report, or its last recorded one, may have been about a condition that is no longer its own. Then
        # neither this state nor, after a restart, the records of its other conditions imply when it last reported. So
        # the timer keeps the deadline.
        covered = recorded_until(kept, lost.target_uid, lost.source, self.coarseness(step.state, target, lost.source))
        if covered is not None and last <= status.heard <= covered:
            return
        if (deadline := max(last, status.heard) + grace) > watch.deadline:
            _set(step, watch, target, lost.source, deadline)

    def coarseness(self, state: ConditionIngestPartition, target: TargetRef, source: str, key: str = "") -> timedelta:
        """Return for how long after a record heartbeats of a source need not be written.

        Manual reports are always written, because their authors expect to see them.
        """
        return _coarseness(self._period(state, target, source, key), source)

    def may_stay_unrecorded(
        self,
        state: ConditionIngestPartition,
        report: ConditionReported,
        source: str,
        known: KeptCondition,
        now: datetime,
    ) -> bool:
        """Return whether a report that counts need not be written, because it changes nothing but times.

        A report that starts a watch is written, because its generation becomes part of the timer's id.
        """
        if known.status is not report.status or known.source != source:
            return False  # most reports that change something do this, so it is checked before all else
        target = report.target.key
        uid = state.targets[target]
        grace = self._period(state, report.target, source, target)
        within = _coarseness(grace, source)
        if not within:
            return False
        if (
            grace is not None
            and report.status is not ConditionStatus.UNKNOWN
            and self.is_judged(state, report.target, source, report.type)
        ):
            watch = state.watches.get(target, _NO_WATCHES).get(source)
            if watch is None or watch.deadline is None or watch.target_uid != uid:
                return False
        conditions = state.conditions[target]
        return may_stay_unrecorded(
            report, known, source=source, conditions=conditions, target_uid=uid, within=within, now=now
        )

    def fired(self, step: IngestBatch, event: TimerFired) -> None:
        """Check a source whose timer has fired: it may have reported since the timer was set."""
        target, source = event.target, event.subject
        watch = step.state.watches.get(target.key, {}).get(source)
        due = (event.id, event.generation, event.deadline)
        if watch is None or (watch.id, watch.generation, watch.deadline) != due:
            return  # the timer was moved, cancelled or deleted
        found = self._status(step, watch, target, source)
        if found is None:
            return
        status, grace = found
        if silent_since(watch, status, grace, step.now) is None:
            when = check_again(status, grace, step.now, event.fired_time)
            _set(step, watch, target, source, when, can_wait=when - step.now > _FAR)
            return
        request = ConditionReported(
            target=target,
            type=min(status.speaking),
            status=ConditionStatus.UNKNOWN,
            reason=HEARTBEAT_STOPPED,
            message=f"{source} seems to be silent; reports that are still waiting here go first",
            observed_time=event.deadline,
            source=source,
        )
        meta = Meta(
            id=check_id(watch),
            source=self._source,
            type=CONDITION_REPORTS.event_type,
            time=step.now,
            subject=target.key,
            correlation_id=step.cause.correlation,
            causation_id=step.cause.id,
            traceparent=step.cause.traceparent,
        )
        step.emits.append(Emit(CONDITION_REPORTS, target.key, target.key, request, step.cause, meta=meta))

    def is_own_request(self, record: Input, report: ConditionReported) -> bool:
        """Return whether a record of `condition-reports` is this service's own request from `fired`.

        A record from another writer passes before grants and limits, and does no harm: `check` acts on it at most once
        for each deadline that has come, and finds the actual state.
        """
        return record.meta.source == self._source and report.reason == HEARTBEAT_STOPPED

    def check(self, step: IngestBatch, request: ConditionReported) -> None:
        """Check whether a source is silent. All reports that were waiting when its timer fired have been processed."""
        target, source = request.target, request.source
        watch = step.state.watches.get(target.key, {}).get(source)
        if watch is None or check_id(watch) != step.cause.id:
            return
        if watch.deadline is None or watch.deadline > step.now + _AHEAD:
            return  # its timer has not fired: another writer has guessed the id, and could do so again and again
        found = self._status(step, watch, target, source)
        if found is None:
            return
        status, grace = found
        since = silent_since(watch, status, grace, step.now)
        if since is None:
            _set(step, watch, target, source, check_again(status, grace, step.now, step.now))
            return
        for name, held in sorted(status.speaking.items()):
            event = silenced(held, target=target, condition=name, grace=grace, since=since, now=step.now)
            step.write(CONDITIONS, condition_key(target, name), target.key, event, before=held.status.value)
        step.write(TIMERS, watch.id, target.key, None)

    def suspects(self, state: ConditionIngestPartition, target: str, source: str, now: datetime) -> bool:
        """Return whether a source is not watched, or its timer seems lost or is set for a longer grace period."""
        watch = state.watches.get(target, {}).get(source)
        if watch is None or watch.deadline is None or watch.deadline < now - _OVERDUE:
            return True
        grace = self._period(state, TargetRef.parse(target), source)
        return grace is not None and watch.deadline - now > grace + _OVERDUE

    def repair(
        self, state: ConditionIngestPartition, target: TargetRef, source: str, now: datetime, emits: list[Emit]
    ) -> None:
        """Watch a suspected source, if it has a condition that is not Unknown, and a grace period."""
        watch = state.watches.get(target.key, {}).get(source)
        grace = self._period(state, target, source)
        if grace is None:
            return
        uid = state.targets[target.key]
        status = _voice(state, target, uid, source)
        if status is None or not status.speaking:
            return
        if watch is None:
            name = min(status.speaking)
            began = (name, status.speaking[name].generation)
            watch = HeartbeatWatch(timer_id(target, uid, began, source), uid, 0, None)
        deadline = status.heard + grace
        if watch.deadline == deadline and deadline > now:
            return  # its timer is correct
        cause = Meta(
            id=event_id("reconcile", TIMERS.short, watch.id, watch.generation),
            source=self._source,
            type=TIMERS.event_type,
            time=now,
            subject=target.key,
        )
        _set(IngestBatch(state, now, emits, cause), watch, target, source, deadline)

    def hasten(self, state: ConditionIngestPartition, target: TargetRef, now: datetime, emits: list[Emit]) -> None:
        """Check a target's sources earlier than planned where the target's new grace period is shorter."""
        for source, watch in sorted(state.watches.get(target.key, {}).items()):
            grace = self._period(state, target, source)
            status = _voice(state, target, watch.target_uid, source)
            if grace is None or status is None or watch.deadline is None or watch.deadline <= status.heard + grace:
                continue
            if watch.target_uid == state.targets.get(target.key):
                self.repair(state, target, source, now, emits)

    def refit(self, state: ConditionIngestPartition, target: TargetRef, now: datetime, emits: list[Emit]) -> None:
        """Watch a target's sources under other grace periods: unwatched ones, and those watched too long.

        After a restart, neither changes of the grace periods since a timer was set nor the exact times of reports are
        known. So a timer is moved only if its deadline cannot be right under the present period.

        A deadline that is too early is left as it is: when its timer fires, the source is checked.
        """
        if target.key not in state.targets:
            return
        for source in sorted({held.source for held in state.conditions.get(target.key, {}).values()}):
            watch = state.watches.get(target.key, {}).get(source)
            grace = self._period(state, target, source)
            if (
                watch is None
                or watch.deadline is None
                or (grace is not None and not state.exact and watch.deadline > now + grace)
            ):
                self.repair(state, target, source, now, emits)
        if state.exact:
            self.hasten(state, target, now, emits)

    def is_judged(self, state: ConditionIngestPartition, target: TargetRef, source: str, condition: str) -> bool:
        """Return whether a condition becomes Unknown when its source is silent."""
        judged = state.rules.value.graces.judged(target.kind, source)
        return judged is None or condition in judged

    def _period(
        self, state: ConditionIngestPartition, target: TargetRef, source: str, key: str = ""
    ) -> timedelta | None:
        """Return how long a source may be silent about a target. None means forever."""
        own = state.graces.get(key or target.key) if state.graces else None
        return state.rules.value.graces.of(target.kind, source, own)

    def _status(
        self, step: IngestBatch, watch: HeartbeatWatch, target: TargetRef, source: str
    ) -> tuple[SourceStatus, timedelta] | None:
        """Return the status of a watched source, and its grace period; None when nothing is left to watch."""
        uid = step.state.targets.get(target.key)
        if uid != watch.target_uid:
            return None  # the target was deleted; `wake` cleans up
        status = _voice(step.state, target, uid, source)
        if status is None or not status.speaking:
            step.write(TIMERS, watch.id, target.key, None)
            return None
        grace = self._period(step.state, target, source)
        if grace is None:
            # The settings have changed, and may change back. The source still reports, so its timer is kept, but
            # cancelled.
            _set(step, watch, target, source, None)
            return None
        return status, grace


def _voice(state: ConditionIngestPartition, target: TargetRef, uid: str, source: str) -> SourceStatus | None:
    """Return the status of a source about the target with this uid. None if the source has no condition of it.

    A renewed Lease of the target is a sign of life of its agent.
    """
    judged = state.rules.value.graces.judged(target.kind, source)
    status = voice(state.conditions.get(target.key, {}), uid, source, state.hears_since, judged)
    if status is not None and judged is not None and (renewed := state.alive.get(target.key)) is not None:
        status.heard = max(status.heard, renewed)
    return status


def _coarseness(grace: timedelta | None, source: str) -> timedelta:
    return _NONE if grace is None and source.startswith(BY_HAND) else coarseness(grace)


def _set(
    step: IngestBatch,
    watch: HeartbeatWatch,
    target: TargetRef,
    source: str,
    deadline: datetime | None,
    *,
    can_wait: bool = False,
) -> None:
    event = SetTimer(
        id=watch.id,
        target=target,
        owner=ISSUER,
        generation=watch.generation + 1,
        deadline=deadline,
        subject=source,
        correlation_id=step.cause.correlation,
    )
    step.write(TIMERS, watch.id, target.key, event, can_wait=can_wait)
