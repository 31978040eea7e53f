"""What is mirrored is read-only at the gateway, and none of its controllers touches it."""

from __future__ import annotations

from typing import Any

from tests.component.gateway.double import NOW, Fixture, Json, deployment, node, pod
from tests.component.gateway.test_mirror import (
    DISK,
    GPU,
    gone,
    last,
    mirrored,
    records,
    seen,
    seen_node,
    seen_pod,
    wishes,
)
from tests.support.tables import table

from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key, eviction_key
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS

PODS = "/api/v1/namespaces/shop/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"
WHERE = "is mirrored from its cluster by bridge/east: change it there"
POD = WorkloadRef.parse("Pod/shop/p1")
NODE = TargetRef.parse("Node/n1")


async def with_objects() -> Fixture:
    gateway = Fixture()
    web = seen(deployment(), namespace="shop", uid="d1")
    await mirrored(gateway, seen_node(taints=[GPU]), seen_pod(uid="p1"), web)
    return gateway


EVICT = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p1", "namespace": "shop"}}
BIND = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p1"}, "target": {"name": "n2"}}


@table(
    ("method", "path", "body"),
    [
        ("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"a": "b"}}}),
        ("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": True}}),
        ("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [DISK], "unschedulable": True}}),
        ("PATCH", "/api/v1/nodes/n1/status", {"status": {"capacity": {"cpu": "8"}}}),
        ("DELETE", "/api/v1/nodes/n1", None),
        ("PATCH", f"{PODS}/p1", {"metadata": {"annotations": {"a": "b"}}}),
        ("DELETE", f"{PODS}/p1", None),
        ("POST", f"{PODS}/p1/eviction", EVICT),
        ("POST", f"{PODS}/p1/binding", BIND),
        ("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"paused": True}}),
        ("PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 5}}),
        ("DELETE", f"{DEPLOYMENTS}/web", None),
    ],
)
async def test_what_is_mirrored_is_read_only(method: str, path: str, body: Any) -> None:
    gateway = await with_objects()
    written = len(gateway.log.written)
    answer = await gateway.call(method, path, body)
    assert answer.status_code == 403, answer.text
    assert WHERE in answer.json()["message"]
    assert len(gateway.log.written) == written


async def test_what_is_mirrored_is_not_created_again() -> None:
    gateway = await with_objects()
    answer = await gateway.call("POST", "/api/v1/nodes", node())
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")


async def test_people_add_taints_and_take_theirs_away_but_not_those_of_others() -> None:
    gateway = await with_objects()
    mine = {"key": "mine", "effect": "NoSchedule"}
    shown = await gateway.ok("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [GPU, mine]}})
    assert [one["key"] for one in shown["spec"]["taints"]] == ["gpu", "mine"]
    assert [(key, present) for key, present, _, _ in wishes(gateway)] == [("gpu", True), ("mine", True)]
    assert last(gateway, "Node//n1").mirrored is not None
    answer = await gateway.call("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [mine]}})
    assert answer.status_code == 403
    assert "the taint gpu:NoSchedule is mirrored from its cluster by bridge/east" in answer.json()["message"]
    answer = await gateway.call("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [{**GPU, "value": "z"}, mine]}})
    assert answer.status_code == 403
    shown = await gateway.ok("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [GPU]}})
    assert [one["key"] for one in shown["spec"]["taints"]] == ["gpu"]
    answer = await gateway.call("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [GPU, {"key": "x", "effect": "y"}]}})
    assert answer.status_code == 422


async def test_a_taint_edit_expects_the_version_that_it_names() -> None:
    gateway = await with_objects()
    shown = await gateway.ok("GET", "/api/v1/nodes/n1")
    await mirrored(gateway, seen_node(taints=[GPU, DISK], version=9))
    wanted = {**shown, "spec": {**shown["spec"], "taints": [GPU, {"key": "mine", "effect": "NoSchedule"}]}}
    answer = await gateway.call("PUT", "/api/v1/nodes/n1", wanted)
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    dry = await gateway.ok(
        "PATCH", "/api/v1/nodes/n1?dryRun=All", {"spec": {"taints": [GPU, DISK, wanted["spec"]["taints"][1]]}}
    )
    assert [one["key"] for one in dry["spec"]["taints"]] == ["gpu", "disk", "mine"]
    assert [key for key, *_ in wishes(gateway)] == ["gpu", "disk"]


async def test_conditions_are_reported_through_the_status() -> None:
    gateway = await with_objects()
    condition = {"type": "DiskPressure", "status": "True"}
    await gateway.ok("PATCH", "/api/v1/nodes/n1/status", {"status": {"conditions": [condition]}})
    (report,) = gateway.log.reported
    assert report.key == "Node/n1"


async def test_garbage_collection_leaves_to_the_cluster_what_is_mirrored() -> None:
    gateway = Fixture()
    async with gateway.running():
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "gone", "controller": True}
        await mirrored(gateway, seen_pod(ownerReferences=[owner]))
        marked = seen_pod("p2", uid="u2", finalizers=["foregroundDeletion"], deletionTimestamp="2026-01-01T11:00:00Z")
        await mirrored(gateway, marked)
        await gateway.settled()
        assert len(records(gateway, "Pod/shop/p1")) == 1
        assert len(records(gateway, "Pod/shop/p2")) == 1
        # What is declared here goes with a mirrored owner.
        web = seen(deployment(), namespace="shop", uid="d1")
        await mirrored(gateway, web)
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d1"}
        settings = {"metadata": {"name": "settings", "ownerReferences": [reference]}}
        await gateway.ok("POST", "/api/v1/namespaces/shop/configmaps", settings)
        await gateway.settled()
        assert await gateway.status("/api/v1/namespaces/shop/configmaps/settings") == 200
        await mirrored(gateway, deleted=[gone(web, uid="d1")])
        await gateway.settled()
        assert await gateway.status("/api/v1/namespaces/shop/configmaps/settings") == 404


async def test_a_controller_makes_nothing_for_a_mirrored_one() -> None:
    gateway = Fixture()
    async with gateway.running():
        web = seen(deployment(replicas=0), namespace="shop", uid="d1")
        await mirrored(gateway, web)
        await gateway.settled()
        assert (await gateway.ok("GET", "/apis/apps/v1/replicasets"))["items"] == []
        await gateway.ok("POST", DEPLOYMENTS, deployment("own", replicas=0))
        await gateway.settled()
        (made,) = (await gateway.ok("GET", "/apis/apps/v1/replicasets"))["items"]
        assert made["metadata"]["name"].startswith("own-")


async def test_a_namespace_that_is_deleted_leaves_what_is_mirrored() -> None:
    gateway = Fixture()
    async with gateway.running():
        other = seen_pod("p2", uid="u2")
        other["metadata"]["namespace"] = "elsewhere"
        await mirrored(gateway, seen_pod(), other)
        assert (await gateway.ok("GET", "/api/v1/namespaces/elsewhere"))["status"]["phase"] == "Active"
        await gateway.ok("POST", "/api/v1/namespaces/shop/configmaps", {"metadata": {"name": "own"}})
        await gateway.ok("DELETE", "/api/v1/namespaces/shop")
        await gateway.settled()
        assert await gateway.status("/api/v1/namespaces/shop/configmaps/own") == 404
        assert await gateway.status(f"{PODS}/p1") == 200
        assert len(records(gateway, "Pod/shop/p1")) == 1
        assert records(gateway, "Namespace//shop")[-1] is None
        await mirrored(gateway, deleted=[gone(other, uid="u2")])
        assert await gateway.status("/api/v1/namespaces/elsewhere") == 404


async def test_a_mirrored_namespace_that_ends_is_not_emptied_here() -> None:
    gateway = Fixture()
    async with gateway.running():
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}, "spec": {}}
        ending = seen(document, deletionTimestamp="2026-01-01T11:00:00Z")
        ending["status"] = {"phase": "Terminating"}
        await mirrored(gateway, ending)
        await gateway.settled()
        assert (await gateway.ok("GET", "/api/v1/namespaces/team"))["status"] == {"phase": "Terminating"}
        assert len(records(gateway, "Namespace//team")) == 1


def placed(gateway: Fixture, state: PlacementState) -> None:
    event = WorkloadPlaced(
        workload=POD,
        uid="p1",
        owner=POD,
        owner_uid="p1",
        generation=1,
        state=state,
        target=NODE if state is PlacementState.PLACED else None,
        decided_time=NOW,
    )
    gateway.log.append(PLACEMENTS, POD.key, POD.key, event)


async def test_an_evicted_pod_stays_until_its_cluster_has_removed_it() -> None:
    gateway = await with_objects()
    async with gateway.running():
        placed(gateway, PlacementState.EVICTED)
        await gateway.settled()
        assert await gateway.status(f"{PODS}/p1") == 200
        assert len(records(gateway, POD.key)) == 1


async def test_an_eviction_does_not_mark_a_pod_that_its_cluster_has_not_marked() -> None:
    gateway = await with_objects()
    placed(gateway, PlacementState.PLACED)
    bound = WorkloadBound(
        workload=POD, uid="p1", owner=POD, target=NODE, generation=1, bound_time=NOW, deployer="bridge/east"
    )
    gateway.log.append(BINDINGS, binding_key(POD, NODE), NODE.key, bound)
    eviction = EvictionDecided(
        workload=POD,
        workload_uid="p1",
        owner=POD,
        target=NODE,
        generation=1,
        revision=1,
        state=EvictionState.REQUESTED,
        deployer="bridge/east",
        decided_time=NOW,
    )
    gateway.log.append(EVICTIONS, eviction_key(POD, NODE, 1), NODE.key, eviction)
    shown = await gateway.ok("GET", f"{PODS}/p1")
    assert "deletionTimestamp" not in shown["metadata"]
    assert shown["spec"]["nodeName"] == "n1"


async def test_a_pod_without_a_node_shows_where_placement_has_bound_it() -> None:
    gateway = Fixture()
    waiting: Json = seen(pod(schedulerName="moorage"), namespace="shop", uid="p1")
    waiting["status"] = {"phase": "Pending"}
    await mirrored(gateway, waiting)
    placed(gateway, PlacementState.PLACED)
    shown = await gateway.ok("GET", f"{PODS}/p1")
    assert (shown["spec"]["nodeName"], shown["status"]["phase"]) == ("n1", "Pending")
    (scheduled, *_) = shown["status"]["conditions"]
    assert (scheduled["type"], scheduled["status"]) == ("PodScheduled", "True")


async def test_a_budget_is_shown_as_the_cluster_counts_it() -> None:
    gateway = Fixture()
    document = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 3, "expectedPods": 4},
    }
    await mirrored(gateway, seen(document, namespace="shop"))
    shown = await gateway.ok("GET", "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web")
    assert (shown["status"]["disruptionsAllowed"], shown["status"]["expectedPods"]) == (3, 4)
