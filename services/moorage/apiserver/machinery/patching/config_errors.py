"""What in a configuration does not fit its schema, in the words of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from moorage.apiserver.machinery.patching import field_sets as sets
from moorage.apiserver.machinery.patching import value_shapes as shapes
from moorage.apiserver.machinery.patching.errors import shown, type_name
from moorage.apiserver.machinery.patching.value_shapes import UntypedError
from moorage.apiserver.machinery.schema import Form, ListType, Schema

_OBJECTS: Final = frozenset({Form.STRUCT, Form.MAP})
_STRING_FORMATS: Final = frozenset({"", "byte"})


def errors_in(document: Any, schema: Schema) -> list[str]:
    """What in a document does not fit its schema, each with its path. Of unknown fields, the first of each object."""
    return list(_errors(document, schema, ""))


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
            yield from _errors(inner, shapes.at(schema, key), f"{path}.{key}")
    elif form is Form.LIST or (form is Form.ANY and isinstance(value, list)):
        if not isinstance(value, list):
            yield _error(path, f"expected list, got &{{{shown(value)}}}")
        elif form is Form.ANY or schema.list_type is ListType.ATOMIC:
            for number, inner in enumerate(value):
                yield from _errors(inner, shapes.items(schema), f"{path}[{number}]")
        else:
            yield from _errors_of_elements(value, schema, path)
    else:
        yield from _errors_of_scalar(value, schema, path)


def _errors_of_elements(value: list[Any], schema: Schema, path: str) -> Iterator[str]:
    try:
        elements = shapes.elements(value, schema)
    except UntypedError as error:
        yield _error(path, str(error))
        return
    seen: set[str] = set()
    for element, inner in zip(elements, value, strict=True):
        (written,) = sets.paths({element: {}})
        if element in seen:
            yield _error(path, f"duplicate entries for key {written}")
        seen.add(element)
        yield from _errors(inner, shapes.items(schema), f"{path}{written}")


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
    if value is None:
        return "interface {}(nil)"
    return f'"{value}"' if isinstance(value, str) else shown(value)
