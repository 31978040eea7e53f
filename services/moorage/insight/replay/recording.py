"""Recorded topics: read from Kafka, stored as JSON lines, and looked up by topic, partition and offset."""

from __future__ import annotations

import asyncio
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from aiokafka import TopicPartition

from moorage.insight.copy.snapshot import partitions_of
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.read_to_end import CONNECT_SECONDS, Progress, read_to
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.bytes_text import bytes_of, text_of
from moorage_schemas.topics import TOPICS


class RecordingError(Exception):
    """Recorded topics cannot be read. The message names the place and the problem."""


class RecordedRecord(NamedTuple):
    """One record, with those fields of a consumed record that a replay uses."""

    topic: str
    """The topic's short name, such as `taints`."""

    partition: int
    offset: int
    timestamp: int
    """Kafka's timestamp of the record, in milliseconds since the epoch."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    def header(self, name: str) -> bytes:
        """Return the value of a header; empty when the record does not have it."""
        return next((value for found, value in self.headers if found == name), b"")


@dataclass(slots=True)
class Recording:
    """The committed records of the topics, by topic, partition and offset."""

    places: dict[tuple[str, int], dict[int, RecordedRecord]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[RecordedRecord]) -> Recording:
        """Return a recording of records in any order. A record that comes twice counts once."""
        whole = cls()
        for record in records:
            whole.places.setdefault((record.topic, record.partition), {})[record.offset] = record
        return whole

    def records(self) -> Iterator[RecordedRecord]:
        """Yield all records, topic by topic, each partition in the order of its offsets."""
        for place in sorted(self.places):
            found = self.places[place]
            for offset in sorted(found):
                yield found[offset]

    @property
    def count(self) -> int:
        """The number of records."""
        return sum(map(len, self.places.values()))

    # As JSON lines.

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read a file of JSON lines, or every `*.jsonl` and `*.jsonl.gz` of a folder.

        Raises:
            RecordingError: the folder has no such file, a file cannot be read, or a line is not a record.
        """
        files = [path]
        if path.is_dir():
            files = sorted([*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")])
            if not files:
                raise RecordingError(f"{path}: has no *.jsonl and no *.jsonl.gz")
        return cls.of(record for file in files for record in _lines(file))

    def save(self, path: Path) -> None:
        """Write JSON lines, compressed when the file's name ends in `.gz`.

        Raises:
            RecordingError: the file cannot be written.
        """
        try:
            with path.open("wb") as raw:
                if path.suffix == ".gz":
                    # Without a time and a name in the archive, the same records always give the same bytes.
                    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                        packed.writelines(_line(record) for record in self.records())
                else:
                    raw.writelines(_line(record) for record in self.records())
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror or error}") from None

    # From Kafka.

    @classmethod
    async def read(cls, settings: Settings, progress: Progress | None = None) -> Recording:
        """Read every topic from its beginning to its present end. Committed records only; Kafka is not changed.

        Raises:
            RecordingError: there are no topics.
            KafkaError: Kafka does not answer, or answers with an error.
            TimeoutError: Kafka does not answer, or sends nothing for half a minute.
            OSError: Kafka cannot be reached.
        """
        names = {topic.name(settings.topic_prefix): topic.short for topic in TOPICS}
        async with asyncio.timeout(CONNECT_SECONDS):
            counts = await partitions_of(settings, names)
        tps = [TopicPartition(name, part) for name, partitions in counts.items() for part in range(partitions)]
        if not tps:
            raise RecordingError(f"there are no topics {settings.topic_prefix}.*")
        consumer = clients.table_consumer(settings, client_id="moorage-replay")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await consumer.start()
            starts = await consumer.beginning_offsets(tps)
            ends = await consumer.end_offsets(tps)  # no transaction is open below these offsets
            records: list[RecordedRecord] = []
            async for tp, found in read_to(consumer, starts, ends, progress):
                records += [_kept(names[tp.topic], record) for record in found]
            return cls.of(records)
        finally:
            await consumer.stop()


def _kept(short: str, record: Any) -> RecordedRecord:
    headers = tuple((name, value or b"") for name, value in record.headers)
    return RecordedRecord(short, record.partition, record.offset, record.timestamp, record.key, record.value, headers)


_SHORTS: Final = frozenset(topic.short for topic in TOPICS)


def _line(record: RecordedRecord) -> bytes:
    return orjson.dumps(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": text_of(record.key),
            "value": text_of(record.value),
            "headers": [[name, text_of(value)] for name, value in record.headers],
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )


def _lines(path: Path) -> Iterator[RecordedRecord]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            lines = io.BytesIO(file.read())
    except (OSError, EOFError, zlib.error) as error:
        raise RecordingError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _record(orjson.loads(line))
            except ValueError as error:
                raise RecordingError(f"{path}:{number}: {error}") from None


def _record(found: Any) -> RecordedRecord:
    """Return the record of one line."""
    if not isinstance(found, dict):
        raise ValueError("must be an object with topic, partition, offset, timestamp, key, value and headers")  # noqa: TRY004 - the text is wrong, not a type here
    if not isinstance(found.get("topic"), str) or found["topic"] not in _SHORTS:
        raise ValueError(f"topic: invalid value {found.get('topic')!r}: must be one of {', '.join(sorted(_SHORTS))}")
    for name in ("partition", "offset", "timestamp"):
        if not isinstance(found.get(name), int) or isinstance(found[name], bool) or found[name] < 0:
            raise ValueError(f"{name}: invalid value {found.get(name)!r}: must be a whole number, 0 or more")
    headers = found.get("headers", [])
    pairs = isinstance(headers, list) and all(
        isinstance(one, list) and len(one) == 2 and isinstance(one[0], str)  # noqa: PLR2004 - a name and a value
        for one in headers
    )
    if not pairs:
        raise ValueError("headers: must be a list of [name, value]")
    return RecordedRecord(
        found["topic"],
        found["partition"],
        found["offset"],
        found["timestamp"],
        _bytes("key", found.get("key")),
        _bytes("value", found.get("value")),
        tuple((name, _bytes(f"headers {name}", value) or b"") for name, value in headers),
    )


def _bytes(name: str, found: Any) -> bytes | None:
    try:
        return bytes_of(found)
    except ValueError:
        raise ValueError(f'{name}: invalid value {found!r}: must be text, {{"base64": …}} or null') from None
