"""The workloads that leave because of a change, with the times, and what holds them until then."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from moorage.decide.taints.eviction_verdict import taint_text
from moorage.insight.copy.run import Course, Simulated
from moorage.insight.diff.taints import zone_waits
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.times import format_time
from moorage_schemas.topics import EVICTIONS

Document = dict[str, Any]

_GOES: Final = frozenset({EvictionState.REQUESTED, EvictionState.COMPLETED})
_LEADS = frozenset({*_GOES, EvictionState.SCHEDULED, EvictionState.HELD})
_SAME_SECONDS: Final = 1.0
"""Departures in both runs that differ by no more than this count as the same."""


class _Task:
    """One eviction in one run."""

    def __init__(self, before: EvictionDecided | None) -> None:
        self.last = before
        self.deadline: datetime | None = None
        self.requested: datetime | None = None
        self.ended: datetime | None = None
        self.holds: list[Document] = []
        self.why = ("", "")
        """The last reason and message, apart from those of the completion."""

        if before is not None:
            self._note(before, before.decided_time)

    def add(self, event: EvictionDecided | None, when: datetime) -> None:
        """Apply a record. None removes the task."""
        if event is None:
            self.last = None
            return
        self.last = event
        self._note(event, when)

    def _note(self, event: EvictionDecided, when: datetime) -> None:
        if self.holds and self.holds[-1]["until"] is None:
            self.holds[-1]["until"] = format_time(when)
        if event.state is not EvictionState.COMPLETED:
            self.why = (event.reason, event.message)
        if event.state is EvictionState.SCHEDULED:
            self.deadline, self.requested = event.deadline, None
        elif event.state is EvictionState.HELD:
            self.deadline = event.deadline or self.deadline
            if event.held_by:
                self.holds.append({"by": list(event.held_by), "from": format_time(when), "until": None})
        elif event.state is EvictionState.REQUESTED:
            self.requested = self.requested or when  # its deployer may report more than once
        elif event.state is EvictionState.COMPLETED:
            self.ended = when
        else:
            self.deadline = self.requested = None

    @property
    def leads(self) -> bool:
        """Whether the workload leaves now or later."""
        return self.last is not None and self.last.state in _LEADS

    def same(self, other: _Task | None) -> bool:
        """Return whether the outcome is the same in both runs."""
        if other is None or other.last is None or self.last is None:
            return False
        if (self.last.state in _GOES) != (other.last.state in _GOES):
            return False
        return _near(self.requested, other.requested) and (
            self.requested is not None
            or (_near(self.deadline, other.deadline) and self.last.held_by == other.last.held_by)
        )

    def summary(self) -> Document:
        """Return the outcome in short."""
        state = self.last.state.value if self.last is not None else ""
        return {"state": state, "deadline": _text(self.deadline), "at": _text(self.requested)}


def departures(simulated: Simulated) -> tuple[list[Document], list[Document]]:
    """Return the evictions that the change causes or alters, and those that it prevents."""
    changed, without = _tasks(simulated, simulated.changed), _tasks(simulated, simulated.without)
    waits = zone_waits(simulated)
    leaving = []
    for key, task in changed.items():
        other = without.get(key)
        if task.last is None or not task.leads or task.same(other):
            continue
        event = task.last
        leaving.append(
            {
                "workload": event.workload.key,
                "owner": event.owner.key,
                "target": event.target.key,
                **task.summary(),
                "ended": _text(task.ended),
                "gracefully": event.purge_mode == "Gracefully",
                "taints": [taint_text(taint) for taint in event.taints],
                "holds": [*(hold for taint in event.taints for hold in waits(event.target.key, taint)), *task.holds],
                "reason": task.why[0],
                "message": task.why[1],
                "without": other.summary() if other is not None and other.leads else None,
            }
        )
    spared = [
        {
            "workload": task.last.workload.key,
            "owner": task.last.owner.key,
            "target": task.last.target.key,
            "without": task.summary(),
        }
        for key, task in without.items()
        if task.last is not None and task.leads and not (key in changed and changed[key].leads)
    ]
    leaving.sort(key=lambda one: (one["at"] or one["deadline"] or "9", one["workload"], one["target"]))
    spared.sort(key=lambda one: (one["workload"], one["target"]))
    return leaving, spared


def _tasks(simulated: Simulated, course: Course) -> dict[str, _Task]:
    """Return the evictions in a run, of all that have records in either run."""
    touched = {record.name for one in (simulated.changed, simulated.without) for record in one.written(EVICTIONS)}
    before = simulated.snapshot.table(EVICTIONS)
    found = {key: _Task(before.get(key)) for key in sorted(touched)}
    for record in course.written(EVICTIONS):
        found[record.name].add(record.event, record.time)
    return found


def _near(one: datetime | None, other: datetime | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs((one - other).total_seconds()) <= _SAME_SECONDS


def _text(when: datetime | None) -> str | None:
    return None if when is None else format_time(when)
