"""Validation of the containers of a pod, in the order in which Kubernetes names their errors.

What only a kubelet uses (variables, mounts, probes, hooks, users) has no rules beside its structure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moorage.apiserver.rules.validation.container_resources import container_resources
from moorage.apiserver.rules.validation.fields import (
    Fields,
    dns_label,
    inner,
    listed,
    number,
    objects,
    port_number,
    text,
)
from moorage.decide.kubernetes.field_errors import FieldError, duplicate, invalid, not_supported, required

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_CONTAINER_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")


def containers(spec: Fields, path: str) -> Iterator[FieldError]:
    """Yield the errors of a pod's containers and init containers.

    Args:
        spec: of the pod.
        path: of the spec.
    """
    regular, before = f"{path}.containers", f"{path}.initContainers"
    if not listed(spec, "containers"):
        yield required(regular)
    seen = set[str]()
    for container, at in objects(spec, "containers", regular):
        yield from _container(container, at, seen)
    yield from _host_ports(objects(spec, "containers", regular))
    for container, at in objects(spec, "initContainers", before):
        yield from _container(container, at, seen)
        # As in Kubernetes, the path names the first container: each is looked at alone.
        yield from _host_ports(iter([(container, f"{before}[0]")]))


def images_without_spaces(spec: Fields, path: str) -> Iterator[FieldError]:
    """The errors of images with spaces around them, which are refused in pods but not in templates."""
    for field in ("containers", "initContainers"):
        for container, at in objects(spec, field, f"{path}.{field}"):
            image = text(container, "image")
            if image != image.strip():
                yield invalid(f"{at}.image", image, "must not have leading or trailing whitespace")


def _container(container: Fields, path: str, seen: set[str]) -> Iterator[FieldError]:
    name = text(container, "name")
    if name:
        yield from dns_label(name, f"{path}.name")
    else:
        yield required(f"{path}.name")
    if not text(container, "image"):
        yield required(f"{path}.image")
    for one, at in objects(container, "ports", f"{path}.ports"):
        if outside := number(one, "hostPort"):
            yield from port_number(outside, f"{at}.hostPort")
    yield from container_resources(inner(container, "resources"), f"{path}.resources")
    if name in seen:
        yield duplicate(f"{path}.name", name)
    seen.add(name)
    found = container.get("restartPolicy")
    if found is not None and found not in _CONTAINER_RESTART_POLICIES:
        yield not_supported(f"{path}.restartPolicy", found, _CONTAINER_RESTART_POLICIES)


def _host_ports(containers: Iterator[tuple[Fields, str]]) -> Iterator[FieldError]:
    """The errors of ports of the node that containers use twice. `containers` has each with its path."""
    seen = set()
    for container, path in containers:
        for one, at in objects(container, "ports", f"{path}.ports"):
            outside = number(one, "hostPort")
            identity = f"{text(one, 'protocol')}/{text(one, 'hostIP')}/{outside}"
            if outside and identity in seen:
                yield duplicate(f"{at}.hostPort", identity)
            seen.add(identity)
