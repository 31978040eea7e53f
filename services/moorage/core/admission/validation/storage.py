"""Validation of PersistentVolumes, claims on them and StorageClasses, and of changes, as Kubernetes 1.37 has it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.core.admission.validation.container_resources import quantity
from moorage.core.admission.validation.fields import (
    Fields,
    dns_subdomain,
    inner,
    known,
    label_selector,
    listed,
    object_in,
    objects,
    qualified_name,
    text,
)
from moorage.core.admission.validation.scheduling import node_selector
from moorage.core.admission.validation.volumes import PERSISTENT_SOURCES, persistent_source
from moorage.core.apimachinery.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from moorage.core.apimachinery.quantities import canonical_text

_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ALONE: Final = "ReadWriteOncePod"
_VOLUME_MODES: Final = ("Block", "Filesystem")
_RECLAIM: Final = ("Delete", "Retain")
_RECLAIM_VOLUME: Final = ("Delete", "Recycle", "Retain")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_FIXED: Final = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode", "allowedTopologies")
_LEFT_OPEN: Final = ("storageClassName", "volumeName")


def validate_volume(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a persistent volume."""
    spec = inner(document, "spec")
    name, of_attributes = text(spec, "storageClassName"), spec.get("volumeAttributesClassName")
    return [
        *_modes_of_volume(spec),
        *_capacity(inner(spec, "capacity")),
        *known(text(spec, "persistentVolumeReclaimPolicy"), "spec.persistentVolumeReclaimPolicy", _RECLAIM_VOLUME),
        *_node_affinity(spec),
        *persistent_source(spec, "spec"),
        *(dns_subdomain(name, "spec.storageClassName") if name else ()),
        *known(text(spec, "volumeMode"), "spec.volumeMode", _VOLUME_MODES),
        *(_attributes_class(of_attributes, spec) if isinstance(of_attributes, str) else ()),
    ]


def validate_volume_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a persistent volume: what it consists of stays.

    Args:
        before: the volume as it is shown.
        after: the volume as it is wanted.
    """
    earlier, later = inner(before, "spec"), inner(after, "spec")
    found = []
    if _sources(earlier) != _sources(later):
        rule = "spec.persistentvolumesource is immutable after creation"
        found.append(forbidden("spec.persistentvolumesource", rule))
    if earlier.get("volumeMode") != later.get("volumeMode"):
        found.append(invalid("volumeMode", later.get("volumeMode"), "field is immutable"))
    if earlier.get("volumeAttributesClassName") is not None and later.get("volumeAttributesClassName") is None:
        found.append(forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden"))
    return found


def validate_claim(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a persistent volume claim."""
    spec = inner(document, "spec")
    name = text(spec, "storageClassName")
    return [
        *label_selector(object_in(spec, "selector"), "spec.selector"),
        *_access_modes(spec),
        *_storage(inner(inner(spec, "resources"), "requests")),
        *(dns_subdomain(name, "spec.storageClassName") if name else ()),
        *known(text(spec, "volumeMode"), "spec.volumeMode", _VOLUME_MODES),
    ]


def validate_storage_class(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate a storage class."""
    provisioner = text(document, "provisioner")
    return [
        *(qualified_name(provisioner.lower(), "provisioner") if provisioner else [required("provisioner")]),
        *([invalid("parameters", "", "field can not be empty.")] if "" in inner(document, "parameters") else ()),
        *known(text(document, "reclaimPolicy"), "reclaimPolicy", _RECLAIM),
        *known(text(document, "volumeBindingMode"), "volumeBindingMode", _BINDING),
        *_topologies(document),
    ]


def validate_storage_class_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a storage class: nothing that volumes are made by may change.

    Args:
        before: the class as it is shown.
        after: the class as it is wanted.
    """
    changed = (field for field in _FIXED if (before.get(field) or None) != (after.get(field) or None))
    return [invalid(field, None, "field is immutable") for field in changed]


def validate_claim_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a claim. Moorage binds no claims, so their spec stays, but for what was left open.

    Args:
        before: the claim as it is shown.
        after: the claim as it is wanted.
    """
    earlier, later = inner(before, "spec"), inner(after, "spec")
    filled = {field: later[field] for field in _LEFT_OPEN if later.get(field) and not earlier.get(field)}
    if {**earlier, **filled} == later:
        return []
    what = "resources.requests and volumeAttributesClassName for bound claims"
    return [forbidden("spec", f"spec is immutable after creation except {what}")]


def _modes_of_volume(spec: Fields) -> Iterator[FieldError]:
    path, modes = "spec.accessModes", listed(spec, "accessModes")
    if not modes:
        yield required(path)
    yield from (not_supported(path, mode, _MODES) for mode in modes if mode not in _MODES)
    if _ALONE in modes and {*modes} & {*_MODES} != {_ALONE}:
        yield forbidden(path, f"may not use {_ALONE} with other access modes")


def _capacity(capacity: Fields) -> Iterator[FieldError]:
    path = "spec.capacity"
    if not capacity:
        yield required(path)
    if set(capacity) != {"storage"}:
        shown = {name: canonical_text(value) for name, value in sorted(capacity.items()) if quantity(value) is not None}
        yield not_supported(path, shown or None, ("storage",))
    for name, value in sorted(capacity.items()):
        found = quantity(value)
        if found is None:
            continue
        if found < 0:
            yield invalid(f"{path}[{name}]", math.ceil(found), "must be a valid resource quantity")
        if found <= 0:
            yield invalid(f"{path}[{name}]", canonical_text(value), "must be greater than zero")


def _node_affinity(spec: Fields) -> Iterator[FieldError]:
    found, path = object_in(spec, "nodeAffinity"), "spec.nodeAffinity.required"
    if found is None:
        return
    if (wanted := object_in(found, "required")) is None:
        yield required(path, "must specify required node constraints")
    else:
        yield from node_selector(wanted, path)


def _attributes_class(name: str, spec: Fields) -> Iterator[FieldError]:
    path = "spec.volumeAttributesClassName"
    yield from dns_subdomain(name, path) if name else [required(path, "an empty string is disallowed")]
    if object_in(spec, "csi") is None:
        yield required("spec.csi", "has to be specified when using volumeAttributesClassName")


def _sources(spec: Fields) -> dict[str, Any]:
    """What a volume consists of. A secret that is needed to make it larger may still be named."""
    found = {field: spec[field] for field in PERSISTENT_SOURCES if spec.get(field) is not None}
    if isinstance(found.get("csi"), Mapping):
        found["csi"] = {key: one for key, one in found["csi"].items() if key != "controllerExpandSecretRef"}
    return found


def _access_modes(spec: Fields) -> Iterator[FieldError]:
    path, modes = "spec.accessModes", listed(spec, "accessModes")
    if not modes:
        yield required(path, "at least 1 access mode is required")
    yield from (not_supported(path, mode, _MODES) for mode in modes if mode not in _MODES)
    if _ALONE in modes and len(modes) > 1:
        yield forbidden(path, f"may not use {_ALONE} with other access modes")


def _storage(requests: Fields) -> Iterator[FieldError]:
    path, wanted = "spec.resources[storage]", requests.get("storage")
    found = quantity(wanted) if wanted is not None else None
    if wanted is None:
        yield required(path)
    elif found is not None and found <= 0:
        yield invalid(path, canonical_text(wanted), "must be greater than zero")


def _topologies(document: Mapping[str, Any]) -> Iterator[FieldError]:
    seen: list[dict[str, frozenset[str]]] = [{}]  # a term without requirements counts as one that is there twice
    for term, at in objects(document, "allowedTopologies", "allowedTopologies"):
        path, found = f"{at}.matchLabelExpressions", dict[str, frozenset[str]]()
        for requirement, where in objects(term, "matchLabelExpressions", path):
            key, values = text(requirement, "key"), [str(one) for one in listed(requirement, "values")]
            if not values:
                yield required(f"{where}.values")
            for number, value in enumerate(values):
                if value in values[:number]:
                    yield duplicate(f"{where}.values[{number}]", value)
            yield from qualified_name(key, f"{where}.key")
            if key in found:
                yield duplicate(f"{where}.key", key)
            found[key] = frozenset(values)
        if found in seen:
            yield duplicate(path, "")
        seen.append(found)
