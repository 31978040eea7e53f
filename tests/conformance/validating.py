"""Random objects with flaws, and what a real kube-apiserver says of them.

    python -m tests.conformance.validating --plane FOLDER [--count 600] [--seed TEXT] [--record FILE]

Each object begins as a valid one and gets some flaws. It is sent to the control plane whose `kubeconfig` is in the
folder with `dryRun=All`, so nothing is made there. The answers are compared with Moorage's: status, reason, causes.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import os
import random
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.patching_plane import VARIABLE, Plane, PlaneMissingError

from moorage.core.admission.feature_gates import FeatureGates
from moorage.core.admission.field_defaults import with_field_defaults
from moorage.gateway.admission import validation
from moorage.gateway.errors import StatusError
from moorage.kinds.kind import ServedKind, named
from moorage_schemas.resources.meta import Resource

Document = dict[str, Any]
Answer = dict[str, Any]
Pair = tuple[Document, Answer]

_LONG = "x" * 64
_NAMES = ("Bad_Name", "a.b", "-x", _LONG, "")
_LABELS = ({"a b": "c"}, {"a": "b c"}, {"x/y/z": "b"}, {"a": _LONG})
_NUMBERS = (-1, 0, 1, 70_000)
_AMOUNTS = (0, 1, -1, "0%", "25%", "200%", "x")
_QUANTITIES = ("100m", "0.5", "-1", "1Gi", "1024Mi", "1500m", "2k", "1e3")
_PROBES: tuple[Document, ...] = (
    {},
    {"httpGet": {"port": "Bad"}},
    {"httpGet": {"port": 0, "scheme": "FTP", "httpHeaders": [{"name": "a b"}]}},
    {"exec": {}, "tcpSocket": {"port": 80}},
    {"grpc": {"port": 1}, "successThreshold": 2, "initialDelaySeconds": -1},
    {"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 0},
)
_REQUIREMENTS = (
    {"key": "a", "operator": "In"},
    {"key": "a b", "operator": "In", "values": ["x y"]},
    {"key": "a", "operator": "Exists", "values": ["b"]},
    {"key": "a", "operator": "Foo"},
    {"key": "a", "operator": "Gt", "values": ["1", "2"]},
    {"key": "metadata.name", "operator": "In", "values": ["a", "b"]},
)
_SELECTORS = tuple({"matchExpressions": [one]} for one in _REQUIREMENTS)
_TERMS = (
    {"topologyKey": ""},
    {"topologyKey": "zone", "namespaces": ["Bad_Name"]},
    {"topologyKey": "a b", "labelSelector": _SELECTORS[1]},
    {"topologyKey": "zone", "matchLabelKeys": ["a"]},
    {"topologyKey": "zone", "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"], "labelSelector": {}},
)

Flaws = dict[str, tuple[Any, ...]]

_METADATA: Flaws = {
    "metadata.name": _NAMES,
    "metadata.labels": _LABELS,
    "metadata.annotations": ({"a b": "c"},),
}
_CONTAINER: Flaws = {
    "name": (*_NAMES, "second"),
    "image": ("", " a "),
    "imagePullPolicy": ("Sometimes",),
    "terminationMessagePolicy": ("Foo",),
    "restartPolicy": ("Always", "Foo"),
    "ports": (
        [{"containerPort": 0}],
        [{"containerPort": 70_000, "name": "Web"}],
        [{"containerPort": 1, "name": name} for name in ("a--b", "1", "a-very-long-name-of-a-port", "-a")],
        [{"containerPort": 1, "name": "a", "hostPort": 2}, {"containerPort": 3, "name": "a", "hostPort": 2}],
        [{"containerPort": 1, "protocol": "HTTP", "hostPort": -1}],
    ),
    "env": (
        [{"name": ""}, {"name": "a=b"}, {"name": "1"}],
        [{"name": "A", "valueFrom": {}}],
        [{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.foo"}}}],
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}],
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name['a']"}}}],
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}}],
        [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.foo"}}}],
        [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "A b", "key": ".."}}}],
        [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": ""}}}],
    ),
    "envFrom": (
        [{}],
        [{"configMapRef": {}, "secretRef": {"name": "A b"}}],
        [{"prefix": "=", "secretRef": {"name": "a"}}],
    ),
    "volumeMounts": (
        [{"name": "none", "mountPath": "/a"}],
        [{"name": "data", "mountPath": ""}, {"name": "data", "mountPath": "/a", "subPath": "../b"}],
        [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/a", "subPathExpr": "/b"}],
        [{"name": "data", "mountPath": "/a", "mountPropagation": "Bidirectional"}],
        [{"name": "data", "mountPath": "/a", "mountPropagation": "Foo"}],
    ),
    "volumeDevices": ([{"name": "data", "devicePath": "/../a"}], [{"name": "none", "devicePath": ""}]),
    "resources": (
        *({"requests": {"cpu": value}, "limits": {"cpu": "100m"}} for value in _QUANTITIES),
        {"requests": {"foo": "1"}},
        {"limits": {"nvidia.com/gpu": "1500m"}},
        {"requests": {"nvidia.com/gpu": "1"}},
        {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}},
        {"limits": {"hugepages-2Mi": "1Mi"}, "requests": {"hugepages-2Mi": "1Mi"}},
        {"limits": {"a b": "1"}},
        {"claims": [{"name": "none"}]},
    ),
    "livenessProbe": _PROBES,
    "readinessProbe": _PROBES,
    "startupProbe": _PROBES,
    "lifecycle": ({"preStop": {}}, {"preStop": {"sleep": {"seconds": 100}}}, {"postStart": {"exec": {}}}),
    "resizePolicy": (
        [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
        [{"resourceName": "gpu", "restartPolicy": "Foo"}],
    ),
    "securityContext": ({"runAsUser": -1, "runAsGroup": -1},),
}
_POD: Flaws = {
    "containers": ([],),
    "volumes": (
        [{"name": "data"}, {"name": "data"}, {"name": "Bad_Name"}],
        [{"name": "data", "emptyDir": {"sizeLimit": "-1"}, "secret": {"secretName": "a"}}],
        [{"name": "data", "hostPath": {"path": "/../a"}}, {"name": "b", "hostPath": {"path": "", "type": "Foo"}}],
        [{"name": "data", "secret": {"defaultMode": 1000, "items": [{"key": "", "path": "/a"}]}}],
        [{"name": "data", "configMap": {"name": "a", "items": [{"key": "a", "path": "..a", "mode": -1}]}}],
        [
            {"name": "data", "persistentVolumeClaim": {"claimName": ""}},
            {"name": "b", "nfs": {"server": "", "path": "a"}},
        ],
        [{"name": "data", "downwardAPI": {"items": [{"path": "a"}]}}],
        [{"name": "data", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "status.podIP"}}]}}],
    ),
    "restartPolicy": ("Always", "Never", "OnFailure", "Sometimes", ""),
    "dnsPolicy": ("None", "Foo"),
    "nodeSelector": _LABELS,
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
            for selector in _SELECTORS
        ),
    ),
    "terminationGracePeriodSeconds": (-1, 0),
    "activeDeadlineSeconds": (-1, 0, 5),
    "hostNetwork": (True,),
    "nodeName": ("Bad_Name",),
    "hostname": ("a.b",),
    "subdomain": ("Bad_Name",),
    "serviceAccountName": ("Bad_Name",),
    "priorityClassName": (),
    "schedulingGates": ([{"name": "a b"}], [{"name": "a"}, {"name": "a"}]),
    "readinessGates": ([{"conditionType": "a b"}],),
    "hostAliases": ([{"ip": "1.2.3.4", "hostnames": ["A b"]}],),
    "ephemeralContainers": ([{"name": "e", "image": "a"}],),
    "securityContext": ({"runAsUser": -1},),
}
_CONTROLLER: Flaws = {
    "spec.selector": (None, {}, {"matchLabels": {"a": "c"}}, *_SELECTORS),
    "spec.template.metadata.labels": (None, {}, {"a": "b", "c": "d e"}, *_LABELS),
    "spec.template.metadata.annotations": ({"a b": "c"},),
    "spec.minReadySeconds": (-1, 600),
}


def _within(path: str, flaws: Flaws) -> Flaws:
    return {f"{path}.{field}": values for field, values in flaws.items()}


def _pod_flaws(path: str) -> Flaws:
    found = _within(path, _POD)
    for where in ("containers.0", "containers.1", "initContainers.0"):
        found |= _within(f"{path}.{where}", _CONTAINER)
    return found


_SPEC: Document = {
    "containers": [{"name": "first", "image": "a:1"}, {"name": "second", "image": "a:1"}],
    "initContainers": [{"name": "before", "image": "a:1"}],
    "volumes": [{"name": "data", "emptyDir": {}}],
}
_TEMPLATE: Document = {"metadata": {"labels": {"a": "b"}}, "spec": _SPEC}
_IN_TEMPLATE = {**_METADATA, **_CONTROLLER, **_pod_flaws("spec.template.spec")}
_ROLLING = tuple(
    {"type": kind, "rollingUpdate": {"maxUnavailable": one}} for kind in ("RollingUpdate", "Foo") for one in _AMOUNTS
)
_SURGES = tuple({"rollingUpdate": {"maxSurge": one, "maxUnavailable": two}} for one in _AMOUNTS for two in (0, 1))


def _controlled(kind: str, flaws: Flaws, **spec: Any) -> tuple[Document, Flaws]:
    group = "batch/v1" if kind == "Job" else "apps/v1"
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"a": "b"}}}
    start = {"apiVersion": group, "kind": kind, "spec": {**selector, "template": _TEMPLATE, **spec}}
    found = {**_IN_TEMPLATE, **_within("spec", flaws)}
    if kind == "Job":  # a kube-apiserver gives it a selector, and a label with its name
        found |= {"spec.selector": (), "metadata.name": ("Bad_Name", "a.b")}
    return start, found


_STARTS: dict[str, tuple[Document, Flaws]] = {
    "pods": ({"apiVersion": "v1", "kind": "Pod", "spec": _SPEC}, {**_METADATA, **_pod_flaws("spec")}),
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
            **_METADATA,
            "spec.taints": (
                [{"key": "a b", "effect": "Foo"}, {"key": "a", "value": "b c", "effect": ""}],
                [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "b", "effect": "NoSchedule"}],
            ),
            "spec.podCIDRs": (["x"], ["10.0.0.0/24", "10.0.1.0/24"]),
            "status.capacity": ({"cpu": "-1"}, {"pods": "500m"}),
            "status.allocatable": ({"memory": "-1"},),
        },
    ),
    "namespaces": ({"apiVersion": "v1", "kind": "Namespace"}, _METADATA),
    "poddisruptionbudgets": (
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": 1}},
        {
            "spec.minAvailable": _AMOUNTS,
            "spec.maxUnavailable": _AMOUNTS,
            "spec.selector": _SELECTORS,
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
}


def bodies(seed: str, count: int) -> Iterator[Document]:
    """Objects with flaws.

    Args:
        seed: of everything that is random.
        count: the number of objects.
    """
    pick = random.Random(seed)  # noqa: S311 - the same seed gives the same objects
    for number in range(count):
        start, flaws = pick.choice(tuple(_STARTS.values()))
        body = copy.deepcopy(start)
        body["metadata"] = {"name": f"flawed-{number}"}
        if body["kind"] == "Job":
            body["spec"]["template"]["spec"]["restartPolicy"] = pick.choice(("Never", "OnFailure"))
        for path in pick.sample(sorted(flaws), pick.randint(1, min(4, len(flaws)))):
            if flaws[path]:
                _set(body, path.split("."), copy.deepcopy(pick.choice(flaws[path])))
        yield body


def _set(body: Any, path: list[str], value: Any) -> None:
    """Set a field, unless what it is in was replaced by something without it."""
    for step in path[:-1]:
        if isinstance(body, list):
            if int(step) >= len(body):
                return
            body = body[int(step)]
        else:
            body = body.setdefault(step, {})
    if value is None:
        body.pop(path[-1], None)
    else:
        body[path[-1]] = value


def asked(plane: Plane, body: Document) -> Answer:
    """What a kube-apiserver answers."""
    definition = named(body["kind"])
    if definition is None:
        raise ValueError(body["kind"])
    prefix = f"/apis/{body['apiVersion']}" if definition.group else f"/api/{body['apiVersion']}"
    path = (
        f"{prefix}/namespaces/default/{definition.plural}" if definition.namespaced else f"{prefix}/{definition.plural}"
    )
    found = plane.send("POST", path, body, dryRun="All")
    if "result" in found:
        return {"code": 201, "causes": []}
    # Errors about taints name the field of the document here, which a kube-apiserver calls metadata.taints.
    causes = [[*rest, field.replace("metadata.taints", "spec.taints")] for *rest, field in found.get("causes", ())]
    return (
        {"code": found["code"], "causes": sorted(causes)}
        if causes
        else {"code": found["code"], "error": found["error"]}
    )


def answered(body: Document) -> Answer:
    """What Moorage answers."""
    definition = named(body["kind"])
    if definition is None:
        raise ValueError(body["kind"])
    kind = ServedKind(definition, definition.versions[0])
    metadata = {**body["metadata"], **({"namespace": "default"} if definition.namespaced else {})}
    document = with_field_defaults({**body, "metadata": metadata})
    try:
        resource: Resource = validation.typed(document, kind)
        broken = validation.broken_rules(resource, document, kind, FeatureGates(), before=None)
        validation.refuse(kind, resource.metadata.name, broken)
    except StatusError as error:
        causes = sorted([one.reason, one.message, one.field] for one in error.causes)
        return {"code": error.code, "causes": causes}
    return {"code": 201, "causes": []}


def read(path: Path) -> list[Pair]:
    """The recorded pairs of a file."""
    return [tuple(json.loads(line)) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


def main() -> int:
    """Send objects to a control plane, compare the answers, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=600, help="number of objects (default 600)")
    parser.add_argument("--seed", default="", help="seed of the objects; by default a new one")
    parser.add_argument("--plane", default=os.environ.get(VARIABLE, ""), help="folder with a kubeconfig")
    parser.add_argument("--record", type=Path, help="file to write the objects and the answers to")
    options = parser.parse_args()
    seed = options.seed or secrets.token_hex(8)
    try:
        plane = Plane(Path(options.plane))
    except PlaneMissingError as problem:
        sys.stderr.write(f"validating: {problem}\n")
        return 2
    pairs = [(body, asked(plane, body)) for body in bodies(seed, options.count)]
    wrong = [(body, theirs, mine) for body, theirs in pairs if (mine := answered(body)) != theirs]
    for body, theirs, mine in wrong[:10]:
        sys.stdout.write(f"{json.dumps(body)}\n{theirs['code']} {mine['code']} {theirs.get('error', '')}\n")
        for mark, one, other in (("theirs", theirs, mine), ("mine", mine, theirs)):
            more = [cause for cause in one.get("causes", ()) if cause not in other.get("causes", ())]
            sys.stdout.write("".join(f"  {mark}: {json.dumps(cause)}\n" for cause in more))
    if options.record:
        text = "".join(json.dumps(pair, separators=(",", ":")) + "\n" for pair in pairs)
        options.record.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    sys.stdout.write(json.dumps({"seed": seed, "objects": len(pairs), "differences": len(wrong)}) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
