"""The verb of a request about resources, and whether it is possible at its path, also under `/clusters/{name}`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.http import paths
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.subresources.routes import Subresources
from moorage.apiserver.http.verbs.deleting import DeleteVerbs
from moorage.apiserver.http.verbs.patches import PatchVerb
from moorage.apiserver.http.verbs.reading import ReadVerbs
from moorage.apiserver.http.verbs.repeating import RepeatVerbs
from moorage.apiserver.http.verbs.writing import WriteVerbs
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.storage.cluster_store import fleet_of
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.writer import Writer


class ResourcesApi:
    """Answers requests about resources."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._reading = ReadVerbs(backend)
        self._writing = WriteVerbs(backend)
        self._repeating = RepeatVerbs(backend)
        self._patching = PatchVerb(backend)
        self._deleting = DeleteVerbs(backend, self._reading)
        self._subresources = Subresources(backend)

    async def handle(self, request: Request, path: ResourcePath) -> Response:
        """Answer one request."""
        if not self._backend.store.ready:
            raise api_errors.unavailable("the gateway is not ready: it is still reading its tables")
        if path.subresource:
            return await self._subresources.handle(request, path)
        method = request.method
        if method == "GET":
            is_one = path.name and not path.is_watched
            return await (self._reading.get if is_one else self._reading.listed)(request, path)
        if method not in {"POST", "PUT", "PATCH", "DELETE"} or path.is_watched:
            raise paths.not_allowed()
        if path.kind.read_only:
            return await self._repeating.repeat(request, path)
        if path.name:
            return await self._on_one(request, path)
        if path.kind.namespaced and not path.namespace:
            raise paths.not_allowed()
        if method == "POST":
            return await self._writing.create(request, path)
        if method == "DELETE" and "deletecollection" in path.kind.verbs:
            return await self._deleting.delete_collection(request, path)
        raise paths.not_allowed()

    async def _on_one(self, request: Request, path: ResourcePath) -> Response:
        verbs = {"PUT": self._writing.update, "PATCH": self._patching.patch, "DELETE": self._deleting.delete}
        verb = verbs.get(request.method)
        if verb is None:
            raise paths.not_allowed()
        return await verb(request, path)


class ClusterApis:
    """Answers requests about the objects of clusters. `backend` is that of the home fleet."""

    def __init__(self, store: Store, backend: Backend, writer_of: Callable[[str], Writer]) -> None:
        self._store = store
        self._backend = backend
        self._writer_of = writer_of
        self._apis: dict[str, ResourcesApi] = {}

    async def handle(self, cluster: str, request: Request, path: ResourcePath) -> Response:
        """Answer a request.

        Raises:
            StatusError: 404 if no bridge mirrors anything of that cluster, or the request fails.
        """
        if not self._store.has_cluster(cluster):
            self._apis.pop(cluster, None)
        fleet = fleet_of(self._store, cluster)
        api = self._apis.get(cluster)
        if api is None:
            writer = self._writer_of(cluster)
            api = self._apis[cluster] = ResourcesApi(replace(self._backend, store=fleet, writer=writer))
        return await api.handle(request, path)
