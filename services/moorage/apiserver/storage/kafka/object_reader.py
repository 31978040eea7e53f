"""Reads the object log into the store: all of it at the start, and then each new record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from aiokafka import TopicPartition

from moorage.apiserver.metrics import Metrics
from moorage.apiserver.storage.kafka.log_reader import LogReader
from moorage.apiserver.storage.object_log import LoggedRecord
from moorage.apiserver.storage.store import Store
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import FLEET, OBJECTS, WATCHABLE_MS, partition_of

_MARGIN_MS: Final = WATCHABLE_MS // 6
"""Milliseconds by which fewer changes are known than Kafka keeps, for clocks that differ, and for the read itself."""


def object_partition(settings: Settings, partitions: int) -> TopicPartition:
    """Return the partition of the object log."""
    return TopicPartition(OBJECTS.name(settings.topic_prefix), partition_of(FLEET, partitions))


class ObjectReader:
    """Keeps the store up to date with the object log.

    Changes of the last hour are recorded in the store's history, so that watches resume from before this process began.
    Kafka keeps all records of that time (`min.compaction.lag.ms`).
    """

    def __init__(self, settings: Settings, partitions: int, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._progress = "connecting to Kafka"
        self._tp = object_partition(settings, partitions)
        self._reader = LogReader(
            settings,
            name=f"{settings.topic_prefix}.gateway-objects",
            what="the objects",
            tps=[self._tp],
            take=self._take,
            progress=self._note_progress,
        )
        self.read_to_ends = self._reader.read_to_ends
        self.close = self._reader.close
        self.run = self._reader.run
        self.obstacle = self._reader.obstacle

    def progress(self) -> str:
        """Return the progress of the first read, as text."""
        return self._progress

    async def start(self) -> None:
        """Connect, and find out from where on changes are to be recorded.

        Raises:
            KafkaError: Kafka does not answer.
        """
        await self._reader.start()
        since = round(time.time() * 1000) - WATCHABLE_MS + _MARGIN_MS
        found = (await self._reader.consumer.offsets_for_times({self._tp: since})).get(self._tp)
        if found is None:  # no record is as young as that
            found_offset = (await self._reader.consumer.end_offsets([self._tp]))[self._tp]
        else:
            found_offset = found.offset
        self._store.history.begin(found_offset)

    async def catch_up(self) -> None:
        """Return when all records that were in the log at the time of the call have been applied to the store.

        Raises:
            KafkaError: Kafka does not answer.
        """
        await self._reader.catch_up()
        self._store.caught_up = True
        self._store.history.wake()  # requests may wait for the store to be ready
        self._progress = "ready" if self._store.ready else "waiting until a gateway has written all objects"
        self._metrics.restored.set(1)

    def _take(self, _: TopicPartition, records: Sequence[Any]) -> None:
        self._store.apply(
            LoggedRecord(record.offset, (record.key or b"").decode(errors="replace"), record.value)
            for record in records
        )

    def _note_progress(self, read: int, total: int) -> None:
        if not self._store.caught_up:
            fraction = read / total if total else 1.0
            self._metrics.restored.set(fraction)
            self._progress = f"reading the objects: {read} of {total} positions ({fraction:.0%})"
