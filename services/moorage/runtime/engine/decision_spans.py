"""The spans of decisions: one for each event, from the decision to its commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Final

from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.encode import id_in, trace_of
from moorage.runtime.process.traces import AttributeValue, FinishedSpan, SpanExport
from moorage.runtime.service import Emit
from moorage.runtime.wire.codec import Outgoing
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import (
    BINDINGS,
    BUDGETS,
    CONFIGURATION,
    EVICTION_SLOTS,
    FLEET,
    GENERATION_FLOORS,
    JOURNAL,
    RESOURCES,
    TIMERS,
    ZONES,
)
from moorage_schemas.trace_context import LENGTH, NOT_SAMPLED, TraceContext, parse

_WITHOUT: Final = frozenset(
    topic.short for topic in (BUDGETS, CONFIGURATION, EVICTION_SLOTS, GENERATION_FLOORS, JOURNAL, TIMERS, ZONES)
)
"""Topics whose records nothing follows from, because they only store what other records state."""

_NOT_SAMPLED: Final = f"-{NOT_SAMPLED}"
_REFS: Final = "workload", "target"
_FIELDS: Final = (*_REFS, "state", "reason", "zone")
_ENDS: Final = frozenset({BINDINGS.short, RESOURCES.short})
"""The topics whose tombstones are decisions. Others only remove what has ended."""


def context_of(emit: Emit, record: Outgoing) -> TraceContext | None:
    """Return the span of an emitted event; None if it has no span of its own."""
    return None if emit.meta is not None else _contexts(emit.cause, id_in(record))[0]


def _contexts(cause: Meta, event_id: str) -> tuple[TraceContext | None, TraceContext | None]:
    """Return the span of an event, and that of its cause. `parse` returns the same, and takes longer."""
    incoming = cause.traceparent
    if len(incoming) == LENGTH:  # it is valid: events from outside were checked when they were read
        trace_id, flags = incoming[3:35], incoming[53:]
        return TraceContext(trace_id, event_id[:16], flags), TraceContext(trace_id, incoming[36:52], flags)
    return parse(trace_of(cause, event_id.encode()).decode()), parse(incoming)


class DecisionSpans:
    """Records the spans of one service's decisions.

    Args:
        service: the name of the service.
        prefix: the prefix of the topics.
    """

    def __init__(self, service: str, prefix: str) -> None:
        self._service = service
        self._prefix = prefix

    def submit(
        self, export: SpanExport, decision: BatchDecision, records: Sequence[Outgoing], committed: datetime
    ) -> None:
        """Export the spans of a committed decision."""
        found = [
            (emit, record)
            for (emit, _), record in zip(decision.emits, records, strict=True)
            if not emit.can_wait and _has_span(emit) and not emit.cause.traceparent.endswith(_NOT_SAMPLED)
        ]
        if found:
            begin, end = decision.now.timestamp(), committed.timestamp()
            export.submit(len(found), lambda: self._spans(export, found, begin, end))

    def _spans(
        self, export: SpanExport, found: Sequence[tuple[Emit, Outgoing]], begin: float, end: float
    ) -> Iterator[FinishedSpan]:
        for emit, record in found:
            event_id = id_in(record)
            context, parent = _contexts(emit.cause, event_id)
            if context is not None and export.is_wanted(context):
                attributes, name = self._attributes(emit, event_id), f"send {emit.topic.short}"
                yield FinishedSpan(self._service, name, context, parent, begin, end, attributes)

    def _attributes(self, emit: Emit, event_id: str) -> dict[str, AttributeValue]:
        """Return the attributes: those of OpenTelemetry's messaging conventions, and the fields of the log."""
        key, subject, content = emit.key, emit.partition_key, emit.content
        found: dict[str, AttributeValue] = {
            "messaging.system": "kafka",
            "messaging.operation.type": "send",
            "messaging.destination.name": emit.topic.name(self._prefix),
            "messaging.message.id": event_id,
            "messaging.message.conversation_id": emit.cause.correlation,
            "messaging.kafka.message.key": key,
        }
        if subject != FLEET:
            found["moorage.target" if "|" in key or key == subject else "moorage.key"] = subject
        if content is None:
            found["messaging.kafka.message.tombstone"] = True
        elif not isinstance(content, bytes):
            for field, name in _described(type(content)):
                value = getattr(content, field)
                if value:
                    text = value.value if isinstance(value, Enum) else value.key if field in _REFS else value
                    found[name] = str(text)
        return found


def _has_span(emit: Emit) -> bool:
    topic = emit.topic.short
    return emit.meta is None and topic not in _WITHOUT and (emit.content is not None or topic in _ENDS)


@cache
def _described(kind: type[Model]) -> Sequence[tuple[str, str]]:
    """Return the fields of a kind of event that its line in the log has as well, each with the attribute's name."""
    return [(name, f"moorage.{name}") for name in _FIELDS if name in kind.model_fields or hasattr(kind, name)]
