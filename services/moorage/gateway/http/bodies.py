"""Turns a request's body into an object of the kind that its path names."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from moorage.core.apimachinery.patching import merge_patch
from moorage.gateway.errors import StatusError, bad_request, shorten, too_large
from moorage.kinds.kind import ServedKind

BODY_LIMIT = 1_000_000
"""The maximum size of a body in bytes. With what the gateway adds, it must fit into a Kafka record of 1 MiB."""

_DEEPEST = 100  # levels of nesting; deeper documents are not resources and would cost recursion

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"

Document = dict[str, Any]


async def read_body(request: Request, limit: int = BODY_LIMIT) -> bytes:
    """Read the whole body.

    Raises:
        StatusError: 413 if it is larger than `limit`, without reading the rest; 400 if the client disconnected.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limit:
        raise too_large("the request's body", limit)
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise too_large("the request's body", limit)
            parts.append(part)
    except ClientDisconnect:
        raise bad_request("the client disconnected before the body was read") from None
    return b"".join(parts)


def media_type(request: Request) -> str:
    """The content type without parameters, in lower case. JSON if there is none."""
    return request.headers.get("content-type", JSON).partition(";")[0].strip().lower() or JSON


def check_media_type(request: Request, *allowed: str) -> str:
    """The content type of a request.

    Raises:
        StatusError: 415 if it is not one of the allowed ones.
    """
    found = media_type(request)
    if found not in allowed:
        raise StatusError(
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            f"{', '.join(allowed)} (content-type: invalid value {shorten(found)!r})",
        )
    return found


def parse_json(body: bytes) -> Any:
    """Parse a JSON document of any type.

    Raises:
        StatusError: 400 if it is not JSON, or is nested too deeply.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the body is not JSON: {error}") from None
    level = [document]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return document
    raise bad_request(f"the body is nested too deeply: at most {_DEEPEST} levels are allowed")


def parse_object(body: bytes) -> Document:
    """Parse a JSON object.

    Raises:
        StatusError: 400 if it is not a JSON object.
    """
    document = parse_json(body)
    if not isinstance(document, dict):
        raise bad_request(f"the body must be a JSON object, not {shorten(document)!r}")
    return document


def check_identity(document: Document, kind: ServedKind, namespace: str, name: str) -> Document:
    """The object with `apiVersion`, `kind` and `metadata` filled in from the path.

    Args:
        document: the object in the request.
        kind: the kind in the path.
        namespace: the namespace in the path. Empty for a kind without namespaces.
        name: the name in the path. Empty if there is none.

    Raises:
        StatusError: 400 if the object contradicts the path.
    """
    for field, expected, words in (
        ("apiVersion", kind.api_version, "API version"),
        ("kind", kind.kind, "kind"),
    ):
        found = document.get(field, expected)
        if found != expected:
            raise bad_request(
                f"the {words} in the data ({shorten(found)}) does not match the expected {words} ({expected})"
            )
    metadata = document.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise bad_request(f"metadata: invalid value {shorten(metadata)!r}: must be an object")
    metadata = dict(metadata)
    found = metadata.get("namespace") or ""
    if kind.namespaced:
        if found not in {"", namespace}:
            raise bad_request(
                f"the namespace of the provided object does not match the namespace sent on the request "
                f"({shorten(found)} and {namespace})"
            )
        metadata["namespace"] = namespace
    if name:
        found = metadata.get("name") or name
        if found != name:
            raise bad_request(f"the name of the object ({shorten(found)}) does not match the name on the URL ({name})")
        metadata["name"] = name
    return {**document, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def patched(shown: Document, patch: Document) -> Document:
    """Apply a merge patch to an object as it is shown. The result requires a version only if the patch names one."""
    merged: Document = merge_patch.applied(shown, patch)
    metadata, named = merged.get("metadata"), patch.get("metadata")
    if isinstance(metadata, dict) and "resourceVersion" not in (named if isinstance(named, dict) else {}):
        # The one that remains is the present one.
        merged["metadata"] = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    return merged
