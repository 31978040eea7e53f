"""The spans of attempts to deliver events. The receiver of a request continues the trace after the attempt."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from moorage.runtime.process.traces import AttributeValue, FinishedSpan, span_export
from moorage.workers.webhooks.deliveries import NAME, Delivery
from moorage_schemas.envelope import event_id
from moorage_schemas.trace_context import TraceContext, parse, span_id_of


class DeliverySpan:
    """The span of one attempt.

    Args:
        host: the receiver.
        begin: when the attempt began.
    """

    def __init__(self, delivery: Delivery, host: str, begin: datetime) -> None:
        self._delivery = delivery
        self._host = host
        self._begin = begin
        self._parent: Final = parse(delivery.traceparent)

    @property
    def traceparent(self) -> str:
        """The trace context of the request; empty if the event has none."""
        return "" if self._parent is None else str(self._context(self._parent))

    def ended(self, now: datetime, problem: str) -> None:
        """Export the span. The problem is empty if the event was delivered."""
        export, parent = span_export(), self._parent
        if export is None or parent is None or not export.is_wanted(parent):
            return
        delivery = self._delivery
        attributes: dict[str, AttributeValue] = {
            "messaging.system": "webhook",
            "messaging.operation.type": "send",
            "messaging.message.id": delivery.id,
            "server.address": self._host,
            "moorage.key": delivery.lane,
        }
        name, times = f"deliver {delivery.topic.short}", (self._begin.timestamp(), now.timestamp())
        span = FinishedSpan(NAME, name, self._context(parent), parent, *times, attributes, kind="client", error=problem)
        export.submit(1, lambda: [span])

    def _context(self, parent: TraceContext) -> TraceContext:
        identity = event_id(self._delivery.id, self._begin.isoformat())
        return parent._replace(span_id=span_id_of(identity))
