"""The export of spans: the standard variables, sampling, a full queue, a receiver that fails or does not answer."""

from __future__ import annotations

import io
import json
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import pytest
import structlog
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from tests.support.otlp_collector import Collector, collecting
from tests.support.waiting import until

from moorage.runtime.process import metrics, trace_setup
from moorage.runtime.process.logs import configure_logs
from moorage.runtime.process.otlp_spans import OtlpSpans
from moorage.runtime.process.trace_setup import configure_traces, stop_traces
from moorage.runtime.process.traces import FinishedSpan, flags_of, span_export, traced, use_export
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.trace_context import TraceContext, parse

CONTEXT = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "01")
SPAN = FinishedSpan("taint-manager", "send taints", CONTEXT, None, 1.0, 2.0, {"moorage.target": "Node/n1"})


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.endpoint)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        yield found
    use_export(None)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    out = io.StringIO()
    configure_logs(Settings(log_format="json"), stream=out)
    yield out
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()
    use_export(None)


def problem(log: io.StringIO) -> str:
    (line,) = [json.loads(line) for line in log.getvalue().splitlines()]
    return f"{line['event']}: {line.get('problem', '')}"


async def test_the_variables_alone_turn_it_on(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    configure_traces()
    export = span_export()
    assert export is not None
    export.submit(1, lambda: [SPAN])
    await until(lambda: bool(collector.spans))
    stop_traces()
    assert span_export() is None
    (span,) = collector.spans
    assert (span.service, span.name, span.parent_id) == ("moorage-taint-manager", "send taints", "")
    assert (span.trace_id, span.span_id) == (CONTEXT.trace_id, CONTEXT.span_id)
    assert (span.begin, span.end) == (1_000_000_000, 2_000_000_000)
    assert span.attributes == {"moorage.target": "Node/n1"}


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "TRUE"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_it_is_off_without_an_endpoint(environment: dict[str, str], log: io.StringIO) -> None:
    configure_traces(environment)
    assert (span_export(), log.getvalue()) == (None, "")


def test_neither_the_sdk_nor_an_exporter_is_loaded_while_it_is_off() -> None:
    code = "import sys, moorage.cli.commands.run, moorage.runtime.app, moorage.apiserver.server; "
    code += "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_extra_is_named(log: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    monkeypatch.delitem(sys.modules, "moorage.runtime.process.otlp_spans")
    configure_traces({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"})
    assert "pip install 'moorage[otel]'" in problem(log)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "invalid value 'http/json': expected http/protobuf or grpc"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "expected the package opentelemetry-exporter-otlp-proto-grpc"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "invalid value 'zipkin': expected otlp or none"),
    ],
)
@pytest.mark.usefixtures("collector")
def test_what_cannot_be_exported_is_named_and_services_go_on(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    configure_traces()
    assert span_export() is None
    assert said in problem(log)


class Gate(SpanExporter):
    """An exporter that takes nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - it fails
        return SpanExportResult.FAILURE

    def shutdown(self) -> None: ...


def dropped(why: str) -> float:
    return float(metrics.SPANS_DROPPED.labels(why)._value.get())


async def test_a_receiver_that_fails_is_counted() -> None:
    before = dropped("failed")
    export = OtlpSpans(Gate())
    export.submit(1, lambda: [SPAN])
    export.stop(3.0)
    assert dropped("failed") - before == 1


def test_a_full_queue_drops_and_counts_and_blocks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")
    with socket.socket() as silent:  # it accepts connections, and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        before, export = dropped("queue"), OtlpSpans()
        for _ in range(1000):
            export.submit(1, lambda: [SPAN])
        assert dropped("queue") - before == 1000 - 8
        began = time.monotonic()
        export.stop(0.5)
        assert time.monotonic() - began < 8, "a process does not wait for a receiver that does not answer"


def test_only_the_sampled_part_of_the_traces_that_begin_here_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
    export = OtlpSpans(Gate())
    use_export(export)
    try:
        ids = [event_id("report", number) for number in range(2000)]
        contexts = [parse(traced(Meta(one, "probe", "t")).traceparent) for one in ids]
        share = sum(one is not None and export.is_wanted(one) for one in contexts) / len(ids)
        assert share == pytest.approx(0.25, abs=0.05)
        assert [flags_of(one) for one in ids] == [flags_of(one) for one in ids], "each process decides the same"
        incoming = str(CONTEXT)
        followed = [parse(traced(Meta(one, "probe", "t"), incoming).traceparent) for one in ids]
        assert all(one is not None and export.is_wanted(one) for one in followed), "the caller has decided"
    finally:
        use_export(None)
        export.stop(1.0)


def test_the_time_for_the_last_spans_is_short() -> None:
    assert trace_setup.STOP_SECONDS <= 5
