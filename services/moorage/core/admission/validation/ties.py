"""Validation of what ties an object to others: its owners, and the finalizers that hold it."""

from __future__ import annotations

from typing import Final

from moorage.core.apimachinery import names
from moorage.core.apimachinery.field_errors import FieldError, invalid
from moorage_schemas.resources.meta import ObjectMeta, OwnerReference

_OWNERS: Final = "metadata.ownerReferences"
_FINALIZERS: Final = "metadata.finalizers"


def validate_ties(metadata: ObjectMeta) -> list[FieldError]:
    """Validate the owner references and the finalizers of an object, with Kubernetes' paths and messages."""
    return [*_owners(metadata.owner_references or []), *_finalizers(metadata.finalizers or [])]


def _owners(references: list[OwnerReference]) -> list[FieldError]:
    found: list[FieldError] = []
    controller = ""
    for reference in references:
        for field, value, word in (
            ("apiVersion", reference.api_version, "version"),
            ("kind", reference.kind, ""),
            ("name", reference.name, ""),
            ("uid", reference.uid, ""),
        ):
            if not value:
                rule = f"{word} must not be empty".lstrip() if word else "must not be empty"
                found.append(invalid(f"{_OWNERS}.{field}", value, rule))
        if reference.controller:
            if controller:
                rule = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {reference.name}'
                )
                found.append(invalid(_OWNERS, "", rule))
            controller = controller or reference.name
    return found


def _finalizers(finalizers: list[str]) -> list[FieldError]:
    found = [invalid(_FINALIZERS, one, rule) for one in finalizers for rule in names.check_qualified_name(one)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        rule = "finalizer foregroundDeletion and orphan cannot be both set"
        found.append(invalid(_FINALIZERS, finalizers, rule))
    return found
