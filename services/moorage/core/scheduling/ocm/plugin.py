"""What a filter and a prioritizer of managed clusters are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import ClassVar, Final

import numpy as np

from moorage.core.scheduling.framework.plugins import Basis, Filter, Prioritizer
from moorage.core.scheduling.ocm.columns import Column, Mask, Rows, Scores
from moorage.core.scheduling.ocm.fleet import ManagedFleet
from moorage.core.scheduling.ocm.terms import Coordinate, PlacementTerms
from moorage.core.scheduling.ocm.usage import Usage


class Code(StrEnum):
    """How a step of scheduling ended."""

    SUCCESS = "Success"
    WARNING = "Warning"
    """Decisions were made, and there is something to notice."""

    ERROR = "Error"
    MISCONFIGURED = "Misconfigured"
    """The placement's spec is wrong; nothing is decided."""


@dataclass(frozen=True, slots=True)
class Status:
    """How scheduling ended; codes, plugins and messages are upstream's, for programs read them.

    Attributes:
        code: how.
        plugin: the filter or prioritizer that said so; empty when it was none of them.
        message: in words; empty on success.
    """

    code: Code = Code.SUCCESS
    plugin: str = ""
    message: str = ""

    @property
    def is_error(self) -> bool:
        """Whether nothing was decided."""
        return self.code in {Code.ERROR, Code.MISCONFIGURED}


SUCCESS: Final = Status()


class MisconfiguredError(ValueError):
    """A filter or the policy cannot be applied, for the placement's spec is wrong."""

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(message)
        self.status = Status(Code.MISCONFIGURED, plugin, message)


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """The placement that looks for clusters.

    Attributes:
        terms: what it asks for.
        decided: rows of the clusters that it has.
        usage: decisions on each cluster.
        usage_has_decided: whether `usage` counts the clusters of `decided` too.
        now: the instant of the decision.
    """

    terms: PlacementTerms
    decided: Rows
    usage: Usage
    usage_has_decided: bool
    now: datetime
    now_us: int
    """`now` in microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of one prioritizer.

    Attributes:
        values: of the rows that were asked, in their order; 0 where there is none.
        given: which of them have a score; all of them when None.
        status: a warning, or success.
        until: in microseconds since 1970, until before when they stay as they are if the fleet does; None for ever.
        since: from when on they are as they are.
    """

    values: Scores
    given: Mask | None = None
    status: Status = SUCCESS
    until: int | None = None
    since: int | None = None


class ManagedFilter(Filter[PlacementRequest, ManagedFleet]):
    """Rules clusters out.

    What it answers is shared by all placements that ask the same. A filter that rests on time says in `validity`,
    `until` and `requeue_at` when its answers change; one that rests on what is decided says where in
    `differs_if_decided`.
    """

    package: ClassVar[str] = "moorage.core.scheduling.ocm.filters"

    summary: ClassVar[str]
    """Why it rules clusters out, in words that hold for all of them: what decisions count."""

    def apply(self, request: PlacementRequest, fleet: ManagedFleet, shown: Mask) -> Mask:
        """Those of the shown clusters that pass.

        Raises:
            MisconfiguredError: the placement's spec is wrong.
        """
        if problem := self.problem(request.terms):
            raise MisconfiguredError(self.name, problem)
        return self.passed(request, fleet, shown)

    @abstractmethod
    def passed(self, request: PlacementRequest, fleet: ManagedFleet, shown: Mask) -> Mask:
        """Those of the shown clusters that pass. It does not write into `shown`."""

    def problem(self, terms: PlacementTerms) -> str:
        """Why it cannot be applied to a placement; empty when it can. With a problem the placement is misconfigured."""
        return ""

    @abstractmethod
    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        """The columns that the answer rests on: a change of a cluster that touches none of them changes no answer."""

    def reason(self, request: PlacementRequest, fleet: ManagedFleet, row: int) -> str:
        """Why the cluster of a row does not pass, in words; empty when it does, or when the filter has a problem."""
        if self.problem(request.terms):
            return ""
        alone = np.zeros(fleet.capacity, dtype=np.bool_)
        alone[row] = True
        return "" if self.passed(request, fleet, alone)[row] else self.summary

    def timed(self, terms: PlacementTerms) -> bool:
        """Whether time alone may change the answer for a placement."""
        return Basis.CLOCK in self.rests_on

    def validity(self, request: PlacementRequest, fleet: ManagedFleet) -> tuple[int | None, int | None]:
        """From and until when, in microseconds since 1970, the answer stays as it is if the fleet does."""
        return None, None

    def until(self, request: PlacementRequest, fleet: ManagedFleet, row: int) -> datetime | None:
        """Until before when the cluster of a row passes; None when no time ends it, or when it does not pass."""
        return None

    def requeue_at(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> int | None:
        """When, in microseconds since 1970, a placement that has these clusters is to be decided again; None: never."""
        return None

    def differs_if_decided(self, terms: PlacementTerms, fleet: ManagedFleet) -> Mask | None:
        """The clusters on which the answer is another one when the placement has them already; None for none."""
        return None

    def flaws(self) -> Iterable[str]:
        """See `Plugin`."""
        yield from super().flaws()
        if not getattr(self, "summary", ""):
            yield "it has no summary"
        if Basis.USAGE in self.rests_on:
            yield "it rests on usage, but its answers are shared by placements"


class ManagedPrioritizer(Prioritizer[PlacementRequest, ManagedFleet]):
    """Scores clusters that passed every filter. A placement names it in `scoreCoordinate.builtIn`.

    Its `weight` is the one that it has in placements of mode `Additive` which do not name it.
    """

    package: ClassVar[str] = "moorage.core.scheduling.ocm.prioritizers"

    weight: ClassVar[int] = 0

    built_in: ClassVar[bool] = True
    """Whether placements name it by its own name."""

    upstream: ClassVar[bool] = True
    """Whether upstream has it."""

    @property
    def static(self) -> bool:
        """Whether the scores rest only on the clusters that are scored and on the time, not on decisions.

        Then all placements that have the same clusters to score share them.
        """
        return not self.rests_on & (Basis.DECIDED | Basis.USAGE)

    def answers(self, coordinate: Coordinate) -> ManagedPrioritizer | None:
        """The prioritizer of a coordinate; None when the coordinate is not of this plugin."""
        return self if coordinate.built_in_type and self.built_in and coordinate.built_in == self.name else None

    @abstractmethod
    def score(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> Scored:
        """Scores from `lowest` to `highest` for the rows, in their order; they are all clusters that passed."""

    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        """The columns that the scores rest on."""
        return ()

    def score_ends(self, fleet: ManagedFleet, row: int) -> bool:
        """Whether time ends the score of a cluster."""
        return Basis.CLOCK in self.rests_on

    def flaws(self) -> Iterable[str]:
        """See `Plugin`."""
        yield from super().flaws()
        if self.static and type(self).columns is ManagedPrioritizer.columns:
            yield "its scores rest on the clusters, and it names no columns"

    def drifts(self, weight: int) -> bool:
        """Whether deciding anew may choose other clusters though nothing about the clusters has changed.

        No placement is decided again for that alone.
        """
        return bool(weight) and not self.static


@dataclass(frozen=True, slots=True)
class Chosen:
    """A prioritizer of a placement."""

    prioritizer: ManagedPrioritizer
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class Plugins:
    """The filters and prioritizers that there are, in their order."""

    filters: tuple[ManagedFilter, ...]
    prioritizers: tuple[ManagedPrioritizer, ...]

    @staticmethod
    def discovered() -> Plugins:
        """Those in the folders of plugins."""
        return _plugins(ManagedFilter.discovered(), ManagedPrioritizer.discovered())

    @property
    def built_in_names(self) -> tuple[str, ...]:
        """The names that `scoreCoordinate.builtIn` may have."""
        return tuple(one.name for one in self.prioritizers if one.built_in)

    def defaults(self, *, as_upstream: bool) -> tuple[tuple[Coordinate, int], ...]:
        """The prioritizers with which mode `Additive` begins, each with its weight."""
        found = (one for one in self.prioritizers if one.built_in and one.weight and (one.upstream or not as_upstream))
        return tuple((Coordinate(one.name), one.weight) for one in found)

    def find(self, coordinate: Coordinate, *, as_upstream: bool) -> ManagedPrioritizer | None:
        """The prioritizer of a coordinate; None when there is none."""
        found = (one.answers(coordinate) for one in self.prioritizers if one.upstream or not as_upstream)
        return next((one for one in found if one is not None), None)

    def chosen(self, terms: PlacementTerms) -> tuple[Chosen, ...]:
        """The prioritizers of a placement, without those that are not there."""
        found = ((self.find(one, as_upstream=terms.as_upstream), weight) for one, weight in terms.weights)
        return tuple(Chosen(one, weight) for one, weight in found if one is not None)

    def problems(self, terms: PlacementTerms) -> tuple[tuple[str, str], ...]:
        """What makes a placement misconfigured: pairs of the filter's name (empty for the policy) and the message."""
        found = [(one.name, one.problem(terms)) for one in self.filters]
        return tuple((plugin, message) for plugin, message in (*found, ("", terms.policy_error)) if message)

    def requeue_at(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> int | None:
        """When, in microseconds since 1970, a placement that has these clusters is to be decided again; None: never."""
        ends = (one.requeue_at(request, fleet, rows) for one in self.filters if one.timed(request.terms))
        return min((end for end in ends if end is not None), default=None)


@cache
def _plugins(filters: tuple[ManagedFilter, ...], prioritizers: tuple[ManagedPrioritizer, ...]) -> Plugins:
    """One object for the same plugins."""
    return Plugins(filters, prioritizers)
