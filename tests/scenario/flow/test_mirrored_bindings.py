"""ResourceBindings that a bridge mirrors from a Karmada control plane: what placement and eviction do with them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

import pytest
from tests.support.worlds.flow import Record
from tests.support.worlds.karmada import DIRECT, ONE, KarmadaWorld

from moorage_schemas.condition import EVICTED, HEALTHY
from moorage_schemas.keys import ResourceKey
from moorage_schemas.placement import PlacementState
from moorage_schemas.resource import Mirrored
from moorage_schemas.resources.workload_kinds import BINDING_KINDS, CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from moorage_schemas.times import format_time
from moorage_schemas.topics import BINDINGS, PLACEMENTS

BRIDGE = "bridge/home"
DEFAULT = "default-scheduler"


class BridgedWorld(KarmadaWorld):
    """All services, clusters, and bindings that a bridge mirrors."""

    of_kind: ClassVar[str] = RESOURCE_BINDING

    def mirror(
        self,
        name: str = "web-deployment",
        *,
        at: dict[str, int] | None = None,
        placement: dict[str, Any] | None = None,
        scheduler: str = "moorage",
        uid: str = "",
        **spec: Any,
    ) -> Record:
        """Mirror a binding, or its change."""
        about = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web", "uid": "u"}
        body = {
            "resource": about,
            "replicas": 2,
            "schedulerName": scheduler,
            "clusters": [{"name": cluster, "replicas": replicas} for cluster, replicas in (at or {}).items()],
            "placement": ONE if placement is None else placement,
            **spec,
        }
        return self.declare(self.of_kind, name, body, uid=uid)

    def gone(self, cluster: str, name: str = "web-deployment") -> None:
        """The bridge reports that the work has left a cluster."""
        bound = self.binding(cluster, name)
        self.flow.advance(1)
        self.report(cluster, EVICTED, "True", source=BRIDGE, binding=bound)
        self.run()

    def _write_with(self, key: str, **fields: Any) -> Record:
        if ResourceKey.parse(key).kind in BINDING_KINDS:
            fields["mirrored"] = Mirrored(source=BRIDGE, resource_version="1")
        return super()._write_with(key, **fields)


def test_it_is_placed_by_its_own_placement_without_a_policy() -> None:
    world = BridgedWorld("c1", "c2", "c3")
    world.taint("c1", effect="NoSchedule")
    world.mirror(placement={"clusterAffinity": {"clusterNames": ["c1", "c3"]}})
    placed = world.run().placed()
    assert (placed.state, placed.reason, placed.policy) == (PlacementState.PLACED, "Scheduled", "")
    assert placed.owner == placed.workload
    assert placed.uid == placed.owner_uid == world.objects["ResourceBinding/default/web-deployment"]["metadata"]["uid"]
    bound = world.binding("c3")
    assert (world.where(), bound.replicas, bound.deployer) == ({"c3": 2}, 2, BRIDGE)
    world.mirror(placement={"clusterAffinity": {"clusterNames": ["c2"]}}, at={"c3": 2})
    assert world.run().where() == {"c2": 2}, "its placement has changed"
    world.delete("ResourceBinding", "web-deployment")
    world.run()
    assert not world.flow.table(BINDINGS)
    assert not world.flow.table(PLACEMENTS)


def test_it_names_the_policy_that_karmada_has_found() -> None:
    world = BridgedWorld("c1")
    world.mirror()
    key = "ResourceBinding/default/web-deployment"
    noted = {"propagationpolicy.karmada.io/namespace": "default", "propagationpolicy.karmada.io/name": "p"}
    world.objects[key]["metadata"]["annotations"] = noted
    world.write(key)
    assert world.run().placed().policy == "PropagationPolicy/default/p"


def test_replicas_are_divided_by_what_they_need() -> None:
    world = BridgedWorld()
    for name, cpu in (("c1", "1"), ("c2", "3")):
        world.cluster(name, status={"resourceSummary": {"allocatable": {"cpu": cpu, "pods": "100"}}})
    weights = {"dynamicWeight": "AvailableReplicas"}
    scheduling = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": weights,
    }
    needs = {"resourceRequest": {"cpu": "500m"}}
    world.mirror(placement={"replicaScheduling": scheduling}, replicas=4, replicaRequirements=needs)
    assert world.run().where() == {"c1": 1, "c2": 3}
    assert world.binding("c2").requests == {"cpu": 1500}


def test_a_request_that_is_no_quantity_is_said() -> None:
    world = BridgedWorld("c1")
    world.mirror(replicaRequirements={"resourceRequest": {"cpu": "much"}})
    placed = world.run().placed()
    assert (placed.state, placed.reason) == (PlacementState.PENDING, "Invalid")
    assert "spec.replicaRequirements.resourceRequest[cpu]" in placed.message
    assert "much" in placed.message


def test_it_goes_on_from_where_its_control_plane_has_it() -> None:
    world = BridgedWorld("c1", "c2", "c3")
    world.mirror(at={"c3": 2})
    assert world.run().where() == {"c3": 2}
    assert world.binding("c3").deployer == BRIDGE


def test_a_cluster_that_is_not_known_is_not_taken_over() -> None:
    world = BridgedWorld("c1")
    world.mirror(at={"c9": 2})
    assert world.run().where() == {"c1": 2}


def _task(world: BridgedWorld, cluster: str, *, age: float = 60, **fields: Any) -> dict[str, Any]:
    """A task of Karmada's taint manager that is some seconds old."""
    since = format_time(world.flow.now - timedelta(seconds=age))
    task = {"fromCluster": cluster, "purgeMode": "Gracefully", "replicas": 2, "reason": "TaintUntolerated"}
    return {**task, "producer": "TaintManager", "creationTimestamp": since, **fields}


@pytest.mark.parametrize("mode", ["Gracefully", "Directly"])
def test_a_task_that_karmada_has_left_goes_on_until_the_replacement_is_healthy(mode: str) -> None:
    world = BridgedWorld("c1", "c2", "c3")
    world.mirror(at={"c2": 2}, gracefulEvictionTasks=[_task(world, "c1", purgeMode=mode)])
    world.run()
    assert (world.where(), world.leaving()) == ({"c2": 2}, ["c1"])
    assert world.bound() == ["c1", "c2"]
    world.flow.advance(500)
    assert (world.run().where(), world.leaving()) == ({"c2": 2}, ["c1"])
    world.report("c2", HEALTHY, "True", source=BRIDGE, binding=world.binding("c2"))
    world.run()
    assert (world.where(), world.leaving(), world.bound()) == ({"c2": 2}, [], ["c2"])
    world.check()


@pytest.mark.parametrize(("seconds", "lasts"), [(None, 540.0), (100, 40.0)])
def test_it_ends_with_its_grace_period_which_has_begun_with_karmada(seconds: int | None, lasts: float) -> None:
    world = BridgedWorld("c1", "c2")
    world.mirror(at={"c2": 2}, gracefulEvictionTasks=[_task(world, "c1", gracePeriodSeconds=seconds)])
    assert world.run().leaving() == ["c1"]
    world.flow.advance(lasts - 1)
    assert world.run().leaving() == ["c1"]
    world.flow.advance(2)
    assert world.run().leaving() == []
    assert world.bound() == ["c2"]


def test_what_it_leaves_is_not_chosen_again_and_ends_when_it_is_gone() -> None:
    world = BridgedWorld("c1", "c2", "c3")
    world.taint("c1")
    world.mirror(gracefulEvictionTasks=[_task(world, "c1")])
    world.run()
    assert (world.where(), world.leaving(), world.states()) == ({"c2": 2}, ["c1"], ["Requested"])
    world.gone("c1")
    assert (world.leaving(), world.bound(), world.states()[-1]) == ([], ["c2"], "Completed")


@pytest.mark.parametrize(
    "fields",
    [
        {"age": 601},
        {"suppressDeletion": False},
        {"producer": "ResourceBindingApplicationFailoverController"},
        {"fromCluster": "c9"},
    ],
    ids=str,
)
def test_a_task_that_is_over_or_somebody_else_s_is_not_taken_over(fields: dict[str, Any]) -> None:
    world = BridgedWorld("c1", "c2")
    world.mirror(at={"c2": 2}, gracefulEvictionTasks=[_task(world, "c1", **fields)])
    assert (world.run().where(), world.leaving(), world.bound()) == ({"c2": 2}, [], ["c2"])


def test_a_restart_in_the_middle_of_it_changes_nothing() -> None:
    world = BridgedWorld("c1", "c2")
    world.mirror(at={"c2": 2}, gracefulEvictionTasks=[_task(world, "c1")])
    placed = world.run().placed()
    world.flow.crash_process("placement")
    world.flow.advance(60)
    world.run()
    assert (world.placed(), world.bound()) == (placed, ["c1", "c2"])


@pytest.mark.parametrize("scheduler", ["", DEFAULT, "volcano"])
def test_one_of_another_scheduler_is_where_its_control_plane_has_it(scheduler: str) -> None:
    world = BridgedWorld("c1", "c2")
    world.mirror(scheduler=scheduler)
    placed = world.run().placed()
    assert (placed.state, placed.reason, placed.targets) == (PlacementState.PENDING, "OtherScheduler", ())
    assert placed.message == f"it is placed by the scheduler {scheduler or DEFAULT}"
    world.mirror(scheduler=scheduler, at={"c2": 2})
    assert world.run().where() == {"c2": 2}
    before = world.binding("c2")
    world.mirror(scheduler=scheduler, at={"c2": 1, "c1": 1})
    assert world.run().where() == {"c1": 1, "c2": 1}
    assert world.binding("c2").generation == before.generation, "it is the same binding"
    assert world.binding("c2").replicas == 1
    world.check()


def test_one_whose_scheduling_is_suspended_stays() -> None:
    world = BridgedWorld("c1", "c2")
    world.mirror(at={"c1": 2})
    assert world.run().where() == {"c1": 2}
    world.mirror(at={"c1": 2}, placement={"clusterAffinity": {"clusterNames": ["c2"]}}, suspension={"scheduling": True})
    assert world.run().where() == {"c1": 2}
    assert world.placed().message == "its scheduling is suspended"
    world.mirror(at={"c1": 2}, placement={"clusterAffinity": {"clusterNames": ["c2"]}})
    assert world.run().where() == {"c2": 2}


def test_one_that_is_being_deleted_is_not_placed_any_more() -> None:
    world = BridgedWorld("c1", "c2")
    world.mirror(at={"c1": 2})
    world.run()
    world.mark("ResourceBinding", "web-deployment", "karmada.io/binding-controller")
    world.taint("c1")
    assert world.run().where() == {"c1": 2}
    assert world.placed().message == "it is being deleted"


def test_a_graceful_eviction_ends_when_the_replacement_is_healthy() -> None:
    world = BridgedWorld("c1", "c2")
    world.mirror(at={"c1": 2})
    world.run()
    world.taint("c1")
    world.run()
    assert (world.where(), world.leaving()) == ({"c2": 2}, ["c1"])
    world.flow.advance(1)
    world.report("c2", HEALTHY, "True", source=BRIDGE, binding=world.binding("c2"))
    world.run()
    assert (world.leaving(), world.bound()) == ([], ["c2"])
    assert world.states() == ["Requested", "Completed"]


def test_a_graceful_eviction_ends_when_its_control_plane_has_ended_it() -> None:
    world = BridgedWorld("c1", "c2")
    world.mirror(at={"c1": 2})
    world.run()
    world.taint("c1")
    world.run()
    world.gone("c1")
    assert (world.where(), world.leaving(), world.bound()) == ({"c2": 2}, [], ["c2"])


def test_a_direct_eviction_waits_until_the_work_is_gone() -> None:
    world = BridgedWorld("c1", "c2")
    world.mirror(at={"c1": 2}, failover=DIRECT)
    world.run()
    world.taint("c1")
    world.run()
    assert (world.where(), world.leaving()) == ({"c2": 2}, ["c1"])
    assert world.states() == ["Requested"]
    world.gone("c1")
    assert (world.where(), world.bound()) == ({"c2": 2}, ["c2"])
    assert world.states()[-1] == "Completed"


def test_one_of_another_scheduler_has_to_leave_until_it_has_left() -> None:
    world = BridgedWorld("c1", "c2")
    world.mirror(scheduler=DEFAULT, at={"c1": 2})
    world.run()
    world.taint("c1")
    world.run()
    assert (world.where(), world.states()) == ({"c1": 2}, ["Requested"])
    world.mirror(scheduler=DEFAULT, at={"c2": 2})
    world.run()
    assert (world.where(), world.bound()) == ({"c2": 2}, ["c2"])
    assert world.states()[-1] == "Completed"


def test_one_that_was_made_again_begins_anew() -> None:
    world = BridgedWorld("c1", "c2")
    world.mirror(at={"c1": 2}, uid="one")
    world.run()
    before = world.binding("c1")
    world.mirror(at={"c2": 2}, uid="two")
    assert world.run().where() == {"c2": 2}
    assert world.bound() == ["c2"]
    assert (before.uid, world.binding("c2").uid) == ("one", "two")
    assert world.binding("c2").generation > before.generation


@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_there_changes_nothing_here(seed: int) -> None:
    world = BridgedWorld("c1", "c2", seed=seed)
    world.mirror()
    world.run()
    placed = world.placed()
    world.mirror(at=world.where())
    world.flow.advance(60)
    world.run()
    assert world.placed() == placed
    assert format_time(placed.decided_time) <= format_time(world.flow.now)
    world.check()


class ClusterWideWorld(BridgedWorld):
    """The same with bindings that have no namespace."""

    of_kind = CLUSTER_RESOURCE_BINDING

    def workload(self, name: str) -> str:
        return f"{self.of_kind}//{name}"


def test_one_without_a_namespace_is_placed_and_leaves_as_any_other() -> None:
    world = ClusterWideWorld("c1", "c2")
    world.mirror("web-clusterrole", at={"c1": 0}, replicas=0, failover=DIRECT)
    world.run()
    assert (world.where("web-clusterrole"), world.bound()) == ({"c1": 0}, ["c1"])
    world.taint("c1")
    world.run()
    assert (world.where("web-clusterrole"), world.leaving("web-clusterrole")) == ({"c2": 0}, ["c1"])
    assert world.states() == ["Requested"]
    world.gone("c1", "web-clusterrole")
    assert (world.bound(), world.states()[-1]) == (["c2"], "Completed")
    world.check()
    world.delete(CLUSTER_RESOURCE_BINDING, "web-clusterrole")
    world.run()
    assert not world.flow.table(BINDINGS)
    assert not world.flow.table(PLACEMENTS)


AGGREGATED: dict[str, Any] = {
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
}


def test_among_equals_the_order_of_its_control_plane_decides_who_keeps_replicas() -> None:
    world = BridgedWorld("m0", "m1")
    world.mirror(placement=AGGREGATED, replicas=6, at={"m1": 3, "m0": 3})
    assert world.run().where() == {"m0": 3, "m1": 3}
    world.mirror(placement=AGGREGATED, replicas=2, at={"m1": 3, "m0": 3})
    assert world.run().where() == {"m1": 2}


def test_it_leaves_a_cluster_that_is_unjoined_gracefully() -> None:
    world = BridgedWorld("c1", "c2")
    world.mirror(at={"c1": 2})
    assert world.run().where() == {"c1": 2}
    world.mark("Cluster", "c1", "karmada.io/cluster-controller")
    world.run()
    (leaving,) = world.placed().leaving
    assert (world.where(), leaving.target.name, leaving.reason) == ({"c2": 2}, "c1", "ClusterDeleted")
    world.healthy("c2")
    assert world.run().bound() == ["c2"]
