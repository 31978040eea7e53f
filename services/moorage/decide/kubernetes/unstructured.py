"""Access to objects that have not been validated: any field may be missing or have the wrong type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of an object. Empty if it is absent or not a mapping."""
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def at(value: Any, *path: str) -> Any:
    """Return the value at a path of an object. None if a part of the path is missing."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def parts_at(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list at a path. Empty if there is none."""
    listed = at(value, *path)
    return [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []


def name_of(document: Any) -> str:
    """Return the name of an object."""
    return str(at(document, "metadata", "name"))


def namespace_of(document: Any) -> str:
    """Return the namespace of an object."""
    return str(at(document, "metadata", "namespace"))


def as_label_selector(selector: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a selector as a label selector. Older kinds select by a plain map of labels instead."""
    is_plain = all(isinstance(value, str) for value in selector.values())
    return {"matchLabels": selector} if selector and is_plain else selector
