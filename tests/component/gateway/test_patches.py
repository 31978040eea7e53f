"""The forms of patches, and misspelt fields by every way in."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.component.gateway.double import Fixture, deployment, node, pod
from tests.support.tables import table

from moorage.apiserver.machinery.protobuf.messages import decode_object, encode_object

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PAUSES = "/apis/moorage.io/v1alpha1/evictionpauses"
CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PROTOBUF = "application/vnd.kubernetes.protobuf"

MISSPELT = {"key": "gpu", "operator": "Exists", "tolerationSecond": 5}
UNKNOWN = 'unknown field \\"spec.tolerations[0].tolerationSecond\\"'


async def patch(gateway: Fixture, path: str, media: str, body: Any) -> Any:
    return await gateway.call("PATCH", path, body, headers={"content-type": media})


async def test_a_strategic_merge_patch_taints_a_node_as_kubectl_does() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node(taints=[{"key": "a", "effect": "NoSchedule"}]))
    taints = [{"key": "b", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}]
    answer = await patch(gateway, f"{NODES}/n1", STRATEGIC, {"spec": {"taints": taints, "unschedulable": True}})
    assert answer.status_code == 200, answer.text
    assert {one["key"] for one in answer.json()["spec"]["taints"]} >= {"a", "b"}
    assert answer.json()["spec"]["unschedulable"] is True


@table(
    ("media", "body", "code", "message"),
    [
        (STRATEGIC, [], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (STRATEGIC, "x", 400, "json: cannot unmarshal string into Go value of type map[string]interface {}"),
        (MERGE, 7, 400, "error decoding patch: json: cannot unmarshal number into Go value of type map[string]inter"),
        (MERGE, {"metadata": {"uid": "x"}}, 422, 'metadata.uid: Invalid value: "x": field is immutable'),
        (STRATEGIC, {"spec": {"replicas": "two"}}, 422, '"map[spec:map[replicas:two]]": unrecognized type: int32'),
        (STRATEGIC, {"metadata": {"labels": {"k": 1}}}, 422, "cannot convert int64 to string"),
        (STRATEGIC, {"spec": {"template": {"spec": "x"}}}, 422, "cannot restore struct from: string"),
        (STRATEGIC, {"spec": {"template": {"spec": {"tolerations": "x"}}}}, 422, "cannot restore slice from string"),
        (STRATEGIC, {"metadata": {"labels": ["x"]}}, 422, "cannot restore map from slice"),
    ],
)
async def test_patches_that_fit_nothing_are_refused_in_kubernetes_words(
    media: str, body: Any, code: int, message: str
) -> None:
    gateway = Fixture()
    await gateway.ok("POST", DEPLOYMENTS, deployment())
    answer = await patch(gateway, f"{DEPLOYMENTS}/web", media, body)
    assert (answer.status_code, answer.json()["code"]) == (code, code)
    assert message in answer.json()["message"]


async def test_a_strategic_merge_patch_cannot_change_the_type_of_an_object() -> None:
    gateway = Fixture()
    await gateway.ok("POST", DEPLOYMENTS, deployment())
    changed = await patch(gateway, f"{DEPLOYMENTS}/web", STRATEGIC, {"kind": "Pod", "apiVersion": "v1"})
    assert changed.status_code == 200, changed.text
    assert (changed.json()["kind"], changed.json()["apiVersion"]) == ("Deployment", "apps/v1")


async def test_a_strategic_merge_patch_finds_a_container_by_its_name() -> None:
    gateway = Fixture()
    await gateway.ok("POST", DEPLOYMENTS, deployment())
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}}
    changed = (await patch(gateway, f"{DEPLOYMENTS}/web", STRATEGIC, image)).json()
    (container,) = changed["spec"]["template"]["spec"]["containers"]
    assert (container["name"], container["image"]) == ("main", "app:2")
    assert changed["spec"]["replicas"] == 2


async def test_a_json_patch_does_all_or_nothing() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    add = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    answer = await patch(gateway, f"{NODES}/n1", JSON_PATCH, [add])
    assert answer.json()["metadata"]["labels"] == {"a": "b"}
    test = {"op": "test", "path": "/metadata/labels/a", "value": "c"}
    failed = await patch(gateway, f"{NODES}/n1", JSON_PATCH, [{"op": "remove", "path": "/metadata/labels"}, test])
    assert (failed.status_code, failed.json()["reason"]) == (422, "Invalid")
    assert (await gateway.ok("GET", f"{NODES}/n1"))["metadata"]["labels"] == {"a": "b"}


@table(
    ("path", "media", "body", "code", "message"),
    [
        (f"{NODES}/n1", "application/json", {}, 415, "415: Unsupported Media Type"),
        (f"{PAUSES}/all", STRATEGIC, {}, 415, f"accepted media types include: {JSON_PATCH}, {MERGE}"),
        (f"{NODES}/n1", MERGE, [1], 400, "cannot unmarshal array"),
        (f"{NODES}/n1", JSON_PATCH, {}, 400, "error decoding patch"),
        (f"{NODES}/n1", STRATEGIC, {"spec": {"$patch": "explode"}}, 400, "explode"),
        (f"{NODES}/n1", MERGE, {"spec": 7}, 422, "cannot unmarshal number"),
        (f"{NODES}/n1", MERGE, {"metadata": {"name": "n2"}}, 400, "does not match the name on the URL"),
        (f"{NODES}/n1", MERGE, {"metadata": {"resourceVersion": "77"}}, 409, "has been modified"),
        (f"{NODES}/nobody", STRATEGIC, {}, 404, "not found"),
        (f"{NODES}/n1?fieldManager=x&force=true", MERGE, {}, 422, "may not be specified for non-apply patch"),
        (f"{NODES}/n1?fieldManager={'x' * 129}", MERGE, {}, 422, "may not be more than 128 bytes"),
        (f"{NODES}/n1?fieldManager=a%00b", MERGE, {}, 422, "invalid character U+0000 (at position 1)"),
        (f"{NODES}/n1?fieldValidation=Bogus", MERGE, {}, 422, 'Unsupported value: "Bogus"'),
    ],
)
async def test_patches_that_are_refused(path: str, media: str, body: Any, code: int, message: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    await gateway.ok("POST", PAUSES, {"metadata": {"name": "all"}})
    written = len(gateway.log.written)
    answer = await patch(gateway, path, media, body)
    assert answer.status_code == code, answer.text
    assert message in answer.json()["message"]
    assert len(gateway.log.written) == written


async def test_broken_patches_are_refused() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    for media in (MERGE, STRATEGIC, JSON_PATCH):
        for body in (b"{", b"", b"\xff", b"NaN", b"[" * 500):
            answer = await gateway.http.patch(f"{NODES}/n1", content=body, headers={"content-type": media})
            assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest"), (media, body)


@pytest.mark.parametrize(
    ("method", "path", "media", "body"),
    [
        ("POST", PODS, "application/json", pod("p2", tolerations=[MISSPELT])),
        ("PUT", f"{PODS}/p1", "application/json", pod(tolerations=[MISSPELT])),
        ("PATCH", f"{PODS}/p1", MERGE, {"spec": {"tolerations": [MISSPELT]}}),
        ("PATCH", f"{PODS}/p1", STRATEGIC, {"spec": {"tolerations": [MISSPELT]}}),
        ("PATCH", f"{PODS}/p1", JSON_PATCH, [{"op": "add", "path": "/spec/tolerations", "value": [MISSPELT]}]),
    ],
)
async def test_a_misspelt_field_is_told_of_or_refused_by_every_way_in(
    method: str, path: str, media: str, body: Any
) -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod())
    written = len(gateway.log.written)
    headers = {"content-type": media}
    strict = await gateway.call(method, f"{path}?fieldValidation=Strict", body, headers=headers)
    assert strict.status_code in {400, 422}, strict.text
    assert "strict decoding error: unknown field" in strict.json()["message"]
    assert len(gateway.log.written) == written
    warned = await gateway.call(method, f"{path}?dryRun=All", body, headers=headers)
    assert warned.status_code in {200, 201}, warned.text
    assert UNKNOWN in warned.headers["warning"]
    assert '"tolerationSecond":' not in orjson.dumps(warned.json()["spec"]).decode()
    ignored = await gateway.call(method, f"{path}?fieldValidation=Ignore&dryRun=All", body, headers=headers)
    assert UNKNOWN not in ignored.headers.get("warning", "")


async def test_a_repeated_field_is_refused() -> None:
    gateway = Fixture()
    body = b'{"metadata": {"name": "n1"}, "spec": {"unschedulable": true, "unschedulable": false}}'
    query, headers = "fieldValidation=Strict", {"content-type": "application/json"}
    answer = await gateway.http.post(f"{NODES}?{query}", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["message"] == (
        'Node in version "v1" cannot be handled as a Node: strict decoding error: duplicate field "spec.unschedulable"'
    )


async def test_protobuf_is_taken_and_sent() -> None:
    gateway = Fixture()
    headers = {"content-type": PROTOBUF, "accept": PROTOBUF}
    made = await gateway.http.post(PODS, content=encode_object(pod()), headers=headers)
    assert (made.status_code, made.headers["content-type"]) == (201, PROTOBUF)
    assert decode_object(made.content)["spec"]["containers"][0]["image"] == "app:1"
    listed = await gateway.http.get(PODS, headers=headers)
    assert [one["metadata"]["name"] for one in decode_object(listed.content)["items"]] == ["p1"]
    missing = await gateway.http.get(f"{PODS}/p2", headers=headers)
    assert decode_object(missing.content)["reason"] == "NotFound"
    options = encode_object({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]})
    gone = await gateway.http.request("DELETE", f"{PODS}/p1", content=options, headers=headers)
    assert gone.status_code == 200, gone.text
    assert (await gateway.call("GET", f"{PODS}/p1")).status_code == 200


async def test_events_of_a_watch_are_framed_in_protobuf() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    answer = await gateway.http.get(f"{NODES}?watch=1&timeoutSeconds=1", headers={"accept": PROTOBUF})
    assert answer.headers["content-type"] == f"{PROTOBUF};stream=watch"
    length = int.from_bytes(answer.content[:4], "big")
    assert len(answer.content) == 4 + length
    assert answer.content[4:].startswith(b"\n\x05ADDED")
    assert b"k8s\x00" in answer.content


@pytest.mark.parametrize("content", [b"", b"k8s", b"k8s\x00\xff\xff", b"{}", b"k8s\x00" + b"\x0a" * 5000])
async def test_broken_protobuf_is_refused(content: bytes) -> None:
    gateway = Fixture()
    for method, path in (("POST", PODS), ("PUT", f"{NODES}/n1")):
        answer = await gateway.http.request(method, path, content=content, headers={"content-type": PROTOBUF})
        assert (answer.status_code, answer.json()["reason"]) in {(400, "BadRequest"), (422, "Invalid")}, answer.text


async def test_custom_resources_have_no_protobuf() -> None:
    gateway = Fixture()
    answer = await gateway.http.get(CLUSTERS, headers={"accept": PROTOBUF})
    assert answer.status_code == 406
    body = await gateway.http.post(CLUSTERS, content=b"k8s\x00", headers={"content-type": PROTOBUF})
    assert (body.status_code, body.json()["reason"]) == (415, "UnsupportedMediaType")


async def test_a_status_that_the_services_decide_can_be_read_and_is_not_taken_over() -> None:
    gateway = Fixture()
    await gateway.ok("POST", DEPLOYMENTS, deployment())
    shown = await gateway.ok("GET", f"{DEPLOYMENTS}/web/status")
    assert shown == await gateway.ok("GET", f"{DEPLOYMENTS}/web")
    written = len(gateway.log.written)
    sent = {**shown, "status": {"readyReplicas": 9}}
    for method, body in (("PUT", sent), ("PATCH", {"status": {"readyReplicas": 9}})):
        answer = await gateway.call(method, f"{DEPLOYMENTS}/web/status", body)
        assert (answer.status_code, answer.json()) == (200, shown)
        assert "Moorage's services decide it" in answer.headers["warning"]
    stale = {**sent, "metadata": {**shown["metadata"], "resourceVersion": "77"}}
    assert (await gateway.call("PUT", f"{DEPLOYMENTS}/web/status", stale)).status_code == 409
    assert len(gateway.log.written) == written
