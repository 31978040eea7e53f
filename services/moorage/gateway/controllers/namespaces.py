"""Empties the namespaces that are being deleted, and lets them go when nothing is left in them.

What is left is read from the tables each time, so a gateway that starts after a crash finishes what another one began.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import structlog

from moorage.gateway.admission.deletion import BACKGROUND_POLICY, DeleteOptions, is_marked
from moorage.gateway.errors import StatusError
from moorage.gateway.store import Store
from moorage.gateway.writer import Caller, Writer
from moorage.kinds.status.namespaces import NAMESPACE, NamespaceIndex
from moorage.kinds.status.records import ObjectId

_log = structlog.get_logger(__name__)

_CALLER: Final = Caller("moorage/namespaces")
_OPTIONS: Final = DeleteOptions(BACKGROUND_POLICY)
_PAUSE: Final = 1.0  # seconds before a namespace that could not be emptied is tried again
_AT_ONCE: Final = 64


class NamespaceKeeper:
    """Empties namespaces in the background, one after the other.

    Args:
        store: the present objects.
        writer: deletes objects in the same way as people's writes.
    """

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._index = store.tables.index(NamespaceIndex)
        self._wake = asyncio.Event()
        self._at_work = False

    @property
    def busy(self) -> bool:
        """Whether there is something to do."""
        return self._at_work or bool(self._index.unsettled)

    def applied(self) -> None:
        """Note that records have been applied. Namespaces that they concern are looked at."""
        if self._index.unsettled:
            self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        said = ""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE if said else None):
                    await self._wake.wait()
            self._wake.clear()
            self._at_work = True
            failed: dict[str, str] = {}
            while self._store.ready and (waiting := sorted(self._index.unsettled - failed.keys())):
                for name in waiting:
                    self._index.unsettled.discard(name)
                    if why := await self._settle(name):
                        failed[name] = why
                        self._index.unsettled.add(name)
            self._at_work = False
            why = next(iter(failed.values()), "")
            if why and why != said:
                _log.warning("gateway.namespaces_not_emptied", namespaces=len(failed), why=why)
            said = why

    async def _settle(self, name: str) -> str:
        """Delete what is in a namespace, or let the namespace go. Returns why that failed, or an empty text."""
        uid = self._index.ending.get(name)
        if uid is None:
            return ""
        try:
            if name not in self._index.sizes:
                done = await self._writer.finish(ObjectId(NAMESPACE, "", name), uid, _CALLER)
                return "" if done else "an object is being created"
            resources = self._store.tables.resources
            inside = [object_id for object_id in map(ObjectId.of, resources) if object_id.namespace == name]
            for first in range(0, len(inside), _AT_ONCE):
                some = inside[first : first + _AT_ONCE]
                await asyncio.gather(*(self._delete(object_id) for object_id in some))
        except StatusError as error:
            return error.message
        return ""

    async def _delete(self, object_id: ObjectId) -> None:
        declared = self._store.tables.resources.get(object_id.key)
        if declared is not None and not is_marked(declared.object):
            await self._writer.collect(object_id, declared.uid, _CALLER, _OPTIONS)
