"""Where the records of chains are: their offsets, by a hash of the chain's id.

A chain leads through records that are not the last of their keys, and through topics of which no table is kept. Of
each record there are twenty-four bytes here, and only of records that may be asked for: those of chains that a table
has a record of, and those that are young, for what they lead to may be yet to come. Heartbeats make most records. A
report that changes nothing leads to nothing; the timer that watches its source fires and is set again in one chain for
as long as the source is heard, so of one key in one chain only the last records count. So this grows with the tables,
and with what comes in an hour.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from moorage.query.tables import QueryTables
from moorage.runtime.service import GlobalView, Input
from moorage.simulation.explain.history import OF_FLEET, OF_TARGETS, WHOLE, Places
from moorage_schemas.topics import Topic

TOPICS: Final = (*WHOLE, *OF_FLEET, *OF_TARGETS)
"""The topics whose records are found here."""

YOUNG_SECONDS: Final = 3600.0
"""Seconds for which every record is kept, at least."""

_OF_ONE_KEY: Final = 64
"""Records of one key in one chain that are kept once they are old, the last ones: a chain is told in fewer steps."""

_MASK: Final = (1 << 64) - 1
_NEVER: Final = (1 << 63) - 1  # no offset
_ID: Final = "ce_id"
_CORRELATION: Final = "ce_correlationid"

Hashes = npt.NDArray[np.uint64]


class _Places:
    """The records of one partition."""

    __slots__ = ("_chains", "_keys", "_marks", "_offsets")

    def __init__(self) -> None:
        self._chains = array("Q")
        self._keys = array("Q")
        self._offsets = array("Q")
        self._marks = (_NEVER, _NEVER)
        """The offsets from which on records were young at the last two sweeps; at first those of the beginning."""

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

    def sweep(self, live: Hashes, *, ages: bool) -> None:
        """Keep what is young, and the last records of each key in chains that are wanted."""
        chains, keys, offsets = map(_numbers, (self._chains, self._keys, self._offsets))
        keep = (offsets >= self._marks[0]) | (np.isin(chains, live) & _last_of_each(chains ^ keys, _OF_ONE_KEY))
        if ages and offsets.size and self._marks[0] != _NEVER:
            self._marks = (self._marks[1], int(offsets[-1]) + 1)
        kept = [array("Q", column[keep].tobytes()) for column in (chains, keys, offsets)]
        del chains, keys, offsets  # an array that is looked at cannot grow
        self._chains, self._keys, self._offsets = kept


class ChainIndex(GlobalView):
    """Finds the records of chains.

    Args:
        tables: whose chains are wanted; they must be whole before anything is taken in here.
        now: the present, in seconds since the epoch.
    """

    def __init__(self, tables: QueryTables, now: float) -> None:
        self._tables = tables
        self._young = (now - YOUNG_SECONDS) * 1000
        self._places: dict[tuple[str, int], _Places] = {}

    def apply(self, record: Input) -> None:
        """Take a record in, whatever its age."""
        place = (record.topic.short, record.partition)
        self._add(place, record.meta.correlation.encode(), record.key.encode(), record.offset, young=True)

    def changed(self) -> Iterable[int] | None:
        """Nobody waits for changes."""
        return ()

    def fold(self, topic: Topic, record: Any) -> None:
        """Take a consumed record in, by its headers, if somebody may ask for it."""
        correlation = _correlation(record.headers)
        if correlation is None:
            return  # in structured mode, perhaps: nothing that Moorage writes
        young = record.timestamp >= self._young
        if young or self._tables.has_chain(correlation.decode(errors="replace")):
            self._add((topic.short, record.partition), correlation, record.key or b"", record.offset, young=young)

    def _add(self, place: tuple[str, int], correlation: bytes, key: bytes, offset: int, *, young: bool) -> None:
        found = self._places.get(place)
        if found is None:
            found = self._places[place] = _Places()
        found.add(hash(correlation) & _MASK, hash(key) & _MASK, offset, young=young)

    def find(self, places: Places, wanted: Iterable[bytes]) -> dict[tuple[Topic, int], list[int]]:
        """The offsets of the records of some chains, ascending; some may be of others with the same hash.

        Args:
            places: where they are looked for.
            wanted: the ids of the chains.
        """
        hashes = _hashes(wanted)
        found = {}
        for topic, partitions in places.items():
            for partition in partitions:
                known = self._places.get((topic.short, partition))
                if known is not None and (offsets := known.find(hashes)):
                    found[topic, partition] = offsets
        return found

    def sweep(self, *, ages: bool = True) -> Iterator[None]:
        """Drop what nobody will ask for, one partition at each step.

        Args:
            ages: whether what was young is older now; to be done so every half of `YOUNG_SECONDS`.
        """
        live = _hashes(correlation.encode() for correlation in self._tables.correlations())
        for place in list(self._places.values()):
            place.sweep(live, ages=ages)
            yield

    @property
    def size(self) -> int:
        """How many records are known here."""
        return sum(map(len, self._places.values()))


def _correlation(headers: Iterable[tuple[str, bytes]]) -> bytes | None:
    """The id of a record's chain: the record's own when it began one."""
    own = None
    for name, value in headers:
        if name == _CORRELATION and value:
            return value
        if name == _ID:
            own = value
    return own


def _hashes(ids: Iterable[bytes]) -> Hashes:
    return np.fromiter((hash(one) & _MASK for one in ids), np.uint64)


def _numbers(column: array[int]) -> Hashes:
    """An array as numpy sees it, without a copy."""
    return np.frombuffer(column, np.uint64)


def _last_of_each(values: Hashes, count: int) -> npt.NDArray[np.bool_]:
    """Which entries have fewer than `count` equal ones behind them."""
    order = np.argsort(values, kind="stable")
    _, starts, sizes = np.unique(values[order], return_index=True, return_counts=True)
    behind = np.repeat(starts + sizes, sizes) - np.arange(values.size) - 1
    found = np.empty(values.size, dtype=np.bool_)
    found[order] = behind < count
    return found


def spans_of(offsets: Iterable[int], gap: int) -> list[range]:
    """Ranges that hold all of some ascending offsets, each with no more than `gap` others between two of them."""
    spans: list[range] = []
    for offset in offsets:
        if spans and offset - spans[-1].stop <= gap:
            spans[-1] = range(spans[-1].start, offset + 1)
        else:
            spans.append(range(offset, offset + 1))
    return spans


def rounds_of(places: Mapping[tuple[Topic, int], Iterable[int]], gap: int) -> Iterator[dict[tuple[Topic, int], range]]:
    """What is to be read in turn: of each partition one range at a time."""
    spans = {place: spans_of(offsets, gap) for place, offsets in places.items()}
    for turn in range(max(map(len, spans.values()), default=0)):
        yield {place: mine[turn] for place, mine in spans.items() if turn < len(mine)}
