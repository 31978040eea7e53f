"""The rows of the nodes on which an owner has pods, kept up to date while its pods are placed one after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from moorage.decide.scheduling.nodes.fleet import Fleet, Rows

_OWNERS: Final = 32
"""The number of owners whose rows are kept. Placement works on one owner of each partition at a time."""


class _Kept:
    def __init__(self, comings: int, rows: list[int]) -> None:
        self.comings = comings
        self.size = len(rows)
        self.rows: Rows = np.zeros(max(16, 2 * self.size), dtype=np.intp)
        self.rows[: self.size] = rows


class ReplicaRows:
    """For each owner, one row for each of its pods on a known node.

    Args:
        fleet: the nodes.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._kept: dict[str, _Kept] = {}

    @property
    def kept(self) -> int:
        """The number of owners whose rows are kept."""
        return len(self._kept)

    def of(self, owner: str, nodes: Iterable[str]) -> Rows:
        """Return the rows of an owner, in any order. They are valid until the next change.

        Args:
            owner: the owner's key.
            nodes: the nodes of all of its pods, which are read only if its rows are not kept.
        """
        fleet = self._fleet
        kept = self._kept.get(owner)
        if kept is None or kept.comings != fleet.comings:
            if len(self._kept) >= _OWNERS:
                self._kept.clear()
            kept = self._kept[owner] = _Kept(fleet.comings, [fleet.row_of(name) for name in nodes if name in fleet])
        return kept.rows[: kept.size]

    def add(self, owner: str, node: str) -> None:
        """Note a pod of an owner on a node."""
        kept = self._present(owner, node)
        if kept is None:
            return
        if kept.size == kept.rows.size:
            kept.rows = np.concatenate([kept.rows, np.zeros_like(kept.rows)])
        kept.rows[kept.size] = self._fleet.row_of(node)
        kept.size += 1

    def remove(self, owner: str, node: str) -> None:
        """Note that an owner has one pod less on a node."""
        kept = self._present(owner, node)
        if kept is None:
            return
        place = int((kept.rows[: kept.size] == self._fleet.row_of(node)).argmax())
        kept.size -= 1
        kept.rows[place] = kept.rows[kept.size]

    def _present(self, owner: str, node: str) -> _Kept | None:
        """Return the kept rows of an owner, if they are valid and the node is known."""
        kept = self._kept.get(owner)
        known = kept is not None and kept.comings == self._fleet.comings and node in self._fleet
        return kept if known else None
