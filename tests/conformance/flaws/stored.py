"""Flaws in the structure of kinds that are only stored: names, labels, and texts that a field may not have."""

from __future__ import annotations

from typing import Any

from tests.conformance.flaws.common import METADATA, Flaws, Starts

_BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
_PATH = {"path": "/", "pathType": "Prefix", "backend": _BACKEND}
_NAMED: Flaws = {**METADATA, "metadata.name": ("Bad_Name", "a.b")}
_TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
_PROTOCOLS: tuple[Any, ...] = ([{"port": 1, "protocol": "HTTP"}], [{"port": 1, "protocol": "UDP"}])

STARTS: Starts = {
    "services": (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]},
        },
        {
            **METADATA,
            "spec.sessionAffinity": ("", "None", "ClientIP"),
            "spec.internalTrafficPolicy": ("Cluster", "Local", "Foo", ""),
            "spec.ports": ([{"port": 80, "protocol": "SCTP"}], [{"port": 80, "protocol": "http"}]),
        },
    ),
    "ingresses": (
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "spec": {"ingressClassName": "some", "rules": [{"host": "a.b", "http": {"paths": [_PATH]}}]},
        },
        {**METADATA, "spec.rules": (None, [], [{}], [{"host": "a.b"}])},
    ),
    "networkpolicies": (
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "spec": {
                "podSelector": {"matchLabels": {"a": "b"}},
                "ingress": [{"from": [{"podSelector": {}}]}],
                "egress": [{"ports": [{"port": 80}]}],
            },
        },
        {
            **METADATA,
            "spec.policyTypes": ([], None, ["Ingress", "Ingress"]),
            "spec.egress": ([], [{}], *([{"ports": [{"port": 80, "protocol": one}]}] for one in ("", "UDP"))),
        },
    ),
    "horizontalpodautoscalers": (
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                    }
                ],
            },
        },
        {**METADATA, "spec.minReplicas": (1, 3), "spec.behavior": ({}, {"scaleUp": {}, "scaleDown": {}})},
    ),
    "persistentvolumes": (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}},
        },
        {**METADATA, "spec.persistentVolumeReclaimPolicy": ("Recycle", "Delete", "Foo", "")},
    ),
    "persistentvolumeclaims": (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
        {**METADATA, "spec.volumeMode": ("Block", "Foo")},
    ),
    "storageclasses": (
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "a.com/b"},
        {**METADATA, "provisioner": (None,), "volumeBindingMode": ("WaitForFirstConsumer", "Foo")},
    ),
    "endpoints": (
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}],
        },
        {**METADATA, "subsets.0.ports": ([], *_PROTOCOLS)},
    ),
    "endpointslices": (
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["1.2.3.4"]}],
            "ports": [{"port": 80}],
        },
        {**METADATA, "addressType": (None, "Foo"), "ports": ([], *_PROTOCOLS)},
    ),
    "resourcequotas": (
        {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "1"}}},
        {**METADATA, "spec.scopes": (["BestEffort"],)},
    ),
    "limitranges": (
        {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}},
        _NAMED,  # one without a name gets a name
    ),
    "cronjobs": (
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "spec": {"schedule": "1 * * * *", "jobTemplate": {"spec": {"template": _TEMPLATE}}},
        },
        {**_NAMED, "spec.concurrencyPolicy": ("Forbid", "Foo"), "spec.schedule": ("@hourly",)},
    ),
}
"""The valid objects, and the values that their fields may get instead."""
