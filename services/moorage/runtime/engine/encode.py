"""Encodes a decision as the records of its transaction, with the steps that led to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.journal import STEPS_HEADER, Part, TaskBook, fits, heading, texts
from moorage.runtime.process import metrics
from moorage.runtime.process.traces import traceparent_in
from moorage.runtime.service import Emit, Service, child_id, child_meta, id_text, source_name
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire import codec
from moorage.runtime.wire.codec import Outgoing
from moorage.runtime.wire.kafka_records import NULL, VARINT, header_bytes
from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.envelope import CONFIGURATION_HEADER, CONTENT_TYPE, Meta, event_id, id_bytes, to_headers
from moorage_schemas.journal import StepsTaken
from moorage_schemas.times import format_time
from moorage_schemas.topics import (
    DEAD_LETTERS,
    EVICTIONS,
    JOURNAL,
    PLACEMENTS,
    TAINTS,
    TIMER_FIRED,
    Topic,
    partition_of,
)
from moorage_schemas.trace_context import LENGTH

_SPEC_VERSION = header_bytes("ce_specversion", b"1.0")
_CONTENT_TYPE = header_bytes(CONTENT_TYPE, b"application/json")
_HASHED = 32  # the length of an id, which is a hash
_HEADERS = 10  # the headers that every record has


def _named(name: str) -> bytes:
    """Return the bytes of a header up to the length of its value."""
    return VARINT[len(name)] + name.encode()


_ID = _named("ce_id") + VARINT[_HASHED]
_ID_AT = 1 + len(_SPEC_VERSION) + len(_ID)
"""Where the id is in the headers, after their number."""

_SUBJECT, _CORRELATION, _CAUSATION = map(_named, ("ce_subject", "ce_correlationid", "ce_causationid"))
_TRACE = _named("traceparent") + VARINT[LENGTH]
_SPAN = 36, 52
"""The place of the span's id in a `traceparent`."""


class _Place(NamedTuple):
    """The common part of all records of one topic in a decision."""

    of: Topic | None
    topic: str
    is_state: bool
    middle: bytes
    """The headers between the id and the subject, and the subject's name."""

    sources: bytes
    """The headers with the positions, for a state record."""

    headers: int
    """The number of headers without a configuration."""


_NOWHERE = _Place(None, "", is_state=False, middle=b"", sources=b"", headers=0)


class Encoder:
    """Encodes the decisions of one service.

    The headers are those of `envelope.to_headers(service.child_meta(...))`. They are written as bytes in one step,
    because this code runs for every record that is written. A test checks that both ways agree.
    """

    def __init__(self, service: Service[Any], *, prefix: str, partitions: int) -> None:
        self._name = service.name
        self._service = service
        self._changelogs = frozenset(service.changelogs)
        self._source = source_name(service.name)
        self._prefix = prefix
        self._partitions = partitions

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
        written = b"".join(header_bytes(*header) for header in sources)
        time = header_bytes("ce_time", format_time(decision.now).encode())
        ordinals: dict[str, int] = {}
        records: list[Outgoing] = []
        places: dict[str, _Place] = {}
        place = _NOWHERE
        generation, by = 0, b""
        varint, join = VARINT, b"".join
        for (emit, value), configuration in zip(decision.emits, decision.configurations, strict=True):
            topic, key, cause = emit.topic, emit.key, emit.cause
            if topic is not place.of:
                place = places.get(topic.short) or self._place(topic, time, written)
                places[topic.short] = place
            raw_key = key.encode()
            # `BatchProcessor.add` has checked that state belongs to the decision's partition.
            known = place.is_state and decision.partition >= 0
            partition = decision.partition if known else partition_of(emit.partition_key, self._partitions)
            if emit.meta is not None or not key:
                meta = emit.meta or self._meta(emit, decision.now, _id(emit, ordinals).decode(), configuration)
                headers = [*to_headers(meta), *(sources if place.is_state else ())]
                records.append(Outgoing.of(place.topic, partition, raw_key, value, headers))
            else:
                if configuration != generation:
                    generation = configuration
                    by = header_bytes(CONFIGURATION_HEADER, b"%d" % generation) if generation else b""
                cause_id = cause.id.encode()
                correlation = cause.correlation_id.encode() or cause_id
                identity = _id(emit, ordinals)
                key_length = varint[len(raw_key)]
                record = join(
                    (
                        key_length,
                        raw_key,
                        NULL if value is None else varint[len(value)],
                        value or b"",
                        varint[place.headers + (generation > 0)],
                        _SPEC_VERSION,
                        _ID,
                        identity,
                        place.middle,
                        key_length,
                        raw_key,
                        _CORRELATION,
                        varint[len(correlation)],
                        correlation,
                        _CAUSATION,
                        varint[len(cause_id)],
                        cause_id,
                        _TRACE,
                        trace_of(cause, identity),
                        by,
                        place.sources,
                    )
                )
                records.append(Outgoing(place.topic, partition, raw_key, value, record))
        return records

    def attributes(self, emit: Emit, record: Outgoing, now: datetime, configuration: int) -> Meta | None:
        """Return the attributes of a record that `records` has made; None when only its headers have them.

        This runs for every record that a service of a chain hands over, and its id is all that is read from the bytes.
        """
        if emit.meta is not None or not emit.key:
            return None
        cause, identity = emit.cause, id_in(record)
        return codec.new_meta(
            (
                identity,
                self._source,
                emit.topic.event_type,
                now,
                emit.key,
                cause.correlation,
                cause.id,
                trace_of(cause, identity.encode()).decode(),
                configuration,
                (),
            )
        )

    def _meta(self, emit: Emit, now: datetime, id_: str, configuration: int) -> Meta:
        meta = child_meta(emit, source=self._source, now=now, configuration=configuration)
        return meta._replace(id=id_, traceparent=trace_of(emit.cause, id_.encode()).decode())

    def _place(self, topic: Topic, time: bytes, sources: bytes) -> _Place:
        is_state = topic in self._changelogs
        headers = (
            header_bytes("ce_source", self._source.encode()),
            header_bytes("ce_type", topic.event_type.encode()),
            _CONTENT_TYPE,
            time,
        )
        return _Place(
            of=topic,
            topic=topic.name(self._prefix),
            is_state=is_state,
            middle=b"".join((*headers, _SUBJECT)),
            sources=sources if is_state else b"",
            headers=_HEADERS + 2 * is_state,
        )

    def count(self, decision: BatchDecision) -> None:
        """Update the metrics for a decision. Called when it is committed."""
        emits: dict[Topic, list[Emit]] = {}
        for topic, group in groupby(decision.emits, _topic):
            emits.setdefault(topic, []).extend([emit for emit, _ in group])
        for topic, written in emits.items():
            metrics.EMITTED.labels(self._name, topic.short).inc(len(written))
            if topic.short in _DECIDED:
                since = [found for emit in written if (found := getattr(emit.event, "report_time", None)) is not None]
                metrics.DECISION_SECONDS.observe(_seconds(since, decision.now), self._name, topic.short)
            elif topic is TIMER_FIRED:
                # The cause of such a record is the time of a deadline.
                since = [emit.cause.time for emit in written if emit.cause.time is not None]
                metrics.TIMER_LATENESS.observe(_seconds(since, decision.now), self._name)
            elif topic is DEAD_LETTERS:
                for emit in written:
                    if isinstance(refused := emit.content, DeadLettered):
                        metrics.DEAD_LETTERS.labels(self._name, refused.reason.value).inc(refused.count)
        if emits:
            metrics.LAST_DECISION.labels(self._name).set(decision.now.timestamp())
            self._service.committed(emits, decision.now)


_DECIDED = frozenset(topic.short for topic in (EVICTIONS, PLACEMENTS, TAINTS))
"""The topics whose events state when the report was made that led to them."""


def trace_of(cause: Meta, identity: bytes) -> bytes:
    """Return the `traceparent` of an event with this id: that of its cause, with a span of its own."""
    incoming = cause.traceparent
    if len(incoming) == LENGTH:  # events from outside were checked when they were read
        begin, end = _SPAN
        known = incoming.encode()
        return known[:begin] + identity[: end - begin] + known[end:]
    return traceparent_in(identity.decode(), cause.correlation, incoming).encode()


def id_in(record: Outgoing) -> str:
    """Return the id of a record that `Encoder.records` has made with an id of its own."""
    begin = record.begin + _ID_AT
    return record.record[begin : begin + _HASHED].decode()


def _id(emit: Emit, ordinals: dict[str, int]) -> bytes:
    """Return the id of an event. `ordinals` has the number of the last event of each step of this decision."""
    about = id_text(emit)
    ordinal = ordinals[about] = ordinals.get(about, -1) + 1
    return child_id(emit, ordinal).encode() if ordinal else id_bytes(about)


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
        if not fits(header, len(first.record), topic.max_message_bytes):
            header = heading(book, decision.number, len(records), ())
            records = [*records, *_steps_alone(book, decision, parts, settings)]
        headers = [*first.headers, (STEPS_HEADER, header)]
        records[0] = Outgoing.of(first.topic, first.partition, first.key, first.value, headers)
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
        found.append(Outgoing.of(name, book.partition, run.encode(), value, to_headers(meta)))
    return found
