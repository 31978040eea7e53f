"""`POST /v1/mirror`: what a bridge has seen in a real cluster (docs/bridge.md, "The mirror endpoint").

The cluster is in the body. So a user who may mirror no cluster at all is refused before the body is read, and one who
may not mirror this one after it.

The gateway that leads answers. It alone has the records of clusters, and every batch of a bridge comes to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.http import paths
from moorage.apiserver.http.filters.access import Access, user_of
from moorage.apiserver.http.messages import bodies
from moorage.apiserver.http.messages.negotiation import JSON, body_media
from moorage.apiserver.http.verbs.writing import caller
from moorage.apiserver.kinds.status.index import MirroredIndex
from moorage.apiserver.machinery.api_errors import StatusError, bad_request, shorten, unavailable
from moorage.apiserver.storage.cluster_store import ClusterNames
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.mirror import Mirror, MirrorBatch
from moorage.apiserver.writing.writer import Writer
from moorage.decide.kubernetes.attributes import MIRRORS, OWN_GROUP, Attributes
from moorage.runtime.process.clock import Clock
from moorage_schemas.refs import HOME, TargetKind
from moorage_schemas.resources.workload_kinds import BINDING_KINDS, POD
from moorage_schemas.times import format_time

MOST: Final = 1000
"""How many objects may be in a batch, with those that were deleted."""

_FIELDS: Final = frozenset({"keepsTaints", "source", "cluster", "clusterUID", "objects", "deleted"})
_LONGEST: Final = 253
_ASYNC: Final = re.compile(r"(^|[\s,;])respond-async($|[\s,;])", re.IGNORECASE)
"""The preference of a sender that does not wait until its objects are shown (RFC 7240)."""

_CLUSTER: Final = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?")

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Request:
    cluster: str
    batch: MirrorBatch


class MirrorApi:
    """Takes batches of what bridges have seen.

    `writer_of` returns what writes objects of a cluster, or of the home fleet if its name is empty.
    """

    def __init__(
        self, writer_of: Callable[[str], Writer], access: Access, names: ClusterNames, clusters: MirroredClusters
    ) -> None:
        self._writer_of = writer_of
        self._access = access
        self._names = names
        self._clusters = clusters

    async def handle(self, request: Request) -> Response:
        """Write a batch. The answer has the outcome of each object.

        Raises:
            StatusError: 400 if the batch cannot be read, 403 if its cluster may not be mirrored by its sender, 409 if
                its bridge has mirrored another one, or the cluster has another name, 413 if it is too large, 503 if
                nothing was written, 504 if the outcome is unknown.
        """
        paths.check_method(request, "POST")
        body_media(request, (JSON,))
        is_shown = not _ASYNC.search(request.headers.get("prefer", ""))
        asked = _read(bodies.parse_json(await bodies.read_body(request, bodies.MIRROR_LIMIT)), is_shown=is_shown)
        self._access.check_permitted(request, user_of(request), mirrors(asked.cluster or HOME))
        writer = self._writer_of(asked.cluster)
        if not writer.fleet.ready:
            raise unavailable("the gateway is not ready: it is still reading its tables")
        try:
            results = await Mirror(writer, self._names, self._writer_of("")).write(asked.batch, caller(request))
        except StatusError as error:
            if error.reason == "AlreadyExists":  # it ends now, and may have reported before
                self._clusters.left(asked.cluster, asked.batch.source)
            raise
        # Senders that are no running bridge, such as `moorage bridge leave`, send no uid of the cluster.
        (self._clusters.heard if asked.batch.cluster_uid else self._clusters.left)(asked.cluster, asked.batch.source)
        shown = [
            {"key": one.key, "outcome": one.outcome.value, **({"message": one.message} if one.message else {})}
            for one in results
        ]
        return Response(orjson.dumps({"results": shown}), media_type=JSON)


def mirrors(name: str = "") -> Attributes:
    """Return the attributes of a request to mirror a cluster."""
    return Attributes("update", OWN_GROUP, "v1alpha1", MIRRORS, "", "", name)


def _read(document: Any, *, is_shown: bool) -> _Request:
    """Read a batch. Raises StatusError: 400 if it is none, 413 if it has too many objects."""
    if not isinstance(document, dict):
        raise bad_request("the body must be a JSON object with source, cluster, objects and deleted")
    if unknown := sorted(set(document) - _FIELDS):
        raise bad_request(f"{shorten(unknown[0])}: unknown field: must be one of {', '.join(sorted(_FIELDS))}")
    source, cluster = document.get("source"), document.get("cluster", "")
    if not isinstance(source, str) or not 0 < len(source) <= _LONGEST:
        raise bad_request(f"source: invalid value {shorten(source)!r}: must be the bridge's name, such as bridge/east")
    if not isinstance(cluster, str) or len(cluster) > _LONGEST or not _CLUSTER.fullmatch(cluster):
        raise bad_request(
            f"cluster: invalid value {shorten(cluster)!r}: must be a name of lower case letters, digits, '-' and '.', "
            "or empty for the home fleet"
        )
    if cluster == HOME:
        raise bad_request(f"cluster: invalid value {HOME!r}: roles call the home fleet so, which is the empty name")
    uid = document.get("clusterUID", "")
    if not isinstance(uid, str) or len(uid) > _LONGEST:
        raise bad_request(
            f"clusterUID: invalid value {shorten(uid)!r}: must be the uid of the cluster's namespace kube-system"
        )
    keeps = document.get("keepsTaints", False)
    if not isinstance(keeps, bool):
        raise bad_request(f"keepsTaints: invalid value {shorten(keeps)!r}: must be true or false")
    objects, deleted = (_list(document, name) for name in ("objects", "deleted"))
    if (count := len(objects) + len(deleted)) > MOST:
        raise StatusError(413, f"the batch has {count} objects: it must have at most {MOST}")
    return _Request(cluster, MirrorBatch(source, objects, deleted, uid, keeps, is_shown))


def _list(document: Document, name: str) -> list[Any]:
    found = document.get(name)
    if found is not None and not isinstance(found, list):
        raise bad_request(f"{name}: invalid value {shorten(found)!r}: must be a list")
    return found or []


_TARGETS: Final = tuple(kind.value for kind in TargetKind)
_WORKLOADS: Final = (POD, *BINDING_KINDS, "Placement")
_KEPT: Final = timedelta(minutes=10)
"""For how long a bridge is shown of which nothing is mirrored."""


class MirroredClusters:
    """The mirrored clusters, and when their bridges reported last.

    The times of reports are only kept in memory: bridges report every half minute.
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
        """Note that a bridge was stopped for good."""
        self._heard.pop((cluster, source), None)

    async def handle(self, request: Request) -> Response:
        """Answer with the list. Raises StatusError: 405 for other methods, 503 if nothing can be shown yet."""
        paths.check_method(request, "GET")
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
