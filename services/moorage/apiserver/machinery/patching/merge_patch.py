"""JSON merge patches (RFC 7396): null removes, objects merge, everything else replaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.apiserver.machinery.patching.errors import bad_patch

_NOTHING: Any = object()


def applied(document: Any, patch: Any) -> Any:
    """Return the document after a merge patch. Neither argument is changed; the result may share parts with both.

    Raises:
        PatchError: 400 if the patch is not an object.
    """
    if not isinstance(patch, Mapping):
        raise bad_patch("Invalid JSON Patch")
    return _applied(document, patch)


def two_way(original: Mapping[str, Any], modified: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that makes the second document of the first.

    A merge patch cannot set null: a null in `modified` is taken as the field's absence.
    """
    patch: dict[str, Any] = {}
    for key, value in modified.items():
        before = original.get(key, _NOTHING)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if inner := two_way(before, value):
                patch[key] = inner
        elif before is _NOTHING or not same(before, value):
            patch[key] = value
    for key in original:
        if key not in modified:
            patch[key] = None
    return patch


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal. Unlike in Python, true is not 1."""
    if isinstance(one, Mapping):
        return (
            isinstance(other, Mapping)
            and one.keys() == other.keys()
            and all(same(value, other[key]) for key, value in one.items())
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _applied(document: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return patch if isinstance(document, Mapping) else without_nulls(patch)
    merged = dict(document) if isinstance(document, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _applied(merged.get(key), value)
    return merged


def without_nulls(value: Any) -> Any:
    """Return a value without the null fields of its objects."""
    if isinstance(value, Mapping):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value
