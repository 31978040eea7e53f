"""Validation of ConfigMaps and Secrets, and of changes to them, as Kubernetes 1.37 has it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import CheckedField
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, forbidden

_MOST: Final = 1 << 20  # bytes of all values
_PREFIX: Final = "kubernetes.io/"
_ACCOUNT: Final = "kubernetes.io/service-account.name"
_REDACTED: Final = "<secret contents redacted>"
_IMMUTABLE: Final = "field is immutable when `immutable` is set"
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {"tls": ("tls.crt", "tls.key"), "ssh-auth": ("ssh-privatekey",)}
"""The keys that a type of secrets needs. Those of `_FILES` have to be JSON objects too."""

_FILES: Final = {"dockercfg": ".dockercfg", "dockerconfigjson": ".dockerconfigjson"}
_EITHER: Final = ("username", "password")
_JSON_TYPES: Final = {list: "array", str: "string", int: "number", float: "number", bool: "bool"}


def validate_config_map(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the keys and the size of a config map."""
    config = CheckedField(document)
    data, binary = config["data"], config["binaryData"]
    for key in (key for key in data.fields if key in binary.fields):
        data.at(key, key).invalid("duplicate of key present in binaryData")
    _check_keys(data)
    _check_keys(binary)
    texts = sum(len(str(value).encode()) for value in data.fields.values())
    _check_size(config, texts + _size(binary))
    return config.errors


def validate_secret(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the keys of a secret, its size, and what its type needs."""
    secret = CheckedField(document)
    data, kind = secret["data"], secret["type"].text
    _check_keys(data)
    _check_size(data, _size(data))
    if kind.startswith(_PREFIX):
        _check_type(kind.removeprefix(_PREFIX), data, secret["metadata"]["annotations"])
    return secret.errors


def validate_immutable(before: Mapping[str, Any], after: Mapping[str, Any], *fields: str) -> list[FieldError]:
    """Validate a change of an object that may be marked as immutable."""
    if not before.get("immutable"):
        return []
    taken = [] if after.get("immutable") else [forbidden("immutable", _IMMUTABLE)]
    changed = (field for field in fields if (after.get(field) or {}) != (before.get(field) or {}))
    return [*taken, *(forbidden(field, _IMMUTABLE) for field in changed)]


def _check_keys(data: CheckedField) -> None:
    for key in sorted(data.fields):
        data.at(key, key).broken(names.check_config_key(key))


def _check_size(data: CheckedField, size: int) -> None:
    if size > _MOST:
        data.check([FieldError(data.path, ErrorKind.TOO_LONG, None, f"may not be more than {_MOST} bytes")])


def _size(data: CheckedField) -> int:
    return sum(len(_bytes(value)) for value in data.fields.values())


def _bytes(value: object) -> bytes:
    try:
        return base64.b64decode(str(value))
    except (binascii.Error, ValueError):  # decoding refuses it
        return b""


def _check_type(kind: str, data: CheckedField, annotations: CheckedField) -> None:
    if kind == "service-account-token":
        annotations.at(_ACCOUNT, annotations.fields.get(_ACCOUNT)).check_set()
    elif kind == "basic-auth":
        if not any(key in data.fields for key in _EITHER):
            for key in _EITHER:
                data.at(key, None).required()
    elif (name := _FILES.get(kind)) is not None:
        file = data.at(name, data.fields.get(name))
        if name not in data.fields:
            file.required()
        elif wrong := _not_an_object(_bytes(file.value)):
            file.invalid(wrong, _REDACTED)
    else:
        for key in _KEYS.get(kind, ()):
            if not (data.fields.get(key) if kind == "ssh-auth" else key in data.fields):
                data.at(key, None).required()


def _not_an_object(content: bytes) -> str:
    """Return why bytes are no JSON object, in the words of Go's decoder. Empty if they are one."""
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
