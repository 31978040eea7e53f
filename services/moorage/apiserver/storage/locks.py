"""Locks of objects, so that each write sees the result of the write before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from moorage.apiserver.kinds.status.records import ObjectId


class ObjectLocks:
    """One lock for each object that is being written. Others take no memory."""

    def __init__(self) -> None:
        self._locks: dict[ObjectId, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def held(self, object_id: ObjectId) -> AsyncIterator[None]:
        """Hold the lock of an object within the context."""
        lock, users = self._locks.get(object_id, (asyncio.Lock(), 0))
        self._locks[object_id] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(object_id)
            if users > 1:
                self._locks[object_id] = (lock, users - 1)
