"""Spans exported by OpenTelemetry's SDK. It needs the extra `otel`.

The SDK's own tracer makes random ids, and takes the time of a span from the process that it runs in. Here both are
those of an event. Spans are made and exported by a thread with a bounded queue: made in a row, they take a fraction of
the time that they would take one by one between decisions.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Final

import structlog
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from moorage.runtime.process import metrics, span_encoding
from moorage.runtime.process.span_encoding import NANOSECONDS
from moorage.runtime.process.traces import FinishedSpan
from moorage_schemas.trace_context import SAMPLED, TraceContext

log = structlog.get_logger(__name__)

_KINDS: Final = {kind.name.lower(): kind for kind in SpanKind}
_FLAGS: Final = TraceFlags(TraceFlags.SAMPLED)
_FINE: Final = Status(StatusCode.UNSET)
_SCOPE: Final = InstrumentationScope("moorage", version("moorage"))


class OtlpSpans:
    """Exports spans as the standard variables demand.

    Args:
        exporter: replaces the exporter that the variables name, in tests.

    Raises:
        ImportError: the package of the protocol is not installed.
        ValueError: a variable has an invalid value.
    """

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        self._exporter = exporter or _exporter()
        self._is_direct = _takes_finished_spans(self._exporter)
        self._most = _number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)
        self._batch = _number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)
        self._pause = _number("OTEL_BSP_SCHEDULE_DELAY", 5000) / 1000
        self._sampler = TracerProvider(shutdown_on_exit=False).sampler
        self._follows = os.environ.get("OTEL_TRACES_SAMPLER", "parentbased").startswith("parentbased")
        self._queue: deque[tuple[int, Callable[[], Iterable[FinishedSpan]]]] = deque()
        self._submitted = 0
        self._taken = 0
        """Only the thread changes this, and only the caller changes the other."""

        self._is_ending = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def is_sampled(self, trace_id: str) -> bool:
        """Return whether a trace that begins in this process is recorded."""
        return self._sampler.should_sample(None, int(trace_id, 16), "").decision is Decision.RECORD_AND_SAMPLE

    def is_wanted(self, context: TraceContext) -> bool:
        """Return whether a span of a trace is recorded here."""
        return context.is_sampled if self._follows else self.is_sampled(context.trace_id)

    def submit(self, count: int, spans: Callable[[], Iterable[FinishedSpan]]) -> None:
        """Export spans, which are made in the background. If too many wait, they are counted and dropped."""
        waiting = self._submitted - self._taken
        if waiting + count > self._most or self._is_ending:
            _dropped.inc(count)
            return
        self._submitted += count
        self._queue.append((count, spans))
        if waiting + count >= self._batch:
            self._wake.set()

    def stop(self, seconds: float) -> None:
        """Export the rest, within some seconds."""
        self._is_ending = True
        self._wake.set()
        self._thread.join(seconds)
        if not self._thread.is_alive():
            self._exporter.shutdown()

    def _run(self) -> None:
        while not self._is_ending:
            self._wake.wait(self._pause)
            self._wake.clear()
            self._export_all()
        self._export_all()

    def _export_all(self) -> None:
        batch: list[FinishedSpan] = []
        while self._queue:
            count, spans = self._queue.popleft()
            try:
                batch += list(spans())
            except Exception:
                _failed.inc(count)
                log.exception("spans.not_made", count=count)
            if len(batch) >= self._batch:
                self._export(batch)
                batch = []
            self._taken += count
        if batch:
            self._export(batch)

    def _export(self, batch: Sequence[FinishedSpan]) -> None:
        result = SpanExportResult.FAILURE
        spans: Sequence[Any] = batch if self._is_direct else [_readable(span) for span in batch]
        try:
            result = self._exporter.export(spans)
        except Exception:
            log.exception("spans.not_exported", count=len(batch))
        (metrics.SPANS_EXPORTED if result is SpanExportResult.SUCCESS else _failed).inc(len(batch))


def _readable(span: FinishedSpan) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=_context(span.context, is_remote=False),
        parent=None if span.parent is None else _context(span.parent, is_remote=True),
        resource=_resource(span.service),
        attributes=span.attributes,
        kind=_KINDS[span.kind],
        instrumentation_scope=_SCOPE,
        status=_FINE if not span.error else Status(StatusCode.ERROR, span.error),
        start_time=int(span.begin * NANOSECONDS),
        end_time=int(max(span.begin, span.end) * NANOSECONDS),
    )


def _takes_finished_spans(exporter: SpanExporter) -> bool:
    """Make an exporter of OTLP encode finished spans, if it has the encoder whose place ours can take.

    Another version may have none, and a test's exporter does not. They are given the SDK's spans.
    """
    module: Any = sys.modules[type(exporter).__module__]
    if getattr(module, "encode_spans", None) not in {encode_spans, _encode}:
        return False
    module.encode_spans = _encode
    return True


def _encode(spans: Sequence[Any]) -> ExportTraceServiceRequest:
    """Encode spans of either form, for there is one encoder for all exporters of a process."""
    if spans and isinstance(spans[0], FinishedSpan):
        return span_encoding.encode(spans, _about)
    return encode_spans(spans)


@lru_cache(maxsize=64)
def _about(service: str) -> ResourceSpans:
    """Return a message with the resource and the scope of a service, and no span."""
    span = FinishedSpan(service, "", TraceContext("0" * 32, "0" * 16, SAMPLED), None, 0, 0, {})
    found: ResourceSpans = encode_spans([_readable(span)]).resource_spans[0]
    found.scope_spans[0].ClearField("spans")
    return found


def _exporter() -> SpanExporter:
    """Return the exporter of the protocol that the environment names."""
    name = next(
        (one for one in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL") if os.environ.get(one)),
        "",
    )
    protocol = os.environ.get(name, "http/protobuf")
    if protocol == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - see below

        return OTLPSpanExporter()
    if protocol != "grpc":
        raise ValueError(f"{name}: invalid value {protocol!r}: expected http/protobuf or grpc")
    try:
        from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as grpc  # noqa: PLC0415 - only one is needed
    except ImportError:
        package = "opentelemetry-exporter-otlp-proto-grpc"
        raise ValueError(f"{name}: invalid value 'grpc': expected the package {package} to be installed") from None
    found: SpanExporter = grpc.OTLPSpanExporter()
    return found


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else default


def _context(found: TraceContext, *, is_remote: bool) -> SpanContext:
    return SpanContext(int(found.trace_id, 16), int(found.span_id, 16), is_remote, _FLAGS)


@lru_cache(maxsize=64)
def _resource(service: str) -> Resource:
    """Return the resource of a service: what the environment names, else the service itself."""
    found = Resource.create()
    is_named = os.environ.get("OTEL_SERVICE_NAME") or "service.name" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return found if is_named else found.merge(Resource({SERVICE_NAME: f"moorage-{service}"}))


_failed = metrics.SPANS_DROPPED.labels("failed")
_dropped = metrics.SPANS_DROPPED.labels("queue")
