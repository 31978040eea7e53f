"""Which namespaces there are: those that are declared, those that are built in, and those that others imply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from moorage.kinds.status import built_in
from moorage.kinds.status.index import Index, Unsettled
from moorage.kinds.status.records import ObjectId, Records
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared, resource_key
from moorage_schemas.resources.configuration import CONFIGURATION_KIND, CONFIGURATION_NAME

NAMESPACE: Final = "Namespace"
_CLUSTER: Final = TargetKind.MANAGED_CLUSTER.value
_FIRST: Final = resource_key(CONFIGURATION_KIND, "", CONFIGURATION_NAME)
"""The key of what the first gateway of a fleet declares, and nobody can delete."""


def begun(records: Records) -> str:
    """When a fleet began, which is the age of what is built in. Empty as long as nobody has begun it."""
    first = records.resources.get(_FIRST)
    return str(first.object["metadata"].get("creationTimestamp") or "") if first is not None else ""


class NamespaceIndex(Index):
    """How many declared objects each namespace has.

    A namespace that nobody has declared is implied by its objects, and by the managed cluster of its name. Objects were
    accepted in any namespace once, and those go on as before. OCM makes a namespace for each managed cluster.
    """

    topics = ("resources",)

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        """The number of declared objects of each namespace that has any."""

        self.ending: dict[str, str] = {}
        """The uid of each namespace that is being deleted, by name."""

        self.unsettled = Unsettled()
        """Those of them about which something has changed."""

        self._clusters: set[str] = set()

    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        """See `Index`."""
        kind, namespace, name, _ = ResourceKey.parse(key)
        if kind == NAMESPACE:
            self._ending(name, after)
        elif namespace in self.ending:
            self.unsettled.add(namespace)
        if (before is None) is (after is None):
            return ()
        if key == _FIRST:
            return [ObjectId(NAMESPACE, "", name) for name in built_in.NAMESPACES]
        if kind == _CLUSTER and not namespace:
            namespace = name
            (self._clusters.discard if after is None else self._clusters.add)(name)
        elif namespace:
            size = self.sizes.get(namespace, 0) + (-1 if after is None else 1)
            if size > 0:
                self.sizes[namespace] = size
            else:
                self.sizes.pop(namespace, None)
        else:
            return ()
        return (ObjectId(NAMESPACE, "", namespace),)

    def _ending(self, name: str, after: ResourceDeclared | None) -> None:
        if after is not None and after.object["metadata"].get("deletionTimestamp"):
            self.ending[name] = after.uid
            self.unsettled.add(name)
        else:
            self.ending.pop(name, None)

    def implies(self, name: str) -> bool:
        """Whether a namespace exists although nobody has declared it."""
        return name in self.sizes or name in self._clusters

    def implied(self) -> Iterator[str]:
        """The namespaces that exist although they need not be declared."""
        yield from self.sizes
        yield from self._clusters - self.sizes.keys()
