"""Measures the time from a report to the eviction decision at low load, compared with bare loops in a row.

The last line is JSON.

Ours: the real condition-ingest, taint-manager, eviction and timer as a chain, and the governor, in workers of the
runtime, all in this process, without zone rates and without a wait before the taint that evicts. A report that a node
is not ready is produced. The time is measured until a read_committed consumer has the decision to evict the pod that is
bound there. There are three transactions in between: the condition, with the taint that does not evict and the node's
state for its zone; the governor's grant; the taint that evicts, with the eviction. With `--alone 1` each service has a
worker of its own, and there are five: the first and the last of these three are two each. Reports are sent one at a
time, with a pause after each. `ours_cpu_ms` is the processor time of this process for each of our samples, without
Kafka's.

The limit: a record on the same way through Kafka, through as many bare loops. Each loop has a read_committed consumer,
and a transactional producer that passes the record on as soon as it arrives. All loops run in this process. They commit
no offsets, because Moorage does not do so in each transaction, either (decision 0007); `with_offsets_ms` is the same
with an offset in each transaction. Samples are taken in turn. Those before every partition was warm are left out.
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness

from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, taint_manager, timer
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, EVICTIONS, RESOURCES

STAGES, STAGES_ALONE = 3, 5
"""The transactions between a report and a decision."""

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


async def declare(writer: harness.Writer, nodes: list[TargetRef]) -> None:
    """Declare nodes with one bound pod each, and a node that stays ready."""
    now = datetime.now(UTC)
    for node in (*nodes, harness.node_ref(WITNESS)):
        metadata = {"uid": f"uid-{node.name}"}
        declared = ResourceDeclared(object=harness.document("v1", "Node", node.name, metadata=metadata), version=1)
        await writer.send(RESOURCES, declared.key, declared, partition_key=node.key)
        pod = WorkloadRef(kind="Pod", namespace="default", name=f"on-{node.name}")
        bound = WorkloadBound(workload=pod, uid=f"uid-{pod.name}", owner=pod, target=node, generation=1, bound_time=now)
        await writer.send(BINDINGS, f"{pod.key}|{node.key}", bound, partition_key=node.key)
    await writer.flush()


def consumer_of_decisions(settings: Settings) -> AIOKafkaConsumer:
    """Return a read_committed consumer of all decisions on evictions."""
    return AIOKafkaConsumer(
        EVICTIONS.name(settings.topic_prefix),
        bootstrap_servers=settings.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


async def evict(writer: harness.Writer, decisions: AIOKafkaConsumer, node: TargetRef) -> float:
    """Return the seconds from a report to the decision."""
    failed = {**harness.KUBELET, "reason": "KubeletNotReady", "status": ConditionStatus.FALSE}
    report = ConditionReported(target=node, type="Ready", observed_time=datetime.now(UTC), **failed)
    began = time.perf_counter()
    await (await writer.send(CONDITION_REPORTS, node.key, report))
    while True:
        for records in (await decisions.getmany(timeout_ms=15_000)).values():
            for record in records:
                decided = EvictionDecided.model_validate_json(record.value)
                if decided.target == node and decided.state is EvictionState.REQUESTED:
                    return time.perf_counter() - began


class Chain:
    """Bare loops in a row: each reads a topic, and passes its records on to the next topic in a transaction.

    Args:
        settings: the address of Kafka, and the prefix of the topics.
        stages: the number of loops.
        offsets: whether each transaction commits the offset that it has read, too.
    """

    def __init__(self, settings: Settings, *, stages: int, offsets: bool) -> None:
        self._settings = settings
        self._offsets = offsets
        name = f"{settings.topic_prefix}.chain{'-offsets' if offsets else ''}"
        self._topics = [f"{name}-{stage}" for stage in range(stages + 1)]
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

    async def __aenter__(self) -> Self:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._settings.bootstrap_servers)
        await admin.start()
        await admin.create_topics([NewTopic(topic, 1, 1) for topic in self._topics])
        await admin.close()
        for client in (self._first, *self._producers, *self._consumers):
            await client.start()
        for topic, consumer in zip(self._topics, self._consumers, strict=True):
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_end()
        self._loops = [asyncio.create_task(self._pass_on(stage)) for stage in range(len(self._producers))]
        return self

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
        """Return the seconds from writing a record to reading it at the end."""
        began = time.perf_counter()
        await self._first.send_and_wait(self._topics[0], b"x" * 400, key=b"k", partition=0)
        while not await self._consumers[-1].getmany(timeout_ms=15_000):
            if any(loop.done() for loop in self._loops):
                raise RuntimeError("a loop has ended")
        return time.perf_counter() - began

    async def __aexit__(self, *_: object) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        for client in (self._first, *self._producers, *self._consumers):
            await client.stop()


async def main() -> dict[str, Any]:
    """Take samples in turn and compare their medians."""
    options = harness.parser(__doc__, samples=60, partitions=24, alone=0).parse_args()
    stages = STAGES_ALONE if options.alone else STAGES
    random.seed(4)
    async with harness.kafka() as bootstrap, AsyncExitStack() as stack:
        settings = (await harness.fleet(bootstrap, partitions=options.partitions)).model_copy(update=LIFTED)
        writer = await stack.enter_async_context(harness.Writer(settings, acks="all", linger_ms=0))
        decisions = await stack.enter_async_context(consumer_of_decisions(settings))
        bare = await stack.enter_async_context(Chain(settings, stages=stages, offsets=False))
        with_offsets = await stack.enter_async_context(Chain(settings, stages=stages, offsets=True))
        warm_up = 3 * options.partitions  # the first transaction on a partition takes longer, in both
        nodes = [harness.node_ref(f"node-{number}") for number in range(options.samples + warm_up)]
        await declare(writer, nodes)
        chained = [module.service(settings) for module in (condition_ingest, taint_manager, eviction, timer)]
        forms = [[service] for service in chained] if options.alone else [chained]
        for services in ([governor.service(settings)], *forms):
            worker = Worker(services, settings, partitions=settings.partitions)
            await stack.enter_async_context(worker)
            await worker.wait_ready()
        harness.note("ready")
        ours, limits, others, processor = [], [], [], []
        for number, node in enumerate(nodes):
            began = time.process_time()
            ours.append(await evict(writer, decisions, node))
            processor.append(time.process_time() - began)
            await asyncio.sleep(PAUSE * (0.5 + random.random()))
            limits.append(await bare.run())
            await asyncio.sleep(PAUSE * (0.5 + random.random()))
            others.append(await with_offsets.run())
            await asyncio.sleep(PAUSE * (0.5 + random.random()))
            if number % 20 == 0:
                harness.note(f"{number}: {ours[-1] * 1000:.1f} ms, bare {limits[-1] * 1000:.1f} ms")
    ours, limits, others = ours[warm_up:], limits[warm_up:], others[warm_up:]
    median_ours, median_limit = harness.median(ours), harness.median(limits)
    return {
        "bench": "latency",
        "what": "report to eviction decision / a record through as many bare loops in a row, median milliseconds",
        "samples": len(ours),
        "partitions": options.partitions,
        "ours_ms": round(median_ours * 1000, 2),
        "transactions": stages,
        "ours_cpu_ms": round(harness.median(processor[warm_up:]) * 1000, 2),
        "ours_p95_ms": round(sorted(ours)[int(len(ours) * 0.95)] * 1000, 2),
        "limit_ms": round(median_limit * 1000, 2),
        "limit_p95_ms": round(sorted(limits)[int(len(limits) * 0.95)] * 1000, 2),
        "with_offsets_ms": round(harness.median(others) * 1000, 2),
        "ratio": round(median_ours / median_limit, 3),
    }


if __name__ == "__main__":
    harness.run(main)
