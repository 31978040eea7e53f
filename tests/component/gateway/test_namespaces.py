"""Namespaces: which exist, what may be created in them, and how they go."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, deployment, node, pod

from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import RESOURCES

NAMESPACES = "/api/v1/namespaces"
TEAM = f"{NAMESPACES}/team"
BUILT_IN = ["default", "kube-node-lease", "kube-public", "kube-system"]


def named(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


def left_behind(gateway: Fixture, key: str) -> None:
    """Write an object of an undeclared namespace, as gateways once accepted it."""
    kind, namespace, name = key.split("/")
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}"}
    declared = ResourceDeclared(object={"apiVersion": "v1", "kind": kind, "metadata": metadata}, version=1)
    gateway.log.append(RESOURCES, key, key, declared)


async def names(gateway: Fixture) -> list[str]:
    return [item["metadata"]["name"] for item in (await gateway.ok("GET", NAMESPACES))["items"]]


async def test_those_of_every_kubernetes_api_are_there() -> None:
    gateway = Fixture(namespaces=())
    assert await names(gateway) == BUILT_IN
    shown = await gateway.ok("GET", f"{NAMESPACES}/kube-system")
    assert shown["metadata"]["labels"] == {"kubernetes.io/metadata.name": "kube-system"}
    assert shown["metadata"]["uid"]
    assert (shown["spec"], shown["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    await gateway.ok("POST", f"{NAMESPACES}/kube-system/pods", pod())


async def test_a_built_in_one_can_be_labelled_and_not_deleted() -> None:
    gateway = Fixture()
    before = await gateway.ok("GET", f"{NAMESPACES}/default")
    await gateway.ok("PATCH", f"{NAMESPACES}/default", {"metadata": {"labels": {"team": "a"}}})
    shown = await gateway.ok("GET", f"{NAMESPACES}/default")
    assert shown["metadata"]["labels"] == {"team": "a", "kubernetes.io/metadata.name": "default"}
    assert shown["metadata"]["uid"] == before["metadata"]["uid"]
    again = await gateway.call("POST", NAMESPACES, named("default"))
    assert (again.status_code, again.json()["message"]) == (409, 'namespaces "default" already exists')
    for name in BUILT_IN:
        answer = await gateway.call("DELETE", f"{NAMESPACES}/{name}")
        assert answer.status_code == 403
        assert answer.json()["message"] == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{TEAM}/pods", pod()),
        ("/apis/apps/v1/namespaces/team/deployments", deployment()),
        (f"{TEAM}/configmaps", named("c")),
    ],
)
async def test_nothing_is_created_in_one_that_nobody_declared(path: str, body: Any) -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", path, body)
    status = answer.json()
    assert (answer.status_code, status["message"]) == (404, 'namespaces "team" not found')
    assert (status["reason"], status["details"]) == ("NotFound", {"name": "team", "kind": "namespaces"})
    assert gateway.log.written == []
    await gateway.ok("POST", NAMESPACES, named("team"))
    await gateway.ok("POST", path, body)


async def test_it_has_its_label_and_finalizer() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", NAMESPACES, named("team"))
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert (made["spec"]["finalizers"], made["status"]["phase"]) == (["kubernetes"], "Active")
    changed = await gateway.ok("PATCH", TEAM, {"spec": {"finalizers": []}})
    assert changed["spec"]["finalizers"] == ["kubernetes"]


async def test_a_deleted_one_is_terminating_until_it_is_empty() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NAMESPACES, named("team"))
    await gateway.ok("POST", f"{TEAM}/pods", pod())
    await gateway.ok("POST", f"{NAMESPACES}/default/pods", pod())
    shown = await gateway.ok("DELETE", TEAM)
    assert (shown["kind"], shown["status"]["phase"]) == ("Namespace", "Terminating")
    assert shown["metadata"]["deletionTimestamp"]
    answer = await gateway.call("POST", f"{TEAM}/pods", pod("p2"))
    assert answer.status_code == 403
    status = answer.json()
    assert status["message"] == (
        'pods "p2" is forbidden: unable to create new content in namespace team because it is being terminated'
    )
    assert status["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace team is being terminated",
            "field": "metadata.namespace",
        }
    ]
    async with gateway.running():
        await gateway.settled()
    assert await gateway.status(TEAM) == 404
    left = [item["metadata"]["namespace"] for item in (await gateway.ok("GET", "/api/v1/pods"))["items"]]
    assert left == ["default"]


async def test_what_finalizers_hold_holds_its_namespace() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NAMESPACES, named("team"))
    await gateway.ok("POST", f"{TEAM}/configmaps", named("c", finalizers=["example.com/mine"]))
    async with gateway.running():
        await gateway.ok("DELETE", TEAM)
        await gateway.settled()
        assert (await gateway.ok("GET", f"{TEAM}/configmaps/c"))["metadata"]["deletionTimestamp"]
        assert (await gateway.ok("GET", TEAM))["status"]["phase"] == "Terminating"
        await gateway.ok("PATCH", f"{TEAM}/configmaps/c", {"metadata": {"finalizers": None}})
        await gateway.settled()
    assert await gateway.status(TEAM) == 404


async def test_its_own_finalizers_hold_it_when_it_is_empty() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NAMESPACES, named("team", finalizers=["example.com/mine"]))
    async with gateway.running():
        await gateway.ok("DELETE", TEAM)
        await gateway.settled()
        assert (await gateway.ok("GET", TEAM))["spec"]["finalizers"] == []
        await gateway.ok("PATCH", TEAM, {"metadata": {"finalizers": None}})
    assert await gateway.status(TEAM) == 404


async def test_a_gateway_that_starts_again_goes_on_emptying() -> None:
    before = Fixture()
    await before.ok("POST", NAMESPACES, named("team"))
    await before.ok("POST", f"{TEAM}/configmaps", named("c"))
    await before.ok("DELETE", TEAM)
    after = Fixture(ready=False, namespaces=())
    for write in before.declared:
        after.log.append(write.topic, write.key, write.partition_key, write.event, write.meta)
    after.begin()
    async with after.running():
        await after.settled()
    assert await after.status(TEAM) == 404
    assert "ConfigMap/team/c" not in after.store.tables.resources


async def test_an_object_that_is_being_created_keeps_its_namespace() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NAMESPACES, named("team"))
    async with gateway.running():
        # Both writes wait in the log; the pod's was checked before the namespace was marked.
        gateway.log.open.clear()
        made = gateway.start("POST", f"{TEAM}/pods", pod())
        deleted = gateway.start("DELETE", TEAM)
        gateway.log.open.set()
        assert ((await made).status_code, (await deleted).status_code) == (201, 200)
        await gateway.settled()
    assert await gateway.status(TEAM) == 404
    assert "Pod/team/p1" not in gateway.store.tables.resources


async def test_one_that_was_never_declared_is_there_while_it_has_objects() -> None:
    gateway = Fixture(namespaces=())
    left_behind(gateway, "ConfigMap/old/c")
    assert await names(gateway) == ["default", "kube-node-lease", "kube-public", "kube-system", "old"]
    await gateway.ok("POST", f"{NAMESPACES}/old/pods", pod())
    await gateway.ok("DELETE", f"{NAMESPACES}/old/pods/p1")
    await gateway.ok("DELETE", f"{NAMESPACES}/old/configmaps/c")
    assert await gateway.status(f"{NAMESPACES}/old") == 404
    assert (await gateway.call("POST", f"{NAMESPACES}/old/pods", pod())).status_code == 404


async def test_one_that_was_never_declared_can_be_declared_and_deleted() -> None:
    gateway = Fixture(ready=False, namespaces=())
    left_behind(gateway, "ConfigMap/old/c")
    left_behind(gateway, "ConfigMap/older/c")
    gateway.begin()
    assert await names(gateway) == [*BUILT_IN, "old", "older"]
    await gateway.ok("POST", NAMESPACES, named("old", labels={"team": "a"}))
    assert (await gateway.ok("GET", f"{NAMESPACES}/old"))["metadata"]["labels"]["team"] == "a"
    async with gateway.running():
        await gateway.ok("DELETE", f"{NAMESPACES}/older")
        await gateway.settled()
    assert await names(gateway) == [*BUILT_IN, "old"]


async def test_a_managed_cluster_has_one() -> None:
    gateway = Fixture(namespaces=())
    clusters = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
    leases = "/apis/coordination.k8s.io/v1/namespaces/turin/leases"
    assert (await gateway.call("POST", leases, named("agent"))).status_code == 404
    await gateway.ok("POST", clusters, named("turin"))
    await gateway.ok("POST", leases, named("agent"))
    assert await gateway.status(f"{NAMESPACES}/turin") == 200


async def test_kinds_without_namespaces_need_none() -> None:
    gateway = Fixture(namespaces=())
    await gateway.ok("POST", "/api/v1/nodes", node())


async def test_every_namespace_has_a_service_account() -> None:
    gateway = Fixture()
    path = "/api/v1/namespaces/{}/serviceaccounts"
    accounts = await gateway.ok("GET", "/api/v1/serviceaccounts")
    assert {one["metadata"]["namespace"] for one in accounts["items"]} >= {"default", "kube-system"}
    assert await gateway.status(f"{path.format('mine')}/default") == 404
    made = await gateway.ok("POST", NAMESPACES, named("mine"))
    found = await gateway.ok("GET", f"{path.format('mine')}/default")
    assert found["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert (await gateway.call("POST", path.format("mine"), {"metadata": {"name": "default"}})).status_code == 409
    refused = await gateway.call("DELETE", f"{path.format('mine')}/default")
    assert (refused.status_code, refused.json()["reason"]) == (403, "Forbidden")

    labelled = await gateway.ok("PATCH", f"{path.format('mine')}/default", {"metadata": {"labels": {"a": "b"}}})
    assert (labelled["metadata"]["labels"], labelled["metadata"]["uid"]) == ({"a": "b"}, found["metadata"]["uid"])


async def test_its_service_account_goes_with_a_namespace() -> None:
    gateway = Fixture()
    path = "/api/v1/namespaces/mine/serviceaccounts/default"
    async with gateway.running():
        await gateway.ok("POST", NAMESPACES, named("mine"))
        first = await gateway.ok("GET", path)
        await gateway.ok("PATCH", path, {"metadata": {"labels": {"a": "b"}}})
        await gateway.ok("DELETE", f"{NAMESPACES}/mine")
        await gateway.settled()
        assert await gateway.status(f"{NAMESPACES}/mine") == 404
        assert await gateway.status(path) == 404
        await gateway.ok("POST", NAMESPACES, named("mine"))
        again = await gateway.ok("GET", path)
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    assert "labels" not in again["metadata"]
