"""Values by their schema: their fields, merging two documents, removing fields, and comparing.

These are the rules of Kubernetes' library `structured-merge-diff`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moorage.apiserver.machinery.patching import field_sets as sets
from moorage.apiserver.machinery.patching.field_sets import SELF, FieldSet
from moorage.apiserver.machinery.schema import ZEROS, Field, Form, ListType, Schema

_ABSENT: Final[Any] = object()
_OBJECTS: Final = frozenset({Form.STRUCT, Form.MAP, Form.ANY})


def declared(document: Any, schema: Schema) -> FieldSet:
    """Return the fields that a manager owns by applying a document: leaves, elements of lists, keys of maps.

    Raises:
        UntypedError: if an element of a list cannot be identified.
    """
    return _declared(document, schema) or {}


def merged(live: Any, config: Any, schema: Schema) -> Any:
    """Return the live document with what the configuration declares. What it does not mention stays.

    The elements of a list have the order of the configuration where it mentions them.

    Raises:
        UntypedError: if an element of a list cannot be identified.
    """
    have, wanted = parts(live, schema), parts(config, schema)
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
        result[key] = value if before is _ABSENT else merged(before, value, at(schema, key))
    return result


def removed(value: Any, gone: FieldSet, schema: Schema) -> Any:
    """Return a value without the fields and elements in a set. What has lost everything in it is None."""
    if not isinstance(value, (dict, list)):
        return value
    inside = parts(value, schema)
    if isinstance(inside, list):
        kept = []
        for item, element in zip(inside, elements(inside, schema), strict=True):
            node = gone.get(element)
            if node is None:
                kept.append(item)
            elif not sets.is_member(node):
                kept.append(removed(item, node, item_schema(schema)))
        return kept or None
    left = {}
    for key, item in (inside or {}).items():
        node = gone.get(f"f:{key}")
        if node is None:
            left[key] = item
        elif not sets.is_member(node):
            left[key] = removed(item, node, at(schema, key))
    return left or None


def with_named_fields(fields: FieldSet, schema: Schema | None) -> FieldSet:
    """Return the set and, of the elements that only lead to others, those that are fields of a struct."""
    result: FieldSet = {}
    for key, node in fields.items():
        if key == SELF or not node:
            result[key] = node
            continue
        below: Schema | None = None
        is_named = False
        if schema is not None and key[0] == "f" and schema.form in _OBJECTS:
            is_named = schema.form is Form.STRUCT and key[2:] in schema.fields
            below = at(schema, key[2:])
        elif schema is not None and key[0] == "k" and schema.form is Form.LIST:
            below = item_schema(schema)
        inner = with_named_fields(node, below)
        result[key] = {SELF: {}, **inner} if is_named and SELF not in inner else inner
    return result


def empty(schema: Schema) -> dict[str, Any]:
    """Return the object that a new one is compared with: what upstream's type shows of itself when nothing is set.

    Structs that are no pointers are there, and so are fields that are never left out.
    """
    found: dict[str, Any] = {}
    for name, field in schema.fields.items():
        if field.schema.form is Form.STRUCT and not field.is_pointer:
            found[name] = empty(field.schema)
        elif not field.omits_empty:
            found[name] = None if field.is_pointer else ZEROS.get(field.schema.form)
    return found


def as_typed(value: Any, schema: Schema | None) -> Any:
    """Return a document as upstream's type shows it, but for the zero values that it would add.

    Fields with the zero value or null are absent if the type leaves them out: an empty map of labels. A null in a map
    or a list is the zero value: `labels: {a: null}` is an empty label.
    """
    if isinstance(value, list):
        items = None if schema is None else schema.items
        zero = None if items is None else ZEROS.get(items.form)
        return [zero if inner is None else as_typed(inner, items) for inner in value]
    if not isinstance(value, dict) or schema is None or schema.form not in {Form.STRUCT, Form.MAP}:
        return value
    if schema.form is Form.MAP:
        zero = None if schema.items is None else ZEROS.get(schema.items.form)
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
    """Return whether upstream's type shows a field that has the zero value or null."""
    if field is None:
        return value is not None
    if field.schema.form is Form.STRUCT and not field.is_pointer:
        return value is not None
    return not field.omits_empty or (field.is_pointer and value is not None)


def _declared(value: Any, schema: Schema) -> FieldSet | None:
    """Return the node of a value. None if it declares nothing, not even itself."""
    inside = parts(value, schema)
    if inside is None:
        return {}
    node: FieldSet = {}
    if isinstance(inside, list):
        items = item_schema(schema)
        for element, found in grouped(inside, schema).items():
            below = _declared(found[0], items) if len(found) == 1 else None
            node[element] = {SELF: {}, **below} if below else {}
        return node or None
    for key, inner in inside.items():
        below = _declared(inner, at(schema, key))
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
        self._items = item_schema(schema)
        self._left, self._right = elements(live, schema), elements(config, schema)
        self._wanted = dict(zip(self._right, config, strict=True))
        self._found: dict[str, Any] = {}
        for element, value in zip(self._left, live, strict=True):
            self._found[element] = None if element in self._found else value  # of duplicates, none is merged
        self._shared = [element for element in self._right if element in self._found]
        self._next = 0  # of the shared elements
        self._done: set[str] = set()
        self._result: list[Any] = []

    def result(self) -> list[Any]:
        """Return the merged list."""
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


_DEDUCED: Final = Schema(Form.ANY)
"""A value without a schema. Its objects merge by their fields, its lists are atomic."""

_ATOMIC: Final = Schema(Form.ANY, is_atomic=True)


class UntypedError(ValueError):
    """A list has elements that its schema cannot identify."""


def parts(value: Any, schema: Schema) -> dict[str, Any] | list[Any] | None:
    """Return the fields of an object or the elements of a list that is merged by them. None for what is taken whole.

    Null is an empty object or list where the schema has one.
    """
    if isinstance(value, list):
        return value if schema.form is Form.LIST and schema.list_type is not ListType.ATOMIC else None
    if isinstance(value, dict):
        return value if schema.form in _OBJECTS and not schema.is_atomic else None
    if value is not None:
        return None
    if schema.form in _OBJECTS:
        return None if schema.is_atomic else {}
    return [] if schema.form is Form.LIST and schema.list_type is not ListType.ATOMIC else None


def at(schema: Schema, name: str) -> Schema:
    """Return the schema of a field. The value decides for a field outside the schema."""
    if schema.form is Form.STRUCT:
        field = schema.fields.get(name)
        return field.schema if field is not None else _DEDUCED
    if schema.form is Form.MAP and schema.items is not None:
        return schema.items
    return _ATOMIC if schema.is_atomic else _DEDUCED


def item_schema(schema: Schema) -> Schema:
    """Return the schema of the elements of a list."""
    return schema.items if schema.items is not None else _ATOMIC


def elements(values: Sequence[Any], schema: Schema) -> list[str]:
    """Return the path elements of the elements of a list, in their order.

    Raises:
        UntypedError: if one of them cannot be identified.
    """
    if schema.list_type is ListType.SET:
        return [_element_of_scalar(number, value) for number, value in enumerate(values)]
    fields = item_schema(schema).fields
    defaults = {key: fields[key].schema.default if key in fields else None for key in schema.list_keys}
    return [_element_of_object(number, value, defaults) for number, value in enumerate(values)]


def grouped(values: list[Any], schema: Schema) -> dict[str, list[Any]]:
    """Return the elements of a list by their path elements. There is more than one of each if it has duplicates.

    Raises:
        UntypedError: if one of them cannot be identified.
    """
    found: dict[str, list[Any]] = {}
    for value, element in zip(values, elements(values, schema), strict=True):
        found.setdefault(element, []).append(value)
    return found


def _element_of_scalar(number: int, value: Any) -> str:
    if isinstance(value, dict):
        raise UntypedError(f"element {number}: associative list without keys has an element that's a map type")
    if isinstance(value, list):
        raise UntypedError(f"element {number}: not supported: associative list with lists as elements")
    if value is None:
        raise UntypedError(f"element {number}: associative list without keys has an element that's an explicit null")
    return sets.element_of_value(value)


def _element_of_object(number: int, value: Any, defaults: Mapping[str, Any]) -> str:
    if not isinstance(value, dict):
        what = "a null element" if value is None else "non-map elements"
        raise UntypedError(f"element {number}: associative list with keys may not have {what}")
    keys = {key: value.get(key, default) for key, default in defaults.items()}
    keys = {key: found for key, found in keys.items() if found is not None or key in value}
    if not keys:
        names = " ".join(f'"{key}"' for key in defaults)
        raise UntypedError(
            f"element {number}: associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return sets.element_of_keys(keys)


_Three = tuple[FieldSet | None, FieldSet | None, FieldSet | None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The effect of a change. No field is in more than one of the sets."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet


def compared(before: Mapping[str, Any], after: Mapping[str, Any], schema: Schema) -> Comparison:
    """Return the changes from one document to another. Numbers and truth values compare as in Python.

    Raises:
        UntypedError: if an element of a list in either of them cannot be identified.
    """
    removed, modified, added = _compared(before, after, schema)
    return Comparison(removed or {}, modified or {}, added or {})


def _compared(before: Any, after: Any, schema: Schema) -> _Three:
    """Return the removed, modified and added fields. None where there are none."""
    if before == after:
        return None, None, None
    old, new = parts(before, schema), parts(after, schema)
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
            three[2][f"f:{key}"] = _whole(value, at(schema, key))
        elif have is not value:
            _add(three, f"f:{key}", _compared(have, value, at(schema, key)))
    for key, value in before.items():
        if key not in after:
            three[0][f"f:{key}"] = _whole(value, at(schema, key))
    return _or_none(three)


def _compared_lists(before: list[Any], after: list[Any], schema: Schema) -> _Three:
    old, new = grouped(before, schema), grouped(after, schema)
    three: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
    for element in {**old, **new}:
        _add(three, element, _compared_elements(old.get(element, []), new.get(element, []), item_schema(schema)))
    return _or_none(three)


def _compared_elements(before: list[Any], after: list[Any], schema: Schema) -> _Three:
    """Return the elements with one key. Of duplicates, only that there are some is known."""
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
    """Return the node of a value that is new or gone: it and all that is in it."""
    if not value or parts(value, schema) is None:
        return {}
    return {SELF: {}, **_inside(value, schema)}


def _inside(value: Any, schema: Schema) -> FieldSet:
    """Return all that is in a value that is new or gone."""
    if isinstance(value, dict):
        return {f"f:{key}": _whole(inner, at(schema, key)) for key, inner in value.items()}
    below = item_schema(schema)
    return {
        element: _whole(found[0], below) if len(found) == 1 else {} for element, found in grouped(value, schema).items()
    }
