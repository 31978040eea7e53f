"""Everybody finds the clusters and sets that are his in the group of views."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.component.gateway.double import Fixture, Json
from tests.support.waiting import until

OCM = "cluster.open-cluster-management.io"
SETS = f"/apis/{OCM}/v1beta2/managedclustersets"
CLUSTERS = f"/apis/{OCM}/v1/managedclusters"
VIEWS = "/apis/clusterview.open-cluster-management.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE = "open-cluster-management:managedclusterset"
ANN = {"impersonate-user": "ann"}


@asynccontextmanager
async def fleet() -> AsyncIterator[Fixture]:
    """A fleet in which `ann` may view one of two sets."""
    async with Fixture().running() as gateway:
        await gateway.app.state.first_content.run()
        for name in ("prod", "test"):
            await gateway.ok("POST", SETS, {"metadata": {"name": name}})
        for name, set_name in (("c1", "prod"), ("c2", "test"), ("c3", "prod")):
            await gateway.ok("POST", CLUSTERS, cluster(name, set_name))
        await gateway.settled()
        await gateway.ok("POST", f"{RBAC}/clusterrolebindings", binding("prod"))
        yield gateway


def cluster(name: str, set_name: str) -> Json:
    return {"metadata": {"name": name, "labels": {f"{OCM}/clusterset": set_name}}}


def binding(set_name: str) -> Json:
    return {
        "metadata": {"name": f"ann-{set_name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{ROLE}:view:{set_name}"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }


async def names(gateway: Fixture, path: str, **headers: str) -> list[str]:
    found = await gateway.ok("GET", f"{VIEWS}/{path}", headers=headers or ANN)
    return [one["metadata"]["name"] for one in found["items"]]


async def test_lists_have_what_the_caller_may_get() -> None:
    async with fleet() as gateway:
        assert await names(gateway, "managedclusters") == ["c1", "c3"]
        assert await names(gateway, "managedclustersets") == ["prod"]
        assert await names(gateway, "managedclusters?fieldSelector=metadata.name=c3") == ["c3"]
        assert await names(gateway, "managedclusters?limit=1") == ["c1"]
        found = await gateway.ok("GET", f"{VIEWS}/managedclusters")
        assert len(found["items"]) == 3, "an administrator gets everything"
        assert found["apiVersion"] == "clusterview.open-cluster-management.io/v1"
        assert (await gateway.call("GET", CLUSTERS, headers=ANN)).status_code == 403
        assert (await gateway.call("GET", f"{CLUSTERS}/c1", headers=ANN)).status_code == 200
        assert (await gateway.call("GET", f"{CLUSTERS}/c2", headers=ANN)).status_code == 403


async def test_tables_and_metadata_alone() -> None:
    async with fleet() as gateway:
        table = {**ANN, "accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
        found = await gateway.ok("GET", f"{VIEWS}/managedclusters", headers=table)
        assert found["kind"] == "Table"
        assert [row["cells"][0] for row in found["rows"]] == ["c1", "c3"]
        assert [one["name"] for one in found["columnDefinitions"]][:3] == [
            "Name",
            "Hub Accepted",
            "Managed Cluster URLs",
        ]
        partial = {**ANN, "accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
        assert (await gateway.ok("GET", f"{VIEWS}/managedclusters/c1", headers=partial))["metadata"]["name"] == "c1"


async def test_one_cluster() -> None:
    async with fleet() as gateway:
        found = await gateway.ok("GET", f"{VIEWS}/managedclusters/c1", headers=ANN)
        assert (found["kind"], found["apiVersion"]) == ("ManagedCluster", "clusterview.open-cluster-management.io/v1")
        refused = [await gateway.call("GET", f"{VIEWS}/managedclusters/{name}", headers=ANN) for name in ("c2", "no")]
        assert {one.status_code for one in refused} == {403}
        messages = {one.json()["message"].replace('"c2"', "…").replace('"no"', "…") for one in refused}
        assert len(messages) == 1, "what is not there and what is not his look the same"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "managedclusters", 403),
        ("DELETE", "managedclusters/c1", 403),
        ("GET", "nothing", 403),
        ("GET", "managedclusters/c1/status", 403),
    ],
)
async def test_what_is_not_served(method: str, path: str, code: int) -> None:
    async with fleet() as gateway:
        assert (await gateway.call(method, f"{VIEWS}/{path}", headers=ANN)).status_code == code
        code = (await gateway.call(method, f"{VIEWS}/{path}")).status_code
        assert code == (405 if method != "GET" else 404)


async def test_somebody_without_a_role_lists_nothing() -> None:
    async with fleet() as gateway:
        answer = await gateway.call("GET", f"{VIEWS}/managedclusters", headers={"impersonate-user": "bob"})
        assert answer.status_code == 403, "the roles of sets permit the list as well"


async def test_discovery_lists_them() -> None:
    found = await Fixture().ok("GET", VIEWS)
    assert {one["name"]: one["verbs"] for one in found["resources"]} == {
        "managedclusters": ["get", "list", "watch"],
        "managedclustersets": ["get", "list", "watch"],
    }


class Watcher:
    """Reads a watch of `ann`."""

    def __init__(self, gateway: Fixture) -> None:
        self.events: list[tuple[str, str]] = []
        self._gateway = gateway

    async def run(self) -> None:
        scope = {
            "type": "http",
            "method": "GET",
            "path": f"{VIEWS}/managedclusters",
            "query_string": b"watch=true",
            "headers": [(b"host", b"localhost"), (b"impersonate-user", b"ann")],
            "path_params": {"path": "clusterview.open-cluster-management.io/v1/managedclusters"},
        }
        sent: list[bytes] = []

        async def receive() -> Json:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message.get("body", b""))
            for line in message.get("body", b"").splitlines():
                event = json.loads(line)
                shown = event["object"]
                self.events.append((event["type"], shown.get("metadata", {}).get("name") or shown.get("reason", "")))

        await self._gateway.app(scope, receive, send)


async def test_a_watch_shows_what_comes_into_a_set_and_leaves_it() -> None:
    async with fleet() as gateway:
        watcher = Watcher(gateway)
        task = asyncio.create_task(watcher.run())
        await until(lambda: len(watcher.events) == 2)
        label = {"metadata": {"labels": {f"{OCM}/clusterset": "test"}}}
        await gateway.ok("PATCH", f"{CLUSTERS}/c1", label)
        await gateway.ok("PATCH", f"{CLUSTERS}/c2", {"metadata": {"labels": {"seen": "no"}}})
        await gateway.ok("POST", CLUSTERS, cluster("c4", "prod"))
        await until(lambda: len(watcher.events) == 4)
        assert watcher.events == [("ADDED", "c1"), ("ADDED", "c3"), ("DELETED", "c1"), ("ADDED", "c4")]
        other = {**binding("test"), "subjects": [{**binding("test")["subjects"][0], "name": "bob"}]}
        await gateway.ok("POST", f"{RBAC}/clusterrolebindings", other)
        await gateway.ok("PATCH", f"{CLUSTERS}/c4", {"metadata": {"labels": {"seen": "yes"}}})
        await until(lambda: len(watcher.events) == 5)
        assert watcher.events[4:] == [("MODIFIED", "c4")], "another one's permissions change nothing"
        changed = {**binding("test"), "metadata": {"name": "more"}}
        await gateway.ok("POST", f"{RBAC}/clusterrolebindings", changed)
        async with asyncio.timeout(120):
            await task
        assert watcher.events[5:] == [("ERROR", "Expired")], "the client lists again"
