"""`eval` compared with the answers of the real upstream code. `generate_vectors.py` describes their source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance import fresh, ocm_deviations
from tests.support.tables import table

from moorage.conformance.deviations import Deviation
from moorage.conformance.operations import OPERATIONS, evaluate

VECTORS = Path(__file__).parent / "vectors"
# The oracle's own folder, if it is beside the project, so that newer versions of the committed files are tested.
SHARED = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "vectors"

Vector = dict[str, Any]


def read(folder: Path) -> list[Vector]:
    """Return a folder's vectors whose operation exists, of the files that are committed here, too."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        if (VECTORS / path.name).exists():
            with path.open(encoding="utf-8") as lines:
                found += [vector for line in lines if (vector := json.loads(line))["request"].get("op") in OPERATIONS]
    return found


COMMITTED = read(VECTORS)


def wrong(vectors: list[Vector]) -> list[str]:
    out = []
    for vector in vectors:
        answer = evaluate(vector["request"] | {"id": vector["id"]}, as_upstream=True)
        if answer.get("id") != vector["id"] or not fresh.agree(vector["request"], vector["expect"], answer):
            out.append(f"{vector['id']}: {vector['request']}\n  expected {vector['expect']}\n  answered {answer}")
    return out


def test_every_operation_has_many_vectors() -> None:
    counts = Counter(vector["request"]["op"] for vector in COMMITTED)
    assert set(counts) == set(OPERATIONS) - fresh.ELSEWHERE
    assert min(counts.values()) >= 150, counts


def test_as_upstream_answers_every_committed_vector() -> None:
    assert wrong(COMMITTED) == []


if SHARED.is_dir():  # not collected in a clone alone: the committed copies are tested above

    def test_as_upstream_answers_the_vectors_beside_the_project() -> None:
        vectors = read(SHARED)
        assert len(vectors) >= 1000
        assert wrong(vectors) == []


def placement(request: Vector) -> Vector:
    found: Vector = request["spec"].get("placement", {}) if request["op"] == "karmada_schedule" else {}
    return found


def tolerations(request: Vector) -> list[Vector]:
    placed = placement(request).get("clusterTolerations", [])
    return [*request.get("tolerations", []), *([request["toleration"]] if "toleration" in request else []), *placed]


def taints(request: Vector) -> list[Vector]:
    return [*request.get("taints", []), *([request["taint"]] if "taint" in request else [])]


def long_key(request: Vector) -> bool:
    named = [t.get("key", "") for t in tolerations(request)]
    named += [spec.partition("=")[0].partition(":")[0] for spec in request.get("spec", [])]
    return any(len(key) > 253 for key in named)


def added_twice(request: Vector) -> bool:
    counts = Counter((t["key"], t["effect"]) for t in request.get("add", []))
    return any(count > 1 for count in counts.values())


def evicting(request: Vector) -> list[Vector]:
    return [taint for taint in taints(request) if taint["effect"] == "NoExecute"]


def tolerates(toleration: Vector, taint: Vector) -> bool:
    request = {"op": "tolerates", "toleration": toleration, "taint": taint}
    return evaluate(request, as_upstream=True) == {"tolerates": True}


def comes_again(request: Vector) -> bool:
    """Whether upstream has added again a taint that was there before."""
    added = evaluate(request, as_upstream=True).get("taints", [])
    there = {(t["key"], t["effect"]) for t in taints(request)}
    return any(t.get("timeAdded") == "NOW" and (t["key"], t["effect"]) in there for t in added)


def emptied(request: Vector) -> Vector:
    """Upstream's answer if it writes a cluster that had no taints and has none."""
    name = request.get("cluster", {}).get("metadata", {}).get("name", "member")
    said = f"Normal TaintClusterSucceed Update Cluster({name}) with taints(cluster now does not have taints) succeed"
    return {"taints": [], "patched": True, "events": [said]}


def spread(request: Vector) -> dict[str, Vector]:
    constraints = placement(request).get("spreadConstraints", [])
    return {one.get("spreadByField", "cluster"): one for one in constraints}


def division(request: Vector) -> Vector:
    found: Vector = placement(request).get("replicaScheduling", {})
    return found


def summaries(request: Vector) -> list[Vector]:
    return [cluster.get("status", {}).get("resourceSummary") or {} for cluster in request["clusters"]]


def lacks_figures(request: Vector) -> bool:
    wanted = {"pods", *request["spec"].get("replicaRequirements", {}).get("resourceRequest", {})}
    return any(not wanted <= one.get("allocatable", {}).keys() for one in summaries(request))


def requests_something(request: Vector) -> bool:
    wanted = request["spec"].get("replicaRequirements", {}).get("resourceRequest", {})
    return any(amount != "0" for amount in wanted.values())


def is_unreported(pod: Vector) -> bool:
    """Whether no deployer has reported whether a pod is ready, or that it has started."""
    ready = {one["status"] for one in pod.get("status", {}).get("conditions", []) if one["type"] == "Ready"}
    return not ready & {"True", "False"} or pod["status"].get("phase") == "Pending"


def lost(request: Vector) -> set[str]:
    """Each status that the node was found with, by upstream or here, other than ready."""
    found = set()
    for number in range(1, len(request["steps"]) + 1):
        for as_upstream in (True, False):
            part = request | {"steps": request["steps"][:number]}
            found.add(evaluate(part, as_upstream=as_upstream)["conditions"].get("Ready", "True"))
    return found - {"True"}


# For each deviation, the requests whose answers it may change.
MAY_SHOW: dict[Deviation, Callable[[Vector], bool]] = {
    Deviation.EMPTY_KEY_NEEDS_EXISTS: lambda r: any(
        not t.get("key") and t.get("operator") != "Exists" for t in tolerations(r)
    ),
    Deviation.EXISTS_TAKES_NO_VALUE: lambda r: any(
        t.get("operator") == "Exists" and t.get("value") for t in tolerations(r)
    ),
    Deviation.COMPARISON_OPERATORS_ON: lambda r: (
        (r.get("comparisonOperators") is None or r["op"] in {"evict", "karmada_evict", "karmada_filter"})
        and any(t.get("operator") in {"Gt", "Lt"} for t in tolerations(r))
    ),
    Deviation.DEADLINE_FROM_TIME_ADDED: lambda r: (
        any(t.get("timeAdded") for t in taints(r)) and any("tolerationSeconds" in t for t in tolerations(r))
    ),
    Deviation.SECONDS_OF_FIRST_MATCH: lambda r: any(
        sum(tolerates(toleration, taint) for taint in evicting(r)) > 1
        for toleration in tolerations(r)
        if toleration.get("tolerationSeconds") is not None
    ),
    Deviation.NO_TIME_IS_AT_ONCE: lambda r: (
        any(t.get("tolerationSeconds", 1) <= 0 for t in tolerations(r))
        and any((t.get("timeAdded") or "") > r["now"] for t in taints(r))
    ),
    Deviation.MISSING_TIME_ADDED_IS_NOW: lambda r: any(not t.get("timeAdded") for t in evicting(r)),
    Deviation.NOTHING_CHANGED_NOTHING_WRITTEN: lambda r: not taints(r) and evaluate(r, as_upstream=True) == emptied(r),
    Deviation.KEPT_THROUGH_ONE_UPDATE: comes_again,
    Deviation.BUILT_IN_IS_THE_STATES: lambda r: any(
        taint["key"] in {"cluster.karmada.io/not-ready", "cluster.karmada.io/unreachable"}
        for policy in r.get("policies", [])
        for taint in policy["spec"].get("taints", [])
    ),
    Deviation.OLDER_ZONE_FIELD: lambda r: (
        bool((spec := r.get("cluster", {}).get("spec", {})).get("zone")) and not spec.get("zones")
    ),
    Deviation.SECONDS_DO_NOT_OVERFLOW: lambda r: (
        any(abs(s) >= 2**55 for s in r.get("scores", []))
        or any(t.get("tolerationSeconds", 0) > 2**33 for t in tolerations(r))
    ),
    Deviation.SECONDS_WITH_ANY_EFFECT: lambda r: any(
        "tolerationSeconds" in t and t.get("effect") != "NoExecute" for t in tolerations(r)
    ),
    Deviation.KEY_LENGTH: long_key,
    Deviation.WORDS_OF_TODAY: lambda r: any(spec.count("/") > 1 or len(spec) > 63 for spec in r.get("spec", [])),
    Deviation.REMOVE_BY_KEY: lambda r: any(not t.get("effect") for t in r.get("remove", [])),
    Deviation.ADD_ONCE: added_twice,
    Deviation.OVERWRITE: lambda r: bool(r.get("overwrite")),
    Deviation.TIME_KEEPS_FRACTION: lambda r: (
        any("." in (t.get("timeAdded") or "") for t in taints(r))
        or any("." in (p["metadata"].get("creationTimestamp") or "") for p in r.get("policies", []))
    ),
    Deviation.SILENT_NODE_IS_READY: lambda r: not r["steps"][0].get("conditions"),
    Deviation.PODS_FOLLOW_THEIR_NODE: lambda r: "False" in lost(r) or len(lost(r)) > 1 or "Unknown" in lost(r),
    Deviation.HEARTBEATS_BY_SOURCE: lambda r: "Unknown" in lost(r),
    Deviation.ADD_ON_LEASES_STATE_THEIR_DURATION: lambda r: any(
        one["spec"].get("leaseDurationSeconds") for one in r["leases"]
    ),
    Deviation.READY_IS_AVAILABLE: lambda r: bool(r["daemonSet"]["spec"].get("minReadySeconds")),
    Deviation.UNREPORTED_PODS_COUNT: lambda r: any(map(is_unreported, r.get("pods", []))),
    Deviation.UNSTATED_ROOM_IS_ENOUGH: lambda r: any(
        {"cpu", "memory", "pods"} - node.get("status", {}).get("allocatable", {}).keys() for node in r.get("nodes", [])
    ),
    Deviation.CLEAR_ERRORS: lambda r: "error" in evaluate(r, as_upstream=False) and r["op"] != "parse_taints",
    Deviation.NO_MAXIMUM_MEANS_NO_LIMIT: lambda r: any(not one.get("maxGroups") for one in spread(r).values()),
    Deviation.SCALE_DOWN_AMONG_THE_CHOSEN: lambda r: (
        sum(one["replicas"] for one in r["spec"].get("clusters", [])) > r["spec"]["replicas"] > 0
    ),
    Deviation.UNKNOWN_ROOM_IS_ENOUGH: lacks_figures,
    Deviation.UNKNOWN_KINDS_ARE_SERVED: lambda r: any(
        not one.get("status", {}).get("apiEnablements") for one in r["clusters"]
    ),
    Deviation.NO_REQUESTS_NO_GRADES: lambda r: (
        not requests_something(r) and any(one.get("allocatableModelings") for one in summaries(r))
    ),
    Deviation.SCALED_TO_ZERO_STAYS: lambda r: not r["spec"]["replicas"] and "replicaRequirements" in r["spec"],
    Deviation.ZONES_AND_PROVIDERS_ARE_GROUPS: lambda r: bool(spread(r).keys() & {"zone", "provider"}),
    Deviation.WEIGHTED_BY_DEFAULT: lambda r: (
        division(r).get("replicaSchedulingType") == "Divided" and not division(r).get("replicaDivisionPreference")
    ),
    Deviation.FULL_GROUPS_ARE_COMPARED: lambda r: bool(spread(r).keys() - {"cluster"}),
    Deviation.REASONS_ARE_COMPLETE: lambda r: (
        any("deletionTimestamp" in one["metadata"] for one in r["clusters"])
        or "unschedulable" in evaluate(r, as_upstream=True)
    ),
    Deviation.AFFINITY_GROUPS_FROM_THE_FIRST: lambda r: "clusterAffinities" in placement(r),
    **ocm_deviations.MAY_SHOW,
}
OCM = {operation for operation in OPERATIONS if operation.startswith("ocm_")}


def test_every_deviation_says_where_it_may_show() -> None:
    assert set(MAY_SHOW) == {d for d in Deviation if d.operations}


def unexplained(vector: Vector) -> str:
    """The differences of our documented answer that no named deviation explains. Empty if there are none."""
    request = vector["request"]
    ours = evaluate(request, as_upstream=False)
    if fresh.agree(request, vector["expect"], ours):
        return ""
    may_show = MAY_SHOW if request["op"] not in OCM else MAY_SHOW | ocm_deviations.MAY_SHOW_TOO
    named = [d for d in may_show if request["op"] in d.operations and may_show[d](request)]
    if not named:
        return f"no deviation explains the answer to {request}"
    left = ocm_deviations.unexplained(vector["expect"], ours, named)
    return f"{left}: not explained by {named}" if left else ""


# One test for all vectors of an operation, because thousands of tests would take much longer.
@table("operation", sorted(OPERATIONS))
def test_as_documented_differs_by_named_deviations_only(operation: str) -> None:
    vectors = [vector for vector in COMMITTED if vector["request"]["op"] == operation]
    assert {vector["id"]: why for vector in vectors if (why := unexplained(vector))} == {}


def torn(name: str, created: str, **parts: Any) -> Vector:
    """A policy about the taint a:NoExecute."""
    spec = {"taints": [{"key": "a", "effect": "NoExecute"}], **parts}
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}


def member(name: str, *, deleted: bool = False, **parts: Any) -> Vector:
    """A cluster of Karmada that serves Deployments and has room."""
    room = {"allocatable": {"pods": "10", "cpu": "10", "memory": "10Gi"}}
    served = [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]
    metadata: Vector = {"name": name, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    status = {"apiEnablements": served, "resourceSummary": room, **parts.pop("status", {})}
    return {"metadata": metadata, "spec": parts, "status": status}


def binding(members: list[Vector], replicas: int = 3, **parts: Any) -> Vector:
    """A request about a Deployment."""
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}
    spec = {"resource": resource, "replicas": replicas, "placement": {}, **parts}
    return {"op": "karmada_schedule", "clusters": members, "spec": spec}


def over(field: str, most: int = 1) -> Vector:
    return {"spreadConstraints": [{"spreadByField": field, "minGroups": 1, "maxGroups": most}]}


BY_ROOM: Vector = {
    "replicaScheduling": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }
}
NODES: list[Vector] = [{"grade": 0, "count": 2}]


NOT_READY: list[Vector] = [{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}]

ALONE: Vector = {
    "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "web"}},
    "spec": {"nodeName": "n"},
    "status": {"phase": "Pending"},
}
NODE: Vector = {"metadata": {"name": "n"}}
AT = {0: "2026-01-01T00:00:00Z", 5: "2026-01-01T00:00:05Z", 61: "2026-01-01T00:01:01Z"}
NEW_NODE: Vector = {"metadata": {"name": "n", "creationTimestamp": AT[0]}}


REPORTING: Vector = {
    "metadata": {"name": "c"},
    "status": {"conditions": [{"type": "ManagedClusterConditionAvailable", "status": "True"}]},
}
ADD_ON: Vector = {"metadata": {"name": "a", "namespace": "c"}}
QUICK: Vector = {**ADD_ON, "spec": {"renewTime": AT[0], "leaseDurationSeconds": 10}}


def wrote(status: str) -> Vector:
    """The condition `Ready` as a kubelet writes it."""
    return {"type": "Ready", "status": status, "lastHeartbeatTime": AT[0]}


SLOW: Vector = {
    "metadata": {"name": "d", "namespace": "ns", "uid": "u"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "minReadySeconds": 30, "template": {"spec": {"containers": []}}},
}
DAEMON: Vector = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "labels": {"a": "b"},
        "ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}],
    },
    "spec": {"nodeName": "n"},
    "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
}
ONE_STAYS: Vector = {
    "metadata": {"name": "b", "namespace": "ns", "generation": 1},
    "spec": {"selector": {}, "minAvailable": 1},
}

SHOWN: dict[Deviation, tuple[Vector, Vector, Vector]] = {
    # deviation: request, part of upstream's answer, part of ours
    Deviation.SILENT_NODE_IS_READY: (
        {"op": "node_pods", "node": NEW_NODE, "pods": [], "steps": [{"time": AT[0]}, {"time": AT[61]}]},
        {"conditions": dict.fromkeys(("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"), "Unknown")},
        {"conditions": {}},
    ),
    Deviation.PODS_FOLLOW_THEIR_NODE: (
        {
            "op": "node_pods",
            "node": NEW_NODE,
            "pods": [DAEMON],
            "steps": [{"time": AT[0], "conditions": [wrote("True")]}, {"time": AT[5], "conditions": [wrote("False")]}],
        },
        {"conditions": {"Ready": "False"}, "ready": {"ns/p": "True"}},
        {"conditions": {"Ready": "False"}, "ready": {"ns/p": "False"}},
    ),
    Deviation.HEARTBEATS_BY_SOURCE: (
        {
            "op": "node_pods",
            "node": NEW_NODE,
            "pods": [],
            "steps": [{"time": AT[0], "conditions": [wrote("True")]}, {"time": AT[61]}],
        },
        {"conditions": dict.fromkeys(("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"), "Unknown")},
        {"conditions": {"Ready": "Unknown"}},
    ),
    Deviation.ADD_ON_LEASES_STATE_THEIR_DURATION: (
        {"op": "addon_labels", "now": AT[61], "cluster": REPORTING, "addOns": [ADD_ON], "leases": [QUICK]},
        {"labels": {"feature.open-cluster-management.io/addon-a": "available"}},
        {"labels": {"feature.open-cluster-management.io/addon-a": "unhealthy"}},
    ),
    Deviation.READY_IS_AVAILABLE: (
        {"op": "daemonset_status", "now": "2026-01-01T00:00:10Z", "nodes": [NODE], "pods": [DAEMON], "daemonSet": SLOW},
        {"numberReady": 1, "numberAvailable": 0},
        {"numberReady": 1, "numberAvailable": 1},
    ),
    Deviation.UNREPORTED_PODS_COUNT: (
        {"op": "disruption_budget", "budgets": [ONE_STAYS], "pods": [ALONE], "evict": "ns/p"},
        {"eviction": {"code": 201}},
        {"eviction": {"code": 429, "message": "The disruption budget b needs 1 healthy pods and has 1 currently"}},
    ),
    Deviation.EMPTY_KEY_NEEDS_EXISTS: (
        {"op": "tolerates", "toleration": {"value": "x"}, "taint": {"key": "a", "value": "x", "effect": "NoExecute"}},
        {"tolerates": True},
        {"tolerates": False},
    ),
    Deviation.EXISTS_TAKES_NO_VALUE: (
        {
            "op": "tolerates",
            "toleration": {"key": "a", "operator": "Exists", "value": "x"},
            "taint": {"key": "a", "effect": "NoExecute"},
        },
        {"tolerates": True},
        {"tolerates": False},
    ),
    Deviation.COMPARISON_OPERATORS_ON: (
        {
            "op": "evict",
            "comparisonOperators": True,
            "taints": [{"key": "a", "value": "5", "effect": "NoExecute"}],
            "tolerations": [{"key": "a", "operator": "Gt", "value": "3"}],
        },
        {"evict": "now"},
        {"evict": "never"},
    ),
    Deviation.DEADLINE_FROM_TIME_ADDED: (
        {
            "op": "evict",
            "taints": [
                {"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
                {"key": "b", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:30Z"},
            ],
            "tolerations": [
                {"key": "a", "operator": "Exists", "tolerationSeconds": 20},
                {"key": "b", "operator": "Exists", "tolerationSeconds": 10},
            ],
        },
        {"seconds": 10},
        {"seconds": 20, "deadline": "2026-01-01T00:00:20Z"},
    ),
    Deviation.SECONDS_DO_NOT_OVERFLOW: (
        {
            "op": "evict",
            "taints": [{"key": "a", "effect": "NoExecute"}],
            "tolerations": [{"operator": "Exists", "tolerationSeconds": 18446744074}],
        },
        {"seconds": 0},
        {"seconds": 18446744074},
    ),
    Deviation.SECONDS_OF_FIRST_MATCH: (
        {
            "op": "karmada_evict",
            "now": "2026-01-01T00:00:00Z",
            "taints": [
                {"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
                {"key": "b", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:30Z"},
            ],
            "tolerations": [
                {"key": "a", "operator": "Exists", "tolerationSeconds": 90},
                {"operator": "Exists", "tolerationSeconds": 40},
            ],
        },
        {"seconds": 40},
        {"seconds": 70},
    ),
    Deviation.NO_TIME_IS_AT_ONCE: (
        {
            "op": "karmada_evict",
            "now": "2026-01-01T00:00:00Z",
            "taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:01:00Z"}],
            "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 0}],
        },
        {"evict": "after", "seconds": 60},
        {"evict": "now", "seconds": 0},
    ),
    Deviation.MISSING_TIME_ADDED_IS_NOW: (
        {
            "op": "karmada_evict",
            "now": "2026-01-01T00:00:00Z",
            "taints": [{"key": "a", "effect": "NoExecute"}],
            "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}],
        },
        {"evict": "never", "seconds": -1},
        {"evict": "after", "seconds": 5},
    ),
    Deviation.UNSTATED_ROOM_IS_ENOUGH: (
        {
            "op": "pod_schedule",
            "pod": {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}},
            "nodes": [{"metadata": {"name": "n"}}],
        },
        {"nodes": {"n": {"fits": False, "reasons": {"NodeResourcesFit": ["Too many pods"]}}}},
        {
            "nodes": {
                "n": {
                    "fits": True,
                    "reasons": {},
                    "scores": {
                        "InterPodAffinity": 0,
                        "NodeAffinity": 0,
                        "NodeResourcesFit": 100,
                        "PodTopologySpread": 0,
                        "TaintToleration": 100,
                    },
                }
            }
        },
    ),
    Deviation.OLDER_ZONE_FIELD: (
        {
            "op": "ctp",
            "cluster": {"spec": {"zone": "z"}},
            "conditions": [{"type": "Ready", "status": "False"}],
            "policies": [
                torn(
                    "p",
                    "2025-01-02T00:00:00Z",
                    addOnConditions=NOT_READY,
                    targetClusters={
                        "fieldSelector": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}
                    },
                )
            ],
        },
        {"taints": []},
        {"taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "NOW"}]},
    ),
    Deviation.KEPT_THROUGH_ONE_UPDATE: (
        {
            "op": "ctp",
            "conditions": [{"type": "Ready", "status": "False"}],
            "taints": [
                {"key": "a", "effect": "NoExecute", "timeAdded": "2025-06-01T00:00:00Z"},
                {"key": "b", "effect": "NoExecute", "timeAdded": "2025-06-02T00:00:00Z"},
            ],
            "policies": [
                torn("p", "2025-01-02T00:00:00Z", addOnConditions=NOT_READY),
                torn("q", "2025-01-01T00:00:00Z", removeOnConditions=NOT_READY),
            ],
        },
        {
            "patched": True,
            "taints": [
                {"key": "b", "effect": "NoExecute", "timeAdded": "2025-06-02T00:00:00Z"},
                {"key": "a", "effect": "NoExecute", "timeAdded": "NOW"},
            ],
        },
        {
            "patched": False,
            "taints": [
                {"key": "a", "effect": "NoExecute", "timeAdded": "2025-06-01T00:00:00Z"},
                {"key": "b", "effect": "NoExecute", "timeAdded": "2025-06-02T00:00:00Z"},
            ],
        },
    ),
    Deviation.NOTHING_CHANGED_NOTHING_WRITTEN: (
        {
            "op": "ctp",
            "conditions": [{"type": "Ready", "status": "False"}],
            "policies": [
                {
                    "metadata": {"name": "p"},
                    "spec": {
                        "addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}],
                        "removeOnConditions": [{"conditionType": "Ready", "operator": "NotIn", "statusValues": []}],
                        "taints": [{"key": "a", "effect": "NoSchedule"}],
                    },
                }
            ],
        },
        {"taints": [], "patched": True},
        {"taints": [], "patched": False, "events": []},
    ),
    Deviation.BUILT_IN_IS_THE_STATES: (
        {
            "op": "ctp",
            "conditions": [{"type": "Net", "status": "False"}],
            "policies": [
                {
                    "metadata": {"name": "p"},
                    "spec": {
                        "addOnConditions": [{"conditionType": "Net", "operator": "In", "statusValues": ["False"]}],
                        "taints": [{"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"}],
                    },
                }
            ],
        },
        {"taints": [{"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule", "timeAdded": "NOW"}]},
        {"taints": []},
    ),
    Deviation.SECONDS_WITH_ANY_EFFECT: (
        {"op": "validate", "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]},
        {"valid": False},
        {"valid": True},
    ),
    Deviation.KEY_LENGTH: (
        {"op": "validate", "tolerations": [{"key": f"{'p' * 253}/k", "operator": "Exists"}]},
        {"valid": True},
        {"valid": False},
    ),
    Deviation.WORDS_OF_TODAY: (
        {"op": "parse_taints", "spec": [f"{'k' * 64}:NoExecute"]},
        {"error": f"invalid taint spec: {'k' * 64}:NoExecute, name part must be no more than 63 characters"},
        {"error": f"invalid taint spec: {'k' * 64}:NoExecute, name part must be no more than 63 bytes"},
    ),
    Deviation.REMOVE_BY_KEY: (
        {"op": "set_taints", "taints": [{"key": "a", "effect": "NoExecute"}], "remove": [{"key": "a"}]},
        {"taints": [{"key": "a", "effect": "NoExecute"}]},
        {"taints": []},
    ),
    Deviation.ADD_ONCE: (
        {
            "op": "set_taints",
            "add": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute", "value": "x"}],
        },
        {
            "taints": [
                {"key": "a", "effect": "NoExecute", "timeAdded": "NOW"},
                {"key": "a", "effect": "NoExecute", "timeAdded": "NOW", "value": "x"},
            ]
        },
        {"taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "NOW"}]},
    ),
    Deviation.OVERWRITE: (
        {
            "op": "set_taints",
            "overwrite": True,
            "taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}],
            "add": [{"key": "a", "effect": "NoExecute", "value": "x"}],
        },
        {"taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]},
        {"taints": [{"key": "a", "effect": "NoExecute", "value": "x", "timeAdded": "NOW"}]},
    ),
    Deviation.TIME_KEEPS_FRACTION: (
        {"op": "set_taints", "taints": [{"key": "a", "effect": "x", "timeAdded": "2026-01-01T00:00:00.5Z"}]},
        {"taints": [{"key": "a", "effect": "x", "timeAdded": "2026-01-01T00:00:00Z"}]},
        {"taints": [{"key": "a", "effect": "x", "timeAdded": "2026-01-01T00:00:00.500000Z"}]},
    ),
    Deviation.CLEAR_ERRORS: (
        {"op": "normalize", "score": [1]},
        {"scores": []},
        {"error": "score: Forbidden: unknown field; known fields: id, op, unstable, scores"},
    ),
    Deviation.NO_MAXIMUM_MEANS_NO_LIMIT: (
        binding([member("a")], placement=over("cluster", 0)),
        {"unschedulable": "failed to assign replicas: no clusters available to schedule"},
        {"targets": {"a": 3}},
    ),
    Deviation.SCALE_DOWN_AMONG_THE_CHOSEN: (
        binding(
            [member("a"), member("b", region="r")],
            2,
            placement={**BY_ROOM, "clusterAffinity": {"clusterNames": ["a"]}},
            clusters=[{"name": "a", "replicas": 3}, {"name": "b", "replicas": 3}],
        ),
        {"targets": {"a": 1, "b": 1}},
        {"targets": {"a": 2}},
    ),
    Deviation.UNKNOWN_ROOM_IS_ENOUGH: (
        binding([member("a", status={"resourceSummary": None})], placement=BY_ROOM),
        {
            "unschedulable": (
                "failed to assign replicas: failed to scale up: "
                "Clusters available replicas 0 are not enough to schedule."
            )
        },
        {"targets": {"a": 3}},
    ),
    Deviation.UNKNOWN_KINDS_ARE_SERVED: (
        binding([member("a", status={"apiEnablements": None})]),
        {"fits": False, "why": {"a": "cluster(s) did not have the API resource"}},
        {"fits": True, "targets": {"a": 3}},
    ),
    Deviation.NO_REQUESTS_NO_GRADES: (
        binding(
            [
                member(
                    "a",
                    resourceModels=[{"grade": 0, "ranges": [{"name": "cpu", "min": "1"}]}],
                    status={"resourceSummary": {"allocatable": {"pods": "10"}, "allocatableModelings": NODES}},
                )
            ],
            placement=BY_ROOM,
            replicaRequirements={"resourceRequest": {"cpu": "0"}},
        ),
        {
            "unschedulable": (
                "failed to assign replicas: failed to scale up: "
                "Clusters available replicas -2 are not enough to schedule."
            )
        },
        {"targets": {"a": 3}},
    ),
    Deviation.SCALED_TO_ZERO_STAYS: (
        binding([member("a")], 0, replicaRequirements={"resourceRequest": {"cpu": "1"}}),
        {"targets": {}},
        {"targets": {"a": 0}},
    ),
    Deviation.ZONES_AND_PROVIDERS_ARE_GROUPS: (
        binding([member("a", zones=["z"])], placement=over("zone")),
        {"unschedulable": "failed to select clusters: just support cluster and region spread constraint"},
        {"targets": {"a": 3}},
    ),
    Deviation.WEIGHTED_BY_DEFAULT: (
        binding([member("a")], placement={"replicaScheduling": {"replicaSchedulingType": "Divided"}}),
        {
            "unschedulable": (
                "failed to assign replicas: unsupported replica scheduling strategy, replicaSchedulingType: Divided, "
                "replicaDivisionPreference: , please try another scheduling strategy"
            )
        },
        {"targets": {"a": 3}},
    ),
    Deviation.FULL_GROUPS_ARE_COMPARED: (
        binding([member("a", region="r")], 20, placement=over("region")),
        {"panic": True},
        {"targets": {"a": 20}},
    ),
    Deviation.REASONS_ARE_COMPLETE: (
        binding([member("a", deleted=True)]),
        {"fits": False, "why": {}},
        {"fits": False, "why": {"a": "cluster(s) is being deleted"}},
    ),
    Deviation.AFFINITY_GROUPS_FROM_THE_FIRST: (
        binding(
            [member("a")],
            placement={
                "clusterAffinities": [
                    {"affinityName": "g1", "clusterNames": ["a"]},
                    {"affinityName": "g2", "clusterNames": ["b"]},
                ]
            },
        )
        | {"status": {"schedulerObservingAffinityName": "g2"}},
        {"fits": False},
        {"fits": True, "targets": {"a": 3}},
    ),
    **ocm_deviations.SHOWN,
}


@table("deviation", MAY_SHOW, ids=lambda d: d.slug)
def test_each_deviation_shows_in_a_case(deviation: Deviation) -> None:
    request, upstream, ours = SHOWN[deviation]
    assert request["op"] in deviation.operations
    assert evaluate(request, as_upstream=True).items() >= upstream.items()
    assert evaluate(request, as_upstream=False).items() >= ours.items()
