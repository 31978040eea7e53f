"""The declared cluster sets, and those that are bound to each namespace, according to the log."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.decide.scheduling.ocm.cluster_sets import ManagedSets, UsableSets, usable_sets


class Membership:
    """Sets, and bindings by namespace. A cluster's sets follow from its labels."""

    def __init__(self) -> None:
        self.sets = ManagedSets()
        self._bound: dict[str, set[str]] = {}

    def bind(self, namespace: str, name: str) -> bool:
        """Bind a set to a namespace, whether the set exists or not. Return whether it was not bound before."""
        bound = self._bound.setdefault(namespace, set())
        if name in bound:
            return False
        bound.add(name)
        return True

    def unbind(self, namespace: str, name: str) -> bool:
        """Delete a binding. Return whether it existed."""
        bound = self._bound.get(namespace)
        if bound is None or name not in bound:
            return False
        bound.discard(name)
        if not bound:
            del self._bound[namespace]
        return True

    def namespaces(self, name: str) -> list[str]:
        """Return the namespaces that a set is bound to, sorted."""
        return sorted(namespace for namespace, bound in self._bound.items() if name in bound)

    def usable(self, namespace: str, asked: Sequence[str]) -> UsableSets:
        """Return the sets that a placement of a namespace may choose from."""
        return usable_sets(self._bound.get(namespace, ()), self.sets, asked)
