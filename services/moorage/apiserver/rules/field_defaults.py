"""The values that an API server of Kubernetes shows for fields that nobody has set, for the kinds that Moorage serves.

They are not stored. The API adds them to what it shows, and `in_stored_form` takes them out of what comes back. So the
hash of a template, which the names of its pods contain, is that of what people wrote, and programs may read an object
and write it back without a change. All functions are pure and never change their arguments. The values are those of
Kubernetes 1.37 (docs/decisions/0046-defaults-of-fields.md).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

from moorage.apiserver.rules.canonical_quantities import with_canonical_quantities
from moorage.apiserver.rules.controller_field_defaults import (
    autoscaler,
    cron_job,
    daemon_set,
    deployment,
    job,
    replica_set,
    selecting_by_template,
    stateful_set,
    with_labels_of_template,
)
from moorage.apiserver.rules.field_filling import Object, each, filled, with_spec, within
from moorage.apiserver.rules.pod_field_defaults import PRIORITY, VOLUMES, pod_defaults, pod_spec_defaults
from moorage.apiserver.rules.services import with_service_defaults

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
