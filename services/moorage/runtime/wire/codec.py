"""Converts records to events and back: CloudEvents in binary mode. Structured mode is accepted on input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Self

import orjson
from msgspec import Struct
from pydantic import ValidationError

from moorage.runtime.process.failures import EncodeError
from moorage.runtime.service import Emit, Input, Malformed, RawRecord, RowFormat
from moorage.runtime.wire.kafka_records import NULL, VARINT, Header, headers_bytes, headers_of, record_bytes
from moorage.runtime.wire.row_reader import ModelReader
from moorage.runtime.wire.value_writer import write_value
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionReported
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.envelope import (
    CONFIGURATION_HEADER,
    CONTENT_TYPE,
    EnvelopeError,
    Meta,
    event_id,
    from_headers,
    generation_of,
    is_structured,
    parse_structured,
)
from moorage_schemas.topics import CONDITION_REPORTS, Cleanup, Topic
from moorage_schemas.trace_context import parse as parse_trace

SOURCES_HEADER = "moorage-sources"
"""Header of a state record: the positions in all sources that the batch rests on, `topic=offset,topic=offset`."""

BEFORE_HEADER = "moorage-sources-before"
"""Header of a state record: the positions at which the batch began, in the sources that it read from. The format is
that of `SOURCES_HEADER`."""

_READERS: Mapping[str, ModelReader[Any]] = {
    CONDITION_REPORTS.short: ModelReader(ConditionReported, shared=("target", "type", "workload"))
}
"""Readers of the most frequent events, by the topic's short name. Values that they cannot read are left to pydantic,
which also reports the error.
"""

new_meta: Callable[[tuple[Any, ...]], Meta] = partial(tuple.__new__, Meta)
"""The same as `Meta(*values)`, in half the time."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_JSON = b"application/json"
_SPEC_VERSION = b"1.0"
_SHOWN = 256  # characters of an invalid value that are kept
_RECORD_OVERHEAD = 2048  # a generous number of bytes for the headers and framing of one record
_TYPE_AT = 3  # where `to_headers` has the type
_MAX_HEADERS = 8192  # bytes of the headers and the key that a record of a third party may have


class Outgoing(Struct, frozen=True, gc=False):
    """One record to write."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    record: bytes
    """The record from its key on, as Kafka writes it (`kafka_records.record_bytes`)."""

    @classmethod
    def of(cls, topic: str, partition: int, key: bytes, value: bytes | None, headers: Sequence[Header]) -> Self:
        """Return a record with these headers."""
        return cls(topic, partition, key, value, record_bytes(key, value, headers_bytes(headers)))

    @property
    def begin(self) -> int:
        """Where the headers begin in `record`."""
        key, value = len(self.key), self.value
        size = len(NULL) if value is None else len(VARINT[len(value)]) + len(value)
        return len(VARINT[key]) + key + size

    @property
    def headers(self) -> list[Header]:
        """Its headers. They are read anew each time."""
        return headers_of(self.record, self.begin)


def decode(topic: Topic, record: Any, *, third_party: bool = False, max_bytes: int | None = None) -> Input | Malformed:
    """Decode a consumed record.

    Args:
        topic: the topic that it came from.
        record: aiokafka's `ConsumerRecord`.
        third_party: whether programs other than Moorage write the topic. If so, the raw record is kept, a size limit
            applies, and an invalid trace context is dropped.
        max_bytes: the maximum size of a value from third parties.
    """
    value: bytes | None = record.value
    raw_key: bytes = record.key or b""
    headers = record.headers
    if third_party:
        if max_bytes is not None and value is not None and len(value) > max_bytes:
            rule, size = f"must have at most {max_bytes} bytes", f"{len(value)} bytes"
            return _malformed(topic, record, RefusalReason.TOO_LARGE, field="value", value=size, rule=rule)
        if (length := len(raw_key) + _size(headers)) > _MAX_HEADERS:
            # Ids are copied to every event that follows, and could make those too large for their topics.
            rule, size = f"must have at most {_MAX_HEADERS} bytes, the key included", f"{length} bytes"
            return _malformed(topic, record, RefusalReason.TOO_LARGE, field="headers", value=size, rule=rule)
    try:
        key = raw_key.decode()
        if value is None:
            return _tombstone(topic, record, key, third_party=third_party)
        meta, event = _read(topic, headers, value, third_party=third_party)
    except (ValueError, AttributeError, TypeError) as error:
        return _refusal(topic, record, error)
    if not third_party:
        return Input(topic, record.partition, record.offset, key, event, meta)
    if meta.traceparent and parse_trace(meta.traceparent) is None:
        meta = meta._replace(traceparent="")
    return Input(topic, record.partition, record.offset, key, event, meta, raw_record(record), _written(record))


def decode_written(topic: Topic, record: Outgoing, offset: int, event: Model | None, meta: Meta | None) -> Input:
    """Return what `decode` returns of a record that is being written, without decoding its value.

    Args:
        topic: the topic that it is written to.
        record: the record.
        offset: the offset that it will have.
        event: its event; None for a tombstone.
        meta: its attributes; None to read them from its headers.
    """
    return Input(topic, record.partition, offset, record.key.decode(), event, meta or _meta(dict(record.headers)))


def _read(topic: Topic, headers: Sequence[tuple[str, bytes]], value: bytes, *, third_party: bool) -> tuple[Meta, Model]:
    found = dict(headers)
    if found.get(CONTENT_TYPE) != _JSON and is_structured(headers):
        meta, data = parse_structured(orjson.loads(value))
        value = orjson.dumps(data)
    else:
        meta = _meta(found)
    if meta.type != (_event_types.get(topic.short) or _event_type(topic)):
        raise EnvelopeError("type", meta.type, f"must be {topic.event_type} in topic {topic.short}")
    reader = _READERS.get(topic.short)
    if reader is not None and (event := reader.read(value)) is not None:
        return meta, event
    # Moorage's own records may come from a newer version, with fields that this version does not have.
    return meta, topic.event.model_validate_json(value, extra="forbid" if third_party else "ignore")


def _written(record: Any) -> datetime | None:
    """Return Kafka's timestamp of a record. The record's writer may set it to any value."""
    stamp: int | None = record.timestamp
    return None if stamp is None or stamp < 0 else _instant(stamp)


@lru_cache(maxsize=1024)  # records that are written together often have the same time
def _instant(stamp: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=stamp)
    except OverflowError:
        return None


def _size(headers: Sequence[tuple[str, bytes | None]]) -> int:
    size = 0
    for name, value in headers:  # a plain loop, because this runs for every report
        size += len(name) + len(value) if value else len(name)
    return size


def _refusal(topic: Topic, record: Any, error: Exception) -> Malformed:
    """Return the error of a record for its dead letter."""
    if isinstance(error, ValidationError):
        return _invalid(topic, record, error)
    if isinstance(error, EnvelopeError):
        reason, field, value, rule = RefusalReason.INVALID_ENVELOPE, error.field, str(error.value), error.rule
    elif isinstance(error, orjson.JSONDecodeError):
        reason, field, value, rule = RefusalReason.NOT_JSON, "value", _show(record.value), str(error)
    elif isinstance(error, UnicodeDecodeError):
        reason, field, value, rule = RefusalReason.WRONG_KEY, "key", repr(record.key), "must be UTF-8 text"
    else:  # a header without a value, which Kafka allows and CloudEvents does not
        reason, field, value, rule = (
            RefusalReason.INVALID_ENVELOPE,
            "headers",
            repr(error),
            "must be CloudEvents attributes with values",
        )
    return _malformed(topic, record, reason, field=field, value=value, rule=rule)


def attributes(topic: Topic, record: Any) -> Meta | None:
    """Return the attributes of a record that Moorage wrote, without decoding its data.

    Returns None when the attributes are part of the value, or when the record is not an event of Moorage. Use `decode`
    to find out which.
    """
    if record.value is None:
        found = _tombstone(topic, record, "", third_party=False)
        return found.meta if isinstance(found, Input) else None
    headers = dict(record.headers)
    if headers.get(CONTENT_TYPE) != _JSON and is_structured(record.headers):
        return None
    try:
        meta = _meta(headers)
    except (ValueError, AttributeError, TypeError):
        return None
    return meta if meta.type == (_event_types.get(topic.short) or _event_type(topic)) else None


def event_of(topic: Topic, value: bytes) -> Model | None:
    """Return the event in the value of a record that Moorage wrote in binary mode; None when the value is not valid."""
    try:
        return topic.event.model_validate_json(value, extra="ignore")
    except ValidationError:
        return None


def decode_table(topic: Topic, record: Any) -> tuple[str, Model | None]:
    """Return the key and event of a record of a table, None for a tombstone. The attributes are not checked.

    Raises:
        ValueError: the record cannot be decoded.
    """
    key: str = record.key.decode() if record.key else ""
    if record.value is None:
        return key, None
    # A record that was refused when it was read must not count after a restore, so the type is checked here as well.
    try:
        if _type_header(topic) in record.headers:
            return key, topic.event.model_validate_json(record.value, extra="ignore")
    except ValidationError:
        pass
    decoded = decode(topic, record)  # perhaps structured mode; this also reports the error
    if isinstance(decoded, Malformed):
        raise ValueError(decoded.message)  # noqa: TRY004 - the record's value is wrong, not a type here
    return key, decoded.event


def row_decoder(topic: Topic, reader: RowFormat) -> Callable[[Any], Any | None]:
    """Return a function that returns the row of a record, or None when the record is to be read with `decode_table`."""
    header, read, is_row = _type_header(topic), reader.read, reader.keys

    def decode(record: Any) -> Any | None:
        value, headers = record.value, record.headers
        if value is None or record.key is None or (is_row is not None and not is_row(record.key)):
            return None
        # Moorage writes the type in the same place each time. Searching for it takes as long as reading a field.
        if (len(headers) <= _TYPE_AT or headers[_TYPE_AT] != header) and header not in headers:
            return None
        return read(value)

    return decode


def raw_record(record: Any) -> RawRecord:
    """Return a consumed record as it was received."""
    return RawRecord(record.key, record.value, tuple(record.headers))


def record_meta(topic: Topic, partition: int, offset: int) -> Meta:
    """Return the attributes of a record that has none. Its id is made from its topic, partition and offset."""
    return Meta(
        id=event_id("record", topic.short, partition, offset),
        source=f"topic/{topic.short}",
        type=topic.event_type,
    )


def serialize(emit: Emit) -> bytes | None:
    """Return the value of an emitted event; None for a tombstone.

    Raises:
        EncodeError: the record is too large for the topic.
    """
    content = emit.content
    if content is None:
        return None
    value = content if isinstance(content, bytes) else write_value(content)
    if len(value) + len(emit.key) + _RECORD_OVERHEAD > emit.topic.max_message_bytes:
        raise EncodeError(
            f"{emit.topic.short} {emit.key}: invalid value {len(value)} bytes: a record must have at most "
            f"{emit.topic.max_message_bytes} bytes, key and headers included"
        )
    return value


def sources_value(positions: Mapping[str, int]) -> bytes:
    """Return the value of `SOURCES_HEADER`: the next offset of each source, by its topic's short name."""
    return ",".join(f"{short}={offset}" for short, offset in sorted(positions.items())).encode()


def parse_sources(value: bytes) -> dict[str, int]:
    """Parse the value of `SOURCES_HEADER`. Invalid parts are left out."""
    found: dict[str, int] = {}
    for part in value.decode("latin-1").split(","):
        short, equals, offset = part.partition("=")
        if equals and offset.isdecimal():
            found[short] = int(offset)
    return found


def before_value(before: Mapping[str, int], positions: Mapping[str, int]) -> bytes:
    """Return the value of `BEFORE_HEADER`: the positions at which a batch began, where they have changed since."""
    return sources_value({short: offset for short, offset in before.items() if positions.get(short) != offset})


def positions_before(headers: Sequence[tuple[str, bytes]], source: str) -> dict[str, int] | None:
    """Return the source positions at which the batch of a state record began; None when another service wrote it.

    The result is empty when the record has none, as in earlier versions.
    """
    found = dict(headers)
    if found.get("ce_source") != source.encode():
        return None
    if SOURCES_HEADER not in found or BEFORE_HEADER not in found:
        return {}
    return parse_sources(found[SOURCES_HEADER]) | parse_sources(found[BEFORE_HEADER])


def state_positions(headers: Sequence[tuple[str, bytes]], source: str) -> Mapping[str, int] | None:
    """Return the source positions that a state record rests on; None when it has none, or another service wrote it."""
    positions = None
    ours = False
    for name, value in headers:
        if name == SOURCES_HEADER:
            positions = value
        elif name == "ce_source":
            ours = value == source.encode()
    return _parsed_sources(positions) if ours and positions is not None else None


@lru_cache(maxsize=64)  # the records of one transaction share their positions
def _parsed_sources(value: bytes) -> Mapping[str, int]:
    return MappingProxyType(parse_sources(value))


def _meta(found: dict[str, bytes]) -> Meta:
    """Return the same as `envelope.from_headers`, but faster, because this runs for every record that is read."""
    get = found.get
    id_, source, type_ = get("ce_id"), get("ce_source"), get("ce_type")
    if not id_ or not source or not type_ or get("ce_specversion") != _SPEC_VERSION:
        return from_headers(list(found.items()))  # this reports the error
    time = get("ce_time")
    try:
        # Times in any other form than our own are left to the complete parser.
        when = datetime.fromisoformat(time.decode()) if time else None
        if when is not None and when.tzinfo is not UTC:
            return from_headers(list(found.items()))
        # Most of these are absent. One without a value is no text, which raises an `AttributeError`.
        subject, correlation = get("ce_subject", b""), get("ce_correlationid", b"")
        causation, trace, generation = get("ce_causationid", b""), get("traceparent", b""), get(CONFIGURATION_HEADER)
        return new_meta(
            (
                id_.decode(),
                _text(source),
                _text(type_),
                when,
                "" if subject == b"" else subject.decode(),
                "" if correlation == b"" else correlation.decode(),
                "" if causation == b"" else causation.decode(),
                "" if trace == b"" else trace.decode(),
                generation_of(generation) if generation else 0,
                (),
            )
        )
    except ValueError:
        return from_headers(list(found.items()))


@lru_cache(maxsize=4096)
def _text(value: bytes) -> str:
    """Decode a value that many records have in common."""
    return value.decode()


_event_types: dict[str, str] = {}


def _event_type(topic: Topic) -> str:
    return _event_types.setdefault(topic.short, topic.event_type)


_type_headers: dict[str, tuple[str, bytes]] = {}


def _type_header(topic: Topic) -> tuple[str, bytes]:
    """Return the header that marks a record as an event of its topic."""
    found = _type_headers.get(topic.short)
    return found or _type_headers.setdefault(topic.short, ("ce_type", topic.event_type.encode()))


def _tombstone(topic: Topic, record: Any, key: str, *, third_party: bool) -> Input | Malformed:
    if topic.cleanup is not Cleanup.COMPACT:
        return _malformed(
            topic, record, RefusalReason.INVALID_EVENT, field="value", value="null", rule="must not be empty"
        )
    try:
        meta = from_headers(record.headers)
    except EnvelopeError:
        meta = record_meta(topic, record.partition, record.offset)
    raw = raw_record(record) if third_party else None
    return Input(topic, record.partition, record.offset, key, None, meta, raw)


def _invalid(topic: Topic, record: Any, error: ValidationError) -> Malformed:
    first, *rest = error.errors(include_url=False)
    field = ".".join(str(part) for part in first["loc"])
    not_json = first["type"] == "json_invalid"
    rule = first["msg"] + (f" (and {len(rest)} more)" if rest else "")
    return _malformed(
        topic,
        record,
        RefusalReason.NOT_JSON if not_json else RefusalReason.INVALID_EVENT,
        field=field or "value",
        value=_show(record.value) if not_json else _show(first.get("input")),
        rule=rule,
    )


def _malformed(topic: Topic, record: Any, reason: RefusalReason, *, field: str, value: str, rule: str) -> Malformed:
    value = value[:_SHOWN]
    return Malformed(
        topic=topic,
        partition=record.partition,
        offset=record.offset,
        raw=raw_record(record),
        reason=reason.value,
        message=f"{field}: invalid value {value!r}: {rule}",
        field=field,
        value=value,
        rule=rule,
    )


def _show(value: object) -> str:
    if isinstance(value, bytes):
        return value[:_SHOWN].decode("utf-8", "replace")
    return (value if isinstance(value, str) else repr(value))[:_SHOWN]


class LightRecord(Struct, gc=False):
    """The fields of aiokafka's `ConsumerRecord` that Moorage reads."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since the epoch."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def light(value: bytes | None) -> bytes | None:
    """Return a value as it is. A consumer that has this as its `value_deserializer` returns light records."""
    return value
