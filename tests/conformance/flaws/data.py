"""Flaws of what configures work, stores it, limits it, and runs it at times."""

from __future__ import annotations

from typing import Any

from tests.conformance.flaws.common import METADATA, Starts

_CRITICAL = 2_000_000_000
_KEYS: tuple[Any, ...] = ({"a b": "eA=="}, {"": "eA=="}, {"..": "eA=="}, {"x" * 254: "eA=="})
_TYPES = ("tls", "basic-auth", "ssh-auth", "dockercfg", "dockerconfigjson", "service-account-token", "foo")
_SCHEDULES = (
    "",
    "bogus",
    "@hourly",
    "@daily",
    "@every 5m",
    "@every",
    "@every x",
    "@nosuch",
    "* * * *",
    "* * * * * *",
    "61 * * * *",
    "*/0 * * * *",
    "*/x * * * *",
    "5-1 * * * *",
    "5-1-2 * * * *",
    "1/2/3 * * * *",
    "* 24 * * *",
    "* * 0 * *",
    "* * 32 * *",
    "* * * 13 *",
    "* * * FOO *",
    "* * * * 7",
    "1-5,7 */2 1 JAN MON-FRI",
    "? ? ? ? ?",
    "0-70/2 * * * *",
    "TZ=UTC * * * * *",
    "CRON_TZ=UTC * * * * *",
    ", * * * *",
    "1, * * * *",
    "-1 * * * *",
    "a-b * * * *",
)
_JOBS: tuple[Any, ...] = (
    {},
    {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}},
    *(
        {
            "spec": {
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}},
                **more,
            }
        }
        for more in (
            {"parallelism": -1, "backoffLimit": -1},
            {"manualSelector": True},
            {"selector": {"matchLabels": {"a": "b"}}},
            {"completionMode": "Indexed"},
        )
    ),
)
_AMOUNTS: tuple[Any, ...] = (
    {"cpu": "-1"},
    {"pods": "1.5"},
    {"nosuch": "1"},
    {"a b": "1"},
    {"requests.cpu": "1", "limits.memory": "1Gi"},
    {"count/pods": "3", "count/deployments.apps": "0.5"},
    {"requests.nvidia.com/gpu": "1"},
    {"example.com/foo": "1500m"},
    {"requests.storage": "10Gi", "gold.storageclass.storage.k8s.io/requests.storage": "1"},
    {"services": "2", "configmaps": "-3"},
    {"ephemeral-storage": "1", "hugepages-2Mi": "1"},
)
_LIMITS: tuple[Any, ...] = (
    [{}],
    [{"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}],
    [{"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}],
    [{"type": "Pod"}, {"type": "Pod"}],
    [{"type": "Foo", "max": {"cpu": "1"}}],
    [{"type": "Container", "default": {"cpu": "3"}, "max": {"cpu": "2"}, "defaultRequest": {"cpu": "4"}}],
    [{"type": "Container", "default": {"cpu": "1"}, "min": {"cpu": "2"}, "defaultRequest": {"cpu": "500m"}}],
    [{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m", "memory": "2"}}],
    [{"type": "Container", "maxLimitRequestRatio": {"cpu": "5"}, "min": {"cpu": "1"}, "max": {"cpu": "2"}}],
    [{"type": "Container", "max": {"nosuch": "1", "a b": "2"}}],
    [{"type": "PersistentVolumeClaim"}],
    [{"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "1Gi"}}],
)

STARTS: Starts = {
    "configmaps": (
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}},
        {**METADATA, "data": _KEYS, "binaryData": ({"a": "eA=="}, *_KEYS), "immutable": (True,)},
    ),
    "secrets": (
        {"apiVersion": "v1", "kind": "Secret", "data": {"a": "Yg=="}},
        {
            **METADATA,
            "data": (*_KEYS, {"username": "eA=="}, {".dockercfg": "eA==", ".dockerconfigjson": "e30="}),
            "stringData": ({"a b": "c"}, {"tls.crt": "", "tls.key": ""}, {".dockercfg": "x"}),
            "type": tuple(f"kubernetes.io/{name}" for name in _TYPES),
            "metadata.annotations": ({"kubernetes.io/service-account.name": "a"},),
        },
    ),
    "persistentvolumeclaims": (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
        {
            **METADATA,
            "spec.accessModes": (None, [], ["Foo"], ["ReadWriteOncePod", "ReadWriteMany"]),
            "spec.resources.requests": (None, {"storage": "0"}, {"storage": "-1"}, {"cpu": "1"}),
            "spec.volumeMode": ("Block", "Foo"),
            "spec.storageClassName": ("", "A_"),
            "spec.selector": ({"matchExpressions": [{"key": "a b", "operator": "Foo"}]},),
            "spec.dataSource": ({"kind": "", "name": ""}, {"kind": "Foo", "name": "a"}),
        },
    ),
    "storageclasses": (
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "a.com/b"},
        {
            **METADATA,
            "provisioner": (None, "", "a b", "A/B", "x" * 64),
            "reclaimPolicy": ("Retain", "Foo"),
            "volumeBindingMode": ("WaitForFirstConsumer", "Foo"),
            "parameters": ({"": "a"}, {"a": ""}),
            "allowedTopologies": (
                [{}],
                [{"matchLabelExpressions": [{"key": "a b", "values": []}]}],
                [{"matchLabelExpressions": [{"key": "a", "values": ["b", "b"]}]}],
            ),
        },
    ),
    "priorityclasses": (
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5},
        {
            **METADATA,
            "metadata.name": ("system-foo", "Bad_Name"),
            "value": (None, _CRITICAL // 2, _CRITICAL // 2 + 1, -5),
            "preemptionPolicy": ("Never", "Foo"),
            "globalDefault": (True,),
        },
    ),
    "resourcequotas": (
        {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "1"}}},
        {
            **METADATA,
            "spec.hard": _AMOUNTS,
            "spec.scopes": (
                ["Foo"],
                ["BestEffort"],
                ["BestEffort", "NotBestEffort"],
                ["Terminating", "NotTerminating"],
            ),
            "spec.scopeSelector": (
                {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": []}]},
                {"matchExpressions": [{"scopeName": "Foo", "operator": "Foo"}]},
                {"matchExpressions": [{"scopeName": "BestEffort", "operator": "In", "values": ["a"]}]},
                {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}]},
            ),
        },
    ),
    "limitranges": (
        {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}},
        # One without a name gets a name.
        {**METADATA, "metadata.name": ("Bad_Name", "a.b"), "spec.limits": _LIMITS},
    ),
    "cronjobs": (
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "spec": {
                "schedule": "1 * * * *",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
                        }
                    }
                },
            },
        },
        {
            **METADATA,
            "metadata.name": ("Bad_Name", "x" * 53, "a.b"),
            "spec.schedule": (None, *_SCHEDULES),
            "spec.timeZone": ("", "Nowhere/Else", "Europe/Berlin", "Local", "local", "../etc", "UTC"),
            "spec.concurrencyPolicy": ("Forbid", "Foo"),
            "spec.startingDeadlineSeconds": (-1,),
            "spec.successfulJobsHistoryLimit": (-1, 0),
            "spec.failedJobsHistoryLimit": (-1,),
            "spec.jobTemplate": _JOBS,
        },
    ),
}
"""The valid objects, and the values that their fields may get instead."""
