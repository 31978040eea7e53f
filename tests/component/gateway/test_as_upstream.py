"""What clients of an API server rely on, found in conversations with a real one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.component.gateway.double import Fixture, Json, node, pod
from tests.support.tables import table

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
APPLY = {"content-type": "application/apply-patch+yaml"}


def named(name: str, **more: Any) -> Json:
    return {"metadata": {"name": name, "labels": {"a": "b"}}, **more}


async def test_a_limited_deletion_leaves_the_rest() -> None:
    gateway = Fixture()
    for name in ("a", "b", "c"):
        await gateway.ok("POST", MAPS, named(name))
    query = {"labelSelector": "a=b", "limit": "2"}
    first = await gateway.ok("DELETE", MAPS, params=query)
    assert [one["metadata"]["name"] for one in first["items"]] == ["a", "b"]
    assert [one["metadata"]["name"] for one in (await gateway.ok("GET", MAPS))["items"]] == ["c"]
    query["continue"] = first["metadata"]["continue"]
    second = await gateway.ok("DELETE", MAPS, params=query)
    assert [one["metadata"]["name"] for one in second["items"]] == ["c"]
    assert "continue" not in second["metadata"]
    assert (await gateway.ok("GET", MAPS))["items"] == []


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", {"spec": {"holderIdentity": "a"}}, 201),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", {"rules": []}, 201),
        ("/api/v1/namespaces/default/services", {"spec": {"ports": [{"port": 80}]}}, 201),
        (MAPS, {"data": {"a": "1"}}, 404),
    ],
)
async def test_some_kinds_are_created_by_replacing_what_is_not_there(path: str, body: Json, code: int) -> None:
    gateway = Fixture()
    assert (await gateway.call("PUT", f"{path}/new?dryRun=All", named("new", **body))).status_code == code
    assert await gateway.status(f"{path}/new") == 404
    assert (await gateway.call("PUT", f"{path}/new", named("new", **body))).status_code == code
    assert await gateway.status(f"{path}/new") == (200 if code == 201 else 404)


async def test_one_that_is_to_be_a_certain_one_is_not_created_by_replacing() -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    body = {"metadata": {"name": "new", "uid": "11111111-2222-3333-4444-555555555555"}}
    answer = await Fixture().call("PUT", f"{path}/new", body)
    assert (answer.status_code, "Precondition failed" in answer.json()["message"]) == (409, True)


async def test_a_writer_is_warned_of_unknown_fields_also_when_the_write_fails() -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", MAPS, {"metadata": {"name": "Bad_"}, "nosuch": 1})
    assert answer.status_code == 422
    assert answer.headers["warning"] == '299 - "unknown field \\"nosuch\\""'
    await gateway.ok("POST", MAPS, named("a"))
    answer = await gateway.call("PATCH", f"{MAPS}/a", {"nosuch": 1, "metadata": {"labels": {"a b": "c"}}})
    assert (answer.status_code, "nosuch" in answer.headers["warning"]) == (422, True)


@table(
    ("media", "content", "code", "message"),
    [
        ("json-patch", None, 200, ""),
        ("strategic-merge-patch", None, 200, ""),
        ("merge-patch", None, 400, "Invalid JSON Patch"),
        ("json-patch", [None], 422, "the server rejected our request due to an error in our request"),
        ("merge-patch", {"kind": "Secret"}, 422, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        ("merge-patch", {"kind": "Other"}, 422, 'no kind "Other" is registered for version "v1"'),
        ("merge-patch", {"metadata": {"uid": "1"}}, 422, 'metadata.uid: Invalid value: "1": field is immutable'),
        ("apply-patch", {"apiVersion": "v1", "kind": "ConfigMap"}, 200, ""),
    ],
)
async def test_odd_patches(media: str, content: Any, code: int, message: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", MAPS, named("a"))
    suffix = "yaml" if media == "apply-patch" else "json"
    headers, query = {"content-type": f"application/{media}+{suffix}"}, {"fieldManager": "ann"}
    answer = await gateway.http.patch(f"{MAPS}/a", content=json.dumps(content), headers=headers, params=query)
    assert answer.status_code == code, answer.text
    assert message in answer.json().get("message", "")


async def test_an_apply_creates_only_what_it_names_and_nothing_certain() -> None:
    gateway = Fixture()
    body = {"apiVersion": "v1", "kind": "ConfigMap"}
    for metadata, code, message in (
        ({}, 400, "name must be provided"),
        ({"name": "a", "uid": "1"}, 409, "uid mismatch"),
        ({"name": "a", "resourceVersion": "5", "creationTimestamp": None}, 201, ""),
    ):
        query = {"fieldManager": "ann"}
        answer = await gateway.call("PATCH", f"{MAPS}/a", {**body, "metadata": metadata}, headers=APPLY, params=query)
        assert (answer.status_code, message in answer.json().get("message", "")) == (code, True), answer.text


async def test_an_apply_with_a_null_time_of_creation_changes_nothing_when_it_is_repeated() -> None:
    gateway = Fixture()
    metadata = {"name": "a", "creationTimestamp": None}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}
    versions = set()
    for _ in range(3):
        answer = await gateway.call("PATCH", f"{MAPS}/a", body, headers=APPLY, params={"fieldManager": "ann"})
        versions.add(answer.json()["metadata"]["resourceVersion"])
    assert len(versions) == 1


@pytest.mark.parametrize("field", ["deletionTimestamp", "deletionGracePeriodSeconds"])
async def test_nobody_changes_the_marks_of_a_deletion(field: str) -> None:
    gateway = Fixture()
    value = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}[field]
    made = await gateway.ok("POST", MAPS, {"metadata": {"name": "a", "finalizers": ["a.b/c"], field: value}})
    assert field not in made["metadata"]
    answer = await gateway.call("PUT", f"{MAPS}/a", {"metadata": {"name": "a", field: value}})
    assert [one["field"] for one in answer.json()["details"]["causes"]] == [f"metadata.{field}"]
    await gateway.ok("DELETE", f"{MAPS}/a")
    await gateway.ok("PUT", f"{MAPS}/a", {"metadata": {"name": "a", "finalizers": ["a.b/c"], field: value}})


async def test_the_name_of_one_that_is_being_deleted_is_taken() -> None:
    gateway = Fixture()
    await gateway.ok("POST", MAPS, {"metadata": {"name": "a", "finalizers": ["a.b/c"]}})
    await gateway.ok("DELETE", f"{MAPS}/a")
    answer = await gateway.call("POST", MAPS, {"metadata": {"name": "a", "generateName": "a-"}})
    assert answer.json()["message"] == (
        'object is being deleted: configmaps "a" already exists, '
        "the server was not able to generate a unique name for the object"
    )
    assert answer.json()["details"]["retryAfterSeconds"] == 1


async def test_a_deleted_pod_is_shown_as_it_ends() -> None:
    gateway = Fixture()
    made = (await gateway.ok("POST", PODS, pod("p1")))["metadata"]
    gone = (await gateway.ok("DELETE", f"{PODS}/p1"))["metadata"]
    assert (gone["deletionTimestamp"], gone["deletionGracePeriodSeconds"]) == ("2026-01-01T12:00:00Z", 0)
    assert int(gone["resourceVersion"]) > int(made["resourceVersion"])
    assert gone["generation"] == made["generation"] + 1


async def test_a_deletion_that_waits_is_accepted_if_it_is_to_cascade() -> None:
    gateway = Fixture()
    await gateway.ok("POST", MAPS, {"metadata": {"name": "a", "finalizers": ["a.b/c"]}})
    for options, code in (({}, 200), ({"orphanDependents": False}, 202)):
        answer = await gateway.http.request("DELETE", f"{MAPS}/a", json=options)
        assert answer.status_code == code


async def test_a_kind_without_namespaces_may_be_sent_with_one() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", "/api/v1/nodes", {**node("n1"), "metadata": {"name": "n1", "namespace": "x"}})
    assert "namespace" not in made["metadata"]


@pytest.mark.parametrize(
    ("sent", "shown"),
    [("1000m", "1"), (2, "2"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("1000", "1k"), ("1e3", "1e3")],
)
async def test_quantities_are_shown_in_canonical_form_and_kept_as_they_were_sent(sent: Any, shown: str) -> None:
    gateway = Fixture()
    body: Json = pod("p1")
    body["spec"]["containers"] = [{"name": "c", "image": "i", "resources": {"requests": {"memory": sent}}}]
    for method, path in (("POST", PODS), ("PUT", f"{PODS}/p1")):
        container = (await gateway.ok(method, path, body))["spec"]["containers"][0]
        assert container["resources"]["requests"] == {"memory": shown}
    kept = gateway.store.tables.resources["Pod/default/p1"].object["spec"]["containers"][0]
    assert kept["resources"]["requests"] == {"memory": sent}
    assert gateway.store.tables.resources["Pod/default/p1"].version == 1, "the same object again is no change"


@pytest.mark.parametrize(
    ("prefix", "is_valid"),
    [("job-", True), ("a.b-", True), ("-", False), ("Bad_", False), ("a--", True)],
)
async def test_what_names_are_made_of_is_validated(prefix: str, is_valid: bool) -> None:  # noqa: FBT001 - a test case
    answer = await Fixture().call("POST", MAPS, {"metadata": {"generateName": prefix}})
    if is_valid:
        assert answer.json()["metadata"]["name"].startswith(prefix)
    else:
        assert answer.json()["details"]["causes"][0]["field"] == "metadata.generateName"


async def test_who_creates_an_object_owns_its_defaults() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", f"{SECRETS}?fieldManager=ann", named("s", stringData={"a": "b"}))
    (entry,) = made["metadata"]["managedFields"]
    assert entry["fieldsV1"].keys() == {"f:data", "f:metadata", "f:type"}
    assert gateway.store.tables.resources["Secret/default/s"].object.keys() == {
        "apiVersion",
        "kind",
        "metadata",
        "data",
    }


async def test_the_type_of_a_custom_resource_is_one_of_its_fields() -> None:
    gateway = Fixture()
    body = {"apiVersion": "v9", "kind": "Other", "metadata": {"name": "c"}}
    answer = await gateway.http.post(CLUSTERS, json=body)
    assert answer.status_code == 422
    assert [(one["field"], one["message"]) for one in answer.json()["details"]["causes"]] == [
        ("apiVersion", 'Invalid value: "v9": must be cluster.open-cluster-management.io/v1'),
        ("kind", 'Invalid value: "Other": must be ManagedCluster'),
    ]
