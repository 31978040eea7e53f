"""The taints of all clusters as arrays, updated cluster by cluster, with instants as whole microseconds.

A placement's tolerations are matched once with each distinct taint, and the result is looked up for all clusters at
once. So the first placement with some tolerations does not visit every cluster.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from moorage_schemas.taint import Taint

FOREVER: Final = 2**63 - 1
"""An end that never comes."""

NEVER: Final = -(2**63)
"""An end before all times."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(instant: datetime) -> int:
    """Convert an instant to microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=4096)
def instant(us: int) -> datetime | None:
    """Convert microseconds since 1970 to an instant. None if it is outside the calendar."""
    try:
        return _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return None


TaintKind = tuple[str, str, str]
"""Key, value and effect: everything about a taint that tolerations are matched with."""

NO_TAINT: Final = 0
"""The code of a place without a taint."""

NOT_ADDED: Final = NEVER
"""The time of a taint without `timeAdded`."""

_PLACES: Final = 8
"""The number of taints of a cluster that are kept in arrays. A cluster with more is `crowded`."""


class TaintTable:
    """A code for each taint of each cluster, and the time at which it was added.

    Args:
        capacity: the number of rows.
    """

    def __init__(self, capacity: int) -> None:
        self.codes: NDArray[np.int32] = np.zeros((0, capacity), dtype=np.int32)
        """The code of the taint in each place (first axis) of each row; `NO_TAINT` where there is none."""

        self.added: NDArray[np.int64] = np.zeros((0, capacity), dtype=np.int64)
        """When that taint was added, in microseconds since 1970; `NOT_ADDED` if unknown."""

        self.crowded: set[int] = set()
        """The rows with more taints than there are places. They have no codes."""

        self._kinds: list[Taint | None] = [None]
        self._code_of: dict[TaintKind, int] = {}
        self._uses: list[int] = [0]
        self._free: list[int] = []

    def __len__(self) -> int:
        """Return the number of distinct taints."""
        return len(self._code_of)

    @property
    def kinds(self) -> list[Taint | None]:
        """An example of each distinct taint. The index is the code; None for a code that is not used."""
        return self._kinds

    def put(self, row: int, taints: tuple[Taint, ...]) -> None:
        """Replace the taints of a row."""
        for code in self.codes[:, row].tolist():
            if code != NO_TAINT:
                self._release(code)
        self.codes[:, row] = NO_TAINT
        self.crowded.discard(row)
        if len(taints) > _PLACES:
            self.crowded.add(row)
            return
        if len(taints) > len(self.codes):
            more = ((0, len(taints) - len(self.codes)), (0, 0))
            self.codes, self.added = np.pad(self.codes, more), np.pad(self.added, more)
        for place, taint in enumerate(taints):
            self.codes[place, row] = self._code(taint)
            self.added[place, row] = NOT_ADDED if taint.time_added is None else microseconds(taint.time_added)

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        more = ((0, 0), (0, capacity - self.codes.shape[1]))
        self.codes, self.added = np.pad(self.codes, more), np.pad(self.added, more)

    def _code(self, taint: Taint) -> int:
        kind = (taint.key, taint.value, taint.effect)
        code = self._code_of.get(kind)
        if code is None:
            if self._free:
                code = self._free.pop()
                self._kinds[code] = taint
            else:
                code = len(self._kinds)
                self._kinds.append(taint)
                self._uses.append(0)
            self._code_of[kind] = code
        self._uses[code] += 1
        return code

    def _release(self, code: int) -> None:
        """Count one use of a taint less. A taint that no cluster has left is dropped."""
        self._uses[code] -= 1
        taint = self._kinds[code]
        if not self._uses[code] and taint is not None:
            del self._code_of[taint.key, taint.value, taint.effect]
            self._kinds[code] = None
            self._free.append(code)
