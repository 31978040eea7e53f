"""Deliveries: the events sent to a webhook, and dead letters for those that its receiver has not accepted."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Final

import orjson
from aiokafka import TopicPartition

from moorage.runtime.service import Malformed, child_meta, source_name
from moorage.runtime.wire.codec import LightRecord, attributes, raw_record, serialize
from moorage.runtime.wire.record_format import dead_letter
from moorage_schemas.dead_letter import DeadLettered, RefusalReason
from moorage_schemas.envelope import Meta, event_id, from_headers, to_headers
from moorage_schemas.keys import BindingKey, EvictionKey, ResourceKey, TargetKey
from moorage_schemas.resources.webhook import WebhookReplay, WebhookSpec
from moorage_schemas.times import format_time, parse_time
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, TAINTS, Topic

TOPICS: Final[Mapping[str, Topic]] = {topic.short: topic for topic in (BINDINGS, EVICTIONS, PLACEMENTS, TAINTS)}
"""The topics whose events can be sent, by the names in `spec.events`."""

UNBOUND: Final = "io.moorage.workload.unbound.v1"
"""The type of the event about the end of a binding. In Kafka it is a tombstone."""

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one webhook."""

    id: str
    """`webhook-id`: the same for each attempt, and for a record that is read again."""

    lane: str
    """The unit of order: the key of the workload, or of the target of a taint."""

    place: TopicPartition
    """The place where the record was read. For a replay, it is not the original place."""

    offset: int
    written: datetime
    """The time from which `retrySeconds` count."""

    topic: Topic
    record: Any
    """The record of the event, for a dead letter."""

    body: bytes
    traceparent: str = ""
    """The trace context of the event."""


def delivery_of(
    spec: WebhookSpec, uid: str, topic: Topic, record: Any, *, place: TopicPartition, offset: int, written: datetime
) -> Delivery | None:
    """Return the delivery of a record; None if the webhook does not subscribe to it.

    Raises:
        EnvelopeError: the record is not an event.
    """
    if topic.short not in spec.events:
        return None
    key = (record.key or b"").decode("utf-8", "replace")
    workload, target = _about(topic, key)
    if not _wanted(spec, workload, target):
        return None
    data: Any
    if record.value is not None:
        meta, data = from_headers(record.headers), orjson.Fragment(record.value)
    elif topic is BINDINGS:
        meta, data = _unbound(record, key), _ends(workload, target)
    else:  # a key that is only removed
        return None
    return Delivery(
        id=event_id("webhook", uid, meta.id),
        lane=workload or target,
        place=place,
        offset=offset,
        written=written,
        topic=topic,
        record=record,
        body=orjson.dumps(_structured(meta, data)),
        traceparent=meta.traceparent,
    )


def written_at(record: Any) -> datetime:
    """Return when a record was written to Kafka."""
    return _EPOCH + timedelta(milliseconds=max(0, record.timestamp))


def _about(topic: Topic, key: str) -> tuple[str, str]:
    """Return the keys of the workload and of the target of a record; empty if it has none."""
    if topic is BINDINGS:
        binding = BindingKey.parse(key)
        return binding.workload, binding.target
    if topic is EVICTIONS:
        eviction = EvictionKey.parse(key)
        return eviction.workload, eviction.target
    return (key, "") if topic is PLACEMENTS else ("", key)


def _wanted(spec: WebhookSpec, workload: str, target: str) -> bool:
    if spec.namespaces is not None and (not workload or ResourceKey.parse(workload).namespace not in spec.namespaces):
        return False
    return spec.targets is None or any(target and fnmatchcase(target, pattern) for pattern in spec.targets)


def _unbound(record: Any, key: str) -> Meta:
    found = {name: (value or b"").decode("utf-8", "replace") for name, value in record.headers}
    identity = found.get("ce_id") or event_id(BINDINGS.short, record.partition, record.offset)
    return Meta(
        # A tombstone may have the id of another record of the same cause.
        id=event_id(identity, key, "unbound"),
        source=found.get("ce_source") or "placement",
        type=UNBOUND,
        time=_time_of(found.get("ce_time", "")),
        subject=key,
        correlation_id=found.get("ce_correlationid", ""),
        causation_id=found.get("ce_causationid", ""),
        traceparent=found.get("traceparent", ""),
    )


def _time_of(text: str) -> datetime | None:
    try:
        parsed = parse_time(text)
    except ValueError:
        return None
    return parsed if isinstance(parsed, datetime) else None


def _ends(workload: str, target: str) -> dict[str, Any]:
    of, on = ResourceKey.parse(workload), TargetKey.parse(target)
    return {
        "workload": {"kind": of.kind, "namespace": of.namespace, "name": of.name, **_cluster(of.cluster)},
        "target": {"kind": on.kind, "name": on.name, **_cluster(on.cluster)},
    }


def _cluster(name: str) -> dict[str, str]:
    return {"cluster": name} if name else {}


def _structured(meta: Meta, data: Any) -> dict[str, Any]:
    """Return a CloudEvent in structured mode. Its data is the record's value as it was written."""
    optional = {
        "time": format_time(meta.time) if meta.time else "",
        "subject": meta.subject,
        "correlationid": meta.correlation_id,
        "causationid": meta.causation_id,
        "traceparent": meta.traceparent,
    }
    return {
        "specversion": "1.0",
        "id": meta.id,
        "source": meta.source,
        "type": meta.type,
        "datacontenttype": "application/json",
        **{name: value for name, value in optional.items() if value},
        "data": data,
    }


NAME: Final = "webhooks"
"""The name of the worker: in dead letters, metrics and groups."""

Written = tuple[str, bytes, bytes | None, list[tuple[str, bytes]]]
"""The key of the partition, and a record's key, value and headers."""


def letter_of(webhook: str, retry_seconds: int, delivery: Delivery, why: str, now: datetime) -> Written:
    """Return the dead letter of an abandoned delivery."""
    record = delivery.record
    bad = Malformed(
        topic=delivery.topic,
        partition=record.partition,
        offset=record.offset,
        raw=raw_record(record),
        reason=RefusalReason.UNDELIVERED,
        message=f"Webhook {webhook} did not accept it: {why}",
        field="webhook",
        value=webhook,
        rule=f"must be accepted within {retry_seconds} s",
    )
    emit = dead_letter(NAME, bad, now, attributes(delivery.topic, record))
    meta = child_meta(emit, source=source_name(NAME), now=now)
    meta = meta._replace(id=event_id(meta.id, delivery.id, now.isoformat()))
    return emit.partition_key, emit.key.encode(), serialize(emit), to_headers(meta)


def replayed(
    webhook: str, uid: str, spec: WebhookSpec, replay: WebhookReplay, record: Any, *, place: TopicPartition
) -> Delivery | None:
    """Return the new delivery of a dead letter; None for other webhooks or times.

    Raises:
        ValueError: the dead letter cannot be read.
    """
    if record.value is None or b'"Undelivered"' not in record.value:  # most are not decoded
        return None
    letter = DeadLettered.model_validate_json(record.value, extra="ignore")
    topic = TOPICS.get(letter.topic)
    if letter.reason != RefusalReason.UNDELIVERED or letter.value != webhook or letter.truncated or topic is None:
        return None
    if not replay.since <= letter.refused_time <= replay.until:
        return None
    value = base64.b64decode(letter.original) if letter.original_encoding == "base64" else letter.original.encode()
    original = LightRecord(
        topic=topic.short,
        partition=letter.partition,
        offset=letter.offset,
        timestamp=record.timestamp,
        key=letter.key.encode(),
        value=value if letter.original_size else None,
        headers=tuple((name, text.encode()) for name, text in letter.headers.items()),
    )
    return delivery_of(spec, uid, topic, original, place=place, offset=record.offset, written=replay.until)
