"""One record of a topic, and its document in an exported file.

Each line of a document is `name: value`, with a value in JSON, which is YAML too. So a file of hundreds of thousands of
records is read in seconds, and every YAML tool reads it as well. A document that was edited by hand may be any YAML.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson
import yaml

from moorage.cli.api.manifests import load
from moorage.runtime.engine.journal import STEPS_HEADER
from moorage.runtime.wire.bytes_text import bytes_of, text_of
from moorage.runtime.wire.codec import BEFORE_HEADER, SOURCES_HEADER
from moorage_schemas.envelope import CONTENT_TYPE
from moorage_schemas.times import parse_time
from moorage_schemas.topics import TOPICS, Topic

Headers = tuple[tuple[str, bytes], ...]

_BY_NAME: Final[Mapping[str, Topic]] = {topic.short: topic for topic in TOPICS}
_OF_ONE_LOG: Final = frozenset({SOURCES_HEADER, BEFORE_HEADER, STEPS_HEADER})
"""Headers that name offsets. They mean nothing in another log; a file has the positions of the groups instead."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_LATEST: Final = 253_402_300_799_999  # the last millisecond of the year 9999
_SUBJECT: Final = "ce_subject"
_COMMON: Final = ("ce_specversion", "ce_id", "ce_source", "ce_type", CONTENT_TYPE)
"""The headers with which every event of Moorage begins, in their order."""

_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON allows in a text, and YAML does not, or takes as the end of a line."""

_UNSAFE_BYTES: Final = re.compile(
    rb"[\x00-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]"
)
_FIELDS: Final = frozenset({"topic", "key", "place", "time", "headers", "data", "raw"})


class DocumentError(Exception):
    """A document is wrong. The message is `FIELD: problem: expected X`."""


class SavedRecord(NamedTuple):
    """A record, with the fields that a consumed record has."""

    topic: Topic
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since the epoch."""

    key: bytes | None
    value: bytes | None
    """None for a tombstone."""

    headers: Headers

    @property
    def name(self) -> str:
        """The key as text."""
        return (self.key or b"").decode("utf-8", "replace")


def saved(topic: Topic, record: Any) -> SavedRecord:
    """Return a consumed record without the headers that name offsets of its log."""
    headers = tuple((name, value or b"") for name, value in record.headers if name not in _OF_ONE_LOG)
    return SavedRecord(
        topic, record.partition, record.offset, max(0, record.timestamp), record.key, record.value, headers
    )


# Writing.


def document_of(record: SavedRecord) -> bytes:
    """Return the document of a record."""
    lines = (
        b'---\ntopic: "%s"' % record.topic.short.encode(),
        b"key: " + json_line(text_of(record.key)),
        b"place: [%d, %d]" % (record.partition, record.offset),
        b'time: "%s"' % _time_text(record.timestamp).encode(),
        b"headers: " + json_line(_usual(record) or [[name, text_of(value)] for name, value in record.headers]),
        _value_line(record.value),
    )
    return b"\n".join(lines) + b"\n"


def json_line(value: Any) -> bytes:
    """Return a value as one line of JSON that YAML reads as the same."""
    return _safe(orjson.dumps(value))


def _safe(text: bytes) -> bytes:
    if _UNSAFE_BYTES.search(text) is None:
        return text
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text.decode()).encode()


def _value_line(value: bytes | None) -> bytes:
    if value is None:
        return b"data: null"
    try:
        found = orjson.loads(value)
    except ValueError:
        return b"raw: " + json_line(text_of(value))
    if not isinstance(found, dict):
        return b"raw: " + json_line(text_of(value))
    # What Moorage writes is one line already. Others may have written it with blanks and breaks.
    return b"data: " + _safe(
        value if b"\n" not in value and b"\r" not in value and b"\t" not in value else orjson.dumps(found)
    )


def _usual(record: SavedRecord) -> dict[str, str] | None:
    """Return the headers that do not follow from topic and key; None if they are not those of an event of Moorage."""
    if tuple(name for name, _ in record.headers[: len(_COMMON)]) != _COMMON:
        return None
    try:
        found = {name: value.decode() for name, value in record.headers}
    except UnicodeDecodeError:
        return None
    if len(found) != len(record.headers) or any(
        found.pop(name) != text for name, text in _implied(record.topic).items()
    ):
        return None
    if record.key and found.get(_SUBJECT) == record.name:
        found[_SUBJECT] = ""
    return found


@lru_cache
def _implied(topic: Topic) -> Mapping[str, str]:
    return MappingProxyType({"ce_specversion": "1.0", "ce_type": topic.event_type, CONTENT_TYPE: "application/json"})


def _time_text(stamp: int) -> str:
    when = _EPOCH + min(stamp, _LATEST) * _MS
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Reading.


def parsed(lines: Sequence[bytes]) -> tuple[dict[str, Any], bytes | None]:
    """Return the fields of a document, and the text of its `data` where it is JSON as it was exported.

    Raises:
        DocumentError: the document is no mapping, or no YAML.
    """
    found: dict[str, Any] = {}
    data: bytes | None = None
    try:
        for line in lines:
            name, colon, text = line.partition(b": ")
            if not colon or not name.isalpha():
                return _any_yaml(lines), None
            found[name.decode("ascii")] = orjson.loads(text)
            if name == b"data":
                data = text
    except ValueError:
        return _any_yaml(lines), None
    return found, data


def _any_yaml(lines: Sequence[bytes]) -> dict[str, Any]:
    try:
        found = load(b"\n".join(lines).decode())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DocumentError(f"document: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise DocumentError(f"document: invalid value {found!r:.80}: expected a mapping")
    return found


def record_of(found: Mapping[str, Any], data: bytes | None, partitions: int) -> SavedRecord:
    """Return the record of a document.

    Args:
        found: its fields.
        data: the text of its `data`, if it need not be made again.
        partitions: the number of partitions of the topics that were exported.

    Raises:
        DocumentError: a field is wrong.
    """
    if beyond := sorted(set(found) - _FIELDS):
        raise DocumentError(f"{beyond[0]}: unknown field: expected one of {', '.join(sorted(_FIELDS))}")
    topic = _BY_NAME.get(str(found.get("topic")))
    if topic is None:
        raise DocumentError(f"topic: invalid value {found.get('topic')!r}: expected one of {', '.join(_BY_NAME)}")
    place = found.get("place")
    if not (isinstance(place, list) and len(place) == 2 and all(type(one) is int and one >= 0 for one in place)):  # noqa: PLR2004 - partition and offset
        raise DocumentError(f"place: invalid value {place!r}: expected [partition, offset]")
    if place[0] >= partitions:
        raise DocumentError(f"place: invalid partition {place[0]}: expected less than {partitions}")
    key = _bytes("key", found.get("key"))
    if "raw" in found:
        value = _bytes("raw", found["raw"])
    elif "data" in found:
        value = None if found["data"] is None else data or orjson.dumps(found["data"])
    else:
        raise DocumentError("data: missing: expected the event, or null for a deletion")
    return SavedRecord(
        topic, place[0], place[1], _stamp(found.get("time")), key, value, _headers(found.get("headers"), topic, key)
    )


def _stamp(text: Any) -> int:
    when = None
    with contextlib.suppress(ValueError):
        when = parse_time(text)
    if not isinstance(when, datetime):
        raise DocumentError(f"time: invalid value {text!r}: expected a time such as 2026-01-31T12:00:00.000Z")
    return int((when - _EPOCH) / _MS)


def _headers(found: Any, topic: Topic, key: bytes | None) -> Headers:
    if isinstance(found, list):
        if not all(isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) for one in found):  # noqa: PLR2004 - a name and a value
            raise DocumentError("headers: invalid value: expected [name, value] for each")
        return tuple((name, _bytes(f"headers.{name}", value) or b"") for name, value in found)
    if not isinstance(found, dict):
        raise DocumentError(f"headers: invalid value {found!r:.80}: expected the attributes of a CloudEvent")
    for name, value in found.items():
        if not isinstance(value, str):
            raise DocumentError(f"headers.{name}: invalid value {value!r:.80}: expected a text")
    if missing := [name for name in ("ce_id", "ce_source") if not found.get(name)]:
        raise DocumentError(f"headers.{missing[0]}: missing: expected a text")
    known = {**found, **_implied(topic)}
    if found.get(_SUBJECT) == "":
        known[_SUBJECT] = (key or b"").decode()
    return tuple((name, known[name].encode()) for name in dict.fromkeys((*_COMMON, *found)))


def _bytes(name: str, found: Any) -> bytes | None:
    try:
        return bytes_of(found)
    except ValueError:
        raise DocumentError(f'{name}: invalid value {found!r:.80}: expected a text, {{"base64": …}} or null') from None
