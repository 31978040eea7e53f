"""Notes every record of a round's topics as it becomes readable, and makes a history of them for the checker."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition
from tests.chaos.seeded.history import Acknowledged, Entry, History

from moorage.runtime.kafka.clients import clients
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import CLOCKS, TOPICS

Place = tuple[str, int, int]
"""Topic (short), partition, offset."""

_POLL_MS = 100
_PROMPT = 1.0
"""Seconds between a record's time and its being seen within which its transaction is taken to have ended at once:
three brokers are asked in turn, so that what is seen is less exact than the time the broker gave it."""

_RETRY = 0.2


@dataclass(frozen=True, slots=True)
class Noted:
    """A record, and when it was seen."""

    record: Any
    seen: float
    """Seconds since the epoch; 0 for what only the reading at the end has found."""


@dataclass(frozen=True, slots=True)
class Told:
    """Somebody outside was told that a write is accepted, and does not know its place: the key's last one by then."""

    time: float
    topic: str
    key: str


class Recorder:
    """Follows all topics of a prefix; an async context manager.

    Args:
        bootstrap: addresses that nothing harms.
        prefix: the topics' first part.
        partitions: how many each topic has.
        heard: called with each record as it is seen, and its topic's short name.
    """

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        partitions: int,
        heard: Callable[[str, Any], None] = lambda _topic, _record: None,
    ) -> None:
        self._settings = Settings(bootstrap_servers=bootstrap, topic_prefix=prefix, partitions=partitions)
        self._shorts = {topic.name(prefix): topic.short for topic in TOPICS}
        self._parts = [TopicPartition(name, number) for name in self._shorts for number in range(partitions)]
        self._heard = heard
        self._task: asyncio.Task[None] | None = None
        self._consumer: AIOKafkaConsumer | None = None
        self.noted: dict[Place, Noted] = {}
        self.taken = 0
        """How many of them compaction and retention had taken away by `complete`."""

        self.last = 0.0
        """When the last record was seen, of the monotonic clock. Measurements of clocks do not count: many processes
        never pause with them."""

    async def __aenter__(self) -> Self:
        self._consumer = await self._reader()
        self.last = time.monotonic()
        self._task = asyncio.create_task(self._follow(self._consumer), name="recorder")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._consumer is not None:
            await self._consumer.stop()

    async def _reader(self) -> AIOKafkaConsumer:
        consumer = clients.table_consumer(self._settings, client_id="tests-recorder")
        await consumer.start()
        consumer.assign(self._parts)
        await consumer.seek_to_beginning(*self._parts)
        return consumer

    async def _follow(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            # Brokers come and go meanwhile; the client finds them again.
            try:
                found = await consumer.getmany(timeout_ms=_POLL_MS)
            except Exception:  # noqa: BLE001 - whatever a fault makes of a fetch: the next one tries again
                await asyncio.sleep(_RETRY)
                continue
            seen = time.time()
            for records in found.values():
                for record in records:
                    self._note(record, seen)

    def _note(self, record: Any, seen: float) -> None:
        short = self._shorts[record.topic]
        place = (short, record.partition, record.offset)
        if place not in self.noted:
            self.noted[place] = Noted(record, seen)
            if short != CLOCKS.short:
                self.last = time.monotonic()
            self._heard(short, record)

    async def complete(self, seconds: float = 180.0) -> None:
        """Read everything once more from the beginning to the present end, with a reader that has seen no fault."""
        left: set[Place] = set()
        known = set(self.noted)
        async with asyncio.timeout(seconds):
            consumer = await self._reader()
            try:
                ends = await consumer.end_offsets(self._parts)
                while not all([await consumer.position(part) >= end for part, end in ends.items()]):
                    for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
                        for record in records:
                            self._note(record, 0.0)
                            left.add((self._shorts[record.topic], record.partition, record.offset))
            finally:
                await consumer.stop()
        self.taken = len(known - left)

    async def ends(self) -> Mapping[TopicPartition, int]:
        """The present ends of all partitions for readers of committed records."""
        consumer = self._consumer
        assert consumer is not None
        found: Mapping[TopicPartition, int] = await consumer.end_offsets(self._parts)
        return found

    async def until_still(self, still: float, seconds: float) -> bool:
        """Whether, within some time, nothing new came for a while and everything there was has been seen."""
        deadline = time.monotonic() + seconds
        ends: Mapping[TopicPartition, int] = {}
        since = time.monotonic()
        while time.monotonic() < deadline:
            # Ends count as well as records: what a transaction that hangs hides is not at rest.
            with contextlib.suppress(Exception):
                now = {
                    part: end for part, end in (await self.ends()).items() if self._shorts[part.topic] != CLOCKS.short
                }
                if now != ends:
                    ends, since = now, time.monotonic()
            if time.monotonic() - max(since, self.last) >= still and await self._caught_up(ends):
                return True
            await asyncio.sleep(_POLL_MS / 1000)
        return False

    async def _caught_up(self, ends: Mapping[TopicPartition, int]) -> bool:
        consumer = self._consumer
        assert consumer is not None
        with contextlib.suppress(Exception):
            return all([await consumer.position(part) >= end for part, end in ends.items()])
        return False

    def history(
        self,
        *,
        began: float,
        quiet: bool,
        skew: float,
        settings: Mapping[str, object],
        places: Iterable[Acknowledged],
        told: Iterable[Told],
    ) -> History:
        """What was noted, for the checker.

        Args:
            began: when the round began.
            quiet: whether everything came to rest.
            skew: seconds by which a clock was off.
            settings: the services' settings that are not the defaults.
            places: what writers of records were told.
            told: what writers of objects were told.
        """
        entries = self._entries()
        by_key: dict[tuple[str, str], list[Entry]] = {}
        for entry in entries:
            by_key.setdefault((entry.topic, entry.key), []).append(entry)
        acknowledged = list(places)
        for one in told:
            mine = [entry for entry in by_key.get((one.topic, one.key), ()) if entry.appended <= one.time]
            if mine:
                last = max(mine, key=lambda entry: entry.offset)
                acknowledged.append(Acknowledged(one.time, last.topic, last.partition, last.offset))
        return History(
            entries=entries,
            acknowledged=sorted(acknowledged, key=lambda one: one.time),
            exact=False,
            began=began,
            ended=time.time(),
            quiet=quiet,
            partitions=self._settings.partitions,
            skew=skew,
            settings=settings,
        )

    def _entries(self) -> list[Entry]:
        found: list[tuple[float, float, Place, Any]] = []
        readable: dict[tuple[str, int], float] = {}
        for place, noted in sorted(self.noted.items()):
            appended = noted.record.timestamp / 1000
            committed = noted.seen if noted.seen > appended + _PROMPT else appended
            # In a partition a record can be read no sooner than the one before it.
            committed = max(committed, readable.get(place[:2], 0.0))
            readable[place[:2]] = committed
            found.append((committed, appended, place, noted.record))
        found.sort(key=lambda one: one[:3])
        return [
            Entry(
                topic=place[0],
                partition=place[1],
                offset=place[2],
                key=(record.key or b"").decode("utf-8", "replace"),
                value=record.value,
                headers={name: (value or b"").decode("utf-8", "replace") for name, value in record.headers},
                appended=appended,
                committed=committed,
                order=order,
            )
            for order, (committed, appended, place, record) in enumerate(found)
        ]
