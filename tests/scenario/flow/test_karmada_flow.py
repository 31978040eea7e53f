"""From policies and taints on clusters to bindings and back, through all services on a virtual clock."""

from __future__ import annotations

import pytest
from tests.support.worlds.flow import START
from tests.support.worlds.karmada import DIRECT, ONE, KarmadaWorld, ref

from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import PlacementState
from moorage_schemas.topics import BINDINGS, PLACEMENTS


def test_a_claimed_resource_goes_to_every_cluster_that_fits_and_makes_no_pods() -> None:
    world = KarmadaWorld("c1", "c2", "c3")
    world.declare("Node", "n1")
    world.taint("c2", effect="NoSchedule")
    world.deploy("web", 3, labels={"team": "shop"})
    assert len(world.run().pods()) == 3, "without a policy it runs on nodes"
    world.policy()
    world.run()
    assert world.pods() == []
    assert world.where() == {"c1": 3, "c3": 3}
    placed = world.placed()
    assert (placed.state, placed.reason, placed.policy) == (
        PlacementState.PLACED,
        "Scheduled",
        "PropagationPolicy/default/p",
    )
    assert placed.owner.key == "Deployment/default/web"
    assert placed.filters[0].reason == "cluster(s) had untolerated taint {bad:NoSchedule}"
    bound = world.binding("c1")
    assert (bound.replicas, bound.labels, bound.purge_mode) == (3, {"team": "shop"}, "Gracefully")
    world.delete("PropagationPolicy", "p")
    world.run()
    assert len(world.pods()) == 3, "the policy is gone, so it runs on nodes again"
    assert not [key for key in world.flow.table(PLACEMENTS) if key.startswith("ResourceBinding/")]


def test_what_makes_no_pods_is_a_workload_only_when_it_is_claimed() -> None:
    world = KarmadaWorld("c1", "c2")
    world.declare("ConfigMap", "settings")
    assert not world.run().flow.table(PLACEMENTS)
    world.policy(kind="ConfigMap")
    assert world.run().where("settings-configmap") == {"c1": 0, "c2": 0}
    world.cluster("c3")
    assert world.run().where("settings-configmap") == {"c1": 0, "c2": 0, "c3": 0}
    world.delete("ConfigMap", "settings")
    assert not world.run().flow.table(BINDINGS)


def test_it_waits_for_a_cluster_that_fits() -> None:
    world = KarmadaWorld("c1", "c2")
    world.taint("c1", effect="NoSchedule")
    world.deploy("web")
    world.policy(placement={"clusterAffinity": {"clusterNames": ["c1", "c3"]}})
    placed = world.run().placed()
    assert (placed.state, placed.targets) == (PlacementState.PENDING, ())
    assert placed.message == (
        "0/2 clusters are available: 1 cluster(s) did not match the placement cluster affinity constraint, "
        "1 cluster(s) had untolerated taint {bad:NoSchedule}."
    )
    world.cluster("c3")
    assert world.run().where() == {"c3": 1}
    world.untaint("c1", effect="NoSchedule")
    assert world.run().where() == {"c1": 1, "c3": 1}


def test_an_eviction_directly_binds_the_new_and_ends_the_old_in_one_go() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web", 2)
    world.policy(placement=ONE, failover=DIRECT)
    assert world.run().where() == {"c1": 2}
    world.taint("c1")
    world.run()
    assert (world.where(), world.leaving(), world.bound()) == ({"c2": 2}, [], ["c2"])
    assert world.states() == ["Requested", "Completed"]
    placed = world.placed()
    assert placed.previous_target == ref("c1")
    assert "bad:NoExecute" in placed.message
    tombstone = next(r for r in world.flow.records(BINDINGS) if r.value is None)
    binding = next(r for r in world.flow.records(BINDINGS) if r.name.endswith("Cluster/c2"))
    assert binding.meta.causation_id == tombstone.meta.causation_id


def test_an_eviction_gracefully_keeps_the_old_until_the_new_is_healthy() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web", 2)
    world.policy(placement=ONE)
    world.run()
    world.healthy("c1")
    world.advance(5)
    world.taint("c1")
    world.run()
    assert (world.where(), world.leaving(), world.bound()) == ({"c2": 2}, ["c1"], ["c1", "c2"])
    (leaving,) = world.placed().leaving
    assert (leaving.until - leaving.since).total_seconds() == 600
    world.healthy("c2", status="False")
    world.advance(5)
    assert world.leaving() == ["c1"]
    world.healthy("c2")
    world.advance(0)
    assert (world.where(), world.leaving(), world.bound()) == ({"c2": 2}, [], ["c2"])
    assert world.states() == ["Requested", "Completed"]


def test_what_stays_and_is_healthy_already_is_not_waited_for() -> None:
    world = KarmadaWorld("c1", "c2", "c3")
    world.deploy("web", 2)
    world.policy()
    assert world.run().where() == {"c1": 2, "c2": 2, "c3": 2}
    for name in ("c1", "c2", "c3"):
        world.healthy(name)
    world.advance(5)
    world.taint("c1")
    world.run()
    assert (world.where(), world.leaving(), world.bound()) == ({"c2": 2, "c3": 2}, [], ["c2", "c3"])
    assert world.states() == ["Requested", "Completed"]
    leaving = [[one.target.name for one in placed.leaving] for placed in world.flow.events(PLACEMENTS)]
    assert leaving == [[], ["c1"], []], "it left gracefully, and for no longer than it had to"


def test_the_grace_period_ends_a_graceful_eviction() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    failover = {"cluster": {"purgeMode": "Gracefully", "gracePeriodSeconds": 90}}
    world.policy(placement=ONE, failover=failover)
    world.run()
    world.taint("c1")
    world.run()
    since = world.flow.now
    world.flow.crash_process("placement")
    world.advance(89)
    assert world.leaving() == ["c1"]
    world.advance(1)
    assert world.leaving() == []
    ended = [r for r in world.flow.records(BINDINGS) if r.value is None]
    assert [(r.meta.time - since).total_seconds() for r in ended if r.meta.time] == [90]
    assert world.states()[-1] == "Completed"


def test_nothing_leaves_without_a_replacement_until_one_comes() -> None:
    world = KarmadaWorld("c1")
    world.deploy("web", 2)
    world.policy(placement=ONE, failover=DIRECT)
    world.run()
    world.taint("c1")
    world.run()
    placed = world.placed()
    assert (world.where(), world.leaving(), placed.reason) == ({"c1": 2}, [], "NoReplacement")
    assert "Cluster/c1" in placed.message
    assert "0/1 clusters are available" in placed.message
    assert world.states() == ["Requested"]
    world.cluster("c2")
    assert world.run().where() == {"c2": 2}
    assert world.states() == ["Requested", "Completed"]


def test_what_could_not_leave_stays_when_the_taint_goes() -> None:
    world = KarmadaWorld("c1")
    world.deploy("web")
    world.policy(placement=ONE)
    world.run()
    before = world.binding("c1").generation
    world.taint("c1")
    world.run()
    assert world.placed().reason == "NoReplacement"
    world.untaint("c1")
    world.run()
    assert (world.where(), world.placed().reason) == ({"c1": 1}, "Scheduled")
    assert world.binding("c1").generation == before, "it is the same work"
    assert world.states() == ["Requested", "Cancelled"]
    world.flow.crash_process("placement")
    world.flow.crash_process("eviction")
    world.run()
    assert world.states() == ["Requested", "Cancelled"]
    world.taint("c1")
    world.run()
    assert world.states() == ["Requested", "Cancelled", "Requested"]
    world.cluster("c2")
    world.ready("c2", "True")
    world.run()
    world.healthy("c2")
    world.run()
    assert world.where() == {"c2": 1}


def test_what_leaves_directly_and_could_not_is_bound_anew_when_the_taint_goes() -> None:
    """Its deployer may have removed it already."""
    world = KarmadaWorld("c1")
    world.deploy("web")
    world.policy(placement=ONE, failover=DIRECT)
    world.run()
    before = world.binding("c1").generation
    world.taint("c1")
    world.run()
    world.untaint("c1")
    world.run()
    assert world.binding("c1").generation > before
    assert world.states() == ["Requested", "Completed"]


@pytest.mark.parametrize("how", ["setting", "annotation"])
def test_it_leaves_without_a_replacement_where_that_was_asked_for(how: str) -> None:
    world = KarmadaWorld("c1", evict_without_replacement=how == "setting")
    annotations = {"moorage.io/evict-without-replacement": "true"} if how == "annotation" else {}
    world.deploy("web")
    world.policy(placement=ONE, failover=DIRECT, annotations=annotations)
    world.run()
    world.taint("c1")
    world.run()
    assert (world.placed().state, world.placed().targets, world.bound()) == (PlacementState.PENDING, (), [])
    world.untaint("c1")
    assert world.run().where() == {"c1": 1}


def test_fewer_clusters_than_the_minimum_are_no_replacement() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    two = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]}
    world.policy(placement=two, failover=DIRECT)
    assert world.run().where() == {"c1": 1, "c2": 1}
    world.taint("c1")
    world.run()
    assert (world.where(), world.placed().reason) == ({"c1": 1, "c2": 1}, "NoReplacement")
    assert "MinGroups" in world.placed().message
    world.cluster("c3")
    assert world.run().where() == {"c2": 1, "c3": 1}


def test_an_evicted_part_of_the_replicas_goes_to_the_others() -> None:
    world = KarmadaWorld("c1", "c2", "c3")
    world.deploy("web", 6)
    divided = {
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        }
    }
    world.policy(placement=divided)
    assert world.run().where() == {"c1": 2, "c2": 2, "c3": 2}
    for name in ("c1", "c2", "c3"):
        world.healthy(name)
    world.advance(10)
    world.taint("c1")
    world.run()
    assert sum(world.where().values()) == 6
    assert set(world.where()) == {"c2", "c3"}
    assert world.leaving() == ["c1"], "the reports were about fewer replicas"
    assert {world.binding(name).revision for name in ("c2", "c3")} != {1}
    world.advance(10)
    for name in ("c2", "c3"):
        world.healthy(name)
    assert world.run().leaving() == []
    world.deploy("web", 7)
    after = world.run().where()
    assert sum(after.values()) == 7
    assert all(after[name] >= 3 for name in ("c2", "c3")), "what was assigned stays"


def test_a_tolerated_taint_evicts_when_its_time_is_over_and_nobody_comes_back() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    tolerations = [{"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    world.policy(placement={"clusterTolerations": tolerations}, failover=DIRECT)
    assert world.run().where() == {"c1": 1, "c2": 1}
    world.taint("c1")
    world.advance(59)
    assert world.where() == {"c1": 1, "c2": 1}
    world.advance(1)
    assert world.where() == {"c2": 1}
    world.cluster("c3")
    assert world.run().where() == {"c2": 1, "c3": 1}, "not to the one that would have to be left at once"


def test_with_the_gates_off_nothing_leaves() -> None:
    world = KarmadaWorld("c1", "c2", feature_gates="")
    world.deploy("web")
    world.policy(placement=ONE)
    world.run()
    world.taint("c1")
    assert world.run().where() == {"c1": 1}
    assert world.states() == []


def test_a_deleted_cluster_is_replaced_at_once() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    world.policy(placement=ONE)
    assert world.run().where() == {"c1": 1}
    world.delete("Cluster", "c1")
    assert world.run().where() == {"c2": 1}
    world.cluster("c2", uid="another")
    world.run()
    assert world.binding("c2").generation == world.placed().generation
    world.delete("Cluster", "c2")
    assert world.run().placed().message == "0/0 clusters are available: no cluster exists."


def test_groups_of_clusters_are_tried_in_order_and_the_old_group_is_left_gently() -> None:
    world = KarmadaWorld("a1", "a2", "b1", "b2")
    two = [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]
    groups = [
        {"affinityName": "first", "clusterNames": ["a1", "a2"]},
        {"affinityName": "second", "clusterNames": ["b1", "b2"]},
    ]
    world.deploy("web")
    world.policy(placement={"clusterAffinities": groups, "spreadConstraints": two})
    assert world.run().where() == {"a1": 1, "a2": 1}
    world.taint("a1")
    world.run()
    assert (world.where(), world.leaving()) == ({"b1": 1, "b2": 1}, ["a1", "a2"])
    assert world.placed().affinity_name == "second"
    assert [one.reason for one in world.placed().leaving] == ["UntoleratedTaint", "Replaced"]
    world.advance(600)
    assert world.leaving() == []
    world.untaint("a1")
    assert world.run().where() == {"b1": 1, "b2": 1}, "it stays in its group"


def test_a_policy_that_takes_over_places_anew() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    world.policy("low", {"clusterAffinity": {"clusterNames": ["c1"]}})
    assert world.run().where() == {"c1": 1}
    world.policy("more", {"clusterAffinity": {"clusterNames": ["c2"]}}, priority=5)
    assert world.run().where() == {"c1": 1}, "it is claimed, and nobody takes it over"
    world.policy("more", {"clusterAffinity": {"clusterNames": ["c2"]}}, priority=5, preemption="Always")
    assert world.run().where() == {"c2": 1}
    assert world.placed().policy == "PropagationPolicy/default/more"
    world.delete("PropagationPolicy", "more")
    assert world.run().placed().policy == "PropagationPolicy/default/low"


def test_a_resource_made_again_under_its_name_starts_anew() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    world.policy(placement=ONE)
    first = world.run().placed()
    world.deploy("web", uid="another")
    again = world.run().placed()
    assert again.uid != first.uid
    assert world.binding("c1").generation > first.targets[0].binding_generation


def test_edited_tolerations_and_labels_reach_the_bindings() -> None:
    world = KarmadaWorld("c1")
    world.deploy("web")
    world.policy()
    world.run()
    before = world.binding("c1")
    world.policy(placement={"clusterTolerations": [{"key": "bad", "operator": "Exists"}]})
    world.deploy("web", labels={"team": "shop"})
    after = world.run().binding("c1")
    assert (after.generation, after.labels) == (before.generation, {"team": "shop"})
    assert after.revision > before.revision
    assert after.tolerations[0].key == "bad"
    world.taint("c1")
    assert world.run().states() == []


def test_one_chain_leads_from_the_taint_to_the_new_binding() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    world.policy(placement=ONE, failover=DIRECT)
    world.run()
    wish = world.taint("c1")
    world.run()
    record = [r for r in world.flow.records(BINDINGS) if r.name.endswith("/c2")][-1]
    assert record.meta.correlation_id == wish.meta.correlation


def test_from_a_report_through_a_taint_policy_to_another_cluster() -> None:
    world = KarmadaWorld("c1", "c2", allow_no_execute_taint_policy=True, cluster_monitor_grace_period=40)
    condition = {"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}
    spec = {"addOnConditions": [condition], "taints": [{"key": "down", "effect": "NoExecute"}]}
    world.declare("ClusterTaintPolicy", "down", spec)
    world.deploy("web")
    world.policy(placement=ONE, failover=DIRECT)
    for name in ("c1", "c2"):
        world.ready(name)
    assert world.run().where() == {"c1": 1}
    world.advance(30)
    world.ready("c2")
    world.advance(11)
    assert world.where() == {"c2": 1}, "c1 fell silent"
    world.advance(30)
    assert (world.where(), world.placed().reason) == ({"c2": 1}, "NoReplacement"), "now c2 is silent, too"


def test_evictions_keep_to_the_rate() -> None:
    world = KarmadaWorld("c1", "c2", resource_eviction_rate=0.5)
    world.policy(placement=ONE, failover=DIRECT)
    for index in range(3):
        world.deploy(f"web{index}")
    world.run()
    world.taint("c1")
    left = []
    for _ in range(6):
        world.run()
        left.append(sum(world.where(f"web{index}-deployment") == {"c2": 1} for index in range(3)))
        world.advance(1)
    assert left == [1, 1, 2, 2, 3, 3]


def test_lost_bindings_are_written_again_and_orphans_end() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    world.policy(placement=ONE)
    world.run()
    bound = world.binding("c1")
    world.flow.produce(BINDINGS, f"{bound.workload}|Cluster/c1", None, partition_key="Cluster/c1")
    stray = bound.model_copy(update={"target": ref("c2")})
    world.flow.produce(BINDINGS, f"{bound.workload}|Cluster/c2", stray, partition_key="Cluster/c2")
    world.flow.run()
    world.flow.reconcile("placement")
    world.run()
    assert world.bound() == ["c1"]
    assert world.flow.now == START
    assert world.states().count(EvictionState.REQUESTED.value) == 0


def test_the_old_place_stays_when_the_replacement_is_lost() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    world.policy(placement=ONE)
    world.run()
    world.taint("c1")
    assert world.run().leaving() == ["c1"]
    world.delete("Cluster", "c2")
    world.advance(700)
    assert (world.where(), world.leaving(), world.bound()) == ({}, ["c1"], ["c1"]), "without it there would be nothing"
    assert world.placed().reason == "Unschedulable"
    world.cluster("c3")
    assert (world.run().where(), world.leaving()) == ({"c3": 1}, ["c1"])
    world.advance(599)
    assert world.leaving() == ["c1"], "the replacement has its time, too"
    world.advance(1)
    assert world.bound() == ["c3"]


def test_it_comes_back_to_the_old_place_when_the_replacement_is_lost_and_the_taint_is_gone() -> None:
    world = KarmadaWorld("c1", "c2")
    world.deploy("web")
    world.policy(placement=ONE)
    world.run()
    before = world.binding("c1").generation
    world.taint("c1")
    world.run()
    world.untaint("c1")
    assert world.run().leaving() == ["c1"], "what has begun goes on"
    world.delete("Cluster", "c2")
    world.run()
    assert (world.where(), world.leaving(), world.states()[-1]) == ({"c1": 1}, [], "Completed")
    assert world.binding("c1").generation > before
