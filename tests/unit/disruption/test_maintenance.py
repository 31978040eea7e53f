"""The run of a maintenance, by a model fleet on a clock of the test. Cases of KEP-4212 are named as such."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.records import T0, at
from tests.support.tables import table

from moorage.decide.disruption.maintenance import (
    OUT_OF_SERVICE,
    MaintenancePhase,
    MaintenancePlan,
    MaintenanceRun,
    MaintenanceTarget,
    NextStep,
    TargetStage,
    next_step,
)
from moorage_schemas.times import format_time

HOUR, MINUTE = 3600.0, 60.0


def plan(**spec: Any) -> MaintenancePlan:
    window = {"start": format_time(T0), "duration": "2h"}
    return MaintenancePlan.of(
        {
            "apiVersion": "moorage.io/v1alpha1",
            "kind": "Maintenance",
            "metadata": {"name": "kernel"},
            "spec": {"window": window, **spec},
        }
    )


@dataclass
class Fleet:
    """Nodes, each with work that leaves some time after its node has the taint. None never leaves."""

    plan: MaintenancePlan
    leaves_after: dict[str, float | None]
    zones: dict[str, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    run: MaintenanceRun | None = None
    now: datetime = T0
    most: int = 0
    began: list[str] = field(default_factory=list)
    last: NextStep | None = None

    def facts(self) -> dict[str, MaintenanceTarget]:
        return {name: self._fact(name) for name in self.leaves_after}

    def _fact(self, name: str) -> MaintenanceTarget:
        one = self.run.targets.get(name) if self.run is not None else None
        after = self.leaves_after[name]
        is_out = one is not None and one.stage in OUT_OF_SERVICE
        gone = is_out and after is not None and one is not None and self.now >= one.since + timedelta(seconds=after)
        work = () if gone else (f"Pod/shop/{name}-db (PodDisruptionBudget/shop/db)",)
        return MaintenanceTarget(name, self.zones.get(name, "/"), {}, ready=name not in self.broken, remaining=work)

    def step(self) -> NextStep:
        """Decide until nothing changes."""
        while True:
            found = next_step(self.plan, self.run, self.facts(), self.now)
            if found.run is not None:
                is_same = self.run is not None and self.run.window == found.run.window
                before = self.run.targets if self.run is not None and is_same else {}
                new = (TargetStage.DRAINING, TargetStage.DRAINED)
                self.began += [
                    name
                    for name, one in found.run.targets.items()
                    if one.stage in new and (name not in before or before[name].stage is TargetStage.WAITING)
                ]
                self.most = max(self.most, len(found.run.at(*OUT_OF_SERVICE)))
            if found.run == self.run:
                self.last = found
                return found
            self.run = found.run

    def advance(self, seconds: float, every: float = MINUTE) -> NextStep:
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            found = self.step()
            due = end if found.due is None or found.due <= self.now else found.due
            self.now = min(end, due, self.now + timedelta(seconds=every))
        return self.step()

    def stages(self) -> dict[str, str]:
        return {} if self.run is None else {name: one.stage.value for name, one in self.run.targets.items()}


def nodes(count: int, after: float | None = 5 * MINUTE) -> dict[str, float | None]:
    return {f"n{number:02}": after for number in range(count)}


def test_twenty_nodes_two_at_a_time_end_before_the_deadline() -> None:
    fleet = Fleet(plan(maxAtOnce=2, drainDeadline="90m"), nodes(20))
    found = fleet.advance(HOUR)
    assert found.phase is MaintenancePhase.COMPLETED
    assert fleet.most == 2
    assert fleet.began == sorted(fleet.leaves_after)
    assert fleet.now < at(90 * MINUTE)


def test_or_name_the_pod_that_holds_it() -> None:
    fleet = Fleet(plan(maxAtOnce=2, drainDeadline="90m"), {**nodes(20, 3 * MINUTE), "n03": None})
    found = fleet.advance(80 * MINUTE)
    assert found.run is not None
    assert found.run.blockers == {"n03": ("Pod/shop/n03-db (PodDisruptionBudget/shop/db)",)}
    found = fleet.advance(HOUR)
    assert found.phase is MaintenancePhase.FAILED
    assert found.run is not None
    assert {name: stage for name, stage in fleet.stages().items() if stage != "Done"} == {"n03": "NotDrained"}
    assert found.run.blockers == {"n03": ("Pod/shop/n03-db (PodDisruptionBudget/shop/db)",)}


@table(
    ("otherwise", "at_deadline", "at_end"),
    [
        (
            "Release",
            {"a": "NotDrained", "b": "Drained", "c": "Missed"},
            {"a": "NotDrained", "b": "Done", "c": "Missed"},
        ),
        ("Keep", {"a": "Kept", "b": "Drained", "c": "Missed"}, {"a": "NotDrained", "b": "Done", "c": "Missed"}),
        ("Fail", {"a": "NotDrained", "b": "Done", "c": "Missed"}, {"a": "NotDrained", "b": "Done", "c": "Missed"}),
    ],
)
def test_what_has_not_left_at_the_deadline(otherwise: str, at_deadline: dict[str, str], at_end: dict[str, str]) -> None:
    declared = plan(maxAtOnce=2, drainDeadline="30m", releaseAfter="3h", whenNotDrained=otherwise)
    fleet = Fleet(declared, {"a": None, "b": MINUTE, "c": MINUTE})
    fleet.advance(30 * MINUTE)
    assert fleet.stages() == at_deadline
    fleet.advance(2 * HOUR)
    assert fleet.stages() == at_end
    assert fleet.last is not None
    assert fleet.last.phase is MaintenancePhase.FAILED


def test_work_that_leaves_a_kept_target_later_counts() -> None:
    fleet = Fleet(plan(drainDeadline="30m", whenNotDrained="Keep"), {"a": 40 * MINUTE})
    assert fleet.advance(31 * MINUTE).phase is MaintenancePhase.RUNNING
    assert fleet.stages() == {"a": "Kept"}
    fleet.leaves_after["a"] = 0.0
    assert fleet.advance(MINUTE).phase is MaintenancePhase.COMPLETED


@table(
    ("case", "spec", "zones", "order"),
    [
        ("by name", {}, {"a": "2", "b": "1", "c": "2"}, ["a", "b", "c"]),
        ("by zone", {"order": "Zone"}, {"a": "2", "b": "1", "c": "2"}, ["b", "a", "c"]),
        ("names", {"targets": {"names": ["c", "a"]}}, {"a": "1", "b": "1", "c": "1"}, ["a", "c"]),
        ("zones", {"targets": {"zones": ["2"]}}, {"a": "2", "b": "1", "c": "2"}, ["a", "c"]),
    ],
)
def test_order_and_targets(case: str, spec: dict[str, Any], zones: dict[str, str], order: list[str]) -> None:
    fleet = Fleet(plan(**spec), dict.fromkeys(zones, MINUTE), zones)
    fleet.advance(HOUR)
    assert fleet.began == order, case


def test_least_healthy_targets_stay() -> None:
    """Of five, four must be healthy. While another one is broken, only the broken one may begin."""
    fleet = Fleet(plan(maxAtOnce=3, minHealthy="80%"), nodes(5), broken={"n03"})
    fleet.advance(MINUTE)
    assert fleet.began == ["n03"]
    fleet.broken.clear()
    fleet.advance(HOUR)
    assert fleet.most == 1
    assert fleet.last is not None
    assert fleet.last.phase is MaintenancePhase.COMPLETED


def test_a_percentage_at_once_is_at_least_one() -> None:
    for share, most in (("10%", 1), ("50%", 2), ("100%", 4), (0, 1)):
        fleet = Fleet(plan(maxAtOnce=share), nodes(4))
        fleet.advance(HOUR)
        assert fleet.most == most, share


def test_kep_4212_stages_of_a_node() -> None:
    """KEP-4212: a node is cordoned, drained, kept out of service for the work, and then put back."""
    fleet = Fleet(plan(releaseAfter="20m"), {"a": 5 * MINUTE})
    found = []
    for _ in range(30):
        fleet.advance(MINUTE)
        if fleet.stages()["a"] not in found:
            found.append(fleet.stages()["a"])
    assert found == ["Draining", "Drained", "Done"]


def test_kep_4212_a_planned_begin() -> None:
    """KEP-4212: nothing happens before the planned begin, and the plan shows when it is."""
    fleet = Fleet(plan(), nodes(2), now=at(-HOUR))
    found = fleet.step()
    assert (found.phase, found.run, found.due) == (MaintenancePhase.SCHEDULED, None, T0)


def test_kep_4212_a_maintenance_that_is_cut_short_releases_its_nodes() -> None:
    """KEP-4212: when a maintenance ends, its node takes work again. Here, a node that is selected no longer."""
    fleet = Fleet(plan(maxAtOnce=2), nodes(2, None))
    fleet.step()
    assert fleet.stages() == {"n00": "Draining", "n01": "Draining"}
    fleet.plan = replace(fleet.plan, names=frozenset({"n01"}))
    fleet.step()
    assert fleet.stages() == {"n01": "Draining"}


def test_windows_recur() -> None:
    window = {"cron": "0 1 * * *", "timeZone": "Europe/Berlin", "duration": "2h"}
    fleet = Fleet(plan(window=window), nodes(3))
    assert fleet.advance(3 * HOUR).phase is MaintenancePhase.COMPLETED
    first = fleet.began.copy()
    assert first == ["n00", "n01", "n02"]
    fleet.advance(20 * HOUR)
    assert fleet.began == first
    fleet.advance(3 * HOUR)
    assert fleet.began == [*first, *first]


def test_a_run_that_is_read_late_ends_as_its_window_does() -> None:
    """The decider was down over the deadline and the end."""
    fleet = Fleet(plan(drainDeadline="30m"), nodes(2, None))
    fleet.step()
    fleet.now = at(5 * HOUR)
    assert fleet.step().phase is MaintenancePhase.FAILED
    assert fleet.stages() == {"n00": "NotDrained", "n01": "Missed"}


@table(
    ("spec", "message"),
    [
        ({"window": {"duration": "2h"}}, "exactly one of start and cron"),
        ({"window": {"cron": "@daily", "duration": "soon"}}, r"window\.duration"),
        ({"drainDeadline": "soon"}, "drainDeadline"),
        ({"maxAtOnce": "two"}, "maxAtOnce"),
    ],
)
def test_an_invalid_maintenance_is_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(**spec)
