"""All objects that the gateway shows, built by their kinds, with their resource versions of the object log.

The resource version of a list or a bookmark is the version of the latest record that was applied. It includes all
records before it. Each change has a version of its own, so a watch that is interrupted after any of them resumes after
it, on this gateway or another one, before or after a restart.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import orjson
import structlog

from moorage.apiserver.kinds.kind import Kind, View, discovered, logged_kinds
from moorage.apiserver.kinds.status.namespaces import names
from moorage.apiserver.kinds.status.records import Document, ObjectId, Records, place_of
from moorage.apiserver.rules.field_defaults import with_empty_status, with_field_defaults
from moorage.apiserver.storage.history import ClusterHistory, History
from moorage.apiserver.storage.object_log import LoggedRecord, object_in
from moorage.apiserver.storage.shown_objects import ShownObject, ShownObjects
from moorage.apiserver.storage.tables import Tables
from moorage_schemas.base import Model
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.shown import COMPLETE_KEY, LEADER_KEY, GatewayLeader, ObjectShown
from moorage_schemas.topics import Topic

_log = structlog.get_logger(__name__)


Told = Callable[[ObjectId, bytes | None], None]
"""Called with an object and its JSON, or None when it was deleted."""


class FleetObjects(Protocol):
    """The objects of one fleet: of the home fleet (`Store`), or of a cluster."""

    @property
    def cluster(self) -> str:
        """The name of the cluster. Empty for the home fleet."""

    @property
    def ready(self) -> bool:
        """Whether all objects can be read."""

    @property
    def version(self) -> int:
        """The version of the latest record of all fleets that was applied."""

    @property
    def history(self) -> History | ClusterHistory:
        """The latest changes."""

    @property
    def tables(self) -> Tables:
        """The latest records that its objects are built from. Only the leading gateway has any."""

    @property
    def builder(self) -> ObjectBuilder:
        """Builds its objects."""

    def get(self, object_id: ObjectId) -> ShownObject | None:
        """Return an object. None if it does not exist."""

    def all(self, place: str, namespace: str = "") -> Sequence[ShownObject]:
        """Return the objects of a kind, of one namespace or of all."""

    def names(self, place: str, namespace: str = "") -> dict[str, list[str]]:
        """Return the names of the objects of a kind, by namespace."""

    async def reached(self, version: int) -> None:
        """Wait until the record of a version has been applied."""

    def tell(self, kind: str, told: Told) -> None:
        """Call a function with each object of a kind, now and at each change."""


class Store:
    """Objects by kind, namespace and name. Only `apply` changes them, in one event loop."""

    cluster = ""
    """It has the home fleet, and clusters beside it."""

    def __init__(self, *, kept: int | None = None) -> None:
        self.history = History() if kept is None else History(kept=kept)
        self.version = 0
        """The version of the latest record that was applied."""

        self.complete = False
        """Whether the object log has all objects. It does not before the first leader has written them."""

        self.caught_up = False
        """Whether the object log was read to its end."""

        self.leader: GatewayLeader | None = None
        """The gateway that has taken over the writes last. None if no gateway ever has."""

        self.leader_version = 0
        """The version of the record of that takeover."""

        self.tables = Tables()
        """The latest records that objects of the home fleet are built from. Only the leading gateway has any."""

        self.builder = ObjectBuilder(self.tables)
        self.clusters: Mapping[str, ClusterTables] = {}
        """The same of each cluster of which there is a record, by its name."""

        self.evicted: Callable[[ObjectId, str], None] | None = None
        """Called with the name and uid of a bare pod that was evicted, whose resource must be deleted."""

        self.decided: Callable[[Topic, str, Model | None], None] | None = None
        """Called with each record of other topics that is folded into the tables of the home fleet."""

        self.logged: Callable[[ObjectId, bytes | None], None] | None = None
        """Called with each change of an object of a kind that is in the object log alone (`Kind.logged`)."""

        self.applied: Callable[[], None] | None = None
        """Called when records of other topics have been folded into the tables."""

        self.led: Callable[[], None] | None = None
        """Called when a gateway has taken over the writes."""

        self._objects = ShownObjects()
        self._clusters: Counter[str] = Counter()
        """The number of objects of each cluster."""

        self._followers: dict[str, list[Told]] = {}
        """By the place of the kind (`place_of`)."""

    def __iter__(self) -> Iterator[ObjectId]:
        return iter(self._objects)

    def __contains__(self, object_id: ObjectId) -> bool:
        return object_id in self._objects

    @property
    def ready(self) -> bool:
        """Whether all objects can be read."""
        return self.complete and self.caught_up

    def tell(self, kind: str, told: Told, cluster: str = "") -> None:
        """Call a function with each object of a kind in one fleet, now and at each change: its JSON, or None.

        Objects have the names that their own fleet uses.
        """
        place = place_of(kind, cluster)
        self._followers.setdefault(place, []).append(told)
        for shown in self.all(place):
            document = shown.document
            metadata = document["metadata"]
            told(ObjectId(kind, metadata.get("namespace", ""), metadata["name"]), shown.unversioned)

    def lead(self, tables: Tables, builder: ObjectBuilder, clusters: Mapping[str, ClusterTables]) -> None:
        """Use these tables from now on, because this gateway leads."""
        self.tables = tables
        self.builder = builder
        self.clusters = clusters

    def follow(self) -> None:
        """Forget the tables, because this gateway no longer leads."""
        self.tables = Tables()
        self.builder = ObjectBuilder(self.tables)
        self.clusters = {}

    def apply(self, records: Iterable[LoggedRecord]) -> None:
        """Apply records of the object log in their order. Those that were applied already are passed over."""
        for record in records:
            if record.version <= self.version:
                continue
            self.version = record.version
            try:
                if record.key.startswith("/"):
                    self._apply_note(record)
                else:
                    self._apply_object(record)
            except Exception as error:  # noqa: BLE001 - a stray record, or one of another version, must not end all reads
                _log.error("object_log.record_skipped", key=record.key[:253], offset=record.offset, why=repr(error))
        self.history.wake()

    def _apply_note(self, record: LoggedRecord) -> None:
        if record.key == COMPLETE_KEY and not self.complete:
            self.complete = True
            # Records that were read before were shown to no client.
            self.history.begin(max(self.history.floor, record.version))
        if record.key == LEADER_KEY and record.value is not None:
            self.leader = ObjectShown.model_validate_json(record.value, extra="ignore").leader
            self.leader_version = record.version
            if self.led is not None:
                self.led()

    def _apply_object(self, record: LoggedRecord) -> None:
        object_id = ObjectId.of(record.key)
        recorded = record.version > self.history.floor
        before = self._objects.get(object_id) if recorded or record.value is None else None
        json = object_in(record.value) if record.value is not None else None
        if self.logged is not None and object_id.place in logged_kinds():
            self.logged(object_id, json)
        for told in self._followers.get(object_id.place, ()):
            told(object_id.local, json)
        if json is not None:
            if object_id.cluster and object_id not in self._objects:
                self._clusters[object_id.cluster] += 1
            shown = self._objects.put(object_id, record.version, json)
            if recorded:
                earlier = orjson.loads(before.unversioned) if before is not None else None
                self.history.add(object_id, earlier, orjson.loads(json), shown)
        elif before is not None:
            self._objects.discard(object_id)
            if object_id.cluster:
                self._clusters[object_id.cluster] -= 1
                self._clusters += Counter()  # without those of which nothing is left
            if recorded:
                self.history.add(object_id, orjson.loads(before.unversioned), None, before.at(record.version))

    def get(self, object_id: ObjectId) -> ShownObject | None:
        """Return the present state of one object."""
        return self._objects.get(object_id)

    def all(self, place: str, namespace: str = "") -> Sequence[ShownObject]:
        """Return the present objects of a kind (`place_of`) in one namespace or all, by namespace and name."""
        return self._objects.sorted(place, namespace)

    def names(self, place: str, namespace: str = "") -> dict[str, list[str]]:
        """Return the names of the objects of a kind by namespace, of one namespace or of all, at the present moment.

        Names alone show much of read-only objects, and reading them takes no time. The arguments are those of `all`.
        """
        return self._objects.names(place, namespace)

    @property
    def cluster_names(self) -> list[str]:
        """The names of the clusters of which there are objects."""
        return sorted(self._clusters)

    def has_cluster(self, cluster: str) -> bool:
        """Return whether there is an object in a cluster."""
        return cluster in self._clusters

    async def reached(self, version: int) -> None:
        """Return when all records up to a version have been applied."""
        while self.version < version:
            await self.history.wait()


async def within(seconds: float, store: FleetObjects, version: int) -> None:
    """Wait until a store has reached a version. Raises TimeoutError if it has not reached it in that time."""
    async with asyncio.timeout(seconds):
        await store.reached(version)


class ObjectBuilder:
    """Builds objects from the latest records.

    In a cluster there is only what its records hold: nothing is built in, or implied by other objects.
    """

    def __init__(self, records: Records, *, is_home: bool = True) -> None:
        self._records = records
        self._is_home = is_home
        self._kinds: dict[str, Kind[Any]] = {kind.kind: kind for kind in discovered()}
        self.counted = frozenset(kind.kind for kind in self._kinds.values() if kind.counted_status)
        """Kinds whose status counts other objects."""

    @property
    def always(self) -> frozenset[ObjectId]:
        """The objects that exist although they are not declared."""
        kinds, namespaces = self._kinds.values(), names(self._records)
        return frozenset(
            (
                *(
                    ObjectId(kind.kind, "", name)
                    for kind in kinds
                    for name in (*kind.built_in, *kind.implied(self._records))
                ),
                *(
                    ObjectId(kind.kind, namespace, name)
                    for kind in kinds
                    for name in kind.in_each_namespace
                    for namespace in namespaces
                ),
            )
        )

    def build(self, object_id: ObjectId) -> Document | None:
        """Return an object as it is now, without a resource version. None if there is none.

        It is in the version that its kind stores, also if the record was written when another one was preferred, and
        has the default values of absent fields.
        """
        return self._built(object_id, self._records)

    def build_as_if(self, object_id: ObjectId, declared: ResourceDeclared) -> Document | None:
        """Return an object as it would be if that were declared: the object itself, or the controller of a pod.

        None if it would not exist.
        """
        return self._built(object_id, self._records.with_resource(declared.key, declared))

    def _built(self, object_id: ObjectId, records: Records) -> Document | None:
        kind = self._kinds.get(object_id.kind)
        is_recorded = object_id.key in records.resources or object_id.key in records.placements
        if not (self._is_home or isinstance(kind, View) or is_recorded):
            return None
        found = kind.shown(object_id, records) if kind is not None else None
        if kind is None or found is None:
            return None
        if not kind.has_generation and "generation" in found["metadata"]:
            metadata = {name: value for name, value in found["metadata"].items() if name != "generation"}
            found = {**found, "metadata": metadata}
        return with_empty_status(with_field_defaults({**found, "apiVersion": kind.api_versions[0]}))


class ClusterTables:
    """The tables that the objects of one cluster are built from, with its own names for everything."""

    def __init__(self) -> None:
        self.tables = Tables(is_home=False)
        self.builder = ObjectBuilder(self.tables, is_home=False)
