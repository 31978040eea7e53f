"""All controllers of a gateway, their inputs and their tasks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from moorage.apiserver.controllers.events import EventRecorder
from moorage.apiserver.controllers.eviction_requests import EvictionRequestKeeper
from moorage.apiserver.controllers.garbage_collector import GarbageCollector, NamespaceKeeper, Sweeper
from moorage.apiserver.controllers.machine_sets import MachineKeeper
from moorage.apiserver.controllers.roles import RoleAggregator, SetRoleKeeper
from moorage.apiserver.controllers.rollouts import RolloutKeeper
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.writer import Writer
from moorage.runtime.process.clock import Clock
from moorage.runtime.process.failures import restarted


class ControllerManager:
    """The gateway's own controllers, which follow the objects that change."""

    def __init__(self, store: Store, writer: Writer, clock: Clock, recorder: EventRecorder | None = None) -> None:
        sweeper = Sweeper(writer)
        followers = (
            MachineKeeper(store, writer),
            NamespaceKeeper(store, writer),
            GarbageCollector(store, writer),
            RolloutKeeper(store, writer),
            EvictionRequestKeeper(store, writer),
            RoleAggregator(store, writer, clock),
            SetRoleKeeper(store, writer),
            *((recorder,) if recorder is not None else ()),
        )
        self._followers = followers
        self._all = (sweeper, *followers)
        store.evicted = sweeper.found
        store.applied = self._applied

    @property
    def busy(self) -> bool:
        """Whether one of them has something to do."""
        return any(one.busy for one in self._all)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let them work within the context."""
        tasks = [asyncio.create_task(restarted(type(one).__name__, one.run)) for one in self._all]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _applied(self) -> None:
        for one in self._followers:
            one.applied()
