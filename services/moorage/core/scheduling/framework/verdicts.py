"""What every rule says of one target, in the same words for nodes and clusters: for people who ask why."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """What one filter says of one target."""

    filter: str
    reasons: tuple[str, ...] = ()
    """Why it rules the target out, as decisions count them; empty when it lets the target pass."""

    details: tuple[str, ...] = ()
    """What it sees there, one fact each: the taint and what tolerates it, the label, the amounts."""

    @property
    def passed(self) -> bool:
        """Whether the target passes."""
        return not self.reasons


@dataclass(frozen=True, slots=True)
class PartScore:
    """What one prioritizer gives a target."""

    prioritizer: str
    score: int
    weight: int = 1
    details: tuple[str, ...] = ()
    """What it sees there, one fact each."""

    @property
    def points(self) -> int:
        """What of it counts in the total."""
        return self.score * self.weight


@dataclass(frozen=True, slots=True)
class TargetVerdict:
    """All that is said of one target."""

    target: str
    filters: tuple[FilterVerdict, ...]
    """Every filter, in the order in which they run; a decision stops at the first that rules the target out."""

    scores: tuple[PartScore, ...] = ()
    """Empty unless every filter lets the target pass."""

    rank: int | None = None
    """Its place among those that pass, from 1; None for one that does not."""

    @property
    def passed(self) -> bool:
        """Whether every filter lets the target pass."""
        return all(one.passed for one in self.filters)

    @property
    def total(self) -> int | None:
        """The sum of its scores, weighted; None for a target that does not pass."""
        return sum(one.points for one in self.scores) if self.passed else None

    @property
    def against(self) -> FilterVerdict | None:
        """The first filter that rules it out: the one that a decision counts; None when all let it pass."""
        return next((one for one in self.filters if not one.passed), None)


class Objection(NamedTuple):
    """Why one filter rules a target out. A tuple, for decisions count thousands of them."""

    filter: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reason:
    """How many targets one filter rules out for one reason, of those that the filters before let pass."""

    filter: str
    reason: str
    count: int


class Verdicts(ABC):
    """What becomes of each target of a fleet for one workload: the decision again, with nothing thrown away.

    It is made from the plugins of a scheduler, apart from deciding, which counts only the targets that each filter
    rules out and keeps only the best scores. It holds until the fleet changes.
    """

    considered: int
    """How many targets may come into question at all."""

    reasons: tuple[Reason, ...]
    """Why targets are ruled out. Each is counted once, by the first filter against it."""

    ranked: tuple[str, ...]
    """The targets that pass every filter, best first."""

    @abstractmethod
    def __contains__(self, name: object) -> bool:
        """Whether there is such a target."""

    @abstractmethod
    def targets(self) -> Iterable[str]:
        """The names of all targets, in any order."""

    @abstractmethod
    def verdict(self, name: str) -> TargetVerdict:
        """All that is said of one target.

        Raises:
            LookupError: there is no such target.
        """

    def names(self) -> Iterator[str]:
        """Every target: those that pass, best first, then the others by name."""
        yield from self.ranked
        yield from sorted(set(self.targets()).difference(self.ranked))
