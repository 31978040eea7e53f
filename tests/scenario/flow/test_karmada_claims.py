"""The resources that policies claim, and the effect of changes, through all services on a virtual clock."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.worlds.karmada import DIRECT, ONE, KarmadaWorld

from moorage_schemas.placement import PlacementState
from moorage_schemas.topics import BINDINGS, PLACEMENTS

DYNAMIC: dict[str, Any] = {
    "replicaScheduling": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }
}


def test_a_policy_for_all_namespaces_holds_what_it_has_claimed_until_it_goes() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment"}]
    world.declare("ClusterPropagationPolicy", "wide", {"resourceSelectors": selectors, "placement": ONE})
    assert world.run().placed().policy == "ClusterPropagationPolicy//wide"
    world.policy("narrow", priority=9)
    assert world.run().placed().policy == "ClusterPropagationPolicy//wide"
    world.delete("ClusterPropagationPolicy", "wide")
    placed = world.run().placed()
    assert (placed.policy, world.where()) == ("PropagationPolicy/default/narrow", {"c1": 1, "c2": 1})
    world.policy("narrow", selectors=[{"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}])
    world.run()
    assert not world.bound(), "it is selected no more"


def test_a_policy_that_is_deleted_claims_nothing_new_and_keeps_what_it_has() -> None:
    world = KarmadaWorld("c1", "c2")
    world.policy("leaving")
    world.deploy("old")
    assert world.run().where("old-deployment") == {"c1": 1, "c2": 1}
    world.mark("PropagationPolicy", "leaving", "a.example/b")
    world.deploy("new")
    world.run()
    assert world.where("old-deployment") == {"c1": 1, "c2": 1}
    assert world.workload("new-deployment") not in world.flow.table(PLACEMENTS)
    world.policy("staying", ONE)
    assert world.run().where("new-deployment") == {"c1": 1}
    assert world.placed("old-deployment").policy == "PropagationPolicy/default/leaving"
    world.delete("PropagationPolicy", "leaving")
    assert world.run().placed("old-deployment").policy == "PropagationPolicy/default/staying"


def delete_cluster(world: KarmadaWorld, name: str) -> None:
    """Mark a cluster as deleted, as karmadactl unjoin does: its finalizer remains until it has no work."""
    world.mark("Cluster", name, "karmada.io/cluster-controller")


@pytest.mark.parametrize("placement", [ONE, {**ONE, **DYNAMIC}], ids=["duplicated", "divided"])
def test_work_leaves_a_cluster_that_is_deleted_when_its_replacement_is_healthy(placement: dict[str, Any]) -> None:
    world = KarmadaWorld("c1", "c2")
    world.policy(placement=placement)
    world.deploy("web", 3)
    world.run()
    assert world.where() == {"c1": 3}
    delete_cluster(world, "c1")
    world.run()
    assert (world.where(), world.leaving()) == ({"c2": 3}, ["c1"])
    assert world.placed().leaving[0].reason == "ClusterDeleted"
    world.healthy("c2")
    assert world.run().bound() == ["c2"]


def test_work_leaves_a_cluster_that_is_deleted_at_the_end_of_its_grace_period_without_a_replacement() -> None:
    world = KarmadaWorld("c1")
    world.policy(placement=DYNAMIC, failover={"cluster": {"purgeMode": "Gracefully", "gracePeriodSeconds": 30}})
    world.deploy("web", 3)
    world.run()
    delete_cluster(world, "c1")
    world.run()
    assert (world.where(), world.leaving(), world.bound()) == ({}, ["c1"], ["c1"])
    assert world.placed().state is PlacementState.PENDING
    world.advance(31)
    assert world.bound() == []


def test_work_leaves_a_cluster_that_is_deleted_at_once_if_its_policy_purges_directly() -> None:
    world = KarmadaWorld("c1", "c2")
    world.policy(placement=ONE, failover=DIRECT)
    world.deploy("web")
    world.run()
    delete_cluster(world, "c1")
    world.run()
    assert (world.where(), world.bound()) == ({"c2": 1}, ["c2"])


def test_dispatching_is_suspended_for_all_clusters_or_some_and_goes_on_afterwards() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    world.policy(suspension={"dispatching": True})
    world.run()
    assert world.where() == {"c1": 1, "c2": 1}
    assert [world.binding(name).suspended for name in ("c1", "c2")] == [True, True]
    world.policy(suspension={"dispatchingOnClusters": {"clusterNames": ["c2"]}})
    world.run()
    assert [world.binding(name).suspended for name in ("c1", "c2")] == [False, True]
    before = world.binding("c2")
    world.policy()
    world.run()
    after = world.binding("c2")
    assert (after.suspended, after.generation, after.revision > before.revision) == (False, before.generation, True)


def test_a_binding_states_that_its_work_is_preserved() -> None:
    world = KarmadaWorld("c1")
    world.deploy("web")
    world.policy(preserveResourcesOnDeletion=True)
    assert world.run().binding("c1").preserved
    world.policy()
    assert not world.run().binding("c1").preserved


def test_the_resources_of_another_scheduler_stay_where_they_are() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    world.policy(schedulerName="other")
    world.run()
    assert (world.bound(), world.placed().reason) == ([], "OtherScheduler")
    assert world.placed().message == "it is placed by the scheduler other"
    world.policy(schedulerName="default-scheduler", placement={"clusterAffinity": {"clusterNames": ["c1"]}})
    assert world.run().bound() == ["c1"]
    world.policy(schedulerName="other")
    assert world.run().bound() == ["c1"]


def on(cluster: str) -> dict[str, Any]:
    return {"clusterAffinity": {"clusterNames": [cluster]}}


def test_a_lazy_policy_applies_when_the_resource_changes() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    world.advance(2)
    world.policy(placement=on("c1"), activationPreference="Lazy")
    world.run()
    assert (world.bound(), world.placed().reason) == ([], "Lazy")
    world.deploy("web", 2)
    assert world.run().where() == {"c1": 2}
    world.policy(placement=on("c2"), activationPreference="Lazy", suspension={"dispatching": True})
    assert world.run().where() == {"c1": 2}
    assert not world.binding("c1").suspended
    world.deploy("web", 3)
    assert world.run().where() == {"c2": 3}
    assert world.binding("c2").suspended
    world.advance(2)
    world.deploy("newer")
    assert world.run().where("newer-deployment") == {"c2": 1}


def test_a_resource_of_a_lazy_policy_that_has_to_leave_goes_where_the_policy_says_now() -> None:
    world = KarmadaWorld("c1", "c2")
    world.policy(placement={**on("c1"), **ONE}, activationPreference="Lazy")
    world.advance(2)
    world.deploy("web")
    assert world.run().where() == {"c1": 1}
    world.policy(placement={**on("c2"), **ONE}, activationPreference="Lazy")
    assert world.run().where() == {"c1": 1}
    world.taint("c1")
    assert world.run().where() == {"c2": 1}


def test_a_bare_pod_moves_from_its_node_to_a_cluster_and_back() -> None:
    world = KarmadaWorld("c1")
    world.declare("Node", "n1")
    world.declare("Pod", "p", {"containers": [{"name": "c"}]})
    assert world.run().bound() == ["n1"]
    world.policy(kind="Pod")
    assert world.run().where("p-pod") == {"c1": 1}
    assert world.bound() == ["c1"]
    world.delete("PropagationPolicy", "p")
    assert world.run().bound() == ["n1"]


def test_labels_decide_which_policy_places_it() -> None:
    world = KarmadaWorld("c1", "c2")
    select = {"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"where": "two"}}}
    world.policy("two", {"clusterAffinity": {"clusterNames": ["c2"]}}, selectors=[select])
    world.deploy("web")
    assert world.run().bound() == []
    world.deploy("web", labels={"where": "two"})
    assert world.run().bound() == ["c2"]
    world.deploy("web", labels={"where": "nowhere"})
    assert world.run().bound() == []


def test_what_is_deleted_while_it_leaves_is_gone_everywhere() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    world.policy(placement=ONE)
    world.run()
    world.taint("c1")
    assert world.run().bound() == ["c1", "c2"]
    world.delete("Deployment", "web")
    world.run()
    assert (world.bound(), world.flow.table(PLACEMENTS)) == ([], {})
    assert world.states()[-1] == "Completed"


def test_scaled_to_none_it_stays_declared_and_grows_again() -> None:
    world = KarmadaWorld("c1", "c2")
    world.policy(placement=DYNAMIC)
    world.deploy("web", 4)
    assert world.run().where() == {"c1": 2, "c2": 2}
    world.deploy("web", 0)
    assert world.run().where() == {"c1": 0, "c2": 0}
    world.deploy("web", 3)
    assert sum(world.run().where().values()) == 3


def test_more_replicas_than_there_is_room_for_wait_and_what_runs_stays() -> None:
    world = KarmadaWorld()
    status = {"resourceSummary": {"allocatable": {"pods": "5"}}}
    world.cluster("c1", status=status)
    world.policy(placement=DYNAMIC)
    world.deploy("web", 4)
    assert world.run().where() == {"c1": 4}
    world.deploy("web", 12)
    placed = world.run().placed()
    assert (placed.state, placed.reason, world.where()) == (PlacementState.PLACED, "Unschedulable", {"c1": 4})
    assert placed.message == "Clusters available replicas 5 are not enough to schedule."
    world.cluster("c1", status={"resourceSummary": {"allocatable": {"pods": "8"}}})
    assert world.run().where() == {"c1": 12}


def test_a_narrower_policy_takes_it_from_clusters_and_one_that_fits_nowhere_from_all() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    world.policy()
    assert world.run().where() == {"c1": 1, "c2": 1}
    world.policy(placement={"clusterAffinity": {"exclude": ["c1"]}})
    assert world.run().where() == {"c2": 1}
    world.policy(placement={"clusterAffinity": {"clusterNames": ["nowhere"]}})
    assert world.run().bound() == []
    assert world.placed().state is PlacementState.PENDING


def test_permission_to_leave_without_a_replacement_may_come_later() -> None:
    world = KarmadaWorld("c1")
    world.deploy("web")
    world.policy(placement=ONE, failover=DIRECT)
    world.run()
    world.taint("c1")
    assert world.run().placed().reason == "NoReplacement"
    yes = {"moorage.io/evict-without-replacement": "true"}
    world.policy(placement=ONE, failover=DIRECT, annotations=yes)
    assert world.run().bound() == []


@pytest.mark.parametrize(
    ("setting", "failover", "mode"),
    [
        ("Directly", None, "Directly"),
        ("Gracefully", None, "Gracefully"),
        ("Directly", {"cluster": {}}, "Gracefully"),
        ("Gracefully", DIRECT, "Directly"),
    ],
)
def test_how_it_leaves(setting: str, failover: dict[str, Any] | None, mode: str) -> None:
    world = KarmadaWorld("c1", "c2", no_execute_taint_eviction_purge_mode=setting)
    world.deploy("web")
    spec: dict[str, Any] = {} if failover is None else {"failover": failover}
    world.policy(placement=ONE, **spec)
    world.run()
    assert world.binding("c1").purge_mode == mode
    world.taint("c1")
    assert world.run().leaving() == ([] if mode == "Directly" else ["c1"])


def test_an_edited_way_of_leaving_reaches_the_bindings() -> None:
    world = KarmadaWorld("c1")
    world.deploy("web")
    world.policy()
    before = world.run().binding("c1")
    world.policy(failover=DIRECT)
    after = world.run().binding("c1")
    assert (before.purge_mode, after.purge_mode) == ("Gracefully", "Directly")
    assert (after.generation, after.bound_time) == (before.generation, before.bound_time)
    assert after.revision > before.revision
    assert len(world.flow.table(BINDINGS)) == 1


def test_a_policy_that_was_written_just_before_is_known_in_time() -> None:
    """Policy and resource are applied together in different partitions, so one may be read long before the other."""
    world = KarmadaWorld("m1")
    world.run()
    world.flow.behind.add("placement")
    world.policy()
    world.deploy("web")
    world.flow.run()
    assert world.pods() == []
    world.flow.behind.clear()
    world.run()
    assert not [record for record in world.flow.records(PLACEMENTS) if record.name.startswith("Pod/")]
    assert (world.where(), world.bound()) == ({"m1": 1}, ["m1"])
