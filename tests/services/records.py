"""Records as the runtime hands them to a service, for tests that call one directly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from moorage.runtime.service import Input, RawRecord
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import Topic

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """An instant some seconds after the beginning of time."""
    return T0 + timedelta(seconds=seconds)


def record(
    topic: Topic,
    key: str,
    event: Model | None,
    *,
    id: str = "e1",  # noqa: A002 - the CloudEvents attribute's own name
    time: datetime | None = None,
    partition: int = 0,
    source: str = "probe",
    size: int = 0,
) -> Input:
    """One record; `size` pads the raw value to so many bytes."""
    meta = Meta(id=id, source=source, type=topic.event_type, time=time, subject=key)
    value = None if event is None else event.model_dump_json().encode().ljust(size)
    raw = RawRecord(key=key.encode(), value=value, headers=(("ce_id", id.encode()),))
    return Input(topic, partition, 0, key, event, meta, raw)
