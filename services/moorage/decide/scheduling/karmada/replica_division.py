"""How replicas are divided among the chosen clusters, as in upstream's scheduler (docs/domain.md, "Replica division").

Replicas are assigned one by one to the cluster with the highest quotient of weight and odd number (Webster's method).
Division by static weights is computed from scratch each time. The other methods keep what is assigned, and add or
remove only the difference.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from moorage.decide.kubernetes.quantities import PODS
from moorage.decide.scheduling.karmada.fleet import TAKEN_AS_ENOUGH, ClusterInfo
from moorage.decide.scheduling.karmada.resource_grades import room_by_grades
from moorage.decide.taints.desired.cluster_affinity import selects
from moorage_schemas.resources.policies import ClusterPlacement, ClusterPreferences

DUPLICATED: Final = "Duplicated"
AGGREGATED: Final = "Aggregated"

MOST: Final = 2**31 - 1
"""The maximum number of replicas, as upstream counts them."""


class Division(Enum):
    """The ways in which replicas are divided."""

    DUPLICATED = "Duplicated"
    AGGREGATED = "Aggregated"
    STATIC_WEIGHT = "StaticWeight"
    DYNAMIC_WEIGHT = "DynamicWeight"

    @property
    def steady(self) -> bool:
        """Whether an assignment stays until the number of replicas, or the clusters that may get some, change."""
        return self is not Division.DUPLICATED


class NotEnoughError(Exception):
    """The clusters do not have room for all replicas. The message gives the numbers."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cluster that passed every filter."""

    cluster: ClusterInfo
    score: int
    allocatable: int
    """The number of replicas for which it has room now."""

    available: int
    """The same number plus the replicas that it already has."""

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.cluster.name


def division_of(placement: ClusterPlacement) -> Division:
    """Return the division of a placement. By default every cluster gets all replicas."""
    strategy = placement.replica_scheduling
    if strategy is None or strategy.replica_scheduling_type == DUPLICATED:
        return Division.DUPLICATED
    if strategy.replica_division_preference == AGGREGATED:
        return Division.AGGREGATED
    weights = strategy.weight_preference
    return Division.DYNAMIC_WEIGHT if weights is not None and weights.dynamic_weight else Division.STATIC_WEIGHT


def room_for(cluster: ClusterInfo, requests: Sequence[tuple[str, int]], replicas: int) -> int:
    """Return the number of replicas for which a cluster has room. If it does not state its resources, all of them.

    A cluster that counts its nodes by grade has room for as many replicas as these take. Otherwise, its free resources
    together count.
    """
    if cluster.free is None:
        return replicas
    most = cluster.free.get(PODS, MOST)
    by_grades = room_by_grades(cluster.grades, requests) if cluster.grades else None
    if by_grades is not None:
        return min(most, by_grades)
    for resource, amount in requests:
        if amount > 0:
            free = cluster.free.get(resource, MOST * amount if resource in TAKEN_AS_ENOUGH else 0)
            most = min(most, free // amount)
    return replicas if most >= MOST else most


def divide(
    placement: ClusterPlacement, candidates: Sequence[Candidate], replicas: int, existing: Mapping[str, int], uid: str
) -> dict[str, int]:
    """Return the replicas of each cluster that gets some. Except for `Duplicated`, they add up to `replicas`.

    Args:
        placement: states how to divide.
        candidates: the chosen clusters, best first. At least one.
        replicas: the number of replicas, greater than 0.
        existing: the present assignment, by cluster. When replicas are removed, its order decides among equals.
        uid: the uid of the resource. It decides which of two clusters with equal claims comes first, so that it is not
            the same cluster for all resources.

    Raises:
        NotEnoughError: the clusters do not have room for all replicas.
    """
    match division_of(placement):
        case Division.DUPLICATED:
            return {one.name: replicas for one in candidates}
        case Division.STATIC_WEIGHT:
            strategy = placement.replica_scheduling
            weights = static_weights(candidates, strategy.weight_preference if strategy else None)
            return _some(webster(replicas, weights, uid))
        case division:
            return _divide_by_room(candidates, replicas, existing, uid, aggregated=division is Division.AGGREGATED)


def static_weights(candidates: Sequence[Candidate], preference: ClusterPreferences | None) -> dict[str, int]:
    """Return the weight of each cluster: the highest of the rules that select it, or 0.

    If no cluster has a weight, all have the same weight.
    """
    rules = (preference.static_weight_list if preference else None) or ()
    found = {}
    for one in candidates:
        weight = max((rule.weight for rule in rules if selects(rule.target_cluster, one.cluster.facts)), default=0)
        if weight > 0:
            found[one.name] = weight
    return found or dict.fromkeys((one.name for one in candidates), 1)


def webster(seats: int, votes: Mapping[str, int], uid: str = "") -> dict[str, int]:
    """Assign seats by Webster's method: the next seat is for the highest votes / (2 · seats + 1).

    Among equals, the one with fewer seats comes first, then the first or the last by name, depending on the uid.
    """
    parties = sorted(votes, reverse=_descending(uid))
    given = dict.fromkeys(parties, 0)
    total = sum(votes.values())
    if total <= 0:
        return given | dict.fromkeys(parties[:1], seats)
    # Assign at once the certain seats of every party. The remaining seats, a few for each party, follow one by one.
    sure = seats - len(parties)
    if sure > len(parties):
        given = {name: max(0, -((total - 2 * votes[name] * sure) // (2 * total))) for name in parties}
    queue = [(-votes[name] / (2 * given[name] + 1), given[name], rank) for rank, name in enumerate(parties)]
    heapq.heapify(queue)
    for _ in range(seats - sum(given.values())):
        _, had, rank = queue[0]
        name = parties[rank]
        given[name] = had + 1
        heapq.heapreplace(queue, (-votes[name] / (2 * had + 3), had + 1, rank))
    return given


def _divide_by_room(
    candidates: Sequence[Candidate], replicas: int, existing: Mapping[str, int], uid: str, *, aggregated: bool
) -> dict[str, int]:
    names = {one.name for one in candidates}
    assigned = {name: had for name, had in existing.items() if name in names}
    more = replicas - sum(assigned.values())
    if more == 0:
        return _some(assigned)
    if more < 0:
        return scaled_down(assigned, replicas, uid, aggregated=aggregated)
    rooms = sorted(((one.name, one.allocatable) for one in candidates), key=lambda item: -item[1])
    free = sum(room for _, room in rooms)
    if free < more:
        raise NotEnoughError(f"Clusters available replicas {free} are not enough to schedule.")
    if aggregated:  # clusters that have replicas already come first
        rooms.sort(key=lambda item: not assigned.get(item[0]))
    extra = _spread(rooms, more, uid, aggregated=aggregated)
    return _some({name: assigned.get(name, 0) + extra.get(name, 0) for name in assigned | extra})


def scaled_down(assigned: Mapping[str, int], replicas: int, uid: str, *, aggregated: bool) -> dict[str, int]:
    """Return fewer replicas, in proportion to the present assignment. Among equals, the first ones count first."""
    rooms = sorted(assigned.items(), key=lambda item: -item[1])
    return _some(_spread(rooms, replicas, uid, aggregated=aggregated))


def _spread(rooms: Sequence[tuple[str, int]], replicas: int, uid: str, *, aggregated: bool) -> dict[str, int]:
    """Divide by room. If aggregated, use as few clusters as have enough room together, in the given order."""
    chosen: dict[str, int] = {}
    total = 0
    for name, room in rooms:
        chosen[name] = room
        total += room
        if aggregated and total >= replicas:
            break
    return webster(replicas, chosen, uid)


def _some(given: Mapping[str, int]) -> dict[str, int]:
    return {name: replicas for name, replicas in sorted(given.items()) if replicas > 0}


def _descending(uid: str) -> bool:
    """Return whether later names come first: the lowest bit of the FNV-1a hash of the uid."""
    if not uid:
        return False
    value = 0x811C9DC5
    for byte in uid.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value & 1 == 1
