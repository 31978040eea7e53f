"""Where the records of chains are: their offsets, by a hash of the chain's id.

A chain leads through records that are not the last of their keys, and through topics of which no table is kept. Of
each record there are sixteen bytes here, and only of records that may be asked for: those of chains that a table has a
record of, and those that are young, for what they lead to may be yet to come. Heartbeats make most records, and lead to
nothing; so this grows with the tables, and with what comes in an hour.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from moorage.query.tables import Tables
from moorage.runtime.service import GlobalView, Input
from moorage.simulation.explain.history import OF_FLEET, OF_TARGETS, WHOLE, Places
from moorage_schemas.topics import Topic

TOPICS: Final = (*WHOLE, *OF_FLEET, *OF_TARGETS)
"""The topics whose records are found here."""

YOUNG_SECONDS: Final = 3600.0
"""Seconds for which every record is kept, at least."""

_MASK: Final = (1 << 64) - 1
_ID: Final = "ce_id"
_CORRELATION: Final = "ce_correlationid"

Hashes = npt.NDArray[np.uint64]


class _Places:
    """The records of one partition."""

    __slots__ = ("hashes", "marks", "offsets")

    def __init__(self) -> None:
        self.hashes = array("Q")
        self.offsets = array("Q")
        self.marks = (0, 0)
        """The offsets from which on records were young at the last two sweeps."""

    def add(self, hashed: int, offset: int) -> None:
        self.hashes.append(hashed)
        self.offsets.append(offset)

    def find(self, wanted: Hashes) -> list[int]:
        found = np.isin(np.frombuffer(self.hashes, np.uint64), wanted)
        offsets: list[int] = np.frombuffer(self.offsets, np.uint64)[found].tolist()
        return offsets

    def sweep(self, live: Hashes) -> None:
        """Keep what is young, and the records of chains that are wanted."""
        hashes, offsets = np.frombuffer(self.hashes, np.uint64), np.frombuffer(self.offsets, np.uint64)
        keep = (offsets >= self.marks[0]) | np.isin(hashes, live)
        self.marks = (self.marks[1], int(offsets[-1]) + 1 if offsets.size else self.marks[1])
        kept = (array("Q", hashes[keep].tobytes()), array("Q", offsets[keep].tobytes()))
        del hashes, offsets
        self.hashes, self.offsets = kept


class ChainIndex(GlobalView):
    """Finds the records of chains.

    Args:
        tables: whose chains are wanted; they must be whole before anything is taken in here.
        now: the present, in seconds since the epoch.
    """

    def __init__(self, tables: Tables, now: float) -> None:
        self._tables = tables
        self._young = (now - YOUNG_SECONDS) * 1000
        self._places: dict[tuple[str, int], _Places] = {}

    def apply(self, record: Input) -> None:
        """Take a record in, whatever its age."""
        self._add(record.topic, record.partition, record.offset, record.meta.correlation.encode())

    def changed(self) -> Iterable[int] | None:
        """Nobody waits for changes."""
        return ()

    def fold(self, topic: Topic, record: Any) -> None:
        """Take a consumed record in, by its headers, if somebody may ask for it."""
        correlation = _correlation(record.headers)
        if correlation is None:
            return  # in structured mode, perhaps: nothing that Moorage writes
        if record.timestamp < self._young and not self._tables.has_chain(correlation.decode(errors="replace")):
            return
        self._add(topic, record.partition, record.offset, correlation)

    def _add(self, topic: Topic, partition: int, offset: int, correlation: bytes) -> None:
        place = (topic.short, partition)
        found = self._places.get(place)
        if found is None:
            found = self._places[place] = _Places()
        found.add(hash(correlation) & _MASK, offset)

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

    def sweep(self) -> Iterator[None]:
        """Drop what nobody will ask for, one partition at each step. To be done every half of `YOUNG_SECONDS`."""
        live = _hashes(correlation.encode() for correlation in self._tables.correlations())
        for place in list(self._places.values()):
            place.sweep(live)
            yield

    @property
    def size(self) -> int:
        """How many records are known here."""
        return sum(len(place.offsets) for place in self._places.values())


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
