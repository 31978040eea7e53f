"""Measures the processor time and the memory of what `moorage up` runs, while nothing is decided.

The last line is JSON.

The embedded Kafka, the services in one process, and the gateway run with one partition, as `moorage up` starts them for
a new fleet. Measured is first an empty fleet. Then a probe, whose own time is not counted, reports a condition of each
node again and again: all nodes at once, and the nodes one after the other, evenly spread over the interval. No status
changes. Memory is the proportional share of each process, so that shared pages count once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness
from bench.heartbeats import declare

from moorage.cli.local.stack import EMBEDDED_PARTITIONS, Stack
from moorage.runtime.embedded import EmbeddedKafka
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.topics import CONDITION_REPORTS

_STEP: Final = 0.01  # seconds between two batches of evenly spread reports
_INTERVALS: Final = 9  # before a measurement, until all that followed from the first reports is written
_SETTLE: Final = 20.0  # seconds before an empty fleet is measured
_AT_ONCE, _SPREAD = "at once", "spread"


async def report(writer: harness.Writer, nodes: int, interval: float, how: str) -> None:
    """Report that each node is ready, once an interval, until cancelled."""
    began = time.monotonic()
    sent = 0
    for number in itertools.count():
        passed = time.monotonic() - began
        due = nodes * (1 + int(passed / interval)) if how == _AT_ONCE else int(passed / interval * nodes)
        for one in range(sent, due):
            target, now = harness.node_ref(f"node-{one % nodes}"), datetime.now(UTC)
            event = ConditionReported(
                target=target, type="Ready", status=ConditionStatus.TRUE, observed_time=now, **harness.KUBELET
            )
            await writer.send(CONDITION_REPORTS, target.key, event, time=now)
        sent = due
        await asyncio.sleep(max(0.0, began + (number + 1) * _STEP - time.monotonic()))


@contextlib.asynccontextmanager
async def reporting(settings: Settings, nodes: int, interval: float, how: str) -> AsyncIterator[None]:
    """Let the nodes report meanwhile."""
    async with harness.Writer(settings, "probe/kubelet") as writer:
        task = asyncio.create_task(report(writer, nodes, interval, how))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def megabytes(pid: int) -> float:
    """Return the proportional share of memory of a process, in MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


async def used(pids: Mapping[str, int], seconds: float) -> dict[str, Any]:
    """Return the percentage of one core that each process takes, and the memory of all."""
    before = {name: harness.cpu_seconds(pid) for name, pid in pids.items()}
    began = time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    percent = {name: 100 * (harness.cpu_seconds(pid) - before[name]) / took for name, pid in pids.items()}
    memory = round(sum(megabytes(pid) for pid in pids.values()))
    shares = {name: round(one, 2) for name, one in percent.items()}
    return {"percent": round(sum(percent.values()), 2), "megabytes": memory, "of": shares}


async def measure(nodes: int, interval: float, seconds: float) -> dict[str, Any]:
    """Run the fleet, and return what it uses."""
    found: dict[str, dict[str, Any]] = {}

    def note(case: str, one: dict[str, Any]) -> None:
        found[case] = one
        harness.note(f"{case}: {one['percent']} % of a core, {one['megabytes']} MB ({one['of']})")

    with tempfile.TemporaryDirectory(prefix="moorage-bench-") as name:
        folder = Path(name)
        async with EmbeddedKafka(folder / "kafka") as broker:
            settings = Settings(bootstrap_servers=broker.bootstrap, partitions=EMBEDDED_PARTITIONS, gateway_port=0)
            await ensure_topics(settings)
            async with Stack(settings, folder / "up", lambda _: None, together=True) as stack:
                pids = {"kafka": broker.pid} | {one.spec.name: one.pid for one in stack.supervisor.children}
                await asyncio.sleep(_SETTLE)
                note("an empty fleet", await used(pids, seconds))
                async with harness.Writer(settings) as writer:
                    await declare(writer, nodes)
                for how in (_AT_ONCE, _SPREAD):
                    async with reporting(settings, nodes, interval, how):
                        await asyncio.sleep(_INTERVALS * interval)
                        whole = max(1, round(seconds / interval)) * interval
                        note(f"{nodes:,} nodes, {how}", await used(pids, whole))
    return {
        "bench": "rest",
        "what": "percent of a core of `moorage up` while nothing is decided",
        "nodes": nodes,
        "interval": interval,
        "seconds": seconds,
        "cases": found,
    }


async def main() -> dict[str, Any]:
    """Read the options, and measure."""
    given = harness.parser(__doc__, nodes=5000, interval=10.0, seconds=40.0).parse_args()
    return await measure(given.nodes, given.interval, given.seconds)


if __name__ == "__main__":
    harness.run(main)
