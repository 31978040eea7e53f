"""The sets that there are, and which of them are bound to each namespace, as the log says."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.core.scheduling.ocm.cluster_sets import ManagedSets, UsableSets, usable_sets


class Membership:
    """Sets, and bindings by namespace; a cluster's sets follow from its labels."""

    def __init__(self) -> None:
        self.sets = ManagedSets()
        self._bound: dict[str, set[str]] = {}

    def bind(self, namespace: str, name: str) -> bool:
        """A set is bound to a namespace, whether it is there or not. Returns whether it was not bound."""
        bound = self._bound.setdefault(namespace, set())
        if name in bound:
            return False
        bound.add(name)
        return True

    def unbind(self, namespace: str, name: str) -> bool:
        """A binding is deleted. Returns whether it was there."""
        bound = self._bound.get(namespace)
        if bound is None or name not in bound:
            return False
        bound.discard(name)
        if not bound:
            del self._bound[namespace]
        return True

    def namespaces(self, name: str) -> list[str]:
        """The namespaces that a set is bound to, sorted."""
        return sorted(namespace for namespace, bound in self._bound.items() if name in bound)

    def usable(self, namespace: str, asked: Sequence[str]) -> UsableSets:
        """The sets that a placement of a namespace may choose from."""
        return usable_sets(self._bound.get(namespace, ()), self.sets, asked)
