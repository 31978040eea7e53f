"""`PlacementDecision`s are written by the system alone; what becomes of one that somebody applies.

Nothing of it is stored. One that says what the system has decided anyway is no error, so that files that were read from
an API, or from a manual, can be applied; one that says anything else is refused with what is not so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moorage.core.apimachinery.field_errors import invalid, required
from moorage.core.apimachinery.unstructured import part
from moorage.gateway import errors
from moorage.gateway.store import ShownObject
from moorage.kinds.families.ocm import PLACEMENT_LABEL
from moorage.kinds.kind import ServedKind

NOT_STORED: Final = (
    "PlacementDecisions are written by Moorage alone: this one says what is decided already, and was not stored"
)
_LABEL: Final = f"metadata.labels[{PLACEMENT_LABEL}]"
_CLUSTERS: Final = "status.decisions"
_SHOWN: Final = 10  # names in a message


def already_decided(document: Mapping[str, Any], kind: ServedKind, present: Sequence[ShownObject]) -> ShownObject:
    """The system's own decision that says what a person's does.

    It is the one of its name if there is one; else the person's is held against all decisions of the placement that
    its label names, for the names that other systems give to such objects are made up. The uid of its owner is not
    looked at, since that is another one in each system.

    Args:
        document: what somebody applies.
        kind: `PlacementDecision`, in the version that was asked for.
        present: the decisions of its namespace.

    Raises:
        StatusError: 422 when it says something else, or does not say of which placement it is.
    """
    metadata = part(document, "metadata")
    name = str(metadata.get("name") or "")
    placement = part(metadata, "labels").get(PLACEMENT_LABEL)
    if not isinstance(placement, str) or not placement:
        rule = (
            "must name the placement: only what is decided already can be applied, for Moorage alone writes decisions"
        )
        raise errors.invalid(kind.group, kind.kind, name, [required(_LABEL, rule)])
    own = [shown for shown in present if part(shown.document["metadata"], "labels").get(PLACEMENT_LABEL) == placement]
    if not own:
        rule = "there are no decisions of a placement of this name; Moorage alone writes them"
        raise errors.invalid(kind.group, kind.kind, name, [invalid(_LABEL, placement, rule)])
    meant = [shown for shown in own if shown.document["metadata"]["name"] == name] or own
    said, decided = _clusters([document]), _clusters([shown.document for shown in meant])
    if said != decided:
        rule = f"must be what Moorage has decided, for it alone writes decisions: {_names(decided)}"
        raise errors.invalid(kind.group, kind.kind, name, [invalid(_CLUSTERS, sorted(said)[:_SHOWN], rule)])
    return meant[0]


def _clusters(documents: Sequence[Mapping[str, Any]]) -> set[str]:
    decisions = [part(document, "status").get("decisions") for document in documents]
    return {
        str(one.get("clusterName"))
        for found in decisions
        if isinstance(found, list)
        for one in found
        if isinstance(one, Mapping)
    }


def _names(names: set[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"placement selects {', '.join(found[:_SHOWN])}{more}" if found else "placement selects no cluster"
