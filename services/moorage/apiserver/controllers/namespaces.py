"""Empties the namespaces that are being deleted, and lets them go when nothing is left in them."""

from __future__ import annotations

import asyncio
from typing import Final

from moorage.apiserver.admission.deletion import BACKGROUND_POLICY, DeleteOptions, is_marked
from moorage.apiserver.controllers.keeper import Keeper
from moorage.apiserver.kinds.status.namespaces import NAMESPACE, NamespaceIndex
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Writer

_CALLER: Final = Caller("moorage/namespaces")
_OPTIONS: Final = DeleteOptions(BACKGROUND_POLICY)
_AT_ONCE: Final = 64


class NamespaceKeeper(Keeper):
    """Empties namespaces in the background, one after the other.

    Args:
        store: the present objects.
        writer: deletes objects in the same way as people's writes.
    """

    what = "namespaces"
    passed_over = frozenset()

    def __init__(self, store: Store, writer: Writer) -> None:
        self._index = store.tables.index(NamespaceIndex)
        super().__init__(store, writer, self._index.unsettled)

    async def settle(self, name: str) -> str:
        """Delete what is in a namespace, or let the namespace go. See `Keeper`."""
        uid = self._index.ending.get(name)
        if uid is None:
            return ""
        if name not in self._index.sizes:
            done = await self._writer.finish(ObjectId(NAMESPACE, "", name), uid, _CALLER)
            return "" if done else "an object is being created"
        resources = self._store.tables.resources
        inside = [object_id for object_id in map(ObjectId.of, resources) if object_id.namespace == name]
        for first in range(0, len(inside), _AT_ONCE):
            some = inside[first : first + _AT_ONCE]
            await asyncio.gather(*(self._delete(object_id) for object_id in some))
        return ""

    async def _delete(self, object_id: ObjectId) -> None:
        declared = self._store.tables.resources.get(object_id.key)
        if declared is not None and declared.mirrored is None and not is_marked(declared.object):
            await self._writer.collect(object_id, declared.uid, _CALLER, _OPTIONS)
