"""Prometheus metrics of the query worker."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter("moorage_query_requests_total", "Requests for explanations", ["code"])
SECONDS = Histogram(
    "moorage_query_seconds",
    "Seconds until a request for an explanation was answered",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
RECORDS = Gauge("moorage_query_table_records", "Records in each table of the query worker", ["topic"])
INDEXED = Gauge("moorage_query_indexed_records", "Records of chains in the index of the query worker")
