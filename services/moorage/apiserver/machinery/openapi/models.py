"""The structure of Moorage's own kinds, from their models. The docstrings of models and fields are the descriptions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from moorage.apiserver.kinds.kind import Kind, View, named
from moorage.apiserver.machinery.openapi import definitions
from moorage.apiserver.machinery.schema import Field, Form, Schema
from moorage_schemas.base import Model
from moorage_schemas.described import DescribedJsonSchema
from moorage_schemas.resources.meta import Resource
from moorage_schemas.topics import TOPICS

_UPSTREAM: Final = {name: f"{definitions.META}.{name}" for name in ("LabelSelector", "ObjectMeta")}
"""Models of which upstream's definitions say more."""

_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

_FORMS: Final = {
    "string": Form.STRING,
    "integer": Form.INTEGER,
    "number": Form.NUMBER,
    "boolean": Form.BOOLEAN,
}
_CONSTRAINTS: Final = ("pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_REFERENCE: Final = "#/$defs/"


def schema_of(kind: Kind[Any], prefix: str) -> Schema:
    """Return the structure of a kind whose model is all that describes it.

    The status of a kind that only the services write is the record that it is made from, and may have more.

    Args:
        kind: the kind.
        prefix: of the names of its definitions: `io.moorage.v1alpha1`.
    """
    model = kind.model
    fields = dict(_structure(model, prefix).fields)
    fields["metadata"] = Field("metadata", definitions.definition(f"{definitions.META}.ObjectMeta"))
    if isinstance(kind, View) and kind.made_from:
        event = next(topic.event for topic in TOPICS if topic.short == kind.made_from)
        status = _structure(event, prefix)
        status.keeps_unknown = True
        fields["status"] = Field("status", status)
        fields["spec"] = Field("spec", _anything())
    fields.setdefault("status", Field("status", _anything()))
    return Schema(
        Form.STRUCT,
        name=f"{prefix}.{kind.kind}",
        fields=fields,
        keeps_unknown=model is Resource,
        description=_plain(model.__doc__ if model is not Resource else type(kind).__doc__),
    )


def _anything() -> Schema:
    """An object of which nothing more is known."""
    return Schema(Form.STRUCT, keeps_unknown=True)


def _structure(model: type[Model], prefix: str) -> Schema:
    said = model.model_json_schema(by_alias=True, schema_generator=DescribedJsonSchema)
    reader = _Reader(said.get("$defs", {}), prefix)
    return reader.read(said)


def _plain(text: str | None) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((text or "").split("\n\n")[0].split())


class _Reader:
    """Reads a JSON Schema that pydantic has made."""

    def __init__(self, definitions: Mapping[str, Any], prefix: str) -> None:
        self._said = definitions
        self._prefix = prefix
        self._made: dict[str, Schema] = {}

    def read(self, said: Mapping[str, Any]) -> Schema:
        """The schema that a part describes."""
        if (reference := said.get("$ref")) is not None:
            return self._definition(reference.removeprefix(_REFERENCE))
        if (choices := said.get("anyOf")) is not None:
            return self._choice(choices)
        made = Schema(self._form(said), description=_plain(said.get("description")))
        if made.form is Form.STRUCT:
            fields: dict[str, Field] = {}
            made.fields = fields
            self._fields(said, fields)
        elif made.form is Form.MAP:
            made.items = self.read(said["additionalProperties"])
        elif made.form is Form.LIST:
            made.items = self.read(said.get("items", {}))
        made.keeps_unknown = made.form is Form.STRUCT and not made.fields
        made.format = {Form.TIME: "date-time", Form.INTEGER: "int64", Form.NUMBER: "double"}.get(made.form, "")
        made.enum = tuple(map(str, said["enum"])) if "enum" in said else (said["const"],) if "const" in said else ()
        made.constraints = {name: said[name] for name in _CONSTRAINTS if name in said}
        return made

    def _form(self, said: Mapping[str, Any]) -> Form:
        kind = said.get("type")
        if kind == "object":
            return Form.MAP if isinstance(said.get("additionalProperties"), Mapping) else Form.STRUCT
        if kind == "array":
            return Form.LIST
        if kind == "string" and said.get("format") == "date-time":
            return Form.TIME
        return _FORMS.get(str(kind), Form.ANY)

    def _choice(self, choices: list[Mapping[str, Any]]) -> Schema:
        """A value of several forms: of one and null, a number or a string, or any."""
        real = [one for one in choices if one.get("type") != "null"]
        if len(real) > 1:
            names = {one.get("type") for one in real}
            is_either = names == {"integer", "string"}
            made = replace(definitions.definition(_INT_OR_STRING)) if is_either else Schema(Form.ANY)
        else:
            # A definition is shared, and only this use of it may be null.
            made = replace(self.read(real[0]))
        made.is_nullable = len(real) < len(choices)
        return made

    def _definition(self, name: str) -> Schema:
        if name in _UPSTREAM:
            return definitions.definition(_UPSTREAM[name])
        if name not in self._made:
            full = f"{self._prefix}.{name}"
            # A part may be of a model that has the name of a kind: the taints of an eviction are no objects.
            made = Schema(Form.STRUCT, name=f"{full}Value" if named(name) is not None else full)
            self._made[name] = made
            found = self.read(self._said[name])
            for one in dataclasses.fields(Schema):
                if one.name != "name":
                    setattr(made, one.name, getattr(found, one.name))
        return self._made[name]

    def _fields(self, said: Mapping[str, Any], into: dict[str, Field]) -> None:
        required = frozenset(said.get("required", ()))
        for name, one in said.get("properties", {}).items():
            into[name] = Field(
                name, self.read(one), required=name in required, description=_plain(one.get("description"))
            )
