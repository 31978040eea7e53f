"""Validation of what ties an object to others: its owners, and the finalizers that hold it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import FieldError, invalid, required
from moorage_schemas.resources.meta import ObjectMeta, OwnerReference

_OWNERS: Final = "metadata.ownerReferences"
_FINALIZERS: Final = "metadata.finalizers"
_MOST_SHOWN: Final = 65_536  # characters of owners in errors
_NO_OWNER: Final = ("v1", "Event")
_STANDARD: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
"""The finalizers whose names have no domain."""


def validate_ties(metadata: ObjectMeta) -> list[FieldError]:
    """Validate the owner references and the finalizers of an object, with Kubernetes' paths and messages."""
    return [*_owners(metadata.owner_references or []), *_finalizers(metadata.finalizers or [])]


def without_domain(finalizers: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The finalizers that say nothing of who owns them, each with its place. Another program may use the same."""
    return ((i, one) for i, one in enumerate(finalizers) if "/" not in one and one not in _STANDARD)


def validate_domains(finalizers: Sequence[str], present: Collection[str]) -> list[FieldError]:
    """Validate that new finalizers have a domain. An API server asks it only of kinds that are built into it.

    Args:
        finalizers: those that the object is to have.
        present: those that it has. An older release may have accepted them.
    """
    rule = "name is neither a standard finalizer name nor is it fully qualified"
    known = frozenset(present)
    return [invalid(f"{_FINALIZERS}[{i}]", one, rule) for i, one in without_domain(finalizers) if one not in known]


def _owners(references: list[OwnerReference]) -> list[FieldError]:
    found: list[FieldError] = []
    controller, shown, room = "", list[dict[str, object]](), 0
    for number, reference in enumerate(references):
        if (version := reference.api_version).count("/") > 1:
            rule = "must be <group>/<version> or <version>"
            found.append(invalid(f"{_OWNERS}[{number}].apiVersion", version, rule))
        for field, value in (
            ("apiVersion", reference.api_version),
            ("kind", reference.kind),
            ("name", reference.name),
            ("uid", reference.uid),
        ):
            if not value:
                found.append(required(f"{_OWNERS}[{number}].{field}", "must not be empty"))
        if (reference.api_version, reference.kind) == _NO_OWNER:
            rule = "/v1, Kind=Event is disallowed from being an owner"
            found.append(invalid(f"{_OWNERS}[{number}]", _shown(reference), rule))
        if reference.controller:
            named = f"{reference.kind}/{reference.name}"
            if controller and not shown:
                shown = [_shown(one) for one in references]
                # Each error shows all owners: a short request gets no long answer, and at least one error.
                room = max(1, _MOST_SHOWN // len(json.dumps(shown)))
            if controller and room:
                rule = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {named}'
                )
                found.append(invalid(_OWNERS, shown, rule))
                room -= 1
            controller = controller or named
    return found


def _shown(reference: OwnerReference) -> dict[str, object]:
    """An owner in the form in which messages show it: without what is not set, apart from what has to be."""
    found = reference.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"apiVersion": "", "kind": "", "name": "", "uid": "", **found}


def _finalizers(finalizers: list[str]) -> list[FieldError]:
    found = [invalid(_FINALIZERS, one, rule) for one in finalizers for rule in names.check_qualified_name(one)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        rule = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(invalid(_FINALIZERS, finalizers, rule))
    return found
