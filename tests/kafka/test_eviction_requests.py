"""EvictionRequests on a real Kafka: withdrawn while eviction is away, and carried out by an eviction that was away."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from tests.support.brokers import Broker
from tests.support.gateways import running_gateway
from tests.support.toys import read_all, settings_for, worker_for
from tests.support.waiting import until

from moorage.runtime.settings.process_settings import Settings
from moorage.workers import eviction, governor, placement, taint_manager, timer
from moorage_schemas.topics import EVICTION_REQUESTS, EVICTIONS

pytestmark = pytest.mark.kafka

PODS = "/api/v1/namespaces/default/pods"
REQUESTS = "/apis/lifecycle.k8s.io/v1alpha1/namespaces/default/evictionrequests"
PAUSES = "/apis/moorage.io/v1alpha1/evictionpauses"
Json = dict[str, Any]


async def ok(answer: httpx.Response) -> Json:
    assert answer.status_code in {200, 201}, answer.text
    document: Json = answer.json()
    return document


async def bound_pod(client: httpx.AsyncClient, name: str) -> Json:
    """A pod that runs on the node, as the API shows it."""
    await ok(
        await client.post(
            PODS, json={"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        )
    )
    found: Json = {}

    async def bound() -> bool:
        found.update(await ok(await client.get(f"{PODS}/{name}")))
        return bool(found["spec"].get("nodeName"))

    await until(bound)
    return found


async def request(client: httpx.AsyncClient, pod: Json) -> None:
    """Somebody requests that a pod leaves."""
    target = {"pod": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}}
    spec = {"target": target, "requester": "acme.io/drain", "intent": "Eviction"}
    await ok(await client.post(REQUESTS, json={"metadata": {"name": pod["metadata"]["name"]}, "spec": spec}))


async def conditions(client: httpx.AsyncClient, name: str) -> dict[str, str]:
    """The conditions of a request that are true, with their reasons."""
    status = (await ok(await client.get(f"{REQUESTS}/{name}"))).get("status") or {}
    return {one["type"]: one["reason"] for one in status.get("conditions") or () if one["status"] == "True"}


async def outcomes(settings: Settings, pod: str) -> list[str]:
    """The states of a pod's eviction."""
    records = await read_all(settings, EVICTIONS)
    keys = [record for record in records if record.key.startswith(f"Pod/default/{pod}|".encode())]
    return [EVICTIONS.event.model_validate_json(record.value).state.value for record in keys]  # type: ignore[attr-defined]  # of this model


async def test_requests_are_withdrawn_and_carried_out_whatever_restarts(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2)
    services = (taint_manager, governor, placement, timer)
    async with running_gateway(settings) as client, AsyncExitStack() as stack:
        await ok(await client.post("/api/v1/nodes", json={"metadata": {"name": "n1"}}))
        for module in services:
            await stack.enter_async_context(worker_for(module.service(settings), settings))
        pods = {name: await bound_pod(client, name) for name in ("stays", "leaves")}
        await ok(await client.post(PAUSES, json={"metadata": {"name": "all"}, "spec": {}}))
        async with worker_for(eviction.service(settings), settings):
            for pod in pods.values():
                await request(client, pod)

            async def held() -> bool:
                found = [await outcomes(settings, name) for name in pods]
                return all("Held" in states for states in found)

            await until(held)
        # Eviction is away: one request is withdrawn, and the pause ends.
        await ok(await client.delete(f"{REQUESTS}/stays"))
        await ok(await client.delete(f"{PAUSES}/all"))
        async with worker_for(eviction.service(settings), settings):

            async def evicted() -> bool:
                return await conditions(client, "leaves") == {"TargetEvicted": "PodDeleted"}

            await until(evicted)

            async def cancelled() -> bool:
                return (await outcomes(settings, "stays"))[-1] == "Cancelled"

            await until(cancelled)
        assert "Requested" not in await outcomes(settings, "stays")
        assert (await ok(await client.get(f"{PODS}/stays")))["spec"]["nodeName"] == "n1"

        async def tidied() -> bool:
            records = await read_all(settings, EVICTION_REQUESTS)
            return all(not record.value for record in {record.key: record for record in records}.values())

        await until(tidied)
