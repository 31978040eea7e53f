"""Traces: the trace contexts of events that this process writes, and the export of their spans.

A trace that begins in this process is sampled by its sampler. The flag is part of each event that follows, so all other
processes decide the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from moorage_schemas.envelope import Meta
from moorage_schemas.trace_context import NOT_SAMPLED, SAMPLED, TraceContext, parse, trace_id_of, traceparent_of

AttributeValue = str | int | float | bool
Attributes = Mapping[str, AttributeValue]


class FinishedSpan(NamedTuple):
    """A span that has ended."""

    service: str
    """The name of the service."""

    name: str
    context: TraceContext
    """The trace, and the id of the span."""

    parent: TraceContext | None
    """The span that caused it; None for the first one of a trace."""

    begin: float
    end: float
    """Its times in seconds since the epoch."""

    attributes: Attributes
    kind: str = "producer"
    """`producer`, `consumer`, `server`, `client` or `internal`."""

    error: str = ""
    """Why it failed; empty if it has not."""


class SpanExport(Protocol):
    """Exports spans in the background. No method waits for the network."""

    def is_sampled(self, trace_id: str) -> bool:
        """Return whether a trace that begins in this process is recorded."""

    def is_wanted(self, context: TraceContext) -> bool:
        """Return whether a span of a trace is recorded here."""

    def submit(self, count: int, spans: Callable[[], Iterable[FinishedSpan]]) -> None:
        """Export spans, which are made in the background. If too many wait, they are counted and dropped.

        Args:
            count: their number, or the most that there may be.
            spans: returns them. It runs in another thread, so it must rest on what does not change.
        """

    def stop(self, seconds: float) -> None:
        """Export the rest, within some seconds."""


class _Process:
    """The export of this process; None while traces are off."""

    export: SpanExport | None = None


def span_export() -> SpanExport | None:
    """Return the export of this process; None while traces are off."""
    return _Process.export


def use_export(export: SpanExport | None) -> None:
    """Set the export of this process."""
    _Process.export = export


def flags_of(trace_id: str) -> str:
    """Return the flags of a trace that begins in this process."""
    export = _Process.export
    return SAMPLED if export is None or export.is_sampled(trace_id) else NOT_SAMPLED


def traceparent_in(event_id: str, correlation: str, incoming: str) -> str:
    """Return the `traceparent` of an event that this process writes. A trace may begin with it."""
    flags = SAMPLED if parse(incoming) is not None else flags_of(trace_id_of(correlation))
    return traceparent_of(event_id, correlation, incoming, flags=flags)


def traced(meta: Meta, incoming: str = "") -> Meta:
    """Return the attributes of an event from outside, as the span that follows on its own or an incoming context."""
    return meta._replace(traceparent=traceparent_in(meta.id, meta.correlation, meta.traceparent or incoming))
