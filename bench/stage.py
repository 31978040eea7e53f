"""Measures one stage of the pipeline, compared with the best bare aiokafka transaction loop on the same records.

The last line is JSON.

The stage is the real condition-ingest in a worker of the runtime: partition owner, checks, state, headers,
deterministic ids. Each report changes its condition and is written. A second figure is for heartbeats: reports of the
same size that change nothing, as most reports do. Nothing is written for these, and the limit is that of the reports
that are passed on. The limit is the minimum that a program with aiokafka has to do: `getmany`, the same key, value and
headers into the batches of a transaction without decoding them, `send_offsets_to_transaction`, commit. It reads
read_committed, and each of its transactions is as large as one `getmany`. It runs with several batch sizes, and the
best of them is the limit. All read the same topic from beginning to end, in turn, each round with a group of its own.
The time is measured from the first processed record to the commit of the transaction with the last one. That
transaction carries the offsets in its state records; the group's own offsets may follow a second later (decision 0007),
as they do for heartbeats. The garbage collector is set as in the processes of the services.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness

from moorage.runtime.app import GC_THRESHOLDS
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.condition_ingest.service import ConditionIngest
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import event_id
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, RESOURCES

TARGETS = 200
STATUSES = (ConditionStatus.FALSE, ConditionStatus.TRUE)
TYPES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
BATCHES = (500, 2000, 5000, 10_000)
"""The batch sizes of the bare loop, in records. More than the last one does not fit into a request."""


async def fill(settings: Settings, records: int, *, changing: bool = True) -> None:
    """Declare the targets and write the reports, each newer than the one before.

    Args:
        settings: the fleet.
        records: the number of reports.
        changing: whether each report changes its condition. Otherwise, only the first of each condition does.
    """
    began = datetime.now(UTC) - timedelta(hours=1)
    targets = [harness.node_ref(f"node-{number}") for number in range(TARGETS)]
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with harness.Writer(settings, "probe/kubelet") as writer:
        for target in targets:
            metadata = {"uid": f"uid-{target.name}"}
            node = ResourceDeclared(object=harness.document("v1", "Node", target.name, metadata=metadata), version=1)
            await writer.send(RESOURCES, node.key, node, partition_key=target.key)
        for number in range(records):
            target = targets[number % TARGETS]
            observed = began + timedelta(milliseconds=number)
            report = ConditionReported(
                target=target,
                type=TYPES[number // TARGETS % len(TYPES)],
                status=STATUSES[number // (TARGETS * len(TYPES)) % 2 if changing else 0],
                observed_time=observed,
                **harness.KUBELET,
            )
            identity = event_id("report", number)
            await writer.send(CONDITION_REPORTS, target.key, report, id=identity, time=observed, traceparent=trace)


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
    """Return the records per second of the stage."""
    service = Watched(settings)
    # A separate group, and so separate transactional ids. The state starts empty because each round's group writes it.
    type(service).name = f"condition-ingest-{round_}"
    worker = Worker(service, settings, partitions=settings.partitions)
    await worker.start()
    while True:
        await asyncio.sleep(0.002)
        owners = worker.tasks.values()
        done = sum(owner.engines[0].positions.get(CONDITION_REPORTS, 0) for owner in owners)
        if done >= records and all(owner.idle for owner in owners):
            break
    ended = time.perf_counter()
    await worker.stop()
    return records / (ended - service.first)


async def bare(settings: Settings, records: int, group: str, batch: int) -> float:
    """Return the records per second of the bare loop with at most so many records in a transaction."""
    source, sink = CONDITION_REPORTS.name(settings.topic_prefix), f"{settings.topic_prefix}.bare.v1"
    group = f"{settings.topic_prefix}.{group}"
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
        max_batch_size=clients.PRODUCER_BATCH_BYTES,
        max_request_size=5 * 1_048_576,
        retry_backoff_ms=20,
        acks="all",
    )
    await producer.start()
    await consumer.start()
    began, done = 0.0, 0
    while done < records:
        batches = await consumer.getmany(timeout_ms=500, max_records=batch)
        if not batches:
            continue
        began = began or time.perf_counter()
        async with producer.transaction():
            passed = (
                (tp.partition, one.key, one.value, list(one.headers)) for tp, found in batches.items() for one in found
            )
            sent = await harness.send_batched(producer, sink, passed)
            offsets = {tp: found[-1].offset + 1 for tp, found in batches.items()}
            await producer.send_offsets_to_transaction(offsets, group)
            await asyncio.gather(*sent)
        done += sum(map(len, batches.values()))
    ended = time.perf_counter()
    await consumer.stop()
    await producer.stop()
    return records / (ended - began)


async def make_sink(settings: Settings) -> None:
    """Create the bare loop's output topic, like `conditions`."""
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    await admin.create_topics(
        [NewTopic(f"{settings.topic_prefix}.bare.v1", settings.partitions, 1, topic_configs=CONDITIONS.config())]
    )
    await admin.close()


async def main() -> dict[str, Any]:
    """Run both in turn and compare their medians."""
    options = harness.parser(__doc__, records=40_000, partitions=1, rounds=5).parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    async with harness.kafka() as bootstrap:
        our_rates: list[float] = []
        beats: list[float] = []
        bare_rates: dict[int, list[float]] = {batch: [] for batch in BATCHES}
        for round_ in range(options.rounds):
            # A new fleet for each round, because with the state of an earlier round the reports would be outdated.
            settings = await harness.fleet(bootstrap, partitions=options.partitions)
            await make_sink(settings)
            await fill(settings, options.records)
            our_rates.append(await ours(settings, options.records, round_))
            for batch, rates in bare_rates.items():
                rates.append(await bare(settings, options.records, f"bare-{round_}-{batch}", batch))
            settings = await harness.fleet(bootstrap, partitions=options.partitions)
            await fill(settings, options.records, changing=False)
            beats.append(await ours(settings, options.records, round_))
            said = ", ".join(f"{rates[-1]:,.0f}/s with {batch}" for batch, rates in bare_rates.items())
            harness.note(f"round {round_ + 1}: ours {our_rates[-1]:,.0f}/s, heartbeats {beats[-1]:,.0f}/s, bare {said}")
    medians = {batch: harness.median(rates) for batch, rates in bare_rates.items()}
    best = max(medians, key=lambda batch: medians[batch])
    our_median = harness.median(our_rates)
    return {
        "bench": "stage",
        "what": "condition-ingest in the partition owner / the best bare aiokafka transaction loop, records per second",
        "records": options.records,
        "partitions": options.partitions,
        "rounds": options.rounds,
        "ours": round(our_median),
        "limit": round(medians[best]),
        "limit_batch": best,
        "bare": {str(batch): round(rate) for batch, rate in medians.items()},
        "ratio": round(our_median / medians[best], 3),
        "heartbeats": round(harness.median(beats)),
        "heartbeats_ratio": round(harness.median(beats) / medians[best], 3),
    }


if __name__ == "__main__":
    harness.run(main)
