"""Measures what a fleet in which nothing changes writes: records and bytes on each topic for each heartbeat.

The last line is JSON.

All services run on a fleet of nodes. A probe reports five conditions of each node, again and again, with the same
statuses. The first reports, which are changes, are not counted. For each topic the result has the records that readers
get, the growth of the log in bytes (as the broker reports it, with batch headers and transaction markers), and both for
each report. Times are shorter than by default, in the same ratio: a node may be silent for four intervals. With
`--nodes 5000 --interval 10 --rounds 6 --partitions 24` they are those of a large fleet.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness
from tests.support.log_sizes import log_sizes

from moorage.cli.local import services
from moorage.runtime.chains import grouped
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, RESOURCES, TOPICS, Topic

GRACE_INTERVALS = 4
SETTLE = 60.0


async def declare(writer: harness.Writer, nodes: int) -> None:
    """Declare the nodes."""
    for number in range(nodes):
        metadata = {"uid": f"uid-{number}"}
        node = ResourceDeclared(object=harness.document("v1", "Node", f"node-{number}", metadata=metadata), version=1)
        await writer.send(RESOURCES, node.key, node, partition_key=f"Node/node-{number}", time=datetime.now(UTC))
    await writer.flush()


async def report(writer: harness.Writer, nodes: int) -> None:
    """Report every condition of every node once."""
    for number in range(nodes):
        target, now = harness.node_ref(f"node-{number}"), datetime.now(UTC)
        for name, status in harness.CONDITIONS.items():
            event = ConditionReported(
                target=target, type=name, status=ConditionStatus(status), observed_time=now, **harness.KUBELET
            )
            await writer.send(CONDITION_REPORTS, target.key, event, time=now)
    await writer.flush()


async def records(settings: Settings, *topics: Topic) -> dict[str, int]:
    """Return the number of records of each topic that a reader gets."""
    found = dict.fromkeys((topic.short for topic in topics), 0)
    async for topic, batch in harness.read(settings, *topics):
        found[topic.short] += len(batch)
    return found


async def until(settings: Settings, wanted: int) -> None:
    """Wait until `conditions` has that many records."""
    deadline = time.monotonic() + SETTLE
    while (await records(settings, CONDITIONS))[CONDITIONS.short] < wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the first {wanted} reports did not become conditions within {SETTLE:g} s")
        await asyncio.sleep(0.2)


async def measure(nodes: int, rounds: int, interval: float, partitions: int) -> dict[str, Any]:
    """Run the fleet, and return what it wrote."""
    async with harness.kafka() as bootstrap, contextlib.AsyncExitStack() as stack:
        fresh = await harness.fleet(bootstrap, partitions=partitions)
        settings = fresh.model_copy(update={"node_monitor_grace_period": GRACE_INTERVALS * interval})
        writer = await stack.enter_async_context(harness.Writer(settings, "probe/kubelet"))
        await declare(writer, nodes)
        for names in grouped(services.names()).values():
            chain = [services.make(name, settings) for name in names]
            await stack.enter_async_context(Worker(chain, settings, partitions=partitions))
        await report(writer, nodes)
        await until(settings, nodes * len(harness.CONDITIONS))
        harness.note("the first reports have become conditions")
        before, sizes = await records(settings, *TOPICS), await log_sizes(settings)
        began = time.monotonic()
        for number in range(rounds):
            await report(writer, nodes)
            await asyncio.sleep(max(0.0, began + (number + 1) * interval - time.monotonic()))
        took = time.monotonic() - began
        await asyncio.sleep(2 * interval)  # what was read last is written within a second
        after, grown = await records(settings, *TOPICS), await log_sizes(settings)
    reports = nodes * len(harness.CONDITIONS) * rounds
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


async def main() -> dict[str, Any]:
    """Read the options, and measure."""
    given = harness.parser(__doc__, nodes=100, rounds=60, interval=1.0, partitions=4).parse_args()
    return await measure(given.nodes, given.rounds, given.interval, given.partitions)


if __name__ == "__main__":
    harness.run(main)
