"""The service condition-ingest.

Consumes:
    `condition-reports`, which any program may write; every record is checked before it counts.
    Its own `timer-fired`. Follows `resources` for the existing targets and the Leases that their agents renew,
    `probe-grants` for the reports that may count, and `bindings` to remove the conditions of workloads that have left.
Keeps:
    Changelogs: the conditions of each target (`conditions`) and of its workloads (`workload-conditions`), and a timer
    for each source that reports on a target (`timers`). Also the uid of each declared target. Follows `configuration`:
    other grace periods apply at once to the watched sources.
Emits:
    `conditions`: a record for each report that changes something, and sometimes for one that does not; tombstones for
    the conditions of deleted targets. Conditions whose source has fallen silent become Unknown.
    `workload-conditions`: a record for each report that counts, and tombstones for those of deleted targets and of
    workloads that have not been bound there for ten minutes.
    `timers`: the timers of watches (`moorage.decide.conditions.heartbeats`).
    `dead-letters`: the refused reports, each with the reason and the original.
    `condition-reports`: a report that was written to the wrong partition, once, for the partition of its target. When a
    source seems to be silent, a record that requests another check.

Heartbeats do not move a timer. When it fires, either the source has reported in the meantime, and the timer is set
again, or the source seems to be silent. In that case reports may still be waiting in the partition, because this
service may have been down for longer than the grace period. So the request for another check is written to the same
partition, after all waiting reports. The source counts as silent only when that request has been read.

A heartbeat that changes nothing is kept here, and written only sometimes (`moorage.decide.conditions.heartbeats`). A
restore does not bring this back. After a restore, a source's last report counts as late as its records allow, until the
next one. Reports about workloads are all written: a workload's health counts for its present binding only if it was
reported after that binding.

Whether a workload is bound to the target that its deployer names is not checked when a report is read, because the
deployer may be ahead of the topics that this service reads. A condition is removed ten minutes after its last report if
the workload is not bound there. Otherwise each pod that ever ran would leave one. Workloads have no heartbeats.

The gateway's seal or a probe's signature identifies a report's writer (`moorage_schemas.signing`), and ProbeGrants
judge it (`moorage.decide.conditions.grants`). The grants are read to their present end before a report is refused, so a
late grant loses none. A forwarded report keeps its bytes, its seal and its signature, because only the partition of its
target has the target's labels.

Reports of a source beyond its limits are dropped first (`moorage.runtime.reports.report_limiter`). One dead letter a
minute for each source contains their number.

A report belongs to the target that was declared when the report was written to Kafka. A report that was written before
the present target of its name was declared is refused. The present targets are read before a report is checked, so that
no report counts for a target that is already deleted.

The output contains `now` (`acceptedTime`, `statusSince`), which is the same for the whole batch. So the same state,
batch and `now` give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from heapq import nsmallest
from types import MappingProxyType
from typing import Any, ClassVar

from typing_extensions import override

from moorage.decide.conditions.grants import Grants
from moorage.decide.conditions.heartbeats import GracePeriods, grace_period, parse_source_grace_periods, repeats
from moorage.decide.conditions.report_limits import Excess, Rate
from moorage.decide.conditions.reports import (
    KeptCondition,
    accept,
    check_key,
    check_order,
    earlier_target,
    source_of,
    unknown_target,
)
from moorage.runtime.engine.portions import CHECKS, RECORDS
from moorage.runtime.measures import Measure
from moorage.runtime.reports.report_limiter import Dropped
from moorage.runtime.reports.report_proofs import COUNTS, Judged, SenderCheck, proofs_of
from moorage.runtime.reports.report_seals import Seals, seals_of
from moorage.runtime.service import Describe, Emit, GlobalView, Input, Malformed, NeedFresh, RawRecord, Service
from moorage.runtime.settings.moorage_configuration import Configuration, Derived, configuration_of
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.record_format import dead_letter
from moorage.runtime.wire.row_reader import RowReader
from moorage.workers.condition_ingest.condition_lines import condition_lines, workload_condition_lines
from moorage.workers.condition_ingest.heartbeat_monitor import HeartbeatMonitor
from moorage.workers.condition_ingest.source_measures import counted, measures
from moorage.workers.condition_ingest.state import (
    ISSUER,
    ConditionIngestPartition,
    IngestBatch,
    IngestView,
    ReportRules,
    written_condition,
)
from moorage_schemas.condition import ConditionChanged, ConditionReported, WorkloadConditionChanged
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.keys import ConditionKey, condition_key, workload_condition_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.report_rules import Refusal, check_size, check_time, check_workload
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.topics import (
    BINDINGS,
    CONDITION_REPORTS,
    CONDITIONS,
    CONFIGURATION,
    PROBE_GRANTS,
    RESOURCES,
    TIMER_FIRED,
    TIMERS,
    WORKLOAD_CONDITIONS,
    Topic,
    partition_of,
)

_NONE = timedelta()
_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_NOTHING: Mapping[str, KeptCondition] = MappingProxyType({})
_AT_ONCE = datetime.min.replace(tzinfo=UTC)


class ConditionIngest(Service[ConditionIngestPartition]):
    """Turns reports into conditions."""

    name: ClassVar[str] = "condition-ingest"
    summary: ClassVar[str] = "Checks, orders and de-duplicates reports of conditions."
    sources: ClassVar[tuple[Topic, ...]] = (CONDITION_REPORTS, TIMER_FIRED)
    heartbeats: ClassVar[tuple[Topic, ...]] = (CONDITION_REPORTS,)
    changelogs: ClassVar[tuple[Topic, ...]] = (CONDITIONS, WORKLOAD_CONDITIONS, TIMERS)
    outputs: ClassVar[tuple[Topic, ...]] = (CONDITION_REPORTS,)
    follows: ClassVar[tuple[Topic, ...]] = (RESOURCES, BINDINGS)
    rows: ClassVar[Mapping[Topic, RowReader]] = {
        CONDITIONS: RowReader(ConditionChanged),
        WORKLOAD_CONDITIONS: RowReader(WorkloadConditionChanged),
        TIMERS: RowReader(SetTimer),
        BINDINGS: RowReader(WorkloadBound),
    }
    globals: ClassVar[tuple[Topic, ...]] = (CONFIGURATION, PROBE_GRANTS)
    fresh_globals: ClassVar[frozenset[Topic]] = frozenset({PROBE_GRANTS})
    refuses: ClassVar[frozenset[Topic]] = frozenset({CONDITION_REPORTS})
    lines: ClassVar[Mapping[Topic, Describe]] = {
        CONDITIONS: condition_lines,
        WORKLOAD_CONDITIONS: workload_condition_lines,
    }

    def __init__(self, settings: Settings) -> None:
        self._partitions = settings.partitions
        self._settings = settings
        self._source = f"moorage/{self.name}"
        self._monitor = HeartbeatMonitor(self._source)

    @override
    def new_state(self, partition: int) -> ConditionIngestPartition:
        return ConditionIngestPartition(partition, Derived(Configuration(self._settings), rules_of))

    @cached_property
    def _seals(self) -> Seals | None:
        return seals_of(self._settings)

    @override
    def new_globals(self) -> IngestView:
        return IngestView(Configuration(self._settings, self.name), is_sealed=self._seals is not None)

    @override
    def use_globals(self, state: ConditionIngestPartition, view: GlobalView) -> None:
        if isinstance(view, IngestView):
            state.view = view
        if (configuration := configuration_of(view)) is not None:
            state.rules = Derived(configuration, rules_of)

    @override
    def apply(self, state: ConditionIngestPartition, topic: Topic, key: str, event: Any) -> None:
        state.apply(topic, key, event)

    @override
    def settle(self, state: ConditionIngestPartition, limit: int) -> bool:
        return state.tally.settle(partial(counted, state), limit)

    @override
    def measures(self, state: ConditionIngestPartition, now: datetime) -> Iterable[Measure]:
        return measures(state)

    @override
    def process(
        self, state: ConditionIngestPartition, batch: Sequence[Input], now: datetime, *, fresh: bool = False
    ) -> list[Emit]:
        state.hear(now)
        judged = self._judge_senders(state, batch, now, fresh=fresh)
        emits: list[Emit] = []
        for record, sender in zip(batch, judged, strict=True):
            step, event = IngestBatch(state, now, emits, record.meta), record.event
            if isinstance(event, ConditionReported):  # nearly all of them
                if self._monitor.is_own_request(record, event):
                    self._monitor.check(step, event)
                elif isinstance(sender.refusal, Excess):
                    if (dropped := state.limiter.drop(record, sender.refusal, now)) is not None:
                        emits.append(self._dead_letter_of_dropped(dropped, now))
                else:
                    state.reported = now
                    self._report(step, record, event, sender)
            elif isinstance(event, TimerFired):
                if event.owner == ISSUER:
                    self._monitor.fired(step, event)
            else:
                rule = "must be a report; a tombstone cannot withdraw a report"
                refusal = Refusal(RefusalReason.INVALID_EVENT, field="value", value="", rule=rule)
                emits.append(self._dead_letter(record, refusal, now))
        return emits

    # Reports.

    def _judge_senders(
        self, state: ConditionIngestPartition, batch: Sequence[Input], now: datetime, *, fresh: bool
    ) -> Sequence[Judged]:
        """Judge the writers of a batch's reports, and whether they write too many."""
        rate, grants = state.rules.value.rate, state.view.grants if state.view is not None else None
        limiter = state.limiter
        if rate is None and not grants:
            if not fresh and any(self._needs_targets(state, record) for record in batch):
                raise NeedFresh
            return [COUNTS] * len(batch)
        check = SenderCheck(grants or Grants(), self._seals, limiter, rate, now, state.rules.value.skew)
        limiter.begin(now, grants.changes if grants is not None else 0)
        known = False
        try:
            judged = [self._judge_sender(state, record, check) for record in batch]
            known = fresh or not any(map(partial(self._needs_fresh, state), batch, judged))
        finally:
            limiter.end(keep=known)
        if not known:
            raise NeedFresh
        return judged

    def _judge_sender(self, state: ConditionIngestPartition, record: Input, check: SenderCheck) -> Judged:
        report = record.event
        if not isinstance(report, ConditionReported) or self._monitor.is_own_request(record, report):
            return COUNTS
        return check.judge(record, report, state.labels.get(report.target.key, _NO_LABELS))

    def _needs_fresh(self, state: ConditionIngestPartition, record: Input, judged: Judged) -> bool:
        """Return whether targets or grants must be read before a report is decided on.

        Grants are needed if the report would be refused because none covers it, in the partition of its target. A
        report that is dropped for its rate needs nothing.
        """
        if isinstance(judged.refusal, Excess):
            return False
        report = record.event
        if judged.refusal is not None and isinstance(report, ConditionReported):
            return not self._strayed(state, record, report.target.key)
        return self._needs_targets(state, record)

    def _needs_targets(self, state: ConditionIngestPartition, record: Input) -> bool:
        """Return whether the present targets must be read before a report is checked.

        The report's target may have been declared a moment ago. Or it may have been deleted and declared again; a
        report that counted for the earlier target would then be removed together with it. A heartbeat without anything
        new does not require a read, because most reports are heartbeats, and the source will report again if one is
        removed.
        """
        report = record.event
        if not isinstance(report, ConditionReported) or self._monitor.is_own_request(record, report):
            # Before a source counts as silent: the Lease of its target may have been renewed.
            return isinstance(report, ConditionReported)
        target = report.target.key
        if self._strayed(state, record, target):
            return False
        uid, conditions = state.targets.get(target), state.conditions.get(target)
        if uid is None or conditions is None or report.workload is not None:
            return True
        known = conditions.get(report.type)
        if known is None or known.target_uid != uid or known.status is not report.status:
            return True
        source = source_of(report, record.meta.source)
        watch = state.watches.get(target, {}).get(source)
        return self._monitor.is_judged(state, report.target, source, report.type) and (
            watch is None or watch.target_uid != uid or watch.deadline is None
        )

    def _strayed(self, state: ConditionIngestPartition, record: Input, target: str) -> bool:
        """Return whether a report was written to a partition other than its target's.

        Such a report is forwarded with its own id and names itself as its cause. This marks it, so that it is not
        forwarded again.
        """
        return partition_of(target, self._partitions) != state.partition and record.meta.causation_id != record.meta.id

    def _report(self, step: IngestBatch, record: Input, report: ConditionReported, sender: Judged) -> None:
        target, raw = report.target.key, record.raw
        rules = step.state.rules.value
        refused = (
            check_size(len(raw.value or b"") if raw is not None else 0, rules.max_bytes)
            or check_key(record.key, target)
            or check_time(report, step.now, rules.skew)
            or check_workload(report)
        )
        if refused is None and self._strayed(step.state, record, target):
            proofs = proofs_of(record.raw)
            sent_on = record.meta._replace(causation_id=record.meta.id, proofs=proofs)
            # The signature covers the bytes, so another form of the same report would not do.
            content = record.raw.value if proofs and record.raw is not None else report
            step.emits.append(Emit(CONDITION_REPORTS, target, target, content, record.meta, meta=sent_on))
            return
        if refused is None and target not in step.state.targets:
            refused = unknown_target(report)
        if refused is None:
            # The time of a record is set by its writer, who may have copied a report about an earlier target.
            written, signed = record.written, sender.signed
            if signed is not None:
                written = signed if written is None else min(written, signed)
            refused = sender.refusal or earlier_target(report, written, step.state.began.get(target))
        if refused is not None:
            step.emits.append(self._dead_letter(record, refused, step.now))
            return
        self._judge(step, record.meta, report, target)

    def _judge(self, step: IngestBatch, meta: Meta, report: ConditionReported, target: str) -> None:
        state, workload = step.state, report.workload
        table, name = state.conditions, report.type
        if workload is not None:
            table, name = state.workloads, f"{workload.key}|{report.type}"
        known = table.get(target, _NOTHING).get(name)
        uid, source = state.targets[target], source_of(report, meta.source)
        if check_order(report, report_id=meta.id, source=source, target_uid=uid, known=known) is not None:
            return
        unrecorded = _NONE
        if workload is None:  # workloads have no heartbeats
            if known is not None and self._monitor.may_stay_unrecorded(state, report, source, known, step.now):
                known.hear(report, meta.id, step.now)
                return
            unrecorded = self._monitor.coarseness(state, report.target, source, target)
        accepted = accept(
            report, report_id=meta.id, source=source, target_uid=uid, known=known, now=step.now, unrecorded=unrecorded
        )
        before = known.status.value if known is not None and known.target_uid == uid else ""
        if workload is not None:
            event = WorkloadConditionChanged(**accepted)
            key = workload_condition_key(workload, target, report.type)
            step.write(WORKLOAD_CONDITIONS, key, target, event, before=before)
            return
        # The author of a manual report expects to see it.
        can_wait = bool(unrecorded) and known is not None and repeats(report, known, source=source, target_uid=uid)
        condition = written_condition(target, accepted)
        step.write_condition(target, condition, before=before, can_wait=can_wait)
        if known is not None and known.source != source and known.target_uid == uid:
            self._monitor.taken_over(step, known, report.target)
        watch = state.watches.get(target, {}).get(source)
        if watch is None or watch.deadline is None or watch.target_uid != uid:
            self._monitor.begin(step, watch, report.target, condition)

    # Deleted targets, and repairs.

    @override
    def wake(self, state: ConditionIngestPartition, now: datetime) -> list[Emit]:
        emits: list[Emit] = []
        state.hear(now)
        if state.hears_since is None:
            state.hears_since = now
        if state.view is not None:
            state.view.log_rules()
        if state.graces_in_use != (graces := state.rules.value.graces):
            state.exact, state.graces_in_use = state.graces_in_use is not None, graces
            state.refit.begin(sorted(state.conditions))
        self._clean_up(state, now, emits)
        for target in nsmallest(CHECKS, state.moved):
            if len(emits) >= RECORDS:
                break
            state.moved.discard(target)
            self._monitor.hasten(state, TargetRef.parse(target), now, emits)
        for target in state.refit.portion(emits):
            self._monitor.refit(state, TargetRef.parse(target), now, emits)
        self._forget_unbound(state, now, emits)
        self._forget_unreported(state, now, emits)
        emits += [self._dead_letter_of_dropped(dropped, now) for dropped in state.limiter.due(now)]
        return emits

    def _clean_up(self, state: ConditionIngestPartition, now: datetime, emits: list[Emit]) -> None:
        """Write the tombstones of a portion of the deleted targets."""
        for target in nsmallest(CHECKS, state.orphans):
            if len(emits) >= RECORDS:
                return
            uid = state.targets.get(target)
            removed = [
                *(
                    (CONDITIONS, condition_key(target, name), held.target_uid, held.generation)
                    for name, held in sorted(state.conditions.get(target, {}).items())
                ),
                *(
                    (WORKLOAD_CONDITIONS, _workload_key(target, name), held.target_uid, held.generation)
                    for name, held in sorted(state.workloads.get(target, {}).items())
                ),
                *(
                    (TIMERS, watch.id, watch.target_uid, watch.generation)
                    for _, watch in sorted(state.watches.get(target, {}).items())
                ),
            ]
            for topic, key, former, generation in removed:
                if former != uid:
                    cause = self._removal(target, event_id("target-gone", topic.short, key, former, generation))
                    IngestBatch(state, now, emits, cause).write(topic, key, target, None)
            state.orphans.discard(target)

    def _forget_unbound(self, state: ConditionIngestPartition, now: datetime, emits: list[Emit]) -> None:
        """Write the tombstones of a portion of the conditions of workloads that are no longer bound."""
        for target, name in state.unbound_at(now, max(0, RECORDS - len(emits))):
            held = state.workloads[target][name]
            key = _workload_key(target, name)
            cause = self._removal(
                target, event_id("workload-gone", key, held.target_uid, held.generation, held.report_id)
            )
            IngestBatch(state, now, emits, cause).write(WORKLOAD_CONDITIONS, key, target, None)

    def _forget_unreported(self, state: ConditionIngestPartition, now: datetime, emits: list[Emit]) -> None:
        """Write the tombstones of a portion of the conditions that are no longer reported and have no effect."""
        for target, name in state.unreported_at(now, max(0, RECORDS - len(emits))):
            held = state.conditions[target][name]
            key = condition_key(target, name)
            identity = event_id("condition-gone", key, held.target_uid, held.generation, held.report_id)
            IngestBatch(state, now, emits, self._removal(target, identity)).write(CONDITIONS, key, target, None)

    def _removal(self, target: str, identity: str) -> Meta:
        return Meta(id=identity, source=self._source, type=RESOURCES.event_type, subject=target)

    @override
    def next_wake(self, state: ConditionIngestPartition) -> datetime | None:
        if state.orphans or state.moved or state.refit or state.renewed:
            return _AT_ONCE
        waits = (state.unbound.next, state.unreported.next, state.limiter.next)
        return min((due for due in waits if due is not None), default=None)

    @override
    def reconcile(self, state: ConditionIngestPartition, now: datetime) -> list[Emit]:
        emits: list[Emit] = []
        if not state.round:
            state.round.begin(sorted({*state.conditions, *state.workloads, *state.watches}))
        checked = list(state.round.portion(emits))
        for target in checked:
            state.check(target)
        emits += self.wake(state, now)
        suspects = [
            (target, source)
            for target in checked
            if target in state.targets and target not in state.orphans
            for source in sorted({held.source for held in state.conditions.get(target, {}).values()})
            if self._monitor.suspects(state, target, source, now)
        ]
        for target, source in suspects:
            self._monitor.repair(state, TargetRef.parse(target), source, now, emits)
        return emits

    @override
    def is_reconciling(self, state: ConditionIngestPartition) -> bool:
        return bool(state.round)

    # Refusals.

    @override
    def refuse(self, state: ConditionIngestPartition, bad: Malformed, now: datetime) -> list[Emit]:
        return [dead_letter(self.name, bad, now)]

    def _dead_letter_of_dropped(self, dropped: Dropped, now: datetime) -> Emit:
        """Return the one dead letter of reports of a source that were dropped."""
        return self._dead_letter(dropped.record, dropped.why, now, dropped.count)

    def _dead_letter(self, record: Input, refusal: Refusal, now: datetime, count: int = 1) -> Emit:
        bad = Malformed(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            raw=record.raw or RawRecord(key=record.key.encode(), value=None, headers=()),
            reason=refusal.reason.value,
            message=refusal.message,
            field=refusal.field,
            value=refusal.value,
            rule=refusal.rule,
            count=count,
        )
        return dead_letter(self.name, bad, now, record.meta)


def _workload_key(target: str, name: str) -> str:
    workload, condition_type = ConditionKey.parse(name)
    return workload_condition_key(workload, target, condition_type)


def rules_of(settings: Settings) -> ReportRules:
    """Return the rules for reports and their sources that follow from the settings."""
    return ReportRules(
        grace_periods(settings),
        timedelta(seconds=settings.clock_skew),
        settings.report_max_bytes,
        Rate.of(settings.report_qps, settings.report_burst),
    )


def grace_periods(settings: Settings) -> GracePeriods:
    """Return the grace periods that the settings give to sources."""
    return GracePeriods(
        {
            TargetKind.NODE: grace_period(settings.node_monitor_grace_period),
            TargetKind.CLUSTER: grace_period(settings.cluster_monitor_grace_period),
            TargetKind.MANAGED_CLUSTER: grace_period(settings.managed_cluster_monitor_grace_period),
        },
        parse_source_grace_periods(settings.source_grace_periods),
    )


def service(settings: Settings) -> ConditionIngest:
    """Return the service for the command line to run."""
    return ConditionIngest(settings)
