"""Flaws of pods, of what makes them, and of nodes, namespaces and budgets."""

from __future__ import annotations

from typing import Any

from tests.conformance.flaws.common import LABELS, METADATA, NAMES, Document, Flaws, Starts, within

_NUMBERS = (-1, 0, 1, 70_000)
_AMOUNTS = (0, 1, -1, "0%", "25%", "200%", "x")
_QUANTITIES = ("100m", "0.5", "-1", "1Gi", "1024Mi", "1500m", "2k", "1e3")
_REQUIREMENTS = (
    {"key": "a", "operator": "In"},
    {"key": "a b", "operator": "In", "values": ["x y"]},
    {"key": "a", "operator": "Exists", "values": ["b"]},
    {"key": "a", "operator": "Foo"},
    {"key": "a", "operator": "Gt", "values": ["1", "2"]},
    {"key": "metadata.name", "operator": "In", "values": ["a", "b"]},
)
SELECTORS = tuple({"matchExpressions": [one]} for one in _REQUIREMENTS)
_TERMS = (
    {"topologyKey": ""},
    {"topologyKey": "zone", "namespaces": ["Bad_Name"]},
    {"topologyKey": "a b", "labelSelector": SELECTORS[1]},
    {"topologyKey": "zone", "matchLabelKeys": ["a"]},
    {"topologyKey": "zone", "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"], "labelSelector": {}},
)

_CONTAINER: Flaws = {
    "name": (*NAMES, "second"),
    "image": ("", " a "),
    "imagePullPolicy": ("Sometimes",),
    "restartPolicy": ("Always", "Foo"),
    "ports": (
        [{"containerPort": 1, "name": "a", "hostPort": 2}, {"containerPort": 3, "name": "b", "hostPort": 2}],
        [{"containerPort": 1, "protocol": "HTTP", "hostPort": -1}],
    ),
    "resources": (
        *({"requests": {"cpu": value}, "limits": {"cpu": "100m"}} for value in _QUANTITIES),
        {"requests": {"foo": "1"}},
        {"limits": {"nvidia.com/gpu": "1500m"}},
        {"requests": {"nvidia.com/gpu": "1"}},
        {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}},
        {"limits": {"hugepages-2Mi": "1Mi"}, "requests": {"hugepages-2Mi": "1Mi"}},
        {"limits": {"a b": "1"}},
    ),
}
_POD: Flaws = {
    "containers": ([],),
    "restartPolicy": ("Always", "Never", "OnFailure", "Sometimes", ""),
    "nodeSelector": LABELS,
    "affinity": (
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        *(
            {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{field: [one]}]}
                }
            }
            for one in _REQUIREMENTS
            for field in ("matchExpressions", "matchFields")
        ),
        {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": weight, "preference": {"matchExpressions": [_REQUIREMENTS[1]]}} for weight in (0, 101)
                ]
            }
        },
        *({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}} for term in _TERMS),
        *(
            {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": term}]
                }
            }
            for term in _TERMS
        ),
    ),
    "tolerations": (
        [{"operator": "Equal"}, {"key": "a b", "operator": "Exists", "value": "c"}],
        [{"key": "a", "operator": "Maybe", "effect": "Never"}, {"key": "a", "value": "b c"}],
        [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1}],
    ),
    "topologySpreadConstraints": (
        [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Foo", "labelSelector": {}}],
        [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"} for _ in range(2)],
        [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 0}],
        [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Foo"}],
        *(
            [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]
            for selector in SELECTORS
        ),
    ),
    "terminationGracePeriodSeconds": (-1, 0),
    "activeDeadlineSeconds": (-1, 0, 5),
    "hostNetwork": (True,),
    "nodeName": ("Bad_Name",),
    "serviceAccountName": ("Bad_Name",),
    "priorityClassName": (),
    "schedulingGates": ([{"name": "a b"}], [{"name": "a"}, {"name": "a"}]),
    "readinessGates": ([{"conditionType": "a b"}],),
    "ephemeralContainers": ([{"name": "e", "image": "a"}],),
}
_CONTROLLER: Flaws = {
    "spec.selector": (None, {}, {"matchLabels": {"a": "c"}}, *SELECTORS),
    "spec.template.metadata.labels": (None, {}, {"a": "b", "c": "d e"}, *LABELS),
    "spec.template.metadata.annotations": ({"a b": "c"},),
    "spec.minReadySeconds": (-1, 600),
}


def _pod_flaws(path: str) -> Flaws:
    found = within(path, _POD)
    for where in ("containers.0", "containers.1", "initContainers.0"):
        found |= within(f"{path}.{where}", _CONTAINER)
    return found


_SPEC: Document = {
    "containers": [{"name": "first", "image": "a:1"}, {"name": "second", "image": "a:1"}],
    "initContainers": [{"name": "before", "image": "a:1"}],
}
_TEMPLATE: Document = {"metadata": {"labels": {"a": "b"}}, "spec": _SPEC}
_IN_TEMPLATE = {**METADATA, **_CONTROLLER, **_pod_flaws("spec.template.spec")}
_ROLLING = tuple(
    {"type": kind, "rollingUpdate": {"maxUnavailable": one}} for kind in ("RollingUpdate", "Foo") for one in _AMOUNTS
)
_SURGES = tuple({"rollingUpdate": {"maxSurge": one, "maxUnavailable": two}} for one in _AMOUNTS for two in (0, 1))


def _controlled(kind: str, flaws: Flaws, **spec: Any) -> tuple[Document, Flaws]:
    group = "batch/v1" if kind == "Job" else "apps/v1"
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"a": "b"}}}
    start = {"apiVersion": group, "kind": kind, "spec": {**selector, "template": _TEMPLATE, **spec}}
    found = {**_IN_TEMPLATE, **within("spec", flaws)}
    if kind == "Job":  # a kube-apiserver gives it a selector, and a label with its name
        found |= {"spec.selector": (), "metadata.name": ("Bad_Name", "a.b")}
    return start, found


_OLDER_CONTROLLER: Flaws = {
    "spec.replicas": (None, -1, 0),
    "spec.minReadySeconds": (-1, 5),
    "spec.selector": (None, {}, {"app": "b"}, {"app": "a"}, {"app": "a", "more": "c"}),
    "spec.template": (None, {}),
    "spec.template.metadata": (None, {}, {"labels": {"app": "b"}}, {"labels": {"a b": "c"}}),
    "spec.template.spec.restartPolicy": ("Never", "Foo"),
    "spec.template.spec.activeDeadlineSeconds": (0, 5),
    "spec.template.spec.containers": (None, []),
}
_LABELLED = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}

STARTS: Starts = {
    "pods": ({"apiVersion": "v1", "kind": "Pod", "spec": _SPEC}, {**METADATA, **_pod_flaws("spec")}),
    "deployments": _controlled(
        "Deployment",
        {
            "replicas": _NUMBERS,
            "revisionHistoryLimit": (-1,),
            "progressDeadlineSeconds": (-1, 0),
            "strategy": (
                *_ROLLING,
                *_SURGES,
                {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
                {"type": "Recreate"},
            ),
        },
    ),
    "replicasets": _controlled("ReplicaSet", {"replicas": _NUMBERS}),
    "statefulsets": _controlled(
        "StatefulSet",
        {
            "replicas": _NUMBERS,
            "serviceName": ("Bad_Name",),
            "podManagementPolicy": ("Foo", "Parallel"),
            "updateStrategy": (*_ROLLING, {"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
            "persistentVolumeClaimRetentionPolicy": ({"whenDeleted": "Foo"},),
        },
    ),
    "daemonsets": _controlled("DaemonSet", {"updateStrategy": (*_ROLLING, *_SURGES, {"type": "OnDelete"})}),
    "nodes": (
        {"apiVersion": "v1", "kind": "Node", "spec": {}},
        {
            **METADATA,
            "spec.taints": (
                [{"key": "a b", "effect": "Foo"}, {"key": "a", "value": "b c", "effect": ""}],
                [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "b", "effect": "NoSchedule"}],
            ),
            "spec.podCIDRs": (["x"], ["10.0.0.0/24", "10.0.1.0/24"]),
            "status.capacity": ({"cpu": "-1"}, {"pods": "500m"}),
            "status.allocatable": ({"memory": "-1"},),
        },
    ),
    "namespaces": ({"apiVersion": "v1", "kind": "Namespace"}, METADATA),
    "poddisruptionbudgets": (
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": 1}},
        {
            "spec.minAvailable": _AMOUNTS,
            "spec.maxUnavailable": _AMOUNTS,
            "spec.selector": SELECTORS,
            "spec.unhealthyPodEvictionPolicy": ("Foo",),
        },
    ),
    "jobs": _controlled(
        "Job",
        {
            **dict.fromkeys(("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"), (-1,)),
            "completionMode": ("Indexed", "Foo"),
            "backoffLimitPerIndex": (-1, 1),
            "maxFailedIndexes": (-1, 1),
        },
    ),
    "replicationcontrollers": (
        {"apiVersion": "v1", "kind": "ReplicationController", "spec": {"template": _LABELLED}},
        {**METADATA, **_OLDER_CONTROLLER},
    ),
}
"""The valid objects, and the values that their fields may get instead."""
