"""Changes an object before it is written: adds system fields and defaults, removes what is not stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from moorage.apiserver.kinds.kind import Kind
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.times import format_time

Document = dict[str, Any]

_MARKS = ("deletionTimestamp", "deletionGracePeriodSeconds")
_NOT_KEPT = frozenset({"resourceVersion", "selfLink", *_MARKS})
_SYSTEM = ("uid", "creationTimestamp", "generation", *_MARKS)


def prepared(document: Mapping[str, Any], kind: Kind[Any], rules: Iterable[DedicatedNodes]) -> Document:
    """Return the object as it is stored: with the defaults of its kind, and without what the services decide.

    Raises:
        QuantityError: a pod's request or limit is not a quantity.
    """
    # Maps and lists without anything in them, such as labels when the last one was removed, are left out.
    metadata = {k: v for k, v in document["metadata"].items() if k not in _NOT_KEPT and v not in ({}, [], None)}
    return kind.admitted(kind.declared(kind.stored({**document, "metadata": metadata})), rules)


def with_each_owner_once(document: Document) -> Document:
    """Return the object without owner references that repeat another one, as an API server keeps it."""
    references = document["metadata"].get("ownerReferences")
    repeated = _repeated(references)
    if not repeated:
        return document
    kept = [one for place, one in enumerate(references) if place not in repeated]
    return {**document, "metadata": {**document["metadata"], "ownerReferences": kept}}


def twice_named(references: object) -> list[str]:
    """Return the uids of owners that owner references name more than once in the same way."""
    return sorted({str(one.get("uid")) for one in _repeated(references).values() if isinstance(one, Mapping)})


def _repeated(references: Any) -> dict[int, Any]:
    """Return the owner references that repeat an earlier one, by their places. There may be very many."""
    seen, found = set[str](), dict[int, Any]()
    for place, one in enumerate(references if isinstance(references, list) else ()):
        text = json.dumps(one, sort_keys=True)
        if text in seen:
            found[place] = one
        seen.add(text)
    return found


def created(document: Document, *, uid: str, now: datetime) -> Document:
    """Return a new object with its system fields."""
    metadata = {
        **document["metadata"],
        "uid": uid,
        "creationTimestamp": format_time(now.replace(microsecond=0)),
        "generation": 1,
    }
    return {**document, "metadata": metadata}


def without_generation(document: Document) -> Document:
    """Return the object without `metadata.generation`, for kinds that are shown without it."""
    metadata = {key: value for key, value in document["metadata"].items() if key != "generation"}
    return {**document, "metadata": metadata}


def updated(document: Document, stored: Mapping[str, Any], *, wished: bool) -> Document:
    """Return a changed object with the system fields of the stored one.

    `wished`: whether the edit also changes the target's taints, which belong to its spec but are not stored there.
    """
    before = stored["metadata"]
    metadata = {**document["metadata"], **{key: before[key] for key in _SYSTEM if key in before}}
    if wished or _desired(document) != _desired(stored):
        metadata["generation"] = int(before.get("generation", 1)) + 1
    return {**document, "metadata": metadata}


def _desired(document: Mapping[str, Any]) -> Document:
    return {key: value for key, value in document.items() if key not in {"metadata", "status", "apiVersion", "kind"}}
