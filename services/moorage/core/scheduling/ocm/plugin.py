"""What a filter and a prioritizer of managed clusters are, and how they are found.

A filter or a prioritizer is one module in `filters` or `prioritizers` that ends with `PLUGIN = TheFilter()`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final

from moorage.core.scheduling.framework.plugins import plugins_in
from moorage.core.scheduling.ocm.columns import Column, Mask, Rows, Scores
from moorage.core.scheduling.ocm.fleet import ManagedFleet
from moorage.core.scheduling.ocm.terms import Coordinate, PlacementTerms

if TYPE_CHECKING:
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
class Request:
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


class ManagedFilter(ABC):
    """Rules clusters out."""

    name: ClassVar[str]
    order: ClassVar[int]
    """Filters run from low to high; a cluster that one ruled out is not shown to the next."""

    summary: ClassVar[str]
    """Why it rules clusters out, in words that hold for all of them."""

    @abstractmethod
    def apply(self, request: Request, fleet: ManagedFleet, shown: Mask) -> Mask:
        """Those of the shown clusters that pass. Not asked when none are shown.

        Raises:
            MisconfiguredError: the placement's spec is wrong.
        """

    @abstractmethod
    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        """The columns that the answer rests on."""

    @abstractmethod
    def reason(self, request: Request, fleet: ManagedFleet, row: int) -> str:
        """Why the cluster of a row does not pass, in words; empty when it does."""

    def until(self, request: Request, fleet: ManagedFleet, row: int) -> datetime | None:  # noqa: ARG002 - for subclasses
        """Until before when the cluster of a row passes; None when no time ends it, or when it does not pass."""
        return None

    def span(self, request: Request, fleet: ManagedFleet) -> tuple[int | None, int | None]:  # noqa: ARG002 - as above
        """From and until when, in microseconds since 1970, the answer stays as it is if the fleet does."""
        return None, None

    def wary(self, terms: PlacementTerms, fleet: ManagedFleet) -> Mask | None:  # noqa: ARG002 - as above
        """The clusters on which the answer is another one when the placement has them already; None for none."""
        return None

    def again(self, request: Request, fleet: ManagedFleet, rows: Rows) -> int | None:  # noqa: ARG002 - as above
        """When, in microseconds since 1970, clusters that are decided are to be looked at again; None for never."""
        return None


class ManagedPrioritizer(ABC):
    """Scores the clusters that passed every filter."""

    built_in: ClassVar[Mapping[str, int]] = {}
    """Built-in names that it answers to, each with its weight when nobody gives one in mode `Additive`."""

    add_on: ClassVar[bool] = False
    """Whether it answers to the coordinates of add-ons."""

    departs: ClassVar[bool] = False
    """Whether upstream does not have it."""

    static: ClassVar[bool]
    """Whether the scores rest only on the clusters that are to be scored and on the time, not on decisions; then they
    are shared by all placements that have the same clusters to score."""

    @abstractmethod
    def score(self, coordinate: Coordinate, request: Request, fleet: ManagedFleet, rows: Rows) -> Scored:
        """Scores for the rows, in their order; they are those of all clusters that passed the filters."""

    def columns(self, coordinate: Coordinate, terms: PlacementTerms) -> tuple[Column, ...]:  # noqa: ARG002 - as above
        """The columns that the scores rest on."""
        return ()


@dataclass(frozen=True, slots=True)
class Plugins:
    """The filters and prioritizers that there are."""

    filters: tuple[ManagedFilter, ...]
    prioritizers: tuple[ManagedPrioritizer, ...]
    by_name: Mapping[str, ManagedPrioritizer] = field(default_factory=dict)

    def find(self, coordinate: Coordinate, *, as_upstream: bool) -> ManagedPrioritizer | None:
        """The prioritizer of a coordinate; None when there is none."""
        if not coordinate.built_in_type:
            return next((one for one in self.prioritizers if one.add_on), None)
        found = self.by_name.get(coordinate.built_in)
        return None if found is None or (as_upstream and found.departs) else found


def discovered() -> Plugins:
    """Every filter, in the order in which they run, and every prioritizer."""
    filters = plugins_in("moorage.core.scheduling.ocm.filters", ManagedFilter)  # type: ignore[type-abstract]  # the kind, not made
    prioritizers = plugins_in("moorage.core.scheduling.ocm.prioritizers", ManagedPrioritizer)  # type: ignore[type-abstract]  # as above
    return Plugins(
        filters=tuple(sorted(filters, key=lambda one: (one.order, one.name))),
        prioritizers=prioritizers,
        by_name={name: one for one in prioritizers for name in one.built_in},
    )
