"""A deployer: starts and stops workloads as Moorage decides. Copy it, and replace the methods of `Machines`.

It requires `moorage-schemas` (the contract) and FastStream with Kafka. It reads three topics:

- `bindings`: a workload is to run on a target, until a tombstone ends the binding. A deployer acts on this topic.
- `placements`: the same decisions with their reasons, and the workloads that wait for a place.
- `evictions`: why and when a workload has to leave. `Scheduled` contains the deadline, so there is time to prepare.

It writes to `condition-reports`, the one topic that third parties may write to. There it reports whether the workloads
that it started are `Healthy`. A workload that leaves gracefully stays until its replacement is healthy, and budgets
count healthy workloads.

By default FastStream acknowledges a record *before* the handler runs. So a policy is set below: acknowledge after the
handler, and repeat after an error. A record may arrive again after a crash, so every handler ignores what it knows
already.

    python deployer.py --bootstrap 127.0.0.1:9092
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker, KafkaMessage

from moorage_schemas.condition import HEALTHY, ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, EVICTIONS, PLACEMENTS, Topic

Handler = Callable[[KafkaMessage], Awaitable[None]]


class Machines:
    """The place where workloads run. Here it only prints them."""

    def __init__(self) -> None:
        self._running: dict[str, int] = {}
        """The generation of each binding that runs, by `workload|target`."""

    def start(self, key: str, bound: WorkloadBound) -> None:
        """Start a workload on a target, unless it runs there already."""
        if self._running.get(key, 0) >= bound.generation:
            return
        self._running[key] = bound.generation
        print(f"start {bound.workload} on {bound.target}", flush=True)

    def healthy(self, key: str) -> bool:
        """Whether a workload runs well on a target. Here: whether it runs. Your deployer must check it."""
        return key in self._running

    def stop(self, key: str) -> None:
        """Stop a workload on a target, if it runs there."""
        if self._running.pop(key, None) is not None:
            workload, _, target = key.partition("|")
            print(f"stop {workload} on {target}", flush=True)


async def undecoded(message: Any) -> bytes:
    """Give the raw bytes to handlers. A tombstone has none, and the contract's models parse JSON themselves."""
    body: bytes = message.body or b""
    return body


def build(bootstrap: str, prefix: str, group: str) -> FastStream:
    """The application: one subscriber for each topic."""
    # FastStream's own log of each message is only for debugging. The printed lines are the output.
    broker = KafkaBroker(bootstrap, client_id=group, log_level=logging.DEBUG)
    machines = Machines()

    def subscriber(topic: Topic) -> Callable[[Handler], Any]:
        return broker.subscriber(
            topic.name(prefix),
            group_id=f"{group}-{topic.short}",
            auto_offset_reset="earliest",
            isolation_level="read_committed",  # decisions in aborted transactions do not count
            ack_policy=AckPolicy.NACK_ON_ERROR,
            decoder=undecoded,
        )

    async def on_binding(message: KafkaMessage) -> None:
        key = record_key(message)
        if message.body:
            bound = WorkloadBound.model_validate_json(message.body)
            machines.start(key, bound)
            # Also if the record arrives again, because the process may have ended before it reported.
            await report(broker, prefix, bound, healthy=machines.healthy(key))
        else:
            machines.stop(key)

    subscriber(BINDINGS)(on_binding)
    subscriber(PLACEMENTS)(on_placement)
    subscriber(EVICTIONS)(on_eviction)
    return FastStream(broker)


async def report(broker: KafkaBroker, prefix: str, bound: WorkloadBound, *, healthy: bool) -> None:
    """Report whether a workload runs well where it was placed. Your deployer must report every change."""
    event = ConditionReported(
        target=bound.target,
        workload=bound.workload,
        type=HEALTHY,
        status=ConditionStatus.TRUE if healthy else ConditionStatus.FALSE,
        observed_time=datetime.now(UTC),
        source="examples/deployer",
    )
    meta = Meta(id=str(uuid.uuid4()), source=event.source, type=event.event_type, time=event.observed_time)
    await broker.publish(
        event.model_dump_json().encode(),
        CONDITION_REPORTS.name(prefix),
        key=bound.target.key.encode(),  # the target's key, also for reports about a workload there
        headers={name: value.decode() for name, value in to_headers(meta)},
    )


async def on_placement(message: KafkaMessage) -> None:
    """Print which workloads wait for a place, and why."""
    if message.body:
        placed = WorkloadPlaced.model_validate_json(message.body)
        # A PlacementDecision is a part of the answer of a Placement, which says why it selects nothing.
        if placed.state is PlacementState.PENDING and placed.workload.kind != "PlacementDecision":
            print(f"wait {placed.workload}: {placed.message or placed.reason}", flush=True)


async def on_eviction(message: KafkaMessage) -> None:
    """Print which workloads have to leave, and when."""
    if not message.body:
        return
    eviction = EvictionDecided.model_validate_json(message.body)
    where = f"{eviction.workload} on {eviction.target}"
    if eviction.state is EvictionState.SCHEDULED and eviction.deadline is not None:
        print(f"prepare {where}: must leave at {eviction.deadline:%Y-%m-%dT%H:%M:%SZ}", flush=True)
    elif eviction.state is EvictionState.REQUESTED:
        print(f"evict {where}: {eviction.reason}", flush=True)
    elif eviction.state is EvictionState.HELD and eviction.held_by:  # before that, nothing has answered yet
        print(f"wait {where}: held by {', '.join(eviction.held_by)}", flush=True)
    elif eviction.state is EvictionState.CANCELLED:
        print(f"keep {where}", flush=True)


def record_key(message: KafkaMessage) -> str:
    """The key of the record, which names its subject, also for a tombstone."""
    raw: Any = message.raw_message
    return str((raw.key or b"").decode())


def main() -> None:
    """Read the command line and deploy until stopped."""
    parser = argparse.ArgumentParser(description="Print what a deployer would do.")
    parser.add_argument("--bootstrap", default=os.environ.get("MOORAGE_BOOTSTRAP_SERVERS", "127.0.0.1:9092"))
    parser.add_argument("--prefix", default=os.environ.get("MOORAGE_TOPIC_PREFIX", "moorage"))
    parser.add_argument("--group", default="example-deployer")
    arguments = parser.parse_args()
    asyncio.run(build(arguments.bootstrap, arguments.prefix, arguments.group).run())


if __name__ == "__main__":
    main()
