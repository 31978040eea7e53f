"""Measures the pods placed per second through Kafka, everything durable. The last line is JSON.

    .venv/bin/python bench/placement.py [--pods 10000] [--nodes 1000,5000] [--replicas 100] [--rounds 1]

The placement service runs as a process of its own, with all partitions, and has caught up with the nodes and their
taints. Then the pods are declared by a plain producer. The clock starts when the first declaration is readable, and
stops when a read_committed reader has the binding of the last pod and the decision on it. So decoding, deciding,
encoding, transactions and their commits are all inside, also the declaring of the other pods meanwhile. The broker and
the reader share the machine with the service.

Three times for each number of nodes: bare pods, pods of Deployments with `--replicas` replicas each, and such pods with
constraints: spread over zones, far from each other, preferred near each other, or with a host port. The pods have 20
different requests. `cpu_us` is the processor time of the service's process for each pod. The limit: a bare aiokafka
producer writes as many records of the same sizes, in transactions of the same partitions (`limit_per_s`, in pods).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness

from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import BINDINGS, PLACEMENTS, RESOURCES, TAINTS, Topic

READY_WITHIN = 120.0
PLACED_WITHIN = 300.0
SHAPES = 20
ZONES = 3
BATCH = 500

Write = tuple[Topic, str, str, Model]
"""Topic, key, partition key, event."""


def declared(document: dict[str, Any]) -> ResourceDeclared:
    """Return the record of an object, with a uid and the priority that admission gives its pods."""
    metadata = document["metadata"]
    metadata["uid"] = f"uid-{document['kind']}-{metadata['name']}"
    return ResourceDeclared(object=document, version=1)


def nodes(count: int) -> Iterator[Write]:
    """Yield nodes in three zones, each with its (empty) taints."""
    for number in range(count):
        name = f"node-{number:05}"
        event, target = declared(harness.node_document(name, f"zone-{number % ZONES}", 64)), harness.node_ref(name)
        yield RESOURCES, event.key, target.key, event
        yield TAINTS, target.key, target.key, TargetTainted(target=target, target_uid=event.uid, generation=1)


def spec(number: int) -> dict[str, Any]:
    """Return the spec of a pod, with what admission adds."""
    return {**harness.pod_spec(f"{100 + 10 * (number % SHAPES)}m"), "priority": 0}


def bare_pods(count: int) -> Iterator[Write]:
    """Yield declared pods."""
    for number in range(count):
        parts = {"metadata": {"labels": {"app": f"app-{number % 50}"}}, "spec": spec(number)}
        event = declared(harness.document("v1", "Pod", f"pod-{number:06}", f"team-{number % 50}", **parts))
        yield RESOURCES, event.key, event.key, event


def deployments(pods: int, replicas: int, *, constrained: bool = False) -> Iterator[Write]:
    """Yield Deployments that together have a number of pods."""
    for number in range(pods // replicas):
        name, namespace = f"app-{number:05}", f"team-{number % 50}"
        more = constraints(number, name) if constrained else {}
        event = declared(harness.deployment_document(name, namespace, replicas, {**spec(number), **more}))
        yield RESOURCES, event.key, event.key, event


def constraints(number: int, name: str) -> dict[str, Any]:
    """Return what a Deployment's pods demand of other pods: one of four things in turn."""
    selector = {"labelSelector": {"matchLabels": {"app": name}}}
    near = {"topologyKey": "topology.kubernetes.io/zone", **selector}
    match number % 4:
        case 0:
            return {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **near}]}
        case 1:
            far = {"topologyKey": "kubernetes.io/hostname", **selector}
            return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [far]}}}
        case 2:
            preferred = [{"weight": 10, "podAffinityTerm": near}]
            return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
        case _:
            containers = spec(number)["containers"]
            port = {"containerPort": 80, "hostPort": 8000 + number}
            return {"containers": [{**container, "ports": [port]} for container in containers]}


class Client:
    """Declares objects, and reads bindings and decisions; an async context manager."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.readable = 0.0
        """When the first declaration was readable; 0 before that."""

        self.bound: set[bytes] = set()
        self.decided: set[bytes] = set()
        self.sizes = [0, 0]
        """The bytes of the values of bindings and of decisions."""

        self.writer = harness.Writer(settings, linger_ms=2, acks="all")
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
        )

    async def __aenter__(self) -> Self:
        await self.writer.__aenter__()
        await self.consumer.start()
        places = harness.places_of(self.settings, BINDINGS, PLACEMENTS)
        self.consumer.assign(places)
        await self.consumer.seek_to_end(*places)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.writer.__aexit__()
        await self.consumer.stop()

    async def write(self, writes: Iterable[Write]) -> None:
        """Write many events. The first is written alone, so that it is known when it is readable."""
        for topic, key, partition_key, event in writes:
            sent = await self.writer.send(topic, key, event, partition_key=partition_key, time=datetime.now(UTC))
            if not self.readable:
                await sent
                self.readable = time.perf_counter()
        await self.writer.flush()

    async def placed(self, count: int) -> float:
        """Wait until the bindings of, and the decisions on, a number of pods are committed. Return when they were."""
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
    async with Client(settings) as client:
        await client.write(nodes(node_count))
        service = await harness.ServiceProcess.start(
            "placement", settings, folder, MOORAGE_PARTITIONS=str(options.partitions)
        )
        try:
            await service.ready(READY_WITHIN)
            busy, client.readable = service.cpu_seconds(), 0.0
            writing = asyncio.create_task(client.write(writes))
            end = await client.placed(options.pods)
            await writing
            cpu = service.cpu_seconds() - busy
        finally:
            await service.stop()
    seconds = end - client.readable
    return {
        "per_s": round(options.pods / seconds),
        "seconds": round(seconds, 2),
        "cpu_us": round(cpu / options.pods * 1e6),
        "binding_bytes": round(client.sizes[0] / options.pods),
        "decision_bytes": round(client.sizes[1] / options.pods),
    }


async def limit(bootstrap: str, options: argparse.Namespace, sizes: tuple[int, int]) -> float:
    """Return the pods per second of bare producers, one for each partition, with records of these sizes."""
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
    parser = harness.parser(__doc__, pods=10_000, nodes="1000,5000", replicas=100, partitions=24, rounds=1)
    options = parser.parse_args()
    if options.pods % options.replicas:
        parser.error("--pods must be a multiple of --replicas")
    results: list[dict[str, Any]] = []
    limits = []
    with tempfile.TemporaryDirectory(prefix="moorage-bench-") as folder:
        async with harness.kafka() as bootstrap:
            for count in map(int, options.nodes.split(",")):
                for what, writes in (
                    ("bare pods", list(bare_pods(options.pods))),
                    ("pods of Deployments", list(deployments(options.pods, options.replicas))),
                    ("constrained pods", list(deployments(options.pods, options.replicas, constrained=True))),
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
