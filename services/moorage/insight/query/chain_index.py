"""An index of the records of chains: their offsets by a hash of the chain's id.

A chain has records that are not the last of their keys, and records in topics of which no table is kept. The index has
24 bytes for each record that may be requested: those of chains with a record in a table, and young ones, whose effects
may be still to come. Heartbeats make most records. A report that changes nothing has no effects. The timer that watches
its source is set again and again in one chain, as long as the source reports, so only the last records of one key in
one chain are kept. Therefore the index grows only with the tables and with the records of an hour.

A taint may have begun some records of its target's taints ago, in a chain of which no table has a record now. So
the last records of each target's taints are kept whatever their chains are.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from moorage.insight.explain.history import BY_KEY, OF_FLEET, OF_TARGETS, WHOLE, Places
from moorage.insight.query.query_tables import QueryTables, correlation_of
from moorage.runtime.service import GlobalView, Input
from moorage_schemas.topics import Topic

TOPICS: Final = (*WHOLE, *OF_FLEET, *OF_TARGETS)
"""The topics whose records are in the index."""

YOUNG_SECONDS: Final = 3600.0
"""Seconds for which at least every record is kept."""

_OF_ONE_KEY: Final = 64
"""How many old records of one key in one chain are kept, the last ones. An explanation needs fewer."""

_EARLIER: Final = 16
"""How many records of a key are kept of the topics that are searched by keys, the last ones."""

_MASK: Final = (1 << 64) - 1
_NEVER: Final = (1 << 63) - 1  # no offset

Hashes = npt.NDArray[np.uint64]


class _Places:
    """The records of one partition."""

    __slots__ = ("_chains", "_keys", "_marks", "_offsets")

    def __init__(self) -> None:
        self._chains = array("Q")
        self._keys = array("Q")
        self._offsets = array("Q")
        self._marks = (_NEVER, _NEVER)
        """The offsets from which records were young at the last two sweeps. At first, the beginnings."""

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, chain: int, key: int, offset: int, *, young: bool) -> None:
        if young and self._marks[0] == _NEVER:
            self._marks = (offset, offset)
        self._chains.append(chain)
        self._keys.append(key)
        self._offsets.append(offset)

    def find(self, wanted: Hashes) -> list[int]:
        found = np.isin(_numbers(self._chains), wanted)
        offsets: list[int] = _numbers(self._offsets)[found].tolist()
        return offsets

    def find_key(self, key: int) -> list[int]:
        offsets: list[int] = _numbers(self._offsets)[_numbers(self._keys) == np.uint64(key)].tolist()
        return offsets

    def sweep(self, live: Hashes, *, ages: bool, by_key: bool) -> None:
        """Keep young records, and the last records of each key in wanted chains, or in any."""
        chains, keys, offsets = map(_numbers, (self._chains, self._keys, self._offsets))
        keep = (offsets >= self._marks[0]) | (np.isin(chains, live) & _last_of_each(chains ^ keys, _OF_ONE_KEY))
        if by_key:
            keep |= _last_of_each(keys, _EARLIER)
        if ages and offsets.size and self._marks[0] != _NEVER:
            self._marks = (self._marks[1], int(offsets[-1]) + 1)
        kept = [array("Q", column[keep].tobytes()) for column in (chains, keys, offsets)]
        del chains, keys, offsets  # an array cannot grow while there is a view of it
        self._chains, self._keys, self._offsets = kept


class ChainIndex(GlobalView):
    """Finds the records of chains.

    Args:
        tables: the tables whose chains are wanted. They must be complete before records are added here.
        now: the present time, in seconds since the epoch.
    """

    def __init__(self, tables: QueryTables, now: float) -> None:
        self._tables = tables
        self._young = (now - YOUNG_SECONDS) * 1000
        self._places: dict[tuple[str, int], _Places] = {}

    def apply(self, record: Input) -> None:
        """Accept records of any age."""
        place = (record.topic.short, record.partition)
        self._add(place, record.meta.correlation.encode(), record.key.encode(), record.offset, young=True)

    def changed(self) -> Iterable[int] | None:
        """Return nothing, because nothing waits for changes."""
        return ()

    def fold(self, topic: Topic, record: Any) -> None:
        """Add a consumed record by its headers, if it may be requested."""
        correlation = correlation_of(record.headers)
        if correlation is None:
            return  # it may be in structured mode, which Moorage never writes
        young = record.timestamp >= self._young
        if young or topic in BY_KEY or self._tables.has_chain(correlation.decode(errors="replace")):
            self._add((topic.short, record.partition), correlation, record.key or b"", record.offset, young=young)

    def _add(self, place: tuple[str, int], correlation: bytes, key: bytes, offset: int, *, young: bool) -> None:
        found = self._places.get(place)
        if found is None:
            found = self._places[place] = _Places()
        found.add(hash(correlation) & _MASK, hash(key) & _MASK, offset, young=young)

    def find(self, places: Places, wanted: Iterable[bytes]) -> dict[tuple[Topic, int], list[int]]:
        """Return the ascending offsets of the records of some chains. Some may belong to chains with the same hash."""
        hashes = _hashes(wanted)
        found = {}
        for topic, partitions in places.items():
            for partition in partitions:
                known = self._places.get((topic.short, partition))
                if known is not None and (offsets := known.find(hashes)):
                    found[topic, partition] = offsets
        return found

    def find_key(self, topic: Topic, partition: int, key: str) -> list[int]:
        """Return the ascending offsets of the last records of a key. Some may belong to keys with the same hash.

        Args:
            topic: one of `BY_KEY`.
            partition: the partition of the key.
            key: the key.
        """
        known = self._places.get((topic.short, partition))
        return known.find_key(hash(key.encode()) & _MASK) if known is not None else []

    def sweep(self, *, ages: bool = True) -> Iterator[None]:
        """Drop records that will not be requested, one partition at each step.

        Args:
            ages: whether young records become old. Call it with True once every half of `YOUNG_SECONDS`.
        """
        live = _hashes(correlation.encode() for correlation in self._tables.correlations())
        by_key = {topic.short for topic in BY_KEY}
        for (short, _), place in list(self._places.items()):
            place.sweep(live, ages=ages, by_key=short in by_key)
            yield

    @property
    def size(self) -> int:
        """The number of records in the index."""
        return sum(map(len, self._places.values()))


def _hashes(ids: Iterable[bytes]) -> Hashes:
    return np.fromiter((hash(one) & _MASK for one in ids), np.uint64)


def _numbers(column: array[int]) -> Hashes:
    """Return a numpy view of an array, without a copy."""
    return np.frombuffer(column, np.uint64)


def _last_of_each(values: Hashes, count: int) -> npt.NDArray[np.bool_]:
    """Return which entries have fewer than `count` equal ones after them."""
    order = np.argsort(values, kind="stable")
    _, starts, sizes = np.unique(values[order], return_index=True, return_counts=True)
    behind = np.repeat(starts + sizes, sizes) - np.arange(values.size) - 1
    found = np.empty(values.size, dtype=np.bool_)
    found[order] = behind < count
    return found


def spans_of(offsets: Iterable[int], gap: int) -> list[range]:
    """Return ranges that contain all given ascending offsets, with at most `gap` others between two of them."""
    spans: list[range] = []
    for offset in offsets:
        if spans and offset - spans[-1].stop <= gap:
            spans[-1] = range(spans[-1].start, offset + 1)
        else:
            spans.append(range(offset, offset + 1))
    return spans


def rounds_of(places: Mapping[tuple[Topic, int], Iterable[int]], gap: int) -> Iterator[dict[tuple[Topic, int], range]]:
    """Yield what to read in turn: one range of each partition at a time."""
    spans = {place: spans_of(offsets, gap) for place, offsets in places.items()}
    for turn in range(max(map(len, spans.values()), default=0)):
        yield {place: mine[turn] for place, mine in spans.items() if turn < len(mine)}
