"""Measures a storm of timers: many are due within one second. Compared with a bare producer. The last line is JSON.

Ours: processes of the real timer service have restored timers whose deadlines are spread over one second, and each of
two or more is a warm standby of the others' partitions. The time is measured from the first deadline until the last
`timer-fired` record is committed. Then all records are read, and it is checked that each timer has fired exactly once,
that none was early, and that no partition has started anew.

The limit: a process that contains only an aiokafka producer writes the same records (keys, values, headers,
partitions), in each of several ways: with `send` and with `send_batch`, in transactions of several sizes and without
any. The time is measured from its start signal until the last record is committed. `limit` is the best of them.

How far a topic is committed is asked of the broker every few milliseconds, so that no reader takes part of the
processor while it is measured. Ours and the limit run in turn, each round with a fleet of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pickle
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness
from bench.harness import Record

from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.envelope import event_id
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.times import format_time
from moorage_schemas.topics import TIMER_FIRED, TIMERS

PODS_A_NODE = 30
READY_WITHIN = 600.0
WITHIN = 300.0
LOOK = 0.01
"""Seconds between two questions about how far a topic is committed."""

QUIET = 1.0
"""Seconds without progress after which the records are counted."""


class Way(NamedTuple):
    """A way for the bare producer to write."""

    batched: bool
    """Whether with `send_batch` instead of `send`."""

    size: int
    """The number of records in a transaction; 0 for no transactions."""

    @property
    def name(self) -> str:
        """Its name in the result."""
        return f"{'send_batch' if self.batched else 'send'}/{self.size or 'no transactions'}"


WAYS = (*(Way(batched=True, size=size) for size in (1000, 5000, 20_000, 0)), Way(batched=False, size=1000))


async def fill(settings: Settings, count: int, first: datetime) -> None:
    """Write timers whose deadlines are spread over one second."""
    blank = SetTimer(
        id="ID",
        target=harness.node_ref("NODE"),
        owner="eviction",
        generation=1,
        deadline=first,
        subject="SUBJECT",
        correlation_id="CORRELATION",
    ).model_dump_json()
    deadline = format_time(first)
    async with harness.Writer(settings, "moorage/eviction", max_batch_size=400_000) as writer:
        for number in range(count):
            pod, node = f"Pod/team-{number % 50}/web-{number:07d}-x7x2k", f"node-{number // PODS_A_NODE}"
            key, own = f"evict|{pod}|Node/{node}|1", format_time(first + timedelta(microseconds=number * 1e6 / count))
            value = blank.replace('"ID"', f'"{key}"').replace('"NODE"', f'"{node}"').replace(deadline, own)
            value = value.replace("SUBJECT", pod).replace("CORRELATION", event_id(number))
            meta = {"id": event_id(key), "subject": key}
            await writer.send(TIMERS, key, value, partition_key=f"Node/{node}", time=first, **meta)
            if number % 100_000 == 0:
                harness.note(f"written: {number:,}")


async def committed(settings: Settings, begins: float, expected: int) -> float:
    """Return when the last of the expected records was committed, by the clock of `time.time`.

    Raises:
        TimeoutError: they were not in time.
    """
    places = harness.places_of(settings, TIMER_FIRED)
    offsets = Offsets(settings, name="bench-timers")
    await offsets.start()
    start = sum((await offsets.stable(places)).values())
    known, since = start, begins
    try:
        async with asyncio.timeout(WITHIN + max(0.0, begins - time.time())):
            while True:
                now = sum((await offsets.stable(places)).values())
                moment = time.time()
                if now != known:
                    known, since = now, moment
                elif known - start >= expected and moment - since > QUIET:
                    return since
                await asyncio.sleep(LOOK)
    finally:
        await offsets.stop()


def check(records: list[Record], count: int) -> float:
    """Check that each timer has fired once, and none early. Return the largest lateness in seconds.

    Raises:
        RuntimeError: a timer has not, or was.
    """
    fired = [TimerFired.model_validate_json(value) for _, _, value, _ in records]
    early = [event for event in fired if event.fired_time < event.deadline]
    distinct = len({event.id for event in fired})
    if early or distinct != count or len(fired) != count:
        raise RuntimeError(f"{count} timers, {len(fired)} records of {distinct} timers, {len(early)} early {early[:1]}")
    return max((event.fired_time - event.deadline).total_seconds() for event in fired)


class Storm(NamedTuple):
    """A storm that is over."""

    seconds: float
    """From the first deadline until all was committed."""

    lateness: float
    """The largest lateness of a timer, in seconds."""

    cpu: float
    """The processor time of all processes of the service, in seconds."""

    records: list[Record]


async def ours(settings: Settings, options: argparse.Namespace, count: int, folder: Path) -> Storm:
    """A storm of timers for so many processes of the service.

    Raises:
        RuntimeError: the service was not ready at the first deadline, or a partition started anew.
    """
    lead = options.lead or 30 + options.timers / (20_000 if count == 1 else 12_000)
    first = datetime.now(UTC) + timedelta(seconds=lead)
    await fill(settings, options.timers, first)
    services = [await harness.ServiceProcess.start("timer", settings, folder) for _ in range(count)]
    try:
        await harness.settled(services, settings.partitions, within=READY_WITHIN)
        left = first.timestamp() - time.time()
        harness.note(f"ready {left:.1f} s before the first deadline")
        if left < 1:
            raise RuntimeError("the service was not ready at the first deadline; give a longer --lead")
        waiting = asyncio.create_task(committed(settings, first.timestamp(), options.timers))
        await asyncio.sleep(first.timestamp() - time.time())  # until then they may still read timers
        used = sum(one.cpu_seconds() for one in services)
        ended = await waiting
        used = sum(one.cpu_seconds() for one in services) - used
        for one in services:
            if "starts_afresh" in one.log.read_text("utf-8", "replace"):
                raise RuntimeError(f"a partition started anew; the log:\n{one.tail()}")
    finally:
        for one in services:
            await one.stop()
    records = [
        (one.partition, one.key, one.value, list(one.headers))
        async for _, batch in harness.read(settings, TIMER_FIRED)
        for one in batch
    ]
    return Storm(ended - first.timestamp(), check(records, options.timers), used, records)


async def bare(settings: Settings, replay: Path, count: int, way: Way, folder: Path) -> float:
    """The seconds that the bare producer took for the same records."""
    command = [sys.executable, __file__, "--writer", str(replay), "--topic", TIMER_FIRED.name(settings.topic_prefix)]
    process = await harness.spawn(
        [*command, "--size", str(way.size), *(["--batched"] if way.batched else [])],
        {"MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers},
        folder / "writer.log",
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the writer has no pipes")
    if not await process.stdout.readline():
        raise RuntimeError(f"the writer ended:\n{(folder / 'writer.log').read_text()[-2000:]}")
    waiting = asyncio.create_task(committed(settings, time.time(), count))
    await asyncio.sleep(0.5)  # it has asked for the end by now
    began = time.time()
    process.stdin.write(b"go\n")
    ended = await waiting
    process.stdin.close()
    await process.wait()
    return ended - began


async def write(options: argparse.Namespace) -> dict[str, Any]:
    """Run as the bare producer's process."""
    records: list[Record] = pickle.loads(options.writer.read_bytes())  # noqa: S301 - written by this program itself
    records.sort(key=lambda record: record[0])  # The sort is stable, so a transaction has one or two partitions.
    transactional = {"transactional_id": f"{options.topic}.bare-{os.getpid()}"} if options.size else {}
    producer = AIOKafkaProducer(
        bootstrap_servers=os.environ["MOORAGE_BOOTSTRAP_SERVERS"],
        max_batch_size=900_000,
        max_request_size=5 * 1_048_576,
        retry_backoff_ms=20,
        enable_idempotence=True,
        acks="all",
        **transactional,
    )
    await producer.start()
    await producer.partitions_for(options.topic)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    size = options.size or len(records)
    for start in range(0, len(records), size):
        chunk = records[start : start + size]
        if options.size:
            async with producer.transaction():
                await _send(producer, options.topic, chunk, batched=options.batched)
        else:
            await _send(producer, options.topic, chunk, batched=options.batched)
    await producer.stop()
    return {"records": len(records)}


async def _send(producer: AIOKafkaProducer, topic: str, chunk: list[Record], *, batched: bool) -> None:
    if not batched:
        for partition, key, value, headers in chunk:
            await producer.send(topic, value, key=key, partition=partition, headers=headers)
        return
    await harness.send_batched(producer, topic, chunk)


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run all in turn and compare."""
    storms: dict[int, list[Storm]] = {count: [] for count in options.processes}
    limits: dict[str, list[float]] = {way.name: [] for way in WAYS}
    async with harness.kafka() as bootstrap:
        for round_ in range(options.rounds):
            with tempfile.TemporaryDirectory(prefix="moorage-bench-") as name:
                folder = Path(name)
                for count, storm in storms.items():
                    fleet = await harness.fleet(bootstrap, partitions=options.partitions)
                    storm.append(await ours(fleet, options, count, folder))
                    harness.note(f"round {round_ + 1}, {count} processes: {storm[-1].seconds:.1f} s")
                replay = folder / "records.pickle"
                replay.write_bytes(pickle.dumps(storm[-1].records))
                for storm in storms.values():
                    storm[-1] = storm[-1]._replace(records=[])
                settings = await harness.fleet(bootstrap, partitions=options.partitions)
                for way in WAYS:
                    took = await bare(settings, replay, options.timers, way, folder)
                    limits[way.name].append(options.timers / took)
                    harness.note(f"  {way.name}: {options.timers / took:,.0f}/s")
    medians = {name: harness.median(found) for name, found in limits.items()}
    best = max(medians, key=lambda name: medians[name])
    return {
        "bench": "timers",
        "what": "timers due within one second: fired and committed per second / the same records from a bare producer",
        "timers": options.timers,
        "partitions": options.partitions,
        "rounds": options.rounds,
        "processes": {
            str(count): figures(storm, options.timers, limits[best]) for count, storm in sorted(storms.items())
        },
        "limits": {name: round(rate) for name, rate in medians.items()},
        "best": best,
        "limit": round(medians[best]),
    }


def figures(storms: list[Storm], timers: int, limits: list[float]) -> dict[str, float]:
    """Return the figures of the storms for one number of processes."""
    rates = [timers / storm.seconds for storm in storms]
    ratios = [mine / limit for mine, limit in zip(rates, limits, strict=True)]
    return {
        "ours": round(harness.median(rates)),
        "ratio": round(harness.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "latest_s": round(max(storm.lateness for storm in storms), 2),
        "cpu_us_per_timer": round(harness.median([storm.cpu for storm in storms]) / timers * 1e6, 1),
    }


async def main() -> dict[str, Any]:
    """Measure, or run as the bare producer's process."""
    parser = harness.parser(__doc__, timers=1_000_000, partitions=24, rounds=1)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="processes of the timer service")
    parser.add_argument("--lead", type=float, default=0.0, help="seconds from the start to the first deadline")
    parser.add_argument("--writer", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--topic", default="", help=argparse.SUPPRESS)
    parser.add_argument("--batched", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, default=1000, help=argparse.SUPPRESS)
    options = parser.parse_args()
    return await (write(options) if options.writer else measure(options))


if __name__ == "__main__":
    harness.run(main)
