"""The page about scale shows what follows from the recorded slopes, and the slopes are of what states really keep."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from bench import page, scale, scale_fleet, scale_plan

from moorage_schemas.topics import BINDINGS

UNITS = {unit.name: unit for unit in scale_fleet.UNITS}
DECISIONS = (
    "heartbeat that changes nothing, condition-ingest",
    "condition that changes, taint-manager",
    "pod placed, placement",
    "evicted pod placed again, placement",
    "eviction scheduled, eviction",
    "eviction requested, eviction",
    "timer fired, timer",
)


def measured(**slopes: dict[str, float]) -> dict[str, Any]:
    """A run in which each workload takes the same everywhere."""
    slope = {"workload": {"bytes": 1000, "us": 100.0, "records": 1.0}}
    log = {
        unit: {"placements": 1000, "bindings": 1000, "workload-conditions": 1000, "evictions": 1000, "timers": 1000}
        for unit in scale_plan.COUNTS
    }
    return {
        "figures": {
            "units": dict.fromkeys(UNITS, ""),
            "slopes": {"eviction partition": slope, "placement view": slope, "governor partition": slope, **slopes},
            "log_bytes": log,
            "decisions": {
                "nodes": [1, 4],
                "us": {name: [10.0, 20.0] for name in DECISIONS},
                "read_us": 5.0,
                "write_us": 5.0,
            },
        }
    }


def test_the_page_is_what_the_slopes_say() -> None:
    text = page.SCALE.read_text("utf-8")
    assert page.with_parts(text, scale_plan.parts()) == text, "make bench-page"


def test_a_state_takes_its_slope_for_each_unit() -> None:
    found = {one.place: one for one in scale_plan.whole(measured())}
    assert found["eviction partition"].gib == pytest.approx(50e9 / 2**30)
    assert found["eviction partition"].restore_s == 5000
    assert {place: one.partitioned for place, one in found.items()} == {
        "eviction partition": True,
        "placement view": False,
        "governor partition": False,
    }


def test_workers_suffice_for_memory_cores_and_restores() -> None:
    (eviction,) = scale_plan.workers(measured())
    rate = scale_plan.rates()
    assert rate["workloads placed"] == pytest.approx(50e6 / 86_400)
    assert rate["evictions"] == pytest.approx(1000 * 50 / 86_400)
    busy = rate["workloads placed"] * 5 + rate["evictions"] * (10 + 20 + 20 + 15)
    assert scale_plan.cores(measured())["eviction"] == pytest.approx(2 * busy / 1e6)
    assert (eviction.by_memory, eviction.by_cores, eviction.count) == (3, 1, 3), "46.6 GiB in processes of 16"
    assert eviction.partitions == 84, "5,000 seconds, 60 for each"
    assert scale_plan.partitions(measured()) == 128


def test_brokers_hold_tables_and_a_day_of_reports() -> None:
    found = scale_plan.brokers(measured())
    assert found.table_gib == pytest.approx(sum(scale_plan.COUNTS.values()) * 5000 / 2**30)
    assert found.by_disk == -(-found.disk_gib // 1000)
    assert found.count == max(found.by_disk, found.by_writes)


def test_records_are_what_a_consumer_returns() -> None:
    written = [record for record in scale_fleet.workload(7) if record.topic is BINDINGS]
    (read,) = scale_fleet.consumed(BINDINGS, scale_fleet.batch(written, 0))
    assert read.key.decode() == written[0].key
    assert BINDINGS.event.model_validate_json(read.value) == written[0].event
    assert {"ce_id", "ce_causationid", "traceparent"} <= {name for name, _ in read.headers}


KEPT: tuple[tuple[str, str, Callable[[Any], int]], ...] = (
    ("eviction partition", "workload", lambda state: sum(len(one.bindings) for one in state.targets.values())),
    ("condition-ingest partition", "node", lambda state: len(state.conditions)),
    ("taint-manager partition", "node", lambda state: len(state.resources)),
    ("placement view", "node", lambda view: len(view.pods.fleet)),
    ("placement view", "managed cluster", lambda view: len(view.ocm.fleet)),
    ("gateway view", "workload", lambda state: len(state[0].all("Pod"))),
)


@pytest.mark.parametrize(("name", "unit", "kept"), KEPT, ids=lambda value: value if isinstance(value, str) else "")
def test_every_unit_is_kept_by_a_state_that_reads_it(name: str, unit: str, kept: Callable[[Any], int]) -> None:
    place = scale.places()[name]
    state, fold, finish = place.make()
    scale.fill(fold, place.topics, itertools.chain.from_iterable(map(UNITS[unit].records, range(20))))
    finish()
    assert kept(state) == 20
