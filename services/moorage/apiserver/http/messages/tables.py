"""Tables of objects (`Table` of meta.k8s.io), as kubectl prints them. Their columns are those of the kinds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.kinds.printing.columns import AGE, LABELS, TableColumn
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.machinery.openapi import registry
from moorage.apiserver.machinery.openapi.registry import Origin

Document = dict[str, Any]

OBJECTS: Final = ("", "Metadata", "Object", "None")
"""The values of `includeObject`: how much of its object a row has."""

_META: Final = "meta.k8s.io"
_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}
_NAME: Final = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "The name of the object, unique among those of its kind in a namespace.",
    "priority": 0,
}


def included(text: str) -> str:
    """Return how much of its object a row has: `Metadata`, `Object` or `None`.

    Raises:
        StatusError: 400 if it is none of them.
    """
    if text not in OBJECTS:
        rule = "must be 'Metadata', 'Object', 'None', or empty"
        raise StatusError(
            400, f'Unable to convert to Table as requested: includeObject: Invalid value: "{text[:64]}": {rule}'
        )
    return text or "Metadata"


def columns(kind: Kind[Any]) -> tuple[TableColumn, ...]:
    """Return the columns of a kind's table after the name. A kind without any shows its age."""
    return kind.api_columns or tuple(column for column in kind.columns if column is not LABELS) or (AGE,)


def definitions(kind: Kind[Any]) -> list[Document]:
    """Return the definitions of a table's columns."""
    named = [
        {
            "name": column.api_name,
            "type": column.type,
            "format": "",
            "description": column.description or f"{column.api_name} of the {kind.kind}.",
            "priority": 1 if column.wide else 0,
        }
        for column in columns(kind)
    ]
    return [*named, {**_NAME, "priority": 1}] if kind.name_comes_last else [_NAME, *named]


def row(kind: Kind[Any], document: Mapping[str, Any], include: str, version: str, now: datetime) -> Document:
    """Return the row of an object.

    `include` is how much of the object it has (`included`), and `version` that of meta.k8s.io.
    """
    name = str(document["metadata"].get("name", ""))
    is_custom = registry.origin_of(kind.group, kind.kind) is Origin.CUSTOM
    cells = [_value(column, document, now, is_custom=is_custom) for column in columns(kind)]
    shown: Any = None
    if include == "Object":
        shown = document
    elif include == "Metadata":
        shown = metadata(document, version)
    return {"cells": [*cells, name] if kind.name_comes_last else [name, *cells], "object": shown}


def metadata(document: Mapping[str, Any], version: str) -> Document:
    """Return the metadata of an object as an object of its own (`PartialObjectMetadata`)."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{_META}/{version}",
        "metadata": document.get("metadata") or {},
    }


def _value(
    column: TableColumn, document: Mapping[str, Any], now: datetime, *, is_custom: bool
) -> str | int | bool | None:
    """Return a cell. What a custom resource does not have is null there."""
    text, holds = column.cell(document, now), column.holds or column.type
    if holds == "integer" and text.lstrip("-").isdecimal():
        return int(text)
    if holds == "boolean" and text in _BOOLEANS:
        return _BOOLEANS[text]
    return None if is_custom and not text else text
