"""Measures the pods placed per second through Kafka, everything durable. The last line is JSON.

    .venv/bin/python bench/placement.py [--pods 10000] [--nodes 1000,5000] [--replicas 100] [--rounds 1]
                                        [--profile FILE]

The placement service runs as a process of its own, with all partitions, and has caught up with the nodes and their
taints. Then the pods are declared by a plain producer. The clock starts when the first declaration is readable, and
stops when a read_committed reader has the binding of the last pod and the decision on it. So decoding, deciding,
encoding, transactions and their commits are all inside, also the declaring of the other pods meanwhile. The broker and
the reader share the machine with the service.

Twice for each number of nodes: bare pods, and pods of Deployments with `--replicas` replicas each. The pods have 20
different requests. `cpu_us` is the processor time of the service's process for each pod. The limit: a bare aiokafka
producer writes as many records of the same sizes, in transactions of the same partitions (`limit_per_s`, in pods).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness, processes

from moorage.runtime.settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import BINDINGS, PLACEMENTS, RESOURCES, TAINTS, Topic, partition_of

READY_WITHIN = 120.0
PLACED_WITHIN = 300.0
SHAPES = 20
ZONES = 3
BATCH = 500

Write = tuple[Topic, str, str, Model]
"""Topic, key, partition key, event."""


def declared(api: str, kind: str, name: str, namespace: str = "", **parts: Any) -> ResourceDeclared:
    """A resource."""
    metadata = {"name": name, "uid": f"uid-{kind}-{name}"} | ({"namespace": namespace} if namespace else {})
    metadata |= parts.pop("metadata", {})
    return ResourceDeclared(object={"apiVersion": api, "kind": kind, "metadata": metadata, **parts}, version=1)


def nodes(count: int) -> Iterator[Write]:
    """Nodes in three zones, each with its (empty) taints. There is room for 110 pods on each."""
    for number in range(count):
        name = f"node-{number:05}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % ZONES}"}
        status = {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}}
        event = declared("v1", "Node", name, metadata={"labels": labels}, status=status)
        target = TargetRef(kind=TargetKind.NODE, name=name)
        yield RESOURCES, event.key, target.key, event
        yield TAINTS, target.key, target.key, TargetTainted(target=target, target_uid=event.uid, generation=1)


def spec(number: int) -> dict[str, Any]:
    """The spec of a pod, with what admission adds."""
    requests = {"cpu": f"{100 + 10 * (number % SHAPES)}m", "memory": "128Mi"}
    return {
        "containers": [{"name": "main", "image": "app:1", "resources": {"requests": requests}}],
        "priority": 0,
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for key in ("not-ready", "unreachable")
        ],
    }


def bare_pods(count: int) -> Iterator[Write]:
    """Declared pods."""
    for number in range(count):
        labels = {"app": f"app-{number % 50}"}
        event = declared(
            "v1", "Pod", f"pod-{number:06}", f"team-{number % 50}", metadata={"labels": labels}, spec=spec(number)
        )
        yield RESOURCES, event.key, event.key, event


def deployments(pods: int, replicas: int) -> Iterator[Write]:
    """Deployments that together have a number of pods."""
    for number in range(pods // replicas):
        app = {"app": f"app-{number}"}
        event = declared(
            "apps/v1",
            "Deployment",
            f"app-{number:05}",
            f"team-{number % 50}",
            spec={
                "replicas": replicas,
                "selector": {"matchLabels": app},
                "template": {"metadata": {"labels": app}, "spec": spec(number)},
            },
        )
        yield RESOURCES, event.key, event.key, event


class Client:
    """Declares objects, and reads bindings and decisions."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.readable = 0.0
        """When the first declaration was readable; 0 before that."""

        self.bound: set[bytes] = set()
        self.decided: set[bytes] = set()
        self.sizes = [0, 0]
        """The bytes of the values of bindings and of decisions."""

        self.producer = AIOKafkaProducer(
            bootstrap_servers=settings.bootstrap_servers, linger_ms=2, max_batch_size=200_000, acks="all"
        )
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
        )

    async def start(self) -> None:
        """Connect. The reader begins at the end of both topics."""
        await self.producer.start()
        await self.consumer.start()
        names = [topic.name(self.settings.topic_prefix) for topic in (BINDINGS, PLACEMENTS)]
        places = [TopicPartition(name, number) for name in names for number in range(self.settings.partitions)]
        self.consumer.assign(places)
        await self.consumer.seek_to_end(*places)

    async def stop(self) -> None:
        """Disconnect."""
        await self.producer.stop()
        await self.consumer.stop()

    async def write(self, writes: Iterable[Write]) -> None:
        """Write many events. The first is written alone, so that it is known when it is readable."""
        last = None
        for topic, key, partition_key, event in writes:
            meta = Meta(
                id=event_id(topic.short, key, time.time_ns()),
                source="bench",
                type=topic.event_type,
                time=datetime.now(UTC),
            )
            last = await self.producer.send(
                topic.name(self.settings.topic_prefix),
                event.model_dump_json().encode(),
                key=key.encode(),
                partition=partition_of(partition_key, self.settings.partitions),
                headers=to_headers(meta),
            )
            if not self.readable:
                await last
                self.readable = time.perf_counter()
        await self.producer.flush()

    async def placed(self, count: int) -> float:
        """Wait until the bindings of, and the decisions on, a number of pods are committed. Returns when they were."""
        bindings = BINDINGS.name(self.settings.topic_prefix)
        async with asyncio.timeout(PLACED_WITHIN):
            while len(self.bound) < count or len(self.decided) < count:
                for place, records in (await self.consumer.getmany(timeout_ms=500, max_records=5000)).items():
                    is_binding = place.topic == bindings
                    seen = self.bound if is_binding else self.decided
                    for record in records:
                        if record.value is not None and (is_binding or b'"state":"Placed"' in record.value):
                            seen.add(record.key)
                            self.sizes[not is_binding] += len(record.value)
        return time.perf_counter()


async def ours(
    bootstrap: str, options: argparse.Namespace, node_count: int, writes: list[Write], folder: Path
) -> dict[str, Any]:
    """Place all pods of some declarations on a new fleet."""
    settings = await harness.fleet(bootstrap, partitions=options.partitions)
    client = Client(settings)
    await client.start()
    await client.write(nodes(node_count))
    environment = {"MOORAGE_PARTITIONS": str(options.partitions)}
    service = await processes.start_service("placement", settings, folder, environment=environment)
    profiler = None
    try:
        await service.ready(READY_WITHIN)
        if options.profile:
            command = [options.py_spy, "record", "-o", options.profile, "-f", "raw", "-r", "100"]
            profiler = await asyncio.create_subprocess_exec(*command, "-p", str(service.process.pid))
        busy, client.readable = service.cpu_seconds(), 0.0
        writing = asyncio.create_task(client.write(writes))
        end = await client.placed(options.pods)
        await writing
        cpu = service.cpu_seconds() - busy
    finally:
        if profiler is not None:
            profiler.send_signal(signal.SIGINT)
            await profiler.wait()
        await service.stop()
        await client.stop()
    seconds = end - client.readable
    return {
        "per_s": round(options.pods / seconds),
        "seconds": round(seconds, 2),
        "cpu_us": round(cpu / options.pods * 1e6),
        "binding_bytes": round(client.sizes[0] / options.pods),
        "decision_bytes": round(client.sizes[1] / options.pods),
    }


async def limit(bootstrap: str, options: argparse.Namespace, sizes: tuple[int, int]) -> float:
    """The pods per second of a bare producer for each partition that writes records of these sizes in transactions."""
    settings = await harness.fleet(bootstrap, partitions=options.partitions)
    name = BINDINGS.name(settings.topic_prefix)
    values = [b"x" * size for size in sizes]

    async def write(partition: int, pods: int) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=f"{settings.topic_prefix}-{partition}", linger_ms=2
        ) as producer:
            await ready.wait()
            for begin in range(0, pods, BATCH // 2):
                async with producer.transaction():
                    for number, value in itertools.product(range(begin, min(pods, begin + BATCH // 2)), values):
                        await producer.send(name, value, key=b"%d" % number, partition=partition)

    ready = asyncio.Barrier(options.partitions + 1)
    share = options.pods // options.partitions
    tasks = [asyncio.create_task(write(partition, share)) for partition in range(options.partitions)]
    await ready.wait()
    began = time.perf_counter()
    await asyncio.gather(*tasks)
    return float(share * options.partitions / (time.perf_counter() - began))


async def main() -> dict[str, Any]:
    """Run all in turn, and return the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", default="1000,5000", help="numbers of nodes, separated by commas")
    parser.add_argument("--replicas", type=int, default=100, help="number of replicas of a Deployment")
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--profile", help="the file for a profile of the service, written by py-spy")
    parser.add_argument("--py-spy", default="py-spy", help="the program that profiles")
    options = parser.parse_args()
    if options.pods % options.replicas:
        parser.error("--pods must be a multiple of --replicas")
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    results: list[dict[str, Any]] = []
    limits = []
    with tempfile.TemporaryDirectory(prefix="moorage-bench-") as folder:
        async with harness.kafka() as bootstrap:
            for count in map(int, options.nodes.split(",")):
                for what, writes in (
                    ("bare pods", list(bare_pods(options.pods))),
                    ("pods of Deployments", list(deployments(options.pods, options.replicas))),
                ):
                    rounds = [
                        await ours(bootstrap, options, count, writes, Path(folder)) for _ in range(options.rounds)
                    ]
                    found = {name: round(harness.median([one[name] for one in rounds]), 2) for name in rounds[0]}
                    results.append({"nodes": count, "what": what, **found})
                    harness.note(f"{what} on {count:,} nodes: {found}")
                    limits.append(
                        await limit(bootstrap, options, (int(found["binding_bytes"]), int(found["decision_bytes"])))
                    )
    return {
        "bench": "placement",
        "what": "pods placed per second, from the first declaration readable to the last binding committed",
        "pods": options.pods,
        "replicas": options.replicas,
        "partitions": options.partitions,
        "rounds": options.rounds,
        "limit_per_s": round(harness.median(limits)),
        "results": results,
    }


if __name__ == "__main__":
    harness.run(main)
