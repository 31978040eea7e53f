"""The reading and sending of one webhook, in a consumer group of its own.

The offsets of the group state which deliveries are completed. A killed process has delivered more than its offsets
state. So the next reader sends its last events again, with the same ids.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from prometheus_client import Counter, Gauge, Histogram
from pydantic import ValidationError

from moorage.runtime.kafka.admin.broker_times import broker_times, session_timeout
from moorage.runtime.kafka.clients import clients
from moorage.runtime.process import metrics
from moorage.runtime.process.clock import Clock
from moorage.runtime.settings import environment
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.webhooks.deliveries import NAME, TOPICS, Delivery, delivery_of, letter_of, replayed, written_at
from moorage.workers.webhooks.lanes import Lanes
from moorage.workers.webhooks.sender import Outcome, Sender
from moorage.workers.webhooks.status import DeliveryProgress
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.envelope import EnvelopeError
from moorage_schemas.resources.webhook import WebhookReplay, WebhookSpec
from moorage_schemas.topics import DEAD_LETTERS, Topic, partition_of

ATTEMPTS = Counter("moorage_webhook_attempts_total", "Attempts to send an event to a webhook", ["webhook", "outcome"])
SECONDS = Histogram("moorage_webhook_attempt_seconds", "Seconds that an attempt took", ["webhook"])
WAITING = Gauge("moorage_webhook_waiting", "Events that were read for a webhook and are not delivered yet", ["webhook"])
FAILING_SINCE = Gauge(
    "moorage_webhook_failing_since_seconds",
    "Unix time of the first failed attempt since the last success; 0 while attempts succeed",
    ["webhook"],
)


def forget(webhook: str) -> None:
    """Remove the series of a webhook that no longer exists."""
    for outcome in ("delivered", "failed"):
        with contextlib.suppress(KeyError):
            ATTEMPTS.remove(webhook, outcome)
    for metric in (SECONDS, WAITING, FAILING_SINCE):
        with contextlib.suppress(KeyError):
            metric.remove(webhook)


class Position:
    """The position of a partition.

    Args:
        offset: the next offset to read.
    """

    def __init__(self, offset: int) -> None:
        self.next = offset
        """The next offset to read. Records below it have been read already."""

        self._open: deque[int] = deque()
        self._completed: set[int] = set()

    @property
    def committable(self) -> int:
        """The offset below which every delivery is completed."""
        while self._open and self._open[0] in self._completed:
            self._completed.discard(self._open.popleft())
        return self._open[0] if self._open else self.next

    def read(self, offset: int) -> bool:
        """Note that a record was read. Returns whether it is a new one."""
        if offset < self.next:
            return False
        self.next = offset + 1
        return True

    def begin(self, offset: int) -> None:
        """Note that the record at an offset is on its way. It was the last to be read."""
        self._open.append(offset)

    def end(self, offset: int) -> None:
        """Note that the record at an offset has been delivered or given up."""
        self._completed.add(offset)


_log = structlog.get_logger(__name__)

_MOST_WAITING: Final = 1000
"""Events of a webhook that wait in memory. No more are read until some are completed."""

_BATCH: Final = 200  # records of one read
_POLL_MS: Final = 200
_COMMIT_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 1.0  # until a dead letter that could not be written is tried again


@dataclass(frozen=True, slots=True)
class Subscription:
    """A webhook as it is declared, or a replay of it. Equal ones are the same."""

    name: str
    uid: str
    created: datetime
    """The time from which it is sent events."""

    spec: WebhookSpec
    replay: WebhookReplay | None = None
    """The replay to send, instead of new events."""

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics that it reads."""
        return (DEAD_LETTERS,) if self.replay is not None else tuple(TOPICS[event] for event in self.spec.events)

    @property
    def label(self) -> str:
        """Its label in metrics."""
        return self.name if self.replay is None else f"{self.name}/replay"

    @property
    def since(self) -> datetime:
        """The time at which it begins."""
        return self.created if self.replay is None else self.replay.since

    def group(self, prefix: str) -> str:
        """Return the name of its consumer group. Each new request for a replay has its own."""
        group = f"{prefix}.{NAME}.{self.uid}"
        return group if self.replay is None else f"{group}.{int(self.replay.until.timestamp() * 1000)}"

    def delivery(self, topic: Topic, record: Any, place: TopicPartition) -> Delivery | None:
        """Return the delivery of a record; None without one. Raises ValueError if the record is not an event."""
        if self.replay is not None:
            return replayed(self.name, self.uid, self.spec, self.replay, record, place=place)
        return delivery_of(
            self.spec, self.uid, topic, record, place=place, offset=record.offset, written=written_at(record)
        )


class Subscriber:
    """Sends a subscription its events until it is cancelled.

    Args:
        settings: the address of Kafka, and the folder of secrets.
    """

    def __init__(
        self, subscription: Subscription, settings: Settings, clock: Clock, progress: DeliveryProgress
    ) -> None:
        self._of = subscription
        self._progress = progress
        self._settings = settings
        self._clock = clock
        self._topics = {topic.name(settings.topic_prefix): topic for topic in subscription.topics}
        self._positions: dict[TopicPartition, Position] = {}
        self._committed: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Read and send.

        Raises:
            KafkaError: Kafka does not answer. The next run continues from the same offsets.
            ReceiverGoneError: the receiver has answered 410 Gone. Nothing is lost.
        """
        spec = self._of.spec
        folder = self._settings.webhook_secrets_dir or str(environment.state_folder() / "webhook-secrets")
        session_ms = session_timeout(self._settings, await broker_times(self._settings))
        client_id = f"moorage-{NAME}-{uuid.uuid4().hex[:12]}"
        producer = clients.reports_producer(self._settings, client_id=client_id, timeout_ms=15_000)
        consumer = clients.group_consumer(
            self._settings,
            group=self._of.group(self._settings.topic_prefix),
            client_id=client_id,
            assignor=RoundRobinPartitionAssignor,
            session_timeout_ms=session_ms,
        )
        sender = Sender(spec, folder, self._clock, ca_file=self._settings.webhook_ca_file)
        lanes = Lanes(
            send=lambda delivery: self._attempt(sender, delivery),
            give_up=lambda delivery, outcome, attempts: self._give_up(producer, delivery, outcome, attempts),
            done=self._done,
            retry_seconds=spec.retry_seconds,
            clock=self._clock,
        )
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(sender.close)
            stack.push_async_callback(producer.stop)
            stack.push_async_callback(consumer.stop)
            await producer.start()
            await consumer.start()
            stack.push_async_callback(self._leave, consumer, lanes)
            listener = _Listener(self, consumer, lanes)
            consumer.subscribe(topics=list(self._topics), listener=listener)
            await self._read(consumer, lanes, listener)

    async def _read(self, consumer: AIOKafkaConsumer, lanes: Lanes, listener: _Listener) -> None:
        committed = time.monotonic()
        while True:
            is_full = lanes.waiting >= _MOST_WAITING
            assigned = consumer.assignment()
            (consumer.pause if is_full else consumer.resume)(*(assigned & self._positions.keys()))
            batches = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_BATCH)
            if listener.failure is not None:
                raise listener.failure
            if lanes.failure is not None:
                raise lanes.failure
            for place, records in batches.items():
                for record in records:
                    self._take(place, record, lanes)
            WAITING.labels(self._of.label).set(lanes.waiting)
            if time.monotonic() - committed >= _COMMIT_SECONDS:
                committed = time.monotonic()
                await self._commit(consumer)

    def _take(self, place: TopicPartition, record: Any, lanes: Lanes) -> None:
        # A partition without a position is not assigned: its records are read again.
        position = self._positions.get(place)
        if position is None or not position.read(record.offset):
            return
        topic = self._topics[place.topic]
        try:
            delivery = self._of.delivery(topic, record, place)
        except (EnvelopeError, ValidationError, ValueError) as error:
            where = f"{topic.short}/{place.partition}@{record.offset}"
            _log.warning("webhook.record_skipped", webhook=self._of.name, record=where, why=str(error))
            return
        if delivery is not None:
            position.begin(record.offset)
            lanes.add(delivery)

    def _done(self, delivery: Delivery) -> None:
        if (position := self._positions.get(delivery.place)) is not None:
            position.end(delivery.offset)

    async def _attempt(self, sender: Sender, delivery: Delivery) -> Outcome:
        began = time.monotonic()
        outcome = await sender.send(delivery)
        SECONDS.labels(self._of.label).observe(time.monotonic() - began)
        ATTEMPTS.labels(self._of.label, "delivered" if outcome.delivered else "failed").inc()
        if outcome.delivered:
            self._progress.succeeded(self._clock.now())
        else:
            # The first failure is logged as a warning. Until a success, the others would fill the log.
            log = _log.warning if self._progress.failed(self._clock.now(), outcome.message) else _log.debug
            log("webhook.attempt_failed", webhook=self._of.label, id=delivery.id, why=outcome.message)
        since = self._progress.failing_since
        FAILING_SINCE.labels(self._of.label).set(since.timestamp() if since is not None else 0.0)
        return outcome

    async def _give_up(self, producer: AIOKafkaProducer, delivery: Delivery, outcome: Outcome, attempts: int) -> None:
        """Write the dead letter. The event counts as completed only when that is durable."""
        why = f"{outcome.message} ({attempts} attempts)"
        partition_key, key, value, headers = letter_of(
            self._of.name, self._of.spec.retry_seconds, delivery, why, self._clock.now()
        )
        while True:
            try:
                await producer.send_and_wait(
                    DEAD_LETTERS.name(self._settings.topic_prefix),
                    value,
                    key=key,
                    partition=partition_of(partition_key, self._settings.partitions),
                    headers=headers,
                )
            except KafkaError as error:
                _log.warning("webhook.dead_letter_not_written", webhook=self._of.name, error=str(error))
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                break
        metrics.DEAD_LETTERS.labels(NAME, RefusalReason.UNDELIVERED.value).inc()
        _log.error("webhook.given_up", webhook=self._of.name, id=delivery.id, why=why)

    async def assigned(self, consumer: AIOKafkaConsumer, places: Collection[TopicPartition]) -> None:
        """Begin at the group's offsets, or at the time of the subscription if it is new."""
        new = []
        for place in places:
            offset = await consumer.committed(place)
            if offset is None:
                new.append(place)
            else:
                self._begin(consumer, place, offset)
        if not new:
            return
        stamp = int(self._of.since.timestamp() * 1000)
        by_time = await consumer.offsets_for_times(dict.fromkeys(new, stamp))
        ends = await consumer.end_offsets(new)
        for place in new:
            found = by_time.get(place)
            self._begin(consumer, place, ends[place] if found is None else found.offset)
        # The offsets are written at once, and not only when the first record has come.
        await self._commit(consumer)

    def _begin(self, consumer: AIOKafkaConsumer, place: TopicPartition, offset: int) -> None:
        consumer.seek(place, offset)
        self._positions[place] = Position(offset)

    async def revoked(self, consumer: AIOKafkaConsumer, lanes: Lanes) -> None:
        """Stop all open deliveries. The next member of the group reads them again."""
        await lanes.close()
        await self._commit(consumer)
        self._positions.clear()
        self._committed.clear()

    async def _leave(self, consumer: AIOKafkaConsumer, lanes: Lanes) -> None:
        await lanes.close()
        WAITING.labels(self._of.label).set(0)
        with contextlib.suppress(KafkaError):
            await self._commit(consumer)

    async def _commit(self, consumer: AIOKafkaConsumer) -> None:
        offsets = {place: position.committable for place, position in self._positions.items()}
        changed = {place: offset for place, offset in offsets.items() if self._committed.get(place) != offset}
        if not changed:
            return
        try:
            await consumer.commit(changed)
        except (CommitFailedError, IllegalStateError) as error:
            # Another member has the partitions now, and sends again the events without a commit.
            _log.info("webhook.not_committed", webhook=self._of.name, why=str(error))
        else:
            self._committed |= changed


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Passes partitions to a subscriber. aiokafka swallows a listener's exceptions, so they are kept."""

    def __init__(self, subscriber: Subscriber, consumer: AIOKafkaConsumer, lanes: Lanes) -> None:
        self._subscriber, self._consumer, self._lanes = subscriber, consumer, lanes
        self.failure: BaseException | None = None

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:  # noqa: ARG002 - all are
        try:
            await self._subscriber.revoked(self._consumer, self._lanes)
        except Exception as error:  # noqa: BLE001 - the reader raises it
            self.failure = error

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        # Records arrive before this returns.
        self._consumer.pause(*assigned)
        try:
            await self._subscriber.assigned(self._consumer, assigned)
        except Exception as error:  # noqa: BLE001 - the reader raises it
            self.failure = error
