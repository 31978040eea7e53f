from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance import generate_ocm

from moorage.conformance.operations import evaluate

NOW = "2026-01-01T00:00:00Z"
PLACEMENT: dict[str, Any] = {"metadata": {"namespace": "ns", "name": "p"}, "spec": {}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def mangled(request: Any, path: list[int], value: Any) -> Any:
    """The request with the value at the path replaced."""
    made = copy.deepcopy(request)
    here: Any = made
    for number in path:
        keys = sorted(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        if not keys:
            break
        key: Any = list(keys)[number % len(keys)]
        if number % 3 == 0 or not isinstance(here[key], dict | list):
            here[key] = value
            break
        here = here[key]
    return made


@given(
    st.sampled_from([generate_ocm.schedule, generate_ocm.taint_controller, generate_ocm.taint_webhook]),
    st.integers(0, 200),
    st.lists(st.integers(0, 30), min_size=1, max_size=8),
    JSON,
    st.booleans(),
)
def test_any_request_is_answered(
    make: Callable[[random.Random], Any],
    seed: int,
    path: list[int],
    value: Any,
    as_upstream: bool,  # noqa: FBT001 - hypothesis passes by position
) -> None:
    request = mangled(make(random.Random(seed)), path, value)  # noqa: S311 - test data
    answer = evaluate(request, as_upstream=as_upstream)
    assert answer
    assert json.loads(json.dumps(answer)) is not None


def asked(**more: Any) -> dict[str, Any]:
    return evaluate({"op": "ocm_schedule", "now": NOW, "placement": PLACEMENT} | more, as_upstream=False)


def bound(name: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": name}, "spec": {"clusterSet": name}}


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"placement": None}, "placement: Required value"),
        ({"level": "top"}, 'level: Unsupported value: "top": supported values: "scheduler", "controller"'),
        ({"bindings": [{"metadata": {"name": "s"}}]}, "bindings[0].spec.clusterSet: Required value"),
        (
            {"clusterSets": [{"metadata": {"name": "s"}, "spec": {"clusterSelector": {"selectorType": "Other"}}}]},
            (
                'clusterSets[0].spec.clusterSelector.selectorType: Unsupported value: "Other": supported values: '
                '"ExclusiveClusterSetLabel", "LabelSelector", "LegacyClusterSetLabel"'
            ),
        ),
        (
            {
                "clusterSets": [
                    {
                        "metadata": {"name": "s"},
                        "spec": {
                            "clusterSelector": {
                                "selectorType": "LabelSelector",
                                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                            }
                        },
                    }
                ]
            },
            (
                "clusterSets[0].spec.clusterSelector.labelSelector: Invalid value: "
                '{"matchExpressions":[{"key":"a","operator":"In"}]}: '
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
            ),
        ),
        (
            {"cluster": []},
            (
                "cluster: Forbidden: unknown field; known fields: id, op, unstable, kind, now, level, "
                "placement, clusters, decisions, scores, clusterSets, bindings"
            ),
        ),
    ],
)
def test_a_wrong_request_is_told_field_value_and_rule(more: dict[str, Any], error: str) -> None:
    assert asked(**more) == {"error": error}


def test_global_has_every_cluster_and_default_those_that_name_no_set() -> None:
    clusters = [
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "b", "labels": {"cluster.open-cluster-management.io/clusterset": "nosuch"}}},
        {"metadata": {"name": "c", "deletionTimestamp": NOW}},
    ]
    answers = [asked(clusters=clusters, bindings=[bound(name)]) for name in ("default", "global", "nosuch")]
    assert [answer["available"] for answer in answers] == [["a"], ["a", "b"], []]
    reasons = [answer["placementStatus"]["conditions"][1]["reason"] for answer in answers]
    assert reasons == ["AllDecisionsScheduled", "AllDecisionsScheduled", "NoManagedClusterSetBindings"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"}},
        {"deletionTimestamp": NOW},
    ],
)
def test_a_placement_that_is_not_to_be_scheduled_is_not(metadata: dict[str, Any]) -> None:
    placement = {"metadata": PLACEMENT["metadata"] | metadata, "spec": {}}
    assert asked(placement=placement, bindings=[bound("global")]) == {"level": "controller", "scheduled": False}


def test_a_cluster_that_is_going_changes_no_taint() -> None:
    taint = {"key": "cluster.open-cluster-management.io/unavailable", "effect": "NoSelect", "timeAdded": NOW}
    cluster = {"metadata": {"deletionTimestamp": NOW}, "spec": {"taints": [taint]}}
    request = {"op": "ocm_taint_controller", "cluster": cluster}
    assert evaluate(request, as_upstream=False) == {"taints": [taint]}
    del cluster["metadata"]
    assert [one["key"].rpartition("/")[2] for one in evaluate(request, as_upstream=False)["taints"]] == ["unreachable"]


@pytest.mark.parametrize("op", ["ocm_taint_controller", "ocm_taint_webhook"])
def test_the_cluster_is_needed(op: str) -> None:
    assert evaluate({"op": op}, as_upstream=False) == {"error": "cluster: Required value"}
    assert evaluate({"op": op}, as_upstream=True) == {"error": "cluster is missing"}


def test_a_create_sets_every_time() -> None:
    cluster = {"spec": {"taints": [{"key": "k", "effect": "NoSelect", "timeAdded": NOW}]}}
    answer = evaluate({"op": "ocm_taint_webhook", "cluster": cluster}, as_upstream=False)
    assert answer == {"allowed": True, "taints": [{"key": "k", "effect": "NoSelect", "timeAdded": "NOW"}]}
