"""One cluster of a store as a fleet of its own, and the names under which real clusters are mirrored.

One real cluster has one name for each kind of its objects: otherwise they would exist twice, and two bridges would act
on one cluster. A hub of OCM, or a control plane of Karmada, may be bridged beside the Kubernetes cluster that it is,
because their bridges mirror other kinds.

Only what is mirrored counts. So the rule holds after a restart of the gateway, and a name is free again when all of its
objects are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from moorage.apiserver.kinds.status.index import MirroredIndex
from moorage.apiserver.kinds.status.records import ObjectId, place_of
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.storage.history import ClusterHistory
from moorage.apiserver.storage.shown_objects import ShownObject
from moorage.apiserver.storage.store import ClusterTables, FleetObjects, ObjectBuilder, Store, Told
from moorage.apiserver.storage.tables import Tables
from moorage.decide.kubernetes.attributes import CLUSTERS, OWN_GROUP


def fleet_of(store: Store, cluster: str) -> FleetObjects:
    """Return the objects of a cluster, or those of the home fleet if its name is empty.

    Raises:
        StatusError: 503 if nothing can be shown yet, 404 if nothing is mirrored from that cluster.
    """
    if not store.ready:
        raise api_errors.unavailable("the gateway is not ready: it is still reading its tables")
    if not cluster:
        return store
    if not store.has_cluster(cluster):
        raise api_errors.not_found(OWN_GROUP, CLUSTERS, cluster)
    return ClusterStore(store, cluster)


class ClusterStore:
    """The objects of a cluster in the store of all fleets."""

    def __init__(self, store: Store, cluster: str) -> None:
        self._store = store
        self.cluster = cluster
        self.history = ClusterHistory(store.history, cluster)

    @property
    def ready(self) -> bool:
        """Whether all objects can be read."""
        return self._store.ready

    @property
    def version(self) -> int:
        """The version of the latest record that was applied. Objects of all fleets have one order."""
        return self._store.version

    @property
    def tables(self) -> Tables:
        """The latest records of the cluster."""
        return self._own.tables

    @property
    def builder(self) -> ObjectBuilder:
        """Builds the objects of the cluster."""
        return self._own.builder

    @property
    def _own(self) -> ClusterTables:
        return self._store.clusters.get(self.cluster) or ClusterTables()

    def get(self, object_id: ObjectId) -> ShownObject | None:
        """Return an object. None if it does not exist."""
        return self._store.get(object_id._replace(cluster=self.cluster))

    def all(self, place: str, namespace: str = "") -> Sequence[ShownObject]:
        """Return the objects of a kind, of one namespace or of all."""
        return self._store.all(place_of(place, self.cluster), namespace)

    def names(self, place: str, namespace: str = "") -> dict[str, list[str]]:
        """Return the names of the objects of a kind, by namespace."""
        return self._store.names(place_of(place, self.cluster), namespace)

    async def reached(self, version: int) -> None:
        """Wait until the record of a version has been applied."""
        await self._store.reached(version)

    def tell(self, kind: str, told: Told) -> None:
        """Call a function with each object of a kind, now and at each change."""
        self._store.tell(kind, told, self.cluster)


@dataclass(frozen=True, slots=True)
class OtherName:
    """Another name under which objects of a cluster are mirrored."""

    name: str
    source: str
    """A bridge that mirrors them."""

    kinds: tuple[str, ...]


class ClusterNames:
    """The names of all clusters."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> Iterator[tuple[str, Tables]]:
        """Yield the fleets and their tables, by name. That of the home fleet is empty."""
        yield "", self._store.tables
        for name, found in self._store.clusters.items():
            yield name, found.tables

    def another(self, name: str, uid: str, kinds: AbstractSet[str]) -> OtherName | None:
        """Return another name under which objects of some kinds are mirrored from a cluster. None if there is none."""
        for found, tables in self.all():
            if found != name and (same := tables.index(MirroredIndex).kinds_of(uid) & kinds):
                index = tables.index(MirroredIndex)
                source = next(one for one in index.sources if uid in index.cluster_uids(one))
                return OtherName(found, source, tuple(sorted(same)))
        return None
