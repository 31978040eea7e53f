"""Karmada's resource models: a cluster's nodes by grades of their free resources.

A summary of a whole cluster does not show that 100 free cores are spread over 100 nodes. Grades do: no replica of two
cores fits there. Each node counts with the least amounts of its grade (docs/domain.md, "Room of clusters").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moorage.decide.kubernetes.quantities import CPU, MEMORY, QuantityError, whole
from moorage_schemas.resources.cluster import Cluster, ResourceModel

Grades = tuple[tuple[int, tuple[tuple[str, int], ...]], ...]
"""For each grade, in the order of the grades: the number of nodes, and the least amount of each resource."""

_GIB: Final = 2**30
_DEFAULT_CORES: Final = (0, 1, 2, 4, 8, 16, 32, 64, 128)
_DEFAULT_GIB: Final = (0, 4, 16, 32, 64, 128, 256, 512, 1024)
_DEFAULTS: Final = tuple(
    ((CPU, cores * 1000), (MEMORY, gib * _GIB)) for cores, gib in zip(_DEFAULT_CORES, _DEFAULT_GIB, strict=True)
)
"""Upstream's admission gives these grades to a cluster without any."""


def grades_of(cluster: Cluster) -> Grades:
    """Return the grades of a cluster's nodes. Empty if it does not count its nodes by grade."""
    summary = cluster.status.resource_summary
    counted = (summary.allocatable_modelings if summary is not None else None) or ()
    if not counted:
        return ()
    counts: dict[int, int] = {}
    for one in counted:
        counts[one.grade] = counts.get(one.grade, 0) + max(0, one.count)
    models = cluster.spec.resource_models
    if not models:
        return tuple((counts.get(grade, 0), least) for grade, least in enumerate(_DEFAULTS))
    return tuple((counts.get(one.grade, 0), _least(one)) for one in models)


def room_by_grades(grades: Grades, requests: Sequence[tuple[str, int]]) -> int | None:
    """Return the number of replicas that the nodes take together.

    None if that is unknown: the replicas have no requests, or a grade does not name a resource that they request.
    """
    wanted = {name: amount for name, amount in requests if amount > 0}
    if not wanted:
        return None
    room = 0
    begun: set[str] = set()
    for count, amounts in grades:
        least = dict(amounts)
        if not wanted.keys() <= least.keys():
            return None
        # The first grade that suffices for a resource, and all higher ones, suffice for it, as upstream has it.
        begun.update(name for name, amount in wanted.items() if least[name] >= amount)
        if begun == wanted.keys():
            room += count * max(1, _fitting(least, wanted))
    return room


def _fitting(least: Mapping[str, int], wanted: Mapping[str, int]) -> int:
    return min(least[name] // amount for name, amount in wanted.items())


def _least(model: ResourceModel) -> tuple[tuple[str, int], ...]:
    """Return the least amounts of a grade. The gateway refuses invalid quantities; an invalid one counts as zero."""
    found = []
    for one in model.ranges or ():
        try:
            found.append((one.name, whole(one.name, one.min, "spec.resourceModels")))
        except QuantityError:
            found.append((one.name, 0))
    return tuple(found)
