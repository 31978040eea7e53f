"""Validation of what ties an object to others: its owners, and the finalizers that hold it."""

from __future__ import annotations

from typing import Final

from moorage.core.apimachinery import names
from moorage.core.apimachinery.field_errors import FieldError, invalid, required
from moorage_schemas.resources.meta import ObjectMeta, OwnerReference

_OWNERS: Final = "metadata.ownerReferences"
_FINALIZERS: Final = "metadata.finalizers"
_STANDARD: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
"""The finalizers whose names have no domain."""


def validate_ties(metadata: ObjectMeta) -> list[FieldError]:
    """Validate the owner references and the finalizers of an object, with Kubernetes' paths and messages."""
    return [*_owners(metadata.owner_references or []), *_finalizers(metadata.finalizers or [])]


def _owners(references: list[OwnerReference]) -> list[FieldError]:
    found: list[FieldError] = []
    controller = ""
    for number, reference in enumerate(references):
        for field, value in (
            ("apiVersion", reference.api_version),
            ("kind", reference.kind),
            ("name", reference.name),
            ("uid", reference.uid),
        ):
            if not value:
                found.append(required(f"{_OWNERS}[{number}].{field}", "must not be empty"))
        if reference.controller:
            named = f"{reference.kind}/{reference.name}"
            if controller:
                rule = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {named}'
                )
                shown = [one.model_dump(mode="json", by_alias=True, exclude_unset=True) for one in references]
                found.append(invalid(_OWNERS, shown, rule))
            controller = controller or named
    return found


def _finalizers(finalizers: list[str]) -> list[FieldError]:
    found = [invalid(_FINALIZERS, one, rule) for one in finalizers for rule in names.check_qualified_name(one)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        rule = "finalizer foregroundDeletion and orphan cannot be both set"
        found.append(invalid(_FINALIZERS, finalizers, rule))
    for number, one in enumerate(finalizers):
        if "/" not in one and one not in _STANDARD:
            rule = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(invalid(f"{_FINALIZERS}[{number}]", one, rule))
    return found
