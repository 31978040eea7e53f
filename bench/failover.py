"""Measures how long decisions stop when a worker is killed, compared with a plain consumer group.

The last line is JSON.

Ours: two processes of the real eviction service share the bindings of a fleet. For one node in each partition, a taint
is written and removed in turn, every `--tick` seconds. Each change schedules or cancels an eviction. One of the two
processes is killed with SIGKILL. The gap is the longest time without a decision in any partition, from the last one
that was read before the kill to the first one after it. Then a new process takes its place. When the partitions are
shared evenly again and every standby is warm, the next kill follows, of the process that is older.

The limit: two processes with only an aiokafka consumer group and a producer copy the same records to another topic,
with the same times for session and heartbeat. They have no state, and no transactions. They are killed in the same way.

`quiet_s` is the longest time without a decision between a kill's recovery and the next kill, for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness, processes, restore

from moorage.runtime.settings import Settings
from moorage.workers import eviction
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.keys import binding_key
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import BINDINGS, DEAD_LETTERS, EVICTIONS, TAINTS, partition_of

READY_WITHIN: Final = 600.0
WITHIN: Final = 120.0
STEADY: Final = 3.0  # seconds without a disturbance before a kill


def probe_nodes(partitions: int) -> list[TargetRef]:
    """One node for each partition, in the order of the partitions."""
    found: dict[int, TargetRef] = {}
    number = 0
    while len(found) < partitions:
        node = TargetRef(kind=TargetKind.NODE, name=f"probed-{number}")
        found.setdefault(partition_of(node.key, partitions), node)
        number += 1
    return [found[partition] for partition in range(partitions)]


def bindings(count: int, nodes: list[TargetRef]) -> Iterator[restore.Written]:
    """The bindings of the fleet, and one for each probed node."""
    yield from restore.bindings(count)
    for node, bound in zip(nodes, restore.bound_pods(len(nodes)), strict=True):
        pod = bound.workload.model_copy(update={"name": f"on-{node.name}"})
        moved = bound.model_copy(update={"workload": pod, "owner": pod, "target": node})
        yield restore.Written(binding_key(pod, node), node.key, moved)


class Member(Protocol):
    """A process of a group."""

    process: asyncio.subprocess.Process


class Arrivals:
    """Notes when each partition of a topic gets a record, and who wrote it."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings = settings
        self._places = [TopicPartition(topic, number) for number in range(settings.partitions)]
        self.times: list[list[float]] = [[] for _ in self._places]
        self.writers: dict[bytes, float] = {}
        """When the latest record with each value arrived. Plain members write their names."""

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Read meanwhile."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._settings.bootstrap_servers,
            isolation_level="read_committed",
            enable_auto_commit=False,
            fetch_max_wait_ms=50,
        )
        await consumer.start()
        consumer.assign(self._places)
        await consumer.seek_to_end(*self._places)
        reading = asyncio.create_task(self._read(consumer))
        try:
            yield
        finally:
            reading.cancel()
            await consumer.stop()

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            for place, records in (await consumer.getmany(timeout_ms=200)).items():
                now = time.perf_counter()
                self.times[place.partition].append(now)
                for record in records:
                    self.writers[record.value or b""] = now

    async def all_after(self, moment: float) -> None:
        """Wait until every partition has a record that arrived after a moment.

        Raises:
            TimeoutError: a partition has none in time.
        """
        async with asyncio.timeout(WITHIN):
            while not all(times and times[-1] > moment for times in self.times):  # noqa: ASYNC110 - a bench may poll
                await asyncio.sleep(0.01)

    def gap(self, moment: float) -> float:
        """The longest time without a record in any partition, around a moment."""
        longest = 0.0
        for times in self.times:
            before = max((one for one in times if one <= moment), default=moment)
            longest = max(longest, min(one for one in times if one > moment) - before)
        return longest

    def quiet(self, begin: float, end: float) -> float:
        """The longest time without a record in any partition, between two moments."""
        longest = 0.0
        for times in self.times:
            inside = [begin, *(one for one in times if begin < one < end), end]
            longest = max([longest, *(after - before for before, after in itertools.pairwise(inside))])
        return longest


class Prober:
    """Writes a taint for each probed node, and removes it, in turn."""

    def __init__(self, settings: Settings, nodes: list[TargetRef], tick: float) -> None:
        self._settings = settings
        self._nodes = nodes
        self._tick = tick
        self._generation = 0

    async def write(self, producer: AIOKafkaProducer) -> None:
        """Write until cancelled."""
        topic = TAINTS.name(self._settings.topic_prefix)
        await producer.partitions_for(topic)
        due = time.perf_counter()
        while True:
            self._generation += 1
            for partition, node in enumerate(self._nodes):
                value, headers = self._event(node)
                await producer.send(topic, value, key=node.key.encode(), partition=partition, headers=headers)
            due += self._tick
            await asyncio.sleep(max(0.0, due - time.perf_counter()))

    def _event(self, node: TargetRef) -> tuple[bytes, list[tuple[str, bytes]]]:
        now = datetime.now(UTC)
        taint = TaintRecord(
            key="node.kubernetes.io/unreachable",
            effect="NoExecute",
            time_added=now,
            origins=(TaintOrigin.EXPLICIT,),
        )
        event = TargetTainted(
            target=node,
            target_uid=f"uid-{node.name}",
            generation=self._generation,
            taints=(taint,) if self._generation % 2 else (),
        )
        meta = Meta(
            id=event_id("taint", node.key, self._generation),
            source="moorage/taint-manager",
            type=TAINTS.event_type,
            time=now,
        )
        return event.model_dump_json().encode(), to_headers(meta)


async def killed_again_and_again(
    start: Callable[[int], Awaitable[Any]],
    rest: Callable[[list[Any], Arrivals], Awaitable[None]],
    arrivals: Arrivals,
    kills: int,
) -> tuple[list[float], list[float]]:
    """Kill the older of two members again and again. Returns the gaps, and the longest times between them."""
    gaps, quiets = [], []
    members = [await start(0), await start(1)]
    try:
        await rest(members, arrivals)
        for number in range(kills):
            begin = time.perf_counter()
            await asyncio.sleep(STEADY)
            moment = time.perf_counter()
            quiets.append(arrivals.quiet(begin, moment))
            victim = members.pop(0)
            victim.process.kill()
            await victim.process.wait()
            await arrivals.all_after(moment + 0.05)  # what it had written may still arrive
            gaps.append(arrivals.gap(moment + 0.05))
            harness.note(f"kill {number + 1}: {gaps[-1]:.2f} s")
            members.append(await start(number + 2))
            await rest(members, arrivals)
    finally:
        for member in members:
            member.process.kill()
            await member.process.wait()
    return gaps, quiets


async def ours(settings: Settings, options: argparse.Namespace, folder: Path) -> tuple[list[float], list[float]]:
    """The gaps of the eviction service."""
    nodes = probe_nodes(settings.partitions)
    await restore.fill(settings, BINDINGS, bindings(options.bindings, nodes))
    await restore.commit_ends(settings, eviction.service(settings))
    arrivals = Arrivals(settings, EVICTIONS.name(settings.topic_prefix))

    async def start(number: int) -> processes.ServiceProcess:
        (place := folder / str(number)).mkdir()
        return await processes.start_service(
            "eviction", settings, place, environment={"MOORAGE_SESSION_TIMEOUT_MS": str(options.session_ms)}
        )

    async def rest(members: list[Any], arrivals: Arrivals) -> None:
        await processes.settled(members, settings.partitions, within=READY_WITHIN)
        await arrivals.all_after(time.perf_counter())

    return await _probed(settings, options, arrivals, killed_again_and_again(start, rest, arrivals, options.kills))


async def bare(settings: Settings, options: argparse.Namespace, folder: Path) -> tuple[list[float], list[float]]:
    """The gaps of a plain group."""
    arrivals = Arrivals(settings, DEAD_LETTERS.name(settings.topic_prefix))

    async def start(number: int) -> Any:
        process = await processes.spawn(
            [sys.executable, __file__, "--member", str(number), "--session-ms", str(options.session_ms)],
            {
                "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
                "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
            },
            folder / f"bare-{number}.log",
        )
        return argparse.Namespace(process=process, name=str(number).encode())

    async def rest(members: list[Any], arrivals: Arrivals) -> None:
        began = time.perf_counter()
        async with asyncio.timeout(WITHIN):
            while not all(arrivals.writers.get(one.name, 0.0) > began for one in members):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.05)
        await arrivals.all_after(time.perf_counter())

    return await _probed(settings, options, arrivals, killed_again_and_again(start, rest, arrivals, options.kills))


async def _probed(
    settings: Settings,
    options: argparse.Namespace,
    arrivals: Arrivals,
    work: Awaitable[tuple[list[float], list[float]]],
) -> tuple[list[float], list[float]]:
    prober = Prober(settings, probe_nodes(settings.partitions), options.tick)
    async with arrivals.reading(), AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        writing = asyncio.create_task(prober.write(producer))
        try:
            return await work
        finally:
            writing.cancel()


async def copy(options: argparse.Namespace) -> dict[str, Any]:
    """Run as a member of the plain group."""
    prefix, servers = os.environ["MOORAGE_TOPIC_PREFIX"], os.environ["MOORAGE_BOOTSTRAP_SERVERS"]
    settings = Settings(bootstrap_servers=servers, session_timeout_ms=options.session_ms)
    consumer = AIOKafkaConsumer(
        TAINTS.name(prefix),
        bootstrap_servers=servers,
        group_id=f"{prefix}.plain",
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=min(settings.heartbeat_interval_ms, settings.session_timeout_ms // 3),
        fetch_max_wait_ms=50,
        auto_offset_reset="latest",
    )
    target = DEAD_LETTERS.name(prefix)
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer, consumer:
        while True:
            for place, records in (await consumer.getmany(timeout_ms=200)).items():
                for _ in records:
                    await producer.send(target, options.member.encode(), partition=place.partition)


async def main() -> dict[str, Any]:
    """Run both and compare, or run as a member of the plain group."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindings", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--session-ms", type=int, default=Settings.model_fields["session_timeout_ms"].default)
    parser.add_argument("--tick", type=float, default=0.25, help="seconds between two records for each partition")
    parser.add_argument("--member", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    if options.member:
        return await copy(options)
    async with harness.kafka() as bootstrap:
        with tempfile.TemporaryDirectory(prefix="moorage-bench-") as name:
            settings = await harness.fleet(bootstrap, partitions=options.partitions)
            gaps, quiets = await ours(settings, options, Path(name))
            other = await harness.fleet(bootstrap, partitions=options.partitions)
            plain_gaps, _ = await bare(other, options, Path(name))
    return {
        "bench": "failover",
        "what": "seconds without a decision after a worker was killed / the same for a plain consumer group",
        "bindings": options.bindings,
        "partitions": options.partitions,
        "kills": options.kills,
        "session_ms": options.session_ms,
        "tick_s": options.tick,
        "ours_s": round(harness.median(gaps), 2),
        "ours_max_s": round(max(gaps), 2),
        "limit_s": round(harness.median(plain_gaps), 2),
        "limit_max_s": round(max(plain_gaps), 2),
        "quiet_s": round(harness.median(quiets), 2),
        "ratio": round(harness.median(gaps) / harness.median(plain_gaps), 2),
        "ratio_max": round(max(gaps) / max(plain_gaps), 2),
    }


if __name__ == "__main__":
    harness.run(main)
