"""A Prometheus histogram that takes many values at once.

The client library's own histogram takes a lock and searches its buckets anew for each value. This takes as long as
encoding a record, and a portion has thousands of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class BulkHistogram(Collector):
    """A histogram. Not for several threads.

    Args:
        name: the metric's name.
        documentation: the help that it is shown with.
        labels: the names of its labels.
        buckets: the upper bounds of the buckets, in ascending order, without infinity.
        registry: where it is registered.
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
        ordered = sorted(values)  # what is written at once is often in order already, and then this is nearly free
        counts = self._counts.get(labels) or [0] * (len(self._bounds) + 1)
        upto = (*(bisect_right(ordered, bound) for bound in self._bounds), len(ordered))
        self._counts[labels] = [known + count for known, count in zip(counts, upto, strict=True)]
        self._sums[labels] = self._sums.get(labels, 0.0) + sum(ordered)

    def describe(self) -> Iterable[HistogramMetricFamily]:
        """Return the metric without values, so that no other metric can have its name."""
        return [HistogramMetricFamily(self._name, self._documentation, labels=self._labels)]

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """Return the counts up to each bound."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, counts in self._counts.items():
            buckets = [(name, float(count)) for name, count in zip(names, counts, strict=True)]
            family.add_metric(labels, buckets, self._sums[labels])
        return [family]
