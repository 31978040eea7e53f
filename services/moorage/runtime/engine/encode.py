"""Encodes a decision as the records of its transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import structlog

from moorage.runtime import codec, metrics
from moorage.runtime.codec import Outgoing
from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.logs import bound_to
from moorage.runtime.service import Service, child_id, id_text, source_name
from moorage_schemas.base import Model
from moorage_schemas.envelope import CONFIGURATION_HEADER, CONTENT_TYPE, event_id, to_headers
from moorage_schemas.times import format_time
from moorage_schemas.topics import EVICTIONS, PLACEMENTS, TAINTS, TIMER_FIRED, Topic, partition_of

log = structlog.get_logger(__name__)

_SPEC_VERSION = ("ce_specversion", b"1.0")
_CONTENT_TYPE = (CONTENT_TYPE, b"application/json")


class _Place(NamedTuple):
    """What all records of one topic have in common."""

    topic: str
    is_state: bool
    source: tuple[str, bytes]
    type: tuple[str, bytes]


class Encoder:
    """Encodes the decisions of one service.

    The headers are those of `envelope.to_headers(service.child_meta(...))`. They are built in one step, because this
    code runs for every record that is written. A test checks that both ways agree.

    Args:
        service: the service.
        prefix: the topics' prefix.
        partitions: the number of partitions of each topic.
    """

    def __init__(self, service: Service[Any], *, prefix: str, partitions: int) -> None:
        self._name = service.name
        self._changelogs = frozenset(service.changelogs)
        self._source = source_name(service.name)
        self._prefix = prefix
        self._partitions = partitions
        self._places: dict[str, _Place] = {}

    def records(self, decision: BatchDecision, positions: Mapping[str, int]) -> list[Outgoing]:
        """Return the records of a decision.

        Args:
            decision: what is written.
            positions: the next offset of every source, by short name, on which the state rests after the decision.
        """
        if not decision.emits:
            return []
        before = {topic.short: offset for topic, offset in decision.before.items()}
        sources = (
            (codec.SOURCES_HEADER, codec.sources_value(positions)),
            (codec.BEFORE_HEADER, codec.before_value(before, positions)),
        )
        time = ("ce_time", format_time(decision.now).encode())
        ordinals: dict[str, int] = {}
        records = []
        last, place = None, None
        for (emit, value), configuration in zip(decision.emits, decision.configurations, strict=True):
            topic, key, cause = emit.topic, emit.key, emit.cause
            if place is None or topic is not last:
                last, place = topic, self._places.get(topic.short) or self._place(topic)
            raw_key = key.encode()
            if emit.meta is not None:
                headers = to_headers(emit.meta)
            else:
                about = id_text(emit)
                ordinal = ordinals.get(about, -1) + 1
                ordinals[about] = ordinal
                headers = [
                    _SPEC_VERSION,
                    ("ce_id", (child_id(emit, ordinal) if ordinal else event_id(about)).encode()),
                    place.source,
                    place.type,
                    _CONTENT_TYPE,
                    time,
                ]
                if key:
                    headers.append(("ce_subject", raw_key))
                cause_id = cause.id.encode()
                headers.append(("ce_correlationid", cause.correlation_id.encode() or cause_id))
                headers.append(("ce_causationid", cause_id))
                if cause.traceparent:
                    headers.append(("traceparent", cause.traceparent.encode()))
                if configuration:
                    headers.append((CONFIGURATION_HEADER, b"%d" % configuration))
            if place.is_state:
                headers.extend(sources)
            # `BatchProcessor.add` has checked that state belongs to the decision's partition.
            known = place.is_state and decision.partition >= 0
            partition = decision.partition if known else partition_of(emit.partition_key, self._partitions)
            records.append(Outgoing(place.topic, partition, raw_key, value, headers))
        if log.is_enabled_for(logging.DEBUG):
            self._tell(decision, records)
        return records

    def _tell(self, decision: BatchDecision, records: Sequence[Outgoing]) -> None:
        """Log every event of a decision with its id, its correlation id and its subject."""
        for (emit, _), record in zip(decision.emits, records, strict=True):
            with bound_to(emit.cause, emit.partition_key, service=self._name):
                log.debug(
                    "event.decided",
                    topic=emit.topic.short,
                    key=emit.key,
                    id=dict(record.headers)["ce_id"].decode(),
                    tombstone=emit.event is None,
                )

    def _place(self, topic: Topic) -> _Place:
        place = self._places[topic.short] = _Place(
            topic=topic.name(self._prefix),
            is_state=topic in self._changelogs,
            source=("ce_source", self._source.encode()),
            type=("ce_type", topic.event_type.encode()),
        )
        return place

    def count(self, decision: BatchDecision) -> None:
        """Update the metrics for a decision. Called when it is committed."""
        events: dict[str, list[Model | None]] = {}
        for emit, _ in decision.emits:
            events.setdefault(emit.topic.short, []).append(emit.event)
        for short, written in events.items():
            metrics.EMITTED.labels(self._name, short).inc(len(written))
            if short in _DECIDED:
                since = [found for event in written if (found := getattr(event, "report_time", None)) is not None]
                metrics.DECISION_SECONDS.observe(_seconds(since, decision.now), self._name, short)
            elif short == TIMER_FIRED.short:
                since = [found for event in written if (found := getattr(event, "deadline", None)) is not None]
                metrics.TIMER_LATENESS.observe(_seconds(since, decision.now), self._name)


_DECIDED = frozenset(topic.short for topic in (EVICTIONS, PLACEMENTS, TAINTS))
"""The topics whose events state when the report was made that led to them."""


def _seconds(since: Iterable[datetime], now: datetime) -> list[float]:
    """Return how long ago these instants were."""
    return [max(0.0, (now - one).total_seconds()) for one in since]
