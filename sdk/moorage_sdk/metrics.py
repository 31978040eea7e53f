"""Metrics of probes and deployers for Prometheus. They need the extra `moorage-sdk[prometheus]`.

    export(probe)                       # into the default registry
    prometheus_client.start_http_server(9100)

They are counted in any case, as plain numbers, and are read when Prometheus asks for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from moorage_sdk.errors import SdkError

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry


@dataclass(slots=True)
class Counts:
    """Counts of a probe or a deployer since its start."""

    sent: int = 0
    """Reports that Moorage has taken, or refused for good."""

    refused: Counter[str] = field(default_factory=Counter)
    """Reports that do not count, by reason."""

    last_success: float = 0.0
    """When reports were last taken, in seconds since 1970. 0 if none were."""

    decisions: Counter[str] = field(default_factory=Counter)
    """Decisions that were read, by topic."""

    failures: Counter[str] = field(default_factory=Counter)
    """Errors of handlers, by the name of the handler."""


class Counted(Protocol):
    """A probe or a deployer."""

    @property
    def source(self) -> str:
        """Its name."""

    @property
    def counts(self) -> Counts:
        """Counts since its start."""

    @property
    def waiting(self) -> int:
        """The number of reports that were not sent yet."""

    @property
    def dropped(self) -> int:
        """The number of reports that were dropped because too many waited."""


def export(program: Counted, registry: CollectorRegistry | None = None) -> None:
    """Add the metrics of a probe or a deployer to a registry.

    Args:
        program: a `Probe` or a `Deployer`. A deployer's metrics include those of its probe.
        registry: prometheus_client's default registry if None.

    Raises:
        SdkError: prometheus_client is not installed.
    """
    try:
        from prometheus_client import REGISTRY  # noqa: PLC0415 - it is optional
    except ImportError:
        raise SdkError("prometheus_client: not installed: expected moorage-sdk[prometheus]") from None
    (registry or REGISTRY).register(_Collector(program))


class _Collector:
    def __init__(self, program: Counted) -> None:
        self._program = program

    def describe(self) -> list[Any]:
        """Return no names, so that several programs of one process can be added."""
        return []

    def collect(self) -> Iterator[Any]:
        """Return the families as of now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - it is optional

        program, counts, source = self._program, self._program.counts, self._program.source

        def counter(name: str, text: str, value: int | Mapping[str, int], label: str = "") -> Any:
            labels = ["source", label] if label else ["source"]
            family = CounterMetricFamily(f"moorage_sdk_{name}", text, labels=labels)
            for by, number in value.items() if isinstance(value, Mapping) else (("", value),):
                family.add_metric([source, by] if label else [source], number)
            return family

        def gauge(name: str, text: str, value: float) -> Any:
            family = GaugeMetricFamily(f"moorage_sdk_{name}", text, labels=["source"])
            family.add_metric([source], value)
            return family

        yield gauge("reports_queued", "Reports that wait to be sent.", program.waiting)
        yield counter("reports_sent", "Reports that were answered.", counts.sent)
        yield counter("reports_refused", "Reports that do not count.", counts.refused, "reason")
        yield counter("reports_dropped", "Reports that were dropped because too many waited.", program.dropped)
        yield gauge("last_success_timestamp_seconds", "When reports were last taken.", counts.last_success)
        yield counter("decisions", "Decisions that were read.", counts.decisions, "topic")
        yield counter("handler_failures", "Errors of handlers.", counts.failures, "handler")
