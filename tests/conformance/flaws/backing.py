"""Flaws of what stands behind work and services: volumes, addresses, and the older form of replica sets."""

from __future__ import annotations

from typing import Any

from tests.conformance.flaws.common import LABELS, METADATA, NAMES, Flaws, Starts
from tests.conformance.flaws.network import ADDRESSES
from tests.conformance.flaws.work import SELECTORS

_TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
_TERMS: tuple[Any, ...] = (None, {}, {"required": {"nodeSelectorTerms": []}})
_SECRETS: tuple[Any, ...] = ({}, {"name": "Bad_Name", "namespace": "a"}, {"name": "a", "namespace": "a.b"})

_VOLUME: Flaws = {
    "spec.capacity": (
        None,
        {"storage": "0"},
        {"storage": "-1"},
        {"cpu": "1"},
        {"cpu": "-1", "storage": "1Gi"},
        {"storage": "1.5"},
    ),
    "spec.accessModes": (
        None,
        [],
        ["Foo"],
        ["ReadWriteOncePod"],
        ["ReadWriteOncePod", "ReadWriteMany"],
        ["ReadWriteOncePod", "Foo"],
    ),
    "spec.persistentVolumeReclaimPolicy": ("Recycle", "Delete", "Foo", ""),
    "spec.storageClassName": ("", "A_"),
    "spec.volumeMode": ("Block", "Foo"),
    "spec.volumeAttributesClassName": ("", "A_", "gold"),
    "spec.nodeAffinity": (*_TERMS, *({"required": {"nodeSelectorTerms": [one]}} for one in SELECTORS)),
    "spec.hostPath": (None, {"path": ""}, {"path": "/"}, {"path": "/a/../b", "type": "Foo"}, {"path": "//a/.."}),
    "spec.nfs": ({}, {"server": "a", "path": "b"}, {"server": "a", "path": "/b"}),
    "spec.local": ({}, {"path": "/a/.."}, {"path": "/a"}),
    "spec.csi": (
        {},
        {"driver": "A.b", "volumeHandle": "a"},
        {"driver": "a b", "volumeHandle": ""},
        *(
            {"driver": "a", "volumeHandle": "a", field: secret}
            for field in ("controllerPublishSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef")
            for secret in _SECRETS
        ),
    ),
}
_ENDPOINTS: Flaws = {
    "subsets": ([], [{"addresses": []}], [{"addresses": [], "ports": [{"port": 1}]}]),
    "subsets.0.addresses": ([], *([{"ip": one}] for one in ADDRESSES)),
    "subsets.0.notReadyAddresses": ([{"ip": "1.1.1.1"}], *([{"ip": one}] for one in ADDRESSES[:6])),
    "subsets.0.addresses.0.hostname": ("", *NAMES),
    "subsets.0.addresses.0.nodeName": ("", "n", *NAMES),
    "subsets.0.ports": (
        [],
        [{"port": 0}],
        [{"port": 70_000, "name": "Web"}],
        [{"port": 1}, {"port": 2, "name": "a.b"}],
        [{"port": 1, "protocol": "HTTP"}],
        [{"port": 1, "protocol": "", "appProtocol": "a b"}],
        [{"port": 1, "name": "a"}, {"port": 1, "name": "a"}],
    ),
}
_SLICE: Flaws = {
    "addressType": (None, "", "Foo", "IPv4", "IPv6", "FQDN"),
    "endpoints": ([], [{}], [{"addresses": ["1.1.1.1"] * 101}], [{"addresses": ["1.1.1.1"]}] * 1001),
    "endpoints.0.addresses": (
        [],
        *([one] for one in ADDRESSES),
        ["a.example"],
        ["a.example.", "b"],
        ["A.example", "-a.b"],
        ["2001:DB8::1"],
    ),
    "endpoints.0.hostname": ("", *NAMES),
    "endpoints.0.nodeName": ("", "n", *NAMES),
    "endpoints.0.deprecatedTopology": LABELS,
    "endpoints.0.hints": (
        {},
        {"forZones": [{"name": "a"}, {"name": "a"}, {"name": "a b"}]},
        {"forZones": [{"name": "z"}] * 9},
        {"forNodes": [{"name": "Bad_Name"}, {"name": "n"}, {"name": "n"}]},
        {"forNodes": [{"name": f"n{number}"} for number in range(9)]},
    ),
    "ports": (
        [],
        [{"port": 0}],
        [{"name": "Web", "port": 1}],
        [{"port": 1}, {"port": 2}],
        [{"name": "a", "port": 1}, {"name": "a"}],
        [{"protocol": "HTTP"}, {"name": "x", "protocol": ""}],
        [{"appProtocol": "a b"}],
    ),
}
_CONTROLLER: Flaws = {
    "spec.replicas": (None, -1, 0),
    "spec.minReadySeconds": (-1, 5),
    "spec.selector": (None, {}, {"app": "b"}, {"app": "a"}, {"app": "a", "more": "c"}),
    "spec.template": (None, {}),
    "spec.template.metadata": (None, {}, {"labels": {"app": "b"}}, {"labels": {"a b": "c"}}),
    "spec.template.spec.restartPolicy": ("Never", "Foo"),
    "spec.template.spec.activeDeadlineSeconds": (0, 5),
    "spec.template.spec.containers": (None, []),
}

STARTS: Starts = {
    "persistentvolumes": (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}},
        },
        {**METADATA, **_VOLUME},
    ),
    "endpoints": (
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}],
        },
        {**METADATA, **_ENDPOINTS},
    ),
    "endpointslices": (
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["1.2.3.4"]}],
            "ports": [{"port": 80}],
        },
        {**METADATA, **_SLICE},
    ),
    "replicationcontrollers": (
        {"apiVersion": "v1", "kind": "ReplicationController", "spec": {"template": _TEMPLATE}},
        {**METADATA, **_CONTROLLER},
    ),
}
"""Of volumes only those sources whose own rules are known."""
