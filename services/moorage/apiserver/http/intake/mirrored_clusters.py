"""`GET /v1/clusters`: the real clusters that bridges mirror.

The gateway that leads answers. It alone has the records of clusters, and every batch of a bridge comes to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.http import paths
from moorage.apiserver.http.messages.negotiation import JSON
from moorage.apiserver.kinds.status.mirrored import MirroredIndex
from moorage.apiserver.machinery.api_errors import unavailable
from moorage.apiserver.storage.cluster_names import ClusterNames
from moorage.apiserver.storage.store import Store
from moorage.runtime.process.clock import Clock
from moorage_schemas.refs import HOME, TargetKind
from moorage_schemas.resources.workload_kinds import BINDING_KINDS, POD
from moorage_schemas.times import format_time

_TARGETS: Final = tuple(kind.value for kind in TargetKind)
_WORKLOADS: Final = (POD, *BINDING_KINDS, "Placement")
_KEPT: Final = timedelta(minutes=10)
"""For how long a bridge is shown of which nothing is mirrored."""


class MirroredClusters:
    """Says which clusters are mirrored, and when their bridges were last heard.

    When a bridge was heard is only kept in memory: bridges speak every half minute.

    Args:
        store: has the objects.
        names: say which clusters are mirrored.
        clock: the present time.
    """

    def __init__(self, store: Store, names: ClusterNames, clock: Clock) -> None:
        self._store = store
        self._names = names
        self._clock = clock
        self._heard: dict[tuple[str, str], datetime] = {}
        """When each bridge was last heard, by the name of the cluster and the source."""

    def heard(self, cluster: str, source: str) -> None:
        """Note that a bridge has spoken."""
        self._heard[cluster, source] = self._clock.now()

    def left(self, cluster: str, source: str) -> None:
        """Note that a bridge is gone for good."""
        self._heard.pop((cluster, source), None)

    async def handle(self, request: Request) -> Response:
        """Answer with the list.

        Raises:
            StatusError: 405 for other methods, 503 if nothing can be shown yet.
        """
        if request.method != "GET":
            raise paths.not_allowed()
        if not self._store.ready:
            raise unavailable("the gateway is not ready: it is still reading its tables")
        return Response(orjson.dumps({"items": list(self._items())}), media_type=JSON)

    def _items(self) -> Iterator[dict[str, Any]]:
        tables = dict(self._names.all())
        mirrored = {(name, source) for name, one in tables.items() for source in one.index(MirroredIndex).sources}
        oldest = self._clock.now() - _KEPT
        for place in [one for one, time in self._heard.items() if one not in mirrored and time < oldest]:
            del self._heard[place]
        for name, source in sorted(mirrored | self._heard.keys()):
            index = tables[name].index(MirroredIndex) if name in tables else MirroredIndex()
            heard = self._heard.get((name, source))
            yield {
                "name": name or HOME,
                "source": source,
                "clusterUID": next(iter(sorted(index.cluster_uids(source))), ""),
                "targets": _count(index, source, _TARGETS),
                "workloads": _count(index, source, _WORKLOADS),
                **({"lastHeardTime": format_time(heard)} if heard is not None else {}),
            }


def _count(index: MirroredIndex, source: str, kinds: Iterable[str]) -> int:
    return sum(index.count(source, kind) for kind in kinds)
