"""The fields of a kind as text, laid out as kubectl's `explain` does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery.schema import Field, Form, Schema
from moorage.cli.errors import CliError

_DEEPEST = 12
"""How many levels of fields are shown. Some structures contain themselves."""

_NAMES: Final = {
    Form.INT_OR_STRING: "IntOrString",
    Form.QUANTITY: "Quantity",
    Form.ANY: "Object",
    Form.TIME: "string",
}


def lines(kind: ServedKind, schema: Schema, path: Sequence[str], *, recursive: bool) -> Iterator[str]:
    """Return what is told of a kind, or of the field at a path.

    Raises:
        CliError: there is no such field.
    """
    if kind.group:
        yield f"GROUP:      {kind.group}"
    yield f"KIND:       {kind.kind}"
    yield f"VERSION:    {kind.version}"
    yield ""
    at = schema
    for name in path:
        inner = _inner(at)
        found = inner.at(name)
        if found is None:
            raise CliError(f'field "{name}" does not exist')
        at = found
    if path:
        yield f"FIELD: {path[-1]} <{type_name(at)}>"
        yield ""
    fields = _inner(at).fields
    if fields:
        yield "FIELDS:"
        yield from _fields(fields.values(), recursive=recursive, depth=1)


def _fields(fields: Iterable[Field], *, recursive: bool, depth: int) -> Iterator[str]:
    for field in sorted(fields, key=lambda one: one.name):
        required = " -required-" if field.required else ""
        yield f"{'  ' * depth}{field.name}\t<{type_name(field.schema)}>{required}"
        if recursive and depth < _DEEPEST:
            yield from _fields(_inner(field.schema).fields.values(), recursive=True, depth=depth + 1)


def type_name(schema: Schema) -> str:
    """Return the type of a value: `string`, `[]Toleration`, `map[string]string`."""
    if schema.form is Form.LIST:
        return f"[]{type_name(schema.items)}" if schema.items else "[]Object"
    if schema.form is Form.MAP:
        return f"map[string]{type_name(schema.items)}" if schema.items else "Object"
    if schema.form is Form.STRUCT:
        return schema.name.rpartition(".")[2] or "Object"
    return _NAMES.get(schema.form, str(schema.form.value))


def _inner(schema: Schema) -> Schema:
    """Return the structure of the elements of lists and maps."""
    while schema.form in {Form.LIST, Form.MAP} and schema.items is not None:
        schema = schema.items
    return schema
