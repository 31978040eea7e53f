"""Default values of the fields of pods, and of what makes pods: Deployments, Jobs and others (see `field_defaults`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

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

PRIORITY: Final = {"preemptionPolicy": "PreemptLowerPriority", "priority": 0}
"""Of pods that name no priority class."""

_CONTAINER: Final = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE: Final = {"failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1}
VOLUMES: Final[Mapping[str, Object]] = {
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


def pod_defaults(spec: Object) -> Object:
    """The spec of a pod."""
    found = filled(pod_spec_defaults(spec), _OWN_POD)
    grace = found.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < 0:
        found["terminationGracePeriodSeconds"] = 1  # as in Kubernetes, which had accepted negative ones once
    found = each(found, "containers", _with_requests)
    found = each(found, "initContainers", _with_requests)
    if found.get("hostNetwork") is True:
        for field in _CONTAINERS:
            found = each(found, field, _on_host)
    return found if spec.get("priorityClassName") else filled(found, PRIORITY)


def pod_spec_defaults(spec: Object) -> Object:
    """The spec of a pod, or of a template of pods."""
    found = filled(spec, _POD)
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        found |= {"serviceAccountName": account, "serviceAccount": account}  # the older field is an alias
    for field in _CONTAINERS:
        found = each(found, field, _container)
    return each(found, "volumes", _volume)


def _on_host(container: Object) -> Object:
    return each(container, "ports", lambda port: filled(port, {"hostPort": port.get("containerPort")}))


def template_defaults(spec: Object) -> Object:
    """The spec of a controller, in the template of its pods."""
    return within(spec, "template", lambda template: within(template, "spec", pod_spec_defaults))


def _container(container: Object) -> Object:
    found = filled(container, {**_CONTAINER, "imagePullPolicy": pull_policy(container.get("image"))})
    found = each(found, "ports", lambda port: filled(port, {"protocol": "TCP"}))
    found = each(found, "env", _variable)
    for field in _PROBES:
        found = within(found, field, _probe)
    handlers = found.get("lifecycle")
    if isinstance(handlers, dict):
        for field in _HANDLERS:
            handlers = within(handlers, field, _http)
        found["lifecycle"] = handlers
    return found


def pull_policy(image: object) -> str:
    """When an image is pulled by default: always if its tag is `latest` or left out, else if it is not there."""
    text = image if isinstance(image, str) else ""
    if "@" in text:
        return "IfNotPresent"
    tag = text.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in {"", "latest"} else "IfNotPresent"


def _with_requests(container: Object) -> Object:
    """A container that requests what its limits allow, unless it says what it requests."""
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if not isinstance(resources, dict) or not isinstance(limits, dict) or not limits:
        return container
    requests = resources.get("requests") or {}
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def _variable(variable: Object) -> Object:
    def source(value: Object) -> Object:
        found = within(value, "fieldRef", _field)
        return within(found, "resourceFieldRef", lambda one: filled(one, {"divisor": "0"}))

    return within(variable, "valueFrom", source)


def _field(reference: Object) -> Object:
    return filled(reference, {"apiVersion": "v1"})


def _probe(probe: Object) -> Object:
    found = _http(filled(probe, _PROBE, zero=True))
    return within(found, "grpc", lambda grpc: filled(grpc, {"service": ""}))


def _http(handler: Object) -> Object:
    return within(handler, "httpGet", lambda get: filled(get, {"path": "/", "scheme": "HTTP"}))


def _volume(volume: Object) -> Object:
    if not set(volume) - {"name"}:
        return {**volume, "emptyDir": {}}
    found = {**volume}
    for field, defaults in VOLUMES.items():
        if isinstance(found.get(field), dict):
            found[field] = filled(found[field], defaults)
    found = within(found, "downwardAPI", _items)
    found = within(found, "projected", lambda value: each(value, "sources", _source))
    found = within(found, "image", lambda one: filled(one, {"pullPolicy": pull_policy(one.get("reference"))}))
    return within(found, "ephemeral", lambda value: within(value, "volumeClaimTemplate", claim_defaults))


def _items(value: Object) -> Object:
    return each(value, "items", lambda item: within(item, "fieldRef", _field))


def _source(source: Object) -> Object:
    found = within(source, "downwardAPI", _items)
    return within(found, "serviceAccountToken", lambda one: filled(one, {"expirationSeconds": 3600}))


def claim_defaults(claim: Object) -> Object:
    """A claim of a volume."""
    return within(claim, "spec", lambda spec: filled(spec, {"volumeMode": "Filesystem"}))


Object = dict[str, Any]


def filled(value: Mapping[str, Any], defaults: Mapping[str, Any], *, zero: bool = False) -> Object:
    """An object with the values of fields that it leaves out. An empty text counts as left out, and with `zero` a 0."""
    missing = {
        key: one
        for key, one in defaults.items()
        if (found := value.get(key)) is None or found == "" or (zero and found == 0)
    }
    return {**value, **missing}


def within(value: Mapping[str, Any], field: str, change: Callable[[Object], Object]) -> Object:
    """The object with one of its fields changed, if that is there and is an object."""
    found = value.get(field)
    return {**value, field: change(found)} if isinstance(found, dict) else {**value}


def each(value: Mapping[str, Any], field: str, change: Callable[[Object], Object]) -> Object:
    """The object with each item of one of its lists changed, if that is there and has objects."""
    found = value.get(field)
    if not isinstance(found, list):
        return {**value}
    return {**value, field: [change(one) if isinstance(one, dict) else one for one in found]}


def with_spec(fill: Callable[[Object], Object]) -> Callable[[Object], Object]:
    """Fill in the spec of an object, also if it is left out. One of a wrong type stays as it is."""

    def change(document: Object) -> Object:
        spec = document.get("spec")
        return {**document, "spec": fill({} if spec is None else spec)} if isinstance(spec, dict | None) else document

    return change


_DEPLOYMENT: Final = {"progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10}
_QUARTER: Final = "25%"


def deployment(spec: Object) -> Object:
    """The spec of a Deployment."""
    found = filled(template_defaults(spec), {**_DEPLOYMENT, "strategy": {}})
    return within(found, "strategy", lambda one: _rolling(one, {"maxSurge": _QUARTER, "maxUnavailable": _QUARTER}))


def _rolling(strategy: Object, defaults: Mapping[str, Any]) -> Object:
    found = {**strategy, "type": strategy.get("type") or "RollingUpdate"}
    if found["type"] != "RollingUpdate":
        return found
    return within(filled(found, {"rollingUpdate": {}}), "rollingUpdate", lambda one: filled(one, defaults))


def replica_set(spec: Object) -> Object:
    """The spec of a ReplicaSet, or of a ReplicationController."""
    return filled(template_defaults(spec), {"replicas": 1})


def stateful_set(spec: Object) -> Object:
    """The spec of a StatefulSet."""
    keep = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    others = {"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10, "serviceName": ""}
    found = filled(
        template_defaults(spec), {**others, "persistentVolumeClaimRetentionPolicy": {}, "updateStrategy": {}}
    )
    found = within(found, "persistentVolumeClaimRetentionPolicy", lambda one: filled(one, keep))
    found = within(found, "updateStrategy", lambda one: _rolling(one, {"maxUnavailable": 1, "partition": 0}))
    return each(found, "volumeClaimTemplates", _claim_template)


def _claim_template(claim: Object) -> Object:
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}
    return claim_defaults(filled(claim, kind))


def daemon_set(spec: Object) -> Object:
    """The spec of a DaemonSet."""
    found = filled(template_defaults(spec), {"revisionHistoryLimit": 10, "updateStrategy": {}})
    return within(found, "updateStrategy", lambda one: _rolling(one, {"maxSurge": 0, "maxUnavailable": 1}))


def job(spec: Object) -> Object:
    """The spec of a Job."""
    found = template_defaults(spec)
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
    found = filled(found, others)
    return within(found, "podFailurePolicy", lambda one: each(one, "rules", _failure_rule))


def _failure_rule(rule: Object) -> Object:
    return each(rule, "onPodConditions", lambda one: filled(one, {"status": "True"}))


def cron_job(spec: Object) -> Object:
    """The spec of a CronJob."""
    return within(filled(spec, _CRON_JOB), "jobTemplate", _job_template)


def _job_template(template: Object) -> Object:
    found = within(filled(template, {"metadata": {}}), "spec", template_defaults)
    return within(found, "spec", lambda spec: within(spec, "template", lambda one: filled(one, {"metadata": {}})))


def with_labels_of_template(document: Object) -> Object:
    """A controller that has the labels of its pods, unless it has labels of its own."""
    labels, metadata = _labels_of_template(document), document.get("metadata") or {}
    if not labels or not isinstance(metadata, dict) or metadata.get("labels"):
        return document
    return {**document, "metadata": {**metadata, "labels": labels}}


def selecting_by_template(document: Object) -> Object:
    """A replication controller that selects by the labels of its pods, and has them, unless it says otherwise."""
    labels, spec = _labels_of_template(document), document.get("spec")
    if labels and isinstance(spec, dict) and not spec.get("selector"):
        document = {**document, "spec": {**spec, "selector": labels}}
    return with_labels_of_template(document)


def _labels_of_template(document: Object) -> Any:
    found: Any = document
    for field in ("spec", "template", "metadata", "labels"):
        found = found.get(field) if isinstance(found, dict) else None
    return found


def autoscaler(spec: Object) -> Object:
    """The spec of a HorizontalPodAutoscaler."""
    found = filled(spec, {"minReplicas": 1})
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


_TARGET: Final = {"type": "Utilization", "averageUtilization": 80}
_PERCENT: Final = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALING: Final[Mapping[str, Object]] = {
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
