"""The bytes of a request's body, and whether an object fits its path."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson
from starlette.requests import ClientDisconnect, Request

from moorage.apiserver.http.in_flight import slot_of
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import StatusError, bad_request, shorten, too_large
from moorage.apiserver.machinery.openapi import registry
from moorage.apiserver.machinery.openapi.registry import Origin
from moorage.decide.kubernetes.field_errors import invalid, quote

BODY_LIMIT = 1_000_000
"""The maximum size of a body in bytes. With what the gateway adds, it must fit into a Kafka record of 1 MiB."""

MIRROR_LIMIT: Final = 8_000_000
"""The maximum size of a batch of what a bridge has seen. Each object in it must fit into a record."""

BODY_SECONDS = 60.0
"""Seconds within which a body must come. A client that sends a byte now and then would hold its memory for ever."""

DRAINED = 16_000_000
"""Bytes of a body that is too large that are read and thrown away, so that its sender sees why it is refused."""

_DRAIN_SECONDS = 5.0

DEEPEST = 100
"""Levels of nesting. Deeper documents are not resources, and would cost recursion."""


_LEFT_OUT = frozenset({"annotations", "finalizers", "labels", "ownerReferences"})
"""Parts of the metadata that are left out where they are empty."""

_MANAGED = "managedFields"
"""If it is empty, all managers are removed. If it is null, they stay."""

Document = dict[str, Any]


async def read_body(request: Request, limit: int = BODY_LIMIT) -> bytes:
    """Read the whole body. Meanwhile the request is not in flight, but the bytes of its body count until it ends.

    Raises:
        StatusError: 413 if it is larger than `limit`; 400 if the client disconnected; 504 if
            it comes too slowly; 429 if too many bytes of bodies, or too many requests, are in flight.
    """
    with slot_of(request).receiving():
        return await _read(request, limit)


async def _read(request: Request, limit: int) -> bytes:
    slot = slot_of(request)
    announced = request.headers.get("content-length", "")
    parts, size = [], 0
    stream = request.stream()
    is_too_large = announced.isdecimal() and int(announced[:20]) > limit
    try:
        async with asyncio.timeout(BODY_SECONDS):
            if not is_too_large:
                async for part in stream:
                    size += len(part)
                    if is_too_large := size > limit:
                        break
                    slot.hold(len(part))
                    parts.append(part)
        if is_too_large:
            parts.clear()
            slot.drop()
            await _drain(stream)
            raise too_large("the request's body", limit)
    except TimeoutError:
        raise StatusError(504, f"Timeout: the body did not come within {BODY_SECONDS:g} s", reason="Timeout") from None
    except ClientDisconnect:
        raise bad_request("the client disconnected before the body was read") from None
    return b"".join(parts)


async def _drain(stream: AsyncIterator[bytes]) -> None:
    """Read on without keeping anything, within limits. A client reads the answer only when it has sent its body."""
    left = DRAINED
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for part in stream:
                left -= len(part)
                if left < 0:
                    return


def parse_json(body: bytes) -> Any:
    """Parse a JSON document of any type. Raises StatusError: 400 if it is not JSON, or is nested too deeply."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the body is not JSON: {error}") from None
    check_depth(document)
    return document


def check_depth(document: Any) -> None:
    """Check that a document is not nested too deeply. Raises StatusError: 400 if it is."""
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


def check_identity(document: Document, kind: ServedKind, namespace: str, name: str) -> Document:
    """Return the object with `apiVersion`, `kind` and `metadata` filled in from the path.

    An empty `namespace` or `name` is not in the path. Raises StatusError: 400 if the object contradicts the path.
    """
    check_type(document, kind)
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
    else:
        metadata.pop("namespace", None)  # as in Kubernetes, it is not wrong to name one
    if name:
        found = metadata.get("name") or ""
        if not found:
            raise without_name(name)
        if found != name:
            raise bad_request(f"the name of the object ({shorten(found)}) does not match the name on the URL ({name})")
        metadata["name"] = name
    if metadata.get(_MANAGED) is None:
        metadata.pop(_MANAGED, None)
    metadata = {key: value for key, value in metadata.items() if value or key not in _LEFT_OUT}
    return {**document, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def check_type(document: Document, kind: ServedKind) -> None:
    """Check that an object is of the kind in the path, as far as it names its type.

    Raises:
        StatusError: 400 if it is of another one. Of a custom resource, its type is validated as its other fields are.
    """
    wanted = (kind.api_version, kind.kind)
    said = str(document.get("apiVersion") or wanted[0]), str(document.get("kind") or wanted[1])
    if said == wanted:
        return
    if registry.origin_of(kind.group, kind.kind) not in {Origin.CUSTOM, Origin.OWN}:
        raise of_another_type(kind.group, kind.kind, *said)
    fields = zip(("apiVersion", "kind"), said, wanted, strict=True)
    found = [invalid(field, shorten(one), f"must be {other}") for field, one, other in fields if one != other]
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    raise api_errors.invalid(str(shorten(said[0].rpartition("/")[0])), str(shorten(said[1])), str(name or ""), found)


def without_name(name: str) -> StatusError:
    """400: the object has no name, although the path has one."""
    return bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")


def of_another_type(group: str, kind: str, api_version: str, name: str) -> StatusError:
    """400: the object is not of the kind that is expected."""
    version = quote(str(shorten(api_version.rpartition("/")[2])))
    why = type_flaw(group, kind, api_version, name)
    return bad_request(f"{shorten(name)} in version {version} cannot be handled as a {kind}: {why}")


def type_flaw(group: str, kind: str, api_version: str, name: str) -> str:
    """Return why an object cannot be one of another kind. The arguments are those of `of_another_type`."""
    said, _, version = api_version.rpartition("/")
    if name == kind or not registry.is_known(said, version, name):
        return f"no kind {quote(str(shorten(name)))} is registered for version {quote(str(shorten(api_version)))}"
    package = group.partition(".")[0] or "core"
    return f"converting ({version}.{name}) to ({package}.{kind}): unknown conversion"
