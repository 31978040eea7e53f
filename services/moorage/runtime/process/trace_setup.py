"""Begins the export of spans if the standard variables of OpenTelemetry name an endpoint.

Without an endpoint, OpenTelemetry's SDK is not loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import structlog

from moorage.runtime.process.traces import span_export, use_export

log = structlog.get_logger(__name__)

STOP_SECONDS: Final = 3.0
"""Seconds that a process may take to export its last spans when it stops."""

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def configure_traces(environment: Mapping[str, str] | None = None) -> None:
    """Begin to export spans, if the environment names an endpoint."""
    found = os.environ if environment is None else environment
    if found.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return
    variable = next((name for name in _ENDPOINTS if found.get(name)), "")
    exporter = found.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if not variable or exporter == "none":
        return
    if exporter != "otlp":
        log.warning("traces.off", problem=f"OTEL_TRACES_EXPORTER: invalid value {exporter!r}: expected otlp or none")
        return
    try:
        from moorage.runtime.process.otlp_spans import OtlpSpans  # noqa: PLC0415 - only loaded if it is used

        use_export(OtlpSpans())
    except ImportError as error:
        missing = f"{variable}: module {error.name} is missing: expected the extra `otel` (pip install 'moorage[otel]')"
        log.warning("traces.off", problem=missing)
    except ValueError as error:
        log.warning("traces.off", problem=str(error))
    else:
        log.info("traces.on", endpoint=found[variable])


def stop_traces() -> None:
    """Export the last spans, before the process ends."""
    export = span_export()
    use_export(None)
    if export is not None:
        export.stop(STOP_SECONDS)
