"""What every rule says of one target, in the same words for nodes and clusters: for people who ask why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """What one filter says of one target."""

    filter: str
    reasons: tuple[str, ...] = ()
    """Why it rules the target out, as decisions count them; empty when it lets the target pass."""

    details: tuple[str, ...] = ()
    """What it saw there, one fact each: the taint and what tolerates it, the label, the amounts."""

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


@dataclass(frozen=True, slots=True)
class Reason:
    """How many targets one filter rules out for one reason, of those that the filters before let pass."""

    filter: str
    reason: str
    count: int
