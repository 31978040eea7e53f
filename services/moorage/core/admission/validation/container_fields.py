"""Validation of what a container has beside its name, its image and its resources: ports, variables, mounts, probes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.core.admission.validation.fields import (
    PROTOCOLS,
    Fields,
    dns_subdomain,
    inner,
    listed,
    not_negative,
    number,
    object_in,
    objects,
    one_of,
    port,
    port_number,
    qualified_name,
    text,
)
from moorage.core.apimachinery import names
from moorage.core.apimachinery.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)

_SCHEMES: Final = ("HTTP", "HTTPS")
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_PRIVILEGED_PROPAGATION: Final = "Bidirectional"
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SECONDS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")

_VARIABLE_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_KNOWN_FIELDS: Final = frozenset(_VARIABLE_FIELDS) | {
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
}
_SUBSCRIPTED: Final = ("metadata.annotations", "metadata.labels")
_RESOURCES: Final = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE: Final = ("limits.hugepages-", "requests.hugepages-")


@dataclass(frozen=True, slots=True)
class Mountable:
    """The valid volumes of a pod, by their names."""

    volumes: Mapping[str, Fields]


def ports(container: Fields, path: str) -> Iterator[FieldError]:
    """The errors of a container's ports."""
    seen = set()
    for one, at in objects(container, "ports", path):
        name = text(one, "name")
        wrong = names.check_port_name(name) if name else []
        yield from (invalid(f"{at}.name", name, rule) for rule in wrong)
        if name and not wrong and name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        if inside := number(one, "containerPort"):
            yield from port_number(inside, f"{at}.containerPort")
        else:
            yield required(f"{at}.containerPort")
        if outside := number(one, "hostPort"):
            yield from port_number(outside, f"{at}.hostPort")
        yield from one_of(text(one, "protocol"), f"{at}.protocol", PROTOCOLS)


def host_ports(containers: Iterator[tuple[Fields, str]]) -> Iterator[FieldError]:
    """The errors of ports of the node that containers use twice. `containers` has each with its path."""
    seen = set()
    for container, path in containers:
        for one, at in objects(container, "ports", f"{path}.ports"):
            outside = number(one, "hostPort")
            identity = f"{text(one, 'protocol')}/{text(one, 'hostIP')}/{outside}"
            if outside and identity in seen:
                yield duplicate(f"{at}.hostPort", identity)
            seen.add(identity)


def variables(container: Fields, path: str) -> Iterator[FieldError]:
    """The errors of the environment variables of a container."""
    for one, at in objects(container, "env", f"{path}.env"):
        name = text(one, "name")
        if not name:
            yield required(f"{at}.name")
        yield from (invalid(f"{at}.name", name, rule) for rule in names.check_variable_name(name))
        source = object_in(one, "valueFrom")
        if source is not None:
            yield from _variable_source(source, f"{at}.valueFrom", has_value=bool(text(one, "value")))
    for one, at in objects(container, "envFrom", f"{path}.envFrom"):
        prefix = text(one, "prefix")
        yield from (invalid(f"{at}.prefix", prefix, rule) for rule in names.check_variable_name(prefix))
        sources = [field for field in ("configMapRef", "secretRef") if object_in(one, field) is not None]
        for field in sources:
            referred = text(inner(one, field), "name")
            if referred:
                yield from dns_subdomain(referred, f"{at}.{field}.name")
            else:
                yield required(f"{at}.{field}.name")
        if not sources:
            yield invalid(f"{path}.envFrom", "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(sources) > 1:
            yield invalid(f"{path}.envFrom", "", "may not have more than one field specified at a time")


def _variable_source(source: Fields, path: str, *, has_value: bool) -> Iterator[FieldError]:
    found = 0
    if (selected := object_in(source, "fieldRef")) is not None:
        found += 1
        yield from field_reference(selected, f"{path}.fieldRef", _VARIABLE_FIELDS)
    if (selected := object_in(source, "resourceFieldRef")) is not None:
        found += 1
        yield from resource_reference(selected, f"{path}.resourceFieldRef", of_volume=False)
    for field in ("configMapKeyRef", "secretKeyRef"):
        if (selected := object_in(source, field)) is not None:
            found += 1
            yield from dns_subdomain(text(selected, "name"), f"{path}.{field}.name")
            yield from config_key(text(selected, "key"), f"{path}.{field}.key")
    found += object_in(source, "fileKeyRef") is not None
    if not found:
        known = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid(path, "", f"must specify one of: {known}")
    elif has_value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif found > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def config_key(key: str, path: str) -> Iterator[FieldError]:
    """The errors of a key of a ConfigMap or a Secret."""
    if not key:
        yield required(path)
    else:
        yield from (invalid(path, key, rule) for rule in names.check_config_key(key))


def field_reference(selected: Fields, path: str, supported: tuple[str, ...]) -> Iterator[FieldError]:
    """The errors of a reference to a field of the pod itself.

    Args:
        selected: the reference.
        path: of it.
        supported: the fields that may be referred to.
    """
    field = text(selected, "fieldPath")
    if not field:
        yield required(f"{path}.fieldPath")
        return
    whole, bracket, rest = field.partition("['")
    if bracket and rest.endswith("']"):
        key = rest.removesuffix("']")
        if whole in _SUBSCRIPTED:
            yield from qualified_name(key.lower() if whole == _SUBSCRIPTED[0] else key, path)
        else:
            rule = f"error converting fieldPath: field label does not support subscript: {field}"
            yield invalid(f"{path}.fieldPath", field, rule)
    elif field not in _KNOWN_FIELDS:
        yield _unknown_field(field, path)
    elif field not in supported:
        yield not_supported(f"{path}.fieldPath", field, supported)


def _unknown_field(field: str, path: str) -> FieldError:
    return invalid(f"{path}.fieldPath", field, f"error converting fieldPath: field label not supported: {field}")


def resource_reference(selected: Fields, path: str, *, of_volume: bool) -> Iterator[FieldError]:
    """The errors of a reference to a request or a limit.

    Args:
        selected: the reference.
        path: of it.
        of_volume: whether it is in a volume, and so has to name its container.
    """
    name = text(selected, "resource")
    if of_volume and not text(selected, "containerName"):
        yield required(f"{path}.containerName")
    elif not name:
        yield required(f"{path}.resource")
    elif name not in _RESOURCES and not name.startswith(_HUGE):
        yield not_supported(f"{path}.resource", name, _RESOURCES)


def mounts(container: Fields, path: str, mountable: Mountable) -> Iterator[FieldError]:
    """The errors of what a container mounts, as folders or as devices."""
    devices = {text(one, "name"): text(one, "devicePath") for one, _ in objects(container, "volumeDevices", "")}
    mounted = {text(one, "name"): text(one, "mountPath") for one, _ in objects(container, "volumeMounts", "")}
    yield from _volume_mounts(container, f"{path}.volumeMounts", mountable, devices)
    yield from _volume_devices(container, f"{path}.volumeDevices", mountable, mounted)


def _volume_mounts(
    container: Fields, path: str, mountable: Mountable, devices: Mapping[str, str]
) -> Iterator[FieldError]:
    seen = set()
    for mount, at in objects(container, "volumeMounts", path):
        name, where = text(mount, "name"), text(mount, "mountPath")
        yield from _volume_name(name, f"{at}.name", mountable)
        if not where:
            yield required(f"{at}.mountPath")
        if where in seen:
            yield invalid(f"{at}.mountPath", where, "must be unique")
        seen.add(where)
        if name in devices:
            yield invalid(f"{at}.name", name, "must not already exist in volumeDevices")
        if where in devices.values():
            yield invalid(f"{at}.mountPath", where, "must not already exist as a path in volumeDevices")
        # As in Kubernetes, the paths of these errors have no index.
        below, pattern = text(mount, "subPath"), text(mount, "subPathExpr")
        yield from path_below(below, f"{path}.subPath")
        if pattern and below:
            yield invalid(f"{at}.subPathExpr", pattern, "subPathExpr and subPath are mutually exclusive")
        yield from path_below(pattern, f"{path}.subPathExpr")
        propagation = mount.get("mountPropagation")
        if propagation is not None:
            if propagation not in _PROPAGATIONS:
                yield not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS)
            elif (
                propagation == _PRIVILEGED_PROPAGATION
                and inner(container, "securityContext").get("privileged") is not True
            ):
                rule = "Bidirectional mount propagation is available only to privileged containers"
                yield forbidden(f"{path}.mountPropagation", rule)


def _volume_name(name: str, path: str, mountable: Mountable) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    if name not in mountable.volumes:
        yield not_found(path, name)


def _volume_devices(
    container: Fields, path: str, mountable: Mountable, mounted: Mapping[str, str]
) -> Iterator[FieldError]:
    seen_names, seen_paths = {""}, set()
    for device, at in objects(container, "volumeDevices", path):
        name, where = text(device, "name"), text(device, "devicePath")
        if not name:
            yield required(f"{at}.name")
        elif name in seen_names:
            yield invalid(f"{at}.name", name, "must be unique")
        seen_names.add(name)
        yield from _block_volume(name, f"{at}.name", mountable)
        if not where:
            yield required(f"{at}.devicePath")
        if where in seen_paths:
            yield invalid(f"{at}.devicePath", where, "must be unique")
        if ".." in where.split("/"):
            yield invalid(f"{at}.devicePath", where, "can not contain backsteps ('..')")
        seen_paths.add(where)
        if name in mounted:
            yield invalid(f"{at}.name", name, "must not already exist in volumeMounts")
        if where in mounted.values():
            yield invalid(f"{at}.devicePath", where, "must not already exist as a path in volumeMounts")


def _block_volume(name: str, path: str, mountable: Mountable) -> Iterator[FieldError]:
    volume = mountable.volumes.get(name)
    if volume is None:
        yield not_found(path, name)
    elif not {"persistentVolumeClaim", "ephemeral"} & volume.keys():
        rule = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        yield invalid(path, name, rule)


def path_below(path_text: str, path: str) -> Iterator[FieldError]:
    """The errors of a path that has to stay below a folder. An empty one is valid."""
    if path_text.startswith("/"):
        yield invalid(path, path_text, "must be a relative path")
    if ".." in path_text.split("/"):
        yield invalid(path, path_text, "must not contain '..'")


def lifecycle_and_probes(container: Fields, path: str, grace: int | None) -> Iterator[FieldError]:
    """The errors of a container's hooks and probes. `grace` is the pod's `terminationGracePeriodSeconds`."""
    hooks = inner(container, "lifecycle")
    for field in ("postStart", "preStop"):
        if (found := object_in(hooks, field)) is not None:
            yield from _handler(found, f"{path}.lifecycle.{field}", grace)
    for field in _PROBES:
        if (found := object_in(container, field)) is not None:
            yield from _probe(found, f"{path}.{field}", grace, is_readiness=field == "readinessProbe")


def _probe(probe: Fields, path: str, grace: int | None, *, is_readiness: bool) -> Iterator[FieldError]:
    yield from _handler(probe, path, grace)
    yield from not_negative(probe, path, *_SECONDS)
    own_grace = number(probe, "terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", own_grace, "must be greater than 0")
    if is_readiness and own_grace is not None:
        rule = "must not be set for readinessProbes"
        yield invalid(f"{path}.terminationGracePeriodSeconds", own_grace, rule)
    if not is_readiness and probe.get("successThreshold") != 1:
        yield invalid(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1")


def _handler(handler: Fields, path: str, grace: int | None) -> Iterator[FieldError]:
    found = [(field, one) for field in _HANDLERS if (one := object_in(handler, field)) is not None]
    if not found:
        yield required(path, "must specify a handler type")
        return
    yield from _action(*found[0], path, grace)
    for field, _ in found[1:]:
        yield forbidden(f"{path}.{field}", "may not specify more than 1 handler type")


def _action(field: str, action: Fields, path: str, grace: int | None) -> Iterator[FieldError]:
    at = f"{path}.{field}"
    if field == "exec" and not listed(action, "command"):
        yield required(f"{at}.command")
    if field == "httpGet":
        yield from _http(action, at)
    if field in {"tcpSocket", "grpc"}:
        yield from port(action.get("port"), f"{at}.port")
    seconds = number(action, "seconds") or 0
    if field == "sleep" and grace is not None and not 0 <= seconds <= grace:
        rule = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        yield invalid(at, seconds, rule)


def _http(action: Fields, path: str) -> Iterator[FieldError]:
    if not text(action, "path"):
        yield required(f"{path}.path")
    yield from port(action.get("port"), f"{path}.port")
    scheme: Any = action.get("scheme")
    if scheme not in _SCHEMES:
        yield not_supported(f"{path}.scheme", scheme, _SCHEMES)
    for header, _ in objects(action, "httpHeaders", path):
        name = text(header, "name")
        yield from (invalid(f"{path}.httpHeaders", name, rule) for rule in names.check_header_name(name))
