"""Random documents of any kind, made from its schema, and documents in the shape that upstream's own types have."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from moorage.apiserver.machinery.schema import Field, Form, ListType, Schema

Document = dict[str, Any]

_WORDS = ("a", "b", "c", "x/y")
_ZERO: dict[Form, Any] = {
    Form.STRING: "",
    Form.INTEGER: 0,
    Form.INT_OR_STRING: 0,
    Form.NUMBER: 0,
    Form.BOOLEAN: False,
    Form.QUANTITY: "0",
}
_LEFT_OUT = {"managedFields", "apiVersion", "kind"}
_DEEPEST = 7


class Documents:
    """Makes random documents. A few words are used again and again, so that elements of lists meet."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)  # noqa: S311 - test data from a seed

    def whole(self, schema: Schema, api_version: str, kind: str) -> Document:
        """A document of a kind, with a name."""
        found = self.object_(schema, 0)
        metadata = found.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        metadata = {key: metadata[key] for key in ("labels", "annotations", "finalizers") if key in metadata}
        return {**found, "apiVersion": api_version, "kind": kind, "metadata": {**metadata, "name": "one"}}

    def object_(self, schema: Schema, depth: int) -> Document:
        """An object with a few of its fields."""
        names = [name for name in schema.fields if name not in _LEFT_OUT]
        chosen = set(self.random.sample(names, min(len(names), self.random.randint(1, 3 if depth else 4))))
        if depth == 0:
            chosen |= {"spec", "metadata"} & set(names)
        chosen |= {name for name in names if schema.fields[name].required}
        return {name: self.value(schema.fields[name].schema, depth + 1) for name in names if name in chosen}

    def value(self, schema: Schema, depth: int) -> Any:
        """A value of a schema."""
        pick = self.random
        if schema.form is Form.STRUCT:
            return self.object_(schema, depth) if depth < _DEEPEST else {}
        if schema.form is Form.MAP:
            below = schema.items or Schema(Form.ANY)
            return {word: self.value(below, depth + 1) for word in pick.sample(_WORDS, pick.randint(0, 2))}
        if schema.form is Form.LIST:
            return self.list_(schema, depth)
        if schema.form is Form.STRING and schema.format == "byte":
            return pick.choice(("YQ==", "Yg=="))
        choices: dict[Form, tuple[Any, ...]] = {
            Form.STRING: schema.enum or _WORDS,
            Form.INTEGER: (0, 1, 2, 3),
            Form.NUMBER: (0, 1, 2),
            Form.BOOLEAN: (True, False),
            Form.INT_OR_STRING: (1, "10%"),
            Form.QUANTITY: ("1", "100m", "2Gi"),
            Form.TIME: ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
            Form.ANY: ({"a": 1}, {"b": {"c": [1]}}),
        }
        return pick.choice(choices[schema.form])

    def list_(self, schema: Schema, depth: int) -> list[Any]:
        """A list. Its elements can be told apart."""
        below = schema.items or Schema(Form.ANY)
        found = [self.value(below, depth + 1) for _ in range(self.random.randint(0, 3 if depth < _DEEPEST else 0))]
        keys = set(schema.list_keys) | ({schema.merge_key} - {""})
        for one in found:
            for key in keys:
                one.setdefault(key, self.value(below.fields[key].schema, depth + 1) if key in below.fields else "a")
        if schema.list_type is ListType.ATOMIC and not schema.merge_key:
            return found
        if self.random.random() < 0.03:
            return found  # some clients send duplicates
        told = {repr([one.get(key) for key in sorted(keys)] if keys else one): one for one in found}
        return list(told.values())

    def changed(self, value: Any, schema: Schema, depth: int = 0) -> Any:
        """A value with some of it changed, added or gone."""
        pick = self.random
        if schema.form is Form.STRUCT and isinstance(value, dict):
            result = dict(value)
            for name in list(result):
                if name not in schema.fields or name in _LEFT_OUT or (depth == 0 and name == "metadata"):
                    continue
                below = schema.fields[name].schema
                if pick.random() < 0.45:
                    result[name] = self.changed(result[name], below, depth + 1)
                elif depth and pick.random() < 0.12 and not schema.fields[name].required:
                    del result[name]
            if pick.random() < 0.4:
                more = self.object_(schema, depth + 1)
                result.update({name: one for name, one in more.items() if name not in result})
            if depth == 0:
                result["metadata"] = self._labelled(value.get("metadata") or {})
            return result
        if schema.form is Form.LIST and isinstance(value, list) and value and depth < _DEEPEST:
            return self._changed_list(value, schema, depth)
        return self.value(schema, depth)

    def _labelled(self, metadata: Document) -> Document:
        pick = self.random
        if pick.random() < 0.5:
            labels = {word: pick.choice(_WORDS) for word in pick.sample(_WORDS, pick.randint(0, 2))}
            metadata = {**metadata, pick.choice(("labels", "annotations")): labels}
        if pick.random() < 0.2:
            metadata = {**metadata, "finalizers": pick.sample(("x/a", "x/b", "x/c"), pick.randint(0, 3))}
        return metadata

    def _changed_list(self, value: list[Any], schema: Schema, depth: int) -> list[Any]:
        pick = self.random
        below = schema.items or Schema(Form.ANY)
        result = [self.changed(one, below, depth + 1) if pick.random() < 0.4 else one for one in value]
        for old, new in zip(value, result, strict=True):
            if isinstance(old, dict) and isinstance(new, dict):
                new.update({key: old[key] for key in (*schema.list_keys, schema.merge_key) if key in old})
        if pick.random() < 0.3:
            result.pop(pick.randrange(len(result)))
        result += self.list_(schema, depth) if pick.random() < 0.4 else []
        if pick.random() < 0.3:
            pick.shuffle(result)
        keys = set(schema.list_keys) | ({schema.merge_key} - {""})
        if schema.list_type is ListType.ATOMIC and not schema.merge_key:
            return result
        told: dict[str, Any] = {}
        for one in result:
            told.setdefault(repr([one.get(key) for key in sorted(keys)] if keys else one), one)
        return list(told.values())


def as_typed(value: Any, schema: Schema) -> Any:
    """A value as upstream's Go type writes it: with its zero values, and without what it leaves out."""
    if schema.form is Form.STRUCT and (value is None or isinstance(value, dict)):
        return dict(_fields(value or {}, schema))
    below = schema.items
    if schema.form is Form.LIST and isinstance(value, list) and below is not None:
        return [as_typed(one, below) for one in value]
    if schema.form is Form.MAP and isinstance(value, dict) and below is not None:
        return {key: as_typed(one, below) for key, one in value.items()}
    return value


def _fields(value: Document, schema: Schema) -> Iterator[tuple[str, Any]]:
    for name, field in schema.fields.items():
        found = value.get(name)
        if found is None and (field.is_pointer or field.schema.form is not Form.STRUCT):
            if not field.omits_empty:
                yield name, None if field.is_pointer else _ZERO.get(field.schema.form)
            continue
        typed = as_typed(found, field.schema)
        if not (field.omits_empty and not field.is_pointer and _is_zero(typed, field)):
            yield name, typed


def _is_zero(value: Any, field: Field) -> bool:
    if field.schema.form is Form.STRUCT:
        return not value
    return value in (None, "", 0, [], {}) and value is not True


def openapi(schema: Schema, group: str, version: str, kind: str) -> Document:
    """The definition of a kind in OpenAPI, with everything in place."""
    found = _openapi(schema)
    found["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind}]
    return {f"toy.{kind}": found}


_TYPES: dict[Form, Document] = {
    Form.STRING: {"type": "string"},
    Form.INTEGER: {"type": "integer"},
    Form.NUMBER: {"type": "number"},
    Form.BOOLEAN: {"type": "boolean"},
    Form.INT_OR_STRING: {"type": "string", "format": "int-or-string"},
    Form.QUANTITY: {"type": "string", "format": "int-or-string"},
    Form.TIME: {"type": "string", "format": "date-time"},
    Form.ANY: {"x-kubernetes-preserve-unknown-fields": True},
}


def _openapi(schema: Schema) -> Document:
    found: Document = {}
    if schema.form is Form.LIST:
        found = {"type": "array", "items": _openapi(schema.items or Schema(Form.ANY))}
        found["x-kubernetes-list-type"] = schema.list_type.value
        if schema.list_type is ListType.MAP:
            found["x-kubernetes-list-map-keys"] = list(schema.list_keys)
    elif schema.form is Form.MAP:
        found = {"type": "object", "additionalProperties": _openapi(schema.items or Schema(Form.ANY))}
    elif schema.form is Form.STRUCT:
        found = {"type": "object", "properties": {name: _openapi(one.schema) for name, one in schema.fields.items()}}
        if required := [name for name, one in schema.fields.items() if one.required]:
            found["required"] = required
        if schema.keeps_unknown:
            found["x-kubernetes-preserve-unknown-fields"] = True
    else:
        found = dict(_TYPES[schema.form])
    if schema.is_atomic:
        found["x-kubernetes-map-type"] = "atomic"
    if schema.default is not None:
        found["default"] = schema.default
    return found
