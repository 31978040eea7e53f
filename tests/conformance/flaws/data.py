"""Flaws of what configures work: its data, its secrets, its priorities."""

from __future__ import annotations

from typing import Any

from tests.conformance.flaws.common import METADATA, Starts

_CRITICAL = 2_000_000_000
_KEYS: tuple[Any, ...] = ({"a b": "eA=="}, {"": "eA=="}, {"..": "eA=="}, {"x" * 254: "eA=="})
_TYPES = ("tls", "basic-auth", "ssh-auth", "dockercfg", "dockerconfigjson", "service-account-token", "foo")
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
}
"""The valid objects, and the values that their fields may get instead."""
