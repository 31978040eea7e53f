"""Turns a request's body into an object of the kind that its path names."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from moorage.core.apimachinery.field_errors import quote
from moorage.gateway.errors import StatusError, bad_request, shorten, too_large
from moorage.gateway.http import yaml_bodies
from moorage.gateway.http.negotiation import JSON, YAML, body_media
from moorage.kinds.kind import ServedKind

BODY_LIMIT = 1_000_000
"""The maximum size of a body in bytes. With what the gateway adds, it must fit into a Kafka record of 1 MiB."""

DEEPEST = 100
"""Levels of nesting. Deeper documents are not resources, and would cost recursion."""

READ = (JSON, YAML)
"""The media types of objects that can be read."""

_SHOWN = 32  # bytes of an unreadable body that are shown

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


async def read_object(request: Request, kind: str) -> Document:
    """Read an object, in JSON or YAML.

    Args:
        request: has the object.
        kind: of the object, for messages.

    Raises:
        StatusError: 400 if it cannot be read, 413 if it is too large, 415 if it has another form.
    """
    media = body_media(request, READ)
    body = await read_body(request)
    if media == YAML:
        return yaml_bodies.parse_object(body, kind)
    return parse_object(body, kind)


def parse_json(body: bytes) -> Any:
    """Parse a JSON document of any type.

    Raises:
        StatusError: 400 if it is not JSON, or is nested too deeply.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    check_depth(document)
    return document


def check_depth(document: Any) -> None:
    """Check that a document is not nested too deeply.

    Raises:
        StatusError: 400 if it is.
    """
    level = [document]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise bad_request(f"the body is nested too deeply: at most {DEEPEST} levels are allowed")


def parse_object(body: bytes, kind: str) -> Document:
    """Parse a JSON object.

    Raises:
        StatusError: 400 if it is not a JSON object.
    """
    try:
        document = parse_json(body)
    except StatusError as error:
        shown = quote(body[:_SHOWN].decode("utf-8", "replace")) if body else "<empty>"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): {error.message} ({shown})"
        ) from None
    if not isinstance(document, dict):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
            f"it must be a JSON object, not {shorten(document)!r}"
        )
    return document


def parse_delete_options(body: bytes, *, is_yaml: bool) -> Document:
    """Parse the options of a deletion.

    Raises:
        StatusError: 400 if they cannot be read.
    """
    if is_yaml:
        return yaml_bodies.parse_object(body, "DeleteOptions")
    document = parse_json(body)
    if not isinstance(document, dict):
        raise bad_request("couldn't get version/kind; json parse error: it must be a JSON object")
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
    said = str(document.get("apiVersion") or kind.api_version), str(document.get("kind") or kind.kind)
    if said != (kind.api_version, kind.kind):
        version = said[0].rpartition("/")[2]
        raise bad_request(
            f"{kind.kind} in version {quote(str(shorten(version)))} cannot be handled as a {kind.kind}: the path is of "
            f"{kind.api_version}, Kind={kind.kind}, and the object is of {shorten(said[0])}, Kind={shorten(said[1])}"
        )
    metadata = document.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise bad_request(
            f"{kind.kind} in version {quote(kind.version)} cannot be handled as a {kind.kind}: "
            f"metadata: invalid value {shorten(metadata)!r}: must be an object"
        )
    metadata = dict(metadata)
    found = metadata.get("namespace") or ""
    if kind.namespaced:
        if found not in {"", namespace}:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = namespace
    if name:
        found = metadata.get("name") or ""
        if not found:
            raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
        if found != name:
            raise bad_request(f"the name of the object ({shorten(found)}) does not match the name on the URL ({name})")
        metadata["name"] = name
    return {**document, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
