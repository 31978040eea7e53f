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

from moorage.core.admission.canonical_quantities import with_canonical_quantities
from moorage.core.admission.services import with_service_defaults

_Object = dict[str, Any]

_MODE: Final = 0o644
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS: Final = ("postStart", "preStop")

_POD: Final = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
_OWN_POD: Final = {"enableServiceLinks": True}
"""Only in pods, not in templates."""

_PRIORITY: Final = {"preemptionPolicy": "PreemptLowerPriority", "priority": 0}
"""Of pods that name no priority class."""

_CONTAINER: Final = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE: Final = {"failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1}
_VOLUMES: Final[Mapping[str, _Object]] = {
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": False},
    "configMap": {"defaultMode": _MODE},
    "downwardAPI": {"defaultMode": _MODE},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "projected": {"defaultMode": _MODE},
    "rbd": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
    "scaleIO": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
    "secret": {"defaultMode": _MODE},
}
_SOURCES: Final = ("azureDisk", "hostPath", "iscsi", "rbd", "scaleIO")
"""The sources of `_VOLUMES` that a persistent volume may have."""

_PORT: Final = {"name": "", "protocol": "TCP"}
_DEPLOYMENT: Final = {"progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10}
_QUARTER: Final = "25%"
_BY_ADMISSION: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": tuple(_PRIORITY),
    "Service": ("clusterIPs", "ipFamilies", "ipFamilyPolicy"),
}
"""Fields of `spec` that an object gets after it was read, by its kind."""

_RBAC: Final = "rbac.authorization.k8s.io"
_UNBALANCED: Final[_Object] = {"loadBalancer": {}}
_STATUSES: Final[Mapping[str, _Object]] = {
    "CronJob": {},
    "HorizontalPodAutoscaler": {"desiredReplicas": 0, "currentMetrics": None},
    "Ingress": _UNBALANCED,
    "ResourceQuota": {},
    "Service": _UNBALANCED,
}
"""What an API server shows as the status of an object for which nobody has done anything yet, by its kind."""


def with_field_defaults(document: _Object) -> _Object:
    """An object with the values of the fields that it leaves out, and its quantities in their canonical form.

    A second time changes nothing. Objects of other kinds, and parts of a wrong type, stay as they are.
    """
    fill = _KINDS.get(document.get("kind", ""))
    return with_canonical_quantities(fill(document) if fill is not None else document)


def with_empty_status(document: _Object) -> _Object:
    """An object as it is shown if nobody has reported its status."""
    status = _STATUSES.get(document.get("kind", ""))
    return document if status is None or document.get("status") else {**document, "status": dict(status)}


def with_decoded_defaults(document: _Object) -> _Object:
    """An object with the values that an API server fills in when it reads it, before its admission looks at it."""
    found = with_field_defaults(document)
    spec, later = document.get("spec"), _BY_ADMISSION.get(document.get("kind", ""), ())
    if not later or not isinstance(spec, dict):
        return found
    left = {field for field in later if spec.get(field) is None}
    return {**found, "spec": {field: value for field, value in found["spec"].items() if field not in left}}


def with_texts_as_data(secret: _Object) -> _Object:
    """A secret in which what was sent as text is data."""
    texts = secret.get("stringData")
    if not isinstance(texts, dict):
        return secret
    data = {key: base64.b64encode(str(value).encode()).decode() for key, value in texts.items()}
    rest = {key: value for key, value in secret.items() if key != "stringData"}
    return {**rest, "data": {**(rest.get("data") or {}), **data}} if data else rest


def with_template_defaults(spec: _Object) -> _Object:
    """The spec of a template of pods with the values of the fields that it leaves out."""
    return _pod_spec(spec)


def in_stored_form(wanted: _Object, stored: Mapping[str, Any]) -> _Object:
    """A changed object without the default values that the stored one leaves out too.

    Args:
        wanted: the changed object, with the values of `with_field_defaults`.
        stored: the object as it is stored.

    Returns:
        An object that means the same as `wanted`, with its unchanged parts in the form in which they are stored.
    """
    shown = with_field_defaults(dict(stored))
    short: _Object = _short(wanted, stored, shown)
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


def _filled(value: Mapping[str, Any], defaults: Mapping[str, Any], *, zero: bool = False) -> _Object:
    """An object with the values of fields that it leaves out. An empty text counts as left out, and with `zero` a 0."""
    missing = {
        key: one
        for key, one in defaults.items()
        if (found := value.get(key)) is None or found == "" or (zero and found == 0)
    }
    return {**value, **missing}


def _within(value: Mapping[str, Any], field: str, change: Callable[[_Object], _Object]) -> _Object:
    """The object with one of its fields changed, if that is there and is an object."""
    found = value.get(field)
    return {**value, field: change(found)} if isinstance(found, dict) else {**value}


def _each(value: Mapping[str, Any], field: str, change: Callable[[_Object], _Object]) -> _Object:
    """The object with each item of one of its lists changed, if that is there and has objects."""
    found = value.get(field)
    if not isinstance(found, list):
        return {**value}
    return {**value, field: [change(one) if isinstance(one, dict) else one for one in found]}


def _with_spec(fill: Callable[[_Object], _Object]) -> Callable[[_Object], _Object]:
    def filled(document: _Object) -> _Object:
        spec = document.get("spec")
        return {**document, "spec": fill({} if spec is None else spec)} if isinstance(spec, dict | None) else document

    return filled


def _pod(spec: _Object) -> _Object:
    found = _filled(_pod_spec(spec), _OWN_POD)
    grace = found.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < 0:
        found["terminationGracePeriodSeconds"] = 1  # as in Kubernetes, which had accepted negative ones once
    found = _each(found, "containers", _with_requests)
    found = _each(found, "initContainers", _with_requests)
    if found.get("hostNetwork") is True:
        for field in _CONTAINERS:
            found = _each(found, field, _on_host)
    return found if spec.get("priorityClassName") else _filled(found, _PRIORITY)


def _pod_spec(spec: _Object) -> _Object:
    found = _filled(spec, _POD)
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        found |= {"serviceAccountName": account, "serviceAccount": account}  # the older field is an alias
    for field in _CONTAINERS:
        found = _each(found, field, _container)
    return _each(found, "volumes", _volume)


def _on_host(container: _Object) -> _Object:
    return _each(container, "ports", lambda port: _filled(port, {"hostPort": port.get("containerPort")}))


def _node(status: _Object) -> _Object:
    capacity = status.get("capacity")
    return _filled(status, {"allocatable": capacity}) if isinstance(capacity, dict) else status


def _template(spec: _Object) -> _Object:
    return _within(spec, "template", lambda template: _within(template, "spec", _pod_spec))


def _container(container: _Object) -> _Object:
    found = _filled(container, {**_CONTAINER, "imagePullPolicy": pull_policy(container.get("image"))})
    found = _each(found, "ports", lambda port: _filled(port, {"protocol": "TCP"}))
    found = _each(found, "env", _variable)
    for field in _PROBES:
        found = _within(found, field, _probe)
    handlers = found.get("lifecycle")
    if isinstance(handlers, dict):
        for field in _HANDLERS:
            handlers = _within(handlers, field, _http)
        found["lifecycle"] = handlers
    return found


def pull_policy(image: object) -> str:
    """When an image is pulled by default: always if its tag is `latest` or left out, else if it is not there."""
    text = image if isinstance(image, str) else ""
    if "@" in text:
        return "IfNotPresent"
    tag = text.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in {"", "latest"} else "IfNotPresent"


def _with_requests(container: _Object) -> _Object:
    """A container that requests what its limits allow, unless it says what it requests."""
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if not isinstance(resources, dict) or not isinstance(limits, dict) or not limits:
        return container
    requests = resources.get("requests") or {}
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def _variable(variable: _Object) -> _Object:
    def source(value: _Object) -> _Object:
        found = _within(value, "fieldRef", _field)
        return _within(found, "resourceFieldRef", lambda one: _filled(one, {"divisor": "0"}))

    return _within(variable, "valueFrom", source)


def _field(reference: _Object) -> _Object:
    return _filled(reference, {"apiVersion": "v1"})


def _probe(probe: _Object) -> _Object:
    found = _http(_filled(probe, _PROBE, zero=True))
    return _within(found, "grpc", lambda grpc: _filled(grpc, {"service": ""}))


def _http(handler: _Object) -> _Object:
    return _within(handler, "httpGet", lambda get: _filled(get, {"path": "/", "scheme": "HTTP"}))


def _volume(volume: _Object) -> _Object:
    if not set(volume) - {"name"}:
        return {**volume, "emptyDir": {}}
    found = {**volume}
    for field, defaults in _VOLUMES.items():
        if isinstance(found.get(field), dict):
            found[field] = _filled(found[field], defaults)
    found = _within(found, "downwardAPI", _items)
    found = _within(found, "projected", lambda value: _each(value, "sources", _source))
    found = _within(found, "image", lambda one: _filled(one, {"pullPolicy": pull_policy(one.get("reference"))}))
    return _within(found, "ephemeral", lambda value: _within(value, "volumeClaimTemplate", _claim))


def _items(value: _Object) -> _Object:
    return _each(value, "items", lambda item: _within(item, "fieldRef", _field))


def _source(source: _Object) -> _Object:
    found = _within(source, "downwardAPI", _items)
    return _within(found, "serviceAccountToken", lambda one: _filled(one, {"expirationSeconds": 3600}))


def _claim(claim: _Object) -> _Object:
    return _within(claim, "spec", lambda spec: _filled(spec, {"volumeMode": "Filesystem"}))


def _deployment(spec: _Object) -> _Object:
    found = _filled(_template(spec), {**_DEPLOYMENT, "strategy": {}})
    return _within(found, "strategy", lambda one: _rolling(one, {"maxSurge": _QUARTER, "maxUnavailable": _QUARTER}))


def _rolling(strategy: _Object, defaults: Mapping[str, Any]) -> _Object:
    found = {**strategy, "type": strategy.get("type") or "RollingUpdate"}
    if found["type"] != "RollingUpdate":
        return found
    return _within(_filled(found, {"rollingUpdate": {}}), "rollingUpdate", lambda one: _filled(one, defaults))


def _replica_set(spec: _Object) -> _Object:
    return _filled(_template(spec), {"replicas": 1})


def _stateful_set(spec: _Object) -> _Object:
    keep = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    others = {"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10, "serviceName": ""}
    found = _filled(_template(spec), {**others, "persistentVolumeClaimRetentionPolicy": {}, "updateStrategy": {}})
    found = _within(found, "persistentVolumeClaimRetentionPolicy", lambda one: _filled(one, keep))
    found = _within(found, "updateStrategy", lambda one: _rolling(one, {"maxUnavailable": 1, "partition": 0}))
    return _each(found, "volumeClaimTemplates", _claim_template)


def _claim_template(claim: _Object) -> _Object:
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}
    return _claim(_filled(claim, kind))


def _daemon_set(spec: _Object) -> _Object:
    found = _filled(_template(spec), {"revisionHistoryLimit": 10, "updateStrategy": {}})
    return _within(found, "updateStrategy", lambda one: _rolling(one, {"maxSurge": 0, "maxUnavailable": 1}))


def _job(spec: _Object) -> _Object:
    found = _template(spec)
    if found.get("completions") is None and found.get("parallelism") is None:
        found["completions"] = 1
    others = {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "manualSelector": False,
        "parallelism": 1,
        "podReplacementPolicy": "Failed" if found.get("podFailurePolicy") else "TerminatingOrFailed",
        "suspend": False,
    }
    if found.get("backoffLimitPerIndex") is not None:
        others["backoffLimit"] = 2**31 - 1
    found = _filled(found, others)
    return _within(found, "podFailurePolicy", lambda one: _each(one, "rules", _failure_rule))


def _failure_rule(rule: _Object) -> _Object:
    return _each(rule, "onPodConditions", lambda one: _filled(one, {"status": "True"}))


def _binding(document: _Object) -> _Object:
    found = _within(document, "roleRef", lambda one: _filled(one, {"apiGroup": _RBAC}))
    return _each(found, "subjects", _subject)


def _subject(subject: _Object) -> _Object:
    return _filled(subject, {"apiGroup": _RBAC}) if subject.get("kind") in {"User", "Group"} else {**subject}


def _cron_job(spec: _Object) -> _Object:
    return _within(_filled(spec, _CRON_JOB), "jobTemplate", _job_template)


def _job_template(template: _Object) -> _Object:
    found = _within(_filled(template, {"metadata": {}}), "spec", _template)
    return _within(found, "spec", lambda spec: _within(spec, "template", lambda one: _filled(one, {"metadata": {}})))


def with_labels_of_template(document: _Object) -> _Object:
    """A controller that has the labels of its pods, unless it has labels of its own."""
    labels, metadata = _labels_of_template(document), document.get("metadata") or {}
    if not labels or not isinstance(metadata, dict) or metadata.get("labels"):
        return document
    return {**document, "metadata": {**metadata, "labels": labels}}


def selecting_by_template(document: _Object) -> _Object:
    """A replication controller that selects by the labels of its pods, and has them, unless it says otherwise."""
    labels, spec = _labels_of_template(document), document.get("spec")
    if labels and isinstance(spec, dict) and not spec.get("selector"):
        document = {**document, "spec": {**spec, "selector": labels}}
    return with_labels_of_template(document)


def _labels_of_template(document: _Object) -> Any:
    found: Any = document
    for field in ("spec", "template", "metadata", "labels"):
        found = found.get(field) if isinstance(found, dict) else None
    return found


def _volume_spec(spec: _Object) -> _Object:
    found = _filled(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    sources = {
        field: _filled(found[field], _VOLUMES[field]) for field in _SOURCES if isinstance(found.get(field), dict)
    }
    return {**found, **sources}


def _ports(subset: _Object) -> _Object:
    return _each(subset, "ports", lambda port: _filled(port, {"protocol": "TCP"}))


def _given(value: Mapping[str, Any]) -> _Object:
    return {field: one for field, one in value.items() if one is not None}


def _autoscaler(spec: _Object) -> _Object:
    found = _filled(spec, {"minReplicas": 1})
    if not found.get("metrics"):
        found["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": dict(_TARGET)}}]
    if isinstance(behavior := found.get("behavior"), dict):
        for field, defaults in _SCALING.items():
            rules = behavior.get(field)
            if rules is None or isinstance(rules, dict):
                said = {name: one for name, one in (rules or {}).items() if one is not None}
                behavior = {**behavior, field: {**defaults, **said}}  # an empty text is a wrong value here
        found["behavior"] = behavior
    return found


def _limit_range(spec: _Object) -> _Object:
    return _each(spec, "limits", _limit)


def _limit(limit: _Object) -> _Object:
    """A limit. What a container may have at most is what it gets by default, and it requests that, or what it needs."""
    if limit.get("type") != "Container":
        return limit
    most, least, default, request = (limit.get(field) or {} for field in ("max", "min", "default", "defaultRequest"))
    default = {**most, **default}
    found = {"default": default, "defaultRequest": {**least, **default, **request}}
    return {**limit, **{field: one for field, one in found.items() if one}}


def _network_policy(spec: _Object) -> _Object:
    types = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    found = _filled(spec, {"podSelector": {}, "policyTypes": types})
    for rules in ("ingress", "egress"):
        found = _each(found, rules, lambda rule: _each(rule, "ports", lambda port: _filled(port, {"protocol": "TCP"})))
    return found


def _of_top(defaults: Mapping[str, Any]) -> Callable[[_Object], _Object]:
    return lambda document: _filled(document, defaults)


_TARGET: Final = {"type": "Utilization", "averageUtilization": 80}
_PERCENT: Final = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALING: Final[Mapping[str, _Object]] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _PERCENT],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_PERCENT]},
}
_CRON_JOB: Final = {
    "concurrencyPolicy": "Allow",
    "failedJobsHistoryLimit": 1,
    "successfulJobsHistoryLimit": 3,
    "suspend": False,
}
_KINDS: Final[Mapping[str, Callable[[_Object], _Object]]] = {
    "Endpoints": lambda document: _each(document, "subsets", _ports),
    "EndpointSlice": lambda document: _each(document, "ports", lambda port: {**_PORT, **_given(port)}),
    "PersistentVolume": _with_spec(_volume_spec),
    "ReplicationController": lambda document: _with_spec(_replica_set)(selecting_by_template(document)),
    "CronJob": _with_spec(_cron_job),
    "HorizontalPodAutoscaler": _with_spec(_autoscaler),
    "LimitRange": _with_spec(_limit_range),
    "NetworkPolicy": _with_spec(_network_policy),
    "PersistentVolumeClaim": _with_spec(lambda spec: _filled(spec, {"volumeMode": "Filesystem"})),
    "PriorityClass": _of_top({"preemptionPolicy": "PreemptLowerPriority"}),
    "Lease": _of_top({"spec": {}}),
    "Secret": lambda secret: _filled(with_texts_as_data(secret), {"type": "Opaque"}),
    "StorageClass": _of_top({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    "Node": lambda node: _within(node, "status", _node),
    "Pod": _with_spec(_pod),
    "Deployment": _with_spec(_deployment),
    "ReplicaSet": _with_spec(_replica_set),
    "StatefulSet": _with_spec(_stateful_set),
    "DaemonSet": _with_spec(_daemon_set),
    "Job": lambda document: _with_spec(_job)(with_labels_of_template(document)),
    "Service": _with_spec(with_service_defaults),
    **dict.fromkeys(("Role", "ClusterRole"), lambda role: {**role, "rules": role.get("rules") or None}),
    "RoleBinding": _binding,
    "ClusterRoleBinding": _binding,
}
