"""What few clients use: bindings without a pod in their path, `finalize`, and applies and tables of subresources."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.component.gateway.double import Fixture, Json, deployment, pod

from moorage_schemas.condition import ConditionReported
from moorage_schemas.resource import ResourceDeclared

BINDINGS = "/api/v1/namespaces/default/bindings"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/namespaces/default/pods"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale"}


def binding(name: str | None = "p1", **target: str) -> Json:
    metadata = {"name": name} if name else {}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"name": "n1", **target}}


async def applied(gateway: Fixture, path: str, body: Json, **query: str) -> httpx.Response:
    params = {"fieldManager": "ann", **query}
    return await gateway.call("PATCH", path, body, headers={"content-type": APPLY}, params=params)


def owned(document: Json, subresource: str) -> dict[str, Any]:
    """The fields that each manager owns through a subresource."""
    entries = document["metadata"]["managedFields"]
    return {one["manager"]: one["fieldsV1"] for one in entries if one.get("subresource") == subresource}


def declared(gateway: Fixture) -> Json:
    """The object that was declared last."""
    event = gateway.declared[-1].event
    assert isinstance(event, ResourceDeclared)
    return event.object


async def test_a_binding_without_a_pod_in_its_path_binds() -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod())
    tried = await gateway.call("POST", f"{BINDINGS}?dryRun=All", binding())
    assert (tried.status_code, tried.json()["status"]) == (201, "Success")
    assert "nodeName" not in declared(gateway)["spec"]
    await gateway.call("POST", BINDINGS, binding())
    assert declared(gateway)["spec"]["nodeName"] == "n1"
    assert (await gateway.call("POST", BINDINGS, binding())).status_code == 409


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "message"),
    [
        ("POST", BINDINGS, binding(None), 400, "Name parameter required."),
        ("POST", BINDINGS, binding("p2"), 404, 'pods "p2" not found'),
        ("POST", BINDINGS, binding(kind="Nod"), 422, 'target.kind: Unsupported value: "Nod"'),
        ("GET", BINDINGS, None, 405, "the server does not allow this method"),
        ("GET", f"{BINDINGS}/p1", None, 404, "the server could not find"),
        ("POST", "/api/v1/bindings", binding(), 404, "the server could not find"),
        ("POST", "/api/v1/namespaces//bindings", binding(), 404, "the server could not find"),
    ],
)
async def test_bindings_that_are_refused(method: str, path: str, body: Any, code: int, message: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod())
    answer = await gateway.call(method, path, body)
    assert answer.status_code == code, answer.text
    assert message in answer.json()["message"]


async def test_discovery_lists_them() -> None:
    found = {one["name"]: one for one in (await Fixture().ok("GET", "/api/v1"))["resources"]}
    assert (found["bindings"]["kind"], found["bindings"]["verbs"]) == ("Binding", ["create"])
    assert found["namespaces/finalize"]["verbs"] == ["update"]


def namespace(*finalizers: str, name: str = "pool") -> Json:
    spec = {"finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": spec}


async def test_a_namespace_goes_with_the_last_finalizer_of_its_spec() -> None:
    gateway = Fixture()
    await gateway.ok("POST", f"{NAMESPACES}?fieldManager=bob", {"metadata": {"name": "fin", "labels": {"a": "b"}}})
    changed = await gateway.ok(
        "PUT", f"{NAMESPACES}/fin/finalize?fieldManager=ann", namespace("example.com/mine", name="fin")
    )
    assert changed["spec"]["finalizers"] == ["example.com/mine"]
    assert owned(changed, "finalize")["ann"]["f:spec"] == {"f:finalizers": {}}
    await gateway.ok("DELETE", f"{NAMESPACES}/fin")
    assert (await gateway.ok("GET", f"{NAMESPACES}/fin"))["status"]["phase"] == "Terminating"
    kept = await gateway.ok("PUT", f"{NAMESPACES}/fin", namespace(name="fin"))
    assert kept["spec"]["finalizers"] == ["example.com/mine"], "only the subresource changes them"
    await gateway.ok("PUT", f"{NAMESPACES}/fin/finalize?dryRun=All", namespace(name="fin"))
    assert await gateway.status(f"{NAMESPACES}/fin") == 200
    last = await gateway.ok("PUT", f"{NAMESPACES}/fin/finalize", namespace(name="fin"))
    assert last["spec"]["finalizers"] == []
    assert await gateway.status(f"{NAMESPACES}/fin") == 404


async def test_the_status_of_a_namespace_has_a_path() -> None:
    assert (await Fixture().ok("GET", f"{NAMESPACES}/pool/status"))["status"] == {"phase": "Active"}


@pytest.mark.parametrize(
    ("method", "name", "finalizers", "code"),
    [
        ("PUT", "pool", ("mine",), 422),
        ("PUT", "nowhere", (), 404),
        ("GET", "pool", (), 405),
        ("PATCH", "pool", (), 405),
    ],
)
async def test_finalizers_that_are_refused(method: str, name: str, finalizers: tuple[str, ...], code: int) -> None:
    body = namespace(*finalizers, name=name)
    answer = await Fixture().call(method, f"{NAMESPACES}/{name}/finalize", body)
    assert answer.status_code == code, answer.text


async def test_a_scale_is_applied_and_owned_as_the_replicas_of_its_object() -> None:
    gateway = Fixture()
    await gateway.ok("POST", f"{DEPLOYMENTS}?fieldManager=bob", deployment())
    refused = await applied(gateway, f"{DEPLOYMENTS}/web/scale", {**SCALE, "spec": {"replicas": 3}})
    assert refused.status_code == 409
    assert refused.json()["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "bob" using autoscaling/v1',
            "field": ".spec.replicas",
        }
    ]
    scale = await applied(gateway, f"{DEPLOYMENTS}/web/scale", {**SCALE, "spec": {"replicas": 3}}, force="true")
    assert (scale.json()["kind"], scale.json()["spec"]) == ("Scale", {"replicas": 3})
    shown = await gateway.ok("GET", f"{DEPLOYMENTS}/web")
    assert shown["spec"]["replicas"] == 3
    assert owned(shown, "scale") == {"ann": {"f:spec": {"f:replicas": {}}}}


@pytest.mark.parametrize(
    ("body", "query", "code", "message"),
    [
        ({**SCALE, "spec": {"replicas": -1}}, {"force": "true"}, 422, "must be greater than or equal to 0"),
        ({**SCALE, "spec": {"replicas": "x"}}, {"force": "true"}, 422, "cannot unmarshal string"),
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, {}, 400, "invalid object type: apps/v1, Kind=Deployment"),
        (SCALE, {"fieldManager": ""}, 422, "fieldManager: Required value"),
    ],
)
async def test_scales_that_are_not_applied(body: Json, query: dict[str, str], code: int, message: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", DEPLOYMENTS, deployment())
    answer = await applied(gateway, f"{DEPLOYMENTS}/web/scale", body, **query)
    assert answer.status_code == code, answer.text
    assert message in answer.json()["message"]
    assert len(gateway.declared) == 1


async def test_what_is_applied_to_a_status_is_reported_and_to_nothing_else() -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T12:00:00Z"}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": [condition]}}
    answer = await applied(gateway, "/api/v1/nodes/n1/status", body)
    assert answer.status_code == 200, answer.text
    assert [write.event.type for write in gateway.log.reported if isinstance(write.event, ConditionReported)] == [
        "Ready"
    ]
    missing = await applied(gateway, "/api/v1/nodes/n2/status", {**body, "metadata": {"name": "n2"}})
    assert missing.status_code == 404


async def test_an_applied_status_that_services_decide_is_answered_with_a_warning() -> None:
    gateway = Fixture()
    await gateway.ok("POST", DEPLOYMENTS, deployment())
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 7}}
    answer = await applied(gateway, f"{DEPLOYMENTS}/web/status", body)
    assert answer.status_code == 200, answer.text
    assert "replicas" not in answer.json()["status"]
    assert "what was sent was not taken over" in answer.headers["warning"]


async def test_a_scale_as_a_table() -> None:
    gateway = Fixture()
    await gateway.ok("POST", DEPLOYMENTS, deployment())
    table = await gateway.ok("GET", f"{DEPLOYMENTS}/web/scale", headers={"accept": TABLE})
    assert [one["name"] for one in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert [one["type"] for one in table["columnDefinitions"]] == ["string", "integer", "integer", "string"]
    (row,) = table["rows"]
    assert row["cells"][:3] == ["web", 2, 0]
    assert row["object"]["kind"] == "PartialObjectMetadata"
