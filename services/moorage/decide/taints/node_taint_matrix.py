"""The taints of all nodes as packed bitsets, to find the nodes that fit a workload's tolerations.

Each distinct taint has a row of bits, with one bit for each node that carries the taint. A workload's tolerations
become one bit mask over the distinct taints, combined from cached masks of the single tolerations. The nodes that do
not fit are then the union of the rows of the remaining taints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from moorage.decide.taints.dialects.kubernetes import KUBERNETES, EffectRules
from moorage.decide.taints.matching import tolerates
from moorage_schemas.taint import Taint, Toleration

Words = npt.NDArray[np.uint64]
"""A bitset over node slots: bit `slot % 64` of word `slot // 64`."""

_WORD: Final = 64
_REMEMBERED: Final = 2**16
"""The maximum number of cached masks of single tolerations. When it is reached, the cache is cleared."""

_NO_MARKS: Final[frozenset[int]] = frozenset()
"""Most nodes have no taints. They share this set."""

_TolerationKey = tuple[str, str, str, str]
_TaintKey = tuple[str, str, str]


def _bits_of(words: Words, count: int) -> npt.NDArray[np.bool_]:
    """Return the first `count` bits as booleans."""
    return np.unpackbits(words.astype("<u8", copy=False).view(np.uint8), count=count, bitorder="little").astype(
        np.bool_
    )


class _Plane:
    """The distinct taints of some effects, and which nodes carry them."""

    def __init__(self, effects: Collection[str], *, comparison: bool, strict: bool) -> None:
        self.effects = frozenset(effects)
        self.comparison = comparison
        self.strict = strict
        self.rows: Words = np.zeros((8, 1), dtype=np.uint64)
        self.present = 0
        """An integer with a bit for each taint id in use."""
        self._ids: dict[_TaintKey, int] = {}
        self._taints: list[Taint | None] = []
        self._uses: list[int] = []
        self._free: list[int] = []
        self._by_key: dict[str, set[int]] = {}
        self._masks: dict[_TolerationKey, int] = {}

    def widen(self, words: int) -> None:
        """Make room for `words` words of nodes."""
        grown = np.zeros((self.rows.shape[0], words), dtype=np.uint64)
        grown[:, : self.rows.shape[1]] = self.rows
        self.rows = grown

    def number_of(self, key: _TaintKey) -> int | None:
        """Return the id of a taint. None if no node carries it."""
        return self._ids.get(key)

    def add(self, taint: Taint, slot: int) -> int:
        """Add the taint to the node in `slot`. Returns the taint's id."""
        key = (taint.key, taint.value, taint.effect)
        number = self._ids.get(key)
        if number is None:
            number = self._intern(key, taint)
        self.rows[number, slot // _WORD] |= np.uint64(1 << (slot % _WORD))
        self._uses[number] += 1
        return number

    def remove(self, number: int, slot: int) -> None:
        """Remove taint `number` from the node in `slot`. A taint that no node carries is dropped."""
        self.rows[number, slot // _WORD] &= ~np.uint64(1 << (slot % _WORD))
        self._uses[number] -= 1
        taint = self._taints[number]
        if self._uses[number] == 0 and taint is not None:
            del self._ids[(taint.key, taint.value, taint.effect)]
            self._taints[number] = None
            self.present &= ~(1 << number)
            self._free.append(number)
            siblings = self._by_key[taint.key]
            siblings.discard(number)
            if not siblings:
                del self._by_key[taint.key]
            # The id may be reused for another taint, which cached masks must not cover.
            self._masks.clear()

    def _intern(self, key: _TaintKey, taint: Taint) -> int:
        if self._free:
            number = self._free.pop()
            self._taints[number] = taint
        else:
            number = len(self._taints)
            self._taints.append(taint)
            self._uses.append(0)
            if number >= self.rows.shape[0]:
                self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        self._ids[key] = number
        self.present |= 1 << number
        self._by_key.setdefault(taint.key, set()).add(number)
        self._masks.clear()
        return number

    def _mask(self, toleration: Toleration) -> int:
        """Return the ids of the taints that this toleration matches, as bits."""
        numbers: Iterable[int] = self._by_key.get(toleration.key, ()) if toleration.key else self._ids.values()
        mask = 0
        for number in numbers:
            taint = self._taints[number]
            if taint is not None and tolerates(toleration, taint, comparison=self.comparison, strict=self.strict):
                mask |= 1 << number
        return mask

    def left_over(self, tolerations: Iterable[Toleration]) -> int:
        """Return the ids of the taints that no toleration matches, as bits."""
        masks = self._masks
        tolerated = 0
        for toleration in tolerations:
            key = (toleration.key, toleration.operator, toleration.value, toleration.effect)
            mask = masks.get(key)
            if mask is None:
                if len(masks) >= _REMEMBERED:
                    masks.clear()
                mask = masks[key] = self._mask(toleration)
            tolerated |= mask
        return self.present & ~tolerated

    def rows_of(self, mask: int) -> Words:
        """Return the rows of the ids in `mask`."""
        size = len(self._taints)
        packed = np.frombuffer(mask.to_bytes((size + 7) // 8, "little"), dtype=np.uint8)
        chosen: Words = self.rows[:size][np.unpackbits(packed, count=size, bitorder="little").astype(np.bool_)]
        return chosen

    def union(self, mask: int) -> Words:
        """Return the nodes that carry any of the taints in `mask`."""
        joined: Words = np.bitwise_or.reduce(self.rows_of(mask), axis=0)
        return joined


class TaintMatrix:
    """The taints of many nodes, updated node by node and queried by tolerations.

    Each node has a slot, and the slot of a removed node is reused. Two taints of one node with the same key, value and
    effect count as one (validation refuses them). Taints whose effect neither filters nor scores in the dialect are not
    kept.

    Args:
        dialect: defines which effects filter and which score.
        comparison: whether `Gt` and `Lt` are allowed, as for `matching.tolerates`.
        strict: as for `matching.tolerates`.
    """

    def __init__(self, dialect: EffectRules = KUBERNETES, *, comparison: bool = True, strict: bool = True) -> None:
        self._filter = _Plane(dialect.filtering, comparison=comparison, strict=strict)
        self._score = _Plane(dialect.scoring, comparison=comparison, strict=strict)
        self._slots: dict[str, int] = {}
        self._names: list[str | None] = []
        self._free: list[int] = []
        self._marks: list[tuple[frozenset[int], frozenset[int]]] = []
        self._live: Words = np.zeros(1, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, name: object) -> bool:
        return name in self._slots

    @property
    def slots(self) -> int:
        """The number of slots, which is the length of the results of `fits` and `prefer_counts`."""
        return len(self._names)

    def slot_of(self, name: str) -> int:
        """Return the slot of a node. Raises KeyError if there is no such node."""
        return self._slots[name]

    def set_node(self, name: str, taints: Iterable[Taint]) -> None:
        """Add a node, or replace its taints. Only differences are applied."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._take_slot(name)
        filters, scores = self._marks[slot]
        kept = tuple(taints)
        self._marks[slot] = (
            self._replace(self._filter, slot, filters, kept),
            self._replace(self._score, slot, scores, kept),
        )

    def remove_node(self, name: str) -> None:
        """Remove a node. Raises KeyError if there is no such node."""
        slot = self._slots.pop(name)
        filters, scores = self._marks[slot]
        for number in filters:
            self._filter.remove(number, slot)
        for number in scores:
            self._score.remove(number, slot)
        self._marks[slot] = (_NO_MARKS, _NO_MARKS)
        self._names[slot] = None
        self._live[slot // _WORD] &= ~np.uint64(1 << (slot % _WORD))
        self._free.append(slot)

    @staticmethod
    def _replace(plane: _Plane, slot: int, before: frozenset[int], taints: tuple[Taint, ...]) -> frozenset[int]:
        wanted = {(t.key, t.value, t.effect): t for t in taints if t.effect in plane.effects}
        after = set()
        for key, taint in wanted.items():
            number = plane.number_of(key)
            # Add only taints that are new on this node, so that use counts stay correct.
            after.add(number if number is not None and number in before else plane.add(taint, slot))
        for number in before - after:
            plane.remove(number, slot)
        return frozenset(after) if after else _NO_MARKS

    def _take_slot(self, name: str) -> int:
        if self._free:
            slot = self._free.pop()
            self._names[slot] = name
        else:
            slot = len(self._names)
            self._names.append(name)
            self._marks.append((_NO_MARKS, _NO_MARKS))
            if slot >= self._live.size * _WORD:
                width = self._live.size * 2
                self._live = np.concatenate([self._live, np.zeros_like(self._live)])
                self._filter.widen(width)
                self._score.widen(width)
        self._slots[name] = slot
        self._live[slot // _WORD] |= np.uint64(1 << (slot % _WORD))
        return slot

    def _width(self) -> int:
        """Return the number of words in use. Rows are wider, to allow growth."""
        return (len(self._names) + _WORD - 1) // _WORD

    def fits_words(self, tolerations: Iterable[Toleration]) -> Words:
        """Return the nodes without an untolerated filtering taint, as a bitset over slots."""
        bad = self._filter.union(self._filter.left_over(tolerations))
        words: Words = (self._live & ~bad)[: self._width()]
        return words

    def fits(self, tolerations: Iterable[Toleration]) -> npt.NDArray[np.bool_]:
        """Return the same as booleans, one for each slot. False for a free slot."""
        return _bits_of(self.fits_words(tolerations), len(self._names))

    def prefer_counts(self, tolerations: Iterable[Toleration]) -> npt.NDArray[np.int64]:
        """Return the number of untolerated scoring taints of the node in each slot."""
        rows = self._score.rows_of(self._score.left_over(tolerations))
        bits = np.unpackbits(
            np.ascontiguousarray(rows.astype("<u8", copy=False)).view(np.uint8), axis=1, bitorder="little"
        )
        counts: npt.NDArray[np.int64] = bits.sum(axis=0, dtype=np.int64)[: len(self._names)]
        return counts

    def names(self, words: Words) -> list[str]:
        """Return the names of the nodes in a bitset, sorted."""
        chosen = np.flatnonzero(_bits_of(words, len(self._names)))
        return sorted(name for slot in chosen if (name := self._names[slot]) is not None)
