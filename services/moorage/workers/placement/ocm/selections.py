"""The clusters that each placement has selected, as bits: one row for each placement, one column for each cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

import numpy as np

from moorage.decide.scheduling.ocm.columns.column import Mask
from moorage.decide.scheduling.ocm.columns.fleet import ManagedFleet

_FIRST: Final = 64
T = TypeVar("T")


class Selections(Generic[T]):
    """The clusters of each placement. With 10,000 placements and 1,000 clusters it always takes about a megabyte.

    Args:
        fleet: gives each name its row.
    """

    def __init__(self, fleet: ManagedFleet) -> None:
        self._fleet = fleet
        self._who: list[T | None] = []
        self._free: list[int] = []
        self._bits = np.zeros((_FIRST, (fleet.capacity + 7) // 8), dtype=np.uint8)

    def enter(self, who: T) -> int:
        """Return a place for a new entry that has no clusters yet."""
        if self._free:
            place = self._free.pop()
            self._who[place] = who
        else:
            place = len(self._who)
            self._who.append(who)
            if place >= len(self._bits):
                self._bits = np.concatenate([self._bits, np.zeros_like(self._bits)])
        return place

    def leave(self, place: int) -> None:
        """Release a place."""
        self._who[place] = None
        self._bits[place] = 0
        self._free.append(place)

    def put(self, place: int, names: Iterable[str]) -> None:
        """Set the clusters of a place. Names that the fleet does not know are left out."""
        rows = self._fleet.rows_of(names)
        width = (self._fleet.capacity + 7) // 8
        if width > self._bits.shape[1]:
            more = np.zeros((len(self._bits), width - self._bits.shape[1]), dtype=np.uint8)
            self._bits = np.concatenate([self._bits, more], axis=1)
        mask = np.zeros(8 * self._bits.shape[1], dtype=np.bool_)
        mask[rows] = True
        self._bits[place] = np.packbits(mask)

    @property
    def selected(self) -> Mask:
        """The clusters that at least one entry has."""
        bits = np.unpackbits(np.bitwise_or.reduce(self._bits, axis=0))
        found = np.zeros(self._fleet.capacity, dtype=np.bool_)
        found[: bits.size] = bits[: found.size]
        return found

    def having(self, row: int) -> Iterator[T]:
        """Yield the entries that have the cluster of a row."""
        if row // 8 >= self._bits.shape[1]:
            return
        for place in np.flatnonzero(self._bits[:, row // 8] & (128 >> row % 8)).tolist():
            who = self._who[place]
            if who is not None:
                yield who
