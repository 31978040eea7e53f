"""From the reports on managed clusters by probes and people to PlacementDecisions, through all services."""

from __future__ import annotations

import pytest
from tests.support.tables import table
from tests.support.worlds.ocm import OcmWorld, labelled, tolerates

from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, taint_manager, timer
from moorage_schemas.times import format_time
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS

GRACE = 120
SETTINGS = Settings(partitions=3, managed_cluster_monitor_grace_period=GRACE)


class WholeWorld(OcmWorld):
    """All services: the taints are the taint-manager's."""

    def __init__(self, *clusters: str, seed: int | None = None) -> None:
        modules = (condition_ingest, taint_manager, governor, eviction, timer)
        super().__init__(*clusters, seed=seed, services=[module.service(SETTINGS) for module in modules])


@pytest.fixture
def world() -> WholeWorld:
    """Two clusters that are available."""
    world = WholeWorld("c1", "c2")
    world.placement()
    assert world.run().selected() == [], "nobody has said that they are available"
    for name in ("c1", "c2"):
        world.available(name)
    assert world.run().selected() == ["c1", "c2"]
    return world


def test_a_cluster_that_is_not_available_is_left_and_comes_back(world: WholeWorld) -> None:
    world.available("c1", "False")
    assert world.run().selected() == ["c2"]
    world.available("c1")
    assert world.run().selected() == ["c1", "c2"]
    assert not world.flow.records(EVICTIONS)
    assert not world.flow.records(BINDINGS)


def test_a_cluster_that_falls_silent_is_left_when_its_time_is_over(world: WholeWorld) -> None:
    world.placement("patient", tolerations=[tolerates("cluster.open-cluster-management.io/unreachable", seconds=60)])
    for _ in range(2):
        world.advance(GRACE / 2)
        world.available("c2")
    world.run()
    assert world.selected() == ["c2"]
    assert world.selected("patient") == ["c1", "c2"]
    world.advance(59)
    assert world.selected("patient") == ["c1", "c2"]
    world.advance(1)
    assert world.selected("patient") == ["c2"]


def test_a_persons_taint_is_tolerated_from_when_it_was_put_on(world: WholeWorld) -> None:
    world.placement("patient", tolerations=[tolerates("upgrade", seconds=30)])
    world.run()
    world.taint("c1", "upgrade")
    world.run()
    assert world.selected() == ["c2"]
    world.advance(29)
    assert world.selected("patient") == ["c1", "c2"]
    world.flow.crash_process("placement")
    world.advance(1)
    assert world.selected("patient") == ["c2"]


def test_the_state_of_an_add_on_is_a_label_to_select_by(world: WholeWorld) -> None:
    label = {"feature.open-cluster-management.io/addon-metrics": "available"}
    world.placement(predicates=[labelled(**label)])
    assert world.run().selected() == []
    renewed = {"renewTime": format_time(world.flow.now), "leaseDurationSeconds": 60}
    world.declare("ManagedClusterAddOn", "metrics", namespace="c1")
    world.declare("Lease", "metrics", namespace="c1", spec=renewed)
    assert world.run().selected() == ["c1"]
    world.delete("ManagedClusterAddOn", "metrics", namespace="c1")
    assert world.run().selected() == []


def test_everything_starts_again_from_its_topics(world: WholeWorld) -> None:
    world.available("c1", "False")
    world.run()
    before = world.flow.table(PLACEMENTS)
    for name in world.flow.services:
        world.flow.crash_process(name)
    world.run()
    assert world.flow.table(PLACEMENTS) == before


@table("seed", range(12))
def test_a_cluster_whose_report_is_read_before_its_declaration_can_be_chosen(seed: int) -> None:
    """There is no order between topics. The seed determines which one the taint-manager reads first, and how far."""
    world = WholeWorld("c1", "c2", "c3", "c4", seed=seed)
    world.placement()
    for partition in range(SETTINGS.partitions):
        world.flow.step("condition-ingest", partition)  # it knows the clusters, and takes what is said of them
    for name in ("c1", "c2", "c3", "c4"):
        world.available(name)
    while any(world.flow.step("condition-ingest", partition) for partition in range(SETTINGS.partitions)):
        pass
    assert world.run().selected() == ["c1", "c2", "c3", "c4"]
    assert world.flow.reconcile() == []
