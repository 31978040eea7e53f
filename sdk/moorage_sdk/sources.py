"""Where a deployer reads decisions: the topics, or the gateway.

A source gives all decisions from the beginning, and says when it has come to the present. It begins anew with `Reset`
whenever it cannot go on where it was.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from faststream.kafka import KafkaBroker
from httpx_sse import SSEError, aconnect_sse

from moorage_schemas.base import Model
from moorage_schemas.topics import BINDINGS, EVICTIONS, Topic
from moorage_sdk.errors import SdkError, TransportError
from moorage_sdk.faststream.broker import moorage_broker
from moorage_sdk.faststream.records import event_of
from moorage_sdk.faststream.topics import CONSUMER
from moorage_sdk.http import client, no_answer, refused_request
from moorage_sdk.settings import Connection
from moorage_sdk.targets import Targets, target_of

TOPICS: tuple[Topic, ...] = (BINDINGS, EVICTIONS)
PATH = "/v1/decisions"
_TOPICS = {topic.short: topic for topic in TOPICS}
_POLL_MS = 200
_ASSIGNED_EVERY = 0.05  # seconds between two looks for the partitions
_SILENCE = 45.0
"""Seconds without anything after which a stream of the gateway counts as broken. It sends comments more often."""


@dataclass(frozen=True, slots=True)
class Reset:
    """All decisions follow from the beginning. What was read before does not count any more."""


@dataclass(frozen=True, slots=True)
class Present:
    """Everything that was there when the source began has been read."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One record."""

    topic: str
    """`bindings` or `evictions`."""

    key: str
    event: Model | None
    """None for a tombstone."""

    traceparent: str = ""
    """The trace context of the record. Empty for records of earlier versions, and over HTTP for bindings."""


Item = Reset | Present | Decision


class Source(Protocol):
    """A source of decisions."""

    def read(self) -> AsyncIterator[Item]:
        """Everything from the beginning, and then each change, without end.

        Raises:
            TransportError: it is interrupted. A further call goes on where this one was, or begins with `Reset`.
            SdkError: it cannot work.
        """

    async def stop(self) -> None:
        """Close connections."""


class KafkaSource:
    """Reads all partitions of both topics from the beginning, at each start.

    It is no member of a consumer group and stores no position: which records there are is the whole state.

    Args:
        connection: Kafka's address and the user.
        targets: other targets are passed over.
        client_id: the name of the client.
    """

    def __init__(self, connection: Connection, targets: Targets, client_id: str) -> None:
        self._connection = connection
        self._targets = targets
        self._client_id = client_id
        self._broker: KafkaBroker | None = None
        self._topics = {topic.name(connection.topic_prefix): topic for topic in TOPICS}

    async def read(self) -> AsyncIterator[Item]:
        """See `Source`."""
        await self.stop()
        self._broker = moorage_broker(self._connection, client_id=self._client_id, consumer_only=True, logger=None)
        consumer: Any = None
        try:
            make = await self._broker.connect()
            consumer = make(client_id=self._client_id, enable_auto_commit=False, **CONSUMER)
            await consumer.start()
            await self._subscribe(consumer)
            yield Reset()
            positions: dict[TopicPartition, int] = {}
            ends = await consumer.end_offsets(consumer.assignment())
            has_reached = False
            while not _has_ended(consumer):
                for tp, records in (await consumer.getmany(timeout_ms=_POLL_MS)).items():
                    for record in records:
                        if record.offset < positions.get(tp, 0):
                            raise TransportError(f"{tp.topic}: its offsets have begun again")
                        positions[tp] = record.offset + 1
                        key, topic = (record.key or b"").decode(), self._topics[tp.topic]
                        if str(target_of(topic, key)) in self._targets:
                            yield Decision(topic.short, key, event_of(topic, record.value), _trace_of(record.headers))
                # After the markers of a transaction there are no records, only a position.
                if not has_reached and all([await consumer.position(tp) >= end for tp, end in ends.items()]):
                    has_reached = True
                    yield Present()
        except (KafkaError, OSError) as error:
            raise TransportError(f"Kafka does not answer: {error}") from error
        finally:
            if consumer is not None:
                await consumer.stop()
        raise TransportError("the consumer has stopped fetching")

    async def _subscribe(self, consumer: Any) -> None:
        """Read all partitions of both topics."""
        missing = sorted(self._topics.keys() - await consumer.topics())
        if missing:
            raise SdkError(f"topic {', '.join(missing)} does not exist: check MOORAGE_TOPIC_PREFIX and Kafka's address")
        consumer.subscribe(list(self._topics))
        while {tp.topic for tp in consumer.assignment()} != self._topics.keys():  # noqa: ASYNC110 - aiokafka tells nobody
            await asyncio.sleep(_ASSIGNED_EVERY)

    async def stop(self) -> None:
        """See `Source`."""
        if self._broker is not None:
            opened, self._broker = self._broker, None
            await opened.stop()


class HttpSource:
    """Reads server-sent events of the gateway: `GET /v1/decisions`.

    When the connection breaks, it goes on after the last event that it has seen (`Last-Event-ID`). If the gateway does
    not know the changes since then any more, it begins anew.

    Args:
        connection: the gateway's address and the token.
        targets: other targets are not sent.
        transport: replaces the network, in tests.
    """

    def __init__(
        self, connection: Connection, targets: Targets, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._connection = connection
        self._targets = targets
        self._client: httpx.AsyncClient | None = None
        self._transport = transport
        self._has_worked = False
        self._last = ""
        """The id of the last event. Empty before the present was reached, because then it begins anew."""

    async def read(self) -> AsyncIterator[Item]:
        """See `Source`."""
        if self._client is None:
            self._client = client(self._connection, self._transport)
        params = [("target", pattern) for pattern in self._targets.patterns or ()]
        headers = {"last-event-id": self._last} if self._last else {}
        has_reached = bool(self._last)
        try:
            async with aconnect_sse(
                self._client,
                "GET",
                PATH,
                params=params,
                headers=headers,
                timeout=httpx.Timeout(_SILENCE, connect=10.0),
            ) as stream:
                await self._check(stream.response)
                self._has_worked = True
                async for event in stream.aiter_sse():
                    match event.event:
                        case "reset":
                            self._last, has_reached = "", False
                            yield Reset()
                        case "present":
                            if not has_reached:
                                has_reached = True
                                yield Present()
                        case topic if topic in _TOPICS:
                            if has_reached and _is_old(event.id, self._last):
                                continue
                            found = json.loads(event.data)
                            value = json.dumps(found["value"]) if found["value"] is not None else None
                            yield Decision(
                                topic, found["key"], event_of(_TOPICS[topic], value), found.get("traceparent", "")
                            )
                        case _:
                            continue  # a newer gateway may send others
                    if has_reached and event.id:
                        self._last = event.id
        except (httpx.HTTPError, SSEError) as error:
            raise no_answer(self._connection, error) from None
        raise TransportError(f"{self._connection.base_url} has ended the stream", 0.0)

    async def _check(self, answer: httpx.Response) -> None:
        if answer.status_code == httpx.codes.OK:
            return
        text = (await answer.aread()).decode(errors="replace")
        try:
            message = str(json.loads(text).get("message", text))
        except (ValueError, AttributeError):
            message = text[:200]
        if answer.status_code == httpx.codes.BAD_REQUEST:
            raise SdkError(f"the gateway answers {answer.status_code} to GET {PATH}: {message}")
        raise refused_request(self._connection, answer, message, has_worked=self._has_worked)

    async def stop(self) -> None:
        """See `Source`."""
        if self._client is not None:
            opened, self._client = self._client, None
            await opened.aclose()


def _trace_of(headers: Iterable[tuple[str, bytes | None]]) -> str:
    return next(((value or b"").decode("latin-1") for name, value in headers if name == "traceparent"), "")


def _has_ended(consumer: Any) -> bool:
    """Whether the fetching task of aiokafka has ended. The consumer then waits forever and raises nothing."""
    task = consumer._fetcher._fetch_task  # noqa: SLF001 - aiokafka has no public way
    return bool(task.done())


def _is_old(identity: str, last: str) -> bool:
    """Whether an event was there before. Ids are versions, and increase."""
    return identity.isdigit() and last.isdigit() and int(identity) <= int(last)


def source_of(connection: Connection, targets: Targets, name: str) -> Source:
    """The source for a connection."""
    if connection.uses_kafka:
        return KafkaSource(connection, targets, name)
    return HttpSource(connection, targets)
