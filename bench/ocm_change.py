"""Measures the time from the taint of one managed cluster to the last decision that it changes. The last line is JSON.

    .venv/bin/python bench/ocm_change.py [--clusters 1000] [--placements 10000] [--samples 40] [--kafka]

In memory: the placement service runs with all its partitions. The time is measured from the record of the taint to the
last record of a decision, serialized. For comparison, after some of the taints, every placement is decided again, which
is what OCM does when a cluster changes. `touched` is the number of placements that were decided again, and `changed`
the number of those that had the cluster. `ours_cpu_ms` is the CPU time, for a machine that others use too. When the
taint is removed, every placement that could have the cluster is decided again (`untaint_ms`).

With --kafka: the same with a worker of the real service on a broker, from producing the record of the taint until a
read_committed consumer has the decisions of all placements that had the cluster (`kafka_ms`). These are in all
partitions, so there is a transaction in each.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness, ocm_objects

from moorage.runtime import codec
from moorage.runtime.kafka.worker import Worker
from moorage.runtime.service import Emit
from moorage.runtime.settings import Settings
from moorage.workers import placement
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import PLACEMENTS, TAINTS, partition_of

REGIONS = 10
NAMESPACES = 50
NUMBER = 10
READY_WITHIN = 900.0


def placements(count: int) -> Iterable[ocm_objects.Write]:
    """Placements of ten clusters each, from a region, an environment, or both. Half of them have tolerations."""
    for number in range(count):
        labels: dict[str, str] = {}
        if number % 3 != 1:
            labels["region"] = f"r{number % REGIONS}"
        if number % 3 != 0:
            labels["environment"] = ocm_objects.ENVIRONMENTS[number % 4]
        spec: dict[str, Any] = {"numberOfClusters": NUMBER, "predicates": ocm_objects.labelled(**labels)}
        if number % 2:
            spec["tolerations"] = [{"key": "maintenance", "operator": "Exists", "tolerationSeconds": 600}]
        yield ocm_objects.made(number, NAMESPACES, spec)


def owners_of(emits: Iterable[Emit]) -> set[str]:
    """The placements that records are about."""
    return {emit.partition_key for emit in emits}


def in_memory(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the service in memory."""
    process = ocm_objects.Process(options.partitions)
    for topic, key, event in (
        *ocm_objects.clusters(options.clusters, REGIONS),
        *ocm_objects.bindings(NAMESPACES),
    ):
        process.fold(topic, event.key if isinstance(event, ResourceDeclared) else key, event)
    began = time.perf_counter()
    for _, _, event in placements(options.placements):
        process.declare(event)  # type: ignore[arg-type]  # placements are declared
    process.settle()
    first = time.perf_counter() - began
    harness.note(f"decided on {options.placements:,} placements in {first:.1f} s")
    gc.collect()
    gc.freeze()
    seconds, cpu, back, anew, touched, changed = [], [], [], [], [], []
    step = max(1, options.clusters // options.samples)
    for sample in range(options.samples):
        name = ocm_objects.cluster_name(sample * step)
        record = ocm_objects.tainted(name, 2, "broken")
        began, worked = time.perf_counter(), time.process_time()
        process.fold(TAINTS, record.target.key, record)
        touched.append(process.due())
        emits = process.settle()
        for emit in emits:
            codec.serialize(emit)
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - worked)
        changed.append(len(owners_of(emits)))
        began = time.perf_counter()
        for emit in process.decide_all() if sample < options.full else ():
            codec.serialize(emit)
        if sample < options.full:
            anew.append(time.perf_counter() - began)
        began = time.perf_counter()
        gone = ocm_objects.tainted(name, 3)
        process.fold(TAINTS, gone.target.key, gone)
        for emit in process.settle():
            codec.serialize(emit)
        back.append(time.perf_counter() - began)
    return {
        "touched": round(harness.median(touched)),
        "changed": round(harness.median(changed)),
        "ours_ms": round(harness.median(seconds) * 1000, 2),
        "ours_p95_ms": round(sorted(seconds)[int(len(seconds) * 0.95)] * 1000, 2),
        "ours_cpu_ms": round(harness.median(cpu) * 1000, 2),
        "all_anew_ms": round(harness.median(anew) * 1000, 1),
        "ratio": round(harness.median(anew) / harness.median(seconds), 1),
        "untaint_ms": round(harness.median(back) * 1000, 2),
        "first_s": round(first, 2),
    }


class Deployer:
    """Declares all objects, writes taints, and reads the decisions."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.has: dict[str, set[str]] = {}
        self.placed: set[str] = set()
        self.producer = AIOKafkaProducer(
            bootstrap_servers=settings.bootstrap_servers, linger_ms=2, max_batch_size=200_000, acks="all"
        )
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
        )

    async def start(self) -> None:
        """Connect. The consumer reads all decisions."""
        await self.producer.start()
        await self.consumer.start()
        name = PLACEMENTS.name(self.settings.topic_prefix)
        places = [TopicPartition(name, partition) for partition in range(self.settings.partitions)]
        self.consumer.assign(places)
        await self.consumer.seek_to_beginning(*places)

    async def write(self, topic: Any, key: str, partition_key: str, event: Any) -> None:
        """Write one event."""
        meta = Meta(id=event_id(topic.short, key, time.time_ns()), source="bench", type=topic.event_type)
        await self.producer.send(
            topic.name(self.settings.topic_prefix),
            event.model_dump_json().encode(),
            key=key.encode(),
            partition=partition_of(partition_key, self.settings.partitions),
            headers=to_headers(meta),
        )

    async def declare(self, writes: Iterable[ocm_objects.Write]) -> None:
        """Write many events."""
        for topic, partition_key, event in writes:
            key = event.key if isinstance(event, ResourceDeclared) else partition_key
            await self.write(topic, key, partition_key, event)
        await self.producer.flush()

    async def read(self) -> None:
        """Take the decisions that have arrived."""
        for records in (await self.consumer.getmany(timeout_ms=1000)).values():
            for record in records:
                if record.value is None:
                    continue
                event = json.loads(record.value)
                if event["workload"]["kind"] == "Placement":
                    self.placed.add(event["workload"]["name"])
                    continue
                for one in event["removed"]:
                    self.has.get(one, set()).discard(event["owner"]["name"])
                for one in event["added"]:
                    self.has.setdefault(one, set()).add(event["owner"]["name"])

    async def taint(self, name: str) -> tuple[float, int]:
        """Taint a cluster. Returns the seconds until no placement has it any more, and how many had it."""
        had = len(self.has.get(name, ()))
        record = ocm_objects.tainted(name, 2, "broken")
        began = time.perf_counter()
        await self.write(TAINTS, record.target.key, record.target.key, record)
        await self.producer.flush()
        while self.has.get(name):
            await self.read()
        return time.perf_counter() - began, had


async def over_kafka(options: argparse.Namespace) -> dict[str, Any]:
    """Measure a worker of the service on a broker."""
    async with harness.kafka() as bootstrap:
        settings = await harness.fleet(bootstrap, partitions=options.partitions)
        deployer = Deployer(settings)
        await deployer.start()
        await deployer.declare(ocm_objects.clusters(options.clusters, REGIONS))
        await deployer.declare(ocm_objects.bindings(NAMESPACES))
        await deployer.declare(placements(options.placements))
        worker: Worker[Any] = Worker(placement.service(settings), settings, partitions=settings.partitions)
        began = time.perf_counter()
        await worker.start()
        await worker.wait_ready(READY_WITHIN)
        while len(deployer.placed) < options.placements:
            await deployer.read()
        first = time.perf_counter() - began
        harness.note(f"decided on {options.placements:,} placements in {first:.1f} s")
        seconds, had = [], []
        step = max(1, options.clusters // options.samples)
        for sample in range(options.samples):
            await asyncio.sleep(0.1)
            taken, touched = await deployer.taint(ocm_objects.cluster_name(sample * step))
            seconds.append(taken)
            had.append(touched)
            harness.note(f"{touched} placements in {taken * 1000:.0f} ms")
        await worker.stop()
        await deployer.producer.stop()
        await deployer.consumer.stop()
    return {
        "kafka_ms": round(harness.median(seconds) * 1000, 1),
        "kafka_p95_ms": round(sorted(seconds)[int(len(seconds) * 0.95)] * 1000, 1),
        "kafka_changed": round(harness.median(had)),
        "kafka_first_s": round(first, 1),
    }


async def main() -> dict[str, Any]:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--placements", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--full", type=int, default=5, help="number of taints after which everything is decided again")
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--kafka", action="store_true", help="also measure on a broker")
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return {
        "bench": "ocm_change",
        "what": "one cluster's taint to all decisions / deciding again on all placements, median milliseconds",
        "clusters": options.clusters,
        "placements": options.placements,
        "partitions": options.partitions,
        "samples": options.samples,
        **in_memory(options),
        **(await over_kafka(options) if options.kafka else {}),
    }


if __name__ == "__main__":
    harness.run(main)
