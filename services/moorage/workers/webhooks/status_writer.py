"""Writes the statuses of webhooks to `webhook-statuses`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final

import structlog
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.process.clock import Clock
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.webhooks.deliveries import NAME
from moorage.workers.webhooks.status import DeliveryProgress, is_news, missed_since, record_of, status_of
from moorage.workers.webhooks.subscription import Subscription
from moorage.workers.webhooks.view import Webhooks, generation_of
from moorage_schemas.topics import WEBHOOK_STATUSES, partition_of
from moorage_schemas.webhook_status import WebhookStatusChanged

_log = structlog.get_logger(__name__)

EVERY: Final = 10.0
"""Seconds between two checks for changes."""

_TIMEOUT: Final = 10.0  # seconds that Kafka may take to answer


class StatusWriter:
    """Writes the statuses of all declared webhooks.

    Args:
        progress: the results of this worker's attempts, by the uid of the webhook.
    """

    def __init__(
        self, settings: Settings, clock: Clock, view: Webhooks, progress: Mapping[str, DeliveryProgress]
    ) -> None:
        self._settings, self._clock, self._view, self._progress = settings, clock, view, progress
        self._offsets: Offsets | None = None
        self._producer: AIOKafkaProducer | None = None
        self._task: asyncio.Task[None] | None = None
        self._disabled: dict[tuple[str, int], datetime] = {}
        """When receivers answered 410 Gone, by the uid and the generation of their webhook."""

        self._missed: dict[tuple[str, int], datetime] = {}
        self._orphans: set[str] = set()
        """Statuses whose webhook was not declared at the last check."""

    def start(self, offsets: Offsets) -> None:
        """Begin to write. The webhooks have been read."""
        self._offsets = offsets
        self._task = asyncio.create_task(self._write_forever(), name="webhook-statuses")

    async def stop(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._producer is not None:
            with suppress(KafkaError):
                await self._producer.stop()

    async def check_gap(self, subscription: Subscription) -> None:
        """Note whether no worker has read for a webhook for longer than Kafka keeps deletions."""
        key = f"Webhook//{subscription.name}"
        declared = self._view.declared.get(key)
        try:
            has_offsets = bool(await self._committed(subscription.group(self._settings.topic_prefix), subscription))
        except (KafkaError, OSError, TimeoutError):
            has_offsets = False
        now = self._clock.now()
        since = missed_since(
            self._view.statuses.get(key), subscription.uid, subscription.created, now, has_offsets=has_offsets
        )
        if since is not None and declared is not None:
            self._missed[subscription.uid, generation_of(declared)] = since
            _log.error("webhook.deletions_missed", webhook=subscription.name, since=since.isoformat())

    async def disable(self, key: str, uid: str, generation: int) -> None:
        """Write that a receiver has answered 410 Gone. Returns when that is durable."""
        self._disabled.setdefault((uid, generation), self._clock.now())
        declared = self._view.declared.get(key)
        while declared is not None and declared.uid == uid and generation_of(declared) == generation:
            if await self._write(key):
                return
            await asyncio.sleep(1)
            declared = self._view.declared.get(key)

    async def _write_forever(self) -> None:
        while True:
            for key in sorted(self._view.declared):
                await self._write(key)
            orphans = self._view.statuses.keys() - self._view.declared.keys()
            # Another worker may read a new webhook first, so a status is removed only when it was seen twice.
            for key in sorted(orphans & self._orphans):
                await self._send(key, None)
            self._orphans = set(orphans)
            await asyncio.sleep(EVERY)

    async def _write(self, key: str) -> bool:
        """Write the status of a webhook if it is new. Return whether the present one is durable."""
        declared = self._view.declared.get(key)
        if declared is None:
            return True
        uid, generation, known = declared.uid, generation_of(declared), self._view.statuses.get(key)
        status = status_of(
            uid,
            generation,
            self._progress.get(uid, DeliveryProgress()),
            known,
            backlog=await self._backlog(key, known),
            now=self._clock.now(),
            disabled=self._disabled.get((uid, generation)),
            missed=self._missed.get((uid, generation)),
        )
        return not is_news(status, known) or await self._send(key, status)

    async def _backlog(self, key: str, known: WebhookStatusChanged | None) -> int:
        """Return the number of records left for a webhook, or the former number if Kafka does not answer."""
        former = known.backlog if known is not None else 0
        subscription = self._view.subscription(key)
        if subscription is None or self._offsets is None:
            return former
        try:
            async with asyncio.timeout(_TIMEOUT):
                committed = await self._committed(subscription.group(self._settings.topic_prefix), subscription)
                ends = await self._offsets.stable(committed)
        except (KafkaError, OSError, TimeoutError):
            return former
        return sum(max(0, ends[place] - offset) for place, offset in committed.items())

    async def _committed(self, group: str, subscription: Subscription) -> dict[TopicPartition, int]:
        if self._offsets is None:
            return {}
        places = [
            TopicPartition(topic.name(self._settings.topic_prefix), number)
            for topic in subscription.topics
            for number in range(self._settings.partitions)
        ]
        return await self._offsets.committed(group, places)

    async def _send(self, key: str, status: WebhookStatusChanged | None) -> bool:
        by, record_key, value, headers = record_of(key, status, self._clock.now())
        try:
            if self._producer is None:
                client_id = f"moorage-{NAME}-{uuid.uuid4().hex[:12]}"
                producer = clients.reports_producer(self._settings, client_id=client_id, timeout_ms=15_000)
                await producer.start()
                self._producer = producer
            await self._producer.send_and_wait(
                WEBHOOK_STATUSES.name(self._settings.topic_prefix),
                value,
                key=record_key,
                partition=partition_of(by, self._settings.partitions),
                headers=headers,
            )
        except (KafkaError, OSError) as error:
            _log.warning("webhook.status_not_written", webhook=key, error=describe(error, self._settings))
            return False
        return True
