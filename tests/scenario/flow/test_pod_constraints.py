"""Pods that demand something of the pods beside them: ports, affinity, anti-affinity, even spreading, volumes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.tables import table
from tests.support.worlds.mirrored import MirroredWorld
from tests.support.worlds.nodes import NodeWorld, pod_spec

from moorage_schemas.placement import WorkloadBound
from moorage_schemas.resource import PodMetadata
from moorage_schemas.topics import BINDINGS

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def ports(*numbers: int) -> dict[str, Any]:
    taken = [{"containerPort": number, "hostPort": number} for number in numbers]
    return {"containers": [{"name": "c", "ports": taken}]}


def term(key: str = HOST, *, kind: str = "podAntiAffinity", app: str = "web", **more: Any) -> dict[str, Any]:
    one = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}
    return {"affinity": {kind: {REQUIRED: [one]}}}


def spread(key: str = ZONE, app: str = "web", **more: Any) -> dict[str, Any]:
    one = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**one, "labelSelector": {"matchLabels": {"app": app}}, **more}]}


def fleet(**zones: str) -> NodeWorld:
    """A world with these nodes, each in a zone."""
    world = NodeWorld()
    for name, zone in zones.items():
        world.node(name, labels={ZONE: zone, HOST: name})
    return world


def pod(world: NodeWorld, name: str, app: str = "web", namespace: str = "default", **spec: Any) -> None:
    world.declare("Pod", name, {**pod_spec(), **spec}, namespace=namespace, labels={"app": app})
    world.run()


def deployment(world: NodeWorld, name: str, replicas: int, **spec: Any) -> None:
    template = {"metadata": {"labels": {"app": name}}, "spec": {**pod_spec(), **spec}}
    world.declare("Deployment", name, {"replicas": replicas, "template": template})
    world.run()


def placed(world: NodeWorld) -> dict[str, str]:
    """The node of each pod. `-` for a pod that waits."""
    return {name: event.target.name if event.target else "-" for name, event in world.pods().items()}


def test_two_pods_with_one_host_port_are_not_on_one_node() -> None:
    world = fleet(n1="a")
    pod(world, "one", **ports(80))
    pod(world, "two", **ports(80))
    pod(world, "other", **ports(81))
    assert placed(world) == {"one": "n1", "two": "-", "other": "n1"}
    message = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    assert world.pods()["two"].message == message
    world.delete("Pod", "one")
    assert placed(world.run()) == {"two": "n1", "other": "n1"}


def test_replicas_that_are_far_from_each_other_wait_for_nodes() -> None:
    world = fleet(n1="a", n2="a")
    deployment(world, "web", 3, **term())
    assert world.where() == ["-", "n1", "n2"]
    message = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    assert message in {event.message for event in world.pods().values()}
    world.node("n3", labels={HOST: "n3"})
    assert world.run().where() == ["n1", "n2", "n3"]


def test_a_placed_pod_keeps_others_away() -> None:
    world = fleet(n1="a", n2="b")
    pod(world, "shy", app="shy", **term(ZONE, app="web"))
    away = placed(world)["shy"]
    for number in range(3):
        pod(world, f"web-{number}")
    assert away not in {placed(world)[f"web-{number}"] for number in range(3)}
    world.delete("Node", "n2" if away == "n1" else "n1")
    pod(world, "late")
    message = "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
    assert world.pods()["late"].message == message
    pod(world, "else", app="db")
    assert placed(world)["else"] == away, "pods of an equal spec with other labels are decided by themselves"
    world.delete("Pod", "shy")
    assert placed(world.run())["late"] == away


def test_a_pod_waits_for_the_one_that_it_must_be_near() -> None:
    world = fleet(n1="a", n2="b")
    pod(world, "cache", app="cache", **term(ZONE, kind="podAffinity", app="web"))
    assert placed(world) == {"cache": "-"}
    message = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
    assert world.pods()["cache"].message == message
    pod(world, "web", nodeSelector={HOST: "n2"})
    assert placed(world) == {"cache": "n2", "web": "n2"}


def test_the_first_of_a_group_goes_anywhere_and_the_others_follow() -> None:
    world = fleet(n1="a", n2="b", n3="b")
    deployment(world, "web", 4, **term(ZONE, kind="podAffinity"))
    assert len({{"n1": "a"}.get(name, "b") for name in world.where()}) == 1


def test_pods_are_spread_evenly_or_wait() -> None:
    world = fleet(n1="a", n2="a", n3="b")
    deployment(world, "web", 4, **spread())
    zones = ["a" if name in {"n1", "n2"} else "b" for name in world.where()]
    assert sorted(zones) == ["a", "a", "b", "b"]
    world.taint("n3", "bad", "NoSchedule")
    deployment(world, "web", 6, **spread())
    assert world.where().count("-") == 1, "one more fits in zone a; then zone b would need one first"
    assert any("2 node(s) didn't match pod topology spread constraints" in one.message for one in world.pods().values())
    pod(world, "by-hand", app="web", nodeName="n3")
    assert world.where("web").count("-") == 0, "the pod that has arrived in zone b lets another one into zone a"


def test_a_domain_that_goes_lets_pods_fit() -> None:
    world = fleet(n1="a", n2="b")
    world.node("n2", labels={ZONE: "b", HOST: "n2"}, unschedulable=True)
    deployment(world, "web", 2, **spread())
    assert world.where() == ["-", "n1"]
    world.delete("Node", "n2")
    assert world.run().where() == ["n1", "n1"]


def test_changed_labels_of_a_placed_pod_let_others_fit() -> None:
    world = fleet(n1="a")
    deployment(world, "web", 1)
    pod(world, "far", app="far", **term())
    pod(world, "near", app="near", **term(kind="podAffinity", app="changed"))
    assert (placed(world)["far"], placed(world)["near"]) == ("-", "-")
    (name,) = (name for name in placed(world) if name.startswith("web"))
    event = world.pods()[name]
    change = PodMetadata(pod=event.workload.key, uid=event.uid, labels={"app": "changed"}, annotations={})
    world.change_pods("Deployment/default/web", change)
    world.run()
    assert (placed(world)["far"], placed(world)["near"]) == ("n1", "n1")


def test_changed_labels_of_a_namespace_let_pods_fit() -> None:
    world = fleet(n1="a")
    pod(world, "web", namespace="shop")
    among: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    pod(world, "far", app="far", **term(**among))
    assert placed(world)["far"] == "n1", "no namespace of the team has a pod"
    pod(world, "near", app="near", **term(kind="podAffinity", **among))
    assert placed(world)["near"] == "-"
    world.declare("Namespace", "shop", labels={"team": "a"})
    assert placed(world.run())["near"] == "n1"
    pod(world, "later", app="later", **term(**among))
    assert placed(world)["later"] == "-"
    world.declare("Namespace", "shop", labels={"team": "b"})
    assert placed(world.run())["later"] == "n1"


def test_labels_of_the_pod_itself_complete_its_terms() -> None:
    world = fleet(n1="a", n2="a")
    more: dict[str, Any] = {"matchLabelKeys": ["version"]}
    for number, version in enumerate(("1", "2", "1", "2", "1")):
        spec = {**pod_spec(), **term(**more)}
        world.declare("Pod", f"web-{number}", spec, labels={"app": "web", "version": version})
        world.run()
    found = placed(world)
    assert [found[f"web-{number}"] for number in range(5)].count("-") == 1
    assert found["web-0"] != found["web-2"]
    assert found["web-1"] != found["web-3"]


def test_volumes_bind_pods_to_their_zone() -> None:
    world = fleet(n1="a", n2="b")
    one = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}
    mounts: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    world.declare("PersistentVolumeClaim", "data", {"volumeName": "disk"})
    pod(world, "web", **mounts)
    why = "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    assert why in world.pods()["web"].message
    world.declare("PersistentVolume", "disk", {"nodeAffinity": {"required": {"nodeSelectorTerms": [one]}}})
    assert placed(world.run()) == {"web": "n2"}
    world.declare("PersistentVolume", "old", labels={ZONE: "a"})
    world.declare("PersistentVolumeClaim", "data", {"volumeName": "old"}, namespace="shop")
    pod(world, "other", namespace="shop", **mounts)
    assert placed(world)["other"] == "n1", "claims of one name in two namespaces are two claims"


def test_a_claim_without_a_volume_rules_nothing_out() -> None:
    world = fleet(n1="a")
    mounts: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    pod(world, "web", **mounts)
    assert placed(world) == {"web": "n1"}


def test_a_claim_that_is_being_deleted_takes_no_more_pods() -> None:
    world = fleet(n1="a")
    mounts: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    world.declare("PersistentVolumeClaim", "data", {"volumeName": "disk"})
    world.declare("PersistentVolume", "disk")
    pod(world, "early", **mounts)
    world.mark("PersistentVolumeClaim", "data", "kubernetes.io/pvc-protection")
    pod(world, "late", **mounts)
    assert placed(world) == {"early": "n1", "late": "-"}
    assert '1 persistentvolumeclaim "data" is being deleted' in world.pods()["late"].message
    world.delete("PersistentVolumeClaim", "data")
    world.declare("PersistentVolumeClaim", "data", {"volumeName": "disk"})
    assert placed(world.run()) == {"early": "n1", "late": "n1"}


def test_constraints_outlive_a_restart() -> None:
    world = fleet(n1="a", n2="b")
    pod(world, "one", **ports(80), nodeSelector={HOST: "n1"})
    pod(world, "shy", app="shy", **term(ZONE, app="web"), nodeSelector={HOST: "n2"})
    world.flow.crash_process("placement")
    pod(world, "two", app="web", **ports(80))
    assert placed(world)["two"] == "-"
    world.flow.reconcile()
    assert placed(world) == {"one": "n1", "shy": "n2", "two": "-"}


def test_bindings_of_an_older_version_get_their_constraints() -> None:
    world = fleet(n1="a")
    deployment(world, "web", 1, **ports(80))
    (key,) = world.flow.table(BINDINGS)
    bound = world.flow.table(BINDINGS)[key]
    assert isinstance(bound, WorkloadBound)
    world.flow.produce(BINDINGS, key, bound.model_copy(update={"constraints": None}), partition_key="Node/n1")
    world.flow.crash_process("placement")
    world.run()
    again = world.flow.table(BINDINGS)[key]
    assert isinstance(again, WorkloadBound)
    assert (again.constraints, again.revision) == (bound.constraints, bound.revision + 1)


def test_a_pod_that_leaves_takes_its_port_until_it_is_gone() -> None:
    world = MirroredWorld("n1")
    world.pod("old", on="n1", **ports(80))
    world.run()
    world.pod("new", schedulerName="moorage", **ports(80))
    world.run()
    world.taint("n1", "bad", "NoExecute")
    world.pod("kind", schedulerName="moorage", tolerations=[{"operator": "Exists"}], **ports(80))
    world.run()
    assert world.where() == ["-", "-", "n1"], "its eviction is requested, and its binding is still there"
    world.acknowledge("old")
    assert placed(world)["kind"] == "n1"


def test_a_pod_of_a_cluster_is_bound_beside_others() -> None:
    world = MirroredWorld()
    for name, zone in (("n1", "a"), ("n2", "b")):
        world.node(name, zone=zone, labels={HOST: name})
    world.pod("old", on="n1", **ports(80))
    world.run()
    world.pod("new", schedulerName="moorage", **ports(80), **term(ZONE))
    world.run()
    assert placed(world)["new"] == "n2"
    world.pod("late", schedulerName="moorage", **spread())
    world.run()
    assert placed(world)["late"] == "n1", "the new pod keeps others out of its zone"


def test_a_pod_that_is_being_deleted_does_not_count_where_pods_are_spread() -> None:
    world = MirroredWorld()
    for name, zone in (("n1", "a"), ("n2", "b")):
        world.node(name, zone=zone, labels={HOST: name})
    world.pod("old", on="n1")
    world.run()
    world.taint("n2", "bad", "NoSchedule")
    world.pod("new", schedulerName="moorage", **spread())
    world.run()
    assert placed(world)["new"] == "-"
    world.terminate("old")
    assert placed(world.run())["new"] == "n1"


@table("kind", ["StatefulSet", "DaemonSet", "ReplicaSet", "Job"])
def test_each_controller_respects_host_ports(kind: str) -> None:
    world = fleet(n1="a", n2="a")
    pod(world, "first", **ports(80), nodeSelector={HOST: "n1"})
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {**pod_spec(), **ports(80)}}
    count = {"parallelism": 2} if kind == "Job" else {} if kind == "DaemonSet" else {"replicas": 2}
    world.declare(kind, "web", {**count, "template": template})
    assert world.run().where("web") == ["-", "n2"]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_rollout_goes_on_beside_ports(kind: str) -> None:
    world = fleet(n1="a", n2="a", n3="a")
    for image in ("one", "two"):
        spec = {"containers": [{"name": "c", "image": image, "ports": [{"containerPort": 80, "hostPort": 80}]}]}
        template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
        world.declare(kind, "web", {"replicas": 2, "template": template})
        world.run()
    assert len(set(world.where())) == 2
    assert "-" not in world.where()
    assert len({event.template_hash for event in world.pods().values()}) == 1
