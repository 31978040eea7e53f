"""`/openapi/v2` and `/openapi/v3` of a gateway."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture

from moorage.apiserver.machinery.openapi.strict import decode_document

PROTOBUF = "application/com.github.proto-openapi.spec.v2"


@pytest.fixture
def gateway() -> Fixture:
    return Fixture()


async def listed(gateway: Fixture) -> list[dict[str, Any]]:
    """What discovery lists of every group and version that has a structure. Definitions of kinds have none."""
    groups = (await gateway.call("GET", "/apis")).json()["groups"]
    paths = [
        "/api/v1",
        *(
            f"/apis/{one['groupVersion']}"
            for group in groups
            if group["name"] != "apiextensions.k8s.io"
            for one in group["versions"]
        ),
    ]
    return [(await gateway.call("GET", path)).json() for path in paths]


async def test_everything_that_discovery_lists_is_in_the_document_of_its_version(gateway: Fixture) -> None:
    index = (await gateway.call("GET", "/openapi/v3")).json()["paths"]
    lists = await listed(gateway)
    assert len(index) == len(lists)
    for one in lists:
        version = one["groupVersion"]
        address = index[f"{'apis' if '/' in version else 'api'}/{version}"]["serverRelativeURL"]
        answer = await gateway.call("GET", address)
        assert answer.status_code == 200
        document = answer.json()
        for resource in one["resources"]:
            plural, _, subresource = resource["name"].partition("/")
            ending = f"/{plural}/{{name}}/{subresource}" if subresource else f"/{plural}"
            kinds = {
                operation["x-kubernetes-group-version-kind"]["kind"]
                for path, item in document["paths"].items()
                if path.endswith(ending)
                for method, operation in item.items()
                if method != "parameters"
            }
            assert kinds == {resource["kind"]}, resource["name"]


async def test_a_document_whose_hash_is_asked_for_is_kept(gateway: Fixture) -> None:
    address = (await gateway.call("GET", "/openapi/v3")).json()["paths"]["apis/apps/v1"]["serverRelativeURL"]
    kept = await gateway.call("GET", address)
    assert "immutable" in kept.headers["cache-control"]
    plain = await gateway.call("GET", "/openapi/v3/apis/apps/v1")
    assert plain.headers["cache-control"] == "no-cache, private"
    assert plain.content == kept.content
    old = await gateway.call("GET", "/openapi/v3/apis/apps/v1?hash=OLD")
    assert (old.status_code, old.headers["location"]) == (301, address)


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"])
async def test_what_is_known_is_not_sent_again(gateway: Fixture, path: str) -> None:
    first = await gateway.call("GET", path)
    assert first.headers["content-type"] == "application/json"
    again = await gateway.call("GET", path, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = await gateway.call("GET", path, headers={"if-none-match": '"other"'})
    assert other.status_code == 200


@pytest.mark.parametrize("asked", [f"{PROTOBUF}@v1.0+protobuf", f"{PROTOBUF}.v1.0+protobuf"])
async def test_version_2_is_sent_as_protobuf_by_both_of_its_names(gateway: Fixture, asked: str) -> None:
    answer = await gateway.call("GET", "/openapi/v2", headers={"accept": asked})
    assert answer.headers["content-type"] == f"{PROTOBUF}.v1.0+protobuf"
    assert answer.content.startswith(b"\n\x032.0")
    both = await gateway.call("GET", "/openapi/v2", headers={"accept": "application/json;q=1, */*"})
    assert both.json()["swagger"] == "2.0"


async def test_what_is_not_there_is_not_found(gateway: Fixture) -> None:
    assert await gateway.status("/openapi/v3/apis/potato/v1") == 404
    assert await gateway.status("/openapi/v3/") == 404
    assert await gateway.status("/openapi/v1") == 404
    for path in ("/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"):
        assert (await gateway.call("GET", path, headers={"accept": "text/html"})).status_code == 406


SHOWN = [
    ("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node"}),
    (
        "/api/v1/namespaces/shop/pods",
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "c:1"}]}},
    ),
    (
        "/apis/policy/v1/namespaces/shop/poddisruptionbudgets",
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": 1}},
    ),
    (
        "/apis/cluster.karmada.io/v1alpha1/clusters",
        {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "spec": {"syncMode": "Push"}},
    ),
    (
        "/apis/cluster.open-cluster-management.io/v1/managedclusters",
        {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "spec": {}},
    ),
    *(
        (
            f"/apis/{version}/namespaces/shop/{kind.lower()}s",
            {
                "apiVersion": version,
                "kind": kind,
                "spec": {
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": restart},
                    },
                    **({"selector": {"matchLabels": {"a": "b"}}} if kind != "Job" else {}),
                },
            },
        )
        for version, kind, restart in (
            ("apps/v1", "Deployment", "Always"),
            ("apps/v1", "StatefulSet", "Always"),
            ("apps/v1", "DaemonSet", "Always"),
            ("batch/v1", "Job", "Never"),
        )
    ),
]


@pytest.mark.parametrize(
    ("path", "body"), SHOWN, ids=lambda one: one.rpartition("/")[2] if isinstance(one, str) else ""
)
async def test_what_is_shown_may_be_sent_back(gateway: Fixture, path: str, body: dict[str, Any]) -> None:
    sent = await gateway.call("POST", path, {**body, "metadata": {"name": "a"}})
    assert sent.status_code == 201, sent.text
    shown = (await gateway.call("GET", f"{path}/a")).json()
    group, _, version = body["apiVersion"].rpartition("/")
    for subresource in ("", "status"):
        found = decode_document(group, version, body["kind"], shown, subresource=subresource)
        assert (found.problems, found.violations) == ((), ())
