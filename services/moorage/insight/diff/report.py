"""The effects of a change: the differences between a run with it and a run without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from moorage.insight.copy.run import Course, Simulated
from moorage.insight.diff.departures import departures
from moorage.insight.diff.taints import tainted, zones
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.times import format_time
from moorage_schemas.topics import EVICTIONS, PLACEMENTS

Document = dict[str, Any]

OCM_KINDS: Final = frozenset({"Placement", "PlacementDecision"})

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


@dataclass(frozen=True, slots=True)
class Where:
    """Where a workload is. Two are equal if nothing that matters differs."""

    state: str
    """Placed, Pending or Evicted. Empty if there is no such workload."""

    targets: tuple[str, ...] = ()
    """The targets as `Node/n1`, or as `Cluster/c1 x3` with the number of replicas."""

    @classmethod
    def of(cls, placed: WorkloadPlaced | None) -> Where:
        """Return where a decision puts a workload."""
        if placed is None:
            return cls("")
        if placed.targets:
            several = [f"{one.target}" + (f" x{one.replicas}" if one.replicas else "") for one in placed.targets]
            return cls(placed.state.value, tuple(several))
        if placed.rollout is not None:
            return cls(placed.state.value, tuple(f"ManagedCluster/{one.name}" for one in placed.rollout.clusters))
        one = placed.target is not None and placed.state is PlacementState.PLACED
        return cls(placed.state.value, (str(placed.target),) if one else ())

    def document(self) -> Document | None:
        """Return it as JSON. None if there is no such workload."""
        return {"state": self.state, "targets": list(self.targets)} if self.state else None


@dataclass(slots=True)
class _Story:
    """The decisions on one workload in one run."""

    before: WorkloadPlaced | None
    steps: list[tuple[datetime, WorkloadPlaced | None]] = field(default_factory=list)

    @property
    def last(self) -> WorkloadPlaced | None:
        return self.steps[-1][1] if self.steps else self.before

    @property
    def where(self) -> Where:
        return Where.of(self.last)

    def since(self) -> datetime | None:
        """Return the time since which it is where it is at the end. None if nothing was decided."""
        found: datetime | None = None
        for when, placed in reversed(self.steps):
            if Where.of(placed) != self.where:
                break
            found = when
        return found


class _Stories(dict[str, _Story]):
    """The decisions by workload. For a workload without any in the run, the one from before."""

    def __init__(self, course: Course, before: Mapping[str, WorkloadPlaced]) -> None:
        super().__init__()
        self._before = before
        for record in course.written(PLACEMENTS):
            if record.name.partition("/")[0] not in OCM_KINDS:
                self[record.name].steps.append((record.time, record.event))

    def __missing__(self, key: str) -> _Story:
        found = self[key] = _Story(self._before.get(key))
        return found


def document(simulated: Simulated) -> Document:
    """Return all differences as one JSON object."""
    decisions, nowhere = _decisions(simulated)
    leaving, spared = departures(simulated)
    selected = selections(simulated)
    targets = tainted(simulated)
    placed = [one for one in decisions if one["to"] and one["to"]["state"] == PlacementState.PLACED.value]
    moved = [one for one in placed if one["from"] and one["from"]["targets"]]
    leave = {one["workload"] for one in leaving}
    deleted = [one for one in decisions if one["from"] and not one["to"] and one["workload"] not in leave]
    return {
        "apiVersion": "moorage.io/v1alpha1",
        "kind": "Simulation",
        "taken": format_time(simulated.snapshot.taken),
        "until": format_time(simulated.until),
        "quiet": simulated.changed.quiet,
        "changes": list(simulated.changed.said),
        "summary": {
            "targets": len(targets),
            "waiting": sum(any(wait["until"] is None for wait in one["waited"]) for one in targets),
            "decisions": len(decisions),
            "moved": len(moved),
            "placed": len(placed) - len(moved),
            "leaving": sum(one["state"] in {"Requested", "Completed"} for one in leaving),
            "scheduled": sum(one["state"] == "Scheduled" for one in leaving),
            "held": sum(one["state"] == "Held" for one in leaving),
            "spared": len(spared),
            "nowhere": len(nowhere),
            "deleted": len(deleted),
            "placements": len(selected),
        },
        "without": _anyway(simulated.without),
        "targets": targets,
        "zones": zones(simulated),
        "decisions": decisions,
        "leaving": leaving,
        "spared": spared,
        "nowhere": nowhere,
        "placements": selected,
        "unreadable": simulated.snapshot.unreadable,
    }


def _anyway(course: Course) -> Document:
    """Return the numbers of events without the change."""
    return {"decisions": len(course.written(PLACEMENTS)), "evictions": len(course.written(EVICTIONS))}


def _decisions(simulated: Simulated) -> tuple[list[Document], list[Document]]:
    """Return the workloads that are elsewhere at the end because of the change, and those of them without a place."""
    before: Mapping[str, WorkloadPlaced] = simulated.snapshot.table(PLACEMENTS)
    changed = _Stories(simulated.changed, before)
    without = _Stories(simulated.without, before)
    differing = [key for key in sorted({*changed, *without}) if changed[key].where != without[key].where]
    origins = _origins(differing, changed, without)
    replaced = set(origins.values())
    decisions = []
    nowhere = []
    for key in differing:
        if key in replaced:
            continue  # shown with its replacement
        story, origin = changed[key], origins.get(key, key)
        placed = story.last or changed[origin].before
        since = story.since()
        row: Document = {
            "workload": key,
            "owner": placed.owner.key if placed is not None else key,
            "from": Where.of(changed[origin].before).document(),
            "to": story.where.document(),
            "without": (without[key] if without[key].last is not None else without[origin]).where.document(),
            "at": None if since is None else format_time(since),
            "reason": story.last.reason if story.last is not None else "Deleted",
            "message": story.last.message if story.last is not None else "",
        }
        if origin != key:
            row["replaces"] = origin
        decisions.append(row)
        if story.where.state == PlacementState.PENDING.value:
            nowhere.append({**row, "since": row["at"]})
    decisions.sort(key=lambda row: (row["at"] or "", row["workload"]))
    nowhere.sort(key=lambda row: (row["at"] or "", row["workload"]))
    return decisions, nowhere


def _origins(differing: Iterable[str], changed: _Stories, without: _Stories) -> dict[str, str]:
    """Return for each new workload the one that it replaces: as recorded, or its owner's with the same index."""
    gone: dict[tuple[str, str, int], str] = {}
    new = []
    for key in differing:
        if changed[key].last is None and (had := without[key].last or changed[key].before) is not None:
            gone[had.workload.kind, had.owner.key, had.index] = key
        elif changed[key].before is None:
            new.append(key)
    replaces = {
        key: placed.replaces
        for key, story in changed.items()
        for _, placed in story.steps
        if placed and placed.replaces
    }
    found: dict[str, str] = {}
    for key in new:
        origin, seen = key, {key}
        while (older := replaces.get(origin)) and older not in seen:
            origin = older
            seen.add(older)
        if origin == key and without[key].last is None and (placed := changed[key].last) is not None:
            origin = gone.get((placed.workload.kind, placed.owner.key, placed.index), key)
        if origin != key:
            found[key] = origin
    return found
