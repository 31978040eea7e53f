"""Measures one stage of the pipeline, compared with a bare aiokafka transaction loop on the same records.

The last line is JSON.

The stage is the real condition-ingest in a worker of the runtime: partition owner, checks, state, headers,
deterministic ids. The limit is the minimum that a program with aiokafka has to do: `getmany`, `orjson.loads` and
`dumps` of each value, `producer.send` with the same key, `send_offsets_to_transaction`, commit. It has the same batch
size, one output record for each input record, read_committed, and the same client settings. `limit_with_defaults` is
the loop with aiokafka's own retry backoff, for comparison. All read the same topic from beginning to end, in turn, each
round with a group of its own. The time is measured from the first processed record to the commit of the last one.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, RESOURCES, partition_of

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness

from moorage.runtime.kafka.worker import Worker
from moorage.runtime.settings import Settings
from moorage.workers.condition_ingest.service import ConditionIngest

TARGETS = 200
TYPES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
BATCH = 500


async def fill(settings: Settings, records: int) -> None:
    """Declare the targets and write the reports, each newer than the one before."""
    began = datetime.now(UTC) - timedelta(hours=1)
    targets = [TargetRef(kind=TargetKind.NODE, name=f"node-{number}") for number in range(TARGETS)]
    async with AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers, linger_ms=5, max_batch_size=200_000
    ) as producer:
        for target in targets:
            declared = ResourceDeclared(
                object={"kind": "Node", "metadata": {"name": target.name, "uid": f"uid-{target.name}"}}, version=1
            )
            meta = Meta(id=event_id(target), source="bench", type=RESOURCES.event_type)
            await producer.send(
                RESOURCES.name(settings.topic_prefix),
                declared.model_dump_json().encode(),
                key=declared.key.encode(),
                partition=partition_of(target.key, settings.partitions),
                headers=to_headers(meta),
            )
        for number in range(records):
            target = targets[number % TARGETS]
            report = ConditionReported(
                target=target,
                type=TYPES[number // TARGETS % len(TYPES)],
                # Each report changes its condition, so that it is written.
                status=ConditionStatus.TRUE if number // (TARGETS * len(TYPES)) % 2 else ConditionStatus.FALSE,
                reason="KubeletReady",
                message="kubelet is posting ready status",
                observed_time=began + timedelta(milliseconds=number),
                source="probe/kubelet",
            )
            meta = Meta(
                id=event_id("report", number),
                source="probe/kubelet",
                type=CONDITION_REPORTS.event_type,
                time=report.observed_time,
                traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            )
            await producer.send(
                CONDITION_REPORTS.name(settings.topic_prefix),
                report.model_dump_json().encode(),
                key=target.key.encode(),
                partition=partition_of(target.key, settings.partitions),
                headers=to_headers(meta),
            )


class Watched(ConditionIngest):
    """The service, which notes when it got its first record."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.first = 0.0
        self.seen = 0

    def process(self, *args: Any, **options: Any) -> Any:
        """Note the time, then process the records."""
        if not self.first:
            self.first = time.perf_counter()
        self.seen += len(args[1])
        return super().process(*args, **options)


async def ours(settings: Settings, records: int, round_: int) -> float:
    """The records per second of the stage."""
    service = Watched(settings)
    # A separate group, and so separate transactional ids. The state starts empty because each round's group writes it.
    type(service).name = f"condition-ingest-{round_}"
    worker = Worker(service, settings, partitions=settings.partitions)
    await worker.start()
    while True:
        await asyncio.sleep(0.002)
        done = sum(
            owner._engine._committed.get(CONDITION_REPORTS, 0)  # noqa: SLF001 - the time of the commit is measured
            for owner in worker.owners.values()
        )
        if done >= records:
            break
    ended = time.perf_counter()
    await worker.stop()
    return records / (ended - service.first)


async def bare(settings: Settings, records: int, round_: str, backoff_ms: int) -> float:
    """The records per second of the bare loop."""
    source, sink = CONDITION_REPORTS.name(settings.topic_prefix), f"{settings.topic_prefix}.bare.v1"
    group = f"{settings.topic_prefix}.bare-{round_}"
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=settings.bootstrap_servers,
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers,
        transactional_id=group,
        max_batch_size=900_000,
        retry_backoff_ms=backoff_ms,
        acks="all",
    )
    await producer.start()
    await consumer.start()
    began, done = 0.0, 0
    while done < records:
        batches = await consumer.getmany(timeout_ms=500, max_records=BATCH)
        if not batches:
            continue
        began = began or time.perf_counter()
        async with producer.transaction():
            offsets = {}
            for tp, batch in batches.items():
                for record in batch:
                    value = orjson.dumps(orjson.loads(record.value))
                    await producer.send(sink, value, key=record.key, partition=tp.partition)
                offsets[tp] = batch[-1].offset + 1
                done += len(batch)
            await producer.send_offsets_to_transaction(offsets, group)
    ended = time.perf_counter()
    await consumer.stop()
    await producer.stop()
    return records / (ended - began)


async def make_sink(settings: Settings) -> None:
    """The bare loop's output topic, like `conditions`."""
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # noqa: PLC0415 - used here only

    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    await admin.create_topics(
        [NewTopic(f"{settings.topic_prefix}.bare.v1", settings.partitions, 1, topic_configs=CONDITIONS.config())]
    )
    await admin.close()


async def main() -> dict[str, Any]:
    """Run both in turn and compare their medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    async with harness.kafka() as bootstrap:
        our_rates, bare_rates, plain_rates = [], [], []
        for round_ in range(options.rounds):
            # A new fleet for each round, because with the state of an earlier round the reports would be outdated.
            settings = await harness.fleet(bootstrap, partitions=options.partitions)
            await make_sink(settings)
            await fill(settings, options.records)
            our_rates.append(await ours(settings, options.records, round_))
            bare_rates.append(await bare(settings, options.records, f"{round_}", 20))
            plain_rates.append(await bare(settings, options.records, f"{round_}-plain", 100))
            harness.note(f"round {round_ + 1}: ours {our_rates[-1]:,.0f}/s, bare {bare_rates[-1]:,.0f}/s")
    ours_median, bare_median = harness.median(our_rates), harness.median(bare_rates)
    return {
        "bench": "stage",
        "what": "condition-ingest in the partition owner / bare aiokafka transaction loop, records per second",
        "records": options.records,
        "partitions": options.partitions,
        "batch": BATCH,
        "rounds": options.rounds,
        "ours": round(ours_median),
        "limit": round(bare_median),
        "limit_with_defaults": round(harness.median(plain_rates)),
        "ratio": round(ours_median / bare_median, 3),
    }


if __name__ == "__main__":
    harness.run(main)
