"""What a custom resource's definition makes of a document: unknown fields are pruned, the rest is validated."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.apiserver.machinery.openapi.built_in import json_type, time_flaw
from moorage.apiserver.machinery.schema import Field, Form, Schema
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, invalid, not_supported, quote, required

Document = dict[str, Any]


class Pruned:
    """Removes what a definition does not have.

    Args:
        keeps: unknown fields are found, and kept.
    """

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self.unknown: list[str] = []

    def struct(self, schema: Schema, found: Mapping[str, Any], path: str) -> Document:
        """An object with the fields that its schema has."""
        made: Document = {}
        for name, value in found.items():
            field: Field | None = schema.fields.get(name)
            inner = f"{path}.{name}" if path else name
            if field is None:
                if not schema.keeps_unknown:
                    self.unknown.append(inner)
                if schema.keeps_unknown or self._keeps:
                    made[name] = value
            elif value is not None or field.schema.is_nullable:
                made[name] = self._value(field.schema, value, inner)
        return made

    def _value(self, schema: Schema, value: Any, path: str) -> Any:
        if schema.form is Form.ANY or not isinstance(value, Mapping | list):
            return value
        if isinstance(value, list):
            items = schema.items if schema.form is Form.LIST and schema.items is not None else _NOTHING
            return [self._value(items, one, f"{path}[{at}]") for at, one in enumerate(value)]
        if schema.form is Form.MAP and schema.items is not None:
            return {key: self._value(schema.items, one, f"{path}.{key}") for key, one in value.items()}
        # An object where the definition has something else is validated as well, and has no field that it knows.
        return self.struct(schema if schema.form is Form.STRUCT else _NOTHING, value, path)


def defaulted(schema: Schema, value: Any) -> Any:
    """A value with the defaults of its definition where fields are missing, as it is validated."""
    if isinstance(value, Mapping):
        made = {name: defaulted(_below(schema, name), one) for name, one in value.items()}
        for name, field in schema.fields.items() if schema.form is Form.STRUCT else ():
            if name not in made and field.schema.default is not None:
                made[name] = field.schema.default
        return made
    if isinstance(value, list) and schema.items is not None:
        return [defaulted(schema.items, one) for one in value]
    return value


def _below(schema: Schema, name: str) -> Schema:
    return schema.at(name) or _NOTHING


_NOTHING: Final = Schema(Form.STRUCT)
"""An object without any field."""

_FORMS: Final[Mapping[Form, str]] = {
    Form.STRUCT: "object",
    Form.MAP: "object",
    Form.LIST: "array",
    Form.STRING: "string",
    Form.TIME: "string",
    Form.INTEGER: "integer",
    Form.NUMBER: "number",
    Form.BOOLEAN: "boolean",
    Form.INT_OR_STRING: "integer,string",
}
_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "integer,string": (int, str),
}


def violations(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    """What the definition of a custom resource does not allow of a value. Metadata is not looked at."""
    if value is None and schema.is_nullable:
        return
    if (mistyped := _mistyped(schema, value, path)) is not None:
        yield mistyped
        if schema.enum:
            yield not_supported(path, value, schema.enum)
        return
    if schema.form is Form.TIME and time_flaw(value):
        rule = f"{path} in body must be of type date-time: {quote(value)}"
        yield FieldError(path, ErrorKind.TYPE_INVALID, value, rule)
    if schema.enum and value not in schema.enum:
        yield not_supported(path, value, schema.enum)
    yield from _beyond_limits(schema, value, path)
    if isinstance(value, Mapping):
        yield from _in_fields(schema, value, path)
    elif isinstance(value, list) and schema.items is not None:
        for at, one in enumerate(value):
            yield from violations(schema.items, one, f"{path}[{at}]")


def _mistyped(schema: Schema, value: Any, path: str) -> FieldError | None:
    wanted = _FORMS.get(schema.form)
    if wanted is None or (isinstance(value, _PYTHON[wanted]) and (wanted == "boolean" or not isinstance(value, bool))):
        return None
    found = "null" if value is None else {"bool": "boolean"}.get(name := json_type(value), name)
    if isinstance(value, int) and found == "number":
        found = "integer"
    return FieldError(path, ErrorKind.TYPE_INVALID, found, f'{path} in body must be of type {wanted}: "{found}"')


def _in_fields(schema: Schema, value: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for name, field in sorted(schema.fields.items()):
        inner = f"{path}.{name}" if path else name
        if name in value and inner != "metadata":
            yield from violations(field.schema, value[name], inner)
        elif field.required and name not in value:
            yield required(inner)
    if schema.form is Form.MAP and schema.items is not None:
        for key, one in value.items():
            yield from violations(schema.items, one, f"{path}.{key}")


def _beyond_limits(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    """The constraints that a value breaks."""
    if not (limits := schema.constraints):
        return
    if isinstance(value, str):
        yield from _text_beyond(limits, value, path)
    elif isinstance(value, list):
        for name, words, is_beyond in (("minItems", "least", operator.lt), ("maxItems", "most", operator.gt)):
            if (limit := limits.get(name)) is not None and is_beyond(len(value), limit):
                yield invalid(path, len(value), f"{path} in body should have at {words} {limit} items")
    elif isinstance(value, int | float):
        for name, words, is_beyond in (("minimum", "greater", operator.lt), ("maximum", "less", operator.gt)):
            if (limit := limits.get(name)) is not None and is_beyond(value, limit):
                yield invalid(path, value, f"{path} in body should be {words} than or equal to {limit:g}")


def _text_beyond(limits: Mapping[str, Any], value: str, path: str) -> Iterator[FieldError]:
    if len(value) < limits.get("minLength", 0):
        yield invalid(path, value, f"{path} in body should be at least {limits['minLength']} chars long")
    if len(value) > limits.get("maxLength", len(value)):
        yield FieldError(path, ErrorKind.TOO_LONG, value, f"may not be more than {limits['maxLength']} bytes")
    if (pattern := limits.get("pattern")) and not re.search(pattern, value):
        yield invalid(path, value, f"{path} in body should match '{pattern}'")
