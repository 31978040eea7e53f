"""The base classes of filters and prioritizers of nodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import Basis, Filter, Prioritizer
from moorage.decide.scheduling.nodes.fleet import Counts, Fleet, Mask, Rows
from moorage.decide.scheduling.nodes.pod_constraints import Labels
from moorage.decide.scheduling.nodes.pod_shape import PodShape
from moorage.decide.scheduling.nodes.volumes import BoundVolume

_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class PodRequest:
    """The pod to be placed."""

    shape: PodShape
    owner: str = ""
    """The key of the controller that makes the pod. For a bare pod, its own key."""

    replica_rows: Rows = field(default_factory=lambda: _NO_ROWS)
    """The row of the node of each replica of the same owner, one entry for each replica."""

    spread: bool = False
    """Whether the pod is one of several replicas, which are to be spread."""

    now: datetime | None = None
    """The instant of the decision. If None, no tolerated time counts as ended."""

    namespace: str = ""
    labels: Labels = ()
    """The pod's namespace and labels. They are only given where a filter or prioritizer may read them: when the shape
    demands something of other pods, or a pod on a node demands something of others."""

    volumes: tuple[BoundVolume, ...] = ()
    """The volumes to which the pod's claims are bound."""


class NodeFilter(Filter[PodRequest, Fleet]):
    """Rules nodes out."""

    package: ClassVar[str] = "moorage.decide.scheduling.nodes.filters"

    lasting: ClassVar[bool] = False
    """Whether a running pod of a DaemonSet has to leave a node that this filter rules out."""

    @property
    def static(self) -> bool:
        """Whether the answer depends only on the shape and the nodes.

        Static filters run before the others, on a request that contains only the shape. Their answers are cached until
        a node changes. A DaemonSet runs a pod on every node that passes them.
        """
        return self.rests_on is Basis.NOTHING_ELSE

    def narrowed(self, request: PodRequest) -> PodRequest:
        """Return the request as this filter sees it."""
        return PodRequest(request.shape) if self.static else request

    @override
    def flaws(self) -> Iterable[str]:
        yield from super().flaws()
        if Basis.DECIDED in self.rests_on:
            yield "it depends on earlier decisions, but pods of one shape share the decision that no node fits"

    @abstractmethod
    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        """Return pairs of a reason, in kube-scheduler's words, and the rows that it rules out.

        Several reasons may apply to one row. A row without a reason passes. Rows without a node may have any value. A
        node that an earlier filter has ruled out does not count again.
        """


class NodePrioritizer(Prioritizer[PodRequest, Fleet]):
    """Scores the nodes that passed every filter."""

    package: ClassVar[str] = "moorage.decide.scheduling.nodes.prioritizers"

    left_out: ClassVar[bool] = False
    """Whether decisions do not name it for pods that it does not concern. Otherwise their score is 0."""

    @property
    def shared(self) -> bool:
        """Whether the scores depend only on the shape, on the nodes, and on the resources taken on each node by itself.

        Such a prioritizer sees a request that contains only the shape. Its scores are kept for all pods of a shape, and
        only nodes on which pods were added or removed are scored again.
        """
        return self.rests_on == Basis.NOTHING_ELSE or (self.rests_on == Basis.USAGE and not self.relative)

    def narrowed(self, request: PodRequest) -> PodRequest:
        """Return the request as this prioritizer sees it."""
        return PodRequest(request.shape) if self.shared else request

    def concerns(self, request: PodRequest, fleet: Fleet) -> bool:
        """Return whether it scores this pod at all. If not, all nodes have the score 0."""
        return True

    @abstractmethod
    def scores(self, request: PodRequest, fleet: Fleet, rows: Rows) -> Counts:
        """Return the scores from `lowest` to `highest` for `rows`, in their order.

        The rows are all nodes that passed, or some of them if the score of a node does not depend on the others.
        """

    def scorer(self, request: PodRequest, fleet: Fleet, rows: Rows) -> Callable[[PodRequest], Counts]:
        """Return a function that returns the scores for pods of one shape, while neither the nodes nor the rows change.

        A prioritizer that computes something for all of these pods alike may do so here once.
        """
        return lambda request: self.scores(request, fleet, rows)
