"""Machines that do what they are told: each node is ready, and each workload is healthy where it was placed."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from moorage_schemas.condition import HEALTHY, ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, RESOURCES

_SOURCE: Final = "tests/kubelets"
_AGAIN: Final = 2.0  # seconds between two reports, since one that comes before the node or binding is known is lost
_READY: Final = "Ready"


class Machines:
    """A probe and a deployer for all nodes."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._prefix = prefix
        self._producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
        self._consumer = AIOKafkaConsumer(
            RESOURCES.name(prefix),
            BINDINGS.name(prefix),
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self._nodes: set[str] = set()
        self._running: dict[str, WorkloadBound] = {}

    async def run(self) -> None:
        """Report until cancelled."""
        await self._producer.start()
        await self._consumer.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow())
                tasks.create_task(self._heartbeats())
        finally:
            await self._consumer.stop()
            await self._producer.stop()

    async def _follow(self) -> None:
        resources = RESOURCES.name(self._prefix)
        async for record in self._consumer:
            key = (record.key or b"").decode()
            if record.topic != resources:
                if record.value:
                    bound = WorkloadBound.model_validate_json(record.value)
                    self._running[key] = bound
                    await self._report(bound.target, HEALTHY, bound.workload)
                else:
                    self._running.pop(key, None)
            elif key.startswith(f"{TargetKind.NODE.value}/"):
                name = key.split("/")[-1]
                known = name in self._nodes
                (self._nodes.add if record.value else self._nodes.discard)(name)
                if record.value and not known:
                    await self._ready(name)

    async def _heartbeats(self) -> None:
        while True:
            await asyncio.sleep(_AGAIN)
            for name in sorted(self._nodes):
                await self._ready(name)
            for bound in list(self._running.values()):
                await self._report(bound.target, HEALTHY, bound.workload)

    async def _ready(self, node: str) -> None:
        await self._report(TargetRef(kind=TargetKind.NODE, name=node), _READY)

    async def _report(self, target: TargetRef, condition: str, workload: WorkloadRef | None = None) -> None:
        event = ConditionReported(
            target=target,
            workload=workload,
            type=condition,
            status=ConditionStatus.TRUE,
            observed_time=datetime.now(UTC),
            source=_SOURCE,
        )
        meta = Meta(id=str(uuid.uuid4()), source=_SOURCE, type=event.event_type, time=event.observed_time)
        await self._producer.send(
            CONDITION_REPORTS.name(self._prefix),
            event.model_dump_json().encode(),
            key=target.key.encode(),
            headers=to_headers(meta),
        )


@asynccontextmanager
async def machines(bootstrap: str, prefix: str) -> AsyncIterator[None]:
    """Machines that report until the end of the context."""
    task = asyncio.create_task(Machines(bootstrap, prefix).run(), name="machines")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
