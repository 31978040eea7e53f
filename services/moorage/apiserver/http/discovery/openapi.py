"""`/openapi/v2` and `/openapi/v3`: the gateway's possible requests, for clients that explain, validate and generate.

Documents are made of what discovery lists. They change only with the program, so clients keep them: a document of
version 3 whose hash is in its address never changes.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.http.discovery import definitions, groups
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery.api_errors import StatusError, no_such_path
from moorage.apiserver.machinery.openapi import gnostic
from moorage.apiserver.machinery.openapi.documents import Documents, Rendered
from moorage.apiserver.machinery.served_kinds import served

_JSON: Final = "application/json"
_PROTOBUF: Final = (gnostic.MEDIA_TYPE, gnostic.MEDIA_TYPE.replace(".v1.0", "@v1.0"))
"""The names by which clients request protobuf: the present one, and client-go's."""


_YEAR: Final = 365 * 24 * 60 * 60  # seconds


async def version_2(request: Request) -> Response:
    """`/openapi/v2`: the document of version 2, as JSON or as protobuf.

    Raises:
        StatusError: 406 if neither is accepted.
    """
    documents = _documents(served())
    if _preferred(request, (_JSON, *_PROTOBUF)) == _JSON:
        return _answer(request, documents.version_2, _JSON)
    return _answer(request, documents.version_2_protobuf, gnostic.MEDIA_TYPE)


async def index(request: Request) -> Response:
    """`/openapi/v3`: where the documents of version 3 are. Raises StatusError: 406 if JSON is not accepted."""
    _preferred(request, (_JSON,))
    return _answer(request, _documents(served()).index, _JSON)


async def version_3(request: Request) -> Response:
    """`/openapi/v3/…`: the document of a group and version.

    Raises:
        StatusError: 404 if that is not served; 406 if JSON is not accepted.
    """
    path = request.path_params["path"].strip("/")
    found = _documents(served()).of(path)
    if found is None:
        raise no_such_path()
    _preferred(request, (_JSON,))
    asked = request.query_params.get("hash", "")
    if asked and asked != found.hash:
        return Response(status_code=301, headers={"location": f"/openapi/v3/{path}?hash={found.hash}"})
    response = _answer(request, found, _JSON)
    if asked:
        response.headers["cache-control"] = f"public, max-age={_YEAR}, immutable"
    return response


def _answer(request: Request, found: Rendered, media_type: str) -> Response:
    headers = {"etag": f'"{found.hash}"', "vary": "Accept", "cache-control": "no-cache, private"}
    if f'"{found.hash}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers={**headers, "content-type": media_type})


def _preferred(request: Request, offered: tuple[str, ...]) -> str:
    """Return the first media type that a request accepts of those that are offered."""
    accepted = request.headers.get("accept", "") or _JSON
    for clause in accepted.split(","):
        name = clause.partition(";")[0].strip().lower()
        if name in offered:
            return name
        if name in {"*/*", "application/*"}:
            return offered[0]
    raise StatusError(406, f"only the following media types are accepted: {', '.join(offered)}")


@cache
def _documents(_: tuple[ServedKind, ...]) -> Documents:
    """Return the documents of what is served. They are made anew if that changes."""
    versions_of = {"": ["v1"]}
    for group in groups.api_groups()["groups"]:
        if group["name"] == definitions.GROUP:
            continue  # what is only read, to find other kinds, has no structure here
        versions_of[group["name"]] = [one["version"] for one in group["versions"] if one["version"]]
    lists = [groups.resources(group, version) for group, versions in versions_of.items() for version in versions]
    return Documents(lists, str(groups.server_version()["gitVersion"]))
