"""How many clusters, and how many groups of them, a resource is spread over (docs/domain.md, "Spread constraints").

Spreading over clusters, and over regions together with clusters, works as upstream. Spreading over zones and providers
works in the same way as over regions (upstream only filters by them). A cluster in several zones counts for the first.
If there are several such fields, the first of region, zone and provider is used for grouping. A maximum of 0 means no
limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moorage.decide.scheduling.karmada.replica_division import Candidate, Division, division_of
from moorage.decide.taints.desired.cluster_affinity import ClusterFacts
from moorage_schemas.resources.policies import ClusterPlacement, SpreadConstraint

_STEPS: Final = 100_000
"""The maximum number of combinations that are examined. With many groups there are too many to examine them all; then
the best of those that were examined is used."""


@dataclass(frozen=True, slots=True)
class SpreadGroup:
    """A region, a zone or a provider."""

    name: str
    clusters: int
    score: int


@dataclass(frozen=True, slots=True)
class _Path:
    groups: tuple[SpreadGroup, ...]
    number: int

    @property
    def order(self) -> tuple[int, int, int]:
        return (-sum(one.score for one in self.groups), -sum(one.clusters for one in self.groups), self.number)


def best_groups(groups: Sequence[SpreadGroup], least: int, most: int, clusters: int) -> tuple[str, ...]:
    """Return the names of the best combination, best group first; empty when none will do.

    Args:
        groups: all groups.
        least: the minimum number of groups.
        most: the maximum number of groups.
        clusters: the minimum number of clusters in all chosen groups together.
    """
    paths = _feasible(sorted(groups, key=lambda one: (one.clusters, -one.score, one.name)), least, most, clusters)
    if not paths:
        return ()
    paths.sort(key=lambda path: path.order)
    best = paths[0]
    for path in paths[1:]:
        # A shorter path that is a prefix of the best one is better: the remaining groups were not needed.
        if len(path.groups) < len(best.groups) and best.groups[: len(path.groups)] == path.groups:
            best = path
    return tuple(one.name for one in best.groups)


def _feasible(groups: Sequence[SpreadGroup], least: int, most: int, clusters: int) -> list[_Path]:
    found: list[_Path] = []
    steps = 0
    # (the groups taken, their clusters, the next to visit), deepest and first ones on top.
    stack: list[tuple[tuple[SpreadGroup, ...], int, int]] = [((), 0, 0)]
    while stack and steps < _STEPS:
        steps += 1
        taken, have, begin = stack.pop()
        if have >= clusters and least <= len(taken) <= most:
            ordered = tuple(sorted(taken, key=lambda one: (-one.score, one.name)))
            found.append(_Path(ordered, len(found)))
        elif len(taken) < most and len(taken) + len(groups) - begin >= least:
            stack.extend(
                ((*taken, groups[index]), have + groups[index].clusters, index + 1)
                for index in reversed(range(begin, len(groups)))
            )
    return found


CLUSTER: Final = "cluster"

_GROUPED_BY: Final[Mapping[str, Callable[[ClusterFacts], str]]] = {
    "region": lambda facts: facts.region,
    "zone": lambda facts: facts.zones[0] if facts.zones else "",
    "provider": lambda facts: facts.provider,
}
UNIT: Final = 1000
"""The weight of one replica in the score of a group. The total score of a cluster is smaller."""


class SpreadError(Exception):
    """The resource cannot be spread over the fitting clusters as its placement requires. The message states why.

    Args:
        reason: in upstream's words.
        numbers: the numbers that it compares.
    """

    def __init__(self, reason: str, numbers: str = "") -> None:
        super().__init__(f"{reason}: {numbers}" if numbers else reason)
        self.reason = reason


def choose(placement: ClusterPlacement, candidates: Sequence[Candidate], replicas: int) -> list[Candidate]:
    """Return the clusters that a resource is placed on, out of those that fit, best first.

    Args:
        placement: the placement. With division by static weights all clusters are used, as upstream.
        candidates: the clusters that fit, sorted by score, room and name.
        replicas: the number of replicas of the resource. 0 if it has none.

    Raises:
        SpreadError: there are too few clusters, or they have too little room.
    """
    constraints = {
        constraint.spread_by_field or CLUSTER: constraint for constraint in placement.spread_constraints or ()
    }
    labels = sorted(c.spread_by_label for c in placement.spread_constraints or () if c.spread_by_label)
    if labels:
        raise SpreadError(f"spreadConstraints: spreadByLabel {labels[0]!r} is not supported, use spreadByField")
    if not constraints or ignores_spread(placement):
        return list(candidates)
    field = next((field for field in _GROUPED_BY if field in constraints), "")
    if field:
        return _by_group(placement, candidates, replicas, constraints, field)
    if CLUSTER not in constraints:
        raise SpreadError(f"spreadConstraints: spreadByField {min(constraints)!r} is not supported")
    need = None if division_of(placement) is Division.DUPLICATED else replicas
    return _by_cluster(constraints[CLUSTER], candidates, need)


def ignores_spread(placement: ClusterPlacement) -> bool:
    """Return whether a placement uses all clusters that fit, as with division by static weights."""
    if division_of(placement) is not Division.STATIC_WEIGHT:
        return False
    weights = placement.replica_scheduling.weight_preference if placement.replica_scheduling else None
    return weights is None or bool(weights.static_weight_list)


def _by_cluster(constraint: SpreadConstraint, candidates: Sequence[Candidate], need: int | None) -> list[Candidate]:
    least = max(constraint.min_groups, 1)
    if len(candidates) < least:
        raise SpreadError(
            "the number of feasible clusters is less than spreadConstraint.MinGroups", f"{len(candidates)} of {least}"
        )
    count = min(constraint.max_groups or len(candidates), len(candidates))
    chosen, rest = list(candidates[:count]), list(candidates[count:])
    if need is None:
        return chosen
    # From the least preferred cluster on, replace one by one with more room, until there is enough.
    for place in reversed(range(count)):
        if _room(chosen) >= need:
            break
        roomiest = max(range(len(rest)), key=lambda index: (rest[index].available, -index), default=None)
        if roomiest is not None and rest[roomiest].available > chosen[place].available:
            chosen[place], rest[roomiest] = rest[roomiest], chosen[place]
    if _room(chosen) < need:
        raise SpreadError(f"no enough resource when selecting {count} clusters")
    return chosen


def _room(candidates: Sequence[Candidate]) -> int:
    return sum(one.available for one in candidates)


def _by_group(
    placement: ClusterPlacement,
    candidates: Sequence[Candidate],
    replicas: int,
    constraints: Mapping[str, SpreadConstraint],
    field: str,
) -> list[Candidate]:
    members: dict[str, list[Candidate]] = {}
    for one in candidates:
        if name := _GROUPED_BY[field](one.cluster.facts):
            members.setdefault(name, []).append(one)
    constraint, over = constraints[field], constraints.get(CLUSTER, SpreadConstraint(spread_by_field=CLUSTER))
    least, clusters = max(constraint.min_groups, 1), max(over.min_groups, 1)
    if len(members) < least:
        raise SpreadError(
            f"the number of feasible {field} is less than spreadConstraint.MinGroups", f"{len(members)} of {least}"
        )
    duplicated = division_of(placement) is Division.DUPLICATED
    groups = [
        SpreadGroup(
            name,
            len(ones),
            _score_duplicated(ones, replicas) if duplicated else _score_divided(ones, replicas, least, clusters),
        )
        for name, ones in sorted(members.items())
    ]
    found = best_groups(groups, least, constraint.max_groups or len(groups), clusters)
    if not found:
        raise SpreadError("the number of clusters is less than the cluster spreadConstraint.MinGroups")
    # The best cluster of each group, and then the best of all remaining ones.
    chosen = [members[name][0] for name in found]
    others = sorted((one for name in found for one in members[name][1:]), key=preference)
    count = min(over.max_groups or len(candidates), len(chosen) + len(others))
    return chosen + others[: max(0, count - len(chosen))]


def preference(one: Candidate) -> tuple[int, int, str]:
    """Return the sort key of clusters: by score, room and name."""
    return (-one.score, -one.available, one.name)


def _score_duplicated(members: Sequence[Candidate], replicas: int) -> int:
    """Return the number of clusters with room for all replicas counts first, then the mean score of those clusters."""
    valid = [one.score for one in members if one.available >= replicas]
    return len(valid) * UNIT + sum(valid) // len(valid) if valid else 0


def _score_divided(members: Sequence[Candidate], replicas: int, groups: int, clusters: int) -> int:
    """Return the room for the group's share of the replicas counts first, then the mean score of its clusters."""
    part = -(-replicas // groups)
    least = max(groups, clusters)
    room = liked = taken = 0
    for one in members:
        room += one.available
        liked += one.score
        taken += 1
        if taken >= least and room >= part:
            break
    return room * UNIT + liked // len(members) if room < part else part * UNIT + liked // taken
