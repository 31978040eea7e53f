"""Maintenance of targets: which begin, which are released, and what holds them (docs/decisions/0085).

One function computes the next state of a run from the last one, the targets and the time. It may be called at any time
and any number of times. All instants are absolute: a run records its begin, its deadline and its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Self

from moorage.decide.disruption.budgets import BudgetShare, LabelTest, label_test
from moorage.decide.kubernetes.durations import seconds_of
from moorage.decide.kubernetes.recurring_windows import RecurringWindows, TimeWindow
from moorage_schemas.resources.budgets import Schedule
from moorage_schemas.resources.maintenances import Maintenance, MaintenanceOrder, MaintenanceWindow, WhenNotDrained


class TargetStage(StrEnum):
    """The stage of one target in a run."""

    WAITING = "Waiting"
    DRAINING = "Draining"
    DRAINED = "Drained"
    DONE = "Done"
    """It was drained, and takes work again."""

    NOT_DRAINED = "NotDrained"
    """It was not drained by the deadline, and takes work again."""

    KEPT = "Kept"
    """It was not drained by the deadline, and keeps its taints until the window ends."""

    MISSED = "Missed"
    """It had not begun by the deadline."""


OUT_OF_SERVICE: Final = frozenset({TargetStage.DRAINING, TargetStage.DRAINED, TargetStage.KEPT})
"""The stages in which a target has the taints of its maintenance."""

_ENDED: Final = frozenset({TargetStage.DONE, TargetStage.NOT_DRAINED, TargetStage.MISSED})


class MaintenancePhase(StrEnum):
    """The state of a maintenance."""

    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    COMPLETED = "Completed"
    """Each target was drained."""

    FAILED = "Failed"
    """The window or the deadline has passed, and some target was not drained."""


@dataclass(frozen=True, slots=True)
class MaintenanceTarget:
    """A declared target, as a maintenance sees it."""

    name: str
    zone: str
    labels: Mapping[str, str]
    ready: bool = True
    remaining: tuple[str, ...] = ()
    """The work on it that does not tolerate the taint, each with what holds it: `Pod/shop/db-0 (EvictionPause/all)`."""


@dataclass(frozen=True, slots=True)
class TargetRun:
    """One target in a run."""

    stage: TargetStage
    since: datetime
    held_by: tuple[str, ...] = ()
    """The work that has not left: the last state before it ended, if it was not drained."""


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """One window of a maintenance, with its targets in their order."""

    window: TimeWindow
    deadline: datetime
    phase: MaintenancePhase = MaintenancePhase.RUNNING
    targets: Mapping[str, TargetRun] = field(default_factory=dict)

    def at(self, *stages: TargetStage) -> list[str]:
        """Return the targets in some stages, in order."""
        return [name for name, one in self.targets.items() if one.stage in stages]

    @property
    def blockers(self) -> dict[str, tuple[str, ...]]:
        """The work that has not left, by target."""
        return {name: one.held_by for name, one in self.targets.items() if one.held_by}


@dataclass(frozen=True, slots=True)
class NextStep:
    """The state that follows, and when time alone changes it."""

    phase: MaintenancePhase
    run: MaintenanceRun | None
    due: datetime | None


@dataclass(frozen=True, slots=True)
class MaintenancePlan:
    """A `Maintenance` in the form in which it is decided on."""

    name: str
    kind: str
    names: frozenset[str] | None
    zones: frozenset[str] | None
    selects: LabelTest | None
    start: datetime | None
    windows: RecurringWindows | None
    duration: timedelta
    drain: timedelta
    release_after: timedelta
    order: MaintenanceOrder
    at_once: BudgetShare
    healthy: BudgetShare | None
    otherwise: WhenNotDrained

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the plan that an object declares.

        Raises:
            ValueError: the object is not a Maintenance, or its window, a duration or an amount is invalid.
        """
        found = Maintenance.model_validate(document)
        spec, targets, window = found.spec, found.spec.targets, found.spec.window
        duration = _length(window.duration, "window.duration")
        return cls(
            name=found.metadata.name,
            kind=targets.kind.value,
            names=None if targets.names is None else frozenset(targets.names),
            zones=None if targets.zones is None else frozenset(targets.zones),
            selects=None if targets.selector is None else label_test(targets.selector),
            start=window.start,
            windows=_windows(window),
            duration=duration,
            drain=duration if spec.drain_deadline is None else _length(spec.drain_deadline, "drainDeadline"),
            release_after=_length(spec.release_after, "releaseAfter"),
            order=spec.order,
            at_once=BudgetShare.of(spec.max_at_once, "maxAtOnce"),
            healthy=None if spec.min_healthy is None else BudgetShare.of(spec.min_healthy, "minHealthy"),
            otherwise=spec.when_not_drained,
        )

    def selected(self, target: MaintenanceTarget) -> bool:
        """Return whether a target of its kind belongs to it."""
        return (
            (self.names is None or target.name in self.names)
            and (self.zones is None or target.zone in self.zones)
            and (self.selects is None or self.selects(target.labels))
        )

    def window_at(self, now: datetime) -> TimeWindow | None:
        """Return the present window."""
        if self.windows is not None:
            return self.windows.at(now)
        if self.start is None or not self.start <= now < self.start + self.duration:
            return None
        return TimeWindow(self.start, self.start + self.duration)

    def next_begin(self, now: datetime) -> datetime | None:
        """Return when the next window begins, after a time."""
        if self.windows is not None:
            return self.windows.next_begin(now)
        return self.start if self.start is not None and self.start > now else None


def next_step(
    plan: MaintenancePlan, run: MaintenanceRun | None, targets: Mapping[str, MaintenanceTarget], now: datetime
) -> NextStep:
    """Return what follows for a maintenance.

    Args:
        plan: the maintenance.
        run: the last state of its present or last run. None before the first one.
        targets: the declared targets of its kind, by name.
        now: the time.
    """
    if run is not None and now >= run.window.end:
        run = _close(run, now)
    window = plan.window_at(now)
    if window is not None and (run is None or now >= run.window.end):
        run = MaintenanceRun(window, min(window.begin + plan.drain, window.end))
    if run is None or now >= run.window.end:
        return NextStep(MaintenancePhase.SCHEDULED if run is None else run.phase, run, plan.next_begin(now))
    if run.phase is not MaintenancePhase.RUNNING:
        return NextStep(run.phase, run, run.window.end)
    run = _follow(plan, run, targets, now)
    run = _pass_deadline(plan, run, now) if now >= run.deadline else _begin(plan, run, targets, now)
    if run.targets and all(one.stage is TargetStage.DONE for one in run.targets.values()):
        run = replace(run, phase=MaintenancePhase.COMPLETED)
    return NextStep(run.phase, run, _due(plan, run, now))


def _follow(
    plan: MaintenancePlan, run: MaintenanceRun, targets: Mapping[str, MaintenanceTarget], now: datetime
) -> MaintenanceRun:
    """Follow the targets: new ones wait, deleted ones are left out, drained ones are released after their time."""
    chosen = sorted((one for one in targets.values() if plan.selected(one)), key=lambda one: _place(plan, one))
    waiting = TargetRun(TargetStage.WAITING, run.window.begin)
    return replace(
        run, targets={one.name: _moved(plan, run.targets.get(one.name, waiting), one, now) for one in chosen}
    )


def _moved(plan: MaintenancePlan, one: TargetRun, facts: MaintenanceTarget, now: datetime) -> TargetRun:
    if one.stage in {TargetStage.DRAINING, TargetStage.KEPT}:
        if facts.remaining:
            return replace(one, held_by=facts.remaining)
        one = TargetRun(TargetStage.DRAINED, now)
    if one.stage is TargetStage.DRAINED and now >= one.since + plan.release_after:
        return TargetRun(TargetStage.DONE, now)
    return one


def _begin(
    plan: MaintenancePlan, run: MaintenanceRun, targets: Mapping[str, MaintenanceTarget], now: datetime
) -> MaintenanceRun:
    """Begin with as many targets as may be out of service."""
    found, total = dict(run.targets), len(run.targets)
    free = max(1, plan.at_once.limit(total)) - len(run.at(*OUT_OF_SERVICE))
    least = 0 if plan.healthy is None else plan.healthy.limit(total)
    spare = sum(targets[name].ready for name, one in found.items() if one.stage not in OUT_OF_SERVICE) - least
    for name in run.at(TargetStage.WAITING):
        ready = targets[name].ready
        if free <= 0:
            break
        if ready and spare <= 0 and plan.healthy is not None:
            continue  # one that is not ready takes nothing from those that are
        free, spare = free - 1, spare - ready
        found[name] = _moved(plan, TargetRun(TargetStage.DRAINING, now), targets[name], now)
    return replace(run, targets=found)


def _pass_deadline(plan: MaintenancePlan, run: MaintenanceRun, now: datetime) -> MaintenanceRun:
    """End what has not begun, and treat what is not drained as declared."""
    late = bool(run.at(TargetStage.DRAINING, TargetStage.WAITING, TargetStage.NOT_DRAINED, TargetStage.MISSED))
    fails = plan.otherwise is WhenNotDrained.FAIL and late
    found = {}
    for name, one in run.targets.items():
        stage = one.stage
        if stage is TargetStage.WAITING:
            stage = TargetStage.MISSED
        elif stage is TargetStage.DRAINING:
            stage = TargetStage.KEPT if plan.otherwise is WhenNotDrained.KEEP else TargetStage.NOT_DRAINED
        elif stage is TargetStage.DRAINED and fails:
            stage = TargetStage.DONE
        found[name] = one if stage is one.stage else replace(one, stage=stage, since=now)
    run = replace(run, targets=found)
    is_over = all(one.stage in _ENDED for one in found.values())
    done = all(one.stage is TargetStage.DONE for one in found.values())
    return replace(run, phase=MaintenancePhase.FAILED) if is_over and not done else run


def _close(run: MaintenanceRun, now: datetime) -> MaintenanceRun:
    """End a run whose window has ended. Every target takes work again."""
    if run.phase is not MaintenancePhase.RUNNING:
        return run
    ends = {
        TargetStage.WAITING: TargetStage.MISSED,
        TargetStage.DRAINING: TargetStage.NOT_DRAINED,
        TargetStage.KEPT: TargetStage.NOT_DRAINED,
        TargetStage.DRAINED: TargetStage.DONE,
    }
    found = {
        name: replace(one, stage=ends[one.stage], since=now) if one.stage in ends else one
        for name, one in run.targets.items()
    }
    done = all(one.stage is TargetStage.DONE for one in found.values())
    return replace(run, targets=found, phase=MaintenancePhase.COMPLETED if done else MaintenancePhase.FAILED)


def _due(plan: MaintenancePlan, run: MaintenanceRun, now: datetime) -> datetime:
    times = [run.window.end]
    if now < run.deadline:
        times.append(run.deadline)
    if run.phase is MaintenancePhase.RUNNING:
        times += [one.since + plan.release_after for one in run.targets.values() if one.stage is TargetStage.DRAINED]
    return min(times)


def _place(plan: MaintenancePlan, one: MaintenanceTarget) -> tuple[str, str]:
    return (one.zone if plan.order is MaintenanceOrder.ZONE else "", one.name)


def _length(text: str, name: str) -> timedelta:
    seconds = seconds_of(text)
    if seconds is None:
        raise ValueError(f"spec.{name}: Invalid value: {text!r}: must be a duration, such as 90m")
    return timedelta(seconds=seconds)


def _windows(window: MaintenanceWindow) -> RecurringWindows | None:
    if (window.start is None) == (window.cron is None):
        raise ValueError("spec.window: Invalid value: exactly one of start and cron must be set")
    if window.cron is None:
        return None
    return RecurringWindows(Schedule(cron=window.cron, time_zone=window.time_zone, duration=window.duration))
