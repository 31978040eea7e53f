"""Events that a webhook has not taken: how they are written to dead-letters, and read again from there."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any, Final

from aiokafka import TopicPartition

from moorage.runtime.engine.dead_letters import dead_letter
from moorage.runtime.service import Malformed, child_meta, source_name
from moorage.runtime.wire.codec import attributes, raw_record, serialize
from moorage.runtime.wire.light_records import LightRecord
from moorage.workers.webhooks.deliveries import TOPICS, Delivery, delivery_of
from moorage_schemas.dead_letter import DeadLettered, RefusalReason
from moorage_schemas.envelope import event_id, to_headers
from moorage_schemas.resources.webhook import WebhookReplay, WebhookSpec

NAME: Final = "webhooks"
"""The name of the worker: in dead letters, metrics and groups."""

Written = tuple[str, bytes, bytes | None, list[tuple[str, bytes]]]
"""The key of the partition, and a record's key, value and headers."""


def letter_of(webhook: str, retry_seconds: int, delivery: Delivery, why: str, now: datetime) -> Written:
    """Return the dead letter of a delivery that was given up."""
    record = delivery.record
    bad = Malformed(
        topic=delivery.topic,
        partition=record.partition,
        offset=record.offset,
        raw=raw_record(record),
        reason=RefusalReason.UNDELIVERED,
        message=f"Webhook {webhook} did not take it: {why}",
        field="webhook",
        value=webhook,
        rule=f"must be taken within {retry_seconds} s",
    )
    emit = dead_letter(NAME, bad, now, attributes(delivery.topic, record))
    meta = child_meta(emit, source=source_name(NAME), now=now)
    meta = meta._replace(id=event_id(meta.id, delivery.id, now.isoformat()))
    return emit.partition_key, emit.key.encode(), serialize(emit), to_headers(meta)


def replayed(
    webhook: str, uid: str, spec: WebhookSpec, asked: WebhookReplay, record: Any, *, place: TopicPartition
) -> Delivery | None:
    """Return what is sent again for a dead letter; None if it is none of this webhook, or of another time.

    Raises:
        ValueError: the dead letter cannot be read.
    """
    if record.value is None or b'"Undelivered"' not in record.value:  # most are not decoded
        return None
    letter = DeadLettered.model_validate_json(record.value, extra="ignore")
    topic = TOPICS.get(letter.topic)
    if letter.reason != RefusalReason.UNDELIVERED or letter.value != webhook or letter.truncated or topic is None:
        return None
    if not asked.since <= letter.refused_time <= asked.until:
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
    return delivery_of(spec, uid, topic, original, place=place, offset=record.offset, written=asked.until)
