"""The values of the fields of pods that nobody has set: containers, probes, volumes (see `field_defaults`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moorage.apiserver.rules.field_filling import Object, each, filled, within

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
