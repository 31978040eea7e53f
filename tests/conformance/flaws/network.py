"""Flaws of what connects work and scales it."""

from __future__ import annotations

from typing import Any

from tests.conformance.flaws.common import LABELS, METADATA, NAMES, Document, Flaws, Starts, within

_PORTS = (-1, 0, 1, 80, 65_535, 70_000)
_PORT_NAMES = ("Bad", "a--b", "1", "a-very-long-name-of-a-port", "-a", "web")
_BLOCKS = (
    "",
    "x",
    "10.0.0.0",
    "10.0.0.0/33",
    "10.0.0.1/8",
    "010.0.0.0/8",
    "10.0.0.0/08",
    "10.0.0.0/8",
    "::/0",
    "::1/64",
    "::ffff:10.0.0.0/104",
    "10.0/8",
    "fe80::1%eth0/64",
    "2001:DB8::/32",
    "a::b::c/64",
    " 10.0.0.0/8",
)
ADDRESSES = (
    "",
    "x",
    "1.2.3.4",
    "1.2.3",
    "1.2.3.256",
    "01.2.3.4",
    "::ffff:1.2.3.4",
    "::ffff:01.2.3.4",
    "0.0.0.0",  # noqa: S104 - nothing listens there
    "127.0.0.1",
    "::1",
    "169.254.0.1",
    "fe80::1",
    "224.0.0.5",
    "ff02::1",
    "::",
    "2001:db8::1",
    "1:2:3:4:5:6:7:8:9",
    "1::2:",
)
_SELECTORS = (
    *({"matchLabels": one} for one in LABELS),
    {"matchExpressions": [{"key": "a", "operator": "In"}]},
    {"matchExpressions": [{"key": "a b", "operator": "Foo", "values": ["x y"]}]},
    {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
)
_SEGMENTS = ("", ".", "..", "a/b", "a%b", "a/b%c", "Bad_Name")

# Services. Only flaws of which no answer depends on addresses and ports that are given out.

_SERVICE: Flaws = {
    **METADATA,
    "metadata.annotations": (
        {"a b": "c"},
        {"service.kubernetes.io/topology-mode": "Auto", "service.kubernetes.io/topology-aware-hints": "auto"},
        {"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8"},
        {"service.beta.kubernetes.io/load-balancer-source-ranges": " 10.0.0.1/8 , x,"},
    ),
    "spec.ports": (
        [],
        None,
        [{}],
        [{"port": 80}, {"port": 81}],
        [{"port": 80}, {"port": 80}],
        [{"name": "a", "port": 80}, {"name": "a", "port": 81}],
        [{"name": "a", "port": 80, "targetPort": 1}, {"name": "b", "port": 80, "targetPort": 2}],
        [{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"}],
        *([{"port": one, "targetPort": other}] for one in _PORTS for other in (*_PORTS, *_PORT_NAMES)),
        [{"port": 80, "nodePort": 30_080}],
        *([{"port": 80, "name": one}] for one in (*NAMES, "1", "a-very-long-name-of-a-port")),
        *([{"port": 80, "protocol": one}] for one in ("", "http", "SCTP")),
        *([{"port": 80, "appProtocol": one}] for one in ("", "http", "a b", "kubernetes.io/h2c", "a/b/c", "/b")),
    ),
    "spec.selector": (None, {}, *LABELS),
    "spec.sessionAffinity": ("", "None", "ClientIP", "Foo"),
    "spec.sessionAffinityConfig": (
        {},
        {"clientIP": {}},
        *({"clientIP": {"timeoutSeconds": one}} for one in (-1, 0, 1, 86_400, 86_401)),
    ),
    "spec.externalIPs": (*([one] for one in ADDRESSES), ["x", "0.0.0.0"]),  # noqa: S104 - text in a document
    "spec.loadBalancerSourceRanges": (*([one] for one in _BLOCKS), ["x", "10.0.0.1/8"]),
    "spec.loadBalancerClass": ("", "a", "a b", "a/b/c"),
    "spec.loadBalancerIP": ("x",),
    "spec.externalName": ("", "a.b", "a.b.", "a_b", "."),
    "spec.externalTrafficPolicy": ("Cluster", "Local", "Foo", ""),
    "spec.internalTrafficPolicy": ("Cluster", "Local", "Foo", ""),
    "spec.trafficDistribution": ("", "PreferClose", "PreferSameZone", "PreferSameNode", "Foo"),
    "spec.allocateLoadBalancerNodePorts": (True, False),
    "spec.healthCheckNodePort": (-1, 70_000),
    "spec.publishNotReadyAddresses": (True,),
}
# As long as an address is wrong, a kube-apiserver tells nothing else.

_ADDRESSED: Flaws = {
    "spec.type": ("ClusterIP", "NodePort", "ExternalName", "Foo", ""),
    "spec.clusterIP": ("None", "x", "1.2.3", "01.2.3.4"),
    "spec.clusterIPs": (
        ["None"],
        ["x"],
        ["None", "None"],
        ["None", "1.2.3.4"],
        ["1.2.3.4"],
        ["1.2.3.4", "None"],
        ["None", "1.2.3.4", "::1"],
        ["1.2.3.4", "1.2.3.5"],
        ["1.2.3.4", "::1"],
        ["::1", "1.2.3.4"],
    ),
    "spec.ipFamilies": (["IPv4"], ["IPv4", "IPv4"], ["Foo"], ["IPv4", "Foo"], ["IPv4", "IPv6"], []),
    "spec.ipFamilyPolicy": ("SingleStack", "Foo", ""),
}
_EXTERNAL_NAME: Flaws = {
    **_SERVICE,
    "spec.ports": (
        [],
        [{"port": 80}, {"port": 80}],
        [{"name": one, "port": port, "nodePort": 30_080} for one, port in (("a", 80), ("b", 81))],
    ),
    "spec.type": ("ExternalName",),
    "spec.clusterIP": ("None", "x", "1.2.3.4", ""),
    "spec.clusterIPs": (["None"], ["x"], []),
    "spec.ipFamilies": (["IPv4"], ["Foo"], []),
    "spec.ipFamilyPolicy": ("SingleStack", "Foo"),
}

# Ingresses.

_BACKENDS: tuple[Document, ...] = (
    {},
    {"service": {}},
    *({"service": {"name": one, "port": {"number": 80}}} for one in (*NAMES, "1a", "web")),
    *({"service": {"name": "web", "port": {"number": one}}} for one in _PORTS),
    *({"service": {"name": "web", "port": {"name": one}}} for one in _PORT_NAMES),
    {"service": {"name": "web", "port": {"name": "a", "number": 80}}},
    {"service": {"name": "web", "port": {"number": 80}}, "resource": {"kind": "a", "name": "b"}},
    *({"resource": {"kind": one, "name": other}} for one in _SEGMENTS for other in _SEGMENTS),
    *({"resource": {"apiGroup": one, "kind": "a", "name": "b"}} for one in ("", "A", "a.b")),
)
_BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
_HOSTS = (
    *NAMES,
    "1.2.3.4",
    "01.2.3.4",
    "::1",
    "*",
    "*.a.b",
    "*.*.b",
    "a.*.b",
    "*a.b",
    "x" * 254,
    "*." + "x." * 130 + "x",
)
_PATHS = ("", "a", "/a//b", "/a/./b", "/a/../b", "/a%2fb", "/a%2Fb", "/a/..", "/a/.", "/", "a//b/..")
_PATH_TYPES = (None, "Exact", "Prefix", "ImplementationSpecific", "Foo", "")


def _rule(host: str = "a.b", **path: Any) -> Document:
    start = {"path": "/", "pathType": "Prefix", "backend": _BACKEND}
    wanted = {key: value for key, value in {**start, **path}.items() if value is not None}
    return {"host": host, "http": {"paths": [wanted]}}


_INGRESS: Flaws = {
    **METADATA,
    "metadata.annotations": ({"a b": "c"}, {"kubernetes.io/ingress.class": "other"}),
    "spec.ingressClassName": ("Bad_Name", "", "a.b", "other"),
    "spec.defaultBackend": _BACKENDS,
    "spec.rules": (
        None,
        [],
        [{}],
        [{"host": "a.b"}],
        [{"http": {"paths": []}}],
        [{"http": {}}],
        *([_rule(host=one)] for one in _HOSTS),
        *([_rule(path=one, pathType=other)] for one in _PATHS for other in _PATH_TYPES),
        *([_rule(backend=one)] for one in _BACKENDS),
        [_rule(host="a_b", path="x", backend={}), _rule(host="*.b", path="/a//b", pathType="Exact")],
    ),
    "spec.tls": (
        [],
        [{}],
        *([{"hosts": [one]}] for one in _HOSTS),
        *([{"hosts": ["a.b", "B"], "secretName": one}] for one in NAMES),
    ),
}

# Network policies.

_PEERS: tuple[Document, ...] = (
    {},
    {"podSelector": {}, "namespaceSelector": {}},
    {"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}},
    *({field: one} for one in _SELECTORS for field in ("podSelector", "namespaceSelector")),
    {"ipBlock": {}},
    *({"ipBlock": {"cidr": one}} for one in _BLOCKS),
    *({"ipBlock": {"cidr": "10.0.0.0/8", "except": [one]}} for one in (*_BLOCKS, "10.1.0.0/16", "11.0.0.0/16")),
    *({"ipBlock": {"cidr": "2001:db8::/32", "except": [one]}} for one in ("2001:db8:1::/48", "10.0.0.0/8", "::/0")),
    {"ipBlock": {"cidr": "10.0.0.1/8", "except": ["10.1.0.0/16", "::ffff:10.1.0.0/112", "10.0.0.0/8"]}},
    {"ipBlock": {"cidr": "::ffff:10.0.0.0/104", "except": ["10.1.0.0/16", "::ffff:10.1.0.0/112"]}},
)
_POLICY_PORTS: tuple[Document, ...] = (
    {},
    *({"port": one} for one in (*_PORTS, *_PORT_NAMES, "")),
    *({"port": one, "endPort": other} for one in (80, "web", 70_000) for other in _PORTS),
    {"endPort": 80},
    *({"port": 80, "protocol": one} for one in ("", "tcp", "UDP", "SCTP")),
)
_POLICY: Flaws = {
    **METADATA,
    "spec.podSelector": (None, {}, *_SELECTORS),
    "spec.policyTypes": (
        [],
        None,
        ["Foo"],
        ["Ingress", "Foo"],
        ["Ingress", "Ingress"],
        ["Ingress", "Egress", "Ingress"],
        ["", "Egress"],
    ),
    "spec.ingress": ([], [{}], *([{"from": [one]}] for one in _PEERS), *([{"ports": [one]}] for one in _POLICY_PORTS)),
    "spec.egress": ([], [{}], *([{"to": [one]}] for one in _PEERS), *([{"ports": [one]}] for one in _POLICY_PORTS)),
}

# Autoscalers.

_TARGETS: tuple[Document, ...] = (
    {},
    {"type": "Foo"},
    *({"type": "Value", "value": one} for one in ("0", "-1", "1500m", "0.5", "1e3")),
    *({"type": "AverageValue", "averageValue": one} for one in ("0", "-1", "10", "2048Mi")),
    *({"type": "Utilization", "averageUtilization": one} for one in (-1, 0, 50)),
    {"type": "Utilization", "averageUtilization": 50, "averageValue": "1"},
    {"type": "Value", "value": "1", "averageValue": "1"},
)
_TARGET = {"type": "Utilization", "averageUtilization": 50}
_METRICS = tuple({"name": one} for one in (*_SEGMENTS, "requests"))
_SOURCES: tuple[Document, ...] = (
    {},
    {"type": "Foo"},
    {"type": ""},
    {"type": "Foo", "resource": {"name": "cpu", "target": {"type": "Value", "averageValue": "1"}}},
    *({"type": one} for one in ("Resource", "Pods", "Object", "External", "ContainerResource")),
    *({"type": "Resource", "resource": {"name": one}} for one in ("", "cpu", "a b")),
    *({"type": "Resource", "resource": {"name": "cpu", "target": one}} for one in _TARGETS),
    *({"type": "Pods", "pods": {"metric": {"name": "a"}, "target": one}} for one in _TARGETS),
    *(
        {"type": "Pods", "pods": {"metric": one, "target": {"type": "AverageValue", "averageValue": "1"}}}
        for one in _METRICS
    ),
    *({"type": "External", "external": {"metric": {"name": "a"}, "target": one}} for one in _TARGETS),
    {"type": "External", "external": {}},
    *(
        {
            "type": "Object",
            "object": {"describedObject": {"kind": "Service", "name": "a"}, "metric": {"name": "a"}, "target": one},
        }
        for one in _TARGETS
    ),
    *(
        {
            "type": "Object",
            "object": {
                "describedObject": {"apiVersion": version, "kind": one, "name": one},
                "metric": {"name": "a"},
                "target": {"type": "Value", "value": "1"},
            },
        }
        for version in ("", "v1", "a/v1", "a/b/c")
        for one in _SEGMENTS
    ),
    *(
        {"type": "ContainerResource", "containerResource": {"name": one, "container": other, "target": target}}
        for one in ("", "cpu", "foo", "a b", "a.b/c", "hugepages-2Mi")
        for other in NAMES
        for target in ({}, {"type": "Utilization", "averageUtilization": 50})
    ),
    {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
        "pods": {"metric": {"name": "a"}},
        "object": {},
    },
    {"type": "Pods", "resource": {}, "external": {"metric": {"name": "a"}}},
)
_RULES: tuple[Document, ...] = (
    {},
    *({"stabilizationWindowSeconds": one} for one in (-1, 0, 3600, 3601)),
    *({"selectPolicy": one} for one in ("", "Max", "Foo", "Disabled")),
    {"policies": []},
    *({"policies": [{"type": one, "value": 1, "periodSeconds": 1}]} for one in ("", "Pods", "Foo")),
    *({"policies": [{"type": "Percent", "value": one, "periodSeconds": 1}]} for one in (-1, 0)),
    *({"policies": [{"type": "Percent", "value": 1, "periodSeconds": one}]} for one in (-1, 0, 1800, 1801)),
    {"policies": [{}]},
    *({"tolerance": one} for one in ("-1", "0", "100m", "-0.5")),
)
_VERSIONS = ("", "v1", "apps/v1", "a/b/c", "/v1")
_AUTOSCALER: Flaws = {
    **METADATA,
    "spec.minReplicas": (-1, 0, 1, 3, 4),
    "spec.maxReplicas": (None, -1, 0, 1),
    "spec.scaleTargetRef": (
        {},
        *({"apiVersion": one, "kind": "ReplicationController", "name": "a"} for one in _VERSIONS),
    ),
    **within("spec.scaleTargetRef", {"apiVersion": _VERSIONS, "kind": _SEGMENTS, "name": _SEGMENTS}),
    "spec.metrics": ([], *([one] for one in _SOURCES), list(_SOURCES[:6])),
    "spec.behavior": ({}, {"scaleUp": {}, "scaleDown": {}}),
    "spec.behavior.scaleUp": _RULES,
    "spec.behavior.scaleDown": _RULES,
}

STARTS: Starts = {
    "services": (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]},
        },
        {**_SERVICE, "spec.type": ("ClusterIP", "NodePort", "Foo", "")},
    ),
    "services that get an address": (
        {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}},
        {**_SERVICE, "spec.type": ("ClusterIP", "NodePort", "Foo", "")},
    ),
    "addresses of services": (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]},
        },
        _ADDRESSED,
    ),
    "services of type ExternalName": (
        {"apiVersion": "v1", "kind": "Service", "spec": {"type": "ExternalName", "externalName": "a.b"}},
        _EXTERNAL_NAME,
    ),
    "services of type LoadBalancer": (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "spec": {
                "type": "LoadBalancer",
                "clusterIP": "None",
                "allocateLoadBalancerNodePorts": False,
                "ports": [{"port": 80}],
            },
        },
        {**_SERVICE, "spec.externalTrafficPolicy": ("Cluster", "Foo", "")},
    ),
    "ingresses": (
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "spec": {
                "ingressClassName": "some",
                "rules": [_rule()],
            },
        },
        _INGRESS,
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
        _POLICY,
    ),
    "horizontalpodautoscalers": (
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": _TARGET}}],
            },
        },
        _AUTOSCALER,
    ),
}
"""The valid objects, and the values that their fields may get instead."""
