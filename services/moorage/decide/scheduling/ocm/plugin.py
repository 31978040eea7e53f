"""The base classes of filters and prioritizers of managed clusters, with their arguments and results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from typing import ClassVar, Final, NamedTuple

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import Basis, Filter, Prioritizer
from moorage.decide.scheduling.ocm.columns.column import Column, Mask, Rows, Scores
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.usage import GrowthSpan, Usage
from moorage.decide.scheduling.ocm.terms import Coordinate, PlacementTerms


class Code(StrEnum):
    """How a step of scheduling ended."""

    SUCCESS = "Success"
    WARNING = "Warning"
    """Decisions were made, with a warning."""

    ERROR = "Error"
    MISCONFIGURED = "Misconfigured"
    """The placement's spec is invalid. Nothing was decided."""


@dataclass(frozen=True, slots=True)
class Status:
    """How scheduling ended. Codes, plugins and messages are upstream's, because programs read them.

    Attributes:
        plugin: the filter or prioritizer that caused it. Empty if none did.
        message: the outcome in words. Empty on success.
        kept: whether the placement keeps the clusters that it has. Only Moorage cannot apply the spec, so upstream
            might select them.
    """

    code: Code = Code.SUCCESS
    plugin: str = ""
    message: str = ""
    kept: bool = False

    @property
    def is_error(self) -> bool:
        """Whether nothing was decided."""
        return self.code is Code.ERROR or self.code is Code.MISCONFIGURED


SUCCESS: Final = Status()


class MisconfiguredError(ValueError):
    """A filter or the prioritizer policy cannot be applied because the placement's spec is invalid.

    Args:
        plugin: the filter.
        message: what is invalid.
        kept: whether the placement keeps its clusters (`Status.kept`).
    """

    def __init__(self, plugin: str, message: str, *, kept: bool = False) -> None:
        super().__init__(message)
        self.status = Status(Code.MISCONFIGURED, plugin, message, kept)


class PlacementRequest(NamedTuple):
    """The placement to be scheduled. A tuple, because one is made for each decision.

    Attributes:
        decided: the rows of the clusters that it has now.
        usage: the number of decisions on each cluster.
        usage_has_decided: whether `usage` includes the clusters of `decided`.
    """

    terms: PlacementTerms
    decided: Rows
    usage: Usage
    usage_has_decided: bool
    now: datetime
    now_us: int
    """`now` in microseconds since 1970."""


class Scored(NamedTuple):
    """The scores of one prioritizer. A tuple, because one is made for each decision.

    Attributes:
        values: the scores of the requested rows, in their order. 0 for a row without a score.
        given: which rows have a score. None means all.
        status: a warning, or success.
        until: the end of the time for which the scores are valid if the fleet does not change, exclusive, in
            microseconds since 1970. None means forever.
        since: the start of that time, inclusive.
    """

    values: Scores
    given: Mask | None = None
    status: Status = SUCCESS
    until: int | None = None
    since: int | None = None


class CountedScores(NamedTuple):
    """The scores of one prioritizer that depend only on a number that is counted for each cluster.

    Attributes:
        counts: the number of each row of the fleet, now.
        table: the score for each number. A higher number has no higher score.
        span: as long as this is the same object, the table is the same, and no number becomes lower.
        added: how many times a number had increased in the span.
    """

    counts: Scores
    table: Scores
    span: GrowthSpan
    added: int

    def scored(self, rows: Rows) -> Scored:
        """Return the scores of these rows when these were made, even if the numbers have changed since."""
        return Scored(self.table.take(self.span.counts(self.added).take(rows)))


class ManagedFilter(Filter[PlacementRequest, ManagedFleet]):
    """Rules clusters out.

    Placements with equal terms share its answers. A filter that depends on time states in `validity`, `until` and
    `requeue_at` when its answers change. A filter that depends on earlier decisions states in `differs_if_decided`
    for which clusters.
    """

    package: ClassVar[str] = "moorage.decide.scheduling.ocm.filters"

    summary: ClassVar[str]
    """Why it rules clusters out, in words that apply to all of them. Decisions count clusters under this text."""

    def apply(self, request: PlacementRequest, fleet: ManagedFleet, shown: Mask) -> Mask:
        """Return the clusters in `shown` that pass. Raises MisconfiguredError if the placement's spec is invalid."""
        self.check(request.terms)
        return self.passed(request, fleet, shown)

    def check(self, terms: PlacementTerms) -> None:
        """Check that it can be applied to a placement. Raises MisconfiguredError if it cannot."""
        if problem := self.problem(terms):
            raise MisconfiguredError(self.name, problem, kept=self.keeps(terms))

    def idle(self, terms: PlacementTerms, fleet: ManagedFleet) -> bool:
        """Return whether every cluster of the fleet certainly passes at all times, decided or not."""
        return False

    @abstractmethod
    def passed(self, request: PlacementRequest, fleet: ManagedFleet, shown: Mask) -> Mask:
        """Return the clusters in `shown` that pass. `shown` must not be modified."""

    def problem(self, terms: PlacementTerms) -> str:
        """Return why it cannot be applied to a placement, which is then misconfigured. Empty if it can."""
        return ""

    def keeps(self, terms: PlacementTerms) -> bool:
        """Return whether a placement to which it cannot be applied keeps its clusters."""
        return False

    @abstractmethod
    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        """Return the columns that the answer depends on. Other changes of a cluster leave it unchanged."""

    def reason(self, request: PlacementRequest, fleet: ManagedFleet, row: int) -> str:
        """Return why the cluster in a row does not pass. Empty if it passes, or if the filter has a problem."""
        if self.problem(request.terms):
            return ""
        alone = np.zeros(fleet.capacity, dtype=np.bool_)
        alone[row] = True
        return "" if self.passed(request, fleet, alone)[row] else self.summary

    def timed(self, terms: PlacementTerms) -> bool:
        """Return whether time alone can change the answer for a placement."""
        return self._clocked

    @cached_property
    def _clocked(self) -> bool:
        return Basis.CLOCK in self.rests_on

    def validity(self, request: PlacementRequest, fleet: ManagedFleet) -> tuple[int | None, int | None]:
        """Return the period in which the answer is valid if the fleet does not change, in microseconds since 1970."""
        return None, None

    def until(self, request: PlacementRequest, fleet: ManagedFleet, row: int) -> datetime | None:
        """Return when a row's cluster stops passing, exclusive. None if time does not end it, or it does not pass."""
        return None

    def requeue_at(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> int | None:
        """Return when a placement with these clusters is due again, in microseconds since 1970; None for never."""
        return None

    def differs_if_decided(self, terms: PlacementTerms, fleet: ManagedFleet) -> Mask | None:
        """Return the clusters whose answer differs if the placement already has them. None for none."""
        return None

    @override
    def flaws(self) -> Iterable[str]:
        yield from super().flaws()
        if not getattr(self, "summary", ""):
            yield "it has no summary"
        if Basis.USAGE in self.rests_on:
            yield "it depends on usage, but placements share its answers"


class ManagedPrioritizer(Prioritizer[PlacementRequest, ManagedFleet]):
    """Scores clusters that passed every filter. A placement names it in `scoreCoordinate.builtIn`.

    `weight` applies in placements of mode `Additive` that do not name it.
    """

    package: ClassVar[str] = "moorage.decide.scheduling.ocm.prioritizers"

    weight: ClassVar[int] = 0

    built_in: ClassVar[bool] = True
    """Whether placements refer to it by its own name."""

    upstream: ClassVar[bool] = True
    """Whether upstream has this prioritizer."""

    @cached_property
    def static(self) -> bool:
        """Whether the scores depend only on the scored clusters and on time, not on decisions.

        Then placements with the same clusters to score share the scores.
        """
        return not self.rests_on & (Basis.DECIDED | Basis.USAGE)

    def answers(self, coordinate: Coordinate) -> ManagedPrioritizer | None:
        """Return the prioritizer for a coordinate. None if the coordinate does not belong to this plugin."""
        return self if coordinate.built_in_type and self.built_in and coordinate.built_in == self.name else None

    @abstractmethod
    def score(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> Scored:
        """Return the scores from `lowest` to `highest` for the rows, in their order: all clusters that passed."""

    def counted(self, request: PlacementRequest) -> CountedScores | None:
        """Return the scores if they depend only on a number that is counted for each cluster, otherwise None.

        With them, the best are found without scoring every cluster.
        """
        return None

    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        """Return the columns on which the scores depend."""
        return ()

    def standing(self) -> tuple[Column, ...]:
        """Return the columns that every placement with this prioritizer needs.

        They are kept from the first cluster on, before any placement uses them.
        """
        return ()

    def score_ends(self, fleet: ManagedFleet, row: int) -> bool:
        """Return whether the score of a cluster expires."""
        return Basis.CLOCK in self.rests_on

    @override
    def flaws(self) -> Iterable[str]:
        yield from super().flaws()
        if self.static and type(self).columns is ManagedPrioritizer.columns:
            yield "its scores depend on the clusters, but it names no columns"

    def drifts(self, weight: int) -> bool:
        """Return whether a new decision may choose other clusters although no cluster has changed.

        This alone does not cause a new decision.
        """
        return bool(weight) and not self.static


@dataclass(frozen=True, slots=True)
class Chosen:
    """A prioritizer of a placement, with its weight."""

    prioritizer: ManagedPrioritizer
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class Plugins:
    """The existing filters and prioritizers, in their order."""

    filters: tuple[ManagedFilter, ...]
    prioritizers: tuple[ManagedPrioritizer, ...]

    @staticmethod
    def discovered() -> Plugins:
        """Return the plugins in the plugin folders."""
        return _plugins(ManagedFilter.discovered(), ManagedPrioritizer.discovered())

    @property
    def built_in_names(self) -> tuple[str, ...]:
        """The names that `scoreCoordinate.builtIn` may have."""
        return tuple(one.name for one in self.prioritizers if one.built_in)

    def defaults(self, *, as_upstream: bool) -> tuple[tuple[Coordinate, int], ...]:
        """Return the default prioritizers of mode `Additive`, with their weights."""
        found = (one for one in self.prioritizers if one.built_in and one.weight and (one.upstream or not as_upstream))
        return tuple((Coordinate(one.name), one.weight) for one in found)

    def find(self, coordinate: Coordinate, *, as_upstream: bool) -> ManagedPrioritizer | None:
        """Return the prioritizer for a coordinate. None if there is none."""
        return _found(self, coordinate, as_upstream)

    def chosen(self, terms: PlacementTerms) -> tuple[Chosen, ...]:
        """Return the prioritizers of a placement. Those that do not exist are left out."""
        found = ((self.find(one, as_upstream=terms.as_upstream), weight) for one, weight in terms.weights)
        return tuple(Chosen(one, weight) for one, weight in found if one is not None)

    def problems(self, terms: PlacementTerms) -> tuple[tuple[str, str], ...]:
        """Return what makes a placement misconfigured: pairs of filter name (empty for the policy) and message."""
        found = [(one.name, one.problem(terms)) for one in self.filters]
        return tuple((plugin, message) for plugin, message in (*found, ("", terms.policy_error)) if message)

    def requeue_at(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> int | None:
        """Return when a placement with these clusters is due again, in microseconds since 1970; None for never."""
        ends = (one.requeue_at(request, fleet, rows) for one in self.filters if one.timed(request.terms))
        return min((end for end in ends if end is not None), default=None)


@lru_cache(maxsize=1024)
def _found(plugins: Plugins, coordinate: Coordinate, as_upstream: bool) -> ManagedPrioritizer | None:  # noqa: FBT001 - cached functions are called by position
    for one in plugins.prioritizers:
        if (one.upstream or not as_upstream) and (found := one.answers(coordinate)) is not None:
            return found
    return None


@cache
def _plugins(filters: tuple[ManagedFilter, ...], prioritizers: tuple[ManagedPrioritizer, ...]) -> Plugins:
    """Return one shared object for the same plugins."""
    return Plugins(filters, prioritizers)
