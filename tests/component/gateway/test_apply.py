"""Server-side apply, and who owns which field after other writes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.component.gateway.double import Fixture, deployment, node

NODES = "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PAUSES = "/apis/moorage.io/v1alpha1/evictionpauses"
APPLY = "application/apply-patch+yaml"


async def apply(gateway: Fixture, path: str, body: Any, manager: str = "ann", **query: str) -> httpx.Response:
    params = {"fieldManager": manager, **query}
    return await gateway.call("PATCH", path, body, headers={"content-type": APPLY}, params=params)


def entries(document: Any) -> dict[tuple[str, str], Any]:
    return {(one["manager"], one["operation"]): one["fieldsV1"] for one in document["metadata"]["managedFields"]}


def labelled(**labels: str) -> Any:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}}


async def test_an_apply_creates_and_then_changes_and_removes_what_it_declared() -> None:
    gateway = Fixture()
    made = await apply(gateway, f"{NODES}/n1", labelled(a="1", b="1"))
    assert made.status_code == 201, made.text
    assert entries(made.json()) == {("ann", "Apply"): {"f:metadata": {"f:labels": {"f:a": {}, "f:b": {}}}}}
    changed = await apply(gateway, f"{NODES}/n1", labelled(a="2"))
    assert (changed.status_code, changed.json()["metadata"]["labels"]) == (200, {"a": "2"})
    written = len(gateway.log.written)
    same = await apply(gateway, f"{NODES}/n1", labelled(a="2"))
    assert same.json()["metadata"]["resourceVersion"] == changed.json()["metadata"]["resourceVersion"]
    assert len(gateway.log.written) == written


async def test_a_field_of_somebody_else_is_a_conflict_until_it_is_forced() -> None:
    gateway = Fixture()
    await apply(gateway, f"{NODES}/n1", labelled(a="1"))
    refused = await apply(gateway, f"{NODES}/n1", labelled(a="2"), "bob")
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    assert refused.json()["message"] == 'Apply failed with 1 conflict: conflict with "ann": .metadata.labels.a'
    (cause,) = refused.json()["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".metadata.labels.a")
    forced = await apply(gateway, f"{NODES}/n1", labelled(a="2"), "bob", force="true")
    assert forced.json()["metadata"]["labels"] == {"a": "2"}
    assert set(entries(forced.json())) == {("bob", "Apply")}


@pytest.mark.parametrize("none", [[], [{}]])
async def test_managers_are_removed_by_a_list_of_none(none: Any) -> None:
    gateway = Fixture()
    await gateway.ok("POST", f"{NODES}?fieldManager=ann", labelled(a="1"))
    assert entries(await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"managedFields": None}}))
    changed = await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"managedFields": none, "labels": {"a": "2"}}})
    assert (changed["metadata"]["labels"], "managedFields" in changed["metadata"]) == ({"a": "2"}, False)
    applied = await apply(gateway, f"{NODES}/n1", labelled(a="2", b="1"), "bob")
    assert {manager for manager, _ in entries(applied.json())} == {"before-first-apply", "bob"}
    made = labelled(c="1") | {"metadata": {"name": "n2", "managedFields": none, "labels": {"c": "1"}}}
    assert entries(await gateway.ok("POST", f"{NODES}?fieldManager=ann", made)), "a new object begins with its creator"


async def test_other_writes_own_what_they_set() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", f"{DEPLOYMENTS}?fieldManager=ann", deployment())
    assert "f:replicas" in entries(made)["ann", "Update"]["f:spec"]
    scaled = await gateway.ok("PATCH", f"{DEPLOYMENTS}/web/scale?fieldManager=bob", {"spec": {"replicas": 5}})
    assert scaled["spec"]["replicas"] == 5
    shown = await gateway.ok("GET", f"{DEPLOYMENTS}/web")
    assert "f:replicas" not in entries(shown)["ann", "Update"]["f:spec"]
    assert entries(shown)["bob", "Update"] == {"f:spec": {"f:replicas": {}}}
    again = await gateway.ok("PUT", f"{DEPLOYMENTS}/web?fieldManager=carol", shown)
    assert again == shown


async def test_a_dry_run_of_an_apply_creates_nothing() -> None:
    gateway = Fixture()
    answer = await apply(gateway, f"{NODES}/n1", labelled(a="1"), dryRun="All")
    assert answer.status_code == 201, answer.text
    assert (await gateway.call("GET", f"{NODES}/n1")).status_code == 404


async def test_moorages_own_kinds_are_applied_too() -> None:
    gateway = Fixture()
    body = {
        "apiVersion": "moorage.io/v1alpha1",
        "kind": "EvictionPause",
        "metadata": {"name": "all"},
        "spec": {"reason": "works"},
    }
    made = await apply(gateway, f"{PAUSES}/all", body)
    assert made.status_code == 201, made.text
    changed = await apply(gateway, f"{PAUSES}/all", {**body, "spec": {"reason": "more"}})
    assert changed.json()["spec"]["reason"] == "more"


@pytest.mark.parametrize(
    ("body", "query", "code", "message"),
    [
        (labelled(), {"fieldManager": ""}, 422, "fieldManager: Required value: is required for apply patch"),
        ([1], {}, 400, "error decoding patch"),
        ({**labelled(), "kind": "Pod"}, {}, 400, "Kind=Pod"),
        ({**labelled(), "colour": "red"}, {}, 400, "colour: field not declared in schema"),
        ({**labelled(), "metadata": {"name": "n2"}}, {}, 400, "does not match the name on the URL"),
        ({**labelled(), "metadata": {"managedFields": [{}]}}, {}, 400, "metadata.managedFields must be nil"),
        (labelled(**{"a b": "c"}), {}, 422, "metadata.labels"),
    ],
)
async def test_applies_that_are_refused(body: Any, query: dict[str, str], code: int, message: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    params = {"fieldManager": "ann", **query}
    answer = await gateway.call("PATCH", f"{NODES}/n1", body, headers={"content-type": APPLY}, params=params)
    assert answer.status_code == code, answer.text
    assert message in answer.json()["message"]
    assert len(gateway.declared) == 1


async def test_what_the_server_adds_to_taints_is_nobodys() -> None:
    gateway = Fixture()
    taints = [{"key": "a", "value": "1", "effect": "NoSchedule"}]
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"taints": taints}}
    made = (await apply(gateway, f"{NODES}/n1", body)).json()
    uid, generation = made["metadata"]["uid"], made["metadata"]["generation"]
    shown = [("a", "1", "NoSchedule"), ("node.kubernetes.io/not-ready", "", "NoSchedule")]
    gateway.tainted("n1", shown, uid=uid, generation=generation, applied=1)
    before = await gateway.ok("GET", f"{NODES}/n1")
    assert [taint["key"] for taint in before["spec"]["taints"]] == ["a", "node.kubernetes.io/not-ready"]
    assert "timeAdded" in before["spec"]["taints"][0]
    again = await apply(gateway, f"{NODES}/n1", body)
    assert again.json() == before, "it changes nothing"
    another = await apply(gateway, f"{NODES}/n1", body, "bob")
    assert another.status_code == 200, "the same taints are no conflict"
    assert another.json()["spec"] == before["spec"]
    body["spec"] = {"taints": [{**taints[0], "value": "2"}]}
    changed = await apply(gateway, f"{NODES}/n1", body, "bob")
    assert changed.json()["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "ann"', "field": ".spec.taints"}
    ]
