"""Deletion in two steps: an object with finalizers is marked, and goes when the last of them is removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from moorage.apiserver.kinds.kind import Kind
from moorage.decide.kubernetes.field_errors import FieldError, forbidden
from moorage_schemas.times import format_time

FOREGROUND: Final = "foregroundDeletion"
"""The finalizer of an object that goes after what it owns."""

ORPHAN: Final = "orphan"
"""The finalizer of an object that leaves behind what it owns."""

BACKGROUND_POLICY: Final = "Background"
FOREGROUND_POLICY: Final = "Foreground"
ORPHAN_POLICY: Final = "Orphan"
POLICIES: Final = (BACKGROUND_POLICY, FOREGROUND_POLICY, ORPHAN_POLICY)
"""The values of `propagationPolicy`."""

_POLICY_FINALIZERS: Final = {FOREGROUND_POLICY: (FOREGROUND,), ORPHAN_POLICY: (ORPHAN,), BACKGROUND_POLICY: ()}

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How an object is to be deleted."""

    propagation: str = ""
    """One of `POLICIES`: what becomes of the objects that it owns. Empty: by its finalizers, else Background."""

    grace_period: int | None = None
    """Seconds that a pod may take to end. Pods are ended at once, so it only decides what is valid."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion."""

    document: Mapping[str, Any]
    """The object as it was, or as it is shown now that it is marked."""

    gone: bool
    """Whether the object was deleted. Otherwise it waits for its finalizers."""


def is_marked(document: Mapping[str, Any]) -> bool:
    """Return whether an object is being deleted."""
    return bool(document["metadata"].get("deletionTimestamp"))


def finalizers_of(document: Mapping[str, Any]) -> Sequence[str]:
    """Return the finalizers of an object."""
    return document["metadata"].get("finalizers") or ()


def is_held(document: Mapping[str, Any], kind: Kind[Any]) -> bool:
    """Return whether something has to be done before an object may go."""
    return bool(finalizers_of(document)) or kind.is_held(document)


def marked(document: Mapping[str, Any], options: DeleteOptions, now: datetime) -> Document:
    """Return an object that is being deleted: with the time of the first request, and the finalizers of the policy."""
    metadata = dict(document["metadata"])
    if options.propagation:
        kept = [one for one in finalizers_of(document) if one not in {FOREGROUND, ORPHAN}]
        wanted = [*kept, *_POLICY_FINALIZERS[options.propagation]]
        if wanted:
            metadata["finalizers"] = wanted
        else:
            metadata.pop("finalizers", None)
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = format_time(now.replace(microsecond=0))
        metadata["deletionGracePeriodSeconds"] = 0
        metadata["generation"] = int(metadata.get("generation", 1)) + 1
    return {**document, "metadata": metadata}


def validate_finalizers(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate that an object that is being deleted gets no further finalizers."""
    if not is_marked(before):
        return []
    present = frozenset(finalizers_of(before))
    added = [one for one in finalizers_of(after) if one not in present]
    if not added:
        return []
    listed = ", ".join(f'"{one}"' for one in added)
    rule = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
    return [forbidden("metadata.finalizers", rule)]
