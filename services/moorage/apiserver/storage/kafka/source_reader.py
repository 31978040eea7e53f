"""Reads the topics that objects are built from, for as long as this gateway leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from aiokafka import TopicPartition

from moorage.apiserver.metrics import Metrics
from moorage.apiserver.storage.derivation import Derivation
from moorage.apiserver.storage.kafka.log_reader import LogReader
from moorage.apiserver.storage.tables import READ
from moorage.runtime.service import Input, Malformed
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import decode
from moorage_schemas.topics import RESOURCES, Topic

_log = structlog.get_logger(__name__)


class SourceReader:
    """Folds the records of the topics in `READ` into the tables of a derivation.

    Args:
        settings: Kafka's addresses.
        partitions: the number of partitions of each topic.
        derivation: gets the records.
        metrics: unreadable records are counted here.
        folded: called when records have been folded in.
        progress: called with positions read and in all, while a caller waits for the end.
    """

    def __init__(
        self,
        settings: Settings,
        partitions: int,
        derivation: Derivation,
        metrics: Metrics,
        *,
        folded: Callable[[], None],
        progress: Callable[[int, int], None],
    ) -> None:
        self._derivation = derivation
        self._metrics = metrics
        self._folded = folded
        self._topics: dict[str, Topic] = {topic.name(settings.topic_prefix): topic for topic in READ}
        self._own: set[tuple[int, int]] = set()
        self.reader = LogReader(
            settings,
            name=f"{settings.topic_prefix}.gateway-reader",
            what="its tables",
            tps=[TopicPartition(name, number) for name in self._topics for number in range(partitions)],
            take=self._take,
            progress=progress,
        )

    def written(self, partition: int, offset: int) -> None:
        """Note that a record of `resources` is this gateway's own. The tables contain it already, or a later one."""
        self._own.add((partition, offset))

    async def passed(self, ends: Mapping[TopicPartition, int]) -> None:
        """Return when records have been read that end before given offsets. Partitions of other topics are left out.

        Args:
            ends: the offset after the last record of each partition.
        """
        await self.reader.reach({tp: end for tp, end in ends.items() if tp.topic in self._topics})

    def _take(self, tp: TopicPartition, records: Sequence[Any]) -> None:
        topic = self._topics[tp.topic]
        inputs: list[Input] = []
        for record in records:
            if topic is RESOURCES and (tp.partition, record.offset) in self._own:
                self._own.discard((tp.partition, record.offset))
                continue
            found = decode(topic, record)
            if isinstance(found, Malformed):
                self._metrics.unreadable.labels(topic.short).inc()
                _log.error(
                    "gateway.record_skipped", topic=tp.topic, place=f"{tp.partition}@{record.offset}", why=found.message
                )
            else:
                inputs.append(found)
        if inputs:
            self._derivation.fold(inputs)
            self._folded()
