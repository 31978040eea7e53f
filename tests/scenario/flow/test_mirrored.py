"""Objects that a bridge mirrors from a real cluster: what placement and eviction do with them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.support.tables import table
from tests.support.worlds.flow import Crash
from tests.support.worlds.mirrored import BRIDGE, MirroredWorld, controller, with_witness
from tests.support.worlds.world import TEMPLATE, WITNESS

from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import EVICTED, HEALTHY
from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import PlacementState
from moorage_schemas.topics import BINDINGS, BUDGETS, CONDITIONS, EVICTIONS, PLACEMENTS, TAINTS

REQUESTED, COMPLETED, CANCELLED = EvictionState.REQUESTED, EvictionState.COMPLETED, EvictionState.CANCELLED
ROOM = {"cpu": "1", "pods": "10"}


def labels(name: str) -> dict[str, str]:
    return {"app": name}


# Controllers.


@pytest.mark.parametrize(
    "kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"]
)
def test_no_pods_are_made_for_a_mirrored_controller(kind: str) -> None:
    world = with_witness("n1")
    world.mirror(kind, "web", {"replicas": 3, "template": TEMPLATE})
    world.run()
    world.node("n2")
    world.run()
    assert world.pods() == {}


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_the_pods_of_a_controller_end_when_it_is_mirrored_and_come_when_it_is_not(kind: str) -> None:
    world = MirroredWorld("n1")
    world.declare(kind, "web", {"replicas": 1, "template": TEMPLATE})
    assert world.run().where() == ["n1"]
    world.mirror(kind, "web", {"replicas": 1, "template": TEMPLATE})
    assert world.run().where() == []
    world.node("n1", labels={"changed": "yes"})
    assert world.run().where() == []
    world.mirrored.clear()
    world.declare(kind, "web", {"replicas": 1, "template": TEMPLATE})
    assert world.run().where() == ["n1"]


# Where a pod is.


@pytest.mark.parametrize("scheduler", ["", "default-scheduler", "volcano"])
def test_a_mirrored_pod_waits_for_its_own_scheduler(scheduler: str) -> None:
    world = MirroredWorld("n1")
    world.pod("web", schedulerName=scheduler)
    world.run()
    placed = world.pods()["web"]
    assert (placed.state, placed.reason) == (PlacementState.PENDING, "OtherScheduler")
    assert (scheduler or "default-scheduler") in placed.message
    world.pod("web", schedulerName=scheduler, on="n1")
    world.run()
    placed = world.pods()["web"]
    assert (placed.state, placed.reason, world.where()) == (PlacementState.PLACED, "NodeNameSet", ["n1"])
    assert world.bound("web").deployer == BRIDGE


def test_a_mirrored_pod_is_placed_if_it_names_moorage() -> None:
    world = MirroredWorld("n1", "n2")
    world.pod("web", schedulerName="moorage")
    world.run()
    placed, bound = world.pods()["web"], world.bound("web")
    assert (placed.state, placed.reason, bound.deployer, bound.bypassed) == (
        PlacementState.PLACED,
        "Scheduled",
        BRIDGE,
        False,
    )
    node = bound.target.name
    world.pod("web", schedulerName="moorage", on=node)
    world.run()
    assert world.bound("web") == bound.model_copy(update={"revision": 2, "bypassed": True}), "it is the same binding"


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_BY_LABEL = {_REQUIRED: [{"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "a"}}}]}
UNDECIDED: dict[str, dict[str, Any]] = {
    f"spec.affinity.podAffinity.{_REQUIRED}[0].namespaceSelector": {"affinity": {"podAffinity": _BY_LABEL}},
    f"spec.affinity.podAntiAffinity.{_REQUIRED}[0].namespaceSelector": {"affinity": {"podAntiAffinity": _BY_LABEL}},
    'spec.volumes: persistentVolumeClaim "data" is not bound': {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    },
    "spec.volumes[0].ephemeral": {"volumes": [{"name": "data", "ephemeral": {}}]},
    "spec.resourceClaims": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
}
"""Specs of pods, by the field that no filter judges."""


@pytest.mark.parametrize("field", UNDECIDED)
def test_a_pod_that_demands_what_no_filter_judges_is_not_bound(field: str) -> None:
    world = MirroredWorld("n1")
    world.pod("web", schedulerName="moorage", **UNDECIDED[field])
    world.run()
    placed = world.pods()["web"]
    assert (placed.state, placed.reason) == (PlacementState.PENDING, "Unschedulable")
    assert placed.message.startswith(f"{field}: Moorage does not decide on this")
    # Where its cluster has bound it, it is.
    world.pod("web", schedulerName="moorage", on="n1", **UNDECIDED[field])
    world.run()
    assert world.where() == ["n1"]


def test_demands_that_need_not_hold_keep_no_pod_from_a_node() -> None:
    world = MirroredWorld("n1")
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {}}]}
    volumes = [{"name": "tmp", "emptyDir": {}}]
    world.pod("web", schedulerName="moorage", affinity={"podAffinity": preferred}, volumes=volumes)
    world.run()
    assert world.where() == ["n1"]


def test_a_pod_waits_until_its_claim_is_bound_and_follows_the_volume() -> None:
    world = MirroredWorld()
    world.node("n1", zone="a")
    world.node("n2", zone="b")
    mounts: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    world.pod("web", schedulerName="moorage", **mounts)
    world.mirror("PersistentVolumeClaim", "data", {})
    assert world.run().where() == ["-"]
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
    world.mirror("PersistentVolume", "disk", {"nodeAffinity": {"required": terms}})
    world.mirror("PersistentVolumeClaim", "data", {"volumeName": "disk"})
    assert world.run().where() == ["n2"]


def test_a_pod_that_waits_for_its_node_goes_there_when_it_comes() -> None:
    world = MirroredWorld("n1")
    world.pod("web", on="n2")
    world.run()
    assert world.pods()["web"].reason == "NodeNotFound"
    world.node("n2")
    assert world.run().where() == ["n2"]


@pytest.mark.parametrize("seed", range(5))
def test_a_binding_moves_to_the_node_to_which_the_cluster_has_bound_the_pod(seed: int) -> None:
    world = MirroredWorld("n1", seed=seed)
    world.pod("web", schedulerName="moorage")
    world.run()
    world.node("n2")
    world.pod("web", schedulerName="moorage", on="n2")
    world.run()
    assert world.where() == ["n2"]
    assert [bound.target.name for bound in world.bindings("web")] == ["n2"]
    assert world.pods()["web"].previous_target is not None
    assert "n2, not to n1" in world.pods()["web"].message


def test_where_a_pod_is_bound_in_its_cluster_it_stays_and_others_make_room() -> None:
    world = MirroredWorld()
    world.node("n1", allocatable=ROOM)
    world.pod("ours", cpu="1", schedulerName="moorage")
    world.run()
    assert world.bound("ours").target.name == "n1"
    # Somebody else binds pods there meanwhile. They were not known when ours was placed.
    world.pod("theirs", cpu="600m", on="n1")
    world.pod("more", cpu="600m", on="n1")
    world.run()
    placed = world.pods()
    assert [placed[name].state for name in ("theirs", "more", "ours")] == [
        PlacementState.PLACED,
        PlacementState.PLACED,
        PlacementState.PENDING,
    ]
    world.node("n2", allocatable=ROOM)
    world.run()
    assert world.bound("ours").target.name == "n2"
    # The cluster has bound ours to n1 before it heard of n2. That is where it runs.
    world.pod("ours", cpu="1", schedulerName="moorage", on="n1")
    world.run()
    assert world.where() == ["n1", "n1", "n1"]
    world.advance(3600)
    assert world.where() == ["n1", "n1", "n1"]


def test_a_decision_keeps_which_filters_the_chosen_node_does_not_pass() -> None:
    world = MirroredWorld()
    world.node("n1", allocatable=ROOM)
    world.node("n2", allocatable=ROOM)
    world.taint("n1", "for", "NoSchedule", "others")
    world.run()
    world.pod("fits", cpu="1", on="n2")
    world.run()
    world.pod("not", cpu="2", on="n1", nodeSelector={"disk": "ssd"})
    world.run()
    assert world.pods()["fits"].filters == (), "its own room does not count against it"
    found = {(one.filter, one.reason, one.targets) for one in world.pods()["not"].filters}
    assert found == {
        ("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", ("n1",)),
        ("TaintToleration", "node(s) had untolerated taint(s)", ("n1",)),
        ("NodeResourcesFit", "Insufficient cpu", ("n1",)),
    }


def test_a_declared_pod_with_a_node_name_is_not_judged() -> None:
    world = MirroredWorld()
    world.node("n1", allocatable=ROOM)
    world.declare("Pod", "web", {"containers": [{"name": "c"}], "nodeName": "n1", "nodeSelector": {"disk": "ssd"}})
    world.run()
    assert world.pods()["web"].filters == ()
    assert world.bound("web").deployer == ""


def test_pods_of_one_controller_are_spread_whoever_has_placed_them() -> None:
    world = MirroredWorld("n1", "n2", "n3")
    for name, node in (("web-1", "n1"), ("web-2", "n2")):
        world.pod(name, on=node)
        world.own("Pod", name, controller("ReplicaSet", "web"))
    for number in range(6):
        world.pod(f"other-{number}", on="n3")
    world.run()
    assert {str(world.bound(name).owner) for name in ("web-1", "web-2")} == {"ReplicaSet/default/web"}
    world.pod("web-3", schedulerName="moorage")
    world.own("Pod", "web-3", controller("ReplicaSet", "web"))
    world.run()
    assert world.bound("web-3").target.name == "n3", "although the most pods are there"


def test_repair_ends_no_binding_of_a_mirrored_controllers_pods() -> None:
    world = MirroredWorld("n1")
    world.mirror("ReplicaSet", "web", {"replicas": 1, "template": TEMPLATE})
    world.pod("web-1", on="n1")
    world.own("Pod", "web-1", controller("ReplicaSet", "web"))
    world.run()
    bound = world.bound("web-1")
    world.flow.reconcile()
    assert world.run().bound("web-1") == bound


# How a pod ends.


def evicted() -> MirroredWorld:
    world = with_witness("n1")
    world.pod("web", on="n1")
    world.run()
    world.taint("n1")
    return world.run()


def test_an_eviction_waits_for_the_bridge_though_nobody_has_reported() -> None:
    world = evicted()
    bound = world.bound("web")
    assert (world.task(bound).state, world.task(bound).deployer) == (REQUESTED, BRIDGE)
    world.advance(3600)
    assert world.bound("web") == bound
    assert world.pods()["web"].state is PlacementState.PLACED
    world.acknowledge("web")
    assert world.bindings("web") == []
    assert world.task(bound).state is COMPLETED
    # The record is there until the mirror says that the pod is gone.
    world.pod("web", on="n1", phase="Running")
    world.run()
    assert world.bindings("web") == []
    world.delete("Pod", "web")
    world.run()
    assert world.flow.table(PLACEMENTS) == {}


@pytest.mark.parametrize("binding", [True, False])
def test_the_bridge_acknowledges_whoever_else_reports(*, binding: bool) -> None:
    world = with_witness("n1")
    world.pod("web", on="n1")
    world.run()
    bound = world.bound("web")
    named = {"binding": bound} if binding else {"workload": bound.workload}
    world.report("Node/n1", HEALTHY, "True", source="deployer/other", **named)
    world.run()
    world.taint("n1")
    world.run()
    assert world.task(bound).deployer == BRIDGE


# What nothing demands any more is withdrawn, because the bridge may not have removed the pod yet.


def test_an_eviction_is_withdrawn_with_its_taint_and_requested_again_with_another() -> None:
    world = evicted()
    bound = world.bound("web")
    world.untaint("n1")
    world.run()
    assert (world.task(bound).state, world.task(bound).reason) == (CANCELLED, "TaintRemoved")
    assert world.bound("web") == bound
    world.advance(3600)
    assert world.task(bound).state is CANCELLED
    world.taint("n1", "other")
    world.run()
    assert (world.task(bound).state, world.task(bound).deployer) == (REQUESTED, BRIDGE)


def test_an_eviction_is_withdrawn_when_the_pod_tolerates_the_taint() -> None:
    world = evicted()
    world.pod("web", on="n1", tolerations=[{"operator": "Exists"}])
    world.run()
    bound = world.bound("web")
    assert (world.task(bound).state, world.task(bound).reason) == (CANCELLED, "Tolerated")


def test_an_eviction_waits_for_the_time_that_another_taint_gives() -> None:
    world = with_witness("n1")
    world.pod("web", on="n1", tolerations=[{"key": "slow", "operator": "Exists", "tolerationSeconds": 60}])
    world.run()
    world.taint("n1", "fast")
    world.run()
    bound = world.bound("web")
    assert world.task(bound).state is REQUESTED
    world.taint("n1", "slow")
    world.untaint("n1", "fast")
    world.run()
    assert world.task(bound).state is EvictionState.SCHEDULED
    world.advance(59)
    assert world.task(bound).state is EvictionState.SCHEDULED
    world.advance(2)
    assert world.task(bound).state is REQUESTED
    world.advance(3600)
    assert world.task(bound).state is REQUESTED, "its time is over, whatever else happens"


def test_what_is_withdrawn_gives_its_place_in_a_budget_back() -> None:
    world = with_witness("n1", "n2")
    world.declare("EvictionBudget", "one", {"maxConcurrent": 1})
    for name, node in (("a", "n1"), ("b", "n2")):
        world.pod(name, on=node)
    world.run()
    world.taint("n1")
    world.run()
    world.taint("n2")
    world.run()
    first, second = world.bound("a"), world.bound("b")
    assert (world.task(first).state, world.task(second).state) == (REQUESTED, EvictionState.HELD)
    world.untaint("n1")
    world.run()
    world.advance(10)
    assert (world.task(first).state, world.task(second).state) == (CANCELLED, REQUESTED)


def test_what_is_acknowledged_is_not_withdrawn() -> None:
    world = evicted()
    bound = world.bound("web")
    world.acknowledge("web")
    world.untaint("n1")
    world.run()
    assert world.task(bound).state is COMPLETED


def test_the_end_of_the_record_ends_the_binding() -> None:
    world = evicted()
    bound = world.bound("web")
    world.delete("Pod", "web")
    world.run()
    assert (world.bindings("web"), world.task(bound).state) == ([], COMPLETED)


def test_another_pod_of_the_same_name_ends_the_binding() -> None:
    world = evicted()
    first = world.bound("web")
    world.taint("n1", "bad", "NoSchedule")
    world.untaint("n1")
    world.mirror("Pod", "web", {"containers": [{"name": "c"}], "nodeName": "n1"}, uid="another")
    world.run()
    assert world.task(first).state is CANCELLED, "it was withdrawn with the taint"
    assert world.bound("web").uid == "another"
    assert world.bound("web").generation > first.generation


def test_the_end_of_the_node_ends_the_binding_and_the_pod_waits_for_a_node_of_that_name() -> None:
    world = evicted()
    world.delete_target("n1")
    world.run()
    assert world.bindings("web") == []
    assert (world.pods()["web"].state, world.pods()["web"].reason) == (PlacementState.PENDING, "NodeNotFound")
    world.node("n1")
    world.run()
    assert world.where() == ["n1"], "the kubelet is back before the pod was deleted"


def test_a_pod_whose_node_is_gone_says_so_for_as_long_as_it_waits() -> None:
    world = with_witness("n1")
    world.pod("web", on="n1")
    world.run()
    world.delete_target("n1")
    world.run()
    said = world.pods()["web"].message
    assert 'node "n1" not found' in said
    assert 'node "n1" was deleted' in said
    world.advance(60)
    assert world.flow.reconcile("placement") == [], "nothing has changed"
    world.node("n2")  # everything that waits is tried again
    world.run()
    assert world.pods()["web"].message == said


def test_a_node_that_is_made_again_under_its_name_has_its_pods_again() -> None:
    world = with_witness("n1")
    world.pod("web", on="n1")
    world.run()
    first = world.bound("web")
    world.target("n1", uid="another")
    world.run()
    assert world.bound("web").generation > first.generation


def test_out_of_service_ends_the_binding() -> None:
    world = evicted()
    world.report("n1", "Ready", "Unknown", source=BRIDGE)
    world.taint("n1", "node.kubernetes.io/out-of-service", "NoExecute", "nodeshutdown")
    world.run()
    assert world.bindings("web") == []


def test_a_pod_keeps_its_room_while_its_cluster_terminates_it() -> None:
    world = MirroredWorld()
    world.node("n1", allocatable=ROOM)
    world.pod("old", cpu="1", on="n1")
    world.run()
    world.terminate("old")
    world.pod("new", cpu="1", schedulerName="moorage")
    world.run()
    assert world.bound("old").target.name == "n1"
    assert world.pods()["new"].state is PlacementState.PENDING
    world.delete("Pod", "old")
    world.run()
    assert world.where() == ["n1"]


def test_a_pod_that_is_deleted_before_it_is_bound_gets_no_node() -> None:
    world = MirroredWorld("n1")
    world.pod("web", schedulerName="moorage")
    world.run()
    world.terminate("web")
    world.run()
    assert world.pods() == {}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_takes_no_room_and_is_evicted_all_the_same(phase: str) -> None:
    world = with_witness()
    world.node("n1", allocatable={"cpu": "1", "pods": "1"})
    world.pod("job", cpu="1", on="n1", phase="Running")
    world.pod("new", cpu="1", schedulerName="moorage")
    world.run()
    assert world.pods()["new"].state is PlacementState.PENDING
    world.pod("job", cpu="1", on="n1", phase=phase)
    world.run()
    assert (world.bound("job").target.name, world.bound("new").target.name) == ("n1", "n1")
    assert world.bound("job").requests == {"pods": 0}
    world.advance(3600)
    assert world.bound("new").generation == 2, "it is not withdrawn"
    world.taint("n1")
    world.run()
    assert world.task(world.bound("job")).state is REQUESTED


def test_a_pod_that_ended_before_it_had_a_node_has_no_placement() -> None:
    world = MirroredWorld("n1")
    world.pod("job", phase="Failed", schedulerName="moorage")
    world.run()
    assert world.pods() == {}


# Budgets.


def allowed(world: MirroredWorld) -> tuple[int, int]:
    """How many pods the budget expects, and lets go, when all pods are ready."""
    world.ready(*world.pods())
    return counted(world)


def counted(world: MirroredWorld) -> tuple[int, int]:
    world.advance(10)
    found = world.flow.table(BUDGETS)["PodDisruptionBudget/default/web"]
    return found.expected, found.allowed


def budgeted(world: MirroredWorld) -> None:
    world.mirror("PodDisruptionBudget", "web", {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1})


def mirrored_replica_set(world: MirroredWorld, name: str, pods: int, replicas: int, deployment: str = "") -> None:
    world.mirror("ReplicaSet", name, {"replicas": replicas, "template": TEMPLATE})
    if deployment:
        world.own("ReplicaSet", name, controller("Deployment", deployment))
    for number in range(pods):
        world.pod(f"{name}-{number}", on="n1")
        world.own("Pod", f"{name}-{number}", controller("ReplicaSet", name))


def test_a_disruption_budget_expects_what_the_controllers_of_mirrored_pods_want() -> None:
    world = with_witness("n1")
    budgeted(world)
    mirrored_replica_set(world, "web-a", pods=3, replicas=4)
    world.run()
    assert allowed(world) == (4, 0)
    world.pod("web-a-3", on="n1")
    world.own("Pod", "web-a-3", controller("ReplicaSet", "web-a"))
    world.run()
    assert allowed(world) == (4, 1)


def test_it_expects_what_the_deployment_of_replica_sets_wants() -> None:
    world = with_witness("n1")
    budgeted(world)
    mirrored_replica_set(world, "web-a", pods=1, replicas=1, deployment="web")
    mirrored_replica_set(world, "web-b", pods=2, replicas=2, deployment="web")
    world.run()
    assert allowed(world) == (0, 0), "the deployment is not known"
    world.mirror("Deployment", "web", {"replicas": 3, "template": TEMPLATE})
    world.run()
    assert allowed(world) == (3, 1)
    world.mirror("Deployment", "web", {"replicas": 4, "template": TEMPLATE})
    world.run()
    assert allowed(world) == (4, 0)
    world.own("ReplicaSet", "web-a")
    world.run()
    assert allowed(world) == (5, 0), "the first set stands alone now"


def test_a_pod_of_another_groups_controller_allows_no_evictions() -> None:
    world = with_witness("n1")
    budgeted(world)
    mirrored_replica_set(world, "web", pods=1, replicas=1)
    world.own("Pod", "web-0", controller("ReplicaSet", "web", "example.com/v1"))
    world.run()
    assert str(world.bound("web-0").owner) == "ReplicaSet.example.com/default/web"
    assert allowed(world) == (0, 0)


def test_a_budget_expects_what_its_cluster_has_counted_where_an_owner_is_not_mirrored() -> None:
    world = with_witness("n1")
    spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
    for number in range(3):
        world.pod(f"web-{number}", on="n1")
        world.own("Pod", f"web-{number}", controller("Rollout", "web", "argoproj.io/v1alpha1"))
    budgeted(world)
    world.run()
    assert allowed(world) == (0, 0)
    world.mirror("PodDisruptionBudget", "web", spec, status={"expectedPods": 3})
    world.run()
    assert counted(world) == (3, 1)
    world.mirror("PodDisruptionBudget", "web", spec, status={"expectedPods": 4})
    world.run()
    assert counted(world) == (4, 0)
    world.mirror("PodDisruptionBudget", "web", spec)
    world.run()
    assert counted(world) == (0, 0), "the cluster does not know either"


def test_a_budget_holds_the_eviction_of_mirrored_pods() -> None:
    world = with_witness("n1")
    budgeted(world)
    mirrored_replica_set(world, "web", pods=3, replicas=3)
    world.run()
    world.ready(*world.pods())
    world.run()
    world.taint("n1")
    world.run()
    states = sorted(event.state.value for event in world.flow.table(EVICTIONS).values())
    assert states == ["Held", "Held", "Requested"]


def test_a_mirrored_pod_is_healthy_if_its_bridge_has_last_said_so_of_this_pod() -> None:
    world = with_witness("n1")
    budgeted(world)
    mirrored_replica_set(world, "web", pods=3, replicas=3)
    world.run()
    assert counted(world) == (3, 0), "none has been ready yet"
    world.ready("web-0", "web-1")
    assert counted(world) == (3, 0)
    world.report("n1", HEALTHY, "True", source="deployer/other", binding=world.bound("web-2"))
    assert counted(world) == (3, 0), "another program does not know"
    world.ready("web-2")
    assert counted(world) == (3, 1)
    world.ready("web-0", status="False")
    assert counted(world) == (3, 0)
    world.ready("web-0")
    assert counted(world) == (3, 1)
    # Another pod of that name has not been ready.
    world.delete("Pod", "web-0")
    world.run()
    world.pod("web-0", on="n1")
    world.own("Pod", "web-0", controller("ReplicaSet", "web"))
    assert counted(world) == (3, 0)
    world.flow.crash_process("governor")
    assert counted(world) == (3, 0)
    world.ready("web-0")
    assert counted(world) == (3, 1)


# Silence.


def test_a_bridge_that_says_nothing_is_not_taken_for_a_node_that_fails() -> None:
    world = MirroredWorld("n1", "n2", WITNESS, settings=Settings(partitions=3))
    world.report("n1", "Ready", "True", source=BRIDGE)
    world.report("n2", "Ready", "True", source="probe/mine")
    world.run()
    world.advance(24 * 3600)
    found = {key: event.status.value for key, event in world.flow.table(CONDITIONS).items()}
    assert found == {"Node/n1|Ready": "True", "Node/n2|Ready": "Unknown"}
    assert world.flow.table(TAINTS)["Node/n1"].taints == ()


def test_an_acknowledgement_before_its_eviction_counts_then() -> None:
    world = with_witness("n1")
    world.pod("web", on="n1")
    world.run()
    world.report("Node/n1", EVICTED, "True", source=BRIDGE, binding=world.bound("web"))
    world.run()
    assert len(world.flow.table(BINDINGS)) == 1
    world.taint("n1")
    world.run()
    assert world.bindings("web") == []


# Whatever happens meanwhile.


def settled(world: MirroredWorld) -> dict[str, tuple[str, str, bool, str]]:
    """For each pod, where it is, as whose, whether it runs there, and its eviction."""
    evictions = {str(one.workload): one.state.value for one in world.flow.table(EVICTIONS).values()}
    return {
        one.workload.name: (one.target.name, one.deployer, one.bypassed, evictions.get(str(one.workload), ""))
        for one in world.flow.table(BINDINGS).values()
    }


@table("seed", range(15))
def test_crashes_and_any_order_change_nothing(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - the random choices must be repeatable
    world = with_witness(seed=seed)

    def crash(_service: str, _partition: int) -> Crash | None:
        return rng.choice(list(Crash)) if rng.random() < 0.1 else None

    def meanwhile() -> None:
        if rng.random() < 0.5:
            world.flow.run()
        if rng.random() < 0.3:
            world.flow.crash_process(rng.choice(sorted(world.flow.services)))

    world.flow.crash_when = crash
    for name in ("n1", "n2"):
        world.node(name, allocatable=ROOM)
    for number in range(4):
        world.pod(f"web-{number}", cpu="500m", schedulerName="moorage")
        meanwhile()
    for number, name in enumerate(("n1", "n1", "n2", "n1")):
        world.pod(f"web-{number}", cpu="500m", schedulerName="moorage", on=name)
        meanwhile()
    world.pod("theirs", cpu="500m", on="n2")
    world.taint("n1", "bad")
    meanwhile()
    world.flow.advance(5)
    world.check()
    assert settled(world) == {
        "web-0": ("n1", BRIDGE, True, "Requested"),
        "web-1": ("n1", BRIDGE, True, "Requested"),
        "web-2": ("n2", BRIDGE, True, ""),
        "web-3": ("n1", BRIDGE, True, "Requested"),
        "theirs": ("n2", BRIDGE, True, ""),
    }
    for name in ("web-0", "web-1", "web-3"):
        bound = world.bound(name)
        world.report(bound.target.key, EVICTED, "True", source=BRIDGE, binding=bound)
        meanwhile()
        world.delete("Pod", name)
        meanwhile()
    world.flow.advance(5)
    world.check()
    assert settled(world) == {
        "web-2": ("n2", BRIDGE, True, ""),
        "theirs": ("n2", BRIDGE, True, ""),
    }
    assert set(world.pods()) == {"web-2", "theirs"}
