"""Records in the form that the runtime gives to a service, for tests that call a service directly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from moorage.runtime.service import EVERYTHING, Emit, Freshness, Input, RawRecord, Service
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import Topic

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """An instant some seconds after the start of the test's time."""
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
    """A record. `size` pads the raw value to this number of bytes."""
    meta = Meta(id=id, source=source, type=topic.event_type, time=time, subject=key)
    value = None if event is None else event.model_dump_json().encode().ljust(size)
    raw = RawRecord(key=key.encode(), value=value, headers=(("ce_id", id.encode()),))
    return Input(topic, partition, 0, key, event, meta, raw)


def decide(
    service: Service[Any],
    state: Any,
    batch: Sequence[Input],
    now: datetime,
    *,
    lagging: Iterable[str] | Mapping[str, str] | None = (),
) -> list[Emit]:
    """Give a service a batch and wake it, like the engine. Everything that it needs is read to its present end.

    Args:
        service: the service.
        state: the state of its partition.
        batch: the records.
        now: the present time.
        lagging: the keys for which upstream services have unprocessed records, and the service. None means all.
    """
    emits = service.process(state, batch, now) if batch else []
    return emits + wake(service, state, now, lagging=lagging)


def wake(
    service: Service[Any], state: Any, now: datetime, *, lagging: Iterable[str] | Mapping[str, str] | None = ()
) -> list[Emit]:
    """Wake a service, regardless of its next wake."""
    if service.needs(state, now) is not None:
        found = lagging
        if not isinstance(found, Mapping):
            found = dict.fromkeys((EVERYTHING,) if found is None else found, "taint-manager")
        service.refreshed(state, Freshness(now, lagging=found))
    return service.wake(state, now)
