"""Decides which clusters a resource may leave now, and which ones replace them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from moorage.decide.scheduling.karmada.plugin import ClusterRequest
from moorage.decide.scheduling.karmada.replica_division import Division, division_of
from moorage.decide.scheduling.karmada.scheduler import ClusterDecision, ClusterScheduler
from moorage.workers.placement.engine.view_tables import Requested


@dataclass(slots=True)
class Departure:
    """The result of a request to leave some clusters."""

    decision: ClusterDecision | None = None
    """The new placement of the resource; None when nothing changes."""

    left: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    """The clusters that it cannot leave, because otherwise it would not be placed completely."""

    failed: ClusterDecision | None = None
    """The decision without all of them, when that is not possible."""

    @property
    def why(self) -> str:
        """Why it cannot leave the clusters in `stuck`."""
        return self.failed.message if self.failed is not None else ""


def depart(
    scheduler: ClusterScheduler, request: ClusterRequest, requested: Mapping[str, Requested], *, forced: bool
) -> Departure:
    """Leave all requested clusters or, if the others would not take the whole resource, as many as possible.

    Args:
        scheduler: decides on the replacements.
        request: the scheduling request, in which all of these clusters are among the existing ones.
        requested: the clusters to leave, each with its eviction. They are tried in the order of the requests.
        forced: whether to leave all of them even if the other clusters do not take the whole resource.
    """
    found = decide(scheduler, *_without(request, set(requested), set()))
    if found.targets is not None or forced:
        return Departure(found, left=set(requested))
    departure = Departure(stuck=set(requested), failed=found)
    if len(requested) == 1 or division_of(request.placement) is Division.STATIC_WEIGHT:
        return departure
    for name in sorted(requested, key=lambda name: (requested[name].event.decided_time, name)):
        out = departure.left | {name}
        found = decide(scheduler, *_without(request, out, departure.stuck - {name}))
        if found.targets is not None:
            departure.decision = found
            departure.left, departure.stuck = out, departure.stuck - {name}
    return departure


def decide(scheduler: ClusterScheduler, request: ClusterRequest, out: frozenset[str] = frozenset()) -> ClusterDecision:
    """Return a resource's new clusters. A cluster that it is leaving is used only if others do not suffice.

    Args:
        scheduler: decides.
        request: the request. `leaving` are the clusters that it is about to leave; their taints count like those of any
    other cluster.
        out: clusters that it must not use.
    """
    found = scheduler.decide(replace(request, leaving=request.leaving | out))
    if found.targets is None and request.leaving:
        back = scheduler.decide(replace(request, leaving=out))
        return back if back.targets is not None else found
    return found


def _without(request: ClusterRequest, out: set[str], staying: set[str]) -> tuple[ClusterRequest, frozenset[str]]:
    """Return the request without the clusters in `out`. Those in `staying` keep their replicas, but get no more."""
    existing = {name: replicas for name, replicas in request.existing.items() if name not in out}
    return replace(request, existing=existing, full=frozenset(staying)), frozenset(out)
