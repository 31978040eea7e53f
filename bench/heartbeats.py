"""Measures what a fleet in which nothing changes writes: records and bytes on each topic for each heartbeat.

The last line is JSON.

All services run on a fleet of nodes. A probe reports five conditions of each node, again and again, with the same
statuses. The first reports, which are changes, are not counted. For each topic the result has the records that readers
get, the growth of the log in bytes (as the broker reports it, with batch headers and transaction markers), and both for
each report. Times are shorter than by default, in the same ratio: a node may be silent for four intervals.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness

from moorage.cli.local import services
from moorage.runtime.kafka import clients
from moorage.runtime.kafka.log_sizes import log_sizes
from moorage.runtime.kafka.worker import Worker
from moorage.runtime.settings import Settings
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, RESOURCES, TOPICS, Topic, partition_of

STATUSES = {
    "Ready": ConditionStatus.TRUE,
    "MemoryPressure": ConditionStatus.FALSE,
    "DiskPressure": ConditionStatus.FALSE,
    "PIDPressure": ConditionStatus.FALSE,
    "NetworkUnavailable": ConditionStatus.FALSE,
}
GRACE_INTERVALS = 4
SETTLE = 60.0


class Fleet:
    """The nodes and their probe."""

    def __init__(self, settings: Settings, producer: AIOKafkaProducer, nodes: int) -> None:
        self._settings = settings
        self._producer = producer
        self._targets = [TargetRef(kind=TargetKind.NODE, name=f"node-{number}") for number in range(nodes)]
        self.rounds = 0

    async def declare(self) -> None:
        """Declare the nodes."""
        for target in self._targets:
            metadata = {"name": target.name, "uid": f"uid-{target.name}"}
            declared = ResourceDeclared(object={"apiVersion": "v1", "kind": "Node", "metadata": metadata}, version=1)
            await self._send(RESOURCES, declared.key, target, declared, event_id("declared", target))
        await self._producer.flush()

    async def report(self) -> None:
        """Report every condition of every node once."""
        self.rounds += 1
        for target in self._targets:
            now = datetime.now(UTC)
            for name, status in STATUSES.items():
                report = ConditionReported(
                    target=target,
                    type=name,
                    status=status,
                    reason="KubeletReady",
                    message="kubelet is posting ready status",
                    observed_time=now,
                    source="probe/kubelet",
                )
                await self._send(CONDITION_REPORTS, target.key, target, report, event_id(target, name, self.rounds))
        await self._producer.flush()

    async def _send(self, topic: Topic, key: str, target: TargetRef, event: Any, identity: str) -> None:
        meta = Meta(id=identity, source="probe/kubelet", type=topic.event_type, time=datetime.now(UTC))
        await self._producer.send(
            topic.name(self._settings.topic_prefix),
            event.model_dump_json().encode(),
            key=key.encode(),
            partition=partition_of(target.key, self._settings.partitions),
            headers=to_headers(meta),
        )


async def records(settings: Settings, topics: Sequence[Topic] = TOPICS) -> dict[str, int]:
    """The records of each topic that a reader gets."""
    found: dict[str, int] = {}
    for topic in topics:
        consumer = clients.table_consumer(settings, client_id="bench-reader")
        await consumer.start()
        try:
            parts = [TopicPartition(topic.name(settings.topic_prefix), number) for number in range(settings.partitions)]
            consumer.assign(parts)
            ends = await consumer.end_offsets(parts)
            count = 0
            while any([await consumer.position(part) < ends[part] for part in parts]):
                count += sum(map(len, (await consumer.getmany(timeout_ms=200)).values()))
            found[topic.short] = count
        finally:
            await consumer.stop()
    return found


async def until(settings: Settings, wanted: int) -> None:
    """Wait until `conditions` has that many records."""
    deadline = time.monotonic() + SETTLE
    while (await records(settings, (CONDITIONS,)))[CONDITIONS.short] < wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the first {wanted} reports did not become conditions within {SETTLE:g} s")
        await asyncio.sleep(0.2)


async def measure(nodes: int, rounds: int, interval: float, partitions: int) -> dict[str, Any]:
    """Run the fleet, and return what it wrote."""
    async with harness.kafka() as bootstrap, contextlib.AsyncExitStack() as stack:
        fresh = await harness.fleet(bootstrap, partitions=partitions)
        settings = fresh.model_copy(update={"node_monitor_grace_period": GRACE_INTERVALS * interval})
        producer = await stack.enter_async_context(AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5))
        fleet = Fleet(settings, producer, nodes)
        await fleet.declare()
        for name in services.names():
            await stack.enter_async_context(Worker(services.make(name, settings), settings, partitions=partitions))
        await fleet.report()
        await until(settings, nodes * len(STATUSES))
        harness.note("the first reports have become conditions")
        before, sizes = await records(settings), await log_sizes(settings)
        began = time.monotonic()
        for number in range(rounds):
            await fleet.report()
            await asyncio.sleep(max(0.0, began + (number + 1) * interval - time.monotonic()))
        took = time.monotonic() - began
        await asyncio.sleep(2 * interval)  # what was read last is written within a second
        after, grown = await records(settings), await log_sizes(settings)
    reports = nodes * len(STATUSES) * rounds
    written = {
        short: {"records": after[short] - before[short], "bytes": grown[short] - sizes[short]}
        for short in after
        if after[short] != before[short] or grown[short] != sizes[short]
    }
    for short, found in written.items():
        each = found["bytes"] / reports
        harness.note(f"{short:20} {found['records']:8} records {found['bytes']:10} bytes {each:8.1f} bytes a report")
    return {
        "bench": "heartbeats",
        "nodes": nodes,
        "reports": reports,
        "seconds": round(took, 1),
        "written": written,
        "bytes_per_report": round(sum(found["bytes"] for found in written.values()) / reports, 1),
    }


def main() -> None:
    """Read the options, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two reports of a condition")
    parser.add_argument("--partitions", type=int, default=4)
    given = parser.parse_args()
    harness.run(lambda: measure(given.nodes, given.rounds, given.interval, given.partitions))


if __name__ == "__main__":
    main()
