"""OpenAPI documents, made of discovery and the structure of the kinds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest

from moorage.apiserver.machinery.openapi import gnostic
from moorage.apiserver.machinery.openapi.documents import Documents
from moorage.apiserver.machinery.protobuf import wire

WRITING = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
LISTS: list[dict[str, Any]] = [
    {
        "groupVersion": "v1",
        "resources": [
            {"name": "nodes", "kind": "Node", "namespaced": False, "verbs": WRITING},
            {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": WRITING},
            {"name": "pods/status", "kind": "Pod", "namespaced": True, "verbs": ["get", "patch", "update"]},
            {
                "name": "pods/eviction",
                "kind": "Eviction",
                "group": "policy",
                "version": "v1",
                "namespaced": True,
                "verbs": ["create"],
            },
        ],
    },
    {
        "groupVersion": "apps/v1",
        "resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": WRITING},
            {
                "name": "deployments/scale",
                "kind": "Scale",
                "group": "autoscaling",
                "version": "v1",
                "namespaced": True,
                "verbs": ["get", "patch", "update"],
            },
        ],
    },
    {
        "groupVersion": "moorage.io/v1alpha1",
        "resources": [
            {"name": "evictionbudgets", "kind": "EvictionBudget", "namespaced": False, "verbs": WRITING},
            {"name": "zones", "kind": "Zone", "namespaced": False, "verbs": ["get", "list", "watch"]},
        ],
    },
]
DOCUMENTS = Documents(LISTS, "v1")
CORE = json.loads(DOCUMENTS.of("api/v1").body)  # type: ignore[union-attr]  # it is served
SCHEMAS = CORE["components"]["schemas"]
SWAGGER = json.loads(DOCUMENTS.version_2.body)


def references(value: Any) -> Iterator[str]:
    """Every reference in a document."""
    if isinstance(value, Mapping):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every operation with its path and its method."""
    for path, item in document["paths"].items():
        for method, one in item.items():
            if method != "parameters":
                yield path, method, one


def test_the_index_names_every_group_and_version() -> None:
    paths = json.loads(DOCUMENTS.index.body)["paths"]
    assert list(paths) == ["api/v1", "apis/apps/v1", "apis/moorage.io/v1alpha1"]
    for path, one in paths.items():
        found = DOCUMENTS.of(path)
        assert found is not None
        assert one["serverRelativeURL"] == f"/openapi/v3/{path}?hash={found.hash}"
    assert DOCUMENTS.of("apis/v1") is None
    assert DOCUMENTS.of("api/apps/v1") is None
    assert DOCUMENTS.of("nonsense") is None


def test_equal_documents_have_equal_hashes() -> None:
    assert Documents(LISTS, "v1").index.hash == DOCUMENTS.index.hash
    assert Documents(LISTS[:1], "v1").index.hash != DOCUMENTS.index.hash


@pytest.mark.parametrize("one", ["api/v1", "apis/apps/v1", "apis/moorage.io/v1alpha1"])
def test_references_lead_somewhere_and_operations_have_names_of_their_own(one: str) -> None:
    found = DOCUMENTS.of(one)
    assert found is not None
    document = json.loads(found.body)
    defined = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) <= defined
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names)) > 0


def test_version_2_has_everything() -> None:
    assert set(references(SWAGGER)) <= {f"#/definitions/{name}" for name in SWAGGER["definitions"]}
    assert set(SWAGGER["paths"]) == {path for one in LISTS for path in _paths_of(one["groupVersion"])}


def _paths_of(group_version: str) -> list[str]:
    found = DOCUMENTS.of(f"{'apis' if '/' in group_version else 'api'}/{group_version}")
    return list(json.loads(found.body)["paths"]) if found is not None else []


def test_paths_are_those_of_the_verbs() -> None:
    assert {(path, method) for path, method, _ in operations(CORE) if "pods" in path} == {
        ("/api/v1/pods", "get"),
        *(("/api/v1/namespaces/{namespace}/pods", method) for method in ("get", "post", "delete")),
        *(("/api/v1/namespaces/{namespace}/pods/{name}", method) for method in ("get", "put", "patch", "delete")),
        *(("/api/v1/namespaces/{namespace}/pods/{name}/status", method) for method in ("get", "put", "patch")),
        ("/api/v1/namespaces/{namespace}/pods/{name}/eviction", "post"),
    }
    zones = [(path, method) for path, method, _ in operations(SWAGGER) if "zones" in path]
    assert [method for _, method in zones] == ["get", "get"]


@pytest.mark.parametrize("document", [CORE, SWAGGER], ids=["3", "2"])
def test_kubectl_finds_out_whether_a_patch_may_be_tried(document: dict[str, Any]) -> None:
    patch = document["paths"]["/api/v1/nodes/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "kind": "Node", "version": "v1"}
    assert patch["x-kubernetes-action"] == "patch"
    assert {"dryRun", "fieldValidation", "fieldManager", "force"} <= {one["name"] for one in patch["parameters"]}


def test_subresources_answer_with_objects_of_other_groups() -> None:
    eviction = CORE["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"]
    assert eviction["x-kubernetes-group-version-kind"] == {"group": "policy", "kind": "Eviction", "version": "v1"}
    schema = eviction["requestBody"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/io.k8s.api.policy.v1.Eviction"}


def test_only_built_in_kinds_take_protobuf_and_strategic_merge_patches() -> None:
    strategic, protobuf = "application/strategic-merge-patch+json", "application/vnd.kubernetes.protobuf"
    node = CORE["paths"]["/api/v1/nodes/{name}"]
    assert strategic in node["patch"]["requestBody"]["content"]
    assert protobuf in node["put"]["requestBody"]["content"]
    own = DOCUMENTS.of("apis/moorage.io/v1alpha1")
    assert own is not None
    clusters = Documents(
        [
            {
                "groupVersion": "cluster.karmada.io/v1alpha1",
                "resources": [{"name": "clusters", "kind": "Cluster", "namespaced": False, "verbs": WRITING}],
            }
        ],
        "v1",
    ).of("apis/cluster.karmada.io/v1alpha1")
    assert clusters is not None
    cluster = json.loads(clusters.body)["paths"]["/apis/cluster.karmada.io/v1alpha1/clusters/{name}"]
    assert strategic in cluster["patch"]["requestBody"]["content"]
    assert protobuf not in cluster["put"]["requestBody"]["content"]
    budget = json.loads(own.body)["paths"]["/apis/moorage.io/v1alpha1/evictionbudgets/{name}"]
    assert strategic not in budget["patch"]["requestBody"]["content"]
    assert protobuf not in budget["put"]["requestBody"]["content"]


def test_schemas_say_how_their_values_are_merged() -> None:
    containers = SCHEMAS["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-list-type"] == "map"
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    tolerations = SCHEMAS["io.k8s.api.core.v1.PodSpec"]["properties"]["tolerations"]
    assert tolerations["x-kubernetes-list-type"] == "atomic"
    selector = SCHEMAS["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"]
    assert selector["x-kubernetes-map-type"] == "atomic"


def test_kinds_are_found_by_their_names() -> None:
    assert SCHEMAS["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"] == [
        {"group": "", "kind": "Pod", "version": "v1"}
    ]
    assert SCHEMAS["io.k8s.api.core.v1.PodList"]["x-kubernetes-group-version-kind"] == [
        {"group": "", "kind": "PodList", "version": "v1"}
    ]


def test_what_moorage_decides_by_is_described() -> None:
    toleration = SCHEMAS["io.k8s.api.core.v1.Toleration"]["properties"]
    assert toleration["tolerationSeconds"]["description"].startswith("Seconds for which a taint that evicts is stood")
    assert "description" in SCHEMAS["io.k8s.api.core.v1.PodSpec"]["properties"]["affinity"]


def test_values_that_a_field_may_have_are_named_in_both_versions() -> None:
    for schemas in (SCHEMAS, SWAGGER["definitions"]):
        effect = schemas["io.k8s.api.core.v1.Taint"]["properties"]["effect"]
        assert effect["enum"] == ["NoExecute", "NoSchedule", "PreferNoSchedule"]
        named = '\n\nPossible enum values:\n - `"NoExecute"`\n - `"NoSchedule"`\n - `"PreferNoSchedule"`'
        assert effect["description"].endswith(named)
        assert not effect["description"].startswith("Possible"), "what Moorage says of it comes first"
        protocol = schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"]
        assert protocol["description"].startswith("Possible enum values:"), "nothing else is said of it"
    manager = SCHEMAS["io.k8s.api.core.v1.PodSpec"]["properties"]["schedulerName"]
    assert "enum" not in manager


def test_a_use_does_not_change_the_definition() -> None:
    found = DOCUMENTS.of("apis/apps/v1")
    assert found is not None
    schemas = json.loads(found.body)["components"]["schemas"]
    strategy = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"]
    assert strategy["x-kubernetes-patch-strategy"] == "retainKeys"
    assert strategy["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}]
    assert "x-kubernetes-patch-strategy" not in schemas["io.k8s.api.apps.v1.DeploymentStrategy"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"containers": [], "tolerations": [{"key": "a", "tolerationSeconds": 5}]}, None),
        ({"tolerations": []}, ["spec"]),
        (
            {"containers": [], "tolerations": [{"tolerationSeconds": "5"}]},
            ["spec", "tolerations", 0, "tolerationSeconds"],
        ),
        (
            {"containers": [{"name": "a", "ports": [{"containerPort": "x"}]}]},
            ["spec", "containers", 0, "ports", 0, "containerPort"],
        ),
        ({"containers": [], "overhead": {"cpu": "1", "memory": 2}}, None),
        ({"containers": [], "overhead": {"cpu": True}}, ["spec", "overhead", "cpu"]),
    ],
)
def test_a_validator_finds_what_is_wrong(spec: dict[str, Any], path: list[str | int] | None) -> None:
    schema = {"$ref": "#/components/schemas/io.k8s.api.core.v1.Pod", "components": CORE["components"]}
    found = list(jsonschema.Draft202012Validator(schema).iter_errors({"metadata": {"name": "a"}, "spec": spec}))
    assert [list(error.absolute_path) for error in found] == ([path] if path is not None else [])


def test_version_2_says_texts_where_it_cannot_say_more() -> None:
    assert SWAGGER["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"] == "string"
    port = SWAGGER["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    assert (port["type"], port["format"]) == ("string", "int-or-string")
    metadata = SWAGGER["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["metadata"]
    assert metadata["$ref"] == "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    body = SWAGGER["paths"]["/api/v1/nodes"]["post"]["parameters"][0]
    assert (body["in"], body["required"], body["schema"]) == (
        "body",
        True,
        {"$ref": "#/definitions/io.k8s.api.core.v1.Node"},
    )


def each(data: memoryview, number: int) -> list[memoryview]:
    """The bytes of every field of a number."""
    return [value for at, _, value in wire.fields(data) if at == number and isinstance(value, memoryview)]


def entries(data: memoryview, number: int) -> dict[str, memoryview]:
    """A map of a message."""
    return {bytes(each(one, 1)[0]).decode(): each(one, 2)[0] for one in each(data, number)}


def test_protobuf_contains_what_the_json_does() -> None:
    data = memoryview(DOCUMENTS.version_2_protobuf.body)
    assert bytes(each(data, 1)[0]) == b"2.0"
    paths = entries(each(data, 8)[0], 2)
    assert list(paths) == list(SWAGGER["paths"])
    definitions = entries(each(data, 9)[0], 1)
    assert list(definitions) == list(SWAGGER["definitions"])
    for name, said in SWAGGER["definitions"].items():
        for properties in each(definitions[name], 25):
            assert list(entries(properties, 1)) == list(said["properties"])
        assert [bytes(one).decode() for one in each(definitions[name], 19)] == said.get("required", [])
        told = {key: json.loads(bytes(each(one, 2)[0])) for key, one in entries(definitions[name], 31).items()}
        assert told == {key: value for key, value in said.items() if key.startswith("x-")}
    patch = each(paths["/api/v1/nodes/{name}"], 8)[0]
    extensions = {key: json.loads(bytes(each(one, 2)[0])) for key, one in entries(patch, 13).items()}
    assert extensions["x-kubernetes-group-version-kind"]["kind"] == "Node"
    queries = [each(each(each(each(one, 1)[0], 2)[0], 3)[0], 4) for one in each(patch, 8)[1:]]
    assert [bytes(name[0]).decode() for name in queries] == ["dryRun", "fieldManager", "fieldValidation", "force"]


def test_parts_of_a_schema_are_written_with_their_types() -> None:
    said = {
        "swagger": "2.0",
        "info": {"title": "a"},
        "paths": {},
        "definitions": {
            "A": {
                "type": "object",
                "additionalProperties": {"type": "integer", "minimum": 1, "maxLength": 3, "enum": ["x"]},
            }
        },
    }
    definition = entries(each(memoryview(gnostic.document(said)), 9)[0], 1)["A"]
    inner = each(each(definition, 21)[0], 1)[0]
    found = {number: value for number, _, value in wire.fields(inner)}
    assert bytes(each(each(inner, 22)[0], 1)[0]) == b"integer"
    assert found[11] == 3
    assert wire.read_double(each(inner, 9)[0]) == 1.0
    assert bytes(each(each(inner, 20)[0], 2)[0]) == b'"x"'
