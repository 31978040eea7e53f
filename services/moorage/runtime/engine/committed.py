"""The step after a commit: metrics, spans, and the lines of the log.

It runs once for each service whose decision a committed transaction contains. A decision that was aborted has no line,
and neither has one that is only recomputed, in a simulation or a replay.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.decision_spans import DecisionSpans, context_of
from moorage.runtime.engine.encode import Encoder, id_in
from moorage.runtime.process.decision_log import DecisionLog
from moorage.runtime.process.traces import span_export
from moorage.runtime.service import DecisionLines, Describe, Emit, Service
from moorage.runtime.wire.codec import Outgoing
from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.topics import DEAD_LETTERS


class Committed:
    """The step after the commit of one service's decision."""

    def __init__(self, service: Service[Any], encoder: Encoder, log: DecisionLog, *, prefix: str) -> None:
        self._encoder = encoder
        self._spans = DecisionSpans(service.name, prefix)
        self._log = log
        self._all: Mapping[str, Describe] = {
            DEAD_LETTERS.short: refusal_lines,
            **{topic.short: describe for topic, describe in service.lines.items()},
        }
        self._lines = EmittedLines(log, service.name)

    def __call__(self, decision: BatchDecision, records: Sequence[Outgoing], now: datetime) -> None:
        """Count a decision, record its spans and log it.

        Args:
            decision: the committed decision.
            records: its records, one for each of `decision.emits`.
            now: the time of the commit.
        """
        self._encoder.count(decision)
        if not decision.emits:
            return
        if self._log.level <= logging.WARNING or span_export() is not None:
            self._log.later(lambda: self._describe(decision, records, now))

    def _describe(self, decision: BatchDecision, records: Sequence[Outgoing], now: datetime) -> None:
        """Export the spans of a decision, and write its lines."""
        export, level, lines = span_export(), self._log.level, self._lines
        if export is not None:
            self._spans.submit(export, decision, records, now)
        found = self._all if level <= logging.INFO else _REFUSALS if level <= logging.WARNING else _NONE
        other = event_lines if level <= logging.DEBUG else None
        for (emit, _), record in zip(decision.emits, records, strict=True) if found else ():
            if emit.can_wait:  # it changes nothing but times
                continue
            if (describe := found.get(emit.topic.short, other)) is not None:
                lines.begin(emit, record)
                describe(emit, lines)


class EmittedLines(DecisionLines):
    """The lines about one emitted record after another. Each has the ids of its event."""

    def __init__(self, log: DecisionLog, service: str) -> None:
        self._log = log
        self._service = service
        self._emit: Emit | None = None
        self._record: Outgoing | None = None

    def begin(self, emit: Emit, record: Outgoing) -> None:
        """Begin with a record."""
        self._emit, self._record = emit, record

    def wants(self, kind: str, level: int = logging.INFO) -> bool:
        """Return whether a line of this kind is to be written now. If it is not, for its rate, it is counted."""
        return self._log.wants(kind, level)

    def write(self, kind: str, fields: Mapping[str, object], level: int = logging.INFO) -> None:
        """Write a line. Empty fields are left out."""
        emit, record = self._emit, self._record
        if emit is None or record is None:
            raise RuntimeError("begin was not called")
        meta = emit.meta
        ids = {"event_id": id_in(record) if meta is None else meta.id, "correlation": emit.cause.correlation}
        if (export := span_export()) is not None and (context := context_of(emit, record)) is not None:
            ids["trace_id"] = context.trace_id if export.is_wanted(context) else ""
        self._log.write(kind, {"service": self._service, **fields, **ids}, level)


def refusal_lines(emit: Emit, lines: DecisionLines) -> None:
    """Describe a dead letter."""
    event = emit.content
    if isinstance(event, DeadLettered) and lines.wants("record.refused", logging.WARNING):
        found = {
            "topic": event.topic,
            "partition": event.partition,
            "offset": event.offset,
            "key": event.key,
            "reason": event.reason.value,
            "message": event.message,
            "count": event.count if event.count > 1 else None,
        }
        lines.write("record.refused", found, logging.WARNING)


def event_lines(emit: Emit, lines: DecisionLines) -> None:
    """Describe a record that is no decision by itself, such as a timer."""
    if lines.wants("event.written", logging.DEBUG):
        found = {"topic": emit.topic.short, "key": emit.key, "tombstone": emit.content is None or None}
        lines.write("event.written", found, logging.DEBUG)


_NONE: Final[Mapping[str, Describe]] = MappingProxyType({})
_REFUSALS: Final[Mapping[str, Describe]] = MappingProxyType({DEAD_LETTERS.short: refusal_lines})
