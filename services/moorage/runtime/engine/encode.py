"""Encodes a decision as the records of its transaction, with the steps that led to it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

import structlog
from msgspec.structs import replace

from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.journal import STEPS_HEADER, Part, TaskBook, fits, heading, texts
from moorage.runtime.process import metrics
from moorage.runtime.process.logs import bound_to
from moorage.runtime.service import Emit, Service, child_id, id_text, source_name
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire import codec
from moorage.runtime.wire.codec import Outgoing
from moorage_schemas.condition import FAILED, REFUSED
from moorage_schemas.envelope import CONFIGURATION_HEADER, CONTENT_TYPE, Meta, event_id, id_of, to_headers
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.journal import StepsTaken
from moorage_schemas.times import format_time
from moorage_schemas.topics import EVICTIONS, JOURNAL, PLACEMENTS, TAINTS, TIMER_FIRED, Topic, partition_of

log = structlog.get_logger(__name__)

_SPEC_VERSION = ("ce_specversion", b"1.0")
_CONTENT_TYPE = (CONTENT_TYPE, b"application/json")
_SUBJECT = 6  # its place among the headers


class _Place(NamedTuple):
    """The common part of all records of one topic."""

    of: Topic | None
    topic: str
    is_state: bool
    source: tuple[str, bytes]
    type: tuple[str, bytes]


_NOWHERE = _Place(None, "", is_state=False, source=("", b""), type=("", b""))


class Encoder:
    """Encodes the decisions of one service.

    The headers are those of `envelope.to_headers(service.child_meta(...))`. They are built in one step, because this
    code runs for every record that is written. A test checks that both ways agree.
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
            decision: the decision to write.
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
        records: list[Outgoing] = []
        place = _NOWHERE
        for (emit, value), configuration in zip(decision.emits, decision.configurations, strict=True):
            topic, key, cause = emit.topic, emit.key, emit.cause
            if topic is not place.of:
                place = self._places.get(topic.short) or self._place(topic)
            raw_key = key.encode()
            if emit.meta is not None:
                headers = to_headers(emit.meta)
            else:
                cause_id = cause.id.encode()
                headers = [
                    _SPEC_VERSION,
                    ("ce_id", _id(emit, ordinals).encode()),
                    place.source,
                    place.type,
                    _CONTENT_TYPE,
                    time,
                    ("ce_subject", raw_key),
                    ("ce_correlationid", cause.correlation_id.encode() or cause_id),
                    ("ce_causationid", cause_id),
                ]
                if not key:
                    del headers[_SUBJECT]
                if cause.traceparent:
                    headers.append(("traceparent", cause.traceparent.encode()))
                if configuration:
                    headers.append((CONFIGURATION_HEADER, b"%d" % configuration))
            if place.is_state:
                headers += sources
            # `BatchProcessor.add` has checked that state belongs to the decision's partition.
            known = place.is_state and decision.partition >= 0
            partition = decision.partition if known else partition_of(emit.partition_key, self._partitions)
            records.append(Outgoing(place.topic, partition, raw_key, value, headers))
        if log.is_enabled_for(logging.DEBUG):
            self._log_events(decision, records)
        return records

    def _log_events(self, decision: BatchDecision, records: Sequence[Outgoing]) -> None:
        """Log every event of a decision with its id, its correlation id and its subject."""
        for (emit, _), record in zip(decision.emits, records, strict=True):
            with bound_to(emit.cause, emit.partition_key, service=self._name):
                log.debug(
                    "event.decided",
                    topic=emit.topic.short,
                    key=emit.key,
                    id=dict(record.headers)["ce_id"].decode(),
                    tombstone=emit.content is None,
                )

    def _place(self, topic: Topic) -> _Place:
        place = self._places[topic.short] = _Place(
            of=topic,
            topic=topic.name(self._prefix),
            is_state=topic in self._changelogs,
            source=("ce_source", self._source.encode()),
            type=("ce_type", topic.event_type.encode()),
        )
        return place

    def count(self, decision: BatchDecision) -> None:
        """Update the metrics for a decision. Called when it is committed."""
        emits: dict[Topic, list[Emit]] = {}
        for topic, group in groupby(decision.emits, _topic):
            emits.setdefault(topic, []).extend([emit for emit, _ in group])
        for topic, written in emits.items():
            metrics.EMITTED.labels(self._name, topic.short).inc(len(written))
            if topic is EVICTIONS:
                for emit in written:
                    if (
                        isinstance(emit.content, EvictionDecided)
                        and (escalation := emit.content.escalation) is not None
                    ):
                        metrics.ESCALATIONS.labels(self._name, _REASONS.get(escalation.reason, "other")).inc()
            if topic.short in _DECIDED:
                since = [found for emit in written if (found := getattr(emit.event, "report_time", None)) is not None]
                metrics.DECISION_SECONDS.observe(_seconds(since, decision.now), self._name, topic.short)
            elif topic is TIMER_FIRED:
                # The cause of such a record is the time of a deadline.
                since = [emit.cause.time for emit in written if emit.cause.time is not None]
                metrics.TIMER_LATENESS.observe(_seconds(since, decision.now), self._name)


_REASONS = {FAILED: FAILED, REFUSED: REFUSED}
"""The reasons by which escalations are counted. A deployer may give any other."""

_DECIDED = frozenset(topic.short for topic in (EVICTIONS, PLACEMENTS, TAINTS))
"""The topics whose events state when the report was made that led to them."""


def _id(emit: Emit, ordinals: dict[str, int]) -> str:
    """Return the id of an event. `ordinals` has the number of the last event of each step of this decision."""
    about = id_text(emit)
    ordinal = ordinals[about] = ordinals.get(about, -1) + 1
    return child_id(emit, ordinal) if ordinal else id_of(about)


def _topic(written: tuple[Emit, bytes | None]) -> Topic:
    return written[0].topic


def _seconds(since: Iterable[datetime], now: datetime) -> list[float]:
    """Return how long ago these instants were."""
    return [max(0.0, (now - one).total_seconds()) for one in since]


def with_steps(
    book: TaskBook, decision: BatchDecision, records: list[Outgoing], parts: Sequence[Part], settings: Settings
) -> list[Outgoing]:
    """Return the records of a transaction, with the steps that a replay needs to repeat them."""
    if records and decision.number >= 0:
        first = records[0]
        header = heading(book, decision.number, len(records), parts)
        topic = decision.emits[0][0].topic
        size = len(first.key) + len(first.value or b"") + sum(len(name) + len(value) for name, value in first.headers)
        if not fits(header, size, topic.max_message_bytes):
            header = heading(book, decision.number, len(records), ())
            records = [*records, *_steps_alone(book, decision, parts, settings)]
        records[0] = replace(first, headers=[*first.headers, (STEPS_HEADER, header)])
        return records
    return [*records, *_steps_alone(book, decision, parts, settings)]


def _steps_alone(book: TaskBook, decision: BatchDecision, parts: Sequence[Part], settings: Settings) -> list[Outgoing]:
    """Return steps as records of their own."""
    run, service = book.journal.run, book.service
    found = []
    for first, text in texts(parts):
        meta = Meta(
            id=event_id("steps", run, first),
            source=source_name(service),
            type=JOURNAL.event_type,
            time=decision.now,
            subject=run,
        )
        value = StepsTaken(service=service, run=run, first=first, steps=text).model_dump_json().encode()
        name = JOURNAL.name(settings.topic_prefix)
        found.append(Outgoing(name, book.partition, run.encode(), value, to_headers(meta)))
    return found
