"""`clusterview.open-cluster-management.io/v1`: the managed clusters, and their sets, that the caller may get.

Users who may list all of them find them in their own group. Here each user lists those that it may get. It is as in
the distributions of Open Cluster Management, and it only reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from moorage.apiserver.http import paths
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.filters.access import Access, user_of
from moorage.apiserver.http.messages import answers
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.verbs.reading import ReadVerbs, VisibleObjects
from moorage.apiserver.kinds.kind import Kind, ServedKind
from moorage.apiserver.kinds.managed_clusters import ManagedClusterKind, ManagedClusterSetKind
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.rbac.cluster_sets import VIEW_GROUP

VERSION: Final = "v1"


class _Viewed(Kind[Any]):
    group: ClassVar[str] = VIEW_GROUP
    versions: ClassVar[tuple[str, ...]] = (VERSION,)
    short_names: ClassVar[tuple[str, ...]] = ()
    read_only: ClassVar[bool] = True

    @override
    def converted(self, document: Mapping[str, Any], version: str) -> Mapping[str, Any]:
        return {**document, "apiVersion": f"{VIEW_GROUP}/{version}"}


class _ClusterView(_Viewed, ManagedClusterKind):
    pass


class _SetView(_Viewed, ManagedClusterSetKind):
    pass


SERVED: Final = (ServedKind(_ClusterView(), VERSION), ServedKind(_SetView(), VERSION))
"""The kinds that are served in the group."""


class ClusterViews:
    """Answers requests about what the caller sees."""

    def __init__(self, backend: Backend, access: Access) -> None:
        self._backend = backend
        self._reading = ReadVerbs(backend)
        self._authorizer = access.authorizer

    async def answer(self, request: Request, parts: Sequence[str]) -> Response:
        """Answer a request.

        Raises:
            StatusError: 404 if nothing is served at the path, 403 if the caller does not see the object, 405 if the
                request does not only read.
        """
        plural, *rest = parts
        kind = next((one for one in SERVED if one.plural == plural), None)
        if kind is None or len(rest) > 1:
            raise api_errors.no_such_path()
        paths.check_method(request, "GET", "HEAD")
        if not self._backend.store.ready:
            raise api_errors.unavailable("the gateway is not ready: it is still reading its tables")
        user = user_of(request)

        def sees(document: Mapping[str, Any]) -> bool:
            return self._authorizer.sees(user, plural, document["metadata"])

        if not rest:
            filtered = VisibleObjects(sees, lambda: self._authorizer.rules_changed(user))
            return await self._reading.listed(request, ResourcePath(kind, "", ""), filtered)
        path = ResourcePath(kind, "", rest[0])
        representation = self._backend.representation(request, kind)
        shown = self._backend.store.get(path.object_id)
        if shown is None or not sees(shown.document):  # which does not reveal whether others have one of that name
            raise api_errors.forbidden(kind.group, plural, path.name, f"the user cannot get the {kind.singular}")
        return answers.answer(200, representation.one(kind, shown), representation.media_type)
