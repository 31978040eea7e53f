"""Validation of what ConfigMaps, Secrets and Events contain, with Kubernetes' paths and messages."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from moorage.core.admission.validation.fields import inner, text
from moorage.core.apimachinery import names
from moorage.core.apimachinery.field_errors import ErrorKind, FieldError, forbidden, invalid, required

_MOST_BYTES: Final = 1 << 20
_ACCOUNT: Final = "kubernetes.io/service-account.name"
_HIDDEN: Final = "<secret contents redacted>"
_UNCHANGED: Final = "field is immutable when `immutable` is set"
_ELSEWHERE: Final = "does not match event.namespace"
_NAMESPACES_OF_THE_REST: Final = frozenset({"default", "kube-system"})
"""Where the events are that are about an object without a namespace."""

_JSON: Final[Mapping[str, str]] = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
"""The types of secrets that have JSON under a key."""

_TLS: Final = ("tls.crt", "tls.key")
_BASIC: Final = ("username", "password")
_SSH: Final = "ssh-privatekey"


def validate_config_map(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the keys of a ConfigMap, none of which may be text and bytes at once, and its size."""
    texts, blobs = inner(document, "data"), inner(document, "binaryData")
    found = []
    for key in sorted(texts):
        found += _key(key, "data")
        if key in blobs:
            found.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in sorted(blobs):
        found += _key(key, "binaryData")
    if sum(len(str(one).encode()) for one in texts.values()) + sum(map(_size, blobs.values())) > _MOST_BYTES:
        found.append(_too_long(""))
    return found


def validate_secret(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the keys of a Secret, its size, and that it has what its type calls for."""
    data = inner(document, "data")
    found = [error for key in sorted(data) for error in _key(key, "data")]
    if sum(map(_size, data.values())) > _MOST_BYTES:
        found.append(_too_long("data"))
    return [*found, *_of_its_type(document, data)]


def validate_kept(before: Mapping[str, Any], after: Mapping[str, Any], *fields: str) -> list[FieldError]:
    """Validate that a ConfigMap or Secret that is immutable stays so, and that these fields do not change."""
    if not before.get("immutable"):
        return []
    found = [] if after.get("immutable") else [forbidden("immutable", _UNCHANGED)]
    return [*found, *(forbidden(one, _UNCHANGED) for one in fields if inner(before, one) != inner(after, one))]


def validate_event(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate that an event is in the namespace of the object that it is about."""
    own, named = text(inner(document, "metadata"), "namespace"), text(inner(document, "involvedObject"), "namespace")
    fits = own == named if named else own in _NAMESPACES_OF_THE_REST
    return [] if fits else [invalid("involvedObject.namespace", named, _ELSEWHERE)]


def _of_its_type(document: Mapping[str, Any], data: Mapping[str, Any]) -> list[FieldError]:
    kind = text(document, "type")
    if key := _JSON.get(kind):
        return _json(data, key)
    match kind:
        case "kubernetes.io/tls":
            return [_required(key) for key in _TLS if key not in data]
        case "kubernetes.io/basic-auth":
            return [] if set(_BASIC) & data.keys() else [_required(key) for key in _BASIC]
        case "kubernetes.io/ssh-auth":
            return [] if data.get(_SSH) else [_required(_SSH)]
        case "kubernetes.io/service-account-token":
            named = text(inner(inner(document, "metadata"), "annotations"), _ACCOUNT)
            return [] if named else [required(f"metadata.annotations[{_ACCOUNT}]")]
    return []


def _json(data: Mapping[str, Any], key: str) -> list[FieldError]:
    if key not in data:
        return [_required(key)]
    try:
        json.loads(base64.b64decode(str(data[key])))
    except ValueError as error:  # of the encoding, too
        return [invalid(f"data[{key}]", _HIDDEN, f"is no JSON: {error}")]
    return []


def _required(key: str) -> FieldError:
    return required(f"data[{key}]")


def _key(key: str, field: str) -> list[FieldError]:
    return [invalid(f"{field}[{key}]", key, message) for message in names.check_config_key(key)]


def _size(value: Any) -> int:
    try:
        return len(base64.b64decode(str(value)))
    except (binascii.Error, ValueError):
        return len(str(value))


def _too_long(path: str) -> FieldError:
    return FieldError(path, ErrorKind.TOO_LONG, None, f"may not be more than {_MOST_BYTES} bytes")
