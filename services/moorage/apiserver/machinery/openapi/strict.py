"""Decoding of requests by the structure of their kind: unknown, repeated and mistyped fields are found.

The words are those of an API server, which clients show and parse. What becomes of a finding is the caller's:
`fieldValidation` has it refused, warned of or ignored. Unknown fields never remain in the document, except in Moorage's
own kinds, whose admission decides on them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from moorage.apiserver.machinery.openapi import registry
from moorage.apiserver.machinery.openapi.built_in import DecodeError, Decoder, json_type, repeated, time_flaw
from moorage.apiserver.machinery.openapi.json_values import ParseError
from moorage.apiserver.machinery.openapi.parsing import excerpt, parse
from moorage.apiserver.machinery.openapi.registry import Origin
from moorage.apiserver.machinery.openapi.schemas import TYPES
from moorage.apiserver.machinery.schema import Field, Form, Schema
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, invalid, not_supported, quote, required

Document = dict[str, Any]

_MOST_PROBLEMS: Final = 100
"""Upstream's decoder reports no more."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A document of a kind, and what was found in it."""

    document: Document
    """The document without unknown fields and without fields that are null. A custom resource has the default values of
    its definition, which are stored."""

    problems: tuple[str, ...] = ()
    """The unknown and the repeated fields: `unknown field "spec.tolerations[0].tolerationSecond"`. With
    `fieldValidation=Strict` they are refused (`strict_message`), with `Warn` each is a warning."""

    violations: tuple[FieldError, ...] = ()
    """Errors by the definition of a custom resource. An API server answers 422 with these causes."""


def decode(
    group: str, version: str, kind: str, body: bytes, *, is_yaml: bool = False, subresource: str = ""
) -> Decoded:
    """Return the document in the body of a request.

    `group`, `version` and `kind` are those that are expected; `subresource` is as in `decode_document`.

    Raises:
        DecodeError: the text has no document, or one that is not of the kind.
        LookupError: no such kind is served.
    """
    origin = registry.origin_of(group, kind)

    def unrecognized(why: str) -> DecodeError:
        return DecodeError(why, f"the object provided is unrecognized (must be of type {kind}): {why}")

    try:
        parsed = parse(body, is_yaml=is_yaml)
    except ParseError as error:
        prefix = "couldn't get version/kind; " if str(error).startswith("json parse") else ""
        raise unrecognized(f"{prefix}{error} ({excerpt(body)})") from None
    document = {} if parsed.document is None else parsed.document
    if not isinstance(document, dict):
        why = f"json: cannot unmarshal {json_type(document)} into Go value of type {_IDENTITY}"
        raise unrecognized(f"couldn't get version/kind; json parse error: {why} ({excerpt(body)})")
    for name in ("apiVersion", "kind"):
        if not isinstance(said := document.get(name, ""), str | None):
            why = f"json: cannot unmarshal {json_type(said)} into Go struct field .{name} of type string"
            raise unrecognized(f"couldn't get version/kind; json parse error: {why} ({excerpt(body)})")
    if origin is Origin.CUSTOM and not document.get("kind"):
        raise unrecognized(f"Object 'Kind' is missing in '{excerpt(body)}'")
    try:
        found = decode_document(group, version, kind, document, subresource=subresource)
    except DecodeError as error:
        message = f'{kind} in version "{version}" cannot be handled as a {kind}: {error.reason}'
        raise DecodeError(error.reason, message) from None
    if not parsed.problems:
        return found
    return Decoded(found.document, (*parsed.problems, *found.problems), found.violations)


def decode_document(
    group: str, version: str, kind: str, document: Mapping[str, Any], *, subresource: str = ""
) -> Decoded:
    """Return a document of a kind that has been parsed, such as the result of a patch.

    `subresource` is `status`, or empty for the object. The rest of a custom resource is not validated, because it is
    not written.

    Raises:
        DecodeError: it is not of the kind.
        LookupError: no such kind is served.
    """
    schema = registry.schema_of(group, version, kind)
    origin = registry.origin_of(group, kind)
    if origin in {Origin.CUSTOM, Origin.OWN}:
        return _custom(schema, document, subresource, is_own=origin is Origin.OWN)
    decoder = Decoder()
    found = decoder.struct(schema, document, "", ())
    decoder.finish()
    return Decoded(found, tuple(decoder.problems[:_MOST_PROBLEMS]))


def strict_message(problems: Iterable[str]) -> str:
    """Return the message of a refusal because of unknown and repeated fields."""
    told = [f"yaml: unmarshal errors:\n  {one}" if one.startswith("line ") else one for one in problems]
    return f"strict decoding error: {', '.join(told)}"


_IDENTITY: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def _custom(schema: Schema, document: Mapping[str, Any], subresource: str, *, is_own: bool) -> Decoded:
    """Decode a custom resource: metadata by its built-in type, the rest pruned and validated by the definition."""
    decoder = Decoder()
    metadata = document.get("metadata")
    meta = schema.fields["metadata"].schema
    if isinstance(metadata, Mapping):
        metadata = decoder.struct(meta, _in_order(metadata), "metadata", ())
    elif metadata is not None:
        metadata = decoder.value(meta, metadata, "metadata", ())
    decoder.finish()
    pruned = Pruned(keeps=is_own)
    made = pruned.struct(schema, {name: value for name, value in document.items() if name != "metadata"}, "")
    if metadata is not None:
        made = {**{name: made[name] for name in ("apiVersion", "kind") if name in made}, "metadata": metadata, **made}
    problems = [
        *dict.fromkeys(repeated(document, "")),
        *(one for one in decoder.problems if one.startswith("unknown")),
        *(f'unknown field "{path}"' for path in sorted(pruned.unknown)),
    ]
    problems = problems[:_MOST_PROBLEMS]
    if is_own:
        return Decoded(made, tuple(problems))
    fields = {name: field for name, field in schema.fields.items() if (name == "status") is (subresource == "status")}
    written = replace(schema, fields=fields)
    made = defaulted(written, made)
    found = violations(written, made, "")
    if subresource:
        # Upstream validates a status alone, so its messages name fields from there.
        found = (replace(one, detail=one.detail.replace(f"{one.path} in body", _within(one.path))) for one in found)
    return Decoded(made, tuple(problems), tuple(found))


def _within(path: str) -> str:
    return f"{path.removeprefix('status.')} in body"


def _in_order(value: Any) -> Any:
    """Return a value with its keys in upstream's order of maps, and with the last of repeated keys."""
    if isinstance(value, Mapping):
        return {key: _in_order(one) for key, one in sorted(value.items())}
    return [_in_order(one) for one in value] if isinstance(value, list) else value


class Pruned:
    """Removes what a definition does not have. If it `keeps` them, unknown fields are found, and kept."""

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self.unknown: list[str] = []

    def struct(self, schema: Schema, found: Mapping[str, Any], path: str) -> Document:
        """Return an object with the fields that its schema has."""
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
        # An object where the definition has something else is validated as well, and has no known field.
        return self.struct(schema if schema.form is Form.STRUCT else _NOTHING, value, path)


def defaulted(schema: Schema, value: Any) -> Any:
    """Return a value with the defaults of its definition where fields are missing, as it is validated."""
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

_FORMS: Final[Mapping[Form, str]] = {**TYPES, Form.INT_OR_STRING: "integer,string"}
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
    """Yield the violations of a custom resource's definition by a value. Metadata is not checked."""
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
    """Yield the constraints that a value breaks."""
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
