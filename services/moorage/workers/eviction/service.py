"""The service eviction, the only writer of `evictions`.

Consumes:
    `taints`, `bindings`, `workload-conditions`, its own `timer-fired`, and `eviction-answers` of the governor.
Keeps:
    Source tables: the taints that evict, the bindings of each target with their deployers, and deployers' reports of
    evictions. Changelogs: its tasks (`evictions`) and its own timers (`timers`). Global view: the guards that may hold
    evictions (pauses, budgets, disruption budgets) and the configuration.
Emits:
    `evictions`: the states of each task. Requested lasts until the binding ends, even if the taint is removed. The
    deployer's reports are written to the same task. An ended task is tombstoned after `eviction-retention`.
    `generation-floors`: the highest generation of those tombstones, in the same transaction.
    `timers`: set, moved and cancelled with the deadline of a scheduled task, tombstoned when the task ends.
    `eviction-asks`: a request to the governor when a task comes due that a guard may hold; written again when the
    eviction is requested, tombstoned when the task no longer needs it.

An eviction that no guard may hold is requested as soon as it is due, without the governor. Otherwise the eviction
becomes Held and requests a grant. The answer grants the eviction or names what holds it. A grant is used at once or
returned: after a restart, or a wait for the taint-manager, the eviction requests a new one. Work leaves a Karmada
cluster only with the feature gate Failover and `enableNoExecuteTaintEviction`. The limit on evictions per second
applies to these evictions as well.

A record may make an eviction come due, but a record alone never requests an eviction. The eviction becomes pending. It
is decided on once all present records of taints, bindings and pauses have been read, so a backlog evicts nothing. The
same holds for taints that the taint-manager is about to remove. While it has unprocessed records about the target, the
eviction waits, and after a moment it is Held for `UpstreamLag`.

A deployer that names its binding in its reports acknowledges evictions. The request for such an eviction names the
deployer, and the binding stays until the deployer has acknowledged. An acknowledgement counts for exactly one binding,
and only while its eviction is requested; until then it is kept. So the reading order of the topics does not matter. On
a node that is not ready and has the taint `node.kubernetes.io/out-of-service`, evictions are acknowledged at once: the
taint states that nothing runs there.

A deadline is computed only when the taints or the tolerations change. The time of a decision is that of its cause (the
CloudEvents time of the record, `firedTime` of a timer), so that the same topics give the same bytes. A decision that
had to wait has the time at which it was checked again. Deadlines are compared only with this service's own clock and
with times in records, never with the governor's clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, ClassVar, Final

from typing_extensions import override

from moorage.decide.disruption.budgets import LEAVE_LASTS, Subject
from moorage.decide.kubernetes.durations import LONGEST_DURATION
from moorage.decide.kubernetes.taint_keys import OUT_OF_SERVICE
from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, Keep, Verdict
from moorage.runtime.engine.portions import CHECKS, RECORDS, PendingChecks
from moorage.runtime.service import Emit, Freshness, GlobalView, Input, Needs, Service, Upstream
from moorage.runtime.settings.moorage_configuration import Configuration, Derived, configuration_of
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.row_reader import RowReader
from moorage.workers.eviction.eviction_task import Binding, BoundTarget, EvictionRules, Pending, PendingCheck, Task
from moorage.workers.eviction.state import BINDING_ENDED, ISSUER, EvictionPartition, newer_binding, newer_taints
from moorage.workers.eviction.target_view import GuardView, TargetView
from moorage_schemas.budget import EvictionAnswered
from moorage_schemas.condition import EVICTED, WorkloadConditionChanged
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.eviction import Acknowledgement, Escalation, EvictionDecided, EvictionState, GenerationFloor
from moorage_schemas.keys import BindingKey, EvictionKey, WorkloadConditionKey, split_cluster
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import target_of_resource
from moorage_schemas.taint import Taint, TargetTainted
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.topics import (
    BINDINGS,
    CONDITIONS,
    CONFIGURATION,
    EVICTION_ANSWERS,
    EVICTION_ASKS,
    EVICTIONS,
    GENERATION_FLOORS,
    RESOURCES,
    TAINTS,
    TIMER_FIRED,
    TIMERS,
    WORKLOAD_CONDITIONS,
    ZONE_GRANTS,
    Topic,
)

_OUT_OF_SERVICE: Final = f"taint/{OUT_OF_SERVICE}"
"""The source of acknowledgements that a taint stands for."""

_GRACE: Final = timedelta(seconds=10)
"""How long after a deadline the reconciler waits for the timer, or after an eviction request for the governor."""

_REQUEST_AGAIN: Final = timedelta(seconds=60)
"""The time after which a held eviction requests its grant again. Answers may be lost, and their topic expires them."""

_CHECK_AGAIN: Final = timedelta(milliseconds=200)
"""The time between two checks of whether the taint-manager has caught up."""

_UPSTREAM_LAG: Final = "UpstreamLag"
"""The blocker of an eviction while the taint-manager still has records about its target to process."""

_LAG_TOLERATED: Final = timedelta(seconds=2)
"""How long this lag is not reported. The taint-manager commits records without output within a second."""

_GRACEFULLY: Final = "Gracefully"
"""The purge mode of work that runs until placement ends its binding, so no earlier acknowledgement is needed."""

_CLUSTERS: Final = f"{TargetKind.CLUSTER.value}/"


def _concerns(topic: Topic, key: str) -> str | None:
    """Return the target of a record that the taint-manager reads."""
    if topic is CONDITIONS:
        return BindingKey.parse(key).workload
    if topic is ZONE_GRANTS:
        return key
    target = target_of_resource(key)
    return None if target is None else target.key


_UPSTREAM: Final = Upstream("taint-manager", (RESOURCES, CONDITIONS, ZONE_GRANTS), TAINTS, _concerns)
_NEEDS: Final = Needs((TAINTS, BINDINGS, WORKLOAD_CONDITIONS), frozenset({RESOURCES}), (_UPSTREAM,))
_AT_ONCE: Final = datetime.min.replace(tzinfo=UTC)


class Eviction(Service[EvictionPartition]):
    """Turns taints and bindings into evictions."""

    name: ClassVar[str] = "eviction"
    summary: ClassVar[str] = "Reads bindings and taints, and writes which workloads must leave, and when."
    sources: ClassVar[tuple[Topic, ...]] = (TAINTS, BINDINGS, WORKLOAD_CONDITIONS, TIMER_FIRED, EVICTION_ANSWERS)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({TAINTS, BINDINGS, WORKLOAD_CONDITIONS})
    changelogs: ClassVar[tuple[Topic, ...]] = (EVICTIONS, TIMERS, GENERATION_FLOORS)
    outputs: ClassVar[tuple[Topic, ...]] = (EVICTION_ASKS,)
    globals: ClassVar[tuple[Topic, ...]] = (CONFIGURATION, RESOURCES)
    upstream: ClassVar[tuple[Upstream, ...]] = (_UPSTREAM,)
    rows: ClassVar[Mapping[Topic, RowReader]] = {
        BINDINGS: RowReader(WorkloadBound, shared=("tolerations", "labels")),
        WORKLOAD_CONDITIONS: RowReader(WorkloadConditionChanged),
        EVICTIONS: RowReader(EvictionDecided, shared=("held_by", "taints", "escalated", "acknowledged")),
        TIMERS: RowReader(SetTimer),
    }

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()

    @override
    def new_state(self, partition: int) -> EvictionPartition:
        return EvictionPartition(Derived(Configuration(self._settings), rules_of), partition)

    @override
    def new_globals(self) -> GlobalView:
        return GuardView(Configuration(self._settings, self.name))

    @override
    def use_globals(self, state: EvictionPartition, view: GlobalView) -> None:
        if isinstance(view, GuardView):
            state.guards = view.guards
        if (configuration := configuration_of(view)) is not None:
            state.rules = Derived(configuration, rules_of)

    @override
    def apply(self, state: EvictionPartition, topic: Topic, key: str, event: Any) -> None:
        state.fold(topic, key, event)

    @override
    def process(
        self,
        state: EvictionPartition,
        batch: Sequence[Input],
        now: datetime,
        *,
        fresh: bool = False,
    ) -> list[Emit]:
        # evictions that have come due stay pending until `wake`
        emits: list[Emit] = []
        for record in batch:
            if record.topic is TAINTS:
                emits += self._taints(state, record, now)
            elif record.topic is BINDINGS:
                emits += self._binding(state, record, now)
            elif record.topic is WORKLOAD_CONDITIONS:
                emits += self._reported(state, record, now)
            elif isinstance(record.event, TimerFired):
                if record.event.owner == ISSUER:
                    self._fired(state, record, record.event)
            elif isinstance(record.event, EvictionAnswered):
                emits += self._answered(state, record, record.event, now)
        return emits

    @override
    def needs(self, state: EvictionPartition, now: datetime) -> Needs | None:
        state.check_again(now)
        if not state.begun or state.rules_in_use != state.rules.value:
            return _NEEDS
        return replace(_NEEDS, keys=frozenset(key for key, _ in state.pending)) if state.pending else None

    @override
    def refreshed(self, state: EvictionPartition, found: Freshness) -> None:
        state.found = found

    @override
    def wake(self, state: EvictionPartition, now: datetime) -> list[Emit]:
        emits: list[Emit] = []
        if not state.begun or state.rules_in_use != state.rules.value:
            state.begun, state.rules_in_use = True, state.rules.value
            state.unseen.begin(_concerned(state))
        self._go_on(state, now, emits)
        # When the partition moved, evictions may have been due without a decision. Now only their deadlines show this.
        self._check_targets(state, state.unseen, now, timedelta(0), emits)
        found, state.found = state.found, None
        verdicts: dict[tuple[str, int], Verdict] = {}
        for _ in range(CHECKS):
            if found is None or not state.pending or len(emits) >= RECORDS:
                break
            self._decide(state, next(iter(state.pending)), found, emits, verdicts)
        self.remove_old(state, now, emits)
        return emits

    @override
    def next_wake(self, state: EvictionPartition) -> datetime | None:
        if state.pending or state.unseen or state.checks:
            return _AT_ONCE
        return min((time for time in (state.check_at, self.next_removal(state)) if time is not None), default=None)

    def next_removal(self, state: EvictionPartition) -> datetime | None:
        """Return when the next ended eviction is removed."""
        ended = state.ended.next()
        return None if ended is None else _later(ended, state.rules.value.retention)

    def remove_old(self, state: EvictionPartition, now: datetime, emits: list[Emit]) -> None:
        """Remove a portion of the evictions that ended long enough ago.

        Their highest generation is kept, in the same transaction: a workload that is created again must not reuse one.
        """
        highest: tuple[int, Emit] | None = None
        for key, decided in islice(
            state.ended.take_due(now - state.rules.value.retention), max(0, RECORDS - len(emits))
        ):
            eviction = EvictionKey.parse(key)
            cause = Meta(
                id=event_id("retention", EVICTIONS.short, key),
                source=f"moorage/{self.name}",
                type=EVICTIONS.event_type,
                time=_later(decided, state.rules.value.retention),
                subject=eviction.target,
            )
            removal = Emit(EVICTIONS, key, eviction.target, None, cause, step="removed")
            emits.append(removal)
            if highest is None or highest[0] < eviction.generation:
                highest = (eviction.generation, removal)
        if highest is not None and highest[0] > state.floor:
            generation, removal = highest
            event = GenerationFloor(partition=state.partition, generation=generation)
            self.apply(state, GENERATION_FLOORS, str(state.partition), event)
            emits.append(Emit(GENERATION_FLOORS, str(state.partition), removal.partition_key, event, removal.cause))

    @override
    def reconcile(self, state: EvictionPartition, now: datetime) -> list[Emit]:
        emits: list[Emit] = []
        if not state.round:
            state.round.begin(_concerned(state))
        self._check_targets(state, state.round, now, _GRACE, emits)
        return emits

    @override
    def is_reconciling(self, state: EvictionPartition) -> bool:
        return bool(state.round)

    def _check_targets(
        self, state: EvictionPartition, sweep: PendingChecks, now: datetime, grace: timedelta, emits: list[Emit]
    ) -> None:
        """Check the next targets of a sweep. One with a great many workloads is left to `_go_on`."""
        checks = CHECKS
        for key in sweep.portion(emits):
            target = state.targets.get(key)
            if target is None or key in state.checks:
                continue
            workloads = sorted(target.bindings.keys() | target.tasks.keys())
            check = PendingCheck(key, grace=grace)
            if len(workloads) > CHECKS:
                check.workloads.begin(workloads)
                state.checks[key] = check
                continue
            self._check_again(state, check, workloads, now, emits)
            checks -= len(workloads)
            if checks <= 0:
                break

    def _go_on(self, state: EvictionPartition, now: datetime, emits: list[Emit]) -> None:
        """Check the next workloads of a target that has too many for one call."""
        key = next(iter(state.checks), None)
        if key is None:
            return
        check = state.checks[key]
        self._check_again(state, check, check.workloads.portion(emits), now, emits)
        if not check.workloads:
            del state.checks[key]

    def _check_again(
        self, state: EvictionPartition, check: PendingCheck, workloads: Iterable[str], now: datetime, emits: list[Emit]
    ) -> None:
        """Check workloads of a target, because of a record or, if the check has none, to repair what differs."""
        key, verdicts = check.target, dict[int, Verdict]()
        for workload in workloads:
            target = state.targets.get(key)
            if target is None:
                return
            task, binding = target.tasks.get(workload), target.bindings.get(workload)
            if check.cause is not None:
                view = TargetView(
                    state, key, check.cause, check.time or now, reported=check.reported, emits=emits, verdicts=verdicts
                )
                self._acknowledge(view, workload)  # the taints may state that nothing runs on the target
            else:
                step = (task.generation, task.revision) if task is not None else (0, 0)
                cause = Meta(
                    id=event_id("reconcile", EVICTIONS.short, key, target.generation, workload, *step),
                    source=f"moorage/{self.name}",
                    type=EVICTIONS.event_type,
                    time=now,
                    subject=key,
                )
                view = TargetView(state, key, cause, now, due=now - check.grace, emits=emits, verdicts=verdicts)
                if task is not None and _is_orphaned(task, binding):
                    # Once the tombstone of a binding is compacted away, nothing else reports that the binding has
                    # ended.
                    self._end(view, workload, task)
                else:
                    self._acknowledge(view, workload)  # it was read before the eviction's own record
            if binding is not None:
                self._check(state, view, target, workload)

    def _taints(self, state: EvictionPartition, record: Input, now: datetime) -> list[Emit]:
        event = record.event if isinstance(record.event, TargetTainted) else None
        target = state.targets.get(record.key)
        if event is not None and target is not None and not newer_taints(event, target):
            return []
        before = target.taints if target is not None else ()
        self.apply(state, TAINTS, record.key, event)
        target = state.targets.get(record.key)
        if target is None or (target.taints == before and not target.tasks):
            return []
        reported = event.report_time if event is not None else None
        check = PendingCheck(record.key, record.meta, record.meta.time or now, reported)
        check.workloads.begin(sorted(target.bindings))
        emits: list[Emit] = []
        self._check_again(state, check, check.workloads.portion(emits), now, emits)
        if check.workloads:
            state.checks[record.key] = check
        else:
            state.checks.pop(record.key, None)  # the rest of an earlier check is checked now
        return emits

    def _binding(self, state: EvictionPartition, record: Input, now: datetime) -> list[Emit]:
        event = record.event if isinstance(record.event, WorkloadBound) else None
        workload, key = BindingKey.parse(record.key)
        target = state.targets.get(key)
        known = target.bindings.get(workload) if target is not None else None
        if event is not None and not newer_binding(event, known):
            return []
        view = TargetView(state, key, record.meta, record.meta.time or now)
        task = target.tasks.get(workload) if target is not None else None
        if task is not None and _is_orphaned(task, event):
            self._end(view, workload, task)
        self.apply(state, BINDINGS, record.key, event)
        if event is not None:
            self._check(state, view, state.targets[key], workload)
        else:
            state.drop_pending((key, workload))
        return view.emits

    def _reported(self, state: EvictionPartition, record: Input, now: datetime) -> list[Emit]:
        """Fold in a deployer's report. It may concern a requested eviction."""
        self.apply(state, WORKLOAD_CONDITIONS, record.key, record.event)
        workload, key, condition = WorkloadConditionKey.parse(record.key)
        if condition != EVICTED or key not in state.targets:
            return []
        view = TargetView(state, key, record.meta, record.meta.time or now)
        self._acknowledge(view, workload)
        return view.emits

    @staticmethod
    def _acknowledge(view: TargetView, workload: str) -> None:
        """Write a new report of a deployer about a requested eviction.

        Out-of-service nodes need no report: the declaration also states that the work has ended.
        """
        target = view.state.targets[view.target]
        task, report = target.tasks.get(workload), target.reports.get(workload)
        if task is None or task.state is not EvictionState.REQUESTED or task.acknowledged is not None:
            return
        if target.is_out_of_service and task.deployer:
            by = Acknowledgement(message="the node is out of service", time=view.time, source=_OUT_OF_SERVICE)
            view.acknowledge(workload, task, acknowledged=by)
            return
        if report is None or not report.is_about(task):
            return
        report_fields: dict[str, Any] = {"message": report.message, "time": report.time, "source": report.source}
        if report.is_removed:
            view.acknowledge(workload, task, acknowledged=Acknowledgement(**report_fields))
            return
        known = task.escalated
        if known is None or (known.reason, known.message) != (report.reason, report.message):
            view.acknowledge(workload, task, escalated=Escalation(reason=report.reason, **report_fields))

    def _fired(self, state: EvictionPartition, record: Input, event: TimerFired) -> None:
        if state.timers.get(event.id) != (event.generation, event.deadline):
            return  # the timer was moved, cancelled or deleted
        target = state.targets.get(event.target.key)
        if target is not None and event.subject in target.bindings:
            state.put((event.target.key, event.subject), Pending(record.meta, event.fired_time))

    def _answered(self, state: EvictionPartition, record: Input, event: EvictionAnswered, now: datetime) -> list[Emit]:
        """Process an answer of the governor. An eviction that it grants is checked again before it is requested."""
        key, workload = event.target.key, event.workload.key
        target = state.targets.get(key)
        task = target.tasks.get(workload) if target is not None else None
        if target is None or task is None or workload not in target.bindings:
            return []
        mine = (task.generation, task.asked) == (event.generation, event.asked)
        if task.state is not EvictionState.HELD or not mine:
            return []  # it was cancelled, has ended, or was requested again
        time = record.meta.time or now
        if event.granted:
            state.put((key, workload), Pending(record.meta, time, answer=event))
            return []
        if event.held_by == task.held_by:
            return []
        view = TargetView(state, key, record.meta, time)
        self._hold(
            view, workload, held_by=event.held_by, message=event.message or f"held by {', '.join(event.held_by)}"
        )
        return view.emits

    def _check(self, state: EvictionPartition, view: TargetView, target: BoundTarget, workload: str) -> None:
        """Schedule or cancel an eviction according to the present state. One that has come due becomes pending."""
        binding = target.bindings[workload]
        task = target.tasks.get(workload)
        if task is not None and task.generation != binding.generation:
            return
        if task is not None and task.state is EvictionState.REQUESTED:
            self._withdraw(state, view, target, workload)
            return
        found = view.judge(target, binding.tolerations)
        place = (view.target, workload)
        if _is_due(found, task, view.due or view.time):
            waits = task is not None and task.state is EvictionState.HELD and task.asked
            if (
                not waits
                or state.is_request_outdated(place)
                or (view.due is not None and _is_request_stale(state, view, place))
            ):
                state.put(place, Pending(view.cause, view.time, reported=view.reported))
            return
        if view.due is not None and isinstance(found, EvictAt) and found.deadline <= view.time:
            return  # it has only just come due, and its timer reports it
        timed = state.is_pending(place) and (
            isinstance(found, EvictAt) and view.timer(workload, binding.generation)[1] == found.deadline
        )
        if not timed:  # otherwise its timer may have fired since this was decided, and does not fire again
            state.drop_pending(place)
        self._not_due(state, view, workload, found)

    def _withdraw(self, state: EvictionPartition, view: TargetView, target: BoundTarget, workload: str) -> None:
        """Withdraw a requested eviction of a mirrored workload that the taints no longer demand.

        Its bridge may be read-only, or may not have reached the cluster yet, and a late removal would be wrong. A
        removal in progress does no harm: the workload then ends. An eviction whose time alone has passed stays
        requested, whatever the time of the record is.
        """
        task, binding = target.tasks[workload], target.bindings[workload]
        if not binding.traits.deployer or task.acknowledged is not None:
            return
        found = view.judge(target, binding.tolerations)
        demands = {(one.identity, one.time_added) for one in task.taints}
        if isinstance(found, EvictNow) or (
            isinstance(found, EvictAt) and (found.taint.identity, found.taint.time_added) in demands
        ):
            return
        if task.asked:
            # It was not carried out, so its place in budgets is released at once.
            view.request_grant(workload, due=view.time, revision=task.revision + 1)
        view.withdraw_request(workload)
        if isinstance(found, EvictAt):
            self._schedule(state, view, workload, found)
        else:
            reason = "Tolerated" if found.tolerated else "TaintRemoved"
            view.write(workload, EvictionState.CANCELLED, reason=reason, message=found.reason)

    def _not_due(self, state: EvictionPartition, view: TargetView, workload: str, found: Verdict) -> None:
        target = state.targets[view.target]
        task = target.tasks.get(workload)
        scheduled = task is not None and task.state is EvictionState.SCHEDULED
        held = task is not None and task.state is EvictionState.HELD
        match found:
            case EvictAt():
                if not (
                    task is not None
                    and scheduled
                    and task.deadline == found.deadline
                    and task.taints[0].identity == found.taint.identity
                ):
                    self._schedule(state, view, workload, found)
                else:  # its timer may have been lost with the markers of its transaction
                    view.move_timer(workload, task.generation, found.deadline)
            case Keep() if scheduled or held:
                reason = "Tolerated" if found.tolerated else "TaintRemoved"
                view.withdraw_request(workload)
                view.write(workload, EvictionState.CANCELLED, reason=reason, message=found.reason)
                view.move_timer(workload, target.bindings[workload].generation, None)
            case _:
                pass

    def _decide(
        self,
        state: EvictionPartition,
        place: tuple[str, str],
        fresh: Freshness,
        emits: list[Emit],
        verdicts: dict[tuple[str, int], Verdict],
    ) -> None:
        """Decide on a pending eviction, with everything that is committed now."""
        key, workload = place
        pending = state.pending.pop(place)
        target = state.targets.get(key)
        binding = target.bindings.get(workload) if target is not None else None
        if target is None or binding is None:
            return
        task = target.tasks.get(workload)
        if task is not None and (task.state is EvictionState.REQUESTED or task.generation != binding.generation):
            return
        latest = max(pending.time, fresh.now)  # the timer's clock may be ahead of this one
        view = TargetView(
            state,
            key,
            pending.cause,
            latest if pending.waited else pending.time,
            reported=pending.reported,
            answer=pending.answer,
            stale=pending.kept is not None and fresh.now - pending.kept >= LEAVE_LASTS,
            emits=emits,
        )
        found = verdicts.get((key, id(binding.tolerations)))
        if found is None:
            found = verdicts[key, id(binding.tolerations)] = view.judge(target, binding.tolerations)
        if not _is_due(found, task, latest):
            self._not_due(state, view, workload, found)
        elif fresh.lags(key) or target.is_undecided(fresh.now):
            since = pending.waited or fresh.now
            kept = pending.kept or (fresh.now if pending.answer is not None else None)
            state.wait(place, replace(pending, waited=since, kept=kept), fresh.now + _CHECK_AGAIN)
            if fresh.now - since >= _LAG_TOLERATED:
                self._hold_for_taints(view, workload, found)
        else:
            self._due(state, view, workload, found)

    def _hold_for_taints(self, view: TargetView, workload: str, found: Verdict) -> None:
        """Hold an eviction because the taints may be about to change, unless it is held already."""
        task = view.state.targets[view.target].tasks.get(workload)
        if task is None or task.state is not EvictionState.HELD:
            self._hold(
                view,
                workload,
                taints=_taints_of(found),
                due=_due_time(found, view.time),
                held_by=(_UPSTREAM_LAG,),
                message="the taint-manager has not processed all records about the target",
            )

    def _due(self, state: EvictionPartition, view: TargetView, workload: str, found: Verdict) -> None:
        """Process an eviction that has come due: request a grant if a guard may hold it, or request the eviction."""
        target = state.targets[view.target]
        task, binding = target.tasks.get(workload), target.bindings[workload]
        held = task is not None and task.state is EvictionState.HELD
        if task is not None and held and task.asked:
            paused = self._paused(state, view.target, target, workload)
            if view.answer is not None and paused:
                message = f"held by {', '.join(paused)}, declared after the eviction was granted; waits for a new grant"
                self._request_again(view, workload, task, message, held_by=paused)
            elif (view.target, workload) not in state.requests:
                # An answer to the request from before the restart may be old, and others may have been granted since.
                self._request_again(view, workload, task, "waits for a new grant after a restart")
            elif state.is_request_outdated((view.target, workload)):
                self._request_again(view, workload, task, "its labels or its zone have changed; waits for a new grant")
            elif view.answer is None:
                view.request_grant(workload, due=task.deadline or view.time, revision=task.asked)
            elif view.stale:
                self._request_again(view, workload, task, "the grant has expired; waits for a new one")
            else:
                self._request(state, view, workload, found)
        elif self._may_wait(state, view.target, target, workload):
            due = task.deadline if task is not None and held and task.deadline else _due_time(found, view.time)
            revision = (task.revision if task is not None else 0) + 1
            self._hold(
                view,
                workload,
                taints=_taints_of(found),
                due=due,
                message=f"{found.reason}; waits for a grant",
                asked=revision,
            )
            view.move_timer(workload, binding.generation, None)
            view.request_grant(workload, due=due, revision=revision)
        else:
            self._request(state, view, workload, found)

    def _request_again(
        self, view: TargetView, workload: str, task: Task, message: str, *, held_by: tuple[str, ...] | None = None
    ) -> None:
        """Request a grant again, so that answers to earlier requests do not count. Until then, `held_by` stays."""
        revision = task.revision + 1
        if held_by is None:
            held_by = task.held_by
            message = f"held by {', '.join(held_by)}; {message}" if held_by else message
        self._hold(view, workload, held_by=held_by, message=message, asked=revision)
        view.request_grant(workload, due=task.deadline or view.time, revision=revision)

    @staticmethod
    def _hold(
        view: TargetView,
        workload: str,
        *,
        message: str,
        held_by: tuple[str, ...] = (),
        taints: tuple[Taint, ...] | None = None,
        due: datetime | None = None,
        asked: int | None = None,
    ) -> None:
        """Write that an eviction is held. Values that are not given are unchanged."""
        task = view.state.targets[view.target].tasks.get(workload)
        view.write(
            workload,
            EvictionState.HELD,
            taints=taints if taints is not None else task.taints if task is not None else (),
            deadline=due if due is not None or task is None else task.deadline,
            reason="Held",
            message=message,
            held_by=held_by,
            asked=asked if asked is not None else task.asked if task is not None else 0,
        )

    @staticmethod
    def _paused(state: EvictionPartition, key: str, target: BoundTarget, workload: str) -> tuple[str, ...]:
        """Return the names of the pauses that hold an eviction now.

        The governor grants no eviction that it sees paused. A pause after a grant means that the governor had not read
        it yet, or that this process has not read its end. So the grant is requested again, without comparing clocks.
        """
        if not state.guards.pauses:
            return ()
        return tuple(pause.name for pause in state.guards.pauses_of(_subject(key, target, workload)))

    def _may_wait(self, state: EvictionPartition, key: str, target: BoundTarget, workload: str) -> bool:
        """Return whether a guard may hold this eviction, so that it needs the governor's grant."""
        if state.rules.value.rated and split_cluster(key)[1].startswith(_CLUSTERS):
            return True
        if not state.guards:  # a fast path for fleets without guards
            return False
        return state.guards.concern(_subject(key, target, workload))

    def _request(self, state: EvictionPartition, view: TargetView, workload: str, found: Verdict) -> None:
        tolerated = isinstance(found, EvictAt) or (isinstance(found, EvictNow) and found.tolerated)
        message = found.reason
        target = state.targets[view.target]
        task, binding = target.tasks.get(workload), target.bindings[workload]
        asked = task.asked if task is not None else 0
        if view.answer is not None and view.answer.message:
            message = f"{message}; {view.answer.message}"
        view.write(
            workload,
            EvictionState.REQUESTED,
            taints=_taints_of(found),
            reason="TolerationExpired" if tolerated else "UntoleratedTaint",
            message=message,
            asked=asked,
            deployer="" if binding.traits.purge_mode == _GRACEFULLY else binding.deployer,
        )
        view.drop_timer(workload)
        if asked and task is not None:
            view.request_grant(workload, due=task.deadline or view.time, revision=task.revision + 1, requested=True)
        self._acknowledge(view, workload)

    def _schedule(self, state: EvictionPartition, view: TargetView, workload: str, found: EvictAt) -> None:
        view.withdraw_request(workload)
        view.write(
            workload,
            EvictionState.SCHEDULED,
            taints=(found.taint,),
            deadline=found.deadline,
            reason="TolerationEnds",
            message=found.reason,
        )
        generation = state.targets[view.target].bindings[workload].generation
        view.move_timer(workload, generation, found.deadline)

    def _end(self, view: TargetView, workload: str, task: Task) -> None:
        """End the task, because its binding has ended."""
        view.state.drop_pending((view.target, workload))
        view.drop_timer(workload)
        view.withdraw_request(workload)
        if task.state is EvictionState.CANCELLED:
            view.state.close(view.target, workload, task)  # it can no longer be scheduled again
            return
        end_state = EvictionState.COMPLETED if task.state is EvictionState.REQUESTED else EvictionState.CANCELLED
        by = f"{task.acknowledged.source} has acknowledged; " if task.acknowledged is not None else ""
        view.write(workload, end_state, taints=task.taints, reason=BINDING_ENDED, message=f"{by}the binding has ended")


def _concerned(state: EvictionPartition) -> list[str]:
    """Return the targets with taints that evict, or with tasks, sorted."""
    return sorted(key for key, target in state.targets.items() if target.taints or target.tasks)


def _later(time: datetime, by: timedelta) -> datetime:
    """Return a later time, at most the end of the calendar."""
    try:
        return time + by
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _subject(key: str, target: BoundTarget, workload: str) -> Subject:
    """Return a bound workload in the form that guards use."""
    binding = target.bindings[workload]
    return Subject(workload, binding.owner or workload, key, target.zone, binding.traits.labels)


def _is_request_stale(state: EvictionPartition, view: TargetView, place: tuple[str, str]) -> bool:
    """Return whether its grant was not requested since the restore, or so long ago that the answer may be lost."""
    request = state.requests.get(place)
    return request is None or request.time <= view.time - _REQUEST_AGAIN


def _is_orphaned(task: Task, binding: Binding | WorkloadBound | None) -> bool:
    """Return whether the binding of a task has ended, given the present binding."""
    return binding is None or task.generation < binding.generation or task.uid != binding.uid


def _is_due(found: Verdict, task: Task | None, time: datetime) -> bool:
    """Return whether an eviction has come due. A held one has, unless its deadline has been moved since."""
    match found:
        case EvictNow():
            return True
        case EvictAt():
            held_at = task.deadline if task is not None and task.state is EvictionState.HELD else None
            return found.deadline <= (time if held_at is None else max(time, held_at))
        case Keep():
            return False


def _taints_of(found: Verdict) -> tuple[Taint, ...]:
    match found:
        case EvictNow():
            return found.taints
        case EvictAt():
            return (found.taint,)
        case Keep():
            return ()


def _due_time(found: Verdict, time: datetime) -> datetime:
    """Return when the eviction came due."""
    return found.deadline if isinstance(found, EvictAt) else time


def rules_of(settings: Settings) -> EvictionRules:
    """Return the rules that follow from the settings."""
    return EvictionRules(
        clusters=settings.failover and settings.enable_no_execute_taint_eviction,
        rated=not math.isinf(settings.resource_eviction_rate),
        retention=timedelta(seconds=min(settings.eviction_retention, LONGEST_DURATION)),
    )


def service(settings: Settings) -> Eviction:
    """Return the service for the command line to run."""
    return Eviction(settings)
