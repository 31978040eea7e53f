"""Bugs of condition-ingest."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from typing import Any

from tests.chaos.seeded.bugs.registry import Change, bug

from moorage.workers.condition_ingest.heartbeat_monitor import HeartbeatMonitor
from moorage.workers.condition_ingest.service import ConditionIngest

listening: Any = import_module("moorage.workers.condition_ingest.heartbeat_monitor")
module: Any = import_module("moorage.workers.condition_ingest.service")  # the package gives the function of that name


@bug("silence-unheard", "When a source falls silent nothing becomes Unknown.")
def _() -> list[Change]:
    return [(HeartbeatMonitor, "check", lambda _self, _step, _ask: None)]


@bug("silence-unquestioned", "A source is taken for silent as soon as its timer fires.", "sources")
def _() -> list[Change]:
    def fired(self: Any, step: Any, event: Any) -> None:
        watch = step.state.watches.get(event.target.key, {}).get(event.subject)
        found = None if watch is None else self._status(step, watch, event.target, event.subject)
        if watch is None or found is None:
            return
        status, grace = found
        for name, held in sorted(status.speaking.items()):
            silent = listening.silenced(
                held, target=event.target, condition=name, grace=grace, since=step.now, now=step.now
            )
            step.write(listening.CONDITIONS, listening.condition_key(event.target, name), event.target.key, silent)
        step.write(listening.TIMERS, watch.id, event.target.key, None)

    return [(HeartbeatMonitor, "fired", fired)]


@bug("orphans-stay", "The conditions of targets that are gone stay.")
def _() -> list[Change]:
    def wake(_self: Any, state: Any, _now: Any) -> Any:
        state.orphans.clear()
        state.moved.clear()
        return []

    return [(ConditionIngest, "wake", wake)]


@bug("old-report-wins", "The report that comes last counts, however old it is.", "sources")
def _() -> list[Change]:
    accept = module.accept

    def last(report: Any, *, known: Any, **named: Any) -> Any:
        found = accept(report, known=None, **named)
        return found if known is None else found | {"generation": known.generation + 1}

    def counts(*_given: Any, **_named: Any) -> None:
        """No report is older than the known condition."""

    return [(module, "accept", last), (module, "check_order", counts)]


@bug("not-followed", "A report on a target that was declared just before is refused.", "sources")
def _() -> list[Change]:
    return [(ConditionIngest, "_needs_targets", lambda _self, _state, _record: False)]


@bug("reported-to-the-late", "A report is judged by targets that may be gone already.", "again")
def _() -> list[Change]:
    asks = ConditionIngest._needs_targets

    def unheard_of(self: Any, state: Any, record: Any) -> bool:
        report = record.event
        return asks(self, state, record) and report.target.key not in state.targets

    return [(ConditionIngest, "_needs_targets", unheard_of)]


@bug("life-before-counts", "What was reported of a target before it was made again counts for it.", "again")
def _() -> list[Change]:
    return [(module, "earlier_target", lambda _report, _written, _began: None)]


@bug("condition-late", "A condition counts as lasting a second longer than it has.", "holds")
def _() -> list[Change]:
    accept = module.accept

    def longer(report: Any, *, now: Any, **named: Any) -> Any:
        return accept(report, now=now - timedelta(seconds=1), **named)

    return [(module, "accept", longer)]


@bug("same-condition-generation", "A condition that changes keeps its generation.")
def _() -> list[Change]:
    accept = module.accept

    def same(report: Any, *, known: Any, **named: Any) -> Any:
        found = accept(report, known=known, **named)
        return found if known is None else found | {"generation": known.generation}

    return [(module, "accept", same)]


@bug("rounds-pile-up", "Each round of the reconciler leaves a row in the state.")
def _() -> list[Change]:
    reconcile = ConditionIngest.reconcile

    def remembering(self: Any, state: Any, now: Any) -> Any:
        state.unreported.add(now + timedelta(days=1), "Node/n0", f"round at {now}")
        return reconcile(self, state, now)

    return [(ConditionIngest, "reconcile", remembering)]
