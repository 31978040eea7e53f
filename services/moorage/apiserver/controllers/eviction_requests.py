"""Keeps the requests to leave of the objects `EvictionRequest`.

An object that is written has its request in the same transaction. This controller writes what only follows later: a pod
is bound after it was requested to leave, or its binding has ended.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from moorage.apiserver.controllers.object_controller import ObjectController
from moorage.apiserver.kinds.status.leaves import LeaveIndex
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Writer

_CALLER: Final = Caller("moorage/eviction-requests")


class EvictionRequestKeeper(ObjectController):
    """Writes and removes requests to leave in the background."""

    what = "eviction requests"

    def __init__(self, store: Store, writer: Writer) -> None:
        super().__init__(store, writer, store.tables.index(LeaveIndex).unsettled)

    @override
    async def run(self) -> None:
        self.applied()  # pods may have been bound before
        await super().run()

    @override
    async def settle(self, name: str) -> str:
        await self._writer.keep_leaves(ObjectId.of(name), _CALLER)
        return ""
