"""Definitions of custom resources, which follow from the kinds that are served."""

from __future__ import annotations

import json

import pytest
from tests.component.gateway.double import Fixture

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PLACEMENTS = "placements.cluster.open-cluster-management.io"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def test_kinds_that_are_custom_resources_upstream_have_definitions() -> None:
    gateway = Fixture()
    listed = await gateway.ok("GET", DEFINITIONS)
    names = [one["metadata"]["name"] for one in listed["items"]]
    assert names == sorted(names)
    assert {PLACEMENTS, "propagationpolicies.policy.karmada.io", "evictionpauses.moorage.io"} <= set(names)
    assert not {"clusters.cluster.karmada.io", "deployments.apps", "pods."} & set(names)
    assert (listed["kind"], listed["apiVersion"]) == ("CustomResourceDefinitionList", "apiextensions.k8s.io/v1")


async def test_a_definition_says_what_is_served() -> None:
    gateway = Fixture()
    for one in (await gateway.ok("GET", DEFINITIONS))["items"]:
        spec = one["spec"]
        assert await gateway.ok("GET", f"{DEFINITIONS}/{one['metadata']['name']}") == one
        assert [version["name"] for version in spec["versions"] if version["storage"]] == one["status"][
            "storedVersions"
        ]
        for version in spec["versions"]:
            found = await gateway.ok("GET", f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}")
            assert found["kind"] == spec["names"]["listKind"]


async def test_definitions_are_selected_and_shown_as_tables() -> None:
    gateway = Fixture()
    chosen = await gateway.http.get(
        f"{DEFINITIONS}?fieldSelector=metadata.name={PLACEMENTS}", headers={"accept": TABLE}
    )
    (row,) = chosen.json()["rows"]
    assert row["cells"] == [PLACEMENTS, "Namespaced", "v1beta1(storage),v1alpha1", "<unknown>"]
    assert [one["name"] for one in chosen.json()["columnDefinitions"]] == ["Name", "Scope", "Versions", "Created At"]
    assert (await gateway.ok("GET", f"{DEFINITIONS}?labelSelector=a=b"))["items"] == []


async def test_definitions_are_watched_as_other_kinds_are() -> None:
    """Operators such as those of kopf list and watch them when they begin."""
    gateway = Fixture()
    listed = await gateway.ok("GET", DEFINITIONS)
    names = [one["metadata"]["name"] for one in listed["items"]]

    async def seen(query: str) -> list[str]:
        answer = await gateway.call("GET", f"{DEFINITIONS}?watch=true&timeoutSeconds=1&{query}")
        assert answer.status_code == 200, answer.text
        events = [json.loads(line) for line in answer.text.splitlines()]
        return [f"{one['type']} {one['object']['metadata'].get('name', '')}".strip() for one in events]

    since = listed["metadata"]["resourceVersion"]
    assert await seen(f"resourceVersion={since}") == []
    assert await seen("") == [f"ADDED {name}" for name in names]
    initial = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion="
    assert await seen(initial) == [*(f"ADDED {name}" for name in names), "BOOKMARK", "BOOKMARK"]
    assert await seen(f"fieldSelector=metadata.name={PLACEMENTS}") == [f"ADDED {PLACEMENTS}"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", f"{DEFINITIONS}/nothing", 404),
        ("GET", "/apis/apiextensions.k8s.io/v1/nothing", 404),
        ("POST", DEFINITIONS, 405),
        ("DELETE", f"{DEFINITIONS}/{PLACEMENTS}", 405),
    ],
)
async def test_definitions_are_only_read(method: str, path: str, code: int) -> None:
    answer = await Fixture().call(method, path, {} if method == "POST" else None)
    assert (answer.status_code, answer.json()["code"]) == (code, code)


async def test_definitions_are_discovered() -> None:
    found = await Fixture().ok("GET", "/apis/apiextensions.k8s.io/v1")
    (one,) = found["resources"]
    assert (one["name"], one["shortNames"], one["verbs"]) == (
        "customresourcedefinitions",
        ["crd", "crds"],
        ["get", "list", "watch"],
    )
