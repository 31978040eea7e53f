"""A receiver of traces: a small HTTP server that takes what OTLP exporters send."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span as it was received."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    begin: int
    end: int
    attributes: dict[str, Any]


@dataclass(eq=False)
class Collector:
    """The spans that were received so far."""

    endpoint: str = ""
    status: int = 200
    spans: list[ReceivedSpan] = field(default_factory=list)

    def trace(self, trace_id: str) -> dict[str, ReceivedSpan]:
        """Return the spans of a trace by their ids."""
        return {span.span_id: span for span in list(self.spans) if span.trace_id == trace_id}

    def take(self, body: bytes) -> None:
        """Take a request."""
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            service = next(
                (one.value.string_value for one in resource.resource.attributes if one.key == "service.name"), ""
            )
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        ReceivedSpan(
                            service=service,
                            name=span.name,
                            trace_id=span.trace_id.hex(),
                            span_id=span.span_id.hex(),
                            parent_id=span.parent_span_id.hex(),
                            begin=span.start_time_unix_nano,
                            end=span.end_time_unix_nano,
                            attributes=dict(_values(span.attributes)),
                        )
                    )


def _values(attributes: Any) -> Iterator[tuple[str, Any]]:
    for one in attributes:
        yield one.key, getattr(one.value, str(one.value.WhichOneof("value")))


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on a free port."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if collector.status == 200 and self.path == "/v1/traces":
                collector.take(body)
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_given: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
