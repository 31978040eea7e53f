"""Validation of ConfigMaps and Secrets, and of changes to them, as Kubernetes 1.37 has it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import Fields, inner, text
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, forbidden, invalid, required

_MOST: Final = 1 << 20  # bytes of all values
_PREFIX: Final = "kubernetes.io/"
_ACCOUNT: Final = "kubernetes.io/service-account.name"
_REDACTED: Final = "<secret contents redacted>"
_IMMUTABLE: Final = "field is immutable when `immutable` is set"
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {"tls": ("tls.crt", "tls.key"), "ssh-auth": ("ssh-privatekey",)}
"""The keys that a type of secrets needs. Those of `_FILES` have to be JSON objects, too."""

_FILES: Final = {"dockercfg": ".dockercfg", "dockerconfigjson": ".dockerconfigjson"}
_EITHER: Final = ("username", "password")
_JSON_TYPES: Final = {list: "array", str: "string", int: "number", float: "number", bool: "bool"}


def validate_config_map(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the keys and the size of a config map."""
    data, binary = inner(document, "data"), inner(document, "binaryData")
    twice = [invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in data if key in binary]
    size = sum(len(str(value).encode()) for value in data.values()) + sum(map(len, map(_bytes, binary.values())))
    return [*twice, *_keys(data, "data"), *_keys(binary, "binaryData"), *_size(size, "")]


def validate_secret(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the keys of a secret, its size, and what its type needs."""
    data, kind = inner(document, "data"), text(document, "type")
    return [
        *_keys(data, "data"),
        *_size(sum(map(len, map(_bytes, data.values()))), "data"),
        *_of_type(kind.removeprefix(_PREFIX) if kind.startswith(_PREFIX) else "", data, document),
    ]


def validate_immutable(before: Mapping[str, Any], after: Mapping[str, Any], *fields: str) -> list[FieldError]:
    """Validate a change of an object that may be marked as immutable.

    Args:
        before: the object as it is shown.
        after: the object as it is wanted.
        fields: those that the mark is about.
    """
    if not before.get("immutable"):
        return []
    taken = [] if after.get("immutable") else [forbidden("immutable", _IMMUTABLE)]
    changed = (field for field in fields if (after.get(field) or {}) != (before.get(field) or {}))
    return [*taken, *(forbidden(field, _IMMUTABLE) for field in changed)]


def _keys(data: Fields, path: str) -> Iterator[FieldError]:
    for key in sorted(data):
        yield from (invalid(f"{path}[{key}]", key, rule) for rule in names.check_config_key(key))


def _size(size: int, path: str) -> Iterator[FieldError]:
    if size > _MOST:
        yield FieldError(path, ErrorKind.TOO_LONG, None, f"may not be more than {_MOST} bytes")


def _bytes(value: object) -> bytes:
    try:
        return base64.b64decode(str(value))
    except (binascii.Error, ValueError):  # decoding refuses it
        return b""


def _of_type(kind: str, data: Fields, document: Mapping[str, Any]) -> Iterator[FieldError]:
    if kind == "service-account-token":
        annotations = inner(inner(document, "metadata"), "annotations")
        if not annotations.get(_ACCOUNT):
            yield required(f"metadata.annotations[{_ACCOUNT}]")
    elif kind == "basic-auth":
        if not any(key in data for key in _EITHER):
            yield from (required(f"data[{key}]") for key in _EITHER)
    elif (file := _FILES.get(kind)) is not None:
        if file not in data:
            yield required(f"data[{file}]")
        elif wrong := _not_an_object(_bytes(data[file])):
            yield invalid(f"data[{file}]", _REDACTED, wrong)
    else:
        yield from (required(f"data[{key}]") for key in _KEYS.get(kind, ()) if not _is_set(kind, data, key))


def _is_set(kind: str, data: Fields, key: str) -> bool:
    return bool(data.get(key)) if kind == "ssh-auth" else key in data


def _not_an_object(content: bytes) -> str:
    """Why bytes are no JSON object, in the words of Go's decoder. Empty if they are one."""
    shown = content.decode(errors="replace")
    try:
        found = json.loads(shown)
    except json.JSONDecodeError as error:
        if error.pos >= len(shown):
            return "unexpected end of JSON input"
        return f"invalid character '{shown[error.pos]}' looking for beginning of value"
    if found is None or isinstance(found, dict):
        return ""
    return f"json: cannot unmarshal {_JSON_TYPES[type(found)]} into Go value of type map[string]interface {{}}"
