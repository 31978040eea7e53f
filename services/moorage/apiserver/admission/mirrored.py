"""Objects that live in a real cluster are read-only here, except for the taints of targets.

A bridge mirrors them (docs/bridge.md). What somebody wants to change of them has to be changed in the cluster. Taints
are what Moorage adds, so people may add theirs here and take those away again; the bridge writes them to the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery.api_errors import StatusError, forbidden
from moorage_schemas.resource import Mirrored, ResourceDeclared, TaintWish

_KEPT_BY_SERVER: Final = frozenset({"managedFields", "resourceVersion", "generation"})

_REPORTED: Final = frozenset({"conditions", "heldTaints"})
"""Parts of a status that are not written: services determine them, and conditions that are sent become reports."""

_PARTS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})

Document = Mapping[str, Any]


def read_only(kind: ServedKind, name: str, mirrored: Mirrored | None, cluster: str) -> StatusError:
    """403: an object is what a cluster says.

    Args:
        kind: of the object.
        name: of the object.
        mirrored: who mirrors it. None if nobody does.
        cluster: that it is in. Empty for the home fleet.
    """
    return forbidden(kind.group, kind.plural, name, f"{_place(mirrored, cluster)}: change it there")


def check_taints_alone(
    kind: ServedKind, declared: ResourceDeclared, shown: Document, wanted: Document, *, cluster: str
) -> None:
    """Check that a write changes nothing of a mirrored object but its taints.

    Args:
        kind: of the object.
        declared: its record.
        shown: the object as it is shown.
        wanted: the object as it is wanted.
        cluster: that it is in. Empty for the home fleet.

    Raises:
        StatusError: 403 if it changes more.
    """
    if _without_taints(shown) != _without_taints(wanted):
        raise read_only(kind, declared.name, declared.mirrored, cluster)


def check_wishes(kind: ServedKind, declared: ResourceDeclared, wishes: Iterable[TaintWish], *, cluster: str) -> None:
    """Check that edits of taints do not concern those that others have set in the cluster.

    Raises:
        StatusError: 403 if one does.
    """
    there = {taint.identity for taint in declared.mirrored.taints} if declared.mirrored is not None else set()
    for wish in wishes:
        if (wish.key, wish.effect) in there:
            why = f"the taint {wish.key}:{wish.effect} {_place(declared.mirrored, cluster)}: change it there"
            raise forbidden(kind.group, kind.plural, declared.name, why)


def _place(mirrored: Mirrored | None, cluster: str) -> str:
    where = f"cluster {cluster}" if cluster else "its cluster"
    return f"is mirrored from {where} by {mirrored.source}" if mirrored is not None else f"is in {where}"


def _without_taints(document: Document) -> dict[str, Any]:
    metadata = {
        name: value
        for name, value in document["metadata"].items()
        if name not in _KEPT_BY_SERVER and value not in ({}, [], None)
    }
    spec = {name: value for name, value in (document.get("spec") or {}).items() if name != "taints"}
    status = {name: value for name, value in (document.get("status") or {}).items() if name not in _REPORTED}
    rest = {name: value for name, value in document.items() if name not in _PARTS}
    return {**rest, "metadata": metadata, "spec": spec, "status": status}
