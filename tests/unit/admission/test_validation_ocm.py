"""Errors in roles, bindings and Open Cluster Management's objects that the tests over HTTP do not cover."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.tables import table

from moorage.apiserver.kinds.kind import named
from moorage.apiserver.rules.admission_defaults import admit_managed_cluster
from moorage.apiserver.rules.feature_gates import FeatureGates
from moorage.apiserver.rules.validation.ocm import validate_managed_cluster, validate_placement
from moorage.apiserver.rules.validation.rbac import validate_path_name
from moorage_schemas.resources.managed import ManagedCluster, Placement
from moorage_schemas.resources.meta import Resource

KNOWN = ("Balance", "Steady")
SET_LABEL = "cluster.open-cluster-management.io/clusterset"
WHOLE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}


def role(kind: str = "ClusterRole", **parts: Any) -> list[str]:
    definition = named(kind)
    assert definition is not None
    made = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "r"}, **parts}
    return [error.path for error in definition.validate(Resource.model_validate(made), FeatureGates())]


@table(
    ("rules", "paths"),
    [
        (None, []),
        ([], []),
        ([WHOLE], []),
        ([{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}], []),
        ("all", ["rules"]),
        (["all"], ["rules[0]"]),
        ([{**WHOLE, "verbs": "get"}], ["rules[0].verbs"]),
        ([{**WHOLE, "resources": [1]}], ["rules[0].resources"]),
        ([{**WHOLE, "apiGroups": []}], ["rules[0].apiGroups"]),
        ([{"verbs": ["get"], "apiGroups": [""]}], ["rules[0].resources"]),
        ([{**WHOLE, "nonResourceURLs": ["/a"]}], ["rules[0].nonResourceURLs"]),
    ],
)
def test_rules(rules: Any, paths: list[str]) -> None:
    assert role(rules=rules) == paths


@table(
    ("kind", "parts", "paths"),
    [
        ("ClusterRoleBinding", {"roleRef": REF}, []),
        ("ClusterRoleBinding", {"roleRef": {**REF, "kind": "Role"}}, ["roleRef.kind"]),
        ("RoleBinding", {"roleRef": {**REF, "kind": "Role"}}, []),
        ("RoleBinding", {"roleRef": {**REF, "apiGroup": "other"}}, ["roleRef.apiGroup"]),
        ("RoleBinding", {"roleRef": {"kind": "Role"}}, ["roleRef.name"]),
        ("RoleBinding", {"roleRef": "r"}, ["roleRef.kind", "roleRef.name"]),
        ("RoleBinding", {"roleRef": REF, "subjects": ["a"]}, ["subjects[0]"]),
        ("RoleBinding", {"roleRef": REF, "subjects": [{"kind": "User"}]}, ["subjects[0].name"]),
        (
            "ClusterRoleBinding",
            {"roleRef": REF, "subjects": [{"kind": "ServiceAccount", "name": "a"}]},
            ["subjects[0].namespace"],
        ),
        ("RoleBinding", {"roleRef": REF, "subjects": [{"kind": "ServiceAccount", "name": "a"}]}, []),
        (
            "RoleBinding",
            {"roleRef": REF, "subjects": [{"kind": "ServiceAccount", "name": "a", "apiGroup": "b"}]},
            ["subjects[0].apiGroup"],
        ),
    ],
)
def test_bindings(kind: str, parts: dict[str, Any], paths: list[str]) -> None:
    assert role(kind, **parts) == paths


@pytest.mark.parametrize(("name", "wrong"), [("system:a", 0), ("a/b", 1), ("a%2f/b", 2), ("..", 1), ("", 1)])
def test_names_of_roles(name: str, wrong: int) -> None:
    assert len(validate_path_name(name)) == wrong


@table(
    ("url", "right"),
    [
        ("https://a", True),
        ("https://a.example:6443/path?b=c", True),
        ("https://", False),
        ("https:///a", False),
        ("http://a", False),
        ("https://a b", False),
        (7, False),
        (None, False),
    ],
)
def test_addresses_of_clusters(url: Any, right: bool) -> None:  # noqa: FBT001 - a parameter of the test
    spec = {"managedClusterClientConfigs": [{"url": url}]}
    made = ManagedCluster.model_validate({"apiVersion": "a/v1", "kind": "b", "metadata": {"name": "c"}, "spec": spec})
    assert (validate_managed_cluster(made) == []) is right


@pytest.mark.parametrize("configs", ["x", {"url": "y"}, None])
def test_what_is_no_list_of_addresses_is_not_looked_at(configs: Any) -> None:
    spec = {"managedClusterClientConfigs": configs}
    made = ManagedCluster.model_validate({"apiVersion": "a/v1", "kind": "b", "metadata": {"name": "c"}, "spec": spec})
    assert validate_managed_cluster(made) == []


@table("weight", [-11, -10, 0, 10, 11])
@table("name", KNOWN)
def test_weights_of_every_prioritizer(name: str, weight: int) -> None:
    config = {"scoreCoordinate": {"builtIn": name}, "weight": weight}
    spec = {"prioritizerPolicy": {"configurations": [config]}}
    made = Placement.model_validate({"apiVersion": "a/v1", "kind": "b", "metadata": {"name": "c"}, "spec": spec})
    found = [error.path for error in validate_placement(made, KNOWN)]
    assert found == ([] if abs(weight) <= 10 else ["spec.prioritizerPolicy.configurations[0].weight"])


@pytest.mark.parametrize(
    ("labels", "after"),
    [
        (None, {SET_LABEL: "default"}),
        ({SET_LABEL: ""}, {SET_LABEL: "default"}),
        ({SET_LABEL: "s", "a": "b"}, {SET_LABEL: "s", "a": "b"}),
        ({"feature.open-cluster-management.io/addon-x": "available"}, {SET_LABEL: "default"}),
    ],
)
def test_every_cluster_is_in_a_set(labels: dict[str, str] | None, after: dict[str, str]) -> None:
    metadata = {"name": "c", **({"labels": labels} if labels is not None else {})}
    before = {"metadata": metadata, "spec": {}}
    assert admit_managed_cluster(before)["metadata"]["labels"] == after
    assert before["metadata"] == metadata
