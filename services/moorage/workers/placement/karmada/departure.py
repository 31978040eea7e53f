"""Decides which clusters a resource may leave now, and where it goes instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from moorage.core.scheduling.karmada.plugin import ClusterRequest
from moorage.core.scheduling.karmada.replica_division import Division, division_of
from moorage.core.scheduling.karmada.scheduler import ClusterDecider, ClusterDecision
from moorage.workers.placement.engine.evictions import Requested


@dataclass(slots=True)
class Departure:
    """The result of a request to leave some clusters."""

    decision: ClusterDecision | None = None
    """Where the resource is from now on; None when nothing changes."""

    left: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    """The clusters that it cannot leave, because without them it would not be placed completely."""

    failed: ClusterDecision | None = None
    """The decision that leaving all of them would lead to, when that is not possible."""

    @property
    def why(self) -> str:
        """Why it cannot leave the clusters in `stuck`."""
        return self.failed.message if self.failed is not None else ""


def depart(
    decider: ClusterDecider, request: ClusterRequest, asked: Mapping[str, Requested], *, forced: bool
) -> Departure:
    """Leave all of the clusters or, when the rest would not take the whole, as many as it allows, one after another.

    Args:
        decider: decides where the resource goes.
        request: the request, with all of the clusters among the existing ones.
        asked: the clusters, each with the eviction that requests leaving it; the earliest request goes first.
        forced: whether to leave all of them even if the rest does not take the whole.
    """
    found = decide(decider, *_without(request, set(asked), set()))
    if found.targets is not None or forced:
        return Departure(found, left=set(asked))
    departure = Departure(stuck=set(asked), failed=found)
    if len(asked) == 1 or division_of(request.placement) is Division.STATIC_WEIGHT:
        return departure
    for name in sorted(asked, key=lambda name: (asked[name].event.decided_time, name)):
        out = departure.left | {name}
        found = decide(decider, *_without(request, out, departure.stuck - {name}))
        if found.targets is not None:
            departure.decision = found
            departure.left, departure.stuck = out, departure.stuck - {name}
    return departure


def decide(decider: ClusterDecider, request: ClusterRequest, out: frozenset[str] = frozenset()) -> ClusterDecision:
    """Decide where a resource goes. It returns to a cluster that it is leaving only if it cannot be placed otherwise.

    Args:
        decider: decides.
        request: the request; its `leaving` are the clusters that it is about to leave, whose taints count as those of
            others.
        out: clusters to which it never returns.
    """
    found = decider.decide(replace(request, leaving=request.leaving | out))
    if found.targets is None and request.leaving:
        back = decider.decide(replace(request, leaving=out))
        return back if back.targets is not None else found
    return found


def _without(request: ClusterRequest, out: set[str], staying: set[str]) -> tuple[ClusterRequest, frozenset[str]]:
    """Return the request without the clusters in `out`. Those in `staying` keep the resource, but get no more of it."""
    existing = {name: replicas for name, replicas in request.existing.items() if name not in out}
    return replace(request, existing=existing, full=frozenset(staying)), frozenset(out)
