"""Records the default values of fields that a kube-apiserver shows, for small manifests of Moorage's kinds.

    python -m tests.conformance.field_defaults KUBECTL KUBECONFIG > FILE

Nothing is written to the server: every manifest is created as a dry run. Each line has a manifest (`sent`) and the
object that the server makes of it (`shown`), without what it decides for other reasons than defaults.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]

_DIGEST = "@sha256:" + "0" * 64
_IMAGES = ("nginx", "nginx:1", "nginx:latest", "r.example/a/b", "r.example:50/a/b", "r.example:50/a/b:2", "a" + _DIGEST)
_SOURCES: tuple[Document, ...] = (
    {},
    {"emptyDir": {}},
    {"secret": {"secretName": "s"}},
    {"secret": {"secretName": "s", "defaultMode": 256}},
    {"configMap": {"name": "c"}},
    {"hostPath": {"path": "/x"}},
    {"hostPath": {"path": "/x", "type": "Directory"}},
    {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    {"projected": {"sources": [{"configMap": {"name": "c"}}]}},
    {
        "projected": {
            "sources": [{"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}}]
        }
    },
    {"iscsi": {"targetPortal": "a", "iqn": "iqn.2001-04.com.example:storage", "lun": 0}},
    {
        "ephemeral": {
            "volumeClaimTemplate": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        }
    },
    {"image": {"reference": "x:1"}},
    {"image": {"reference": "x"}},
    {"persistentVolumeClaim": {"claimName": "c"}},
)
_CONTAINERS: tuple[Document, ...] = (
    {"ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]},
    {"livenessProbe": {"httpGet": {"port": 80}}},
    {
        "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 3},
        "ports": [{"name": "http", "containerPort": 1}],
    },
    {"startupProbe": {"grpc": {"port": 80}}},
    {"livenessProbe": {"exec": {"command": ["true"]}, "failureThreshold": 1}},
    {"lifecycle": {"postStart": {"httpGet": {"port": 1}}, "preStop": {"exec": {"command": ["true"]}}}},
    {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B", "value": "1"}]},
    {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]},
    {"resources": {"limits": {"cpu": "1", "memory": "64Mi"}}},
    {"resources": {"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "100m"}}},
    {"resources": {"requests": {"cpu": "100m"}}},
    {"terminationMessagePolicy": "FallbackToLogsOnError", "imagePullPolicy": "Never"},
    {"securityContext": {"privileged": False}},
)
_PODS: tuple[Document, ...] = (
    {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
    {"dnsPolicy": "Default", "schedulerName": "mine", "enableServiceLinks": False},
    {"securityContext": {"runAsUser": 1}, "nodeSelector": {"a": "b"}},
    {"hostNetwork": True},
    {"hostPID": True, "shareProcessNamespace": False},
    {"initContainers": [{"name": "i", "image": "busybox", "resources": {"limits": {"cpu": "1"}}}]},
    {"initContainers": [{"name": "i", "image": "busybox:1", "restartPolicy": "Always"}]},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]},
    {"tolerations": [{"operator": "Exists"}]},
    {"activeDeadlineSeconds": 5, "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}]},
)
_CLAIM: Document = {
    "metadata": {"name": "v"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
_CONTROLLERS: tuple[tuple[str, Document], ...] = (
    ("Deployment", {}),
    ("Deployment", {"replicas": 0, "strategy": {"type": "Recreate"}}),
    ("Deployment", {"strategy": {"rollingUpdate": {"maxSurge": 2}}, "paused": True}),
    ("Deployment", {"strategy": {"type": "RollingUpdate"}, "minReadySeconds": 3, "revisionHistoryLimit": 0}),
    ("ReplicaSet", {}),
    ("ReplicaSet", {"replicas": 3, "minReadySeconds": 1}),
    ("StatefulSet", {}),
    ("StatefulSet", {"serviceName": "s", "updateStrategy": {"type": "OnDelete"}}),
    ("StatefulSet", {"podManagementPolicy": "Parallel", "updateStrategy": {"rollingUpdate": {"partition": 2}}}),
    ("StatefulSet", {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}),
    ("StatefulSet", {"volumeClaimTemplates": [_CLAIM]}),
    ("DaemonSet", {}),
    ("DaemonSet", {"updateStrategy": {"type": "OnDelete"}}),
    ("DaemonSet", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}}}),
)
_JOBS: tuple[Document, ...] = (
    {},
    {"parallelism": 3},
    {"completions": 2},
    {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1},
    {"suspend": True, "backoffLimit": 0, "ttlSecondsAfterFinished": 5},
    {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}},
)
_SERVICES: tuple[Document, ...] = (
    {},
    {"clusterIP": "None"},
    {"type": "NodePort"},
    {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
    {"sessionAffinity": "ClientIP"},
    {"ports": [{"port": 53, "protocol": "UDP", "targetPort": "dns"}]},
)
_SUBJECTS = [
    {"kind": "User", "name": "a"},
    {"kind": "Group", "name": "g"},
    {"kind": "ServiceAccount", "name": "s", "namespace": "default"},
]
_LABELS = {"app": "a"}
_DECIDED = {
    "Pod": ("tolerations",),
    "Service": ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"),
    "Job": ("selector",),
}
"""Fields of `spec` that the server fills in for other reasons."""


def _object(api_version: str, kind: str, spec: Document) -> Document:
    metadata = {"name": "a", "namespace": "default"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _container(more: Document) -> Document:
    return {"containers": [{"name": "c", "image": "nginx:1", **more}]}


def manifests() -> Iterator[Document]:
    """Return the manifests."""
    yield from _pods()
    yield from _workloads()
    yield from _others()


def _pods() -> Iterator[Document]:
    for image in _IMAGES:
        yield _object("v1", "Pod", _container({"image": image}))
    for more in _CONTAINERS:
        yield _object("v1", "Pod", _container(more))
    for source in _SOURCES:
        yield _object("v1", "Pod", {**_container({}), "volumes": [{"name": "v", **source}]})
    for spec in _PODS:
        yield _object("v1", "Pod", {**_container({"ports": [{"containerPort": 80}]}), **spec})


def _workloads() -> Iterator[Document]:
    for kind, spec in _CONTROLLERS:
        template = {"metadata": {"labels": _LABELS}, "spec": _container({"ports": [{"containerPort": 80}]})}
        yield _object("apps/v1", kind, {"selector": {"matchLabels": _LABELS}, "template": template, **spec})
    for more in (*_CONTAINERS, {"image": "nginx"}):
        template = {"metadata": {"labels": _LABELS}, "spec": {**_container(more), "hostNetwork": True}}
        yield _object("apps/v1", "Deployment", {"selector": {"matchLabels": _LABELS}, "template": template})
    for spec in _JOBS:
        yield _object("batch/v1", "Job", {"template": {"spec": {**_container({}), "restartPolicy": "Never"}}, **spec})


def _others() -> Iterator[Document]:
    for spec in _SERVICES:
        yield _object("v1", "Service", {"selector": _LABELS, "ports": [{"port": 80}], **spec})
    yield _object("v1", "Service", {"type": "ExternalName", "externalName": "a.example"})
    for amount in ({"minAvailable": 1}, {"maxUnavailable": "10%"}):
        yield _object("policy/v1", "PodDisruptionBudget", {"selector": {"matchLabels": _LABELS}, **amount})
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        found = _object("rbac.authorization.k8s.io/v1", kind, {})
        del found["spec"]
        yield {**found, "roleRef": {"kind": "ClusterRole", "name": "x"}, "subjects": _SUBJECTS}
    yield _object("coordination.k8s.io/v1", "Lease", {"holderIdentity": "a", "leaseDurationSeconds": 5})


def compared(document: Document) -> Document:
    """An object without what has other reasons than defaults."""
    kind = document["kind"]
    found = {key: value for key, value in document.items() if key not in {"metadata", "status"}}
    if "spec" in found:
        found["spec"] = {key: one for key, one in found["spec"].items() if key not in _DECIDED.get(kind, ())}
    if kind == "Job":
        found["spec"]["template"] = {"spec": found["spec"]["template"]["spec"]}
    if kind == "Service":
        ports = found["spec"].get("ports")
        if ports is not None:
            found["spec"]["ports"] = [{k: v for k, v in port.items() if k != "nodePort"} for port in ports]
    return found


def main() -> None:
    """Print the pairs."""
    kubectl, kubeconfig = sys.argv[1:]
    for sent in manifests():
        done = subprocess.run(
            [*kubectl.split(), "--kubeconfig", kubeconfig, "create", "--dry-run=server", "-o", "json", "-f", "-"],
            input=json.dumps(sent),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{json.dumps(sent)}: {done.stderr}")
        pair = {"sent": sent, "shown": compared(json.loads(done.stdout))}
        sys.stdout.write(f"{json.dumps(pair, sort_keys=True)}\n")


if __name__ == "__main__":
    main()
