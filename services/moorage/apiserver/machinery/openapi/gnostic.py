"""OpenAPI 2.0 as protobuf (gnostic's `openapi.v2.Document`), the only form that client-go reads.

A table lists the fields of each message: what they are called in JSON, and how they are written. Names that begin with
`x-` are extensions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from moorage.apiserver.machinery.protobuf import wire
from moorage.apiserver.machinery.protobuf.wire import BYTES, FIXED64, VARINT

MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The media type of a document."""

_Encode = Callable[[Any], bytes]
"""Encodes a value: as the bytes of a message, or (in tables) as whole fields."""


def document(node: Mapping[str, Any]) -> bytes:
    """Return a document of OpenAPI 2.0 as protobuf.

    It has what `documents.py` writes; other parts of OpenAPI are not known here.
    """
    return _message(node, _DOCUMENT, 16)


def _one(number: int, encode: _Encode) -> _Encode:
    return lambda value: wire.field(number, BYTES, encode(value))


def _each(number: int, encode: _Encode) -> _Encode:
    return lambda values: b"".join(wire.field(number, BYTES, encode(value)) for value in values)


def _entries(number: int, encode: _Encode) -> _Encode:
    """Return the entries of a map: messages with a name and a value."""
    return lambda values: b"".join(wire.field(number, BYTES, _named(name, encode(one))) for name, one in values.items())


def _whole(number: int) -> _Encode:
    return lambda value: wire.field(number, VARINT, wire.varint(int(value)))


def _double(number: int) -> _Encode:
    return lambda value: wire.field(number, FIXED64, wire.double(float(value)))


def _text(value: Any) -> bytes:
    return str(value).encode()


def _any(value: Any) -> bytes:
    """Return a value of any structure, as YAML. JSON is YAML."""
    return wire.field(2, BYTES, json.dumps(value, separators=(",", ":")).encode())


def _named(name: str, value: bytes) -> bytes:
    return wire.field(1, BYTES, name.encode()) + wire.field(2, BYTES, value)


def _message(node: Mapping[str, Any], table: Mapping[str, _Encode], extensions: int) -> bytes:
    """Return a message with the fields of a table, and its extensions in the field of that number, the last one."""
    parts = [encode(node[name]) for name, encode in table.items() if name in node]
    more = _entries(extensions, _any)({name: value for name, value in node.items() if name.startswith("x-")})
    return b"".join((*parts, more))


def _texts(value: str | Iterable[str]) -> bytes:
    return _each(1, _text)([value] if isinstance(value, str) else value)


def _schema(node: Mapping[str, Any]) -> bytes:
    return _message(node, _SCHEMA, 31)


def _schema_item(node: Mapping[str, Any]) -> bytes:
    """Return one of the messages that contain a schema or something else."""
    return wire.field(1, BYTES, _schema(node))


_SCHEMA: Final[Mapping[str, _Encode]] = {
    "$ref": _one(1, _text),
    "format": _one(2, _text),
    "description": _one(4, _text),
    "maximum": _double(7),
    "minimum": _double(9),
    "maxLength": _whole(11),
    "minLength": _whole(12),
    "pattern": _one(13, _text),
    "maxItems": _whole(14),
    "minItems": _whole(15),
    "required": _each(19, _text),
    "enum": _each(20, _any),
    "additionalProperties": _one(21, _schema_item),
    "type": _one(22, _texts),
    "items": _one(23, _schema_item),
    "properties": _one(25, _entries(1, _schema)),
}
_BODY_PARAMETER: Final[Mapping[str, _Encode]] = {
    "description": _one(1, _text),
    "name": _one(2, _text),
    "in": _one(3, _text),
    "required": _whole(4),
    "schema": _one(5, _schema),
}
_QUERY_PARAMETER: Final[Mapping[str, _Encode]] = {
    "in": _one(2, _text),
    "description": _one(3, _text),
    "name": _one(4, _text),
    "type": _one(6, _text),
    "minimum": _double(13),
    "maxLength": _whole(15),
    "uniqueItems": _whole(20),
    "enum": _each(21, _any),
}
_PATH_PARAMETER: Final[Mapping[str, _Encode]] = {
    "required": _whole(1),
    "in": _one(2, _text),
    "description": _one(3, _text),
    "name": _one(4, _text),
    "type": _one(5, _text),
    "uniqueItems": _whole(19),
}


def _parameter(node: Mapping[str, Any]) -> bytes:
    """Return a parameter, in the messages that distinguish parameters of different places."""
    if node["in"] == "body":
        one = wire.field(1, BYTES, _message(node, _BODY_PARAMETER, 6))
    elif node["in"] == "query":
        one = wire.field(2, BYTES, wire.field(3, BYTES, _message(node, _QUERY_PARAMETER, 23)))
    else:
        one = wire.field(2, BYTES, wire.field(4, BYTES, _message(node, _PATH_PARAMETER, 22)))
    return wire.field(1, BYTES, one)


_RESPONSE: Final[Mapping[str, _Encode]] = {"description": _one(1, _text), "schema": _one(2, _schema_item)}


def _response(node: Mapping[str, Any]) -> bytes:
    return wire.field(1, BYTES, _message(node, _RESPONSE, 5))


_OPERATION: Final[Mapping[str, _Encode]] = {
    "tags": _each(1, _text),
    "description": _one(3, _text),
    "operationId": _one(5, _text),
    "produces": _each(6, _text),
    "consumes": _each(7, _text),
    "parameters": _each(8, _parameter),
    "responses": _one(9, _entries(1, _response)),
    "schemes": _each(10, _text),
}


def _operation(node: Mapping[str, Any]) -> bytes:
    return _message(node, _OPERATION, 13)


_PATH: Final[Mapping[str, _Encode]] = {
    "get": _one(2, _operation),
    "put": _one(3, _operation),
    "post": _one(4, _operation),
    "delete": _one(5, _operation),
    "patch": _one(8, _operation),
    "parameters": _each(9, _parameter),
}


_INFO: Final[Mapping[str, _Encode]] = {"title": _one(1, _text), "version": _one(2, _text)}
_DOCUMENT: Final[Mapping[str, _Encode]] = {
    "swagger": _one(1, _text),
    "info": _one(2, lambda node: _message(node, _INFO, 7)),
    "paths": _one(8, _entries(2, lambda one: _message(one, _PATH, 10))),
    "definitions": _one(9, _entries(1, _schema)),
}
