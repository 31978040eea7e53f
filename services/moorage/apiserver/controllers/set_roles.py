"""Makes the two ClusterRoles of each ManagedClusterSet. They go with the set."""

from __future__ import annotations

from typing import Any, Final

from moorage.apiserver.admission.deletion import is_marked
from moorage.apiserver.controllers.keeper import Keeper
from moorage.apiserver.kinds import cluster_role
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.kinds.status.set_roles import SetRoleIndex
from moorage.apiserver.rbac.cluster_sets import set_roles
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Writer
from moorage.decide.kubernetes.unstructured import part
from moorage_schemas.resource import ResourceDeclared, resource_key

_CALLER: Final = Caller("moorage/cluster-sets")
_KIND: Final = ServedKind(cluster_role.KIND, cluster_role.KIND.versions[0])
_SET: Final = "ManagedClusterSet"

Document = dict[str, Any]


class SetRoleKeeper(Keeper):
    """Keeps the roles of sets as they should be.

    Args:
        store: the present objects.
        writer: writes roles in the same way as people's writes.
    """

    what = "roles of cluster sets"
    passed_over = frozenset({"NotFound", "Conflict", "AlreadyExists"})

    def __init__(self, store: Store, writer: Writer) -> None:
        super().__init__(store, writer, store.tables.index(SetRoleIndex).unsettled)

    async def settle(self, name: str) -> str:
        """Write what is missing of the roles of a set. See `Keeper`."""
        declared = self._store.tables.resources.get(resource_key(_SET, "", name))
        if declared is not None and not is_marked(declared.object):
            for role in set_roles(name):
                await self._keep(_owned(role, declared))
        return ""

    async def _keep(self, wanted: Document) -> None:
        object_id = ObjectId(_KIND.kind, "", wanted["metadata"]["name"])
        present = self._store.tables.resources.get(object_id.key)
        if present is None:
            await self._writer.create(_KIND, wanted, _CALLER)
        elif not is_marked(present.object) and _with(present.object, wanted) != present.object:
            await self._writer.change(_KIND, object_id, lambda shown: _with(shown, wanted), "update", _CALLER)


def _owned(role: Document, owner: ResourceDeclared) -> Document:
    reference = {
        "apiVersion": owner.object["apiVersion"],
        "kind": _SET,
        "name": owner.name,
        "uid": owner.uid,
    }
    return {**role, "metadata": {**role["metadata"], "ownerReferences": [reference]}}


def _with(role: Document, wanted: Document) -> Document:
    """A role with the rules, the labels and the owner that are wanted."""
    metadata = part(role, "metadata")
    labels = {**part(metadata, "labels"), **wanted["metadata"]["labels"]}
    owners = wanted["metadata"]["ownerReferences"]
    kept = [one for one in metadata.get("ownerReferences") or () if one.get("kind") != _SET]
    return {
        **role,
        "metadata": {**metadata, "labels": labels, "ownerReferences": [*kept, *owners]},
        "rules": wanted["rules"],
    }
