"""Which namespaces there are: those that are declared, those that are built in, and those that others imply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.status import built_in
from moorage.apiserver.kinds.status.index import Index, Unsettled
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage.decide.kubernetes.hashes import uid_of
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared, resource_key
from moorage_schemas.resources.configuration import CONFIGURATION_KIND, CONFIGURATION_NAME

NAMESPACE: Final = "Namespace"
_CLUSTER: Final = TargetKind.MANAGED_CLUSTER.value
_FIRST: Final = resource_key(CONFIGURATION_KIND, "", CONFIGURATION_NAME)
"""The key of the object that the first gateway of a fleet declares. It cannot be deleted."""


def begun(records: Records) -> str:
    """Return when the fleet began, the age of built-in objects. Empty before that."""
    first = records.resources.get(_FIRST)
    return str(first.object["metadata"].get("creationTimestamp") or "") if first is not None else ""


def exists(name: str, records: Records) -> bool:
    """Return whether there is a namespace."""
    index = records.index(NamespaceIndex)
    return name in index.declared or name in built_in.NAMESPACES or index.implies(name)


def names(records: Records) -> set[str]:
    """Return the names of all namespaces."""
    index = records.index(NamespaceIndex)
    return {*index.declared, *built_in.NAMESPACES, *index.implied()}


def identity(name: str, records: Records) -> dict[str, str]:
    """Return the uid and the creation time of a namespace. Both are derived if it is not declared."""
    if name in records.index(NamespaceIndex).declared:
        metadata = records.resources[resource_key(NAMESPACE, "", name)].object["metadata"]
        uid, since = str(metadata.get("uid", "")), str(metadata.get("creationTimestamp") or "")
    else:
        uid, since = uid_of(NAMESPACE, name), begun(records) if name in built_in.NAMESPACES else ""
    return {"uid": uid, **({"creationTimestamp": since} if since else {})}


class NamespaceIndex(Index):
    """How many declared objects each namespace has. Mirrored ones are apart: they do not go with it.

    An undeclared namespace is implied by its objects, and by the managed cluster of its name. Objects were
    accepted in any namespace once, and those go on as before. OCM makes a namespace for each managed cluster.
    """

    topics = ("resources",)

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        """The number of declared objects of each namespace that has any."""

        self.declared: set[str] = set()
        """The declared namespaces."""

        self.ending: dict[str, str] = {}
        """The uid of each namespace that is being deleted, by name."""

        self.unsettled = Unsettled()
        """Those of them about which something has changed."""

        self.mirrored: dict[str, int] = {}
        """The number of mirrored objects of each namespace that has any."""

        self._clusters: set[str] = set()

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        kind, namespace, name, _ = ResourceKey.parse(key)
        if kind == NAMESPACE:
            self._declared(name, after)
            is_other = (before.uid if before is not None else "") != (after.uid if after is not None else "")
            return _of(name) if is_other else ()
        if namespace in self.ending:
            self.unsettled.add(namespace)
        if namespace and _is_mirrored(before) != _is_mirrored(after):
            was = self._counted(namespace, before, -1)
            return _of(namespace) if self._counted(namespace, after, 1) or was else ()
        if (before is None) is (after is None):
            return ()
        if key == _FIRST:
            classes = [ObjectId(built_in.PRIORITY_CLASS, "", name) for name in built_in.SYSTEM_PRIORITIES]
            return [*classes, *(found for name in built_in.NAMESPACES for found in _of(name))]
        if kind == _CLUSTER and not namespace:
            (self._clusters.discard if after is None else self._clusters.add)(name)
            return _of(name)
        return _of(namespace) if self._counted(namespace, after or before, -1 if after is None else 1) else ()

    def _counted(self, namespace: str, record: ResourceDeclared | None, change: int) -> bool:
        """Count an object more or less. Returns whether the namespace has its first or has lost its last one."""
        if not namespace or record is None:
            return False
        sizes = self.mirrored if record.mirrored is not None else self.sizes
        before = sizes.get(namespace, 0)
        if (now := max(before + change, 0)) > 0:
            sizes[namespace] = now
        else:
            sizes.pop(namespace, None)
        return not before or not now

    def _declared(self, name: str, after: ResourceDeclared | None) -> None:
        (self.declared.discard if after is None else self.declared.add)(name)
        is_own = after is not None and after.mirrored is None
        if after is not None and is_own and after.object["metadata"].get("deletionTimestamp"):
            self.ending[name] = after.uid
            self.unsettled.add(name)
        else:
            self.ending.pop(name, None)

    def implies(self, name: str) -> bool:
        """Return whether a namespace exists without being declared."""
        return name in self.sizes or name in self.mirrored or name in self._clusters

    def implied(self) -> Iterator[str]:
        """Yield the namespaces that exist although they need not be declared."""
        yield from self.sizes
        yield from self.mirrored.keys() - self.sizes.keys()
        yield from self._clusters - self.sizes.keys() - self.mirrored.keys()


def _is_mirrored(record: ResourceDeclared | None) -> bool:
    return record is not None and record.mirrored is not None


def _of(namespace: str) -> list[ObjectId]:
    """Return a namespace and what every namespace has."""
    return [
        ObjectId(NAMESPACE, "", namespace),
        *(ObjectId(kind, namespace, name) for kind, name in built_in.IN_EACH_NAMESPACE),
    ]
