"""Measures how late evictions are while the taints of their partition change. The last line is JSON.

The real taint-manager, eviction and timer run in this process, each in a worker of the runtime. Each of many nodes in
one partition has a taint and a pod that tolerates it for a limited time, so that deadlines come due all the time. At
the same time, the taints of other nodes in that partition are edited in transactions like those of the gateway, several
edits in each. Lateness is the time from a deadline until a read_committed consumer has the decision to evict. `quiet`
is the same without edits.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness

from moorage.runtime.kafka.worker import Worker
from moorage.runtime.settings import Settings
from moorage.workers import eviction, taint_manager, timer
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.taint import Toleration
from moorage_schemas.topics import BINDINGS, EVICTIONS, RESOURCES, Topic, partition_of

LEAD = 8  # seconds until the first deadline
WITHIN = 60.0


class Edge:
    """Writes in the same way as the gateway, and reads decisions."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.producer = AIOKafkaProducer(
            bootstrap_servers=settings.bootstrap_servers, transactional_id=f"{settings.topic_prefix}.edge", acks="all"
        )
        self.consumer = AIOKafkaConsumer(
            EVICTIONS.name(settings.topic_prefix),
            bootstrap_servers=settings.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self.edited = 0
        self._count = 0

    async def write(self, *records: tuple[Topic, str, Model]) -> None:
        """Write records in one transaction."""
        async with self.producer.transaction():
            for topic, key, event in records:
                self._count += 1
                meta = Meta(id=event_id(topic.short, key, self._count), source="bench", type=topic.event_type)
                await self.producer.send(
                    topic.name(self._settings.topic_prefix),
                    event.model_dump_json().encode(),
                    key=key.encode(),
                    partition=0,
                    headers=to_headers(meta),
                )

    async def edits(self, per_second: float, together: int) -> None:
        """Edit the taints of other nodes continuously."""
        nodes = _nodes("noisy", together, self._settings.partitions)
        while True:
            now = datetime.now(UTC)
            self.edited += 1
            await self.write(
                *((RESOURCES, *_declared(node, now, self.edited, value=f"v{self.edited}")) for node in nodes)
            )
            await asyncio.sleep(1 / per_second)

    async def lateness(self, deadlines: dict[str, datetime]) -> list[float]:
        """The lateness of each eviction in seconds.

        Raises:
            TimeoutError: not all of them arrived in time.
        """
        late: dict[str, float] = {}
        async with asyncio.timeout(LEAD + WITHIN + len(deadlines)):
            while len(late) < len(deadlines):
                for records in (await self.consumer.getmany(timeout_ms=1000)).values():
                    now = time.time()
                    for record in records:
                        decided = EvictionDecided.model_validate_json(record.value)
                        name = decided.target.name
                        if decided.state is EvictionState.REQUESTED and name in deadlines:
                            late[name] = now - deadlines[name].timestamp()
        return list(late.values())


def _nodes(prefix: str, count: int, partitions: int) -> list[TargetRef]:
    """This number of nodes in partition 0."""
    found: list[TargetRef] = []
    number = 0
    while len(found) < count:
        node = TargetRef(kind=TargetKind.NODE, name=f"{prefix}-{number}")
        number += 1
        if not partition_of(node.key, partitions):
            found.append(node)
    return found


def _declared(node: TargetRef, when: datetime, version: int, *, value: str) -> tuple[str, ResourceDeclared]:
    wish = TaintWish(key="maint", effect="NoExecute", value=value, present=True, generation=version, time=when)
    event = ResourceDeclared(
        object={"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "uid": f"uid-{node.name}"}},
        version=version,
        wishes=(wish,),
    )
    return event.key, event


async def fleet(edge: Edge, nodes: list[TargetRef], per_second: float) -> dict[str, datetime]:
    """Declare nodes with a taint and a pod each. Returns the deadlines by node."""
    first = datetime.now(UTC) + timedelta(seconds=LEAD)
    deadlines = {}
    records: list[tuple[Topic, str, Model]] = []
    for number, node in enumerate(nodes):
        deadline = first + timedelta(seconds=number / per_second)
        tolerated = int(number / per_second) + LEAD
        key, declared = _declared(node, deadline - timedelta(seconds=tolerated), 1, value="")
        pod = WorkloadRef(kind="Pod", namespace="default", name=f"on-{node.name}")
        bound = WorkloadBound(
            workload=pod,
            uid=f"uid-{pod.name}",
            owner=pod,
            target=node,
            generation=1,
            bound_time=first,
            tolerations=(Toleration(key="maint", operator="Exists", effect="NoExecute", toleration_seconds=tolerated),),
        )
        records += [(RESOURCES, key, declared), (BINDINGS, f"{pod.key}|{node.key}", bound)]
        deadlines[node.name] = deadline
    await edge.write(*records)
    return deadlines


async def main() -> dict[str, Any]:
    """Measure and return the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--deadlines", type=float, default=5.0, help="a second")
    parser.add_argument(
        "--edits", type=float, default=1000.0, help="maximum number of transactions with edits per second"
    )
    parser.add_argument("--together", type=int, default=200, help="number of edits in a transaction")
    parser.add_argument("--partitions", type=int, default=24)
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    found = {}
    async with harness.kafka() as bootstrap:
        settings = await harness.fleet(bootstrap, partitions=options.partitions)
        edge = Edge(settings)
        await edge.producer.start()
        await edge.consumer.start()
        workers: list[Worker[Any]] = [
            Worker(module.service(settings), settings, partitions=options.partitions)
            for module in (taint_manager, eviction, timer)
        ]
        for worker in workers:
            await worker.start()
        for worker in workers:
            await worker.wait_ready()
        await edge.lateness(await fleet(edge, _nodes("warm", 20, options.partitions), options.deadlines))
        for name, busy in (("quiet", False), ("busy", True)):
            deadlines = await fleet(edge, _nodes(name, options.samples, options.partitions), options.deadlines)
            editing = asyncio.create_task(edge.edits(options.edits, options.together)) if busy else None
            found[name] = sorted(await edge.lateness(deadlines))
            if editing is not None:
                editing.cancel()
                await asyncio.gather(editing, return_exceptions=True)
            harness.note(f"{name}: p50 {harness.median(found[name]) * 1000:.0f} ms")
        for worker in workers:
            await worker.stop()
        for client in (edge.producer, edge.consumer):
            await client.stop()
    return {
        "bench": "lateness",
        "what": "milliseconds from a deadline to the readable decision to evict while the partition's taints change",
        "samples": options.samples,
        "partitions": options.partitions,
        "edits": edge.edited,
        "edits_together": options.together,
        "deadlines_per_s": options.deadlines,
        "quiet_p50_ms": round(harness.median(found["quiet"]) * 1000, 1),
        "quiet_p95_ms": round(found["quiet"][int(options.samples * 0.95)] * 1000, 1),
        "p50_ms": round(harness.median(found["busy"]) * 1000, 1),
        "p95_ms": round(found["busy"][int(options.samples * 0.95)] * 1000, 1),
    }


if __name__ == "__main__":
    harness.run(main)
