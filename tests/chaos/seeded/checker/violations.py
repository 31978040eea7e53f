"""What the checker finds, and the tolerances for what it cannot know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that must not be."""

    invariant: str
    """Which promise was broken: the name of the function that found it."""

    where: str
    """The record or the key that shows it."""

    message: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Allowances:
    """Seconds that are allowed for on top of the history's own clock skew."""

    slack: float | None = None
    """Between what became readable and a decision that must know of it. None takes 50 ms for an exact history, and
    2 s for one that has only the timestamps of records, which come before the end of their transaction."""

    follow: float = 0.05
    """The same for what a service follows without waiting for it: pauses, budgets."""

    view: float = 0.35
    """The same for the nodes that placement sees when it places nothing new: one partition of a fetch may come later
    than the others, by up to 0.3 s (`Faults.fetch_slow_seconds`), and then it waits for none."""

    lateness: float = 5.0
    """By which, after quiet, whatever is due must have been done."""
