"""The maintenances' part of the governor: it decides which nodes are drained now, and writes the state of each.

The instants are in the record of a maintenance, and the next one is a wake-up. Without a maintenance nothing is
computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from moorage.decide.disruption.maintenance import (
    MaintenancePhase,
    MaintenancePlan,
    MaintenanceRun,
    MaintenanceTarget,
    NextStep,
    TargetRun,
    TargetStage,
    next_step,
)
from moorage.decide.kubernetes.recurring_windows import TimeWindow
from moorage.workers.governor.replies import SOURCE, Write
from moorage.workers.governor.view import GovernorView
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.keys import BindingKey
from moorage_schemas.maintenance import MaintainedTarget, MaintenanceProgressed
from moorage_schemas.topics import FLEET, MAINTENANCES

_MAX_HOLDERS = 5
"""The number of workloads that are named for each target."""

HeldBy = Callable[[str], tuple[str, ...]]
"""Returns what holds the eviction of a binding."""


class MaintenanceBook:
    """All maintenances, in the one partition that has them."""

    def __init__(self) -> None:
        self._known: dict[str, MaintenanceProgressed] = {}
        self._due: datetime | None = None

    def apply(self, key: str, event: Model | None) -> None:
        """Fold in the state of a maintenance."""
        if isinstance(event, MaintenanceProgressed):
            self._known[key] = event
        else:
            self._known.pop(key, None)

    def next_wake(self) -> datetime | None:
        """Return when time alone changes the state of a maintenance."""
        return self._due

    def is_running(self) -> bool:
        """Return whether any target may be drained now, so that decisions need the present bindings."""
        return any(one.phase == MaintenancePhase.RUNNING for one in self._known.values())

    def decide(self, view: GovernorView, now: datetime, write: Write, held_by: HeldBy) -> None:
        """Write the state of each maintenance that has changed."""
        self._due = None
        if not view.maintenances and not self._known:
            return
        for key in sorted(self._known.keys() - view.maintenances.keys()):
            self._put(key, None, now, write)
        for key, (plan, uid, reason) in sorted(view.maintenances.items()):
            known = self._known.get(key)
            if known is not None and known.uid != uid:
                self._put(key, None, now, write)
                known = None
            run = None if known is None else _run_of(known)
            found = next_step(plan, run, self._facts(plan, run, view, now, held_by), now)
            if found.due is not None:
                self._due = found.due if self._due is None else min(self._due, found.due)
            event = _event(plan, uid, reason, found, known)
            if known is None or event.model_copy(update={"generation": known.generation}) != known:
                self._put(key, event, now, write)
                self._due = now  # the next step may follow at once

    def _facts(
        self,
        plan: MaintenancePlan,
        run: MaintenanceRun | None,
        view: GovernorView,
        now: datetime,
        held_by: HeldBy,
    ) -> Mapping[str, MaintenanceTarget]:
        """Return the nodes that it selects. Outside of its windows none is looked at."""
        is_open = run is not None and run.phase is MaintenancePhase.RUNNING and now < run.window.end
        if not is_open and plan.window_at(now) is None:
            return {}
        found = {}
        for name, zone, labels, ready in view.home_nodes():
            facts = MaintenanceTarget(name, zone, labels, ready)
            if plan.selected(facts):
                found[name] = MaintenanceTarget(name, zone, labels, ready, _remaining(view, f"Node/{name}", held_by))
        return found

    def _put(self, key: str, event: MaintenanceProgressed | None, now: datetime, write: Write) -> None:
        known = self._known.get(key)
        generation = known.generation if known is not None else 0
        cause = Meta(
            id=event_id("maintenance", key, "" if event is None else event.uid, generation, now.isoformat()),
            source=SOURCE,
            type=MAINTENANCES.event_type,
            time=now,
            subject=key,
        )
        write(MAINTENANCES, key, FLEET, event, cause)


def _remaining(view: GovernorView, target: str, held_by: HeldBy) -> tuple[str, ...]:
    """Return the work on a node that does not tolerate the taint of a maintenance, each with what holds it."""
    keys = sorted(key for key in view.pods_on(target) if not view.tolerates_maintenance(key))
    found = []
    for key in keys[:_MAX_HOLDERS]:
        holders = ", ".join(held_by(key))
        workload = BindingKey.parse(key).workload
        found.append(f"{workload} ({holders})" if holders else workload)
    return tuple(found)


def _run_of(event: MaintenanceProgressed) -> MaintenanceRun | None:
    if event.begin_time is None or event.end_time is None or event.deadline is None:
        return None
    return MaintenanceRun(
        window=TimeWindow(event.begin_time, event.end_time),
        deadline=event.deadline,
        phase=MaintenancePhase(event.phase),
        targets={one.name: TargetRun(TargetStage(one.stage), one.since, one.held_by) for one in event.targets},
    )


def _event(
    plan: MaintenancePlan, uid: str, reason: str, found: NextStep, known: MaintenanceProgressed | None
) -> MaintenanceProgressed:
    run = found.run
    is_open = run is not None and found.due is not None and found.due <= run.window.end
    return MaintenanceProgressed(
        name=plan.name,
        uid=uid,
        generation=known.generation + 1 if known is not None else 1,
        kind=plan.kind,
        phase=found.phase.value,
        reason=reason,
        begin_time=None if run is None else run.window.begin,
        end_time=None if run is None else run.window.end,
        deadline=None if run is None else run.deadline,
        next_time=None if is_open else found.due,
        targets=()
        if run is None
        else tuple(
            MaintainedTarget(name=name, stage=one.stage.value, since=one.since, held_by=one.held_by)
            for name, one in run.targets.items()
        ),
    )
