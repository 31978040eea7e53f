"""Validation of the containers of a pod, in the order in which Kubernetes names their errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from moorage.core.admission.validation.container_fields import (
    Mountable,
    host_ports,
    lifecycle_and_probes,
    mounts,
    ports,
    variables,
)
from moorage.core.admission.validation.container_resources import container_resources
from moorage.core.admission.validation.fields import (
    Fields,
    dns_label,
    inner,
    listed,
    number,
    object_in,
    objects,
    one_of,
    text,
)
from moorage.core.apimachinery.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_CONTAINER_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_ONLY_SIDECARS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_RESIZED: Final = ("cpu", "memory")
_RESTARTS: Final = "RestartContainer"
_RESIZE_POLICIES: Final = ("NotRequired", _RESTARTS)
_LARGEST_ID: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PodParts:
    """What the containers of a pod refer to."""

    mountable: Mountable
    claims: frozenset[str]
    grace: int | None
    restart_policy: str


def containers(spec: Fields, path: str, parts: PodParts) -> Iterator[FieldError]:
    """The errors of a pod's containers and init containers.

    Args:
        spec: of the pod.
        path: of the spec.
        parts: what the containers refer to.
    """
    yield from _regular(spec, f"{path}.containers", parts)
    yield from _before(spec, f"{path}.initContainers", parts)


def images_without_spaces(spec: Fields, path: str) -> Iterator[FieldError]:
    """The errors of images with spaces around them, which are refused in pods but not in templates."""
    for field in ("containers", "initContainers"):
        for container, at in objects(spec, field, f"{path}.{field}"):
            image = text(container, "image")
            if image != image.strip():
                yield invalid(f"{at}.image", image, "must not have leading or trailing whitespace")


def _regular(spec: Fields, path: str, parts: PodParts) -> Iterator[FieldError]:
    if not listed(spec, "containers"):
        yield required(path)
    seen = set()
    for container, at in objects(spec, "containers", path):
        yield from _common(container, at, parts)
        name = text(container, "name")
        if name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        yield from lifecycle_and_probes(container, at, parts.grace)
        yield from _restart_policy(container, at)
    yield from host_ports(objects(spec, "containers", path))


def _before(spec: Fields, path: str, parts: PodParts) -> Iterator[FieldError]:
    seen = {text(container, "name") for container, _ in objects(spec, "containers", path)}
    for container, at in objects(spec, "initContainers", path):
        yield from _common(container, at, parts)
        yield from _restart_policy(container, at)
        name = text(container, "name")
        if name in seen:
            yield duplicate(f"{at}.name", name)
        elif name:
            seen.add(name)
        # As in Kubernetes, the path names the first container: each is looked at alone.
        yield from host_ports(iter([(container, f"{path}[0]")]))
        if container.get("restartPolicy") == "Always":
            yield from lifecycle_and_probes(container, at, parts.grace)
        else:
            yield from _only_in_sidecars(container, at)


def _only_in_sidecars(container: Fields, path: str) -> Iterator[FieldError]:
    for field in _ONLY_SIDECARS:
        if object_in(container, field) is not None:
            yield forbidden(f"{path}.{field}", "may not be set for init containers without restartPolicy=Always")
    for policy, at in objects(container, "resizePolicy", f"{path}.resizePolicy"):
        if (restart := text(policy, "restartPolicy")) == _RESTARTS:
            rule = f"must not be set to '{_RESTARTS}' for non-sidecar initContainers"
            yield invalid(f"{at}.restartPolicy", restart, rule)


def _common(container: Fields, path: str, parts: PodParts) -> Iterator[FieldError]:
    name = text(container, "name")
    if name:
        yield from dns_label(name, f"{path}.name")
    else:
        yield required(f"{path}.name")
    if not text(container, "image"):
        yield required(f"{path}.image")
    yield from one_of(
        text(container, "terminationMessagePolicy"), f"{path}.terminationMessagePolicy", _MESSAGE_POLICIES
    )
    yield from ports(container, f"{path}.ports")
    yield from variables(container, path)
    yield from mounts(container, path, parts.mountable)
    yield from one_of(text(container, "imagePullPolicy"), f"{path}.imagePullPolicy", _PULL_POLICIES)
    yield from container_resources(inner(container, "resources"), f"{path}.resources", parts.claims)
    yield from _resize_policy(container, f"{path}.resizePolicy", parts)
    yield from security_context(inner(container, "securityContext"), f"{path}.securityContext")


def _restart_policy(container: Fields, path: str) -> Iterator[FieldError]:
    found = container.get("restartPolicy")
    if found is not None and found not in _CONTAINER_RESTART_POLICIES:
        yield not_supported(f"{path}.restartPolicy", found, _CONTAINER_RESTART_POLICIES)
    elif found is None and listed(container, "restartPolicyRules"):
        yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")


def _resize_policy(container: Fields, path: str, parts: PodParts) -> Iterator[FieldError]:
    seen = set()
    for policy, at in objects(container, "resizePolicy", path):
        resource, restart = text(policy, "resourceName"), text(policy, "restartPolicy")
        if resource in seen:
            yield duplicate(at, resource)
        seen.add(resource)
        yield from one_of(resource, path, _RESIZED)
        yield from one_of(restart, path, _RESIZE_POLICIES)
        if parts.restart_policy == "Never" and restart != "NotRequired":
            yield invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def security_context(context: Fields, path: str) -> Iterator[FieldError]:
    """The errors of the users of a security context, and of privileges that contradict each other."""
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        found = number(context, field)
        if found is not None and not 0 <= found <= _LARGEST_ID:
            yield invalid(f"{path}.{field}", found, f"must be between 0 and {_LARGEST_ID}, inclusive")
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged") is True:
        rule = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield invalid(path, context, rule)
