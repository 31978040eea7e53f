"""The results of all filters and prioritizers for one target, in the same form for nodes and clusters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """The result of one filter for one target."""

    filter: str
    reasons: tuple[str, ...] = ()
    """Why it rules the target out, as decisions count the reasons. Empty if the target passes."""

    details: tuple[str, ...] = ()
    """The facts that it found, one text each: the taint and the matching toleration, the label, the amounts."""

    @property
    def passed(self) -> bool:
        """Whether the target passes."""
        return not self.reasons


@dataclass(frozen=True, slots=True)
class PartScore:
    """The score of one prioritizer for a target."""

    prioritizer: str
    score: int
    weight: int = 1
    details: tuple[str, ...] = ()
    """The facts that it found, one text each."""

    @property
    def points(self) -> int:
        """The weighted score, which counts in the total."""
        return self.score * self.weight


@dataclass(frozen=True, slots=True)
class TargetVerdict:
    """The results of all filters and prioritizers for one target."""

    target: str
    filters: tuple[FilterVerdict, ...]
    """The results of all filters, in the order in which they run. A decision stops at the first that does not pass."""

    scores: tuple[PartScore, ...] = ()
    """Empty unless the target passes every filter."""

    rank: int | None = None
    """The rank among the targets that pass, from 1. None if the target does not pass."""

    @property
    def passed(self) -> bool:
        """Whether the target passes every filter."""
        return all(one.passed for one in self.filters)

    @property
    def total(self) -> int | None:
        """The sum of the weighted scores. None if the target does not pass."""
        return sum(one.points for one in self.scores) if self.passed else None

    @property
    def against(self) -> FilterVerdict | None:
        """The first filter that rules the target out, which a decision counts. None if the target passes them all."""
        return next((one for one in self.filters if not one.passed), None)


class Objection(NamedTuple):
    """Why one filter rules a target out. A tuple, because decisions count thousands of these."""

    filter: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reason:
    """The number of targets that one filter rules out for one reason, among those that pass the filters before it."""

    filter: str
    reason: str
    count: int


class Verdicts(ABC):
    """The results for each target of a fleet, for one workload: the decision made again, with everything kept.

    They are computed with a scheduler's plugins, separately from the decision itself. That only counts the targets that
    each filter rules out, and only keeps the best scores. They are valid until the fleet changes.
    """

    considered: int
    """The number of targets that are considered."""

    reasons: tuple[Reason, ...]
    """Why targets are ruled out. Each target counts once, for the first filter that rules it out."""

    ranked: tuple[str, ...]
    """The targets that pass every filter, best first."""

    @abstractmethod
    def __contains__(self, name: object) -> bool:
        """Return whether there is such a target."""

    @abstractmethod
    def targets(self) -> Iterable[str]:
        """Return the names of all targets, in any order."""

    @abstractmethod
    def verdict(self, name: str) -> TargetVerdict:
        """Return the results of all filters and prioritizers for one target.

        Raises:
            LookupError: there is no such target.
        """

    def names(self) -> Iterator[str]:
        """Return all targets: those that pass, best first, then the others by name."""
        yield from self.ranked
        yield from sorted(set(self.targets()).difference(self.ranked))
