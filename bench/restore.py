"""Measures the restore of the eviction service from many bindings, compared with a bare reader of the same topic.

The last line is JSON.

Ours: a worker of the real eviction service starts with committed offsets at the end of `bindings`, so it restores all
of them before it is ready. The result is the seconds from its start until it is ready, including the group and the
producers. `bytes_per_binding` is the growth of the process's memory for each binding. The limit: an aiokafka consumer
reads the same partitions read_committed from beginning to end, and ignores the records. Both run in turn. Memory is
measured in our first round.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness

from moorage.runtime.kafka.worker import Worker
from moorage.runtime.settings import Settings
from moorage.workers.eviction.service import Eviction
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.taint import Toleration
from moorage_schemas.topics import BINDINGS, partition_of

PODS_A_NODE = 100
READY_WITHIN = 900.0


def bindings(count: int) -> Iterator[WorkloadBound]:
    """Bindings with the tolerations that admission adds, two for 300 s each, and two requests."""
    now = datetime.now(UTC)
    tolerations = tuple(
        Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect="NoExecute", toleration_seconds=300)
        for key in ("not-ready", "unreachable")
    )
    for number in range(count):
        pod = WorkloadRef(kind="Pod", namespace=f"team-{number % 50}", name=f"web-{number}")
        yield WorkloadBound(
            workload=pod,
            uid=f"{number:032x}",
            owner=WorkloadRef(kind="Deployment", namespace=pod.namespace, name=f"web-{number // 10}"),
            target=TargetRef(kind=TargetKind.NODE, name=f"node-{number // PODS_A_NODE}"),
            generation=1,
            tolerations=tolerations,
            requests={"cpu": 250, "memory": 268_435_456},
            bound_time=now,
        )


async def fill(settings: Settings, bound: Iterable[WorkloadBound]) -> None:
    """Write the bindings."""
    name = BINDINGS.name(settings.topic_prefix)
    async with AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers, linger_ms=5, max_batch_size=200_000
    ) as producer:
        for number, binding in enumerate(bound):
            meta = Meta(
                id=event_id("binding", number),
                source="moorage/placement",
                type=BINDINGS.event_type,
                time=binding.bound_time,
            )
            await producer.send(
                name,
                binding.model_dump_json().encode(),
                key=f"{binding.workload.key}|{binding.target.key}".encode(),
                partition=partition_of(binding.target.key, settings.partitions),
                headers=to_headers(meta),
            )
            if number % 100_000 == 0:
                harness.note(f"written: {number:,}")


async def commit_ends(settings: Settings) -> None:
    """Commit offsets as if the group had processed everything."""
    places = places_of(settings)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        group_id=f"{settings.topic_prefix}.{Eviction.name}",
        enable_auto_commit=False,
    )
    await consumer.start()
    consumer.assign(places)
    await consumer.commit(await consumer.end_offsets(places))
    await consumer.stop()


def places_of(settings: Settings) -> list[TopicPartition]:
    """The partitions of `bindings`."""
    name = BINDINGS.name(settings.topic_prefix)
    return [TopicPartition(name, partition) for partition in range(settings.partitions)]


async def ours(settings: Settings) -> tuple[float, int]:
    """The seconds until the worker is ready, and the growth of the process in bytes."""
    gc.collect()
    before = harness.memory()
    worker: Worker[Any] = Worker(Eviction(), settings, partitions=settings.partitions)
    began = time.perf_counter()
    await worker.start()
    await worker.wait_ready(READY_WITHIN)
    seconds = time.perf_counter() - began
    grown = harness.memory() - before
    await worker.stop()
    gc.collect()
    return seconds, grown


async def bare(settings: Settings, count: int) -> float:
    """The seconds to read the topic."""
    places = places_of(settings)
    began = time.perf_counter()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
    )
    await consumer.start()
    consumer.assign(places)
    await consumer.seek_to_beginning(*places)
    left = count
    while left > 0:
        left -= sum(map(len, (await consumer.getmany(timeout_ms=1000, max_records=2000)).values()))
    seconds = time.perf_counter() - began
    await consumer.stop()
    return seconds


async def main() -> dict[str, Any]:
    """Run both in turn and compare their medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindings", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    async with harness.kafka() as bootstrap:
        settings = await harness.fleet(bootstrap, partitions=options.partitions)
        await fill(settings, bindings(options.bindings))
        await commit_ends(settings)
        our_seconds, bare_seconds, grown = [], [], 0
        for round_ in range(options.rounds):
            seconds, bytes_ = await ours(settings)
            grown = grown or bytes_
            our_seconds.append(seconds)
            bare_seconds.append(await bare(settings, options.bindings))
            harness.note(f"round {round_ + 1}: ours {seconds:.1f} s, bare reader {bare_seconds[-1]:.1f} s")
            await asyncio.sleep(0)
    median_ours, median_bare = harness.median(our_seconds), harness.median(bare_seconds)
    return {
        "bench": "restore",
        "what": "seconds to restore the eviction service from its bindings / bare aiokafka reader of the same topic",
        "bindings": options.bindings,
        "partitions": options.partitions,
        "rounds": options.rounds,
        "ours_s": round(median_ours, 2),
        "limit_s": round(median_bare, 2),
        "ratio": round(median_ours / median_bare, 2),
        "bindings_per_s": round(options.bindings / median_ours),
        "bytes_per_binding": round(grown / options.bindings),
    }


if __name__ == "__main__":
    harness.run(main)
