"""The gateway's own metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics of a gateway. Each gateway has a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "moorage_gateway_requests_total",
            "Requests answered",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "moorage_gateway_request_seconds",
            "Seconds until a request was answered, without watches",
            ("verb",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.commit_seconds = Histogram(
            "moorage_gateway_commit_seconds",
            "Duration of a transaction in seconds",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.commit_records = Histogram(
            "moorage_gateway_commit_records",
            "Records in a transaction",
            buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500),
            registry=self.registry,
        )
        self.authentications = Counter(
            "moorage_gateway_authentications_total",
            "Requests by authentication method and result",
            ("method", "result"),
            registry=self.registry,
        )
        self.refused = Counter(
            "moorage_gateway_refused_total",
            "Requests refused by authentication or authorization",
            ("code",),
            registry=self.registry,
        )
        self.reports_limited = Counter(
            "moorage_gateway_reports_limited_total",
            "Reports beyond a limit, by the ProbeGrant that sets it",
            ("limit",),
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "moorage_gateway_requests_in_flight",
            "Requests in progress, without watches",
            ("kind",),
            registry=self.registry,
        )
        self.watches = Gauge("moorage_gateway_watches", "Open watches", registry=self.registry)
        self.ready = Gauge(
            "moorage_gateway_ready", "1 if the gateway is ready for reads and writes", registry=self.registry
        )
        self.restored = Gauge(
            "moorage_gateway_restore_fraction",
            "Part of the tables that has been read at the start, 0 to 1",
            registry=self.registry,
        )
        self.records = Gauge(
            "moorage_gateway_table_records",
            "Records in each table",
            ("topic",),
            registry=self.registry,
        )
        self.lost_markers = Counter(
            "moorage_gateway_lost_markers_total",
            "Takeovers of writing that found an open transaction with lost markers",
            registry=self.registry,
        )
        self.unreadable = Counter(
            "moorage_gateway_unreadable_records_total",
            "Records in Moorage's own topics that could not be decoded and were skipped",
            ("topic",),
            registry=self.registry,
        )
