"""Measures evictions decided per second, compared with bare transactions on this machine. The last line is JSON.

Ours: a process of the real eviction service has restored the bindings of a fleet without taints. Then one taint that no
pod tolerates is written for every node. The time is measured from the first of those records until this process has
read the last `evictions` record (read_committed). There are no limits: no budget, no pause, no rate.

The limit: a process that contains only an aiokafka transactional producer writes the same records (keys, values,
headers, partitions) in transactions of 500 with `producer.send`. The time is measured from its start signal until the
last record is read in the same way. `limit_batched` is the same with `create_batch` and `send_batch`, for comparison.
All three run in turn, each round with a fleet of its own. After each round the benchmark checks that every pod has
exactly one eviction, and that it is Requested.

Karmada's number was published by its users (its issue 7495). It was not measured here.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness, processes, restore

from moorage.runtime.settings import Settings
from moorage.workers import eviction
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import BINDINGS, EVICTIONS, TAINTS, partition_of

BATCH = 500
KARMADA_PER_S = 82
READY_WITHIN = 300.0
WITHIN = 300.0
Record = harness.Record


def bindings(pods: int, nodes: int) -> Iterator[restore.Written]:
    """Pods of Deployments with ten replicas each, spread over the nodes, with the tolerations that admission adds."""
    for number, bound in enumerate(restore.bound_pods(pods)):
        namespace = f"team-{number // 10 % 50}"
        pod = bound.workload.model_copy(update={"namespace": namespace})
        owner = bound.owner.model_copy(update={"namespace": namespace})
        node = TargetRef(kind=TargetKind.NODE, name=f"node-{number % nodes}")
        moved = bound.model_copy(update={"workload": pod, "owner": owner, "target": node})
        yield restore.Written(binding_key(pod, node), node.key, moved)


def taint_records(nodes: int, partitions: int) -> list[Record]:
    """One untolerated taint for each node."""
    now = datetime.now(UTC)
    taint = TaintRecord(
        key="example.com/maintenance",
        value="rack",
        effect="NoExecute",
        time_added=now,
        origins=(TaintOrigin.EXPLICIT,),
    )
    found = []
    for number in range(nodes):
        target = TargetRef(kind=TargetKind.NODE, name=f"node-{number}")
        event = TargetTainted(target=target, target_uid=f"uid-{number}", generation=1, taints=(taint,))
        meta = Meta(id=event_id("taint", number), source="moorage/taint-manager", type=TAINTS.event_type, time=now)
        value = event.model_dump_json().encode()
        found.append((partition_of(target.key, partitions), target.key.encode(), value, to_headers(meta)))
    return found


class Reader:
    """Reads new records of `evictions` and keeps them."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings = settings
        self._places = [TopicPartition(topic, number) for number in range(settings.partitions)]
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
        )
        self.records: list[Any] = []

    async def __aenter__(self) -> Self:
        await self._consumer.start()
        self._consumer.assign(self._places)
        await self._consumer.seek_to_end(*self._places)
        for place in self._places:
            await self._consumer.position(place)  # so that the seek has taken effect
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()

    async def until(self, count: int) -> float:
        """Read this number of records. Returns when the last one was read.

        Raises:
            TimeoutError: they did not arrive in time.
        """
        async with asyncio.timeout(WITHIN):
            while len(self.records) < count:
                for batch in (await self._consumer.getmany(timeout_ms=200, max_records=10_000)).values():
                    self.records += batch
        return time.perf_counter()


async def ours(settings: Settings, pods: int, nodes: int, folder: Path) -> tuple[float, list[Record]]:
    """The seconds that the evictions took, and the records.

    Raises:
        RuntimeError: an eviction is missing, duplicate or wrong.
    """
    await restore.fill(settings, BINDINGS, bindings(pods, nodes))
    await restore.commit_ends(settings, eviction.service(settings))
    service = await processes.start_service("eviction", settings, folder)
    try:
        await service.ready(READY_WITHIN)
        taints = taint_records(nodes, settings.partitions)
        name = TAINTS.name(settings.topic_prefix)
        async with (
            Reader(settings, EVICTIONS.name(settings.topic_prefix)) as reader,
            AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer,
        ):
            await producer.partitions_for(name)
            began = time.perf_counter()
            for partition, key, value, headers in taints:
                await producer.send(name, value, key=key, partition=partition, headers=headers)
            ended = await reader.until(pods)
            records = [(r.partition, r.key, r.value, list(r.headers)) for r in reader.records]
    finally:
        await service.stop()
    check(records, pods)
    return ended - began, records


def check(records: list[Record], pods: int) -> None:
    """Check that every pod is evicted exactly once.

    Raises:
        RuntimeError: a pod is not.
    """
    decided = [EvictionDecided.model_validate_json(value) for _, _, value, _ in records]
    wrong = [event for event in decided if event.state is not EvictionState.REQUESTED]
    workloads = {event.workload.key for event in decided}
    if wrong or len(workloads) != pods or len(decided) != pods:
        raise RuntimeError(
            f"{pods} pods, {len(decided)} evictions of {len(workloads)} pods, {len(wrong)} not Requested {wrong[:1]}"
        )


async def bare(settings: Settings, records: list[Record], folder: Path, *, batched: bool) -> float:
    """The seconds that the bare producer took for the same records."""
    replay = folder / "records.pickle"
    replay.write_bytes(pickle.dumps(records))
    # The same topic is used. It has grown, and the reader starts at its end.
    topic = EVICTIONS.name(settings.topic_prefix)
    process = await processes.spawn(
        [sys.executable, __file__, "--writer", str(replay), "--topic", topic] + (["--batched"] if batched else []),
        {"MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers},
        folder / "writer.log",
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the writer has no pipes")
    async with Reader(settings, topic) as reader:
        await process.stdout.readline()
        began = time.perf_counter()
        process.stdin.write(b"go\n")
        ended = await reader.until(len(records))
    process.stdin.close()
    await process.wait()
    return ended - began


async def write(options: argparse.Namespace) -> dict[str, Any]:
    """Run as the bare producer's process."""
    records: list[Record] = pickle.loads(options.writer.read_bytes())  # noqa: S301 - written by this program itself
    records.sort(key=lambda record: record[0])  # The sort is stable, so a transaction has one or two partitions.
    producer = AIOKafkaProducer(
        bootstrap_servers=os.environ["MOORAGE_BOOTSTRAP_SERVERS"],
        transactional_id=f"{options.topic}.bare-{os.getpid()}",
        max_batch_size=900_000,
        retry_backoff_ms=20,
        acks="all",
    )
    await producer.start()
    await producer.partitions_for(options.topic)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    for start in range(0, len(records), BATCH):
        async with producer.transaction():
            chunk = records[start : start + BATCH]
            if options.batched:
                await harness.send_batched(producer, options.topic, chunk)
            else:
                for partition, key, value, headers in chunk:
                    await producer.send(options.topic, value, key=key, partition=partition, headers=headers)
    await producer.stop()
    return {"records": len(records)}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run both in turn and compare."""
    our_rates, bare_rates, batched_rates, sizes = [], [], [], []
    async with harness.kafka() as bootstrap:
        for round_ in range(options.rounds):
            with tempfile.TemporaryDirectory(prefix="moorage-bench-") as name:
                folder = Path(name)
                settings = await harness.fleet(bootstrap, partitions=options.partitions)
                seconds, records = await ours(settings, options.pods, options.nodes, folder)
                our_rates.append(options.pods / seconds)
                sizes.append(sum(len(value) for _, _, value, _ in records) / len(records))
                bare_rates.append(options.pods / await bare(settings, records, folder, batched=False))
                batched_rates.append(options.pods / await bare(settings, records, folder, batched=True))
            harness.note(
                f"round {round_ + 1}: ours {our_rates[-1]:,.0f}/s, bare {bare_rates[-1]:,.0f}/s "
                f"(batched {batched_rates[-1]:,.0f}/s), ratio {our_rates[-1] / bare_rates[-1]:.2f}"
            )
    ratios = [mine / limit for mine, limit in zip(our_rates, bare_rates, strict=True)]
    median_ours = harness.median(our_rates)
    return {
        "bench": "evictions",
        "what": "evictions decided and readable per second / the same records from a bare transactional producer",
        "pods": options.pods,
        "nodes": options.nodes,
        "partitions": options.partitions,
        "batch": BATCH,
        "rounds": options.rounds,
        "value_bytes": round(harness.median(sizes)),
        "ours": round(median_ours),
        "limit": round(harness.median(bare_rates)),
        "limit_batched": round(harness.median(batched_rates)),
        "ratio": round(harness.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "karmada_published": KARMADA_PER_S,
        "times_karmada": round(median_ours / KARMADA_PER_S, 1),
    }


async def main() -> dict[str, Any]:
    """Measure, or run as the bare producer's process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=15_000)
    parser.add_argument("--nodes", type=int, default=500, help="number of nodes with pods; all are tainted")
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--writer", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--topic", default="", help=argparse.SUPPRESS)
    parser.add_argument("--batched", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return await (write(options) if options.writer else measure(options))


if __name__ == "__main__":
    harness.run(main)
