"""Deletes the resources of evicted bare pods. As in Kubernetes, such a pod is gone."""

from __future__ import annotations

import asyncio

import structlog

from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.writing.writer import Writer

_log = structlog.get_logger(__name__)

_PAUSE = 5.0  # seconds before a pod that could not be deleted is tried again
_AT_ONCE = 64


class Sweeper:
    """Deletes evicted pods in the background, and tries again until it succeeds."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._found: dict[ObjectId, str] = {}
        self._wake = asyncio.Event()

    @property
    def busy(self) -> bool:
        """Whether there is something to do."""
        return bool(self._found)

    def found(self, object_id: ObjectId, uid: str) -> None:
        """Note that the bare pod with this uid was evicted."""
        self._found[object_id] = uid
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._found:
                batch = list(self._found.items())[:_AT_ONCE]
                outcomes = await asyncio.gather(*(self._sweep(object_id, uid) for object_id, uid in batch))
                if failures := [why for why in outcomes if why]:
                    _log.warning("gateway.evicted_pods_not_deleted", pods=len(failures), why=failures[0])
                    await asyncio.sleep(_PAUSE)

    async def _sweep(self, object_id: ObjectId, uid: str) -> str:
        """Delete one pod. Returns why that failed, or an empty text."""
        try:
            await self._writer.sweep(object_id, uid)
        except StatusError as error:
            return error.message
        if self._found.get(object_id) == uid:
            del self._found[object_id]
        return ""
