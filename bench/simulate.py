"""Measures simulations: a fleet is built in memory, copied, and run without and with a change.

    python bench/simulate.py --nodes 5000 --pods 20000 --zones 10

The output states the seconds to build the fleet (not part of a simulation), the seconds to read the copy from Kafka
with `--kafka` (its topics are filled first), and for each change the seconds of both runs together, the number of
service calls, and the result. On Kafka every record is written three times, so that most of the records read are
outdated.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import resource
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import history
from bench.harness import fleet, kafka

from moorage.runtime.app import GC_THRESHOLDS
from moorage.runtime.service import Input
from moorage.runtime.settings import Settings
from moorage.simulation.copy import run
from moorage.simulation.copy.gateway import ADDRESS, Edge
from moorage.simulation.copy.snapshot import COMPACTED, Kept, Snapshot
from moorage.simulation.copy.stack import MemoryStack
from moorage.simulation.diff import changes, report
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, resource_partition_key
from moorage_schemas.topics import CONDITION_REPORTS, RESOURCES, TOPICS

PARTITIONS = 24
START = datetime.now(UTC)
_REPLICAS = 100
_TIMES = 3


def build(nodes: int, pods: int, zones: int, start: datetime = START) -> MemoryStack:
    """A fleet at rest, with ready nodes and deployments of a hundred pods each."""
    # The grace period is long because the measurement takes longer than 40 s, and there are no reports during it.
    settings = Settings(partitions=PARTITIONS, node_monitor_grace_period=86_400)
    stack = MemoryStack(run.services(settings), partitions=PARTITIONS, start=start)
    for number in range(nodes):
        name = f"n{number:05}"
        labels = {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": f"z{number % zones}"}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
            "spec": {},
            "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}},
        }
        _declare(stack, body)
        target = TargetRef(kind=TargetKind.NODE, name=name)
        event = ConditionReported(target=target, type="Ready", status=ConditionStatus.TRUE, observed_time=start)
        stack.produce(CONDITION_REPORTS, target.key, event, source="kubelet")
    stack.run()
    for number in range(pods // _REPLICAS):
        deploy(stack, f"d{number:04}", _REPLICAS)
    stack.run()
    return stack


def deploy(stack: MemoryStack, name: str, replicas: int) -> None:
    """Declare a Deployment with the tolerations that admission adds."""
    spec = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}],
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
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }
    _declare(stack, body)


def _declare(stack: MemoryStack, body: dict[str, Any]) -> None:
    event = ResourceDeclared(object=body, version=1)
    stack.produce(RESOURCES, event.key, event, partition_key=resource_partition_key(event.key))


def copy_of(stack: MemoryStack) -> Snapshot:
    """The last record of each key."""
    last: dict[tuple[str, str], Kept] = {}
    for topic in TOPICS:
        for record in stack.records(topic):
            found = record.decode()
            if isinstance(found, Input):
                last[topic.short, record.name] = Kept.of(found)
    return Snapshot.of(
        last.values(),
        partitions=stack.partitions,
        positions=stack.committed,
        ends=stack.topics.ends,
        taken=stack.now,
    )


def _outage(text: str) -> run.Change:
    def change(edge: Edge, stack: MemoryStack) -> list[str]:
        found = changes.ZoneOutage.parse(text).targets(stack)
        events = changes.outage(stack, found, ConditionStatus.UNKNOWN)
        with httpx.Client(base_url=ADDRESS, transport=edge.transport) as client:
            for begin in range(0, len(events), 1000):
                headers = {"content-type": "application/cloudevents-batch+json"}
                client.post("/v1/conditions", json=events[begin : begin + 1000], headers=headers).raise_for_status()
        return [text]

    return change


async def through_kafka(stack: MemoryStack) -> tuple[Snapshot, float, int]:
    """Write the fleet's records to a new broker and read the copy. Returns it, the seconds, and the records written."""
    async with kafka() as bootstrap:
        settings = await fleet(bootstrap, partitions=PARTITIONS)
        written = 0
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, max_batch_size=500_000) as producer:
            for topic in TOPICS:
                name = topic.name(settings.topic_prefix)
                for _ in range(_TIMES if topic in COMPACTED else 1):
                    for record in stack.records(topic):
                        await producer.send(
                            name,
                            record.value,
                            key=record.key,
                            partition=record.partition,
                            headers=list(record.headers),
                        )
                        written += 1
            await producer.flush()
        await committed(settings, stack)
        began = time.perf_counter()
        snapshot = await Snapshot.load(settings, services=run.services(settings))
        return snapshot, time.perf_counter() - began, written


async def committed(settings: Settings, stack: MemoryStack) -> None:
    """Commit offsets as if every service had processed everything."""
    for service in stack.services.values():
        consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap_servers,
            group_id=f"{settings.topic_prefix}.{service.name}",
            enable_auto_commit=False,
        )
        await consumer.start()
        tps = [
            TopicPartition(topic.name(settings.topic_prefix), p) for topic in service.sources for p in range(PARTITIONS)
        ]
        consumer.assign(tps)
        await consumer.commit(await consumer.end_offsets(tps))
        await consumer.stop()


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--zones", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--kafka", action="store_true")
    given = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    began = time.perf_counter()
    stack = build(given.nodes, given.pods, given.zones)
    snapshot, built = copy_of(stack), time.perf_counter() - began
    read: dict[str, Any] = {}
    if given.kafka:
        snapshot, seconds, written = asyncio.run(through_kafka(stack))
        read = {"read_seconds": round(seconds, 1), "read_records": written}
    del stack
    found: dict[str, Any] = {
        "bench": "simulate",
        "nodes": given.nodes,
        "pods": given.pods,
        "records": sum(1 for _ in snapshot.all()),
        "build_seconds": round(built, 1),
        **read,
        "changes": {},
    }
    for name, text in {"one node": "node=n00000", "one zone": "zone=r/z0", "everything": "region=r"}.items():
        began, cpu = time.perf_counter(), time.process_time()
        simulated = run.simulate(snapshot, Settings(), _outage(text), timedelta(minutes=given.minutes))
        ran = time.perf_counter() - began
        said = report.document(simulated)
        found["changes"][name] = {
            "seconds": round(ran, 1),
            "cpu_seconds": round(time.process_time() - cpu, 1),
            "report_seconds": round(time.perf_counter() - began - ran, 1),
            "steps": simulated.steps,
            **said["summary"],
        }
    found["max_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    history.record(found)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
