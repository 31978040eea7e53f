"""Rollouts: who gets a version, and when; and who loses it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from typing import Final

from tests.chaos.seeded.checker.parsed_history import Json, Run, Seen, instant, name_of
from tests.chaos.seeded.checker.violations import Violation

_TOPICS: Final = ("resources", "placements", "workload-conditions", "bindings")
_GROUP: Final = "cluster.open-cluster-management.io/decision-group-index"
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(slots=True)
class _Fleet:
    """What could be read at a time."""

    rollouts: dict[str, Json] = field(default_factory=dict)
    pages: dict[str, Json] = field(default_factory=dict)
    bound: dict[str, Json] = field(default_factory=dict)
    health: dict[str, Json] = field(default_factory=dict)

    def fold(self, seen: Seen) -> None:
        tables = {"placements": self.pages, "workload-conditions": self.health, "bindings": self.bound}
        table = tables.get(seen.entry.topic, self.rollouts)
        if seen.gone:
            table.pop(seen.key, None)
        elif table is self.rollouts:
            table[seen.key] = seen.data["object"]
        else:
            table[seen.key] = seen.data

    def groups(self, rollout: str) -> dict[str, int]:
        """The clusters of a rollout's placement, each with the index of its group."""
        placement = self.rollouts[rollout]["spec"]["placementRef"]["name"]
        owner = f"Placement/{rollout.split('/')[1]}/{placement}"
        return {
            cluster: int(page["labels"][_GROUP])
            for page in self.pages.values()
            if name_of(page["owner"]) == owner
            for cluster in page.get("clusters") or ()
        }

    def succeeded_for(self, rollout: str, cluster: str, time: float) -> float | None:
        """For how long a cluster has run the present version well; None if it does not."""
        bound = self.bound.get(f"{rollout}|ManagedCluster/{cluster}")
        found = self.health.get(f"{rollout}|ManagedCluster/{cluster}|Healthy")
        if bound is None or found is None or bound.get("version") != self.rollouts[rollout]["spec"]["version"]:
            return None
        if found["status"] != "True" or found.get("bindingGeneration") != bound["generation"]:
            return None
        return time - max(instant(bound["boundTime"]), instant(found["statusSince"]))


def _walk(run: Run) -> Iterator[tuple[_Fleet, Seen]]:
    """Each change of a rollout's binding, with what could be read before it."""
    fleet = _Fleet()
    for seen in merge(*(run.of(topic) for topic in _TOPICS), key=lambda seen: seen.order):
        about = seen.key.startswith("Rollout/")
        if seen.entry.topic == "bindings" and about:
            yield fleet, seen
        if about if seen.entry.topic != "placements" else seen.key.startswith("PlacementDecision/"):
            fleet.fold(seen)


def nobody_gets_a_version_too_early(run: Run) -> Iterator[Violation]:
    """With no failure allowed, a group gets a version when all groups before it have run it well for the soak time."""
    for fleet, seen in _walk(run) if run.history.exact else ():
        rollout, _, target = seen.key.partition("|")
        if seen.gone or rollout not in fleet.rollouts:
            continue
        strategy = fleet.rollouts[rollout]["spec"].get("strategy") or {}
        terms = strategy.get("progressivePerGroup") or {}
        if strategy.get("type") != "ProgressivePerGroup" or terms.get("maxFailures"):
            continue
        groups, mine = fleet.groups(rollout), target.partition("/")[2]
        if mine not in groups:
            yield Violation("nobody_gets_a_version_too_early", seen.where, "the placement does not select it")
            continue
        text = str(terms.get("minSuccessTime", "0s"))
        soak = float(text[:-1]) * _SECONDS[text[-1]]
        for other in sorted(name for name, index in groups.items() if index < groups[mine]):
            lasted = fleet.succeeded_for(rollout, other, seen.decided)
            if lasted is None or lasted < soak:
                message = f"{other} of an earlier group has succeeded for {lasted} s of {soak}"
                yield Violation("nobody_gets_a_version_too_early", seen.where, message)


def nobody_loses_a_rollout_unasked(run: Run) -> Iterator[Violation]:
    """A binding of a rollout ends only if the rollout is gone, or the placement does not select the cluster."""
    for fleet, seen in _walk(run) if run.history.exact else ():
        rollout, _, target = seen.key.partition("|")
        known = fleet.bound.get(seen.key)
        if not seen.gone or known is None or rollout not in fleet.rollouts:
            continue
        is_same = fleet.rollouts[rollout]["metadata"]["uid"] == known["uid"]
        if is_same and target.partition("/")[2] in fleet.groups(rollout):
            yield Violation("nobody_loses_a_rollout_unasked", seen.where, "is still selected")


def rollouts_reach_whom_they_may(run: Run) -> Iterator[Violation]:
    """After quiet, a rollout whose clusters all run well is on all that its placement selects, and on no other."""
    if not (run.history.quiet and run.runs("placement")):
        return
    fleet = _Fleet()
    for topic in _TOPICS:
        for key, seen in run.table(topic).items():
            if key.startswith("Rollout/" if topic != "placements" else "PlacementDecision/"):
                fleet.fold(seen)
    name = "rollouts_reach_whom_they_may"
    for key in fleet.bound:
        rollout, _, target = key.partition("|")
        if rollout not in fleet.rollouts or target.partition("/")[2] not in fleet.groups(rollout):
            yield Violation(name, key, "is not selected")
    for rollout, declared in fleet.rollouts.items():
        version, selected = declared["spec"]["version"], fleet.groups(rollout)
        lasted = {one: fleet.succeeded_for(rollout, one, run.history.ended) for one in selected}
        has = {
            one for one in selected if fleet.bound.get(f"{rollout}|ManagedCluster/{one}", {}).get("version") == version
        }
        if all(lasted[one] is not None for one in has) and has != set(selected):
            yield Violation(name, rollout, f"{sorted(set(selected) - has)} do not have {version}")
