"""The cluster in the path of a request, `/clusters/{name}/…`, and what its sender has to be permitted.

It has the paths of the Kubernetes API, decisions, explanations and reports, and the console. What else there is, is
served for the home fleet only.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.core.authorization.attributes import CLUSTERS, OWN_GROUP, Attributes
from moorage.gateway import errors
from moorage.gateway.http.messages import answers

PREFIX: Final = "/clusters/"
_PATH: Final = re.compile(
    r"/clusters/([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)"
    r"(/(?:api|apis|console|openapi|version)(?:/.*)?|/v1/(?:conditions|decisions|explain))"
)
_SCOPE: Final = "moorage.cluster"
_READING: Final = frozenset({"get", "list", "watch", "head"})


def cluster_of(request: Request) -> str:
    """Return the cluster that a request is about. Empty for the home fleet."""
    return str(request.scope.get(_SCOPE, ""))


def path_of(cluster: str) -> str:
    """Return how the paths of a cluster begin. Empty for the home fleet."""
    return f"{PREFIX}{cluster}" if cluster else ""


def about_cluster(cluster: str, asked: Attributes) -> tuple[Attributes, Attributes]:
    """What somebody has to be permitted who asks something in a cluster.

    They need the cluster itself: to get it for reading, to update it for anything else. And they need what the same
    request needs in the home fleet, in all of its namespaces: a role that is bound in one of them is about that one,
    and not about the namespace of that name in a cluster.
    """
    verb = "get" if asked.verb in _READING else "update"
    return Attributes(verb, OWN_GROUP, "v1alpha1", CLUSTERS, "", "", cluster), replace(asked, namespace="")


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
            await answers.failure(Request(scope, receive), errors.no_such_path())(scope, receive, send)
            return
        raw = scope.get("raw_path") or scope["path"].encode()  # as it is forwarded to the gateway that leads
        await self._app({**scope, _SCOPE: found[1], "path": found[2], "raw_path": raw}, receive, send)
