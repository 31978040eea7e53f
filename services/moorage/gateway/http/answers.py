"""Objects as answers show them, as JSON. What is kept is sent as it is, whenever that is what the client asks for."""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from starlette.responses import Response

from moorage.gateway.errors import StatusError
from moorage.gateway.http import bodies
from moorage.gateway.http.selectors import Selector
from moorage.gateway.shown_objects import ShownObject
from moorage.kinds.kind import ServedKind


def shown(kind: ServedKind, found: ShownObject) -> bytes:
    """An object in a version of its kind."""
    return in_version(kind, found.json)


def selected(kind: ServedKind, found: ShownObject, selects: Selector) -> bytes | None:
    """An object in a version of its kind. None if the selectors of a request do not select it."""
    json = found.json
    return in_version(kind, json) if selects.selects(json) else None


def failure(error: StatusError) -> Response:
    """The answer to a request that has failed."""
    response = Response(orjson.dumps(error.document()), error.code, media_type=bodies.JSON)
    if error.retry_after:
        response.headers["retry-after"] = str(error.retry_after)
    return response


def listed(kind: ServedKind, objects: Iterable[ShownObject], selects: Selector, version: int) -> bytes:
    """A list of those objects that the selectors select.

    Args:
        kind: of the objects.
        objects: in their order.
        selects: the selectors of the request.
        version: the resource version of the list.
    """
    # kubectl and client-go read kind and apiVersion of a list's items from the list.
    head = orjson.dumps(
        {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": str(version)},
        }
    )
    items = (item for found in objects if (item := selected(kind, found, selects)) is not None)
    return b'%s,"items":[%s]}' % (head[:-1], b",".join(items))


def in_version(kind: ServedKind, json: bytes) -> bytes:
    """The JSON of an object in a version of its kind."""
    return json if kind.is_stored else orjson.dumps(kind.converted(orjson.loads(json)))
