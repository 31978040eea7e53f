"""The spans of what a gateway writes: one for each report and each object, from the request to the commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from moorage.apiserver.storage.durable_log import Write
from moorage.runtime.process.traces import AttributeValue, FinishedSpan, SpanExport, span_export, traceparent_in
from moorage_schemas.condition import ConditionReported
from moorage_schemas.topics import CONDITION_REPORTS, RESOURCES
from moorage_schemas.trace_context import parse

_SERVICE: Final = "gateway"
_WITH_SPAN: Final = frozenset({RESOURCES.short, CONDITION_REPORTS.short})


class WriteSpans:
    """Some records with their trace contexts, whose spans are recorded when they are written.

    A record that begins a chain is a span, which follows on that of the request. What is written beside it, such as its
    audit, is part of that span.

    Args:
        writes: the records, each with the trace context of its request.
        begin: when the request was accepted.
    """

    def __init__(self, writes: Sequence[Write], begin: datetime) -> None:
        self._begin = begin
        self._given = writes
        self.writes = [_with_context(write) for write in writes]
        """The records to write."""

    def written(self, prefix: str, now: datetime) -> None:
        """Export the spans of what was written."""
        export = span_export()
        if export is None:
            return
        found = [(given, write) for given, write in zip(self._given, self.writes, strict=True) if _has_span(write)]
        if found:
            times = (self._begin.timestamp(), now.timestamp())
            export.submit(len(found), lambda: _spans(export, found, prefix, times))


def _spans(
    export: SpanExport, found: Sequence[tuple[Write, Write]], prefix: str, times: tuple[float, float]
) -> Iterator[FinishedSpan]:
    """Yield the spans of records, each given as before and after it got its context."""
    for given, write in found:
        context = parse(write.meta.traceparent)
        if context is not None and export.is_wanted(context):
            name, parent = f"send {write.topic.short}", parse(given.meta.traceparent)
            yield FinishedSpan(_SERVICE, name, context, parent, *times, _attributes(write, prefix))


def _attributes(write: Write, prefix: str) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        "messaging.system": "kafka",
        "messaging.operation.type": "send",
        "messaging.destination.name": write.topic.name(prefix),
        "messaging.message.id": write.meta.id,
        "messaging.message.conversation_id": write.meta.correlation,
        "messaging.kafka.message.key": write.key,
    }
    if isinstance(write.event, ConditionReported):
        report = write.event
        found |= {
            "moorage.target": report.target.key,
            "moorage.condition": report.type,
            "moorage.status": report.status.value,
            "moorage.reason": report.reason,
            "moorage.source": report.source or write.meta.source,
        }
    return found


def _has_span(write: Write) -> bool:
    return write.topic.short in _WITH_SPAN and not write.meta.causation_id


def _with_context(write: Write) -> Write:
    meta = write.meta
    if not meta.causation_id and not _has_span(write):
        return write  # nothing follows from it
    identity = meta.causation_id or meta.id
    return replace(write, meta=meta._replace(traceparent=traceparent_in(identity, meta.correlation, meta.traceparent)))
