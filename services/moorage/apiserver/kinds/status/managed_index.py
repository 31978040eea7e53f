"""An index of the clusters in each set, the namespaces that sets are bound to, and the add-ons of each cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError
from typing_extensions import override

from moorage.apiserver.kinds.status.index import Groups, Index
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage.decide.scheduling.ocm.cluster_sets import ManagedSets, named_set
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.managed import ManagedClusterSet
from moorage_schemas.taint import TargetTainted

SET = "ManagedClusterSet"
SET_BINDING = "ManagedClusterSetBinding"
ADD_ON = "ManagedClusterAddOn"
CLUSTER = TargetKind.MANAGED_CLUSTER.value

_MANAGED = "Managed"
"""How the keys of these kinds begin."""


class ManagedIndex(Index):
    """The clusters in each set, the namespaces that sets are bound to, and the add-ons of each cluster."""

    topics = ("resources", "taints")

    def __init__(self) -> None:
        self.sets = ManagedSets()
        self._labels: dict[str, Mapping[str, str]] = {}
        """The labels of each cluster, including those that the system maintains."""

        self._naming = Groups()
        """The clusters that name each set, whether or not the set exists."""

        self._members: dict[str, set[str]] = {name: set() for name in self.sets.names}
        self._bound = Groups()
        """The namespaces to which each set is bound, whether or not the set exists."""

        self._add_ons = Groups()

    def size(self, name: str) -> int:
        """The number of clusters in a set."""
        return len(self._members.get(name, ()))

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if topic == "taints":
            cluster = key.removeprefix(f"{CLUSTER}/")
            if cluster == key:
                return ()
            return self._cluster(cluster, records.resources.get(f"{CLUSTER}//{cluster}"), after)
        if not key.startswith(_MANAGED):
            return ()
        kind, namespace, name, _ = ResourceKey.parse(key)
        if kind == CLUSTER:
            return self._cluster(name, after, records.taints.get(f"{CLUSTER}/{name}"))
        if kind == SET:
            return self._set(name, after)
        if kind == SET_BINDING:
            self._bound.keep(name, namespace, there=after is not None)
        elif kind == ADD_ON:
            self._add_ons.keep(namespace, name, there=after is not None)
        return ()

    def _cluster(
        self, name: str, declared: ResourceDeclared | None, tainted: TargetTainted | None
    ) -> Iterable[ObjectId]:
        """Take a change of a cluster or of its system labels in. Sets and add-ons look different then."""
        before = self._labels.pop(name, None)
        after = None if declared is None else merged_labels(declared, tainted)
        if after is not None:
            self._labels[name] = after
        touched = {ObjectId(ADD_ON, name, add_on) for add_on in self._add_ons.get(name, ())}
        if before == after:
            return touched
        old, new = (frozenset[str]() if labels is None else self.sets.of(labels) for labels in (before, after))
        for labels, there in ((before, False), (after, True)):
            if labels is not None:
                self._naming.keep(named_set(labels), name, there=there)
        for group in old - new:
            self._members[group].discard(name)
        for group in new - old:
            self._members[group].add(name)
        return touched | {ObjectId(SET, "", group) for group in old ^ new}

    def _set(self, name: str, declared: ResourceDeclared | None) -> Iterable[ObjectId]:
        """Take a change of a set in. Its bindings look different then."""
        if declared is None:
            changed = self.sets.remove(name)
            if changed:
                del self._members[name]
        else:
            try:
                changed = self.sets.put(name, ManagedClusterSet.model_validate(declared.object).spec)
            except ValidationError:  # it was validated when it was declared
                changed = False
            made = self.sets.get(name)
            if changed and made is not None:
                asked = self._naming.get(name, set()) if made.exclusive else self._labels
                self._members[name] = {cluster for cluster in asked if made.has(self._labels[cluster])}
        bound = self._bound.get(name, ()) if changed else ()
        return {ObjectId(SET_BINDING, namespace, name) for namespace in bound}


def merged_labels(declared: ResourceDeclared, tainted: TargetTainted | None) -> Mapping[str, str]:
    """The labels of a cluster: those that people declare, and those that the system maintains."""
    own: Mapping[str, Any] = declared.object["metadata"].get("labels") or {}
    if tainted is None or not tainted.labels or tainted.target_uid not in {"", declared.uid}:
        return own
    return {**own, **tainted.labels}
