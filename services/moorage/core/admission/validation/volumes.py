"""Validation of a pod's volumes: one source each, and what the common sources have to say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from posixpath import normpath
from typing import Final

from moorage.core.admission.validation.container_fields import (
    Mountable,
    field_reference,
    path_below,
    resource_reference,
)
from moorage.core.admission.validation.fields import (
    Fields,
    dns_label,
    dns_subdomain,
    file_mode,
    object_in,
    objects,
    text,
)
from moorage.core.apimachinery.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from moorage.core.apimachinery.quantities import parse_quantity

_SOURCES: Final = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
"""In the order in which Kubernetes looks at them: the first one counts, and others are forbidden."""

PERSISTENT_SOURCES: Final = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
"""The sources of persistent volumes, in the order in which Kubernetes looks at them."""

_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)


def validate_volumes(spec: Fields, path: str) -> tuple[Mountable, list[FieldError]]:
    """Validate the volumes of a pod.

    Args:
        spec: of the pod.
        path: of the list.

    Returns:
        The valid volumes, which containers may mount, and the errors of the others.
    """
    found: dict[str, Fields] = {}
    errors: list[FieldError] = []
    for volume, at in objects(spec, "volumes", path):
        name = text(volume, "name")
        wrong = list(_source(volume, at))
        if name:
            wrong += dns_label(name, f"{at}.name")
        else:
            wrong.append(required(f"{at}.name"))
        if name in found:
            wrong.append(duplicate(f"{at}.name", name))
        if not wrong:
            found[name] = volume
        errors += wrong
    return Mountable(found), errors


def persistent_source(spec: Fields, path: str) -> Iterator[FieldError]:
    """The errors of what a persistent volume consists of.

    Args:
        spec: of the volume.
        path: of the spec.
    """
    named = [field for field in PERSISTENT_SOURCES if object_in(spec, field) is not None]
    for number, field in enumerate(named):
        # As in Kubernetes, a flexible volume is not held to be one too many, and one name is spelled otherwise.
        if number and field != "flexVolume":
            where = f"{path}.{'cephFS' if field == 'cephfs' else field}"
            yield forbidden(where, "may not specify more than 1 volume type")
        else:
            yield from _PERSISTENT_RULES.get(field, _anything)(object_in(spec, field) or {}, f"{path}.{field}")
            if field == "local" and object_in(spec, "nodeAffinity") is None:
                yield required(f"{path}.nodeAffinity", "Local volume requires node affinity")
    if not named:
        yield required(path, "must specify a volume type")
    policy, where = text(spec, "persistentVolumeReclaimPolicy"), text(object_in(spec, "hostPath") or {}, "path")
    if policy == "Recycle" and where and normpath(where).lstrip("/") == "" and where.startswith("/"):
        rule = "may not be 'recycle' for a hostPath mount of '/'"
        yield forbidden(f"{path}.persistentVolumeReclaimPolicy", rule)


def _anything(_: Fields, __: str) -> Iterator[FieldError]:
    """No errors: of a source that Moorage's users are not known to write, only its presence counts."""
    return iter(())


def _local(source: Fields, path: str) -> Iterator[FieldError]:
    where = text(source, "path")
    if not where:
        yield required(f"{path}.path")
    elif ".." in where.split("/"):
        yield invalid(f"{path}.path", where, "must not contain '..'")


def _driver(source: Fields, path: str) -> Iterator[FieldError]:
    driver = text(source, "driver")
    yield from dns_subdomain(driver.lower(), f"{path}.driver") if driver else [required(f"{path}.driver")]
    yield from _present(source, path, "volumeHandle")
    for field in _SECRETS:
        if (secret := object_in(source, field)) is not None:
            for part in ("name", "namespace"):
                value = text(secret, part)
                yield from dns_label(value, f"{path}.{field}.{part}") if value else [required(f"{path}.{field}.{part}")]


def _source(volume: Fields, path: str) -> Iterator[FieldError]:
    first, *others = [field for field in _SOURCES if object_in(volume, field) is not None] or [""]
    if not first:
        yield required(path, "must specify a volume type")
    elif check := _RULES.get(first):
        yield from check(object_in(volume, first) or {}, f"{path}.{first}")
    yield from (forbidden(f"{path}.{field}", "may not specify more than 1 volume type") for field in others)


def _empty_folder(source: Fields, path: str) -> Iterator[FieldError]:
    limit = source.get("sizeLimit")
    if isinstance(limit, str | int | float) and parse_quantity(limit) < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(source: Fields, path: str) -> Iterator[FieldError]:
    where = text(source, "path")
    if not where:
        yield required(f"{path}.path")
        return
    if ".." in where.split("/"):
        yield invalid(f"{path}.path", where, "must not contain '..'")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        yield not_supported(f"{path}.type", kind, _HOST_PATH_TYPES)


def _network_share(source: Fields, path: str) -> Iterator[FieldError]:
    where = text(source, "path")
    yield from _present(source, path, "server", "path")
    if not where.startswith("/"):
        yield invalid(f"{path}.path", where, "must be an absolute path")


def _present(source: Fields, path: str, *fields: str) -> Iterator[FieldError]:
    yield from (required(f"{path}.{field}") for field in fields if not text(source, field))


def _keys(source: Fields, path: str, name: str) -> Iterator[FieldError]:
    yield from _present(source, path, name)
    yield from file_mode(source, path, "defaultMode")
    for item, at in objects(source, "items", f"{path}.items"):
        yield from _present(item, at, "key", "path")
        yield from _path_in_volume(text(item, "path"), f"{at}.path")
        yield from file_mode(item, at, "mode")


def _path_in_volume(where: str, path: str) -> Iterator[FieldError]:
    yield from path_below(where, path)
    if where.startswith("..") and not where.startswith("../") and ".." not in where.split("/"):
        yield invalid(path, where, "must not start with '..'")


def _own_fields(source: Fields, path: str) -> Iterator[FieldError]:
    yield from file_mode(source, path, "defaultMode")
    for item, _ in objects(source, "items", path):  # as in Kubernetes, the paths of the errors have no index
        yield from _present(item, path, "path")
        yield from _path_in_volume(text(item, "path"), f"{path}.path")
        selected, resource = object_in(item, "fieldRef"), object_in(item, "resourceFieldRef")
        if selected is not None:
            yield from field_reference(selected, f"{path}.fieldRef", _VOLUME_FIELDS)
            if resource is not None:
                yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
        elif resource is not None:
            yield from resource_reference(resource, f"{path}.resourceFieldRef", of_volume=True)
        else:
            yield required(path, "one of fieldRef and resourceFieldRef is required")
        yield from file_mode(item, path, "mode")


_RULES: Final[dict[str, Callable[[Fields, str], Iterator[FieldError]]]] = {
    "emptyDir": _empty_folder,
    "hostPath": _host_path,
    "nfs": _network_share,
    "secret": lambda source, path: _keys(source, path, "secretName"),
    "configMap": lambda source, path: _keys(source, path, "name"),
    "persistentVolumeClaim": lambda source, path: _present(source, path, "claimName"),
    "downwardAPI": _own_fields,
}
_PERSISTENT_RULES: Final[dict[str, Callable[[Fields, str], Iterator[FieldError]]]] = {
    "hostPath": _host_path,
    "nfs": _network_share,
    "local": _local,
    "csi": _driver,
}
_SECRETS: Final = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
