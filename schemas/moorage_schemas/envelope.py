"""The CloudEvents 1.0 envelope of every event: binary mode on Kafka, structured mode also accepted on input.

Binary mode puts the attributes into record headers `ce_*` and the data into the value. Structured mode (content type
`application/cloudevents+json`) puts everything into the value. Two extension attributes, `causationid` and
`correlationid`, make every decision traceable. A third one, `configuration`, is the generation of the
`MoorageConfiguration` that a service decided by. `traceparent` carries the W3C trace context.
"""

from __future__ import annotations

import json
from binascii import hexlify
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, Protocol

from moorage_schemas.times import format_time, parse_time

Headers = Sequence[tuple[str, bytes | None]]
"""Record headers. Kafka allows a header without a value, which counts as absent."""

STRUCTURED = "application/cloudevents+json"
CONTENT_TYPE = "content-type"
CONFIGURATION_HEADER = "ce_configuration"
"""The header of the extension attribute `configuration`."""

_JSON = b"application/json"
_SPEC_VERSION = b"1.0"
_DIGITS = 18  # of a generation


class Event(Protocol):
    """An event model: a pydantic model with a CloudEvents type."""

    event_type: ClassVar[str]

    def model_dump_json(self) -> str:
        """The event as JSON."""


class EnvelopeError(ValueError):
    """A record is not a valid CloudEvent for Moorage. The error names the attribute, its value and the rule."""

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(f"{field}: invalid value {value!r}: {rule}")
        self.field = field
        self.value = value
        self.rule = rule


class Meta(NamedTuple):
    """The attributes of an event, without its data."""

    id: str
    source: str
    type: str
    time: datetime | None = None
    subject: str = ""
    correlation_id: str = ""
    """The id of the first event of the chain. May be empty on that first event."""
    causation_id: str = ""
    """The id of the event that caused this one. Empty for the first event of a chain."""
    traceparent: str = ""
    configuration: int = 0
    """The generation of the configuration by which a service decided. 0 when there was none, or it did not matter."""
    proofs: tuple[tuple[str, bytes], ...] = ()
    """Headers to write that show who has written a report (`moorage_schemas.signing`). They are not read into this."""

    @property
    def correlation(self) -> str:
        """The correlation id. If it is empty, this event began the chain and its own id is returned."""
        return self.correlation_id or self.id


def event_id(*parts: object) -> str:
    """Make an event id: a hash of the event's cause, so that the same input always gives the same id."""
    return id_of("\x1f".join(map(str, parts)))


def id_of(text: str) -> str:
    """Make an event id of parts that are joined to one text already, with the unit separator, U+001F."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def id_bytes(text: str) -> bytes:
    """The bytes of `id_of`, as a header has them."""
    return hexlify(blake2b(text.encode(), digest_size=16).digest())


def to_headers(meta: Meta) -> list[tuple[str, bytes]]:
    """The record headers of an event in binary mode."""
    headers = [
        ("ce_specversion", _SPEC_VERSION),
        ("ce_id", meta.id.encode()),
        ("ce_source", meta.source.encode()),
        ("ce_type", meta.type.encode()),
        (CONTENT_TYPE, _JSON),
    ]
    if meta.time is not None:
        headers.append(("ce_time", format_time(meta.time).encode()))
    if meta.subject:
        headers.append(("ce_subject", meta.subject.encode()))
    if meta.correlation_id:
        headers.append(("ce_correlationid", meta.correlation_id.encode()))
    if meta.causation_id:
        headers.append(("ce_causationid", meta.causation_id.encode()))
    if meta.traceparent:
        headers.append(("traceparent", meta.traceparent.encode()))
    if meta.configuration:
        headers.append((CONFIGURATION_HEADER, str(meta.configuration).encode()))
    headers += meta.proofs
    return headers


def from_headers(headers: Headers) -> Meta:
    """Read the attributes of a record in binary mode.

    Raises:
        EnvelopeError: an attribute that CloudEvents requires is missing or wrong.
    """
    found = dict(headers)
    try:
        if found.get("ce_specversion") != _SPEC_VERSION:
            raise EnvelopeError("specversion", _text(found, "ce_specversion"), "must be 1.0")
        meta = Meta(
            id=_text(found, "ce_id"),
            source=_text(found, "ce_source"),
            type=_text(found, "ce_type"),
            time=_time(_text(found, "ce_time")),
            subject=_text(found, "ce_subject"),
            correlation_id=_text(found, "ce_correlationid"),
            causation_id=_text(found, "ce_causationid"),
            traceparent=_text(found, "traceparent"),
            configuration=generation_of(found.get(CONFIGURATION_HEADER)),
        )
    except UnicodeDecodeError as error:
        raise EnvelopeError("headers", error.object, "must be UTF-8 text") from None
    _require(meta)
    return meta


def parse_structured(document: object) -> tuple[Meta, Any]:
    """Read the attributes and data of one event in structured mode, given as a decoded JSON object.

    Raises:
        EnvelopeError: the document is not an object, or an attribute is missing or wrong.
    """
    if not isinstance(document, Mapping):
        raise EnvelopeError("event", document, "must be a JSON object in CloudEvents structured mode")
    if document.get("specversion") != "1.0":
        raise EnvelopeError("specversion", document.get("specversion"), "must be 1.0")
    texts = {}
    for name in ("id", "source", "type", "time", "subject", "correlationid", "causationid", "traceparent"):
        value = document.get(name, "")
        if not isinstance(value, str):
            raise EnvelopeError(name, value, "must be a string")
        texts[name] = value
    if "data_base64" in document:
        raise EnvelopeError("data_base64", "…", "data must be JSON in `data`")
    meta = Meta(
        id=texts["id"],
        source=texts["source"],
        type=texts["type"],
        time=_time(texts["time"]),
        subject=texts["subject"],
        correlation_id=texts["correlationid"],
        causation_id=texts["causationid"],
        traceparent=texts["traceparent"],
        configuration=_generation(document.get("configuration", 0)),
    )
    _require(meta)
    return meta, document.get("data")


def to_structured(meta: Meta, event: Event) -> dict[str, Any]:
    """One event in structured mode, as a JSON object."""
    document: dict[str, Any] = {
        "specversion": "1.0",
        "id": meta.id,
        "source": meta.source,
        "type": meta.type,
        "datacontenttype": "application/json",
        "data": json.loads(event.model_dump_json()),
    }
    if meta.time is not None:
        document["time"] = format_time(meta.time)
    optional = {
        "subject": meta.subject,
        "correlationid": meta.correlation_id,
        "causationid": meta.causation_id,
        "traceparent": meta.traceparent,
    }
    document.update({name: value for name, value in optional.items() if value})
    if meta.configuration:
        document["configuration"] = meta.configuration
    return document


def is_structured(headers: Iterable[tuple[str, bytes | None]]) -> bool:
    """Whether the content type of a record is that of structured mode."""
    return any(
        name.lower() == CONTENT_TYPE
        and (value or b"").decode("latin-1").partition(";")[0].strip().lower() == STRUCTURED
        for name, value in headers
    )


def generation_of(value: bytes | None) -> int:
    """The generation of a configuration that a header names. 0 for none, or for anything but a number.

    Anyone may write a header of this name to an open topic, and nothing is decided by it.
    """
    return int(value) if value and value.isdigit() and len(value) <= _DIGITS else 0


def _generation(value: object) -> int:
    return generation_of(str(value).encode())


def _text(found: Mapping[str, bytes | None], name: str) -> str:
    return (found.get(name) or b"").decode()


def _time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        parsed = parse_time(text)
    except ValueError as error:
        raise EnvelopeError("time", text, str(error)) from None
    return parsed if isinstance(parsed, datetime) else None


def _require(meta: Meta) -> None:
    for name, value in (("id", meta.id), ("source", meta.source), ("type", meta.type)):
        if not value:
            raise EnvelopeError(name, value, "is required by CloudEvents and must not be empty")
