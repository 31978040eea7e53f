"""The OCM placements that select other managed clusters because of a change."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from moorage.insight.copy.run import Course, Simulated
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.times import format_time
from moorage_schemas.topics import PLACEMENTS

Document = dict[str, Any]

_PLACEMENT: Final = "Placement"
_DECISION: Final = "PlacementDecision"


class _Run:
    """The decisions of every placement at the end of a run."""

    def __init__(self, before: Iterable[WorkloadPlaced], course: Course) -> None:
        self.whole: dict[str, WorkloadPlaced] = {}
        self.last: dict[str, datetime] = {}
        """The time of the last decision on each placement that has one in the run."""

        self._pages: dict[str, dict[str, tuple[str, ...]]] = {}
        self._owner: dict[str, str] = {}
        for placed in before:
            self._put(placed.workload.key, placed)
        for record in course.written(PLACEMENTS):
            kind = record.name.partition("/")[0]
            if kind in {_PLACEMENT, _DECISION}:
                owner = self._put(record.name, record.event)
                if owner:
                    self.last[owner] = record.time

    def clusters(self, placement: str) -> set[str]:
        """Return the clusters that a placement selects."""
        return {name for page in self._pages.get(placement, {}).values() for name in page}

    def _put(self, key: str, placed: WorkloadPlaced | None) -> str:
        if key.startswith(f"{_PLACEMENT}/"):
            if placed is None:
                self.whole.pop(key, None)
            else:
                self.whole[key] = placed
            return key
        if placed is None:
            owner = self._owner.pop(key, "")
            self._pages.get(owner, {}).pop(key, None)
            return owner
        owner = self._owner[key] = placed.owner.key
        self._pages.setdefault(owner, {})[key] = placed.clusters
        return owner


def selections(simulated: Simulated) -> list[Document]:
    """Return the placements that have other clusters or another reason at the end than without the change."""
    before = [
        placed
        for placed in simulated.snapshot.table(PLACEMENTS).values()
        if placed.workload.kind in {_PLACEMENT, _DECISION}
    ]
    changed, without = _Run(before, simulated.changed), _Run(before, simulated.without)
    rows = []
    for key in sorted({*changed.last, *without.last}):
        now, otherwise = changed.clusters(key), without.clusters(key)
        mine, other = changed.whole.get(key), without.whole.get(key)
        if now == otherwise and _grounds(mine) == _grounds(other):
            continue
        at = changed.last.get(key)
        rows.append(
            {
                "placement": key,
                "at": None if at is None else format_time(at),
                "added": sorted(now - otherwise),
                "removed": sorted(otherwise - now),
                "selected": len(now),
                "without": len(otherwise),
                "state": mine.state.value if mine is not None else None,
                "reason": mine.reason if mine is not None else "Deleted",
                "message": mine.message if mine is not None else "",
            }
        )
    return rows


def _grounds(placed: WorkloadPlaced | None) -> tuple[str, str] | None:
    return None if placed is None else (placed.state.value, placed.reason)
