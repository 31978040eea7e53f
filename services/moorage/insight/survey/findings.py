"""Findings of a survey: what needs attention, and its remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    UNKNOWN = "unknown"
    """It could not be checked, for example for lack of permission."""

    WARNING = "warning"
    """Moorage works, but something needs attention."""

    ERROR = "error"
    """Moorage does not work, or not safely."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    level: Level
    check: str
    """The subject of the check in a word or two, such as `clocks`."""

    message: str
    remedy: str = ""
    """The remedy, with the command where there is one. Empty if nothing is to be done."""

    def document(self) -> dict[str, str]:
        """Return the finding as JSON."""
        return {"level": self.level.value, "check": self.check, "message": self.message, "remedy": self.remedy}


def worst(findings: Iterable[Finding]) -> Level:
    """Return the highest level among findings; `OK` when there are none."""
    order = tuple(Level)
    return max((one.level for one in findings), key=order.index, default=Level.OK)
