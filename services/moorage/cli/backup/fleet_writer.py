"""Writes an exported fleet into topics, in one transaction: a reader sees all of it or nothing.

So a restore that is killed leaves a fleet that is still empty, and can be run again. Services and gateways that start
meanwhile read nothing of it. If one of them writes something, the restore notices it before it commits, and gives up.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidTransactionTimeout, KafkaError, for_code
from aiokafka.producer.message_accumulator import BatchBuilder

from moorage.cli.backup.fleet_reader import first_used, groups_of, learn_topics
from moorage.cli.backup.restore_plan import PlacedRecord, RestorePlan
from moorage.cli.backup.saved_record import SavedRecord
from moorage.cli.backup.saved_topics import SAVED, WHOLE
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.read_to_end import CONNECT_SECONDS
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.resource import ResourceDeclared, resource_key
from moorage_schemas.resources.budgets import EvictionPauseSpec
from moorage_schemas.times import format_time
from moorage_schemas.topics import CONDITION_REPORTS, OBJECTS, RESOURCES, TOPICS, Topic

TRANSACTION_MS: Final = 15 * 60 * 1000
"""How long a restore may take. It is Kafka's default for `transaction.max.timeout.ms`."""

_START_SECONDS: Final = 30.0
_SENT: Final = 64  # batches that are on their way at a time
_DELETED_WITHIN: Final = 60.0  # seconds
_POLL: Final = 0.2  # seconds
_UNKNOWN: Final = frozenset({3})

Progress = Callable[[int], None]
"""Called with the number of records that were sent."""


class RestoreError(Exception):
    """The fleet cannot be restored. The message has the reason and a remedy."""


async def check_unused(settings: Settings) -> None:
    """Check that no service runs, and that nothing was written to the topics, reports excepted.

    Raises:
        RestoreError: a consumer group has members, or a topic has records.
        KafkaError: Kafka does not answer, or refuses.
    """
    await check_stopped(settings)
    # Probes may report already. Their reports are processed after those of the file.
    used = await first_used(settings, [topic for topic in (*SAVED, OBJECTS) if topic is not CONDITION_REPORTS])
    if used:
        raise RestoreError(
            f"the fleet is not empty: {settings.topic_prefix}.{used}.v1 has records. "
            "Choose another MOORAGE_TOPIC_PREFIX, or pass --replace to delete this fleet first."
        )


async def check_stopped(settings: Settings) -> None:
    """Check that no service of the fleet runs.

    Raises:
        RestoreError: a consumer group has members.
        KafkaError: Kafka does not answer, or refuses.
    """
    async with clients.administration(settings, client_id="moorage-restore") as admin:
        groups = await groups_of(admin, settings)
        for group in groups:
            for answer in await admin.describe_consumer_groups([group]):
                for _, name, state, _, _, members, *_ in answer.groups:
                    if members:
                        raise RestoreError(
                            f"{name} has {len(members)} member{'s' * (len(members) != 1)} ({state}). "
                            "Stop all services and the gateway before a restore."
                        )


async def delete_fleet(settings: Settings) -> None:
    """Delete all topics of a fleet, and wait until they are deleted.

    Raises:
        RestoreError: a topic cannot be deleted.
        KafkaError: Kafka does not answer, or refuses.
    """
    names = {topic.name(settings.topic_prefix) for topic in TOPICS}
    async with clients.administration(settings, client_id="moorage-restore") as admin:
        present = [one["topic"] for one in await admin.describe_topics(sorted(names)) if not one["error_code"]]
        if not present:
            return
        answer = await admin.delete_topics(present)
        for name, code, *_ in answer.topic_error_codes:
            if code and code not in _UNKNOWN:
                raise RestoreError(f"topic {name} cannot be deleted: {for_code(code).__name__}")
        loop = asyncio.get_running_loop()
        until = loop.time() + _DELETED_WITHIN
        while [one for one in await admin.describe_topics(present) if one["error_code"] not in _UNKNOWN]:
            if loop.time() > until:
                raise RestoreError(f"the topics were not deleted within {_DELETED_WITHIN:g} s. Run it again.")
            await asyncio.sleep(_POLL)


class FleetWriter:
    """One restore. An async context manager: without `commit`, nothing is written.

    Raises:
        RestoreError: Kafka does not allow so long a transaction, or another program has written to the topics.
        KafkaError: Kafka does not answer, or refuses.
        TimeoutError: Kafka does not answer.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.model_copy(update={"transaction_timeout_ms": TRANSACTION_MS})
        self._producer: AIOKafkaProducer = clients.transactional_producer(
            self._settings, transactional_id=f"{settings.topic_prefix}.restore"
        )
        self._ends: AIOKafkaConsumer = clients.table_consumer(
            settings, client_id="moorage-restore", committed_only=False
        )
        self._names = {topic: topic.name(settings.topic_prefix) for topic in (*SAVED, OBJECTS)}
        self._begun: dict[TopicPartition, int] = {}
        self._batches: dict[TopicPartition, BatchBuilder] = {}
        self._counts: defaultdict[TopicPartition, int] = defaultdict(int)
        self._sent: list[tuple[TopicPartition, int, asyncio.Future[Any]]] = []
        self._is_open = False
        self.partitions = 0
        """The number of partitions of the topics."""

    async def __aenter__(self) -> Self:
        counts = await ensure_topics(self._settings)
        self.partitions = next(iter(counts.values()))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._ends.start()
            async with asyncio.timeout(_START_SECONDS):
                await self._producer.start()
        except InvalidTransactionTimeout:
            await self._stop()
            raise RestoreError(
                f"the brokers' transaction.max.timeout.ms is below {TRANSACTION_MS}: raise it for the restore"
            ) from None
        except BaseException:
            await self._stop()
            raise
        await self._fence_gateways()
        learn_topics(self._ends, self._places)
        self._begun = await self._read_ends()
        await self._producer.begin_transaction()
        self._is_open = True
        return self

    async def _fence_gateways(self) -> None:
        """Take the writes over from a gateway that still runs. Its next write makes it read everything again."""
        gateway = clients.transactional_producer(
            self._settings, transactional_id=f"{self._settings.topic_prefix}.gateway"
        )
        async with asyncio.timeout(_START_SECONDS):
            await gateway.start()
        await gateway.stop()

    async def __aexit__(self, *_: object) -> None:
        if self._is_open:
            with contextlib.suppress(KafkaError, TimeoutError, OSError):
                await self._producer.abort_transaction()
        await self._stop()

    async def _stop(self) -> None:
        for one in (self._producer, self._ends):
            with contextlib.suppress(KafkaError, TimeoutError, OSError):
                await one.stop()

    async def write(
        self, records: Iterable[SavedRecord], plan: RestorePlan, progress: Progress, *, paused: datetime | None = None
    ) -> int:
        """Send the records of a file. Returns their number.

        Args:
            records: those of the file, in its order.
            plan: gives them their places.
            progress: called with the number of records that were sent.
            paused: also write a pause of all evictions, created at this time.
        """
        count = 0
        if paused is not None:
            pause = pause_of(paused)
            await self._send(plan.add(pause, pause.name))
        for placed in _placed(records, plan):
            await self._send(placed)
            count += 1
            progress(count)
        for tp, batch in self._batches.items():
            await self._close(tp, batch)
        self._batches.clear()
        await self._confirm(0)
        return count

    async def commit(self, positions: Mapping[str, Mapping[tuple[Topic, int], int]]) -> None:
        """Write the positions of the groups, and end the transaction.

        Args:
            positions: for each group without the prefix, how many of the written records of a partition it has
        processed.
        """
        for group, places in positions.items():
            offsets = {tp: self._offset(topic, tp, count) for topic, tp, count in self._tps(places)}
            if offsets:
                await self._producer.send_offsets_to_transaction(offsets, f"{self._settings.topic_prefix}.{group}")
        await self._check_alone()
        await check_stopped(self._settings)
        await self._producer.commit_transaction()
        self._is_open = False

    def _tps(self, places: Mapping[tuple[Topic, int], int]) -> Iterator[tuple[Topic, TopicPartition, int]]:
        for (topic, partition), count in places.items():
            yield topic, TopicPartition(self._names[topic], partition), count

    def _offset(self, topic: Topic, tp: TopicPartition, count: int) -> int:
        # Of the other topics, only what is unprocessed is written, after what others may have written before.
        return self._begun[tp] + count if topic in WHOLE else 0

    async def _send(self, placed: PlacedRecord) -> None:
        record, tp = placed.record, TopicPartition(self._names[placed.record.topic], placed.partition)
        while True:
            batch = self._batches.get(tp)
            if batch is None:
                batch = self._batches[tp] = self._producer.create_batch()
            found = batch.append(
                timestamp=record.timestamp, key=record.key, value=record.value, headers=list(record.headers)
            )
            if found is not None:
                return
            del self._batches[tp]
            await self._close(tp, batch)

    async def _close(self, tp: TopicPartition, batch: BatchBuilder) -> None:
        batch.close()
        self._sent.append(
            (tp, self._counts[tp], await self._producer.send_batch(batch, tp.topic, partition=tp.partition))
        )
        self._counts[tp] += batch.record_count()
        await self._confirm(_SENT)

    async def _confirm(self, left: int) -> None:
        """Wait until at most some batches are on their way."""
        reports = self._names[CONDITION_REPORTS]
        while len(self._sent) > left:
            tp, at, delivered = self._sent.pop(0)
            offset = (await delivered).offset
            if tp.topic != reports and offset != self._begun[tp] + at:
                raise self._disturbed(tp)

    async def _check_alone(self) -> None:
        """Check that nothing but this restore has written to the topics."""
        for tp, end in (await self._read_ends()).items():
            if tp.topic != self._names[CONDITION_REPORTS] and end != self._begun[tp] + self._counts[tp]:
                raise self._disturbed(tp)

    def _disturbed(self, tp: TopicPartition) -> RestoreError:
        return RestoreError(
            f"another program has written to {tp.topic}: nothing was restored. "
            "Stop all services and the gateway, and run it again."
        )

    async def _read_ends(self) -> dict[TopicPartition, int]:
        return dict(await self._ends.end_offsets(self._places))

    @property
    def _places(self) -> list[TopicPartition]:
        return [TopicPartition(name, part) for name in self._names.values() for part in range(self.partitions)]


PAUSE: Final = "restore"
"""The name of the pause that a restore adds."""


def pause_of(now: datetime) -> SavedRecord:
    """Return the declaration of a pause of all evictions, as the gateway writes one."""
    key = resource_key("EvictionPause", "", PAUSE)
    uid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{key} {format_time(now)}"))
    created = format_time(now.replace(microsecond=0))
    metadata = {"name": PAUSE, "uid": uid, "creationTimestamp": created, "generation": 1}
    spec = EvictionPauseSpec(reason="the fleet was restored; `moorage resume evictions` ends this").model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    declared = ResourceDeclared(
        object={"apiVersion": "moorage.io/v1alpha1", "kind": "EvictionPause", "metadata": metadata, "spec": spec},
        version=1,
    )
    meta = Meta(id=event_id(key, uid, 1), source="moorage/restore", type=RESOURCES.event_type, time=now, subject=key)
    value, stamp = declared.model_dump_json().encode(), int(now.timestamp() * 1000)
    return SavedRecord(RESOURCES, 0, 0, stamp, key.encode(), value, tuple(to_headers(meta)))


def _placed(records: Iterable[SavedRecord], plan: RestorePlan) -> Iterator[PlacedRecord]:
    for record in records:
        placed = plan.take(record)
        if placed is not None:
            yield placed
    yield from plan.rest()
