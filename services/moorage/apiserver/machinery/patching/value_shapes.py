"""What a value is to its schema: merged by fields, merged by elements, or taken whole.

These are the rules of Kubernetes' library `structured-merge-diff`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moorage.apiserver.machinery.patching import field_sets as sets
from moorage.apiserver.machinery.schema import Form, ListType, Schema

_DEDUCED: Final = Schema(Form.ANY)
"""A value without a schema. Its objects merge by their fields, its lists are atomic."""

_ATOMIC: Final = Schema(Form.ANY, is_atomic=True)
_OBJECTS: Final = frozenset({Form.STRUCT, Form.MAP, Form.ANY})


class UntypedError(ValueError):
    """A list has elements that its schema cannot tell apart."""


def parts(value: Any, schema: Schema) -> dict[str, Any] | list[Any] | None:
    """The fields of an object or the elements of a list that is merged by them. None for what is taken whole.

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
    """The schema of a field. Of one that the schema does not know, what its value is decides."""
    if schema.form is Form.STRUCT:
        field = schema.fields.get(name)
        return field.schema if field is not None else _DEDUCED
    if schema.form is Form.MAP and schema.items is not None:
        return schema.items
    return _ATOMIC if schema.is_atomic else _DEDUCED


def items(schema: Schema) -> Schema:
    """The schema of the elements of a list."""
    return schema.items if schema.items is not None else _ATOMIC


def elements(values: Sequence[Any], schema: Schema) -> list[str]:
    """The path elements of the elements of a list, in their order.

    Raises:
        UntypedError: if one of them cannot be told from others.
    """
    if schema.list_type is ListType.SET:
        return [_element_of_scalar(number, value) for number, value in enumerate(values)]
    fields = items(schema).fields
    defaults = {key: fields[key].schema.default if key in fields else None for key in schema.list_keys}
    return [_element_of_object(number, value, defaults) for number, value in enumerate(values)]


def grouped(values: list[Any], schema: Schema) -> dict[str, list[Any]]:
    """The elements of a list by their path elements. There is more than one of each if it has duplicates.

    Raises:
        UntypedError: if one of them cannot be told from others.
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
