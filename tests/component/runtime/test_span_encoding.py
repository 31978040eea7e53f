"""The bytes of spans are those of OpenTelemetry's encoder."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from moorage.runtime.process import otlp_spans
from moorage.runtime.process.traces import FinishedSpan
from moorage_schemas.trace_context import SAMPLED, TraceContext

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.just("x" * 3000)
CONTEXTS = st.builds(
    lambda trace, span: TraceContext(trace.hex(), span.hex(), SAMPLED),
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=8, max_size=8),
)
TIMES = st.floats(0, 4e9)
ATTRIBUTES = st.dictionaries(TEXT, TEXT | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False))
SPANS = st.builds(
    FinishedSpan,
    st.sampled_from(["eviction", "governor"]),
    TEXT,
    CONTEXTS,
    st.none() | CONTEXTS,
    TIMES,
    TIMES,
    ATTRIBUTES,
    st.sampled_from(["producer", "consumer", "server", "client", "internal"]),
    TEXT,
)


@given(st.lists(SPANS, max_size=6))
def test_it_agrees_with_the_encoder_of_the_sdk(spans: list[FinishedSpan]) -> None:
    theirs = encode_spans([otlp_spans._readable(span) for span in spans])
    ours = otlp_spans._encode(spans)
    assert ExportTraceServiceRequest.FromString(ours.SerializeToString()) == theirs


def test_half_a_pair_of_surrogates_is_replaced() -> None:
    context = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", SAMPLED)
    request = otlp_spans._encode([FinishedSpan("gateway", "a\ud800", context, None, 0, 0, {"key": "b\udfff"})])
    (span,) = request.resource_spans[0].scope_spans[0].spans
    assert (span.name, span.attributes[0].value.string_value) == ("a?", "b?")


def test_the_exporter_of_this_version_takes_it() -> None:
    assert otlp_spans._takes_finished_spans(trace_exporter.OTLPSpanExporter(endpoint="http://127.0.0.1:1"))
    encoder: Any = vars(trace_exporter)["encode_spans"]
    assert encoder is otlp_spans._encode
    theirs = otlp_spans._readable(
        FinishedSpan("x", "y", TraceContext("1" * 32, "2" * 16, SAMPLED), None, 0, 0, {"key": "value"})
    )
    assert encoder([theirs]) == encode_spans([theirs]), "spans of others are encoded as before"
