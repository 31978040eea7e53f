"""Bugs of eviction and of the timer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from heapq import heappush
from importlib import import_module
from typing import Any

from tests.chaos.seeded.bugs.engine import acts_on_half
from tests.chaos.seeded.bugs.registry import Change, bug

from moorage.decide.disruption.eviction_transitions import Guard, Occasion, TransitionTable
from moorage.decide.disruption.guard_index import Guards
from moorage.decide.disruption.leave_verdict import demanded
from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, Keep, Verdict, verdict
from moorage.decide.timers.timer_table import TimerTable
from moorage.runtime.engine.engine import PartitionEngine
from moorage.runtime.service import Freshness, Needs
from moorage.workers.eviction import acknowledgements, bound_targets, freshness, guards, tasks
from moorage.workers.eviction.eviction_task import EvictionReport, OpenRequest
from moorage.workers.eviction.guards import GuardView
from moorage.workers.eviction.service import Eviction
from moorage_schemas.eviction import EvictionState
from moorage_schemas.topics import BINDINGS, EVICTION_REQUESTS, EVICTIONS, RESOURCES, TAINTS, TIMERS

budgets: Any = import_module("moorage.workers.governor.budgets")
module: Any = import_module("moorage.workers.eviction.service")  # the package gives the function of that name

_PROCESS = Eviction.process
_WAKE = Eviction.wake
_CHECK = Eviction.check
_MILLISECOND = timedelta(milliseconds=1)


def _but_not(passes: Any) -> Change:
    """Let some rows of eviction's table have no effect: those for which this returns true, given the check."""

    def check(self: Any, it: Any, occasion: Occasion) -> None:
        it.begin(occasion)
        if not passes(module.TRANSITIONS.row(occasion, it), it):
            _CHECK(self, it, occasion)

    return (Eviction, "check", check)


def _unasked() -> list[Change]:
    """Eviction decides on what it happens to have read."""

    def wake(self: Any, state: Any, now: Any) -> Any:
        state.check_again(now)
        state.found = Freshness(now)
        return _WAKE(self, state, now)

    return [(Eviction, "needs", lambda _self, _state, _now: None), (Eviction, "wake", wake)]


@bug("1a half-the-taints", "Eviction, back again, evicts by what it has read so far.", "deadlines")
def _() -> list[Change]:
    return [*_unasked(), (PartitionEngine, "_check_caught_up", acts_on_half("eviction"))]


@bug("2 history", "Each set of taints in a backlog is judged by itself, as if it were the present one.")
def _() -> list[Change]:
    def process(self: Any, state: Any, batch: Any, now: Any, *, fresh: bool = False) -> Any:
        emits: list[Any] = []
        for record in batch:
            emits += _PROCESS(self, state, [record], now, fresh=fresh)
            while state.pending:
                self._decide(state, next(iter(state.pending)), Freshness(now), emits, {})
        return emits

    return [(Eviction, "process", process)]


@bug("not-fresh", "Eviction does not read the present taints and bindings before it evicts.", "deadlines")
def _() -> list[Change]:
    return _unasked()


@bug("3 held-for-ever", "A held eviction asks again only when nothing has told it yet what holds it.", "answers")
def _() -> list[Change]:
    def told(row: Any, it: Any) -> bool:
        return row.name in {"repeated", "restarted", "outdated"} and it.answer is None and bool(it.task.held_by)

    return [_but_not(told)]


@bug("7 two-clocks", "Whether a pause came after the leave to go is judged by the clocks of two machines.", "answers")
def _() -> list[Change]:
    """A pause counts only when it was declared later than the answer, each by its writer's clock."""

    def paused(it: Any) -> Any:
        found = _PAUSES(it)
        times: Any = getattr(it.state.guards, "since", {})
        since = {pause.name: times.get(pause.key) for pause in it.state.guards.pauses.values()}
        answered = it.answer.answered_time if it.answer is not None else None
        return tuple(name for name in found if answered is None or (since[name] or answered) > answered)

    def apply(self: Any, record: Any) -> None:
        if not hasattr(self.guards, "since"):
            self.guards.since = {}
        self.guards.since[record.key] = record.meta.time
        _APPLY(self, record)

    return [(guards, "pauses_of", paused), (GuardView, "apply", apply)]


_PAUSES, _APPLY = guards.pauses_of, GuardView.apply


@bug("no-lag-check", "Evictions do not wait for a taint-manager that has something to take back.", "deadlines")
def _() -> list[Change]:
    return [(freshness, "NEEDS", Needs((TAINTS, BINDINGS), frozenset({RESOURCES}), ()))]


@bug("withdrawn-late", "Eviction does not read requests to their present end before it evicts.", "requests")
def _() -> list[Change]:
    tables = tuple(topic for topic in freshness.NEEDS.tables if topic is not EVICTION_REQUESTS)
    return [(freshness, "NEEDS", replace(freshness.NEEDS, tables=tables))]


@bug("any-binding", "A request to leave counts for each binding of its workload, whatever its uid.", "requests")
def _() -> list[Change]:
    def counting(requests: Any, _uid: str, _generation: int) -> list[Any]:
        return sorted(requests, key=lambda one: one.requester.key)

    return [(bound_targets, "counting", counting)]


@bug("one-withdraws", "One requester that withdraws withdraws all requests about the workload.", "requests")
def _() -> list[Change]:
    def fold(state: Any, key: str, event: Any) -> Any:
        target, workload = _FOLD_LEAVE(state, key, event)
        if event is None:
            state.leaves.get(target, {}).pop(workload, None)
        return target, workload

    return [(bound_targets, "fold_leave", fold)]


@bug("last-request", "Of several requests the latest deadline counts.", "requests")
def _() -> list[Change]:
    def combined(taints: Any, requests: Any) -> Any:
        times = [one.deadline for one in requests if one.deadline is not None]
        return _DEMANDED(taints, [one for one in requests if one.deadline is None or one.deadline == max(times)])

    return [(bound_targets, "demanded", combined)]


@bug("request-over-taint", "While there is a request, taints do not count.", "requests")
def _() -> list[Change]:
    def combined(taints: Any, requests: Any) -> Any:
        return _DEMANDED(Keep((), "no taint evicts") if requests else taints, requests)

    return [(bound_targets, "demanded", combined)]


_FOLD_LEAVE, _DEMANDED = bound_targets.fold_leave, demanded


@bug("timers-clock", "Whether a deadline has come is judged by the timer's clock where that is ahead.", "clocks")
def _() -> list[Change]:
    decide = Eviction._decide

    def judged(self: Any, state: Any, place: Any, fresh: Any, *given: Any) -> None:
        decide(self, state, place, replace(fresh, now=max(state.pending[place].time, fresh.now)), *given)

    return [(Eviction, "_decide", judged)]


@bug("timer-early", "A timer fires a millisecond before its deadline.")
def _() -> list[Change]:
    due, deadline = TimerTable.take_due, TimerTable.next_deadline

    def sooner(self: Any) -> Any:
        found = deadline(self)
        return None if found is None else found - _MILLISECOND

    return [
        (TimerTable, "take_due", lambda self, now, limit: due(self, now + _MILLISECOND, limit)),
        (TimerTable, "next_deadline", sooner),
    ]


@bug("timer-twice", "A timer does not know which of its generations has fired.")
def _() -> list[Change]:
    due = TimerTable.take_due
    twice: set[tuple[str, int]] = set()

    def forget(self: Any, now: Any, limit: int) -> Any:
        taken = due(self, now, limit)
        for timer in taken:
            once = timer.generation == 1 or (timer.id, timer.generation) in twice
            if timer.deadline is not None and not once:
                twice.add((timer.id, timer.generation))
                timer.fired, timer.waits = 1, True
                self._waiting += 1
                heappush(self._deadlines, (timer.deadline.timestamp(), timer.id, timer))
        return taken

    return [(TimerTable, "take_due", forget)]


@bug("early-deadline", "Eviction takes a deadline for due two seconds early.")
def _() -> list[Change]:
    is_due = bound_targets.is_due
    return [(bound_targets, "is_due", lambda found, task, time: is_due(found, task, time + timedelta(seconds=2)))]


def _each(taints: Any, tolerations: Any, **named: Any) -> list[Verdict]:
    return [verdict([taint], tolerations, **named) for taint in taints]


@bug("latest-deadline", "Of several taints the one that is tolerated longest sets the deadline.", "deadlines")
def _() -> list[Change]:
    def latest(taints: Any, tolerations: Any, **named: Any) -> Verdict:
        found = [one for one in _each(taints, tolerations, **named) if not isinstance(one, Keep)]
        ends = [one for one in found if isinstance(one, EvictAt)]
        if any(isinstance(one, EvictNow) for one in found) or not ends:
            return verdict(taints, tolerations, **named)
        return max(ends, key=lambda one: one.deadline)

    return [(bound_targets, "verdict", latest)]


@bug("last-toleration", "Of several tolerations that match the last counts.")
def _() -> list[Change]:
    def last(taints: Any, tolerations: Any, **named: Any) -> Verdict:
        return verdict(taints, tuple(reversed(tolerations)), **named)

    return [(bound_targets, "verdict", last)]


@bug("zero-is-for-ever", "Zero seconds of toleration are taken for no limit.")
def _() -> list[Change]:
    def lenient(taints: Any, tolerations: Any, **named: Any) -> Verdict:
        wide = [one.model_copy(update={"toleration_seconds": one.toleration_seconds or None}) for one in tolerations]
        return verdict(taints, wide, **named)

    return [(bound_targets, "verdict", lenient)]


@bug("never-cancelled", "A scheduled eviction is not cancelled when its taint goes.")
def _() -> list[Change]:
    return [_but_not(lambda row, _it: row.name == "cancelled")]


@bug("requested-cancelled", "An eviction that was requested is cancelled when its taint goes.")
def _() -> list[Change]:
    def check_at(self: Any, it: Any, occasion: Any) -> None:
        _CHECK(self, it, occasion)
        it.begin(occasion)
        is_requested = it.task is not None and it.task.state is EvictionState.REQUESTED
        if is_requested and it.binding is not None and occasion in {Occasion.BINDING, Occasion.TAINTS, Occasion.SWEEP}:
            bound_targets.urgency_of(it)
            if isinstance(it.verdict, Keep):
                tasks.cancel(it)

    return [(Eviction, "check", check_at)]


@bug("pause-ignored", "Pauses hold nothing.", "answers")
def _() -> list[Change]:
    return [(Guards, "pauses_of", lambda _self, _subject: ())]


@bug("budget-ignored", "Budgets hold nothing.")
def _() -> list[Change]:
    return [(Guards, "budgets_of", lambda _self, _subject: ())]


@bug("nobody-asks", "Eviction does not ask whether anything holds what has come due.")
def _() -> list[Change]:
    return [(guards, "is_concerned", lambda _it: False)]


@bug("any-answer", "Eviction takes the leave to go that an earlier ask was given.", "answers")
def _() -> list[Change]:
    def answered(self: Any, state: Any, record: Any, event: Any, *given: Any) -> Any:
        target = state.targets.get(event.target.key)
        task = target.tasks.get(event.workload.key) if target is not None else None
        if task is not None and task.generation == event.generation and task.asked:
            event = event.model_copy(update={"asked": task.asked})
        return _ANSWERED(self, state, record, event, *given)

    return [(Eviction, "_answered", answered)]


_ANSWERED = Eviction._answered


@bug("asks-once", "A held eviction is judged by the labels that it had when it asked.", "budgets")
def _() -> list[Change]:
    return [
        (guards, "is_outdated", lambda _it, _request: False),
        (budgets, "_supersedes", lambda event, known: event.revision > known.revision),
    ]


@bug("leave-from-before", "Eviction, back again, uses the leave to go that was given while it was away.", "budgets")
def _() -> list[Change]:
    def guarded(it: Any) -> Guard:
        if it.occasion is Occasion.DECISION:
            traits, reason = it.binding.traits, guards.reason_of(it)
            it.state.requests.setdefault(it.place, OpenRequest(it.time, traits.labels, it.bound.zone, reason))
        return guards.guarded(it)

    return [(module, "TRANSITIONS", TransitionTable({**module.COLUMNS, Guard: guarded}))]


@bug("bindings-never-end", "Eviction does not take the end of a binding in.")
def _() -> list[Change]:
    fold = bound_targets.fold_binding

    def keep(state: Any, key: str, event: Any) -> None:
        if event is not None:
            fold(state, key, event)

    return [(bound_targets, "fold_binding", keep)]


@bug("task-outlives", "An eviction stays open when its binding ends.")
def _() -> list[Change]:
    return [_but_not(lambda row, _it: row.name in {"ended", "completed", "forgotten"})]


@bug("timer-not-moved", "A timer is set once and not moved with its deadline.", "deadlines")
def _() -> list[Change]:
    move = tasks.move_timer

    def once(it: Any, deadline: Any) -> None:
        if tasks._timer(it)[0] not in it.state.timers:
            move(it, deadline)

    return [(tasks, "move_timer", once)]


@bug("no-timer", "An eviction is scheduled without its timer.")
def _() -> list[Change]:
    return [(tasks, "move_timer", lambda *_given: None)]


@bug("folded-not-written", "Cancelled is folded in and not written.")
def _() -> list[Change]:
    emit = tasks.emit

    def quiet(it: Any, topic: Any, key: str, event: Any, step: str) -> None:
        emit(it, topic, key, event, step)
        if topic is EVICTIONS and event is not None and event.state is EvictionState.CANCELLED:
            it.emits.pop()

    return [(tasks, "emit", quiet)]


@bug("timer-tombstone-lost", "The timer of an eviction that is over is not taken away.")
def _() -> list[Change]:
    emit = tasks.emit

    def keep(it: Any, topic: Any, key: str, event: Any, step: str) -> None:
        if topic is not TIMERS or event is not None:
            emit(it, topic, key, event, step)

    return [(tasks, "emit", keep)]


@bug("taints-not-newer", "A set of taints supersedes the one that is known only when it skips a generation.")
def _() -> list[Change]:
    def newer(event: Any, known: Any) -> bool:
        return bool(known.generation == 0 or event.generation > known.generation + 1)

    return [(bound_targets, "newer_taints", newer)]


@bug("acknowledged-for-another", "An acknowledgement counts for any binding of the workload.", acknowledging=True)
def _() -> list[Change]:
    return [(EvictionReport, "is_about", lambda _self, _task: True)]


@bug("acknowledged-and-forgotten", "Eviction, back again, does not know what was acknowledged.", acknowledging=True)
def _() -> list[Change]:
    def fold(state: Any, key: str, event: Any) -> Any:
        return _FOLD(state, key, event) if state.begun else None

    return [(acknowledgements, "fold_report", fold)]


_FOLD = acknowledgements.fold_report


def _without(service: str) -> Any:
    """Return what eviction needs, without what one of the services before it has not processed."""
    needed: Any = freshness.NEEDS
    return replace(needed, upstream=tuple(one for one in needed.upstream if one.service != service))


@bug("placement-in-flight", "Eviction does not look whether placement has read what was accepted.", "on the way")
def _() -> list[Change]:
    return [(freshness, "NEEDS", _without("placement"))]


@bug("reports-in-flight", "Eviction does not look whether condition-ingest has read what was accepted.", "on the way")
def _() -> list[Change]:
    return [(freshness, "NEEDS", _without("condition-ingest"))]
