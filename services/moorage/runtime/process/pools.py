"""Shares equal values, so that a million records that say the same keep it once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

V = TypeVar("V")

MOST: Final = 65_536
"""The number of distinct values that a pool remembers. Each rollout of a Deployment brings new labels, so without a
limit a pool would grow for as long as the process runs."""


class Pool(Generic[V]):
    """One object for each distinct value.

    A full pool forgets everything. Values that are in use stay with those who use them; equal values that come later
    share another object.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[Hashable, V] = {}

    def __len__(self) -> int:
        """The number of values that it remembers."""
        return len(self._known)

    def shared(self, key: Hashable, value: V) -> V:
        """Return the object for a value.

        Args:
            key: equal for equal values.
            value: the value, which is remembered if there is none for the key.
        """
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= self._most:
                self._known.clear()
            known = self._known[key] = value
        return known
