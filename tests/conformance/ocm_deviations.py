"""For each deviation of the OCM dialect: the requests whose answers it may change, and an example."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Final

from moorage.conformance.deviations import Deviation
from moorage.conformance.operations import evaluate

Vector = dict[str, Any]

PREFIX: Final = "cluster.open-cluster-management.io"
NOW: Final = "2026-01-01T00:00:00Z"
BEFORE: Final = "2025-12-31T23:59:30Z"
LENGTHS_ALIKE: Final = (None, "1%", "34%", "50%", "100%")


def spec(request: Vector) -> Vector:
    found: Vector = request.get("placement", {}).get("spec", {})
    return found


def taints(request: Vector) -> list[Vector]:
    clusters = [*request.get("clusters", []), *(request[part] for part in ("cluster", "old") if part in request)]
    return [taint for cluster in clusters for taint in cluster.get("spec", {}).get("taints") or []]


def configurations(request: Vector) -> list[Vector]:
    found: list[Vector] = spec(request).get("prioritizerPolicy", {}).get("configurations") or []
    return found


def group(request: Vector) -> Vector:
    found: Vector = spec(request).get("decisionStrategy", {}).get("groupStrategy", {})
    return found


def operators(request: Vector) -> set[str]:
    return {one.get("operator", "") for one in spec(request).get("tolerations") or []}


def timed(request: Vector) -> bool:
    return any("tolerationSeconds" in one for one in spec(request).get("tolerations") or [])


def length(request: Vector) -> Any:
    return group(request).get("clustersPerDecisionGroup")


def wrong_length(request: Vector) -> bool:
    value = length(request)
    return value not in LENGTHS_ALIKE and not isinstance(value, int)


def wrong_selector(request: Vector) -> bool:
    """Whether the selector of a group has an invalid operator, key or value. The check is coarse."""
    for one in group(request).get("decisionGroups") or []:
        for part in ("labelSelector", "claimSelector"):
            for wish in one.get("groupClusterSelector", {}).get(part, {}).get("matchExpressions") or []:
                listed = bool(wish.get("values"))
                if wish["operator"] not in {"In", "NotIn", "Exists", "DoesNotExist"} or " " in wish["key"]:
                    return True
                if listed != (wish["operator"] in {"In", "NotIn"}) or any(" " in v for v in wish.get("values") or []):
                    return True
    return False


def twice(request: Vector) -> bool:
    """Whether a key occurs more than once in the cluster's taints, or in the taints before."""
    lists = (request.get(part, {}).get("spec", {}).get("taints") or [] for part in ("cluster", "old"))
    return any(count > 1 for one in lists for count in Counter(taint["key"] for taint in one).values())


def own_decisions(request: Vector) -> list[Vector]:
    name = request["placement"]["metadata"]["name"]
    return [d for d in request.get("decisions", []) if d["metadata"]["labels"].get(f"{PREFIX}/placement") == name]


def valued(request: Vector) -> bool:
    """Whether the key of a built-in taint occurs with a value."""
    keys = (f"{PREFIX}/unreachable", f"{PREFIX}/unavailable")
    return any(taint["key"] in keys and taint.get("value") for taint in taints(request))


MAY_SHOW: Final[dict[Deviation, Callable[[Vector], bool]]] = {
    Deviation.TIME_COUNTS_FOR_NO_SELECT_ONLY: lambda r: (
        timed(r) and any(taint["effect"] == "NoSelectIfNew" for taint in taints(r))
    ),
    Deviation.PREFER_NO_SELECT_CAN_SCORE: lambda r: any(
        (one.get("scoreCoordinate") or {}).get("builtIn") == "PreferNoSelect" for one in configurations(r)
    ),
    Deviation.EMPTY_TYPE_IS_BUILT_IN: lambda r: any(
        one.get("scoreCoordinate") is not None and not one["scoreCoordinate"].get("type") for one in configurations(r)
    ),
    Deviation.NAME_OF_OLDER_VERSIONS: lambda r: any(one.get("name") for one in configurations(r)),
    Deviation.WEIGHT_IS_ONE: lambda r: any("weight" not in one for one in configurations(r)),
    Deviation.NUMBER_IS_NOT_NEGATIVE: lambda r: spec(r).get("numberOfClusters", 0) < 0,
    Deviation.BINDING_IS_NAMED_AS_ITS_SET: lambda r: any(
        one["spec"].get("clusterSet") != one["metadata"]["name"] for one in r.get("bindings", [])
    ),
    Deviation.SETS_THAT_ARE_ALWAYS_THERE: lambda r: any(
        one["metadata"]["name"] in {"default", "global"} for one in r.get("bindings", [])
    ),
    Deviation.OLDER_SET_TYPE: lambda r: any(
        one.get("spec", {}).get("clusterSelector", {}).get("selectorType")
        not in {None, "", "ExclusiveClusterSetLabel", "LabelSelector"}
        for one in r.get("clusterSets", [])
    ),
    Deviation.STRATEGY_KEEPS_WHAT_IS_RIGHT: lambda r: wrong_length(r) or wrong_selector(r),
    Deviation.LENGTH_AS_DECLARED: wrong_length,
    Deviation.GROUPS_BY_EXPRESSION: lambda r: any(
        "celSelector" in one.get("groupClusterSelector", {}) for one in group(r).get("decisionGroups") or []
    ),
    Deviation.LABELS_WITH_THE_CLUSTERS: lambda r: bool(own_decisions(r)),
    Deviation.DECIDED_AGAIN_IN_TIME: lambda r: (
        (timed(r) and bool(taints(r))) or any("validUntil" in one["status"] for one in r.get("scores", []))
    ),
    Deviation.SAME_WORDS_EACH_TIME: lambda r: (
        sum(one["status"].get("validUntil", NOW) < NOW for one in r.get("scores", [])) > 1
    ),
    Deviation.CLUSTER_TAINTS_ARE_CHECKED: lambda r: (
        any(taint["effect"] not in {"NoSelect", "NoSelectIfNew", "PreferNoSelect"} for taint in taints(r)) or twice(r)
    ),
    Deviation.ONE_IDENTITY: lambda r: twice(r) or valued(r) or "old" in r,
    Deviation.TIME_IS_THE_SYSTEMS: lambda r: (
        r["op"] == "ocm_taint_controller" or not evaluate(r, as_upstream=True)["allowed"]
    ),
}

# Deviations of all dialects that may affect the operations of this one.
MAY_SHOW_TOO: Final[dict[Deviation, Callable[[Vector], bool]]] = {
    Deviation.COMPARISON_OPERATORS_ON: lambda r: bool(operators(r) & {"Gt", "Lt"}),
    Deviation.SECONDS_DO_NOT_OVERFLOW: lambda r: any(
        abs(one.get("tolerationSeconds", 0)) > 2**33 for one in spec(r).get("tolerations") or []
    ),
    Deviation.TIME_KEEPS_FRACTION: lambda r: any("." in (taint.get("timeAdded") or "") for taint in taints(r)),
}


# Deviations that may change only these fields of an answer. The others may change any field.
FIELDS: Final[dict[Deviation, frozenset[str]]] = {
    Deviation.DECIDED_AGAIN_IN_TIME: frozenset({"requeueTime", "hasRequeueAfter"}),
    Deviation.LABELS_WITH_THE_CLUSTERS: frozenset({"placementDecisions"}),
    Deviation.SAME_WORDS_EACH_TIME: frozenset({"status", "syncError"}),
    Deviation.STRATEGY_KEEPS_WHAT_IS_RIGHT: frozenset({"placementDecisions", "placementStatus", "syncError"}),
    Deviation.LENGTH_AS_DECLARED: frozenset({"placementDecisions", "placementStatus", "syncError"}),
}


def unexplained(upstream: Vector, ours: Vector, named: Collection[Deviation]) -> set[str]:
    """The fields that differ although none of the deviations may change them."""
    differ = {name for name in {*upstream, *ours} - {"id"} if upstream.get(name) != ours.get(name)}
    if any(deviation not in FIELDS for deviation in named):
        return set()
    return differ.difference(*(FIELDS[deviation] for deviation in named))


def asked(clusters: list[Vector], of_placement: Vector, **more: Any) -> Vector:
    return {
        "op": "ocm_schedule",
        "now": NOW,
        "clusters": clusters,
        "placement": {"metadata": {"namespace": "ns", "name": "p"}, "spec": of_placement},
        **more,
    }


def cluster(name: str, *its_taints: Vector, **labels: str) -> Vector:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(its_taints)}}


def taint(effect: str, *, key: str = "k", time: str = BEFORE, **more: str) -> Vector:
    return {"key": key, "effect": effect, "timeAdded": time, **more}


def builtin(name: str, weight: int = 1) -> Vector:
    return {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight}


def exact(*made: Vector) -> Vector:
    return {"prioritizerPolicy": {"mode": "Exact", "configurations": list(made)}}


def groups(**made: Any) -> Vector:
    return {"decisionStrategy": {"groupStrategy": made}}


def submitted(*made: Vector, old: list[Vector]) -> Vector:
    return {"op": "ocm_taint_webhook", "cluster": {"spec": {"taints": list(made)}}, "old": {"spec": {"taints": old}}}


IN_S: Final = {f"{PREFIX}/clusterset": "s"}
SETS: Final[Vector] = {
    "clusterSets": [{"metadata": {"name": "s"}, "spec": {}}],
    "bindings": [{"metadata": {"namespace": "ns", "name": "s"}, "spec": {"clusterSet": "s"}}],
}
OLD: Final[list[Vector]] = [
    {
        "metadata": {"namespace": "ns", "name": "p-decision-1", "labels": {f"{PREFIX}/placement": "p"}},
        "status": {"decisions": [{"clusterName": "b"}]},
    }
]


def part(number: int, *clusters: str, name: str = "", index: int | None = None) -> Vector:
    """A PlacementDecision of an answer. Without an index, it has no labels of its group."""
    labels = {f"{PREFIX}/placement": "p"}
    if index is not None:
        labels |= {f"{PREFIX}/decision-group-name": name, f"{PREFIX}/decision-group-index": str(index)}
    return {"name": f"p-decision-{number}", "labels": labels, "clusters": list(clusters)}


def misconfigured(message: str) -> Vector:
    return {"status": {"code": "Misconfigured", "plugin": "", "message": message}, "decisions": []}


SCORES: Final[list[Vector]] = [
    {
        "metadata": {"namespace": name, "name": "demo"},
        "status": {"scores": [{"name": "demo", "value": 9}], "validUntil": BEFORE},
    }
    for name in ("b", "a")
]
DEMO: Final[Vector] = {
    "scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": "demo"}},
    "weight": 1,
}
EXPIRED: Final = {"key": "k", "operator": "Exists", "tolerationSeconds": 10}
LASTING: Final = {"key": "k", "operator": "Exists", "tolerationSeconds": 60}
UNREACHABLE: Final = f"{PREFIX}/unreachable"
NO_WEIGHT: Final[Vector] = {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}}
IN_EU: Final[Vector] = {"celSelector": {"celExpressions": ["managedCluster.metadata.name == 'b'"]}}

SHOWN: Final[dict[Deviation, tuple[Vector, Vector, Vector]]] = {
    # deviation: request, part of upstream's answer, part of ours
    Deviation.TIME_COUNTS_FOR_NO_SELECT_ONLY: (
        asked([cluster("a", taint("NoSelectIfNew"))], {"tolerations": [EXPIRED]}),
        {"decisions": []},
        {"decisions": ["a"]},
    ),
    Deviation.PREFER_NO_SELECT_CAN_SCORE: (
        asked([cluster("a", taint("PreferNoSelect")), cluster("b")], exact(builtin("PreferNoSelect"))),
        misconfigured("incorrect builtin prioritizer: PreferNoSelect"),
        {"decisions": ["b", "a"]},
    ),
    Deviation.EMPTY_TYPE_IS_BUILT_IN: (
        asked([cluster("a")], exact({"scoreCoordinate": {"builtIn": "Balance"}, "weight": 1})),
        misconfigured("addOn should not be empty"),
        {"decisions": ["a"], "scores": {"a": 100}},
    ),
    Deviation.NAME_OF_OLDER_VERSIONS: (
        asked([cluster("a")], exact({"name": "Balance", "weight": 1})),
        misconfigured("scoreCoordinate field is required"),
        {"decisions": ["a"], "scores": {"a": 100}},
    ),
    Deviation.WEIGHT_IS_ONE: (
        asked([cluster("a"), cluster("b")], exact(NO_WEIGHT), decisions=OLD),
        {"decisions": ["a", "b"], "scores": {"a": 0, "b": 0}},
        {"decisions": ["b", "a"], "scores": {"a": 0, "b": 100}},
    ),
    Deviation.NUMBER_IS_NOT_NEGATIVE: (
        asked([cluster("a")], {"numberOfClusters": -1}),
        {"error": "placement.spec.numberOfClusters: Invalid value: -1: must be greater than or equal to 0"},
        misconfigured("spec.numberOfClusters: Invalid value: -1: must be greater than or equal to 0"),
    ),
    Deviation.BINDING_IS_NAMED_AS_ITS_SET: (
        asked(
            [cluster("a", **IN_S)],
            {},
            clusterSets=SETS["clusterSets"],
            bindings=[{"metadata": {"namespace": "ns", "name": "s"}, "spec": {"clusterSet": "other"}}],
        ),
        {"available": ["a"]},
        {"error": 'bindings[0].spec.clusterSet: Invalid value: "other": must be the binding\'s own name, s'},
    ),
    Deviation.SETS_THAT_ARE_ALWAYS_THERE: (
        asked(
            [cluster("a"), cluster("b", **IN_S)],
            {},
            bindings=[{"metadata": {"namespace": "ns", "name": "default"}, "spec": {"clusterSet": "default"}}],
        ),
        {"available": []},
        {"available": ["a"]},
    ),
    Deviation.OLDER_SET_TYPE: (
        asked(
            [cluster("a", **IN_S)],
            {},
            bindings=SETS["bindings"],
            clusterSets=[
                {"metadata": {"name": "s"}, "spec": {"clusterSelector": {"selectorType": "LegacyClusterSetLabel"}}}
            ],
        ),
        {
            "scheduled": False,
            "syncError": "failed to get clusterset: s, clusters, Error: "
            "selectorType is not right: LegacyClusterSetLabel",
        },
        {"scheduled": True, "available": ["a"]},
    ),
    Deviation.STRATEGY_KEEPS_WHAT_IS_RIGHT: (
        asked([cluster("a", **IN_S)], groups(clustersPerDecisionGroup="abc"), **SETS),
        {"placementDecisions": [], "syncError": "abc invalid type: string is not a percentage"},
        {
            "placementDecisions": [part(1, "a", index=0)],
            "syncError": "decisionStrategy.groupStrategy.clustersPerDecisionGroup: Invalid value: 'abc': "
            "must be a number of at least 1, or a percentage from 1% to 100%",
        },
    ),
    Deviation.LENGTH_AS_DECLARED: (
        asked([cluster("a", **IN_S), cluster("b", **IN_S)], groups(clustersPerDecisionGroup="1"), **SETS),
        {"placementDecisions": []},
        {"placementDecisions": [part(1, "a", index=0), part(2, "b", index=1)]},
    ),
    Deviation.GROUPS_BY_EXPRESSION: (
        asked(
            [cluster("a", **IN_S), cluster("b", **IN_S)],
            groups(decisionGroups=[{"groupName": "first", "groupClusterSelector": IN_EU}]),
            **SETS,
        ),
        {"placementDecisions": [part(1, "a", "b", name="first", index=0)]},
        {"placementDecisions": [part(1, "b", name="first", index=0), part(2, "a", index=1)]},
    ),
    Deviation.LABELS_WITH_THE_CLUSTERS: (
        asked([cluster("a", **IN_S)], {}, decisions=OLD, **SETS),
        {"placementDecisions": [part(1, "a")]},
        {"placementDecisions": [part(1, "a", index=0)]},
    ),
    Deviation.DECIDED_AGAIN_IN_TIME: (
        asked([cluster("a", taint("NoSelect"))], {"tolerations": [LASTING]}),
        {"decisions": ["a"], "hasRequeueAfter": False},
        {"decisions": ["a"], "hasRequeueAfter": True, "requeueTime": "2026-01-01T00:00:30Z"},
    ),
    Deviation.SAME_WORDS_EACH_TIME: (
        asked([cluster("b"), cluster("a")], exact(DEMO), scores=SCORES),
        {
            "status": {
                "code": "Warning",
                "plugin": "AddOn/demo/demo",
                "message": "AddOnPlacementScores b/demo a/demo expired",
            }
        },
        {
            "status": {
                "code": "Warning",
                "plugin": "AddOn/demo/demo",
                "message": "AddOnPlacementScores a/demo b/demo expired",
            }
        },
    ),
    Deviation.CLUSTER_TAINTS_ARE_CHECKED: (
        {"op": "ocm_taint_webhook", "cluster": {"spec": {"taints": [taint("NoExecute")]}}},
        {"allowed": True, "taints": [taint("NoExecute", time="NOW")]},
        {
            "allowed": False,
            "message": 'cluster.spec.taints[0].effect: Unsupported value: "NoExecute": '
            'supported values: "NoSelect", "PreferNoSelect", "NoSelectIfNew"',
        },
    ),
    Deviation.ONE_IDENTITY: (
        submitted(taint("NoSelect"), taint("PreferNoSelect"), old=[taint("NoSelect"), taint("PreferNoSelect")]),
        {"allowed": False, "message": 'It is not allowed to set TimeAdded of Taint "k".'},
        {"allowed": True, "taints": [taint("NoSelect"), taint("PreferNoSelect")]},
    ),
    Deviation.TIME_IS_THE_SYSTEMS: (
        {"op": "ocm_taint_controller", "cluster": {"spec": {"taints": []}}},
        {"taints": [{"key": UNREACHABLE, "effect": "NoSelect"}]},
        {"taints": [taint("NoSelect", key=UNREACHABLE, time="NOW")]},
    ),
}
