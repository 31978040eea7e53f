"""Prometheus metrics of the runtime.

The client library's own histogram takes a lock and searches its buckets anew for each value. This takes as long as
encoding a record, and a portion has thousands of them. `BulkHistogram` takes many values at once.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from typing_extensions import override

from moorage_schemas.envelope import Meta


class BulkHistogram(Collector):
    """A histogram. Not for several threads.

    Args:
        buckets: the upper bounds of the buckets, in ascending order, without infinity.
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str],
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = tuple(labels)
        self._bounds = tuple(buckets)
        self._counts: dict[tuple[str, ...], list[int]] = {}
        """The number of values up to each bound, by labels."""

        self._sums: dict[tuple[str, ...], float] = {}
        registry.register(self)

    def observe(self, values: Iterable[float], *labels: str) -> None:
        """Count values under these labels."""
        ordered = sorted(values)  # values of one write are often in order already, and then this is nearly free
        counts = self._counts.get(labels) or [0] * (len(self._bounds) + 1)
        upto = (*(bisect_right(ordered, bound) for bound in self._bounds), len(ordered))
        self._counts[labels] = [known + count for known, count in zip(counts, upto, strict=True)]
        self._sums[labels] = self._sums.get(labels, 0.0) + sum(ordered)

    def describe(self) -> Iterable[HistogramMetricFamily]:
        """Return the metric without values, so that no other metric can have its name."""
        return [HistogramMetricFamily(self._name, self._documentation, labels=self._labels)]

    @override
    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, counts in self._counts.items():
            buckets = [(name, float(count)) for name, count in zip(names, counts, strict=True)]
            family.add_metric(labels, buckets, self._sums[labels])
        return [family]


_LATENCIES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)

LAG = Gauge("moorage_lag_records", "Records that are not processed yet", ["service", "partition"])
RESTORE_PROGRESS = Gauge(
    "moorage_restore_progress", "Part of a partition's state that is restored, 0 to 1", ["service", "partition"]
)
OWNED = Gauge("moorage_partitions_owned", "Partitions that this process owns", ["service"])
STANDBYS = Gauge("moorage_partitions_standby", "Partitions for which this process is a standby", ["service"])
WARM_STANDBYS = Gauge(
    "moorage_partitions_standby_warm", "Partitions whose tables this process has read as a standby", ["service"]
)
BATCH_SECONDS = Histogram(
    "moorage_batch_seconds",
    "Seconds from taking a batch to its commit",
    ["service"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
)
BATCH_RECORDS = Histogram(
    "moorage_batch_records", "Records in a batch", ["service"], buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
)
RECORDS = Counter("moorage_records_total", "Records processed", ["service"])
EMITTED = Counter("moorage_events_emitted_total", "Events written", ["service", "topic"])
DECISION_SECONDS = BulkHistogram(
    "moorage_decision_latency_seconds",
    "Seconds from the time of a report to its decision",
    ["service", "topic"],
    buckets=_LATENCIES,
)
TIMER_LATENESS = BulkHistogram(
    "moorage_timer_lateness_seconds",
    "Seconds from a deadline to the firing of its timer",
    ["service"],
    buckets=_LATENCIES,
)
LAST_DECISION = Gauge(
    "moorage_last_decision_timestamp_seconds", "Unix time of the last decision that was written", ["service"]
)
DEAD_LETTERS = Counter("moorage_dead_letters_total", "Records refused", ["service", "reason"])
REPORTS_LIMITED = Counter(
    "moorage_reports_limited_total",
    "Reports in Kafka beyond a limit, by the ProbeGrant that sets it",
    ["limit"],
)
REPAIRS = Counter("moorage_reconciler_repairs_total", "Events that the reconciler had to write", ["service"])
REBALANCES = Counter("moorage_rebalances_total", "Rebalances of the consumer group", ["service"])
CLOCK_OFFSET = Gauge(
    "moorage_clock_offset_seconds", "Seconds by which the clock of the process is ahead of the brokers'"
)
COMMITTED = Counter("moorage_transactions_committed_total", "Transactions committed", ["service"])
ABORTED = Counter(
    "moorage_transactions_aborted_total", "Transactions that were aborted or whose outcome is unknown", ["service"]
)
SPANS_EXPORTED = Counter("moorage_spans_exported_total", "Spans of traces that were exported")
SPANS_DROPPED = Counter(
    "moorage_spans_dropped_total",
    "Spans of traces that were not exported: the queue was full (`queue`), or the receiver failed (`failed`)",
    ["why"],
)
RESTARTS = Counter("moorage_partition_restarts_total", "Restarts of a partition after an error", ["service", "why"])
LOST_MARKERS = Counter(
    "moorage_lost_markers_total", "Starts that found an earlier transaction still open and aborted it", ["service"]
)
TABLE_RECORDS_SKIPPED = Counter(
    "moorage_table_records_skipped_total", "Table records that could not be applied and were skipped", ["service"]
)

JOURNALS_GIVEN_UP = Counter(
    "moorage_journals_given_up_total",
    "Processes that stopped recording their steps because of their number",
    ["service"],
)


def begin_series(service: str) -> None:
    """Create the series of rare faults of a service, at 0, so that alerts notice the first one."""
    for counter in (REPAIRS, LOST_MARKERS, ABORTED):
        counter.labels(service)


_EXEMPLAR: Final = 128
"""The number of characters that OpenMetrics allows in the labels of an exemplar."""


def exemplar(cause: Meta, **about: str) -> dict[str, str] | None:
    """Return the labels of an exemplar, which lead to one of the decisions that were counted.

    Args:
        cause: the cause of the decision. Its trace is the first label, if it has one.
        about: what the decision is about, such as the keys of `moorage explain`. What is too long is left out.
    """
    found: dict[str, str] = {}
    left = _EXEMPLAR
    if len(parts := cause.traceparent.split("-")) == 4:  # noqa: PLR2004 - version, trace, span and flags
        about = {"trace_id": parts[1], **about}
    for name, value in about.items():
        size = len(name) + len(value)
        if value and size <= left:
            found[name] = value
            left -= size
    return found or None


def forget_partition(service: str, partition: int) -> None:
    """Remove the gauges of a partition that this process no longer owns."""
    for gauge in (LAG, RESTORE_PROGRESS):
        with contextlib.suppress(KeyError):
            gauge.remove(service, str(partition))
