"""Dead letters: records that were refused, with the reason and the original."""

from __future__ import annotations

import base64
from datetime import datetime

from moorage.runtime.service import Emit, Malformed
from moorage.runtime.wire.codec import record_meta
from moorage_schemas.dead_letter import DeadLettered, RefusalReason
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import DEAD_LETTERS

_MAX_ORIGINAL = 1_048_576  # bytes of the original that are kept
_SHOWN = 256  # characters of the offending value
_MAX_KEY = 1024  # characters of the original key
_MAX_HEADER, _MAX_HEADERS = 1024, 64  # characters of each header, and headers


def dead_letter(service: str, bad: Malformed, now: datetime, cause: Meta | None = None) -> Emit:
    """Return the dead letter of a record.

    Args:
        service: the service that refused it.
        bad: the record, and why it was refused.
        now: the time of the refusal.
        cause: the record's CloudEvents attributes. Without them, its topic, partition and offset identify it.
    """
    raw = bad.raw.value or b""
    original, encoding = _text(raw[:_MAX_ORIGINAL])
    # Original, key and headers are truncated: a dead letter too large for its topic would be refused again and again.
    key = (bad.raw.key or b"").decode("utf-8", "replace")[:_MAX_KEY]
    return Emit(
        topic=DEAD_LETTERS,
        key=key,
        partition_key=key,
        content=DeadLettered(
            service=service,
            reason=RefusalReason(bad.reason),
            message=bad.message,
            field=bad.field,
            value=bad.value[:_SHOWN],
            rule=bad.rule,
            topic=bad.topic.short,
            partition=bad.partition,
            offset=bad.offset,
            key=key,
            headers={
                name[:_SHOWN]: (value or b"")[: 4 * _MAX_HEADER].decode("utf-8", "replace")[:_MAX_HEADER]
                for name, value in bad.raw.headers[:_MAX_HEADERS]
            },
            original=original,
            original_encoding=encoding,
            original_size=len(raw),
            truncated=len(raw) > _MAX_ORIGINAL,
            refused_time=now,
            count=bad.count,
        ),
        cause=cause or record_meta(bad.topic, bad.partition, bad.offset),
    )


def _text(raw: bytes) -> tuple[str, str]:
    """Return the bytes as text when they are mostly plain UTF-8, otherwise as base64.

    Control characters would take six bytes each in JSON, which could make the dead letter too large for its topic.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode(), "base64"
    if sum(1 for char in text if char < " ") > len(text) // 8:
        return base64.b64encode(raw).decode(), "base64"
    return text, "utf-8"
