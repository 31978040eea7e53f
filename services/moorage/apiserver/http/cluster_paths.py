"""The cluster in the path of a request, `/clusters/{name}/…`.

It has the paths of the Kubernetes API, decisions, explanations and reports. What else there is, is served for the home
fleet only.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.apiserver.http.messages import answers
from moorage.apiserver.machinery import api_errors

PREFIX: Final = "/clusters/"
_PATH: Final = re.compile(
    r"/clusters/([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)"
    r"(/(?:api|apis|openapi|version)(?:/.*)?|/v1/(?:conditions|decisions|explain))"
)
_SCOPE: Final = "moorage.cluster"


def cluster_of(request: Request) -> str:
    """Return the cluster that a request is about. Empty for the home fleet."""
    return str(request.scope.get(_SCOPE, ""))


def path_of(cluster: str) -> str:
    """Return how the paths of a cluster begin. Empty for the home fleet."""
    return f"{PREFIX}{cluster}" if cluster else ""


class ClusterPaths:
    """Takes the cluster out of the path of a request, and notes it.

    Args:
        app: answers the request. Its path is that of the home fleet.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        found = _PATH.fullmatch(scope["path"])
        if found is None:
            await answers.failure(Request(scope, receive), api_errors.no_such_path())(scope, receive, send)
            return
        raw = scope.get("raw_path") or scope["path"].encode()  # as it is forwarded to the gateway that leads
        await self._app({**scope, _SCOPE: found[1], "path": found[2], "raw_path": raw}, receive, send)
