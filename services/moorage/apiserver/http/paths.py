"""Resource paths, as in the Kubernetes API, and the cluster in front of them: `/clusters/{name}/…`.

A cluster has the paths of the Kubernetes API, decisions, explanations and reports. What else there is, is served for
the home fleet only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.apiserver.http.messages import answers
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import StatusError, no_such_path, not_found
from moorage.apiserver.machinery.openapi.registry import Origin, origin_of
from moorage.apiserver.machinery.served_kinds import served_at

_PROXY: Final = "proxy"
"""A subresource that is followed by a path of what it leads to."""


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """The resource that a path names."""

    kind: ServedKind
    namespace: str
    """Empty for a kind without namespaces, and for all namespaces."""

    name: str
    """Empty for a collection."""

    subresource: str = ""
    """`scale` or `status`. Empty for the object itself."""

    is_watched: bool = False
    """Whether the path itself requests changes: `/api/v1/watch/…`."""

    @property
    def object_id(self) -> ObjectId:
        """The object that it names."""
        return ObjectId(self.kind.kind, self.namespace, self.name)


def parse(group: str, version: str, parts: list[str]) -> ResourcePath:
    """Parse the parts of a path after its group and version. Raises StatusError: 404 if nothing is served there."""
    namespace = ""
    is_watched = parts[:1] == ["watch"] and len(parts) > 1
    if is_watched:
        parts = parts[1:]
    if parts[:1] == ["namespaces"] and len(parts) > 2 and not _is_of_a_namespace(group, version, parts):  # noqa: PLR2004 - namespaces/{ns}/{plural}…
        namespace, parts = parts[1], parts[2:]
        if not namespace:
            raise no_such_path()
    plural, *rest = parts
    kind = served_at(group, version, plural)
    if rest[1:2] == [_PROXY]:
        rest = rest[:2]
    if kind is None or (namespace and not kind.namespaced) or len(rest) > 2 or "" in rest:  # noqa: PLR2004 - name, subresource
        raise no_such_path()
    name, subresource = (*rest, "", "")[:2]
    if subresource and (is_watched or subresource not in _subresources(kind)):
        is_custom = origin_of(kind.group, kind.kind) in {Origin.CUSTOM, Origin.OWN}
        raise not_found(kind.group, kind.plural, name) if is_custom and not is_watched else no_such_path()
    if name and kind.namespaced and not namespace:
        raise no_such_path()
    return ResourcePath(kind, namespace, name, subresource, is_watched)


def _is_of_a_namespace(group: str, version: str, parts: list[str]) -> bool:
    """Return whether a path is that of a subresource of a namespace: `namespaces/{name}/status`."""
    kind, (plural, _, *rest) = served_at(group, version, parts[0]), parts
    return kind is not None and plural == kind.plural and len(rest) == 1 and rest[0] in _subresources(kind)


def _subresources(kind: ServedKind) -> tuple[str, ...]:
    return (*kind.definition.subresources, *kind.definition.container_subresources)


def not_allowed() -> StatusError:
    """405: the method is not supported there."""
    return StatusError(405, "the server does not allow this method on the requested resource", details={})


def check_method(request: Request, *methods: str) -> None:
    """Check that a request has one of these methods. Raises StatusError: 405 if it has not."""
    if request.method not in methods:
        raise not_allowed()


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
    """Takes the cluster out of the path of a request, and notes it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request below a cluster as one of the home fleet, or pass it on."""
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        found = _PATH.fullmatch(scope["path"])
        if found is None:
            await answers.failure(Request(scope, receive), api_errors.no_such_path())(scope, receive, send)
            return
        raw = scope.get("raw_path") or scope["path"].encode()  # as it is forwarded to the gateway that leads
        await self._app({**scope, _SCOPE: found[1], "path": found[2], "raw_path": raw}, receive, send)
