"""The service eviction, the only writer of `evictions`.

Consumes:
    `taints`, `bindings`, `eviction-requests`, `workload-conditions`, its own `timer-fired`, and `eviction-answers` of
    the governor.
Keeps:
    Source tables: the taints that evict, the bindings of each target with their deployers, requests to leave, and
    deployers' reports of evictions. Changelogs: its tasks (`evictions`) and its own timers (`timers`). Global view: the
    guards that may hold evictions (pauses, budgets, disruption budgets) and the configuration.
Emits:
    `evictions`: the states of each task. An ended task is tombstoned after `eviction-retention`.
    `generation-floors`: the highest generation of those tombstones, in the same transaction.
    `timers`: set, moved and cancelled with the deadline of a scheduled task, tombstoned when the task ends.
    `eviction-asks`: a request to the governor when a task comes due that a guard may hold; written again when the
    eviction is requested, tombstoned when the task no longer needs it.

A record, a timer, an answer or time is the occasion to check evictions. Each check determines what is known of one
eviction, finds the row of `decide.disruption.eviction_transitions`, and takes its moves (docs/eviction.md).

A deadline is computed only when the taints or the tolerations change. The time of a decision is that of its cause (the
CloudEvents time of the record, `firedTime` of a timer), so that the same topics give the same bytes. A decision that
had to wait has the time at which it was checked again. Deadlines are compared only with this service's own clock. A
timer whose clock is ahead fires early; then the eviction is decided on again at its deadline, and has that time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final

from typing_extensions import override

from moorage.decide.disruption.eviction_transitions import (
    Columns,
    Guard,
    Lag,
    Move,
    Occasion,
    OwnTimer,
    Reported,
    Stage,
    TransitionTable,
    Urgency,
)
from moorage.decide.kubernetes.durations import LONGEST_DURATION
from moorage.runtime.engine.isolation import isolated, worked
from moorage.runtime.engine.portions import CHECKS, RECORDS, PendingChecks
from moorage.runtime.measures import Measure
from moorage.runtime.service import Describe, Emit, Freshness, GlobalView, Input, Needs, Service, Upstream
from moorage.runtime.settings.moorage_configuration import Configuration, Derived, configuration_of
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.row_reader import RowReader
from moorage.workers.eviction import acknowledgements, bound_targets, eviction_measures, freshness, guards, tasks
from moorage.workers.eviction.check import EvictionCheck, Verdicts
from moorage.workers.eviction.eviction_lines import eviction_lines
from moorage.workers.eviction.eviction_task import EvictionRules, Pending, PendingCheck
from moorage.workers.eviction.state import EvictionPartition
from moorage_schemas.budget import EvictionAnswered
from moorage_schemas.condition import WorkloadConditionChanged
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.eviction import EvictionDecided, GenerationFloor
from moorage_schemas.keys import EvictionKey
from moorage_schemas.leave_request import LeaveRequested
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.topics import (
    BINDINGS,
    CONFIGURATION,
    EVICTION_ANSWERS,
    EVICTION_ASKS,
    EVICTION_REQUESTS,
    EVICTIONS,
    GENERATION_FLOORS,
    RESOURCES,
    TAINTS,
    TIMER_FIRED,
    TIMERS,
    WORKLOAD_CONDITIONS,
    Topic,
)

COLUMNS: Final[Columns[EvictionCheck]] = {
    Stage: tasks.stage_of,
    Reported: acknowledgements.reported_on,
    Urgency: bound_targets.urgency_of,
    OwnTimer: tasks.timer_of,
    Lag: freshness.lag_of,
    Guard: guards.guarded,
}
"""The functions that determine the columns of the table."""

TRANSITIONS: Final = TransitionTable(COLUMNS)

MOVES: Final[Mapping[Move, Callable[[EvictionCheck], None]]] = {
    Move.PEND: lambda it: it.state.put(it.place, Pending(it.cause, it.time, reported=it.reported, answer=it.answer)),
    Move.DROP: lambda it: it.state.drop_pending(it.place),
    Move.AWAIT: freshness.await_deadline,
    Move.WAIT: freshness.wait,
    Move.SCHEDULE: tasks.schedule,
    Move.CANCEL: tasks.cancel,
    Move.COMPLETE: tasks.complete,
    Move.END: tasks.end,
    Move.FORGET: tasks.forget,
    Move.HOLD: tasks.hold,
    Move.HOLD_BY_ANSWER: tasks.hold_by_answer,
    Move.HOLD_FOR_LAG: tasks.hold_for_lag,
    Move.HOLD_AGAIN: tasks.hold_again,
    Move.REQUEST: tasks.request,
    Move.ACKNOWLEDGE: acknowledgements.acknowledge,
    Move.ACKNOWLEDGE_NODE: acknowledgements.acknowledge_node,
    Move.ESCALATE: acknowledgements.escalate,
    Move.SET_TIMER: tasks.set_timer,
    Move.STOP_TIMER: tasks.stop_timer,
    Move.DELETE_TIMER: tasks.delete_timer,
    Move.ASK: guards.ask,
    Move.NOTIFY: guards.notify,
    Move.RELEASE: guards.release,
    Move.WITHDRAW: guards.withdraw,
}
"""The functions that take the moves of the table."""

_GRACE: Final = timedelta(seconds=10)
"""How long after a deadline the reconciler waits for the timer, or after an eviction request for the governor."""

_AT_ONCE: Final = datetime.min.replace(tzinfo=UTC)


class Eviction(Service[EvictionPartition]):
    """Turns taints and bindings into evictions."""

    name: ClassVar[str] = "eviction"
    summary: ClassVar[str] = "Reads bindings and taints, and writes which workloads must leave, and when."
    sources: ClassVar[tuple[Topic, ...]] = (
        TAINTS,
        BINDINGS,
        EVICTION_REQUESTS,
        WORKLOAD_CONDITIONS,
        TIMER_FIRED,
        EVICTION_ANSWERS,
    )
    source_tables: ClassVar[frozenset[Topic]] = frozenset({TAINTS, BINDINGS, EVICTION_REQUESTS, WORKLOAD_CONDITIONS})
    changelogs: ClassVar[tuple[Topic, ...]] = (EVICTIONS, TIMERS, GENERATION_FLOORS)
    outputs: ClassVar[tuple[Topic, ...]] = (EVICTION_ASKS,)
    globals: ClassVar[tuple[Topic, ...]] = (CONFIGURATION, RESOURCES)
    upstream: ClassVar[tuple[Upstream, ...]] = freshness.NEEDS.upstream
    rows: ClassVar[Mapping[Topic, RowReader]] = {
        BINDINGS: RowReader(WorkloadBound, shared=("tolerations", "labels")),
        WORKLOAD_CONDITIONS: RowReader(WorkloadConditionChanged),
        EVICTIONS: RowReader(EvictionDecided, shared=("held_by", "taints", "requesters", "escalated", "acknowledged")),
        TIMERS: RowReader(SetTimer),
    }

    lines: ClassVar[Mapping[Topic, Describe]] = {EVICTIONS: eviction_lines}

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()

    @override
    def new_state(self, partition: int) -> EvictionPartition:
        return EvictionPartition(Derived(Configuration(self._settings), rules_of), partition)

    @override
    def new_globals(self) -> GlobalView:
        return guards.GuardView(Configuration(self._settings, self.name))

    @override
    def use_globals(self, state: EvictionPartition, view: GlobalView) -> None:
        if isinstance(view, guards.GuardView):
            state.guards = view.guards
        if (configuration := configuration_of(view)) is not None:
            state.rules = Derived(configuration, rules_of)

    @override
    def apply(self, state: EvictionPartition, topic: Topic, key: str, event: Any) -> None:
        if topic is BINDINGS:
            bound_targets.fold_binding(state, key, event)
        elif topic is TAINTS:
            bound_targets.fold_taints(state, key, event)
        elif topic is TIMERS:
            tasks.fold_timer(state, key, event)
        elif topic is EVICTIONS:
            tasks.fold_task(state, key, event)
        elif topic is WORKLOAD_CONDITIONS:
            acknowledgements.fold_report(state, key, event)
        elif topic is EVICTION_REQUESTS:
            bound_targets.fold_leave(state, key, event)
        elif topic is GENERATION_FLOORS and event is not None:
            state.floor = max(state.floor, event.generation)

    @override
    def settle(self, state: EvictionPartition, limit: int) -> bool:
        return state.tally.settle(partial(eviction_measures.counted, state), limit)

    @override
    def measures(self, state: EvictionPartition, now: datetime) -> Iterable[Measure]:
        return state.tally.measures()

    @override
    def begin_series(self) -> None:
        eviction_measures.begin()

    @override
    def committed(self, written: Mapping[Topic, Sequence[Emit]], now: datetime) -> None:
        if (evictions := written.get(EVICTIONS)) is not None:
            eviction_measures.count(evictions, now)

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
                self._taints(state, record, now, emits)
            elif record.topic is BINDINGS:
                self._binding(state, record, now, emits)
            elif record.topic is WORKLOAD_CONDITIONS:
                self._reported(state, record, now, emits)
            elif record.topic is EVICTION_REQUESTS:
                self._leave(state, record, now, emits)
            elif isinstance(record.event, TimerFired):
                self._fired(state, record, record.event, emits)
            elif isinstance(record.event, EvictionAnswered):
                self._answered(state, record, record.event, now, emits)
        return emits

    def check(self, it: EvictionCheck, occasion: Occasion) -> None:
        """Determine what is known of an eviction, find its row in the table, and take the row's moves."""
        again = True
        while again:
            it.begin(occasion)
            row = TRANSITIONS.row(occasion, it)
            it.because, again = row.because, row.again
            for move in row.moves:
                MOVES[move](it)

    def _taints(self, state: EvictionPartition, record: Input, now: datetime, emits: list[Emit]) -> None:
        event = record.event if isinstance(record.event, TargetTainted) else None
        target = state.targets.get(record.key)
        if event is not None and target is not None and not bound_targets.newer_taints(event, target):
            return
        before = target.taints if target is not None else ()
        self.apply(state, TAINTS, record.key, event)
        target = state.targets.get(record.key)
        if target is None or (target.taints == before and not target.tasks):
            return
        reported = event.report_time if event is not None else None
        check = PendingCheck(record.key, record.meta, record.meta.time or now, reported)
        check.workloads.begin(sorted(target.bindings))
        written: list[Emit] = []
        self._check_all(state, check, check.workloads.portion(written), now, written)
        emits += written
        if check.workloads:
            state.checks[record.key] = check
        else:
            state.checks.pop(record.key, None)  # the rest of an earlier check is checked now

    def _binding(self, state: EvictionPartition, record: Input, now: datetime, emits: list[Emit]) -> None:
        event = record.event if isinstance(record.event, WorkloadBound) else None
        workload, _, key = record.key.partition("|")
        target = state.targets.get(key)
        known = target.bindings.get(workload) if target is not None else None
        if event is not None and not bound_targets.newer_binding(event, known):
            return
        time = record.meta.time or now
        self.apply(state, BINDINGS, record.key, event)
        it = EvictionCheck(state, key, workload, record.meta, time, time, emits, former=known)
        self.check(it, Occasion.BINDING)

    def _leave(self, state: EvictionPartition, record: Input, now: datetime, emits: list[Emit]) -> None:
        event = record.event if isinstance(record.event, LeaveRequested) else None
        place = bound_targets.fold_leave(state, record.key, event)
        time = record.meta.time or now
        self.check(EvictionCheck(state, *place, record.meta, time, time, emits), Occasion.LEAVE)

    def _reported(self, state: EvictionPartition, record: Input, now: datetime, emits: list[Emit]) -> None:
        event = record.event if isinstance(record.event, WorkloadConditionChanged) else None
        if (place := acknowledgements.fold_report(state, record.key, event)) is not None:
            time = record.meta.time or now
            self.check(EvictionCheck(state, *place, record.meta, time, time, emits), Occasion.REPORT)

    def _fired(self, state: EvictionPartition, record: Input, event: TimerFired, emits: list[Emit]) -> None:
        if event.owner == tasks.ISSUER and state.timers.get(event.id) == (event.generation, event.deadline):
            time = event.fired_time  # otherwise the timer was moved, cancelled or deleted
            it = EvictionCheck(state, event.target.key, event.subject, record.meta, time, time, emits)
            self.check(it, Occasion.TIMER)

    def _answered(
        self, state: EvictionPartition, record: Input, event: EvictionAnswered, now: datetime, emits: list[Emit]
    ) -> None:
        time = record.meta.time or now
        it = EvictionCheck(state, event.target.key, event.workload.key, record.meta, time, time, emits, answer=event)
        self.check(it, Occasion.ANSWER)

    @override
    def needs(self, state: EvictionPartition, now: datetime) -> Needs | None:
        state.check_again(now)
        if not state.begun or state.rules_in_use != state.rules.value:
            return freshness.NEEDS
        return freshness.needs(state)

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
        self._sweep(state, state.unseen, now, timedelta(0), emits)
        found, state.found = state.found, None
        verdicts: Verdicts = {}
        if found is not None:
            # Others have come due while the tables were read. They are decided on with the next read.
            covered = (place for place in state.pending if found.covers(*freshness.keys_of(state, place)))
            for place in isolated(list(islice(covered, CHECKS)), state.drop_pending):
                if len(emits) >= RECORDS:
                    worked()
                    break
                self._decide(state, place, found, emits, verdicts)
        self.remove_old(state, now, emits)
        return emits

    def _decide(
        self,
        state: EvictionPartition,
        place: tuple[str, str],
        fresh: Freshness,
        emits: list[Emit],
        verdicts: Verdicts,
    ) -> None:
        """Decide on a pending eviction, with everything that is committed now."""
        pending = state.pending.pop(place)
        # the clock of the cause, such as the timer's, may be ahead of this one
        time = fresh.now if pending.waited else min(pending.time, fresh.now)
        it = EvictionCheck(
            state,
            *place,
            pending.cause,
            time,
            fresh.now,
            emits,
            verdicts,
            pending.reported,
            answer=pending.answer,
            pending=pending,
            fresh=fresh,
        )
        self.check(it, Occasion.DECISION)

    @override
    def next_wake(self, state: EvictionPartition) -> datetime | None:
        if state.pending or state.unseen or state.checks:
            return _AT_ONCE
        return min((time for time in (state.next_check(), self.next_removal(state)) if time is not None), default=None)

    @override
    def reconcile(self, state: EvictionPartition, now: datetime) -> list[Emit]:
        emits: list[Emit] = []
        if not state.round:
            state.round.begin(_concerned(state))
        self._sweep(state, state.round, now, _GRACE, emits)
        return emits

    @override
    def is_reconciling(self, state: EvictionPartition) -> bool:
        return bool(state.round)

    def _sweep(
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
            self._check_all(state, check, workloads, now, emits)
            checks -= len(workloads)
            if checks <= 0:
                worked()
                break

    def _go_on(self, state: EvictionPartition, now: datetime, emits: list[Emit]) -> None:
        """Check the next workloads of a target that has too many for one call."""
        key = next(iter(state.checks), None)
        if key is None:
            return
        check = state.checks[key]
        self._check_all(state, check, check.workloads.portion(emits), now, emits)
        if not check.workloads:
            del state.checks[key]

    def _check_all(
        self, state: EvictionPartition, check: PendingCheck, workloads: Iterable[str], now: datetime, emits: list[Emit]
    ) -> None:
        """Check workloads of a target, because of a record or, if the check has none, to repair what differs."""
        key, verdicts = check.target, Verdicts()
        if check.cause is not None:
            time = check.time or now
            it = EvictionCheck(state, key, "", check.cause, time, time, emits, verdicts, check.reported)
            for it.workload in workloads:
                self.check(it, Occasion.TAINTS)
            return
        for workload in workloads:
            target = state.targets.get(key)
            if target is None:
                return
            task = target.tasks.get(workload)
            step = (task.generation, task.revision) if task is not None else (0, 0)
            cause = Meta(
                id=event_id("reconcile", EVICTIONS.short, key, target.generation, workload, *step),
                source=f"moorage/{self.name}",
                type=EVICTIONS.event_type,
                time=now,
                subject=key,
            )
            it = EvictionCheck(state, key, workload, cause, now, now - check.grace, emits, verdicts)
            it.former = target.bindings.get(workload)
            # Once the tombstone of a binding is compacted away, nothing else reports that the binding has ended.
            self.check(it, Occasion.SWEEP)

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


def _concerned(state: EvictionPartition) -> list[str]:
    """Return the targets with taints that evict, with tasks, or with requests to leave, sorted."""
    leaves = state.leaves
    return sorted(key for key, target in state.targets.items() if target.taints or target.tasks or key in leaves)


def _later(time: datetime, by: timedelta) -> datetime:
    """Return a later time, at most the end of the calendar."""
    try:
        return time + by
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


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
