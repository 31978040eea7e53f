"""Records of Moorage's topics as FastStream's messages: the parser, the decoder, and what handlers can ask for.

FastStream's own parser and decoder do not suit them. A tombstone, a record without a value, has no JSON; here it is
None. A header without a value counts as absent. Fields of a newer version are passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from faststream import Context
from faststream.exceptions import AckMessage
from faststream.kafka.message import KafkaAckableMessage
from faststream.message import StreamMessage
from pydantic import ValidationError

from moorage_schemas.base import Model
from moorage_schemas.envelope import EnvelopeError, Meta, from_headers
from moorage_schemas.refs import TargetRef
from moorage_schemas.topics import Topic
from moorage_sdk.backoff import Backoff
from moorage_sdk.errors import RecordError, first_problem
from moorage_sdk.targets import Targets, target_of

_LONGEST_PAUSE = 10.0  # seconds before a record is read again; a broker that stops waits for it


def event_of(topic: Topic, value: bytes | str | None) -> Model | None:
    """Return the event of a record. None for a tombstone. Fields that this version does not have are passed over.

    Raises:
        RecordError: the value is no such event.
    """
    if not value:
        return None
    try:
        return topic.event.model_validate_json(value, extra="ignore")
    except ValidationError as error:
        raise RecordError(f"a record of {topic.short}: {first_problem(error)}") from None


class RecordMessage(KafkaAckableMessage):
    """A record of one of Moorage's topics. Handlers get its parts as `RecordKey`, `RecordTarget` and `EventMeta`."""

    def __init__(self, record: Any, body: bytes, *, topic: Topic, reading: Reading, **named: Any) -> None:
        super().__init__(record, body, **named)
        self.record = record
        self.topic = topic
        self._reading = reading

    @property
    def key(self) -> str:
        """The key of the record."""
        return (self.record.key or b"").decode()

    @property
    def target(self) -> TargetRef | None:
        """The target that the key names. None if those of the topic name none."""
        return target_of(self.topic, self.key)

    @property
    def meta(self) -> Meta:
        """The CloudEvents attributes.

        A record that another program wrote without them has its place as the id.
        """
        record = self.record
        try:
            return from_headers([(name, value) for name, value in record.headers])
        except EnvelopeError:
            return Meta(f"{record.topic}/{record.partition}/{record.offset}", "", self.topic.event_type)

    async def ack(self) -> None:
        """Store the position, if there is a consumer group."""
        self._reading.backoff(self.record).succeeded()
        if self._reading.has_group:
            await super().ack()
        else:
            await StreamMessage.ack(self)

    async def nack(self) -> None:
        """Read the record again after a pause, which grows with each failure in a row."""
        if self.committed is None and isinstance(self.consumer, AIOKafkaConsumer):
            await asyncio.sleep(self._reading.backoff(self.record).failed())
        await super().nack()


EventMeta = Annotated[Meta, Context("message.meta", cast=False)]
"""The CloudEvents attributes of the record: id, correlation id, `traceparent` and others."""

RecordKey = Annotated[str, Context("message.key", cast=False)]
"""The key of the record. It is all that a tombstone has."""

RecordTarget = Annotated[TargetRef, Context("message.target", cast=False)]
"""The target that the key of the record names."""


class Reading:
    """The parser and the decoder of one subscriber, which pass over records that it does not want.

    Args:
        topics: the topics by their names in Kafka.
        targets: other targets are passed over.
        deployer: events that name another deployer are passed over. Empty for all.
        has_tombstones: whether tombstones are handed over.
        has_group: whether positions are stored.
    """

    def __init__(
        self,
        topics: Mapping[str, Topic],
        *,
        targets: Targets,
        deployer: str = "",
        has_tombstones: bool = True,
        has_group: bool = False,
    ) -> None:
        self.has_group = has_group
        self._topics = topics
        self._targets = targets
        self._deployer = deployer
        self._has_tombstones = has_tombstones
        self._backoffs: dict[TopicPartition, Backoff] = {}

    def backoff(self, record: Any) -> Backoff:
        """Return the pauses of the partition of a record."""
        return self._backoffs.setdefault(TopicPartition(record.topic, record.partition), Backoff(most=_LONGEST_PAUSE))

    async def parse(self, record: ConsumerRecord, original: Callable[[Any], Awaitable[Any]]) -> RecordMessage:
        """Return a record as a message.

        Raises:
            AckMessage: the record is passed over.
        """
        topic = self._topics[record.topic]
        if not self._wants(topic, record):
            raise AckMessage
        found = await original(_readable(record))
        correlation = found.headers.get("ce_correlationid") or found.headers.get("ce_id")
        return RecordMessage(
            record,
            found.body,
            headers=found.headers,
            path=found.path,
            content_type=found.content_type,
            correlation_id=correlation or found.correlation_id,
            message_id=found.headers.get("ce_id") or found.message_id,
            consumer=found.consumer,
            topic=topic,
            reading=self,
        )

    async def decode(self, message: RecordMessage) -> Model | None:
        """Return the event of a message. None for a tombstone.

        Raises:
            RecordError: the value is no such event.
        """
        return event_of(message.topic, message.body)

    def _wants(self, topic: Topic, record: ConsumerRecord) -> bool:
        if record.value is None and not self._has_tombstones:
            return False
        if self._targets.patterns is not None:
            target = target_of(topic, (record.key or b"").decode())
            if target is None or str(target) not in self._targets:
                return False
        if self._deployer and (event := event_of(topic, record.value)) is not None:
            return bool(getattr(event, "deployer", "") == self._deployer)
        return True


def _readable(record: ConsumerRecord) -> ConsumerRecord:
    """Return a record with the headers that FastStream can read: those that have a value in UTF-8."""
    kept = tuple((name, value) for name, value in record.headers if value is not None and _is_text(value))
    return record if len(kept) == len(record.headers) else replace(record, headers=kept)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
