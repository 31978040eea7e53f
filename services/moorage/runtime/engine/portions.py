"""Work on many keys, cut into portions, so that no call and no transaction grows with the size of the fleet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sized
from typing import Final

from moorage.runtime.engine.isolation import isolated

RECORDS: Final = 1000
"""The number of records after which a call adds no more work, so that its transaction stays small and ends soon."""

FIRINGS: Final = 5000
"""The number of timers that fire in one call. Each takes about ten microseconds, so a call stays below a tenth of a
second. Transactions of this size are written twice as fast as those of a thousand records.
"""

CHECKS: Final = 1000
"""The maximum number of keys to check in one call: tens of milliseconds, during which nothing else runs."""


class PendingChecks:
    """Keys that are checked one after another, over several calls.

    A key is checked with the state at its turn.
    """

    def __init__(self) -> None:
        self._left: OrderedDict[str, None] = OrderedDict()  # a dict finds its first key slowly once many are removed

    def __bool__(self) -> bool:
        """Return whether any key is left to check."""
        return bool(self._left)

    def __contains__(self, key: str) -> bool:
        """Return whether a key is left to check."""
        return key in self._left

    def begin(self, keys: Iterable[str]) -> None:
        """Start with these keys, in this order. Keys that are left of an earlier sweep are dropped."""
        self._left = OrderedDict.fromkeys(keys)

    def portion(self, written: Sized, *, checks: int = CHECKS, records: int = RECORDS) -> Iterator[str]:
        """Yield the next keys, until enough are checked or enough is written.

        Args:
            written: the records of this call. The caller adds to it between two keys.
            checks: the maximum number of keys.
            records: the number of records after which no further key is yielded.
        """
        yield from isolated(self._next(written, checks, records))

    def _next(self, written: Sized, checks: int, records: int) -> Iterator[str]:
        while self._left and checks > 0 and len(written) < records:
            checks -= 1
            yield self._left.popitem(last=False)[0]
