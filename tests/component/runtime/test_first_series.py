"""Counters exist at 0 before their first event, because rates in Prometheus do not notice how a series begins."""

from __future__ import annotations

from prometheus_client import REGISTRY

from moorage.bridges.engine.acts import Contention
from moorage.bridges.engine.metrics import CONTRADICTED
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.process import metrics
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.eviction import eviction_measures
from moorage.workers.eviction.service import Eviction
from moorage.workers.placement import placement_measures
from moorage.workers.placement.service import PlacementService


def samples(*names: str) -> dict[str, set[float]]:
    """The values of samples by the name of the sample."""
    found: dict[str, set[float]] = {}
    for family in REGISTRY.collect():
        for sample in family.samples:
            if sample.name in names:
                found.setdefault(sample.name, set()).add(sample.value)
    return found


NAMES = (
    "moorage_eviction_lateness_seconds_count",
    "moorage_eviction_removal_seconds_count",
    "moorage_evictions_escalated_total",
    "moorage_evictions_total",
    "moorage_lost_markers_total",
    "moorage_placements_total",
    "moorage_reconciler_repairs_total",
    "moorage_transactions_aborted_total",
)


async def test_a_worker_that_starts_has_them_at_zero() -> None:
    for counter in (
        *(eviction_measures.DECIDED, eviction_measures.ESCALATIONS, placement_measures.DECIDED),
        *(metrics.REPAIRS, metrics.LOST_MARKERS, metrics.ABORTED),
    ):
        counter.clear()  # tests before this one may have counted
    for histogram in (eviction_measures.LATENESS, eviction_measures.REMOVAL_SECONDS):
        histogram._counts.clear()
    assert samples(*NAMES) == {}
    settings = Settings(bootstrap_servers="127.0.0.1:9")
    for service in (Eviction(settings), PlacementService(settings)):
        worker = Worker(service, settings, partitions=1)
        await worker.start()
        await worker.stop()
    assert samples(*NAMES) == {name: {0.0} for name in NAMES}


def test_a_bridge_has_the_writes_that_are_undone_at_zero() -> None:
    CONTRADICTED.clear()
    Contention("taint", lambda _key, _seconds: None, lambda _key: None)
    assert REGISTRY.get_sample_value("moorage_bridge_contradicted_total", {"act": "taint"}) == 0
