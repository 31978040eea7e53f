"""Reads from Kafka what becomes of reports, for callers who wait for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from moorage.apiserver.storage.durable_log import Decided, Following, RefusedLater, ReportCounted, Unrecorded, Write
from moorage.runtime.kafka.clients import clients
from moorage.runtime.service import Malformed
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import decode
from moorage_schemas.condition import ConditionChanged, ConditionReported
from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.keys import condition_key, workload_condition_key
from moorage_schemas.topics import (
    CONDITION_REPORTS,
    CONDITIONS,
    DEAD_LETTERS,
    WORKLOAD_CONDITIONS,
    Topic,
    partition_of,
)

_log = structlog.get_logger(__name__)

AT_ONCE: Final = 16
"""How many callers may wait at a time. Each has a connection to Kafka. Others are not made to wait."""

FOLLOWED: tuple[Topic, ...] = (CONDITIONS, WORKLOAD_CONDITIONS, DEAD_LETTERS)
"""The topics with the outcomes of reports."""

INGEST: Final = "condition-ingest"
"""The service whose progress is looked up."""

_POLL_MS: Final = 100
_LOOK: Final = 0.3
"""Seconds between two looks at how far condition-ingest has read."""

_CONNECT: Final = 3.0


class KafkaReportOutcomes:
    """Follows reports of a fleet in Kafka (`ReportOutcomes`)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._following = 0
        self.partitions = 0
        """The number of partitions of each topic. 0 while it is not known."""

    @contextlib.asynccontextmanager
    async def follow(self, writes: Sequence[Write]) -> AsyncIterator[Following | None]:
        """Follow reports that are about to be written. None if that is not possible now."""
        if not self.partitions or self._following >= AT_ONCE:
            yield None
            return
        self._following += 1
        following = _KafkaFollowing(self._settings, self.partitions, writes)
        try:
            try:
                async with asyncio.timeout(_CONNECT):
                    await following.start()
            except (KafkaError, OSError, TimeoutError) as error:
                _log.warning("report_outcomes.not_followed", why=repr(error))
                yield None
            else:
                yield following
        finally:
            self._following -= 1
            await following.stop()


class _KafkaFollowing:
    """Follows reports that are written to Kafka."""

    def __init__(self, settings: Settings, partitions: int, writes: Sequence[Write]) -> None:
        self._settings = settings
        self._writes = writes
        self._numbers = [partition_of(write.partition_key, partitions) for write in writes]
        self._group = f"{settings.topic_prefix}.{INGEST}"
        self._topics = {topic.name(settings.topic_prefix): topic for topic in FOLLOWED}
        letters = {partition_of(write.key, partitions) for write in writes}
        self._parts = [
            TopicPartition(topic.name(settings.topic_prefix), number)
            for topic, numbers in ((CONDITIONS, self._numbers), (WORKLOAD_CONDITIONS, self._numbers))
            for number in sorted(set(numbers))
        ] + [TopicPartition(DEAD_LETTERS.name(settings.topic_prefix), number) for number in sorted(letters)]
        client = f"{settings.topic_prefix}.gateway-outcomes"
        self._consumer: AIOKafkaConsumer = clients.table_consumer(settings, client_id=client)
        self._admin: AIOKafkaAdminClient = clients.admin_client(settings, client_id=client)
        self._found: dict[int, Decided] = {}
        self._latest: dict[tuple[Topic, str], Any] = {}
        """The last record of each condition that was written since the start."""

    async def start(self) -> None:
        """Connect, and note the present ends of what is to be read."""
        await asyncio.gather(self._consumer.start(), self._admin.start())
        self._consumer.assign(self._parts)
        for tp, end in (await self._consumer.end_offsets(self._parts)).items():
            self._consumer.seek(tp, end)

    async def stop(self) -> None:
        """Disconnect."""
        await asyncio.gather(self._consumer.stop(), self._admin.close(), return_exceptions=True)

    async def decided(self, offsets: Sequence[int], seconds: float) -> list[Decided | None]:
        """Return what was decided about each report. None for those without a decision in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                try:
                    await self._all_decided(offsets)
                except (KafkaError, OSError) as error:
                    _log.warning("report_outcomes.not_followed", why=repr(error))
        return [self._found.get(index) for index in range(len(self._writes))]

    async def _all_decided(self, offsets: Sequence[int]) -> None:
        clock = asyncio.get_running_loop().time
        looked = clock()
        while len(self._found) < len(self._writes):
            await self._read(offsets)
            if clock() - looked < _LOOK:
                continue
            looked = clock()
            committed = await self._committed()
            ends = await self._consumer.end_offsets(self._parts)
            while any([await self._consumer.position(tp) < end for tp, end in ends.items()]):
                await self._read(offsets)
            for index, (number, offset) in enumerate(zip(self._numbers, offsets, strict=True)):
                if index not in self._found and committed.get(number, 0) > offset:
                    # A record of condition-ingest about it would have been read by now.
                    self._found[index] = Unrecorded(self._latest.get(self._condition(index)))

    async def _read(self, offsets: Sequence[int]) -> None:
        places = {(number, offset): i for i, (number, offset) in enumerate(zip(self._numbers, offsets, strict=True))}
        # Of reports with the same id the first one counts.
        ids = {(self._condition(i), self._writes[i].meta.id): i for i in reversed(range(len(self._writes)))}
        for tp, records in (await self._consumer.getmany(timeout_ms=_POLL_MS)).items():
            topic = self._topics[tp.topic]
            for record in records:
                found = decode(topic, record)
                if isinstance(found, Malformed):
                    continue
                event = found.event
                if isinstance(event, DeadLettered):
                    index = places.get((event.partition, event.offset))
                    if event.topic == CONDITION_REPORTS.short and index is not None:
                        self._found[index] = RefusedLater(event)
                elif isinstance(event, ConditionChanged):
                    condition = (topic, found.key)
                    self._latest[condition] = event
                    if (index := ids.get((condition, event.report_id))) is not None:
                        self._found[index] = ReportCounted()

    async def _committed(self) -> dict[int, int]:
        """Return how far condition-ingest has read, by partition."""
        name = CONDITION_REPORTS.name(self._settings.topic_prefix)
        tps = [TopicPartition(name, number) for number in sorted(set(self._numbers))]
        found = await self._admin.list_consumer_group_offsets(self._group, partitions=tps)
        return {tp.partition: entry.offset for tp, entry in found.items()}

    def _condition(self, index: int) -> tuple[Topic, str]:
        """Return the topic and key of the record of the condition that a report is about."""
        report = self._writes[index].event
        if not isinstance(report, ConditionReported):
            raise TypeError("only reports are followed")
        if report.workload is not None:
            return WORKLOAD_CONDITIONS, workload_condition_key(report.workload, report.target.key, report.type)
        return CONDITIONS, condition_key(report.target, report.type)
