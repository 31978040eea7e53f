"""What a change of a document does to its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.apiserver.machinery.patching import value_shapes as shapes
from moorage.apiserver.machinery.patching.field_sets import SELF, FieldSet
from moorage.apiserver.machinery.schema import Schema

_ABSENT: Final[Any] = object()
_Three = tuple[FieldSet | None, FieldSet | None, FieldSet | None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a change does. No field is in more than one of the sets."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet


def compared(before: Mapping[str, Any], after: Mapping[str, Any], schema: Schema) -> Comparison:
    """What the second document changes in the first. Numbers and truth values that Python takes as equal are.

    Raises:
        UntypedError: if an element of a list in either of them cannot be told from others.
    """
    removed, modified, added = _compared(before, after, schema)
    return Comparison(removed or {}, modified or {}, added or {})


def _compared(before: Any, after: Any, schema: Schema) -> _Three:
    """What is removed, modified and added. None where there is nothing."""
    if before == after:
        return None, None, None
    old, new = shapes.parts(before, schema), shapes.parts(after, schema)
    if isinstance(old, dict) and isinstance(new, dict) and (old or new):
        return _compared_objects(old, new, schema)
    if isinstance(old, list) and isinstance(new, list) and (old or new):
        return _compared_lists(old, new, schema)
    if type(old) is type(new):
        return None, {}, None
    return _inside(before, schema) if old else None, {}, _inside(after, schema) if new else None


def _compared_objects(before: dict[str, Any], after: dict[str, Any], schema: Schema) -> _Three:
    three: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
    for key, value in after.items():
        have = before.get(key, _ABSENT)
        if have is _ABSENT:
            three[2][f"f:{key}"] = _whole(value, shapes.at(schema, key))
        elif have is not value:
            _add(three, f"f:{key}", _compared(have, value, shapes.at(schema, key)))
    for key, value in before.items():
        if key not in after:
            three[0][f"f:{key}"] = _whole(value, shapes.at(schema, key))
    return _or_none(three)


def _compared_lists(before: list[Any], after: list[Any], schema: Schema) -> _Three:
    old, new = shapes.grouped(before, schema), shapes.grouped(after, schema)
    three: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
    for element in {**old, **new}:
        _add(three, element, _compared_elements(old.get(element, []), new.get(element, []), shapes.items(schema)))
    return _or_none(three)


def _compared_elements(before: list[Any], after: list[Any], schema: Schema) -> _Three:
    """The elements with one key. Of duplicates, only that there are some is known."""
    if len(before) == len(after) == 1:
        return _compared(before[0], after[0], schema)
    if len(before) > 1 and len(after) > 1:
        return None, None if before == after else {}, None
    removed, added = ({} if len(ones) > 1 else _whole(ones[0], schema) if ones else None for ones in (before, after))
    return removed, None, added


def _add(three: tuple[FieldSet, FieldSet, FieldSet], element: str, found: _Three) -> None:
    for fields, node in zip(three, found, strict=True):
        if node is not None:
            fields[element] = node


def _or_none(three: tuple[FieldSet, FieldSet, FieldSet]) -> _Three:
    """Empty sets as nothing. As a node, an empty set is an element without others in it."""
    removed, modified, added = three
    return removed or None, modified or None, added or None


def _whole(value: Any, schema: Schema) -> FieldSet:
    """The node of a value that is new or gone: it and all that is in it."""
    if not value or shapes.parts(value, schema) is None:
        return {}
    return {SELF: {}, **_inside(value, schema)}


def _inside(value: Any, schema: Schema) -> FieldSet:
    """All that is in a value that is new or gone."""
    if isinstance(value, dict):
        return {f"f:{key}": _whole(inner, shapes.at(schema, key)) for key, inner in value.items()}
    below = shapes.items(schema)
    return {
        element: _whole(found[0], below) if len(found) == 1 else {}
        for element, found in shapes.grouped(value, schema).items()
    }
