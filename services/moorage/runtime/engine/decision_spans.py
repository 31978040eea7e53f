"""The spans of decisions: one for each event, from the decision to its commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final

from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.encode import id_in, trace_of
from moorage.runtime.process.traces import FinishedSpan, SpanExport
from moorage.runtime.service import Emit
from moorage.runtime.wire.codec import Outgoing
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
from moorage_schemas.trace_context import NOT_SAMPLED, TraceContext, parse

_WITHOUT: Final = frozenset(
    topic.short for topic in (BUDGETS, CONFIGURATION, EVICTION_SLOTS, GENERATION_FLOORS, JOURNAL, TIMERS, ZONES)
)
"""Topics whose records nothing follows from, because they only store what other records state."""

_NOT_SAMPLED: Final = f"-{NOT_SAMPLED}"
_ENDS: Final = frozenset({BINDINGS.short, RESOURCES.short})
"""The topics whose tombstones are decisions. Others only remove what has ended."""


def context_of(emit: Emit, record: Outgoing) -> TraceContext | None:
    """Return the span of an emitted event; None if it has no span of its own."""
    if emit.meta is not None:
        return None
    return parse(trace_of(emit.cause, id_in(record).encode()).decode())


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
            context = context_of(emit, record)
            if context is not None and export.is_wanted(context):
                parent, name = parse(emit.cause.traceparent), f"send {emit.topic.short}"
                yield FinishedSpan(self._service, name, context, parent, begin, end, self._attributes(emit, record))

    def _attributes(self, emit: Emit, record: Outgoing) -> dict[str, str | int | float | bool]:
        """Return the attributes: those of OpenTelemetry's messaging conventions, and the fields of the log."""
        found: dict[str, str | int | float | bool] = {
            "messaging.system": "kafka",
            "messaging.operation.type": "send",
            "messaging.destination.name": emit.topic.name(self._prefix),
            "messaging.message.id": id_in(record),
            "messaging.message.conversation_id": emit.cause.correlation,
            "messaging.kafka.message.key": emit.key,
        }
        if emit.partition_key != FLEET:
            found["moorage.target" if "|" in emit.key or emit.key == emit.partition_key else "moorage.key"] = (
                emit.partition_key
            )
        if emit.content is None:
            found["messaging.kafka.message.tombstone"] = True
        elif not isinstance(emit.content, bytes):
            found |= _of_event(emit.content)
        return found


def _has_span(emit: Emit) -> bool:
    topic = emit.topic.short
    return emit.meta is None and topic not in _WITHOUT and (emit.content is not None or topic in _ENDS)


def _of_event(event: Any) -> dict[str, str | int | float | bool]:
    """Return the fields of an event that its line in the log has as well."""
    found: dict[str, str | int | float | bool] = {}
    for name in ("workload", "target"):
        if (ref := getattr(event, name, None)) is not None:
            found[f"moorage.{name}"] = ref.key
    for name in ("state", "reason", "zone"):
        value = getattr(event, name, None)
        if value:
            found[f"moorage.{name}"] = str(value.value if isinstance(value, Enum) else value)
    return found
