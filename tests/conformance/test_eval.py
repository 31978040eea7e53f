from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.conformance.operations import OPERATIONS, evaluate

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("key", "value", "effect", "operator", "timeAdded", "tolerationSeconds", "KEY", "extra"),
        *("metadata", "spec", "name", "type", "status", "zones"),
    ]
)
OBJECTS = st.dictionaries(FIELDS, JSON, max_size=4)
REQUEST_FIELDS = st.sampled_from(
    [
        *("id", "taint", "toleration", "taints", "tolerations", "scores", "comparisonOperators"),
        *("spec", "add", "remove", "overwrite", "now", "Taints"),
        *("cluster", "conditions", "labels", "policies", "alreadyScheduled"),
        *(
            "pods",
            "budgets",
            "controllers",
            "kinds",
            "evict",
            "daemonSet",
            "nodes",
            "hash",
            "node",
            "steps",
            "addOns",
            "leases",
            "device",
            "rules",
            "slices",
            "classes",
            "allocated",
            "evicted",
            "expression",
        ),
        *("old", "placement", "clusters", "decisions", "level", "clusterSets", "bindings"),
    ]
)
REQUESTS = st.builds(
    lambda op, rest: rest | {"op": op},
    st.sampled_from(OPERATIONS) | JSON,
    st.dictionaries(REQUEST_FIELDS, JSON | OBJECTS | st.lists(OBJECTS, max_size=3), max_size=5),
)


@settings(max_examples=400)
@given(REQUESTS | JSON, st.booleans())
def test_any_request_is_answered(request: Any, as_upstream: bool) -> None:  # noqa: FBT001 - hypothesis passes by position
    answer = evaluate(request, as_upstream=as_upstream)
    assert answer
    assert json.loads(json.dumps(answer)) is not None


@table(
    ("request_", "error"),
    [
        ([], "request: Invalid value: []: must be an object"),
        (
            {"op": "nope"},
            (
                'op: Unsupported value: "nope": supported values: "tolerates", "filter", "normalize", "evict", '
                '"validate", "parse_taints", "set_taints", "cel", "ctp", "karmada_evict", "karmada_filter", '
                '"karmada_schedule", "daemonset_status", "device_tolerates", "device_cel", "device_allocate", '
                '"device_evict", "disruption_budget", "node_pods", "pod_qos", '
                '"pod_requests", "pod_tolerations", "ocm_schedule", "ocm_rollout", "pod_schedule", "addon_labels", '
                '"ocm_taint_controller", "ocm_taint_webhook"'
            ),
        ),
        ({"op": 5}, "op: Invalid value: 5: must be a string"),
        ({"op": "normalize", "scores": [1, 2.5]}, "scores[1]: Invalid value: 2.5: must be an integer"),
        ({"op": "normalize", "scores": [True]}, "scores[0]: Invalid value: true: must be an integer"),
        ({"op": "normalize", "scores": {}}, "scores: Invalid value: {}: must be a list"),
        ({"op": "tolerates", "taint": {}}, "toleration: Required value"),
        (
            {"op": "tolerates", "toleration": {"tolerationSeconds": "3"}, "taint": {}},
            'toleration.tolerationSeconds: Invalid value: "3": must be an integer',
        ),
        (
            {"op": "tolerates", "toleration": {"tolerationSeconds": 2**63}, "taint": {}},
            "toleration.tolerationSeconds: Invalid value: 9223372036854775808: must be within 64 bits",
        ),
        ({"op": "filter", "taints": [{"key": "a"}]}, "taints[0].effect: Required value"),
        ({"op": "filter", "taints": [None]}, "taints[0]: Invalid value: null: must be an object"),
        (
            {"op": "filter", "taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01"}]},
            'taints[0].timeAdded: Invalid value: "2026-01-01": must be an RFC 3339 time such as 2026-01-01T00:00:00Z',
        ),
        (
            {"op": "filter", "tolerations": [{"kee": "a"}]},
            (
                "tolerations[0].kee: Forbidden: unknown field; known fields: key, operator, value, effect, "
                "tolerationSeconds"
            ),
        ),
        (
            {"op": "evict", "now": "2026-02-30T00:00:00Z"},
            'now: Invalid value: "2026-02-30T00:00:00Z": must be an RFC 3339 time such as 2026-01-01T00:00:00Z',
        ),
        (
            {"op": "evict", "now": "0001-01-01T00:00:00+01:00"},
            'now: Invalid value: "0001-01-01T00:00:00+01:00": must be an RFC 3339 time such as 2026-01-01T00:00:00Z',
        ),
        ({"op": "ctp", "policies": [{}]}, "policies[0].metadata.name: Required value"),
        (
            {"op": "ctp", "policies": [{"metadata": {"name": "p"}}, {"metadata": {"name": "p"}}]},
            'policies[1].metadata.name: Duplicate value: "p"',
        ),
        ({"op": "ctp", "labels": {"a": 1}}, "labels.a: Invalid value: 1: must be a string"),
        (
            {"op": "ctp", "policies": [{"metadata": {"name": "p"}, "spec": {"addOnCondition": []}}]},
            (
                "policies[0].spec.addOnCondition: Forbidden: unknown field; known fields: targetClusters, "
                "addOnConditions, removeOnConditions, taints"
            ),
        ),
        (
            {
                "op": "karmada_evict",
                "taints": [{"key": "a", "effect": "NoExecute"}],
                "tolerations": [{"operator": "Exists", "tolerationSeconds": 5}],
            },
            "now: Required value: a tolerated time is left from here on",
        ),
        ({"op": "parse_taints", "spec": [1]}, "spec[0]: Invalid value: 1: must be a string"),
        ({"op": "filter", "comparisonOperators": 1}, "comparisonOperators: Invalid value: 1: must be true or false"),
    ],
)
def test_a_wrong_request_is_told_field_value_and_rule(request_: Any, error: str) -> None:
    assert evaluate(request_, as_upstream=False) == {"error": error}


def test_the_id_comes_back() -> None:
    assert evaluate({"op": "normalize", "id": {"a": [1]}}, as_upstream=True) == {"scores": [], "id": {"a": [1]}}
    assert evaluate({"op": "nope", "id": 0}, as_upstream=True) == {"error": "unknown op nope", "id": 0}
    assert evaluate({"op": "normalize", "id": None}, as_upstream=True) == {"scores": []}


def test_as_upstream_reads_as_go_does() -> None:
    request = {"op": "filter", "Taints": [{"KEY": "z", "effect": "NoExecute", "more": 1}, None], "tolerations": None}
    taint = {"key": "z", "effect": "NoExecute"}
    assert evaluate(request, as_upstream=True) == {
        "fits": False,
        "untolerated": [taint],
        "first": taint,
        "preferNoScheduleCount": 0,
        "code": "UnschedulableAndUnresolvable",
        "reason": "node(s) had untolerated taint(s)",
    }


def evict(**more: Any) -> dict[str, Any]:
    request = {
        "op": "evict",
        "taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}],
        "tolerations": [{"operator": "Exists", "tolerationSeconds": 60}],
    }
    return evaluate(request | more, as_upstream=False)


def test_with_now_the_remaining_seconds_are_told() -> None:
    used = {"allTolerated": True, "used": [{"operator": "Exists", "tolerationSeconds": 60}]}
    deadline = {"deadline": "2026-01-01T00:01:00Z"}
    assert evict() == {"evict": "after", "seconds": 60, "duration_ns": 60 * 10**9, **deadline, **used}
    assert evict(now="2026-01-01T00:00:45.5Z") == {
        "evict": "after",
        "seconds": 14.5,
        "duration_ns": 14_500_000_000,
        **deadline,
        **used,
    }
    assert evict(now="2026-01-01T00:01:00Z") == {"evict": "now", "seconds": 0, "duration_ns": 0, **deadline, **used}
    assert evict(now="2027-01-01T00:00:00Z")["evict"] == "now"


def test_policies_leave_built_in_taints_to_the_state() -> None:
    key = "cluster.karmada.io/not-ready"
    taints = [{"key": key, "effect": "NoSchedule"}, {"key": key, "effect": "NoExecute"}]
    met = [{"conditionType": "Net", "operator": "In", "statusValues": ["False"]}]
    request = {"op": "ctp", "conditions": [{"type": "Net", "status": "False"}]}
    adds = {"metadata": {"name": "p"}, "spec": {"addOnConditions": met, "taints": taints}}
    removes = {"metadata": {"name": "p"}, "spec": {"removeOnConditions": met, "taints": taints}}

    def left(policy: Any, *, as_upstream: bool, **parts: Any) -> list[str]:
        answer = evaluate({**request, "policies": [policy], **parts}, as_upstream=as_upstream)
        return [taint["effect"] for taint in answer["taints"]]

    assert left(adds, as_upstream=True) == ["NoSchedule", "NoExecute"]
    assert left(adds, as_upstream=False) == ["NoExecute"]
    assert left(removes, as_upstream=True, taints=taints) == []
    assert left(removes, as_upstream=False, taints=taints) == ["NoSchedule"]
