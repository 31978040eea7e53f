"""The values that an API server of Kubernetes shows for fields that nobody has set, for the kinds that Moorage serves.

They are not stored. The API adds them to what it shows, and `in_stored_form` takes them out of what comes back. So the
hash of a template, which the names of its pods contain, is that of what people wrote, and programs may read an object
and write it back without a change. All functions are pure and never change their arguments. The values are those of
Kubernetes 1.37 (docs/decisions/0046-defaults-of-fields.md).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from moorage.apiserver.rules.pod_field_defaults import (
    PRIORITY,
    VOLUMES,
    Object,
    autoscaler,
    cron_job,
    daemon_set,
    deployment,
    each,
    filled,
    job,
    pod_defaults,
    pod_spec_defaults,
    replica_set,
    selecting_by_template,
    stateful_set,
    with_labels_of_template,
    with_spec,
    within,
)
from moorage.decide.kubernetes.quantities import QuantityError, canonical_text
from moorage.decide.kubernetes.unstructured import at

_Object = dict[str, Any]

_CLUSTER_IP: Final = "ClusterIP"
_BALANCED: Final = "LoadBalancer"
_ON_NODES: Final = frozenset({"NodePort", _BALANCED})
_NONE: Final = "None"
"""The address of a service that wants none, and the affinity of one that has none."""

_SINGLE_STACK: Final = "SingleStack"
_FAMILIES: Final = ("IPv4", "IPv6")
_TIMEOUT: Final = 10_800
_CLUSTER: Final = "Cluster"


def with_service_defaults(spec: _Object) -> _Object:
    """The spec of a service with the values of the fields that it leaves out. A second time changes nothing."""
    kind, affinity = spec.get("type") or _CLUSTER_IP, spec.get("sessionAffinity") or _NONE
    found = {**spec, "type": kind, "sessionAffinity": affinity}
    if isinstance(ports := found.get("ports"), list):
        found["ports"] = [_port(one) if isinstance(one, dict) else one for one in ports]
    if affinity == _NONE:
        found.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP" and at(found, "sessionAffinityConfig", "clientIP", "timeoutSeconds") is None:
        found["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _TIMEOUT}}
    if kind in {_CLUSTER_IP, *_ON_NODES} and found.get("internalTrafficPolicy") is None:
        found["internalTrafficPolicy"] = _CLUSTER
    is_outside = kind in _ON_NODES or (kind == _CLUSTER_IP and bool(found.get("externalIPs")))
    if is_outside and not found.get("externalTrafficPolicy"):
        found["externalTrafficPolicy"] = _CLUSTER
    if kind == _BALANCED and found.get("allocateLoadBalancerNodePorts") is None:
        found["allocateLoadBalancerNodePorts"] = True
    return _with_addresses(found)


def _port(port: _Object) -> _Object:
    found = {**port, "protocol": port.get("protocol") or "TCP"}
    if not port.get("targetPort") and port.get("port"):
        found["targetPort"] = port["port"]
    return found


def _with_addresses(spec: _Object) -> _Object:
    """A service with the addresses that follow from those that it names, and with the families of one that has none."""
    first = spec.get("clusterIP")
    if not first:
        return spec
    found = {**spec, "clusterIPs": spec.get("clusterIPs") or [first]}
    if found["clusterIPs"] != [_NONE] or found["type"] == "ExternalName":
        return found
    is_selecting = bool(spec.get("selector"))
    if found.get("ipFamilyPolicy") is None:
        found["ipFamilyPolicy"] = _SINGLE_STACK if is_selecting else "RequireDualStack"
    families = found.get("ipFamilies") or [_FAMILIES[0]]
    if (
        not is_selecting
        and found["ipFamilyPolicy"] != _SINGLE_STACK
        and len(families) == 1
        and families[0] in _FAMILIES
    ):
        families = [*families, *(one for one in _FAMILIES if one not in families)]
    return {**found, "ipFamilies": families}


_SOURCES: Final = ("azureDisk", "hostPath", "iscsi", "rbd", "scaleIO")
"""The sources of `VOLUMES` that a persistent volume may have."""

_PORT: Final = {"name": "", "protocol": "TCP"}
_BY_ADMISSION: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": tuple(PRIORITY),
    "Service": ("clusterIPs", "ipFamilies", "ipFamilyPolicy"),
}
"""Fields of `spec` that an object gets after it was read, by its kind."""

_RBAC: Final = "rbac.authorization.k8s.io"
_UNBALANCED: Final[Object] = {"loadBalancer": {}}
_STATUSES: Final[Mapping[str, Object]] = {
    "CronJob": {},
    "HorizontalPodAutoscaler": {"desiredReplicas": 0, "currentMetrics": None},
    "Ingress": _UNBALANCED,
    "ResourceQuota": {},
    "Service": _UNBALANCED,
}
"""What an API server shows as the status of an object for which nobody has done anything yet, by its kind."""


def with_field_defaults(document: Object) -> Object:
    """An object with the values of the fields that it leaves out, and its quantities in their canonical form.

    A second time changes nothing. Objects of other kinds, and parts of a wrong type, stay as they are.
    """
    fill = _KINDS.get(document.get("kind", ""))
    return with_canonical_quantities(fill(document) if fill is not None else document)


def with_empty_status(document: Object) -> Object:
    """An object as it is shown if nobody has reported its status."""
    status = _STATUSES.get(document.get("kind", ""))
    return document if status is None or document.get("status") else {**document, "status": dict(status)}


def with_decoded_defaults(document: Object) -> Object:
    """An object with the values that an API server fills in when it reads it, before its admission looks at it."""
    found = with_field_defaults(document)
    spec, later = document.get("spec"), _BY_ADMISSION.get(document.get("kind", ""), ())
    if not later or not isinstance(spec, dict):
        return found
    left = {field for field in later if spec.get(field) is None}
    return {**found, "spec": {field: value for field, value in found["spec"].items() if field not in left}}


def with_texts_as_data(secret: Object) -> Object:
    """A secret in which what was sent as text is data."""
    texts = secret.get("stringData")
    if not isinstance(texts, dict):
        return secret
    data = {key: base64.b64encode(str(value).encode()).decode() for key, value in texts.items()}
    rest = {key: value for key, value in secret.items() if key != "stringData"}
    return {**rest, "data": {**(rest.get("data") or {}), **data}} if data else rest


def with_template_defaults(spec: Object) -> Object:
    """The spec of a template of pods with the values of the fields that it leaves out."""
    return pod_spec_defaults(spec)


def in_stored_form(wanted: Object, stored: Mapping[str, Any]) -> Object:
    """A changed object without the default values that the stored one leaves out too.

    Args:
        wanted: the changed object, with the values of `with_field_defaults`.
        stored: the object as it is stored.

    Returns:
        An object that means the same as `wanted`, with its unchanged parts in the form in which they are stored.
    """
    shown = with_field_defaults(dict(stored))
    short: Object = _short(wanted, stored, shown)
    # A default may depend on another field that has changed: then the value that is wanted has to be kept.
    return short if with_field_defaults(short) == wanted else wanted


def _short(wanted: Any, stored: Any, shown: Any) -> Any:
    if wanted == shown:
        return stored
    if isinstance(wanted, Mapping) and isinstance(stored, Mapping) and isinstance(shown, Mapping):
        return {
            key: _short(value, stored[key], shown[key]) if key in stored else value
            for key, value in wanted.items()
            if key in stored or key not in shown or shown[key] != value
        }
    if isinstance(wanted, list) and isinstance(stored, list) and len(wanted) == len(stored) == len(shown):
        return [_short(*one) for one in zip(wanted, stored, shown, strict=True)]
    return wanted


def _node(status: Object) -> Object:
    capacity = status.get("capacity")
    return filled(status, {"allocatable": capacity}) if isinstance(capacity, dict) else status


def _binding(document: Object) -> Object:
    found = within(document, "roleRef", lambda one: filled(one, {"apiGroup": _RBAC}))
    return each(found, "subjects", _subject)


def _subject(subject: Object) -> Object:
    return filled(subject, {"apiGroup": _RBAC}) if subject.get("kind") in {"User", "Group"} else {**subject}


def _volume_spec(spec: Object) -> Object:
    found = filled(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    sources = {field: filled(found[field], VOLUMES[field]) for field in _SOURCES if isinstance(found.get(field), dict)}
    return {**found, **sources}


def _ports(subset: Object) -> Object:
    return each(subset, "ports", lambda port: filled(port, {"protocol": "TCP"}))


def _given(value: Mapping[str, Any]) -> Object:
    return {field: one for field, one in value.items() if one is not None}


def _limit_range(spec: Object) -> Object:
    return each(spec, "limits", _limit)


def _limit(limit: Object) -> Object:
    """A limit. What a container may have at most is what it gets by default, and it requests that, or what it needs."""
    if limit.get("type") != "Container":
        return limit
    most, least, default, request = (limit.get(field) or {} for field in ("max", "min", "default", "defaultRequest"))
    default = {**most, **default}
    found = {"default": default, "defaultRequest": {**least, **default, **request}}
    return {**limit, **{field: one for field, one in found.items() if one}}


def _network_policy(spec: Object) -> Object:
    types = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    found = filled(spec, {"podSelector": {}, "policyTypes": types})
    for rules in ("ingress", "egress"):
        found = each(found, rules, lambda rule: each(rule, "ports", lambda port: filled(port, {"protocol": "TCP"})))
    return found


def _of_top(defaults: Mapping[str, Any]) -> Callable[[Object], Object]:
    return lambda document: filled(document, defaults)


_KINDS: Final[Mapping[str, Callable[[Object], Object]]] = {
    "Endpoints": lambda document: each(document, "subsets", _ports),
    "EndpointSlice": lambda document: each(document, "ports", lambda port: {**_PORT, **_given(port)}),
    "PersistentVolume": with_spec(_volume_spec),
    "ReplicationController": lambda document: with_spec(replica_set)(selecting_by_template(document)),
    "CronJob": with_spec(cron_job),
    "HorizontalPodAutoscaler": with_spec(autoscaler),
    "LimitRange": with_spec(_limit_range),
    "NetworkPolicy": with_spec(_network_policy),
    "PersistentVolumeClaim": with_spec(lambda spec: filled(spec, {"volumeMode": "Filesystem"})),
    "PriorityClass": _of_top({"preemptionPolicy": "PreemptLowerPriority"}),
    "Lease": _of_top({"spec": {}}),
    "Secret": lambda secret: filled(with_texts_as_data(secret), {"type": "Opaque"}),
    "StorageClass": _of_top({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    "Node": lambda node: within(node, "status", _node),
    "Pod": with_spec(pod_defaults),
    "Deployment": with_spec(deployment),
    "ReplicaSet": with_spec(replica_set),
    "StatefulSet": with_spec(stateful_set),
    "DaemonSet": with_spec(daemon_set),
    "Job": lambda document: with_spec(job)(with_labels_of_template(document)),
    "Service": with_spec(with_service_defaults),
    **dict.fromkeys(("Role", "ClusterRole"), lambda role: {**role, "rules": role.get("rules") or None}),
    "RoleBinding": _binding,
    "ClusterRoleBinding": _binding,
}


_Path = tuple[str, ...]

_EACH: Final = "*"
"""Stands for each item of a list, or each value of an object."""

_RESOURCES: Final[tuple[_Path, ...]] = (("requests", _EACH), ("limits", _EACH))
_POD: Final[tuple[_Path, ...]] = (
    *(
        (containers, _EACH, "resources", *path)
        for containers in ("containers", "initContainers", "ephemeralContainers")
        for path in _RESOURCES
    ),
    *(("resources", *path) for path in _RESOURCES),
    ("overhead", _EACH),
    ("volumes", _EACH, "emptyDir", "sizeLimit"),
    *(("volumes", _EACH, "ephemeral", "volumeClaimTemplate", "spec", "resources", *path) for path in _RESOURCES),
)
_TEMPLATE: Final[tuple[_Path, ...]] = tuple(("spec", "template", "spec", *path) for path in _POD)
_CLAIM: Final[tuple[_Path, ...]] = tuple(("spec", "resources", *path) for path in _RESOURCES)
_PATHS: Final[Mapping[str, tuple[_Path, ...]]] = {
    "Pod": tuple(("spec", *path) for path in _POD),
    **dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet", "Job", "ReplicationController"), _TEMPLATE),
    "StatefulSet": (*_TEMPLATE, *(("spec", "volumeClaimTemplates", _EACH, *path) for path in _CLAIM)),
    "CronJob": tuple(("spec", "jobTemplate", *path) for path in _TEMPLATE),
    "PersistentVolumeClaim": (*_CLAIM, ("status", "capacity", _EACH)),
    "PersistentVolume": (("spec", "capacity", _EACH),),
    "ResourceQuota": (("spec", "hard", _EACH),),
    "LimitRange": tuple(
        ("spec", "limits", _EACH, field, _EACH)
        for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    ),
    "Node": (("status", "capacity", _EACH), ("status", "allocatable", _EACH)),
}
"""Where objects of Kubernetes' kinds have quantities. Those of custom resources are shown as they were sent."""


_Tree = dict[str, Any]
"""Paths that begin in the same way stand together. The end of a path has no further steps."""


def _tree(paths: Iterable[_Path]) -> _Tree:
    tree: _Tree = {}
    for path in paths:
        branch = tree
        for step in path:
            branch = branch.setdefault(step, {})
    return tree


_TREES: Final[Mapping[str, _Tree]] = {kind: _tree(paths) for kind, paths in _PATHS.items()}


def with_canonical_quantities(document: dict[str, Any]) -> dict[str, Any]:
    """An object with its quantities in canonical form. What is none stays as it is."""
    tree = _TREES.get(document.get("kind", ""))
    found: dict[str, Any] = document if tree is None else _changed(document, tree)
    return found


def _changed(value: Any, tree: _Tree) -> Any:
    """The value with what the paths of a tree lead to in canonical form. It is the same one if nothing changes."""
    if not tree:
        return _canonical(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else value
    each = tree.get(_EACH)
    if isinstance(value, list):
        if each is None or not value:
            return value
        items = [_changed(one, each) for one in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if not isinstance(value, dict):
        return value
    found = value
    for name, inner in ((name, each) for name in value) if each is not None else tree.items():
        if name in value and (one := _changed(value[name], inner)) is not value[name]:
            found = {**value} if found is value else found
            found[name] = one
    return found


def _canonical(value: str | float) -> str | float:
    found = _canonical_text(value)
    return value if found == value else found


@lru_cache(maxsize=4096, typed=True)
def _canonical_text(value: str | float) -> str | float:
    try:
        return canonical_text(value)
    except QuantityError:
        return value
