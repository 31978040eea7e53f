"""Bugs of eviction and of the timer."""

from __future__ import annotations

from datetime import timedelta
from heapq import heappush
from importlib import import_module
from typing import Any

from tests.chaos.seeded.bugs.engine import acts_on_half
from tests.chaos.seeded.bugs.registry import Change, bug

from moorage.decide.disruption.guard_index import Guards
from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, Keep, Verdict, verdict
from moorage.decide.timers.timer_table import TimerTable
from moorage.runtime.engine.engine import PartitionEngine
from moorage.runtime.service import Freshness, Needs
from moorage.workers.eviction.eviction_task import EvictionReport, OpenRequest
from moorage.workers.eviction.service import Eviction
from moorage.workers.eviction.state import EvictionPartition
from moorage.workers.eviction.target_view import GuardView, TargetView
from moorage_schemas.eviction import EvictionState
from moorage_schemas.topics import BINDINGS, EVICTIONS, RESOURCES, TAINTS, TIMERS, WORKLOAD_CONDITIONS

looking: Any = import_module("moorage.workers.eviction.target_view")
budgets: Any = import_module("moorage.workers.governor.budgets")
module: Any = import_module("moorage.workers.eviction.service")  # the package gives the function of that name

_PROCESS = Eviction.process
_WAKE = Eviction.wake
_MILLISECOND = timedelta(milliseconds=1)


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
    def due(self: Any, state: Any, look: Any, workload: str, found: Any) -> None:
        task = state.targets[look.target].tasks.get(workload)
        if look.answer is not None or task is None or not (task.asked and task.held_by):
            _DUE(self, state, look, workload, found)

    return [(Eviction, "_due", due)]


@bug("7 two-clocks", "Whether a pause came after the leave to go is judged by the clocks of two machines.", "answers")
def _() -> list[Change]:
    """A pause counts only when it was declared later than the answer, each by its writer's clock."""

    def due(self: Any, state: Any, look: Any, workload: str, found: Any) -> None:
        state.guards.answer = look.answer
        _DUE(self, state, look, workload, found)

    def paused(state: Any, *about: Any) -> Any:
        found = _PAUSED(state, *about)
        times: Any = getattr(state.guards, "since", {})
        since = {pause.name: times.get(pause.key) for pause in state.guards.pauses.values()}
        answered = state.guards.answer.answered_time if state.guards.answer is not None else None
        return tuple(name for name in found if answered is None or (since[name] or answered) > answered)

    def apply(self: Any, record: Any) -> None:
        if not hasattr(self.guards, "since"):
            self.guards.since = {}
        self.guards.since[record.key] = record.meta.time
        _APPLY(self, record)

    return [
        (Eviction, "_due", due),
        (Eviction, "_paused", staticmethod(paused)),
        (GuardView, "apply", apply),
    ]


_DUE, _PAUSED, _APPLY = Eviction._due, Eviction._paused, GuardView.apply


@bug("no-lag-check", "Evictions do not wait for a taint-manager that has something to take back.", "deadlines")
def _() -> list[Change]:
    return [(module, "_NEEDS", Needs((TAINTS, BINDINGS), frozenset({RESOURCES}), ()))]


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
    is_due = module._is_due
    return [(module, "_is_due", lambda found, task, time: is_due(found, task, time + timedelta(seconds=2)))]


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

    return [(looking, "verdict", latest)]


@bug("last-toleration", "Of several tolerations that match the last counts.")
def _() -> list[Change]:
    def last(taints: Any, tolerations: Any, **named: Any) -> Verdict:
        return verdict(taints, tuple(reversed(tolerations)), **named)

    return [(looking, "verdict", last)]


@bug("zero-is-for-ever", "Zero seconds of toleration are taken for no limit.")
def _() -> list[Change]:
    def lenient(taints: Any, tolerations: Any, **named: Any) -> Verdict:
        wide = [one.model_copy(update={"toleration_seconds": one.toleration_seconds or None}) for one in tolerations]
        return verdict(taints, wide, **named)

    return [(looking, "verdict", lenient)]


@bug("never-cancelled", "A scheduled eviction is not cancelled when its taint goes.")
def _() -> list[Change]:
    drop_pending = Eviction._not_due

    def keep(self: Any, state: Any, look: Any, workload: str, found: Any) -> None:
        if not isinstance(found, Keep):
            drop_pending(self, state, look, workload, found)

    return [(Eviction, "_not_due", keep)]


@bug("requested-cancelled", "An eviction that was requested is cancelled when its taint goes.")
def _() -> list[Change]:
    see = Eviction._check

    def check_at(self: Any, state: Any, look: Any, target: Any, workload: str) -> None:
        see(self, state, look, target, workload)
        task = target.tasks.get(workload)
        if task is not None and task.state is EvictionState.REQUESTED:
            found = look.judge(target, target.bindings[workload].tolerations)
            if isinstance(found, Keep):
                look.write(workload, EvictionState.CANCELLED, reason="TaintRemoved", message=found.reason)

    return [(Eviction, "_check", check_at)]


@bug("pause-ignored", "Pauses hold nothing.", "answers")
def _() -> list[Change]:
    return [(Guards, "pauses_of", lambda _self, _subject: ())]


@bug("budget-ignored", "Budgets hold nothing.")
def _() -> list[Change]:
    return [(Guards, "budgets_of", lambda _self, _subject: ())]


@bug("nobody-asks", "Eviction does not ask whether anything holds what has come due.")
def _() -> list[Change]:
    return [(Eviction, "_may_wait", lambda *_given: False)]


@bug("any-answer", "Eviction takes the leave to go that an earlier ask was given.", "answers")
def _() -> list[Change]:
    def answered(self: Any, state: Any, record: Any, event: Any, now: Any) -> Any:
        target = state.targets.get(event.target.key)
        task = target.tasks.get(event.workload.key) if target is not None else None
        if task is not None and task.generation == event.generation and task.asked:
            event = event.model_copy(update={"asked": task.asked})
        return _ANSWERED(self, state, record, event, now)

    return [(Eviction, "_answered", answered)]


_ANSWERED = Eviction._answered


@bug("asks-once", "A held eviction is judged by the labels that it had when it asked.", "budgets")
def _() -> list[Change]:
    return [
        (EvictionPartition, "is_request_outdated", lambda _self, _place: False),
        (budgets, "_supersedes", lambda event, known: event.revision > known.revision),
    ]


@bug("leave-from-before", "Eviction, back again, uses the leave to go that was given while it was away.", "budgets")
def _() -> list[Change]:
    def due(self: Any, state: Any, look: Any, workload: str, found: Any) -> None:
        target = state.targets[look.target]
        asked = OpenRequest(look.time, target.bindings[workload].traits.labels, target.zone)
        state.requests.setdefault((look.target, workload), asked)
        _DUE(self, state, look, workload, found)

    return [(Eviction, "_due", due)]


@bug("bindings-never-end", "Eviction does not take the end of a binding in.")
def _() -> list[Change]:
    fold = EvictionPartition.apply_binding

    def keep(self: Any, key: str, event: Any) -> None:
        if event is not None:
            fold(self, key, event)

    return [(EvictionPartition, "apply_binding", keep)]


@bug("task-outlives", "An eviction stays open when its binding ends.")
def _() -> list[Change]:
    return [(Eviction, "_end", lambda *_given: None)]


@bug("timer-not-moved", "A timer is set once and not moved with its deadline.", "deadlines")
def _() -> list[Change]:
    move = TargetView.move_timer

    def once(self: Any, workload: str, generation: int, deadline: Any) -> None:
        if looking.timer_id(workload, self.target, generation) not in self.state.timers:
            move(self, workload, generation, deadline)

    return [(TargetView, "move_timer", once)]


@bug("no-timer", "An eviction is scheduled without its timer.")
def _() -> list[Change]:
    return [(TargetView, "move_timer", lambda *_given: None)]


@bug("folded-not-written", "Cancelled is folded in and not written.")
def _() -> list[Change]:
    emit = TargetView.emit

    def quiet(self: Any, topic: Any, key: str, event: Any) -> None:
        emit(self, topic, key, event)
        if topic is EVICTIONS and event is not None and event.state is EvictionState.CANCELLED:
            self.emits.pop()

    return [(TargetView, "emit", quiet)]


@bug("timer-tombstone-lost", "The timer of an eviction that is over is not taken away.")
def _() -> list[Change]:
    emit = TargetView.emit

    def keep(self: Any, topic: Any, key: str, event: Any) -> None:
        if topic is not TIMERS or event is not None:
            emit(self, topic, key, event)

    return [(TargetView, "emit", keep)]


@bug("taints-not-newer", "A set of taints supersedes the one that is known only when it skips a generation.")
def _() -> list[Change]:
    from moorage.workers.eviction import state  # noqa: PLC0415 - only what it is planted in

    def newer(event: Any, known: Any) -> bool:
        return bool(known.generation == 0 or event.generation > known.generation + 1)

    return [(state, "newer_taints", newer), (module, "newer_taints", newer)]


@bug("acknowledged-for-another", "An acknowledgement counts for any binding of the workload.", acknowledging=True)
def _() -> list[Change]:
    return [(EvictionReport, "is_about", lambda _self, _task: True)]


@bug("acknowledged-and-forgotten", "Eviction, back again, does not know what was acknowledged.", acknowledging=True)
def _() -> list[Change]:
    def reported(self: Any, state: Any, record: Any, now: Any) -> Any:
        return [] if record.topic is WORKLOAD_CONDITIONS and not state.begun else _REPORTED(self, state, record, now)

    def apply(self: Any, state: Any, topic: Any, key: str, event: Any) -> None:
        if topic is not WORKLOAD_CONDITIONS or state.begun:
            _FOLD(self, state, topic, key, event)

    return [(Eviction, "_reported", reported), (Eviction, "apply", apply)]


_REPORTED = Eviction._reported
_FOLD = Eviction.apply
