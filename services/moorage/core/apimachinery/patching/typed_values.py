"""Documents as their schema sees them: what two of them differ in, what one declares, and both merged.

These are the rules of Kubernetes' library `structured-merge-diff`. A leaf is a scalar, or a list or an object that the
schema calls atomic. An object merges by its fields, a list by the keys of its elements, or as a set of scalars.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moorage.core.apimachinery.patching import field_sets as sets
from moorage.core.apimachinery.patching.errors import shown, type_name
from moorage.core.apimachinery.patching.field_sets import SELF, FieldSet
from moorage.core.apimachinery.schema import Form, ListType, Schema

_DEDUCED: Final = Schema(Form.ANY)
"""A value without a schema. Its objects merge by their fields, its lists are atomic."""

_ATOMIC: Final = Schema(Form.ANY, is_atomic=True)
_ABSENT: Final[Any] = object()
_OBJECTS: Final = frozenset({Form.STRUCT, Form.MAP})
_UNTYPED: Final = frozenset({Form.INT_OR_STRING, Form.QUANTITY, Form.TIME})
_STRING_FORMATS: Final = frozenset({"", "byte"})


class UntypedError(ValueError):
    """A list has elements that its schema cannot tell apart."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a change does. No field is in more than one of the sets."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet


def compared(before: Mapping[str, Any], after: Mapping[str, Any], schema: Schema) -> Comparison:
    """What the second document changes in the first.

    Raises:
        UntypedError: if an element of a list in either of them cannot be told from others.
    """
    removed, modified, added = _compared(before, after, schema)
    return Comparison(removed or {}, modified or {}, added or {})


def declared(document: Any, schema: Schema) -> FieldSet:
    """The fields that somebody who applies a document owns: its leaves, its elements of lists, its keys of maps."""
    return _declared(document, schema) or {}


def errors_in(document: Any, schema: Schema) -> list[str]:
    """What in a document does not fit its schema, each with its path, in the words of Kubernetes."""
    return list(_errors(document, schema, ""))


def merged(live: Any, config: Any, schema: Schema) -> Any:
    """The live document with what the configuration declares. What it does not mention stays.

    The elements of a list have the order of the configuration where it mentions them.
    """
    result = _merged(live, config, schema)
    return {} if result is _ABSENT else result


def removed(value: Any, gone: FieldSet, schema: Schema) -> Any:
    """A value without the fields and elements in a set. What has lost everything in it is None."""
    shape = _shape(schema, value)
    if shape == "leaf" or not value:
        return value if shape == "leaf" and not isinstance(value, (dict, list)) else None
    if shape == "list":
        kept = []
        for item, element in zip(value, _elements(value, schema), strict=True):
            node = gone.get(element)
            if node is None:
                kept.append(item)
            elif not sets.is_member(node):
                kept.append(removed(item, node, _items(schema)))
        return kept or None
    left = {}
    for key, item in value.items():
        node = gone.get(f"f:{key}")
        if node is None:
            left[key] = item
        elif not sets.is_member(node):
            left[key] = removed(item, node, _at(schema, key))
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
        if schema is not None and key[0] == "f" and schema.form in {*_OBJECTS, Form.ANY}:
            is_named = schema.form is Form.STRUCT and key[2:] in schema.fields
            below = _at(schema, key[2:])
        elif schema is not None and key[0] == "k" and schema.form is Form.LIST:
            below = _items(schema)
        inner = with_named_fields(node, below)
        result[key] = {SELF: {}, **inner} if is_named and SELF not in inner else inner
    return result


def empty(schema: Schema) -> dict[str, Any]:
    """The object that a new one is compared with: what Kubernetes' own types have in it from the start.

    Their structs that are no pointers are there, empty, and so are their required fields. Custom resources are empty.
    """
    found: dict[str, Any] = {}
    for name, field in schema.fields.items():
        if field.schema.form is Form.STRUCT and field.schema.default == {}:
            found[name] = empty(field.schema)
        elif field.required:
            found[name] = field.schema.default
    return found


def without_nulls(value: Any) -> Any:
    """A document without fields that are null, which is their absence in Kubernetes' types."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


# What a value is to its schema


def _shape(schema: Schema, value: Any) -> str:
    """Whether a value is merged as an object, as a list, or whole."""
    form = schema.form
    if isinstance(value, dict):
        return "leaf" if schema.is_atomic or form not in {Form.STRUCT, Form.MAP, Form.ANY} else "map"
    if isinstance(value, list):
        return "list" if form is Form.LIST and schema.list_type is not ListType.ATOMIC else "leaf"
    if value is None:
        if form in {Form.STRUCT, Form.MAP, Form.ANY}:
            return "leaf" if schema.is_atomic else "map"
        return "list" if form is Form.LIST and schema.list_type is not ListType.ATOMIC else "leaf"
    return "leaf"


def _at(schema: Schema, name: str) -> Schema:
    if schema.form is Form.STRUCT:
        field = schema.fields.get(name)
        return field.schema if field is not None else _DEDUCED
    if schema.form is Form.MAP and schema.items is not None:
        return schema.items
    return _ATOMIC if schema.is_atomic else _DEDUCED


def _items(schema: Schema) -> Schema:
    return schema.items if schema.items is not None else _ATOMIC


def _elements(values: Sequence[Any], schema: Schema) -> list[str]:
    """The path elements of the elements of a list."""
    if schema.list_type is ListType.SET:
        return [_element_of_scalar(number, value) for number, value in enumerate(values)]
    fields = _items(schema).fields
    defaults = {key: fields[key].schema.default if key in fields else None for key in schema.list_keys}
    return [_element_of_object(number, value, defaults) for number, value in enumerate(values)]


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


# Comparing

_Three = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
_SAME: Final[_Three] = (None, None, None)


def _compared(before: Any, after: Any, schema: Schema) -> _Three:
    """What is removed, modified and added. None where there is nothing."""
    if before == after:
        return _SAME
    shapes = {_shape(schema, before), _shape(schema, after)} - {"leaf"}
    if isinstance(before, dict) and isinstance(after, dict) and shapes:
        return _SAME if not (before or after) else _compared_objects(before, after, schema)
    if isinstance(before, list) and isinstance(after, list) and shapes:
        return _compared_lists(before, after, schema)
    if before is None and shapes and after:
        node = _whole(after, schema)
        return (
            (None, None, {key: one for key, one in node.items() if key != SELF} or None) if node else (None, {}, None)
        )
    if after is None and shapes and before:
        node = _whole(before, schema)
        return (
            ({key: one for key, one in node.items() if key != SELF} or None, None, None) if node else (None, {}, None)
        )
    if schema.form is Form.ANY and isinstance(before, dict) and before and shapes:
        return {key: one for key, one in _whole(before, schema).items() if key != SELF}, {}, None
    if schema.form is Form.ANY and isinstance(after, dict) and after and shapes:
        return None, {}, {key: one for key, one in _whole(after, schema).items() if key != SELF}
    return None, {}, None


def _compared_objects(before: Mapping[str, Any], after: Mapping[str, Any], schema: Schema) -> _Three:
    removed_: FieldSet = {}
    modified: FieldSet = {}
    added: FieldSet = {}
    for key, value in after.items():
        have = before.get(key, _ABSENT)
        if have is _ABSENT:
            added[f"f:{key}"] = _whole(value, _at(schema, key))
        elif have is not value:
            three = _compared(have, value, _at(schema, key))
            for into, node in zip((removed_, modified, added), three, strict=True):
                if node is not None:
                    into[f"f:{key}"] = node
    for key, value in before.items():
        if key not in after:
            removed_[f"f:{key}"] = _whole(value, _at(schema, key))
    return removed_ or None, modified or None, added or None


def _compared_lists(before: list[Any], after: list[Any], schema: Schema) -> _Three:
    old, new = _grouped(before, schema), _grouped(after, schema)
    removed_: FieldSet = {}
    modified: FieldSet = {}
    added: FieldSet = {}
    items = _items(schema)
    for element in {**old, **new}:
        left, right = old.get(element, []), new.get(element, [])
        if len(left) > 1 and len(right) > 1:
            if left != right:
                modified[element] = {}
            continue
        if len(left) > 1:
            removed_[element] = {}
            if right:
                added[element] = _whole(right[0], items)
        elif len(right) > 1:
            added[element] = {}
            if left:
                removed_[element] = _whole(left[0], items)
        elif not left:
            added[element] = _whole(right[0], items)
        elif not right:
            removed_[element] = _whole(left[0], items)
        else:
            three = _compared(left[0], right[0], items)
            for into, node in zip((removed_, modified, added), three, strict=True):
                if node is not None:
                    into[element] = node
    return removed_ or None, modified or None, added or None


def _grouped(values: list[Any], schema: Schema) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for value, element in zip(values, _elements(values, schema), strict=True):
        found.setdefault(element, []).append(value)
    return found


def _whole(value: Any, schema: Schema) -> FieldSet:
    """A value that is new or gone: it and all that is in it."""
    if not isinstance(value, (dict, list)) or not value:
        return {}
    shape = _shape(schema, value)
    if shape == "leaf":
        return {}
    node: FieldSet = {SELF: {}}
    if shape == "map":
        for key, inner in value.items():
            node[f"f:{key}"] = _whole(inner, _at(schema, key))
        return node
    items = _items(schema)
    for element, found in _grouped(value, schema).items():
        node[element] = _whole(found[0], items) if len(found) == 1 else {}
    return node


# Declaring


def _declared(value: Any, schema: Schema) -> FieldSet | None:
    shape = _shape(schema, value)
    if shape == "leaf":
        return {}
    if value is None:
        return None
    node: FieldSet = {}
    if shape == "list":
        items = _items(schema)
        for element, found in _grouped(value, schema).items():
            below = _declared(found[0], items) if len(found) == 1 else None
            node[element] = {SELF: {}, **below} if below else {}
        return node or None
    for key, inner in value.items():
        below = _declared(inner, _at(schema, key))
        is_named = schema.form is Form.STRUCT and key in schema.fields
        if inner is None or inner == {} or not is_named:
            node[f"f:{key}"] = {SELF: {}, **below} if below else {}
        elif below is not None:
            node[f"f:{key}"] = below
    return node or None


# Checking


def _errors(value: Any, schema: Schema, path: str) -> Iterator[str]:
    form = schema.form
    if value is None:
        return
    if form in _OBJECTS or (form is Form.ANY and isinstance(value, dict)):
        if not isinstance(value, dict):
            yield _error(path, f"expected map, got &{{{shown(value)}}}")
            return
        for key, inner in value.items():
            if form is Form.STRUCT and key not in schema.fields and not schema.keeps_unknown:
                yield _error(f"{path}.{key}", "field not declared in schema")
                return
            yield from _errors(inner, _at(schema, key), f"{path}.{key}")
    elif form is Form.LIST or (form is Form.ANY and isinstance(value, list)):
        if not isinstance(value, list):
            yield _error(path, f"expected list, got &{{{shown(value)}}}")
        elif form is Form.ANY or schema.list_type is ListType.ATOMIC:
            for number, inner in enumerate(value):
                yield from _errors(inner, _items(schema), f"{path}[{number}]")
        else:
            yield from _errors_of_elements(value, schema, path)
    else:
        yield from _errors_of_scalar(value, schema, path)


def _errors_of_elements(value: list[Any], schema: Schema, path: str) -> Iterator[str]:
    try:
        elements = _elements(value, schema)
    except UntypedError as error:
        yield _error(path, str(error))
        return
    seen: set[str] = set()
    for element, inner in zip(elements, value, strict=True):
        (written,) = sets.paths({element: {}})
        if element in seen:
            yield _error(path, f"duplicate entries for key {written}")
        seen.add(element)
        yield from _errors(inner, _items(schema), f"{path}{written}")


def _errors_of_scalar(value: Any, schema: Schema, path: str) -> Iterator[str]:
    form = schema.form
    is_scalar = isinstance(value, (str, bool, int, float))
    if form in {Form.INTEGER, Form.NUMBER}:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            yield _error(path, f"expected numeric (int or float), got {type_name(value)}")
    elif form is Form.STRING and schema.format in _STRING_FORMATS:
        if not isinstance(value, str):
            yield _error(path, f"expected string, got &value.valueUnstructured{{Value:{_go_value(value)}}}")
    elif form is Form.BOOLEAN:
        if not isinstance(value, bool):
            yield _error(path, f"expected boolean, got &{{{shown(value)}}}")
    elif not is_scalar:
        yield _error(path, f"expected any scalar, got &{{{shown(value)}}}")


def _error(path: str, message: str) -> str:
    return f"{path}: {message}" if path else message


def _go_value(value: Any) -> str:
    """A value as Go writes it in its own syntax."""
    if isinstance(value, dict):
        inner = ", ".join(f'"{key}":{_go_value(value[key])}' for key in sorted(value))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_value, value))}}}"
    return f'"{value}"' if isinstance(value, str) else shown(value)


# Merging


def _merged(live: Any, config: Any, schema: Schema) -> Any:
    """Both merged. Absent if there is nothing in either."""
    if config is _ABSENT:
        return live
    if live is _ABSENT:
        return config
    shape = _shape(schema, config)
    if shape == "leaf":
        return config
    if shape == "map":
        have = live if isinstance(live, dict) else {}
        wanted = config if isinstance(config, dict) else {}
        if not (have or wanted):
            return config
        result = dict(have)
        for key, value in wanted.items():
            inner = _merged(have.get(key, _ABSENT), value, _at(schema, key))
            if inner is not _ABSENT:
                result[key] = inner
        return result
    have_list = live if isinstance(live, list) else []
    wanted_list = config if isinstance(config, list) else []
    return _merged_lists(have_list, wanted_list, schema) if have_list or wanted_list else config


def _merged_lists(live: list[Any], config: list[Any], schema: Schema) -> list[Any]:
    """Two lists merged. Live elements that the configuration does not mention keep their place among their neighbours."""
    items = _items(schema)
    left, right = _elements(live, schema), _elements(config, schema)
    wanted = dict(zip(right, config, strict=True))
    found: dict[str, Any] = {}
    for element, value in zip(left, live, strict=True):
        found[element] = None if element in found else value  # of duplicates, none is merged
    shared = [element for element in right if element in found]
    next_shared = 0
    done: set[str] = set()
    result: list[Any] = []

    def take(element: str) -> None:
        nonlocal next_shared
        done.add(element)
        result.append(_merged(found.get(element, _ABSENT), wanted[element], items))
        if next_shared < len(shared) and shared[next_shared] == element:
            next_shared += 1

    here = there = 0
    while here < len(left) or there < len(right):
        if here < len(left) and there < len(right):
            element = left[here]
            if element == right[there]:
                take(element)
                here, there = here + 1, there + 1
                continue
            if element in wanted and next_shared < len(shared) and shared[next_shared] != element:
                here += 1  # it has its place in the configuration
                continue
        if here < len(left):
            element = left[here]
            if element not in wanted:
                result.append(live[here])
                here += 1
                continue
            if element in done:
                here += 1
        if there < len(right):
            take(right[there])
            there += 1
    return result
