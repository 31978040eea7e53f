"""Measures the restore of a service from a table with many records, compared with a bare reader of the same topic.

The last line is JSON. `--service` chooses the service and its table: eviction with `bindings`, `timer` with `timers`,
placement with `placements`, condition-ingest with `conditions`, and governor with its global view of `bindings`.

Ours: a worker of the real service starts with committed offsets at the ends of its topics, so it restores all of them
before it is ready. The result is the seconds from its start until it is ready, including the group and the producers.
`bytes_a_record` is the growth of the process's memory for each record. The limit: an aiokafka consumer reads the same
partitions read_committed from beginning to end, and ignores the records. Both run in turn. Memory is measured in our
first round.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness

from moorage.runtime.app import GC_THRESHOLDS
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.service import Service
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, placement, timer
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.envelope import event_id
from moorage_schemas.keys import binding_key, condition_key, eviction_key
from moorage_schemas.placement import PlacementState, TargetScore, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import BINDINGS, CONDITIONS, PLACEMENTS, TIMERS, Topic

PODS_A_NODE = 100
CONDITIONS_A_NODE = 5
READY_WITHIN = 900.0

NOW: Final = datetime.now(UTC)


class Written(NamedTuple):
    """A record of the table."""

    key: str
    partition_key: str
    event: Model


def pod(number: int) -> WorkloadRef:
    """One of the pods."""
    return WorkloadRef(kind="Pod", namespace=f"team-{number % 50}", name=f"web-{number}")


def owner(number: int) -> WorkloadRef:
    """The owner of a pod. Each has ten pods."""
    return WorkloadRef(kind="Deployment", namespace=f"team-{number % 50}", name=f"web-{number // 10}")


def node(number: int) -> TargetRef:
    """The node of a pod."""
    return harness.node_ref(f"node-{number // PODS_A_NODE}")


def bindings(count: int) -> Iterator[Written]:
    """Yield bindings with the tolerations that admission adds, and two requests."""
    for number in range(count):
        bound = WorkloadBound(
            workload=pod(number),
            uid=f"{number:032x}",
            owner=owner(number),
            target=node(number),
            generation=1,
            tolerations=harness.TOLERATED,
            requests={"cpu": 250, "memory": 268_435_456},
            bound_time=NOW,
        )
        yield Written(binding_key(bound.workload, bound.target), bound.target.key, bound)


def timers(count: int) -> Iterator[Written]:
    """Timers of evictions that are not due during the run."""
    for number in range(count):
        target = node(number)
        one = SetTimer(
            id=f"evict|{eviction_key(pod(number), target, 1)}",
            target=target,
            owner="eviction",
            generation=1,
            deadline=NOW + timedelta(days=1, milliseconds=number),
            subject=pod(number).key,
            correlation_id=event_id("report", number),
        )
        yield Written(one.id, target.key, one)


def placements(count: int) -> Iterator[Written]:
    """Pods that are placed, with the scores of their ten best nodes."""
    scores = tuple(
        TargetScore(target=f"node-{place}", total=100 - place, scores={"LeastAllocated": 90, "NodeAffinity": 10})
        for place in range(10)
    )
    for number in range(count):
        placed = WorkloadPlaced(
            workload=pod(number),
            uid=f"{number:032x}",
            owner=owner(number),
            owner_uid=f"{number // 10:032x}",
            template_hash=f"{number // 10:08x}",
            index=number % 10,
            generation=1,
            state=PlacementState.PLACED,
            target=node(number),
            binding_generation=1,
            reason="Scheduled",
            message=f"placed on node-{number // PODS_A_NODE}",
            targets_considered=1000,
            scores=scores,
            decided_time=NOW,
        )
        yield Written(placed.workload.key, placed.owner.key, placed)


def conditions(count: int) -> Iterator[Written]:
    """Conditions of nodes, as a kubelet reports them."""
    for number in range(count):
        target = harness.node_ref(f"node-{number // CONDITIONS_A_NODE}")
        changed = ConditionChanged(
            target=target,
            target_uid=f"uid-{number // CONDITIONS_A_NODE}",
            type=tuple(harness.CONDITIONS)[number % CONDITIONS_A_NODE],
            status=ConditionStatus.TRUE,
            last_transition_time=NOW,
            last_heartbeat_time=NOW + timedelta(microseconds=number),
            generation=1,
            report_id=event_id("report", number),
            accepted_time=NOW,
            status_since=NOW,
            **harness.KUBELET,
        )
        yield Written(condition_key(target, changed.type), target.key, changed)


class Case(NamedTuple):
    """A service, and the table that it restores."""

    service: Callable[[Settings], Service[Any]]
    topic: Topic
    records: Callable[[int], Iterator[Written]]


CASES: Final = {
    "eviction": Case(eviction.service, BINDINGS, bindings),
    "timer": Case(timer.service, TIMERS, timers),
    "placement": Case(placement.service, PLACEMENTS, placements),
    "condition-ingest": Case(condition_ingest.service, CONDITIONS, conditions),
    "governor": Case(governor.service, BINDINGS, bindings),
}


async def fill(settings: Settings, case: Case, count: int) -> None:
    """Write the records."""
    async with harness.Writer(settings, f"moorage/{case.topic.writer}") as writer:
        for number, written in enumerate(case.records(count)):
            key, place = written.key, written.partition_key
            identity = event_id(case.topic.short, number)
            await writer.send(case.topic, key, written.event, partition_key=place, id=identity, time=NOW)
            if number % 100_000 == 0:
                harness.note(f"written: {number:,}")


async def commit_ends(settings: Settings, service: Service[Any]) -> None:
    """Commit offsets as if the group had processed everything."""
    places = harness.places_of(settings, *service.sources)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        group_id=f"{settings.topic_prefix}.{service.name}",
        enable_auto_commit=False,
    )
    await consumer.start()
    consumer.assign(places)
    await consumer.commit(await consumer.end_offsets(places))
    await consumer.stop()


async def ours(settings: Settings, service: Service[Any]) -> tuple[float, int]:
    """Return the seconds until the worker is ready, and the growth of the process in bytes."""
    gc.collect()
    before = harness.memory()
    worker: Worker = Worker(service, settings, partitions=settings.partitions)
    began = time.perf_counter()
    await worker.start()
    await worker.wait_ready(READY_WITHIN)
    seconds = time.perf_counter() - began
    grown = harness.memory() - before
    await worker.stop()
    gc.collect()
    return seconds, grown


async def bare(settings: Settings, topic: Topic, count: int) -> float:
    """Return the seconds to read the topic."""
    places = harness.places_of(settings, topic)
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
    parser = harness.parser(__doc__, records=1_000_000, partitions=24, rounds=3)
    parser.add_argument("--service", choices=sorted(CASES), default="eviction")
    options = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    case = CASES[options.service]
    async with harness.kafka() as bootstrap:
        settings = await harness.fleet(bootstrap, partitions=options.partitions)
        await fill(settings, case, options.records)
        await commit_ends(settings, case.service(settings))
        our_seconds, bare_seconds, grown = [], [], 0
        for round_ in range(options.rounds):
            bare_seconds.append(await bare(settings, case.topic, options.records))
            seconds, bytes_ = await ours(settings, case.service(settings))
            grown = grown or bytes_
            our_seconds.append(seconds)
            harness.note(f"round {round_ + 1}: ours {seconds:.1f} s, bare reader {bare_seconds[-1]:.1f} s")
            await asyncio.sleep(0)
    median_ours, median_bare = harness.median(our_seconds), harness.median(bare_seconds)
    return {
        "bench": "restore",
        "what": f"seconds to restore {options.service} from {case.topic.short} / bare aiokafka reader of the topic",
        "service": options.service,
        "records": options.records,
        "partitions": options.partitions,
        "rounds": options.rounds,
        "ours_s": round(median_ours, 2),
        "limit_s": round(median_bare, 2),
        "ratio": round(median_ours / median_bare, 2),
        "records_per_s": round(options.records / median_ours),
        "bytes_a_record": round(grown / options.records),
    }


if __name__ == "__main__":
    harness.run(main)
