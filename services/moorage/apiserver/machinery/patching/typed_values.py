"""What a document declares, two documents merged, and a document without some of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.machinery.patching import field_sets as sets
from moorage.apiserver.machinery.patching import value_shapes as shapes
from moorage.apiserver.machinery.patching.field_sets import SELF, FieldSet
from moorage.apiserver.machinery.schema import Field, Form, Schema

_ABSENT: Final[Any] = object()
_OBJECTS: Final = frozenset({Form.STRUCT, Form.MAP, Form.ANY})


def declared(document: Any, schema: Schema) -> FieldSet:
    """The fields that somebody who applies a document owns: its leaves, its elements of lists, its keys of maps.

    Raises:
        UntypedError: if an element of a list cannot be told from others.
    """
    return _declared(document, schema) or {}


def merged(live: Any, config: Any, schema: Schema) -> Any:
    """The live document with what the configuration declares. What it does not mention stays.

    The elements of a list have the order of the configuration where it mentions them.

    Raises:
        UntypedError: if an element of a list cannot be told from others.
    """
    have, wanted = shapes.parts(live, schema), shapes.parts(config, schema)
    if wanted is None:
        return config
    if isinstance(wanted, list):
        have = have if isinstance(have, list) else []
        return _merged_lists(have, wanted, schema) if have or wanted else config
    have = have if isinstance(have, dict) else {}
    if not (have or wanted):
        return config
    result = dict(have)
    for key, value in wanted.items():
        before = have.get(key, _ABSENT)
        result[key] = value if before is _ABSENT else merged(before, value, shapes.at(schema, key))
    return result


def removed(value: Any, gone: FieldSet, schema: Schema) -> Any:
    """A value without the fields and elements in a set. What has lost everything in it is None."""
    if not isinstance(value, (dict, list)):
        return value
    inside = shapes.parts(value, schema)
    if isinstance(inside, list):
        kept = []
        for item, element in zip(inside, shapes.elements(inside, schema), strict=True):
            node = gone.get(element)
            if node is None:
                kept.append(item)
            elif not sets.is_member(node):
                kept.append(removed(item, node, shapes.items(schema)))
        return kept or None
    left = {}
    for key, item in (inside or {}).items():
        node = gone.get(f"f:{key}")
        if node is None:
            left[key] = item
        elif not sets.is_member(node):
            left[key] = removed(item, node, shapes.at(schema, key))
    return left or None


def with_named_fields(fields: FieldSet, schema: Schema | None) -> FieldSet:
    """The set and, of the elements that only lead to others, those that are fields of a struct."""
    result: FieldSet = {}
    for key, node in fields.items():
        if key == SELF or not node:
            result[key] = node
            continue
        below: Schema | None = None
        is_named = False
        if schema is not None and key[0] == "f" and schema.form in _OBJECTS:
            is_named = schema.form is Form.STRUCT and key[2:] in schema.fields
            below = shapes.at(schema, key[2:])
        elif schema is not None and key[0] == "k" and schema.form is Form.LIST:
            below = shapes.items(schema)
        inner = with_named_fields(node, below)
        result[key] = {SELF: {}, **inner} if is_named and SELF not in inner else inner
    return result


def empty(schema: Schema) -> dict[str, Any]:
    """The object that a new one is compared with: what upstream's type shows of itself when nothing is set.

    Structs that are no pointers are there, and so are fields that are never left out.
    """
    found: dict[str, Any] = {}
    for name, field in schema.fields.items():
        if field.schema.form is Form.STRUCT and not field.is_pointer:
            found[name] = empty(field.schema)
        elif not field.omits_empty:
            found[name] = None if field.is_pointer else _ZERO.get(field.schema.form)
    return found


_ZERO: Final[Mapping[Form, Any]] = {
    Form.STRING: "",
    Form.INTEGER: 0,
    Form.INT_OR_STRING: 0,
    Form.NUMBER: 0,
    Form.BOOLEAN: False,
    Form.QUANTITY: "0",
}


def without_nulls(value: Any) -> Any:
    """A custom resource without fields that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def as_typed(value: Any, schema: Schema | None) -> Any:
    """A document as upstream's type shows it, but for the zero values that it would add.

    Fields with the zero value or null are absent if the type leaves them out: an empty map of labels. A null in a map
    or a list is the zero value: `labels: {a: null}` is an empty label.
    """
    if isinstance(value, list):
        items = None if schema is None else schema.items
        zero = None if items is None else _ZERO.get(items.form)
        return [zero if inner is None else as_typed(inner, items) for inner in value]
    if not isinstance(value, dict) or schema is None or schema.form not in {Form.STRUCT, Form.MAP}:
        return value
    if schema.form is Form.MAP:
        zero = None if schema.items is None else _ZERO.get(schema.items.form)
        typed = {key: zero if inner is None else as_typed(inner, schema.items) for key, inner in value.items()}
        return {key: inner for key, inner in typed.items() if inner is not None}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        field = schema.fields.get(key)
        if isinstance(inner, (dict, list)):
            inner = as_typed(inner, None if field is None else field.schema)  # noqa: PLW2901 - as its type shows it
        if inner or _is_shown_empty(inner, field):
            found[key] = inner
    return found


def _is_shown_empty(value: Any, field: Field | None) -> bool:
    """Whether upstream's type shows a field that has the zero value or null."""
    if field is None:
        return value is not None
    if field.schema.form is Form.STRUCT and not field.is_pointer:
        return value is not None
    return not field.omits_empty or (field.is_pointer and value is not None)


def _declared(value: Any, schema: Schema) -> FieldSet | None:
    """The node of a value. None if it declares nothing, not even itself."""
    inside = shapes.parts(value, schema)
    if inside is None:
        return {}
    node: FieldSet = {}
    if isinstance(inside, list):
        items = shapes.items(schema)
        for element, found in shapes.grouped(inside, schema).items():
            below = _declared(found[0], items) if len(found) == 1 else None
            node[element] = {SELF: {}, **below} if below else {}
        return node or None
    for key, inner in inside.items():
        below = _declared(inner, shapes.at(schema, key))
        is_named = schema.form is Form.STRUCT and key in schema.fields
        if inner is None or inner == {} or not is_named:
            node[f"f:{key}"] = {SELF: {}, **below} if below else {}
        elif below is not None:
            node[f"f:{key}"] = below
    return node or None


def _merged_lists(live: list[Any], config: list[Any], schema: Schema) -> list[Any]:
    return _ListMerge(live, config, schema).result()


class _ListMerge:
    """Merges two lists. Live elements that the configuration does not mention keep their place among their neighbours.

    Both lists are read from the front. An element of both is taken when its turn in the configuration comes.
    """

    def __init__(self, live: list[Any], config: list[Any], schema: Schema) -> None:
        self._live = live
        self._items = shapes.items(schema)
        self._left, self._right = shapes.elements(live, schema), shapes.elements(config, schema)
        self._wanted = dict(zip(self._right, config, strict=True))
        self._found: dict[str, Any] = {}
        for element, value in zip(self._left, live, strict=True):
            self._found[element] = None if element in self._found else value  # of duplicates, none is merged
        self._shared = [element for element in self._right if element in self._found]
        self._next = 0  # of the shared elements
        self._done: set[str] = set()
        self._result: list[Any] = []

    def result(self) -> list[Any]:
        """The merged list."""
        left, right = self._left, self._right
        here = there = 0
        while here < len(left) or there < len(right):
            if here < len(left) and there < len(right):
                if left[here] == right[there]:
                    self._take(left[here])
                    here, there = here + 1, there + 1
                    continue
                if left[here] in self._wanted and self._is_later(left[here]):
                    here += 1
                    continue
            if here < len(left):
                if left[here] not in self._wanted:
                    self._result.append(self._live[here])
                    here += 1
                    continue
                here += left[here] in self._done
            if there < len(right):
                self._take(right[there])
                there += 1
        return self._result

    def _take(self, element: str) -> None:
        self._done.add(element)
        wanted = self._wanted[element]
        is_new = element not in self._found
        self._result.append(wanted if is_new else merged(self._found[element], wanted, self._items))
        self._next += not is_new and self._is_next(element)

    def _is_next(self, element: str) -> bool:
        return self._next < len(self._shared) and self._shared[self._next] == element

    def _is_later(self, element: str) -> bool:
        return self._next < len(self._shared) and self._shared[self._next] != element
