"""Measures the time from a report to the eviction decision at low load, compared with bare loops in a row.

The last line is JSON.

Ours: the real condition-ingest, taint-manager, governor and eviction, each in a worker of the runtime, all in this
process, without zone rates and without a wait before the taint that evicts. A report that a node is not ready is
produced. The time is measured until a read_committed consumer has the decision to evict the pod that is bound there.
There are five transactions in between: the condition; the taint that does not evict, with the node's state for its
zone; the governor's grant; the taint that evicts; the eviction. Reports are sent one at a time, with a pause after
each.

The limit: a record on the same way through Kafka, through five bare loops. Each loop has a read_committed consumer, and
a transactional producer that passes the record on as soon as it arrives. All loops run in this process. They commit no
offsets, because Moorage does not do so in each transaction, either (decision 0007); `with_offsets_ms` is the same with
an offset in each transaction. Samples are taken in turn. Those before every partition was warm are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness

from moorage.runtime.kafka.worker import Worker
from moorage.runtime.settings import Settings
from moorage.workers import condition_ingest, eviction, governor, taint_manager
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, EVICTIONS, RESOURCES, Topic, partition_of

STAGES = 5
LIFTED = {
    "node_eviction_rate": math.inf,
    "secondary_node_eviction_rate": math.inf,
    "large_cluster_size_threshold": 0,
    "node_monitor_period": 0.0,
    "node_monitor_grace_period": 0.0,  # each node sends only one report, and must not count as silent
}
"""Nothing delays the taint that evicts, apart from the request to the governor."""

WITNESS = "node-that-stays"
"""A node that stays ready. If all nodes were down, none would be tainted."""

RETRY_MS = 2
"""Milliseconds before a bare loop repeats a request that the broker refuses because it still ends the transaction
before."""

PAUSE = 0.15  # seconds between samples, so that the load is low and transactions do not follow each other directly


class Fleet:
    """The probe, and the consumer of decisions."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.producer = AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers, acks="all")
        self.consumer = AIOKafkaConsumer(
            EVICTIONS.name(settings.topic_prefix),
            bootstrap_servers=settings.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    async def write(self, topic: Topic, key: str, partition_key: str, event: Model) -> None:
        """Write one event as a third party would."""
        meta = Meta(id=event_id(topic.short, key, time.time_ns()), source="bench", type=topic.event_type)
        await self.producer.send_and_wait(
            topic.name(self.settings.topic_prefix),
            event.model_dump_json().encode(),
            key=key.encode(),
            partition=partition_of(partition_key, self.settings.partitions),
            headers=to_headers(meta),
        )

    async def declare(self, nodes: list[TargetRef]) -> None:
        """Declare nodes with one bound pod each, and a node that stays ready."""
        now = datetime.now(UTC)
        for node in (*nodes, TargetRef(kind=TargetKind.NODE, name=WITNESS)):
            declared = ResourceDeclared(
                object={"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "uid": f"uid-{node.name}"}},
                version=1,
            )
            await self.write(RESOURCES, declared.key, node.key, declared)
            pod = WorkloadRef(kind="Pod", namespace="default", name=f"on-{node.name}")
            bound = WorkloadBound(
                workload=pod, uid=f"uid-{pod.name}", owner=pod, target=node, generation=1, bound_time=now
            )
            await self.write(BINDINGS, f"{pod.key}|{node.key}", node.key, bound)

    async def evict(self, node: TargetRef) -> float:
        """The seconds from a report to the decision."""
        report = ConditionReported(
            target=node,
            type="Ready",
            status=ConditionStatus.FALSE,
            reason="KubeletNotReady",
            observed_time=datetime.now(UTC),
            source="probe/kubelet",
        )
        began = time.perf_counter()
        await self.write(CONDITION_REPORTS, node.key, node.key, report)
        while True:
            for records in (await self.consumer.getmany(timeout_ms=15_000)).values():
                for record in records:
                    decided = EvictionDecided.model_validate_json(record.value)
                    if decided.target == node and decided.state is EvictionState.REQUESTED:
                        return time.perf_counter() - began


class Chain:
    """Bare loops in a row: each reads a topic, and passes its records on to the next topic in a transaction.

    Args:
        settings: the address of Kafka, and the prefix of the topics.
        offsets: whether each transaction commits the offset that it has read, too.
    """

    def __init__(self, settings: Settings, *, offsets: bool) -> None:
        self._settings = settings
        self._offsets = offsets
        name = f"{settings.topic_prefix}.chain{'-offsets' if offsets else ''}"
        self._topics = [f"{name}-{stage}" for stage in range(STAGES + 1)]
        self._first = AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers, acks="all")
        self._producers = [
            AIOKafkaProducer(
                bootstrap_servers=settings.bootstrap_servers,
                transactional_id=topic,
                acks="all",
                retry_backoff_ms=RETRY_MS,
            )
            for topic in self._topics[:-1]
        ]
        self._consumers = [
            AIOKafkaConsumer(
                bootstrap_servers=settings.bootstrap_servers,
                group_id=f"{topic}-group",
                isolation_level="read_committed",
                enable_auto_commit=False,
            )
            for topic in self._topics
        ]
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Create the topics and start the loops."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self._settings.bootstrap_servers)
        await admin.start()
        await admin.create_topics([NewTopic(topic, 1, 1) for topic in self._topics])
        await admin.close()
        for client in (self._first, *self._producers, *self._consumers):
            await client.start()
        for topic, consumer in zip(self._topics, self._consumers, strict=True):
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_end()
        self._loops = [asyncio.create_task(self._pass_on(stage)) for stage in range(STAGES)]

    async def _pass_on(self, stage: int) -> None:
        consumer, producer = self._consumers[stage], self._producers[stage]
        source, sink = TopicPartition(self._topics[stage], 0), self._topics[stage + 1]
        while True:
            records = (await consumer.getmany(timeout_ms=15_000)).get(source, [])
            if not records:
                continue
            await producer.begin_transaction()
            delivered = [await producer.send(sink, one.value, key=one.key, partition=0) for one in records]
            if self._offsets:
                await producer.send_offsets_to_transaction({source: records[-1].offset + 1}, f"{source.topic}-group")
            for one in delivered:
                await one
            await producer.commit_transaction()

    async def run(self) -> float:
        """The seconds from writing a record to reading it at the end."""
        began = time.perf_counter()
        await self._first.send_and_wait(self._topics[0], b"x" * 400, key=b"k", partition=0)
        while not await self._consumers[-1].getmany(timeout_ms=15_000):
            if any(loop.done() for loop in self._loops):
                raise RuntimeError("a loop has ended")
        return time.perf_counter() - began

    async def stop(self) -> None:
        """Stop the loops and the clients."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        for client in (self._first, *self._producers, *self._consumers):
            await client.stop()


async def main() -> dict[str, Any]:
    """Take samples in turn and compare their medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--partitions", type=int, default=24)
    options = parser.parse_args()
    random.seed(4)
    quiet = logging.getLogger("aiokafka")
    quiet.setLevel(logging.CRITICAL)
    async with harness.kafka() as bootstrap:
        settings = (await harness.fleet(bootstrap, partitions=options.partitions)).model_copy(update=LIFTED)
        fleet = Fleet(settings)
        bare, with_offsets = Chain(settings, offsets=False), Chain(settings, offsets=True)
        await fleet.producer.start()
        await fleet.consumer.start()
        await bare.start()
        await with_offsets.start()
        warm_up = 3 * options.partitions  # the first transaction on a partition takes longer, in both
        nodes = [TargetRef(kind=TargetKind.NODE, name=f"node-{number}") for number in range(options.samples + warm_up)]
        await fleet.declare(nodes)
        workers: list[Worker[Any]] = [
            Worker(module.service(settings), settings, partitions=settings.partitions)
            for module in (condition_ingest, taint_manager, governor, eviction)
        ]
        for worker in workers:
            await worker.start()
        for worker in workers:
            await worker.wait_ready()
        harness.note("ready")
        ours, limits, others = [], [], []
        for number, node in enumerate(nodes):
            ours.append(await fleet.evict(node))
            await asyncio.sleep(PAUSE * (0.5 + random.random()))
            limits.append(await bare.run())
            await asyncio.sleep(PAUSE * (0.5 + random.random()))
            others.append(await with_offsets.run())
            await asyncio.sleep(PAUSE * (0.5 + random.random()))
            if number % 20 == 0:
                harness.note(f"{number}: {ours[-1] * 1000:.1f} ms, bare {limits[-1] * 1000:.1f} ms")
        for worker in workers:
            await worker.stop()
        for client in (fleet.producer, fleet.consumer, bare, with_offsets):
            await client.stop()
    ours, limits, others = ours[warm_up:], limits[warm_up:], others[warm_up:]
    median_ours, median_limit = harness.median(ours), harness.median(limits)
    return {
        "bench": "latency",
        "what": "report to eviction decision / a record through five bare loops in a row, median milliseconds",
        "samples": len(ours),
        "partitions": options.partitions,
        "ours_ms": round(median_ours * 1000, 2),
        "ours_p95_ms": round(sorted(ours)[int(len(ours) * 0.95)] * 1000, 2),
        "limit_ms": round(median_limit * 1000, 2),
        "limit_p95_ms": round(sorted(limits)[int(len(limits) * 0.95)] * 1000, 2),
        "with_offsets_ms": round(harness.median(others) * 1000, 2),
        "ratio": round(median_ours / median_limit, 3),
    }


if __name__ == "__main__":
    harness.run(main)
