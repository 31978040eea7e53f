"""An index of the clusters in each set, the namespaces that sets are bound to, and the add-ons of each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from moorage.core.scheduling.ocm.cluster_sets import ManagedSets, named_set
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.managed import ManagedClusterSet
from moorage_schemas.taint import TargetTainted

SET = "ManagedClusterSet"
SET_BINDING = "ManagedClusterSetBinding"
ADD_ON = "ManagedClusterAddOn"
CLUSTER = TargetKind.MANAGED_CLUSTER.value

Name = tuple[str, str, str]
"""Kind, namespace and name of an object."""


class ManagedIndex:
    """Follows the records of managed clusters, their sets and bindings. Each change returns the affected objects."""

    def __init__(self) -> None:
        self.sets = ManagedSets()
        self._labels: dict[str, Mapping[str, str]] = {}
        """The labels of each cluster, including those that the system maintains."""

        self._naming: dict[str, set[str]] = {}
        """The clusters that name each set, whether or not the set exists."""

        self._members: dict[str, set[str]] = {name: set() for name in self.sets.names}
        self._bound: dict[str, set[str]] = {}
        """The namespaces to which each set is bound, whether or not the set exists."""

        self._add_ons: dict[str, set[str]] = {}

    def size(self, name: str) -> int:
        """The number of clusters in a set."""
        return len(self._members.get(name, ()))

    def resource(self, key: str, declared: ResourceDeclared | None, tainted: TargetTainted | None) -> set[Name]:
        """Apply a resource that was declared or deleted (None). Returns the objects that look different now.

        Args:
            key: the key of its record.
            declared: its present state.
            tainted: the taints of the resource, if it is a target.
        """
        kind, namespace, name, _ = ResourceKey.parse(key)
        if kind == CLUSTER:
            return self.cluster(name, declared, tainted)
        if kind == SET:
            return self._set(name, declared)
        if kind == SET_BINDING:
            _keep(self._bound, name, namespace, there=declared is not None)
        elif kind == ADD_ON:
            _keep(self._add_ons, namespace, name, there=declared is not None)
        return set()

    def cluster(self, name: str, declared: ResourceDeclared | None, tainted: TargetTainted | None) -> set[Name]:
        """Apply a change of a cluster or its system labels. Returns the sets and add-ons that look different now."""
        before = self._labels.pop(name, None)
        after = None if declared is None else merged_labels(declared, tainted)
        if after is not None:
            self._labels[name] = after
        touched: set[Name] = {(ADD_ON, name, add_on) for add_on in self._add_ons.get(name, ())}
        if before == after:
            return touched
        old, new = (frozenset[str]() if labels is None else self.sets.of(labels) for labels in (before, after))
        for labels, there in ((before, False), (after, True)):
            if labels is not None:
                _keep(self._naming, named_set(labels), name, there=there)
        for group in old - new:
            self._members[group].discard(name)
        for group in new - old:
            self._members[group].add(name)
        return touched | {(SET, "", group) for group in old ^ new}

    def _set(self, name: str, declared: ResourceDeclared | None) -> set[Name]:
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
        return {(SET_BINDING, namespace, name) for namespace in self._bound.get(name, ())} if changed else set()


def merged_labels(declared: ResourceDeclared, tainted: TargetTainted | None) -> Mapping[str, str]:
    """The labels of a cluster: those that people declare, and those that the system maintains."""
    own: Mapping[str, Any] = declared.object["metadata"].get("labels") or {}
    if tainted is None or not tainted.labels or tainted.target_uid not in {"", declared.uid}:
        return own
    return {**own, **tainted.labels}


def _keep(sets: dict[str, set[str]], group: str, item: str, *, there: bool) -> None:
    """Add an item to a group or remove it. A group without items is removed."""
    if there:
        sets.setdefault(group, set()).add(item)
        return
    found = sets.get(group, set())
    found.discard(item)
    if not found:
        sets.pop(group, None)
