"""The API of a cluster, under `/clusters/{name}` (docs/authentication.md, "Clusters"): the objects of that cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.resources import ResourcesApi
from moorage.apiserver.storage.cluster_store import fleet_of
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.writer import Writer


class ClusterApis:
    """Answers requests about the objects of clusters.

    Args:
        store: the objects of all fleets.
        backend: that of the home fleet.
        writer_of: returns what writes objects of a cluster.
    """

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
