"""Under which names the objects of real clusters are mirrored. One cluster has one name for each kind of its objects.

Otherwise its objects would be there twice, and two bridges would act on one cluster. A hub of OCM, or a control plane
of Karmada, may be bridged beside the Kubernetes cluster that it is, because their bridges mirror other kinds.

Only what is mirrored counts. So the rule holds after a restart of the gateway, and a name is free again when all of its
objects are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from moorage.apiserver.kinds.status.mirrored import MirroredIndex
from moorage.apiserver.storage.store import Store
from moorage.apiserver.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class OtherName:
    """Another name under which objects of a cluster are mirrored."""

    name: str
    source: str
    """A bridge that mirrors them."""

    kinds: tuple[str, ...]


class ClusterNames:
    """Knows the names of all clusters.

    Args:
        store: has the tables of all fleets while this gateway leads.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> Iterator[tuple[str, Tables]]:
        """The fleets and their tables, by name. That of the home fleet is empty."""
        yield "", self._store.tables
        for name, found in self._store.clusters.items():
            yield name, found.tables

    def another(self, name: str, uid: str, kinds: AbstractSet[str]) -> OtherName | None:
        """Return another name under which objects of some kinds are mirrored from a cluster. None if there is none.

        Args:
            name: the one that is known. Empty for the home fleet.
            uid: of the cluster.
            kinds: of the objects.
        """
        for found, tables in self.all():
            if found != name and (same := tables.index(MirroredIndex).kinds_of(uid) & kinds):
                index = tables.index(MirroredIndex)
                source = next(one for one in index.sources if uid in index.cluster_uids(one))
                return OtherName(found, source, tuple(sorted(same)))
        return None
