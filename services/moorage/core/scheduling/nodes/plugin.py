"""What a filter and a prioritizer of nodes are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import numpy as np

from moorage.core.scheduling.framework.plugins import MAX_SCORE, plugins_in
from moorage.core.scheduling.nodes.fleet import Counts, Fleet, Mask, Rows
from moorage.core.scheduling.nodes.shape import PodShape


@dataclass(frozen=True, slots=True)
class Request:
    """The pod that looks for a node."""

    shape: PodShape
    owner: str
    """The key of what makes it; the key of the pod itself when nothing does."""

    replica_rows: Rows
    """The rows of the nodes where replicas of the same owner are, one entry for each replica."""

    spread: bool
    """Whether it is one of several replicas, which are to be spread."""

    now: datetime | None = None
    """The instant of the decision; without it no tolerated time counts as over."""


class Filter(ABC):
    """Rules nodes out. Its module ends with `PLUGIN = TheFilter()`."""

    name: ClassVar[str]
    order: ClassVar[int]
    """Filters run from low to high; a node that one ruled out is not shown to the next."""

    static: ClassVar[bool] = True
    """Whether the answer rests only on the shape and the nodes, not on what is taken of them. Static filters run before
    the others, and their answers are remembered until a node changes."""

    lasting: ClassVar[bool] = False
    """Whether a DaemonSet's pod that runs has to go when this rules its node out."""

    @abstractmethod
    def objections(self, shape: PodShape, fleet: Fleet, now: datetime | None) -> Iterable[tuple[str, Mask]]:
        """Why nodes are ruled out: pairs of a reason, as kube-scheduler words it, and the rows that it is true of.

        Reasons may hold of the same row; a row without any passes. Rows without a node may hold anything. A static
        filter is not told the time: its `now` is always None.
        """

    def details(self, shape: PodShape, fleet: Fleet, name: str, now: datetime | None) -> Iterable[str]:  # noqa: ARG002 - for filters that have something to tell
        """What it sees of one node, one fact each, whether it rules the node out or not: for people who ask why."""
        return ()


class Prioritizer(ABC):
    """Scores the nodes that passed every filter. Its module ends with `PLUGIN = ThePrioritizer()`."""

    name: ClassVar[str]
    weight: ClassVar[int]
    """What its scores are multiplied with; 0 switches it off."""

    @abstractmethod
    def scores(self, request: Request, fleet: Fleet, rows: Rows) -> Counts:
        """Scores 0 to 100 for `rows`, in their order; normalised over them where the rule says so."""


def discovered_filters() -> tuple[Filter, ...]:
    """Every filter, in the order in which they run."""
    filters = plugins_in("moorage.core.scheduling.nodes.filters", Filter)  # type: ignore[type-abstract]  # the kind, not made
    return tuple(sorted(filters, key=lambda one: (not one.static, one.order, one.name)))


def discovered_prioritizers() -> tuple[Prioritizer, ...]:
    """Every prioritizer that counts, by name."""
    found = plugins_in("moorage.core.scheduling.nodes.prioritizers", Prioritizer)  # type: ignore[type-abstract]  # as above
    return tuple(sorted((one for one in found if one.weight), key=lambda one: one.name))


def normalised(raw: Counts, *, reverse: bool = False) -> Counts:
    """Raw scores brought to 0…100 by the highest; `reverse` makes the lowest the best.

    All zeros stay zeros, or become 100 in reverse. Integers, cut down, as upstream's are.
    """
    highest = int(raw.max(initial=0))
    if highest == 0:
        return np.full(raw.size, MAX_SCORE if reverse else 0, dtype=np.int64)
    scaled: Counts = raw * MAX_SCORE // highest
    return MAX_SCORE - scaled if reverse else scaled
