"""Reads older records of chains by their offsets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from moorage.insight.explain.chain import EventRecord
from moorage.insight.explain.history import Places, TopicScan, Window
from moorage.insight.query.chain_index import ChainIndex, rounds_of, spans_of
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import Topic

_GAP: Final = 2_000
"""The gap between two records up to which the records between them are read, too. Skipping them takes as long."""

_MOST: Final = 2_000
"""The largest number of records of chains that are read from one partition. The latest are read."""

Freshen = Callable[[Collection[Topic]], Awaitable[bool]]
"""Reads topics into the index, up to what is committed now. Returns False while the index is incomplete."""


class IndexedHistory:
    """See `OlderRecords`. Only one reading takes place at a time.

    Args:
        settings: the address of Kafka.
        index: the offsets of the records.
        freshen: adds to the index what has been committed last.
    """

    def __init__(self, settings: Settings, index: ChainIndex, freshen: Freshen) -> None:
        self._settings = settings
        self._index = index
        self._freshen = freshen
        self._scan: TopicScan | None = None
        self._turn = asyncio.Lock()

    async def of_chains(self, places: Places, wanted: frozenset[bytes]) -> Sequence[EventRecord]:
        """See `OlderRecords`. While the index is incomplete, whole topics are searched."""
        if not await self._freshen(tuple(places)):
            async with self._reading() as scan:
                return await scan.of_chains(places, wanted)
        known = {place: offsets[-_MOST:] for place, offsets in self._index.find(places, wanted).items()}
        found: list[EventRecord] = []
        if known:
            async with self._reading() as scan:
                for spans in rounds_of(known, _GAP):
                    found += await scan.between(spans, wanted)
        return found

    async def reports(self, windows: Iterable[Window], wanted: frozenset[bytes]) -> Sequence[EventRecord]:
        """See `OlderRecords`."""
        async with self._reading() as scan:
            return await scan.reports(windows, wanted)

    async def of_key(self, topic: Topic, partition: int, key: str) -> Sequence[EventRecord]:
        """See `OlderRecords`. While the index is incomplete, the whole partition is searched."""
        if not await self._freshen((topic,)):
            async with self._reading() as scan:
                return await scan.of_key(topic, partition, key)
        found: list[EventRecord] = []
        spans = spans_of(self._index.find_key(topic, partition, key), _GAP)
        if spans:
            async with self._reading() as scan:
                for span in spans:
                    found += await scan.of_key(topic, partition, key, span)
        return found

    async def close(self) -> None:
        """Disconnect."""
        async with self._turn:
            await self._give_up()

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[TopicScan]:
        """Provide a connection, which is kept. After an error the next reading gets a new one."""
        async with self._turn:
            if self._scan is None:
                self._scan = TopicScan(self._settings)
            try:
                yield self._scan
            except BaseException:
                await self._give_up()
                raise

    async def _give_up(self) -> None:
        scan, self._scan = self._scan, None
        if scan is not None:
            await scan.close()
