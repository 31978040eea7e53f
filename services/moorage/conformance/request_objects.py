"""Whole objects in the requests of `moorage eval`. Unlike other fields, they may have fields that are not used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.conformance.request_fields import RequestFields
from moorage.decide.kubernetes.unstructured import part, parts_at

Object = Mapping[str, Any]
Labels = tuple[tuple[str, str], ...]


def objects(fields: RequestFields, name: str) -> list[dict[str, Any]]:
    """Return a list of objects. Missing or null means empty."""
    return fields.items(
        name, lambda item, path: dict(RequestFields.of(item, path, (), upstream=False, closed=False).values)
    )


def one_object(fields: RequestFields, name: str) -> dict[str, Any]:
    """Return an object, which the request needs. Raises RequestError if it is missing, or not an object."""
    fields.need(name)
    return dict(fields.inner(name, (), closed=False).values)


def name_in(found: Object) -> str:
    """Return the name of an object. Empty if it has none."""
    return str(part(found, "metadata").get("name") or "")


def namespace_in(found: Object) -> str:
    """Return the namespace of an object. Empty if it has none."""
    return str(part(found, "metadata").get("namespace") or "")


def key_in(found: Object) -> str:
    """Return the namespace and the name of an object."""
    return f"{namespace_in(found)}/{name_in(found)}"


def labels_in(found: Object) -> Labels:
    """Return the labels of an object, sorted."""
    return tuple(sorted((key, str(value)) for key, value in part(part(found, "metadata"), "labels").items()))


def is_terminating(found: Object) -> bool:
    """Return whether an object is being deleted."""
    return bool(part(found, "metadata").get("deletionTimestamp"))


def condition_in(found: Object, name: str) -> Object | None:
    """Return the condition of this type in the status of an object. None if it has none."""
    return next((one for one in parts_at(found, "status", "conditions") if one.get("type") == name), None)
