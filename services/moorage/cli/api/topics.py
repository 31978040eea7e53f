"""Reads the topics, for `watch` and the demo."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self, TypeVar

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from aiokafka.structs import TopicPartition

from moorage.cli.api import endpoints
from moorage.cli.errors import CliError
from moorage.insight.copy.snapshot import SnapshotError
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.refusals import REFUSALS, hidden_topic, refusal
from moorage.runtime.kafka.clients.security import principal
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.service import Malformed
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import decode
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import TOPICS, Topic

T = TypeVar("T")

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
"""A time before any record: the beginning of a topic."""

_ADVICE = "Create the topics with `moorage topics apply`, or start everything with `moorage up`."
_POLL_MS = 250
_TOGETHER_MS = 20  # the time within which a transaction becomes visible in all of its topics
_PLACES = {topic.short: place for place, topic in enumerate(TOPICS)}
_CONNECT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One record of a topic."""

    topic: Topic
    partition: int
    offset: int
    key: str
    timestamp: datetime
    """Kafka's timestamp of the record."""

    meta: Meta | None
    """None if the record is not an event of Moorage."""

    event: Model | None
    """None for a tombstone, and if the record is not an event of Moorage."""

    wrong: str = ""
    """Why the record is not an event of Moorage."""

    value: bytes | None = None
    """The content of such a record."""

    def document(self) -> dict[str, Any]:
        """Return the record as one JSON object."""
        found: dict[str, Any] = {
            "topic": self.topic.short,
            "partition": self.partition,
            "offset": self.offset,
            "key": self.key,
            "timestamp": _rfc3339(self.timestamp),
        }
        if self.meta is not None:
            found |= {
                "id": self.meta.id,
                "type": self.meta.type,
                "source": self.meta.source,
                "time": _rfc3339(self.meta.time) if self.meta.time else None,
                "correlationid": self.meta.correlation,
                "causationid": self.meta.causation_id,
            } | ({"configuration": self.meta.configuration} if self.meta.configuration else {})
        if self.wrong:
            found |= {"error": self.wrong, "original": (self.value or b"")[:1000].decode("utf-8", "replace")}
        found["data"] = None if self.event is None else self.event.model_dump(mode="json")
        return found


class TopicReader:
    """Reads the committed records of all partitions of some topics, without a group. An async context manager.

    None as `since` means now, and `BEGINNING` the beginning. `identity` has the credentials, if they are not those of
    the environment.
    """

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        topics: Iterable[Topic] = TOPICS,
        since: datetime | None = None,
        identity: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = endpoints.load_settings(
            bootstrap_servers=bootstrap, topic_prefix=prefix, **dict[str, Any](identity or {})
        )
        self._topics = {topic.name(prefix): topic for topic in topics}
        self._since = since
        self._consumer: AIOKafkaConsumer | None = None
        self._parts: list[TopicPartition] = []

    async def __aenter__(self) -> Self:
        quiet()
        consumer = clients.table_consumer(self._settings, client_id="moorage-cli")
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await consumer.start()
                self._consumer = consumer
                self._parts = await self._partitions()
                consumer.assign(self._parts)
                await self._seek(consumer)
        except (KafkaError, OSError) as error:
            await consumer.stop()
            raise unreachable(self._settings, error) from None
        except BaseException:
            await consumer.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._consumer is not None:
            await self._consumer.stop()

    async def batches(self) -> AsyncIterator[list[Seen]]:
        """Yield records as they arrive, oldest first in each batch. A batch is empty if there were none for a while.

        Records of the same time are in the order of their topics, in which one leads to the next.
        """
        consumer = self._started()
        while True:
            try:
                found = [await consumer.getmany(timeout_ms=_POLL_MS)]
                if found[0]:
                    found.append(await consumer.getmany(timeout_ms=_TOGETHER_MS))
            except (KafkaError, OSError) as error:
                raise unreachable(self._settings, error) from None
            records = [record for one in found for part in one.values() for record in part]
            records.sort(key=lambda record: (record.timestamp, _PLACES[self._topics[record.topic].short]))
            yield [self._decode(record) for record in records]

    async def to_end(self) -> list[Seen]:
        """Return the records from the start position to the present end."""
        consumer = self._started()
        ends = await consumer.end_offsets(self._parts)
        found: list[Seen] = []
        async for batch in self.batches():
            found += batch
            if all([await consumer.position(part) >= end for part, end in ends.items()]):
                return found
        return found

    async def _partitions(self) -> list[TopicPartition]:
        admin = clients.admin_client(self._settings, client_id="moorage-cli")
        try:
            await admin.start()
            described = await admin.describe_topics(list(self._topics))
        finally:
            await admin.close()
        found = {topic["topic"]: topic["partitions"] for topic in described if not topic["error_code"]}
        for topic in described:
            if topic["error_code"] == TopicAuthorizationFailedError.errno:
                raise CliError(hidden_topic(topic["topic"], self._settings))
        for name in self._topics:
            if not found.get(name):
                raise CliError(f"Kafka at {self._settings.bootstrap_servers} has no topic {name}.\n{_ADVICE}")
        return [TopicPartition(name, part["partition"]) for name, parts in found.items() for part in parts]

    async def _seek(self, consumer: AIOKafkaConsumer) -> None:
        if self._since == BEGINNING:
            await consumer.seek_to_beginning(*self._parts)
        elif self._since is None:
            # By offset, so that any record that is written from now on is read.
            for part, end in (await consumer.end_offsets(self._parts)).items():
                consumer.seek(part, end)
        else:
            stamp = int(self._since.timestamp() * 1000)
            ends = await consumer.end_offsets(self._parts)
            for part, place in (await consumer.offsets_for_times(dict.fromkeys(self._parts, stamp))).items():
                consumer.seek(part, ends[part] if place is None else place.offset)

    def _decode(self, record: Any) -> Seen:
        topic = self._topics[record.topic]
        stamp = datetime.fromtimestamp(record.timestamp / 1000, UTC)
        found = decode(topic, record)
        if isinstance(found, Malformed):
            key = (record.key or b"").decode("utf-8", "replace")
            return Seen(
                topic, record.partition, record.offset, key, stamp, None, None, wrong=found.message, value=record.value
            )
        return Seen(topic, record.partition, record.offset, found.key, stamp, found.meta, found.event)

    def _started(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            raise RuntimeError("a TopicReader is used inside `async with`")
        return self._consumer


def topics_named(words: Sequence[str]) -> list[Topic]:
    """Return the topics that words such as `taints`, `reports` and `dead-letters` name.

    Raises:
        CliError: a word names no topic.
    """
    known = {topic.short: topic for topic in TOPICS}
    known["reports"] = known["condition-reports"]
    found: list[Topic] = []
    for word in (part for text in words for part in text.split(",") if part):
        topic = known.get(word.lower()) or known.get(f"{word.lower()}s")
        if topic is None:
            raise CliError(f"topic {word!r} does not exist: expected one of {', '.join(sorted(known))}", code=2)
        if topic not in found:
            found.append(topic)
    return found


def run(settings: Settings, work: Coroutine[Any, Any, T]) -> T:
    """Do something with Kafka, and return what it returns.

    Raises:
        CliError: Kafka cannot be reached, or refuses it.
    """
    quiet()
    try:
        return asyncio.run(work)
    except RuntimeFailure as error:
        raise CliError(str(error)) from None
    except SnapshotError as error:
        raise CliError(f"Kafka at {settings.bootstrap_servers}: {error}.\n{_ADVICE}") from None
    except (KafkaError, OSError) as error:
        raise unreachable(settings, error) from None


def unreachable(settings: Settings, error: BaseException) -> CliError:
    """Return the error for a Kafka that does not answer, or that refuses."""
    if refused := refusal(error, principal(settings)):
        return CliError(refused)
    why = str(error) or type(error).__name__
    return CliError(
        f"Kafka at {settings.bootstrap_servers} does not answer ({why}).\n"
        "Start that cluster, or set MOORAGE_BOOTSTRAP_SERVERS to the addresses of another one."
    )


def quiet() -> None:
    """Silence the libraries' logs, because the command reports errors itself."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    REFUSALS.logs = False


def _rfc3339(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
