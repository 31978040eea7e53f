"""How values of fields are filled in that an object leaves out. All functions are pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Object = dict[str, Any]


def filled(value: Mapping[str, Any], defaults: Mapping[str, Any], *, zero: bool = False) -> Object:
    """An object with the values of fields that it leaves out. An empty text counts as left out, and with `zero` a 0."""
    missing = {
        key: one
        for key, one in defaults.items()
        if (found := value.get(key)) is None or found == "" or (zero and found == 0)
    }
    return {**value, **missing}


def within(value: Mapping[str, Any], field: str, change: Callable[[Object], Object]) -> Object:
    """The object with one of its fields changed, if that is there and is an object."""
    found = value.get(field)
    return {**value, field: change(found)} if isinstance(found, dict) else {**value}


def each(value: Mapping[str, Any], field: str, change: Callable[[Object], Object]) -> Object:
    """The object with each item of one of its lists changed, if that is there and has objects."""
    found = value.get(field)
    if not isinstance(found, list):
        return {**value}
    return {**value, field: [change(one) if isinstance(one, dict) else one for one in found]}


def with_spec(fill: Callable[[Object], Object]) -> Callable[[Object], Object]:
    """Fill in the spec of an object, also if it is left out. One of a wrong type stays as it is."""

    def change(document: Object) -> Object:
        spec = document.get("spec")
        return {**document, "spec": fill({} if spec is None else spec)} if isinstance(spec, dict | None) else document

    return change
