"""Schemas as OpenAPI 3.0 has them, with Kubernetes' extensions.

Definitions are collected while they are referred to, so a document contains what it uses and nothing else.
"""

from __future__ import annotations

from typing import Any, Final

from moorage.apiserver.machinery.openapi.definitions import META
from moorage.apiserver.machinery.schema import Field, Form, ListType, Schema

Json = dict[str, Any]

REFERENCE: Final = "#/components/schemas/"
"""The beginning of every reference to a definition."""

TYPES: Final = {
    Form.STRUCT: "object",
    Form.MAP: "object",
    Form.LIST: "array",
    Form.STRING: "string",
    Form.TIME: "string",
    Form.INTEGER: "integer",
    Form.NUMBER: "number",
    Form.BOOLEAN: "boolean",
}
"""The types of JSON of most forms."""

_OBJECTS: Final = frozenset({f"{META}.FieldsV1", "io.k8s.apimachinery.pkg.runtime.RawExtension"})
"""Definitions of any JSON that is always an object."""


class Definitions:
    """The definitions that a document uses, by their names."""

    def __init__(self) -> None:
        self.found: dict[str, Json] = {}

    def use(self, schema: Schema, description: str = "") -> Json:
        """Return the schema of a value: a reference to its definition, or written out if it has no name.

        `description` is that of the field that has the value. Empty to show that of the schema.
        """
        said = {"description": description} if description else {}
        if not schema.name:
            return {**self._written(schema), **said}
        reference = {"$ref": REFERENCE + self._define(schema)}
        said |= _merging(schema) | _of_a_use(schema)
        # Whatever stands beside a reference does not count, so a reference that is not alone is in a list of one.
        return {"allOf": [reference], **said} if said else reference

    def kind(self, schema: Schema, group: str, version: str, kind: str) -> str:
        """Define the schema of a kind's objects. Return its name."""
        name = self._define(schema)
        named = self.found[name].setdefault("x-kubernetes-group-version-kind", [])
        one = {"group": group, "kind": kind, "version": version}
        if one not in named:
            named.append(one)
        return name

    def _define(self, schema: Schema) -> str:
        if schema.name not in self.found:
            made: Json = {}
            self.found[schema.name] = made
            made.update(self._written(schema, is_definition=True))
        return schema.name

    def _written(self, schema: Schema, *, is_definition: bool = False) -> Json:
        made: Json = {"description": schema.description} if schema.description else {}
        made |= _form(schema)
        if schema.form is Form.STRUCT:
            made |= self._fields(schema)
        elif schema.items is not None:
            made["items" if schema.form is Form.LIST else "additionalProperties"] = self.use(schema.items)
        made |= _limits(schema)
        return made if is_definition else made | _merging(schema) | _of_a_use(schema)

    def _fields(self, schema: Schema) -> Json:
        made: Json = {}
        if schema.fields:
            made["properties"] = {name: self._field(one) for name, one in sorted(schema.fields.items())}
        if required := sorted(name for name, one in schema.fields.items() if one.required):
            made["required"] = required
        if schema.keeps_unknown:
            made["x-kubernetes-preserve-unknown-fields"] = True
        return made

    def _field(self, one: Field) -> Json:
        return self.use(one.schema, one.description)


def _form(schema: Schema) -> Json:
    """Return the keywords of a value's form."""
    if schema.form is Form.INT_OR_STRING:
        return {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}
    if schema.form is Form.QUANTITY:
        return {"oneOf": [{"type": "string"}, {"type": "number"}]}
    if schema.name in _OBJECTS:
        return {"type": "object"}
    return {"type": TYPES[schema.form]} if schema.form in TYPES else {}


def _limits(schema: Schema) -> Json:
    """Return the keywords of a value's constraints."""
    said = {
        "format": schema.format,
        "enum": list(schema.enum),
        "x-kubernetes-map-type": "atomic" if schema.is_atomic else "",
    }
    return {**{name: value for name, value in said.items() if value}, **schema.constraints}


def _of_a_use(schema: Schema) -> Json:
    """Return the keywords that belong to the use of a definition."""
    nullable = {"nullable": True} if schema.is_nullable else {}
    return {**nullable, **({"default": schema.default} if schema.default is not None else {})}


def _merging(schema: Schema) -> Json:
    """Return how patches and server-side apply merge a value."""
    made: Json = {}
    if schema.form is Form.LIST and (schema.list_type is not ListType.ATOMIC or not schema.patch_strategies):
        made["x-kubernetes-list-type"] = schema.list_type.value
    if schema.list_keys:
        made["x-kubernetes-list-map-keys"] = list(schema.list_keys)
    if schema.patch_strategies:
        made["x-kubernetes-patch-strategy"] = ",".join(sorted(schema.patch_strategies))
    if schema.merge_key:
        made["x-kubernetes-patch-merge-key"] = schema.merge_key
    return made
