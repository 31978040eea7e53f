"""`dryRun=All`: everything is checked, nothing is written, and the answer is the object as it would be."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, deployment, node, pod

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


async def test_a_new_object_is_shown_as_it_would_be_and_is_not_there() -> None:
    gateway = Fixture()
    would_be = await gateway.ok("POST", f"{NODES}?dryRun=All", node(taints=[TAINT]))
    assert would_be["metadata"]["uid"]
    assert would_be["spec"]["taints"][0]["key"] == "gpu"
    assert "resourceVersion" not in would_be["metadata"]
    assert (await gateway.call("GET", f"{NODES}/n1")).status_code == 404
    assert gateway.log.written == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", f"{NODES}/n1", node() | {"metadata": {"name": "n1", "labels": {"zone": "a"}}}),
        ("PATCH", f"{NODES}/n1", {"metadata": {"labels": {"zone": "a"}}}),
        ("PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 7}}),
        ("DELETE", f"{NODES}/n1", None),
        ("DELETE", f"{NODES}/n1", {"dryRun": ["All"]}),
        ("DELETE", "/api/v1/namespaces/shop", None),
    ],
)
async def test_a_change_or_deletion_leaves_everything_as_it_was(method: str, path: str, body: Any) -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    await gateway.ok("POST", DEPLOYMENTS, deployment())
    await gateway.ok("POST", "/api/v1/namespaces/shop/pods", pod())
    written, before = len(gateway.log.written), await gateway.ok("GET", NODES)
    query = "" if body and "dryRun" in body else "?dryRun=All"
    await gateway.ok(method, path + query, body)
    assert len(gateway.log.written) == written
    assert await gateway.ok("GET", NODES) == before


async def test_a_change_keeps_the_present_resource_version() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", NODES, node())
    would_be = await gateway.ok("PATCH", f"{NODES}/n1?dryRun=All", {"spec": {"unschedulable": True}})
    assert would_be["spec"]["unschedulable"] is True
    assert would_be["metadata"]["generation"] == made["metadata"]["generation"] + 1
    assert would_be["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_rules_and_conflicts_are_found_without_writing() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    assert (await gateway.call("POST", f"{NODES}?dryRun=All", node())).status_code == 409
    assert (await gateway.call("POST", f"{NODES}?dryRun=All", node("UPPER"))).status_code == 422
    stale = node() | {"metadata": {"name": "n1", "resourceVersion": "77"}}
    assert (await gateway.call("PUT", f"{NODES}/n1?dryRun=All", stale)).status_code == 409
    assert (await gateway.call("DELETE", f"{NODES}/n2?dryRun=All")).status_code == 404
    assert len(gateway.declared) == 1


async def test_a_change_keeps_the_present_status_and_what_the_services_have_noted() -> None:
    gateway = Fixture()
    await gateway.ok("POST", DEPLOYMENTS, deployment())
    before = await gateway.ok("GET", f"{DEPLOYMENTS}/web")
    would_be = await gateway.ok("PATCH", f"{DEPLOYMENTS}/web?dryRun=All", {"spec": {"replicas": 7}})
    assert would_be["spec"]["replicas"] == 7
    assert would_be["status"] == before["status"]
    assert would_be["metadata"].get("annotations") == before["metadata"].get("annotations")
