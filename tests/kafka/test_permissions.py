"""Permissions on a real broker: at every gateway, at once where they were written, and after a restart."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.support.brokers import Broker
from tests.support.gateways import running_gateway
from tests.support.waiting import until

from moorage.runtime.settings.process_settings import Settings

pytestmark = pytest.mark.kafka

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NODES = "/api/v1/nodes"
ANN = {"impersonate-user": "ann"}
Json = dict[str, Any]


def settings_of(broker: Broker, topic_prefix: str) -> Settings:
    return Settings(bootstrap_servers=broker.bootstrap, topic_prefix=topic_prefix, partitions=3, gateway_port=0)


async def created(gateway: httpx.AsyncClient, path: str, body: Json) -> None:
    answer = await gateway.post(f"{RBAC}/{path}", json=body)
    assert answer.status_code == 201, answer.text


async def permit(gateway: httpx.AsyncClient) -> None:
    """Let ann list nodes."""
    rule = {"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"]}
    await created(gateway, "clusterroles", {"metadata": {"name": "nodes"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "nodes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nodes"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
    await created(gateway, "clusterrolebindings", binding)


async def code(gateway: httpx.AsyncClient, method: str = "GET", body: Json | None = None) -> int:
    return (await gateway.request(method, NODES, json=body, headers=ANN)).status_code


async def test_they_count_at_every_gateway(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings) as first, running_gateway(settings) as second:
        assert [await code(one) for one in (first, second)] == [403, 403]
        await permit(second)
        assert await code(second) == 200, "where it was answered, it counts at once"

        async def counts_elsewhere() -> bool:
            return await code(first) == 200

        await until(counts_elsewhere)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        assert [await code(one, "POST", node) for one in (first, second)] == [403, 403]
        assert (await first.delete(f"{RBAC}/clusterrolebindings/nodes")).status_code == 200
        assert await code(first) == 403

        async def is_refused_elsewhere() -> bool:
            return await code(second) == 403

        await until(is_refused_elsewhere)


async def test_they_are_there_after_a_restart_and_not_those_that_were_taken_back(
    broker: Broker, topic_prefix: str
) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings) as gateway:
        await permit(gateway)
        listed = (await gateway.get(f"{RBAC}/clusterroles")).json()
    async with running_gateway(settings) as gateway:
        assert await code(gateway) == 200
        again = (await gateway.get(f"{RBAC}/clusterroles")).json()
        versions = [
            {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in found["items"]}
            for found in (listed, again)
        ]
        assert versions[0].keys() == versions[1].keys()
        unchanged = {name for name, version in versions[0].items() if versions[1][name] == version}
        aggregated = {"admin", "edit", "view", "moorage:viewer", "moorage:operator"}
        assert versions[0].keys() - unchanged <= aggregated, "a restart writes no default role again"
        assert (await gateway.delete(f"{RBAC}/clusterrolebindings/nodes")).status_code == 200
    async with running_gateway(settings) as gateway:
        assert await code(gateway) == 403
