"""How long to wait before something is tried again."""

from __future__ import annotations

import random

FIRST = 0.2
MOST = 30.0


class Backoff:
    """Doubles the time with each failure in a row, up to a limit, and draws from its upper half.

    The draw (jitter) keeps many programs that failed at the same moment from trying again at the same moment.

    Args:
        first: seconds after the first failure.
        most: the longest time in seconds.
    """

    def __init__(self, first: float = FIRST, most: float = MOST) -> None:
        self._first = first
        self._most = most
        self._failures = 0

    def succeeded(self) -> None:
        """Begin with the shortest time again."""
        self._failures = 0

    def failed(self, at_least: float | None = None) -> float:
        """The seconds to wait after one more failure.

        Args:
            at_least: what the other side has asked for.
        """
        longest = min(self._first * 2.0 ** min(self._failures, 30), self._most)
        self._failures += 1
        drawn = random.uniform(longest / 2, longest)  # noqa: S311 - it spreads load, and protects nothing
        return max(drawn, at_least or 0.0)
