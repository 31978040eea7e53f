"""Parts that the benchmarks on Kafka share: the broker, the event loop, and the last line of JSON."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
from aiokafka import AIOKafkaProducer
from bench import history

from moorage.runtime.app import run_async
from moorage.runtime.embedded import EmbeddedKafka
from moorage.runtime.kafka.topics_admin import ensure_topics
from moorage.runtime.settings import Settings

Record = tuple[int, bytes, bytes, list[tuple[str, bytes]]]
"""Partition, key, value, headers."""


@asynccontextmanager
async def kafka() -> AsyncIterator[str]:
    """The address of a broker: MOORAGE_BOOTSTRAP_SERVERS, otherwise an embedded broker for this run."""
    if named := os.environ.get("MOORAGE_BOOTSTRAP_SERVERS"):
        yield named
        return
    with tempfile.TemporaryDirectory(prefix="moorage-bench-") as folder:
        async with EmbeddedKafka(Path(folder)) as broker:
            yield broker.bootstrap


async def fleet(bootstrap: str, *, partitions: int) -> Settings:
    """The settings of a new fleet whose topics have been created. `BENCH_PREFIX` sets the prefix of their names."""
    prefix = f"{os.environ.get('BENCH_PREFIX', 'bench')}-{uuid.uuid4().hex[:8]}"
    settings = Settings(bootstrap_servers=bootstrap, topic_prefix=prefix, partitions=partitions)
    await ensure_topics(settings)
    return settings


async def send_batched(producer: AIOKafkaProducer, topic: str, chunk: Sequence[Record]) -> None:
    """Write records, each run of the same partition in batches of its own."""
    at = 0
    while at < len(chunk):
        batch, partition = producer.create_batch(), chunk[at][0]
        while at < len(chunk) and chunk[at][0] == partition:
            _, key, value, headers = chunk[at]
            if batch.append(timestamp=None, key=key, value=value, headers=headers) is None:
                break
            at += 1
        batch.close()
        await producer.send_batch(batch, topic, partition=partition)


def median(values: Sequence[float]) -> float:
    """The median as a plain number."""
    return float(statistics.median(values))


def memory() -> int:
    """The memory that this process uses now, in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def note(text: str) -> None:
    """Write a message about progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def run(main: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Run a benchmark on uvloop, print its result as the last line, record it if that is wanted, and return it.

    A result without `bench` comes from a process that helps a benchmark. It is not recorded.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))  # errors only

    async def started() -> dict[str, Any]:
        return await main()

    result = run_async(started())
    if "bench" in result:
        history.record(result)
    print(json.dumps(result), flush=True)
    return result
