"""A plain implementation of OCM placement, cluster by cluster and without caches. The core must agree with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction

from moorage.decide.kubernetes.selectors import matches_labels
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts, ScoreFacts
from moorage_schemas.resources.managed import ClusterPredicate, PlacementSpec, PrioritizerConfig
from moorage_schemas.resources.meta import LabelSelector
from moorage_schemas.taint import Taint, Toleration


@dataclass
class World:
    """Everything that a decision depends on."""

    clusters: dict[str, ManagedClusterFacts] = field(default_factory=dict)
    scores: dict[tuple[str, str], ScoreFacts] = field(default_factory=dict)
    decisions: list[str] = field(default_factory=list)
    """The decisions of other placements, one entry each."""


@dataclass
class Verdict:
    """The decision of the reference."""

    feasible: list[str]
    totals: dict[str, int]
    parts: list[dict[str, int]]
    decisions: list[str]
    warned: bool


def decide(world: World, spec: PlacementSpec, decided: Sequence[str], now: datetime) -> Verdict:
    """Filter, score and choose clusters."""
    feasible = [
        one
        for one in world.clusters.values()
        if not one.deleting and passes_predicates(one, spec.predicates or []) and tolerated(one, spec, decided, now)
    ]
    totals = {one.name: 0 for one in feasible}
    parts, warned = [], False
    for kind, weight in prioritizers(spec):
        part, expired = scored(world, kind, feasible, spec=spec, decided=decided, now=now)
        warned |= expired
        parts.append(part)
        for name, score in part.items():
            totals[name] += weight * score
    ranked = sorted(totals, key=lambda name: (-totals[name], name))
    return Verdict(sorted(totals), totals, parts, ranked[: spec.number_of_clusters], warned)


def passes_predicates(cluster: ManagedClusterFacts, predicates: Sequence[ClusterPredicate]) -> bool:
    """Whether a predicate matches. Predicates are ORed; labels and claims in one are ANDed."""
    return not predicates or any(
        matches_labels(one.required_cluster_selector.label_selector or LabelSelector(), cluster.labels)
        and matches_labels(
            LabelSelector(
                match_expressions=(
                    one.required_cluster_selector.claim_selector.match_expressions
                    if one.required_cluster_selector.claim_selector
                    else None
                )
            ),
            cluster.claims,
        )
        for one in predicates
    )


def tolerated(cluster: ManagedClusterFacts, spec: PlacementSpec, decided: Sequence[str], now: datetime) -> bool:
    """Whether every taint is tolerated."""
    return all(taint_tolerated(one, spec.tolerations or (), now, has=cluster.name in decided) for one in cluster.taints)


def taint_tolerated(taint: Taint, tolerations: Sequence[Toleration], now: datetime, *, has: bool) -> bool:
    """Whether a toleration matches and has time left."""
    if taint.effect == "PreferNoSelect" or (taint.effect == "NoSelectIfNew" and has):
        return True
    for one in tolerations:
        if not matches(one, taint):
            continue
        if one.toleration_seconds is None or taint.effect == "NoSelectIfNew":
            return True
        if taint.time_added and now < taint.time_added + timedelta(seconds=one.toleration_seconds):
            return True
    return False


def matches(toleration: Toleration, taint: Taint) -> bool:
    """Whether effect and key match, and the value if it counts."""
    return (
        toleration.effect in {"", taint.effect}
        and toleration.key in {"", taint.key}
        and (toleration.operator == "Exists" or toleration.value == taint.value)
    )


def prioritizers(spec: PlacementSpec) -> list[tuple[PrioritizerConfig, int]]:
    """The prioritizers and their weights. A built-in one that is listed twice has its last weight. 0 turns it off."""
    built_in: dict[str, tuple[PrioritizerConfig, int]] = {}
    if spec.prioritizer_policy.mode != "Exact":
        for name in ("Balance", "Steady"):
            built_in[name] = (built(name), 1)
    others = []
    for one in spec.prioritizer_policy.configurations or ():
        assert one.score_coordinate
        if one.score_coordinate.type == "AddOn":
            others.append((one, one.weight))
        else:
            built_in[one.score_coordinate.built_in] = (one, one.weight)
    return [(one, weight) for one, weight in (*built_in.values(), *others) if weight]


def built(name: str, weight: int = 1) -> PrioritizerConfig:
    """A built-in prioritizer of a spec."""
    return PrioritizerConfig.model_validate({"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight})


def scored(
    world: World,
    config: PrioritizerConfig,
    feasible: Sequence[ManagedClusterFacts],
    *,
    spec: PlacementSpec,
    decided: Sequence[str],
    now: datetime,
) -> tuple[dict[str, int], bool]:
    """Scores by name, and whether one has expired."""
    coordinate = config.score_coordinate
    assert coordinate
    names = [one.name for one in feasible]
    if coordinate.add_on:
        found = {name: world.scores.get((name, coordinate.add_on.resource_name)) for name in names}
        valid = {
            name: one for name, one in found.items() if one and (one.valid_until is None or now <= one.valid_until)
        }
        wanted = coordinate.add_on.score_name
        values = {name: valid[name].scores.get(wanted, 0) if name in valid else 0 for name in names}
        return values, any(one and name not in valid for name, one in found.items())
    if coordinate.built_in == "Balance":
        most = max((world.decisions.count(name) for name in world.decisions), default=0)
        usage = {name: world.decisions.count(name) for name in names}
        return {name: 2 * int(100 * (0.5 - n / most)) if n else 100 for name, n in usage.items()}, False
    if coordinate.built_in == "Steady":
        return {name: 100 if name in decided else 0 for name in names}, False
    if coordinate.built_in == "PreferNoSelect":
        counts = {one.name: disliked(one, spec) for one in feasible}
        highest = max(counts.values(), default=0) or 1
        return {name: 100 - 200 * count // highest for name, count in counts.items()}, False
    resource = "cpu" if coordinate.built_in == "ResourceAllocatableCPU" else "memory"
    return allocatable(feasible, resource), False


def disliked(cluster: ManagedClusterFacts, spec: PlacementSpec) -> int:
    """The number of its untolerated `PreferNoSelect` taints."""
    return sum(
        taint.effect == "PreferNoSelect" and not any(matches(one, taint) for one in spec.tolerations or ())
        for taint in cluster.taints
    )


def allocatable(feasible: Sequence[ManagedClusterFacts], resource: str) -> dict[str, int]:
    """Scores from -100 for the least to 100 for the most, truncated towards zero."""
    amounts: Mapping[str, Fraction] = {
        one.name: Fraction(str(one.allocatable[resource]))
        for one in feasible
        if resource in one.allocatable and resource in one.capacity
    }
    if not amounts:
        return {}
    least, most = min(amounts.values()), max(amounts.values())
    if least == most:
        return dict.fromkeys(amounts, 100)
    return {name: int(((x - least) / (most - least) - Fraction(1, 2)) * 200) for name, x in amounts.items()}
