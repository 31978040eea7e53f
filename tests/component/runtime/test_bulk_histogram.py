"""A histogram that takes many values at once shows what the client library's own shows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from moorage.runtime.process.metrics import BulkHistogram

BOUNDS = (0.005, 0.5, 1, 30)
numbers = st.lists(st.floats(0, 100) | st.sampled_from(BOUNDS), max_size=5)


def shown(registry: CollectorRegistry) -> list[str]:
    """The lines of a page of metrics, without the times of creation, which only the library's own has."""
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), numbers), max_size=4))
def test_it_shows_what_a_histogram_shows(portions: list[tuple[str, list[float]]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    bulk = BulkHistogram("x_seconds", "Help", ["service"], buckets=BOUNDS, registry=ours)
    plain = Histogram("x_seconds", "Help", ["service"], buckets=BOUNDS, registry=theirs)
    for service, found in portions:
        bulk.observe(found, service)
        child = plain.labels(service)
        for value in found:
            child.observe(value)
    assert [line for line in shown(ours) if "_sum" not in line] == [
        line for line in shown(theirs) if "_sum" not in line
    ]
    for service, _ in portions:
        sums = [found.get_sample_value("x_seconds_sum", {"service": service}) for found in (ours, theirs)]
        assert abs((sums[0] or 0.0) - (sums[1] or 0.0)) < 1e-6
