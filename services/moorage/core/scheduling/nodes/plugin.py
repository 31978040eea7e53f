"""What a filter and a prioritizer of nodes are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

import numpy as np

from moorage.core.scheduling.framework.plugins import Basis, Filter, Prioritizer
from moorage.core.scheduling.nodes.fleet import Counts, Fleet, Mask, Rows
from moorage.core.scheduling.nodes.shape import PodShape

_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class PodRequest:
    """The pod that looks for a node."""

    shape: PodShape
    owner: str = ""
    """The key of what makes it; the key of the pod itself when nothing does."""

    replica_rows: Rows = field(default_factory=lambda: _NO_ROWS)
    """The rows of the nodes where replicas of the same owner are, one entry for each replica."""

    spread: bool = False
    """Whether it is one of several replicas, which are to be spread."""

    now: datetime | None = None
    """The instant of the decision; without it no tolerated time counts as over."""


class NodeFilter(Filter[PodRequest, Fleet]):
    """Rules nodes out."""

    package: ClassVar[str] = "moorage.core.scheduling.nodes.filters"

    lasting: ClassVar[bool] = False
    """Whether a DaemonSet's pod that runs has to go when this rules its node out."""

    @property
    def static(self) -> bool:
        """Whether the answer rests only on the shape and the nodes.

        Static filters run before the others, on a request that has nothing but the shape, and their answers are
        remembered until a node changes. A DaemonSet wants a pod on every node that passes them.
        """
        return self.rests_on is Basis.NOTHING_ELSE

    def asked(self, request: PodRequest) -> PodRequest:
        """What this filter sees of a request."""
        return PodRequest(request.shape) if self.static else request

    def flaws(self) -> Iterable[str]:
        """See `Plugin`."""
        yield from super().flaws()
        if Basis.DECIDED in self.rests_on:
            yield "it rests on what was decided, but pods of one shape share the decision that no node takes them"

    @abstractmethod
    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        """Why nodes are ruled out: pairs of a reason, as kube-scheduler words it, and the rows that it is true of.

        Reasons may hold of the same row; a row without any passes. Rows without a node may hold anything. A node that
        an earlier filter ruled out does not count again.
        """


class NodePrioritizer(Prioritizer[PodRequest, Fleet]):
    """Scores the nodes that passed every filter."""

    package: ClassVar[str] = "moorage.core.scheduling.nodes.prioritizers"

    @abstractmethod
    def scores(self, request: PodRequest, fleet: Fleet, rows: Rows) -> Counts:
        """Scores from `lowest` to `highest` for `rows`, in their order; these are all nodes that passed."""
