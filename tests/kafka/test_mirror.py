"""Mirrored clusters on a real broker: two gateways show the same, and after a restart what was there before."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import yaml
from tests.support.brokers import Broker
from tests.support.commands import moorage
from tests.support.gateways import running_gateway
from tests.support.waiting import until

from moorage.runtime.settings.process_settings import Settings

pytestmark = pytest.mark.kafka

PODS = "/api/v1/namespaces/shop/pods"
EAST = "/clusters/east"
MERGE = {"content-type": "application/merge-patch+json"}
MINE = {"key": "mine", "effect": "NoSchedule"}
GPU = {"key": "gpu", "effect": "NoSchedule", "timeAdded": "2026-01-01T10:00:00Z"}
COUNT = 400
Json = dict[str, Any]
WRITTEN = {"Written", "Unchanged"}


def settings_of(broker: Broker, topic_prefix: str) -> Settings:
    return Settings(bootstrap_servers=broker.bootstrap, topic_prefix=topic_prefix, partitions=3, gateway_port=0)


def metadata(name: str, **more: Any) -> Json:
    return {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T10:00:00Z",
        **more,
    }


def node(name: str, *taints: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata(name), "spec": {"taints": list(taints)}}


def pod(number: int) -> Json:
    notes = {"notes": "x" * 3000}  # so that a batch is larger than the body of any other request may be
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(f"p{number}", namespace="shop", annotations=notes),
        "spec": {"nodeName": "n1", "containers": [container]},
        "status": {"phase": "Running"},
    }


async def ok(answer: httpx.Response) -> Json:
    assert answer.status_code == 200, answer.text
    document: Json = answer.json()
    return document


async def mirrored(
    client: httpx.AsyncClient, cluster: str, *objects: Json, deleted: list[Json] | None = None, prefer: str = ""
) -> set[str]:
    body = {"source": f"bridge/{cluster}", "cluster": cluster, "objects": objects, "deleted": deleted or []}
    answer = await client.post("/v1/mirror", json=body, headers={"prefer": prefer} if prefer else {})
    return {one["outcome"] for one in (await ok(answer))["results"]}


async def shown(client: httpx.AsyncClient, place: str) -> Json:
    pods, nodes = await ok(await client.get(f"{place}{PODS}")), await ok(await client.get(f"{place}/api/v1/nodes"))
    return {one["metadata"]["name"]: one for one in (*pods["items"], *nodes["items"])}


async def test_a_cluster_is_mirrored_through_any_gateway_and_is_there_after_a_restart(
    broker: Broker, topic_prefix: str
) -> None:
    settings = settings_of(broker, topic_prefix)
    pods = [pod(number) for number in range(COUNT)]
    async with running_gateway(settings) as first, running_gateway(settings) as second:
        # The second one forwards, also a body that is larger than those of other requests.
        assert await mirrored(second, "east", node("n1", GPU), *pods) == {"Written"}
        assert await mirrored(first, "", node("n1")) == {"Written"}
        assert await mirrored(second, "east", *pods) == {"Unchanged"}
        path = f"{EAST}/api/v1/nodes/n1"
        changed = await ok(await second.patch(path, json={"spec": {"taints": [GPU, MINE]}}, headers=MERGE))
        assert [one["key"] for one in changed["spec"]["taints"]] == ["gpu", "mine"]
        gone = [{"kind": "Pod", "namespace": "shop", "name": "p0", "uid": "uid-p0"}]
        assert await mirrored(second, "east", deleted=gone) == {"Written"}
        before = await shown(second, EAST)
        assert await shown(first, EAST) == before
        assert set(before) == {"n1", *(f"p{number}" for number in range(1, COUNT))}
        assert set(await shown(first, "")) == {"n1"}
        found = (await ok(await first.get("/v1/clusters")))["items"]
        assert [(one["name"], one["targets"], one["workloads"]) for one in found] == [
            ("home", 1, 0),
            ("east", 1, COUNT - 1),
        ]
        assert await ok(await second.get("/v1/clusters")) == {"items": found}, "the one that leads answers"
        refused = await first.delete(f"{EAST}{PODS}/p1")
        assert refused.status_code == 403
    async with running_gateway(settings) as client:
        assert await shown(client, EAST) == before, "with the same versions"
        assert await mirrored(client, "east", *pods[1:]) == {"Unchanged"}
        server = str(client.base_url).rstrip("/")
        there = ("--server", server, "--fleet-cluster", "east")
        assert (await moorage(*there, "get", "nodes", "-o", "name")).out == "node/n1\n"
        written = yaml.safe_load((await moorage(*there, "kubeconfig")).out)
        assert written["clusters"][0]["cluster"]["server"] == f"{server}{EAST}"
        assert (await moorage(*there, "taint", "node", "n1", "mine-")).out == "node/n1 untainted\n"
        taints = (await ok(await client.get(path)))["spec"]["taints"]
        assert [one["key"] for one in taints] == ["gpu"]


async def test_objects_that_nobody_waits_for_are_shown_by_all_gateways_when_there_is_time(
    broker: Broker, topic_prefix: str
) -> None:
    settings = settings_of(broker, topic_prefix)
    pods = [pod(number) for number in range(COUNT)]
    async with running_gateway(settings) as first, running_gateway(settings) as second:
        for number in range(0, COUNT, 50):
            batch = pods[number : number + 50]
            assert await mirrored(second, "", node("n1"), *batch, prefer="respond-async, wait=10") <= WRITTEN
        changed = {**pods[0], "metadata": {**pods[0]["metadata"], "resourceVersion": "8", "labels": {"tier": "gold"}}}
        assert await mirrored(first, "", changed, prefer="Respond-Async") == {"Written"}
        for client in (first, second):

            async def all_shown(client: httpx.AsyncClient = client) -> bool:
                found = await shown(client, "")
                gold = found.get("p0", {}).get("metadata", {}).get("labels") == {"tier": "gold"}
                return gold and set(found) == {"n1", *(f"p{number}" for number in range(COUNT))}

            await until(all_shown)
        # One that waits for what it writes sees it at once, although it comes right after the others.
        gone = [{"kind": "Pod", "namespace": "shop", "name": f"p{number}"} for number in range(50)]
        assert await mirrored(first, "", deleted=gone) == {"Written"}
        assert len(await shown(first, "")) == 1 + COUNT - 50
