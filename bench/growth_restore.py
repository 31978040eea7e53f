"""Restores the tables of every service as a new process of it would, without disturbing the fleet.

It reads with the services' own readers and folds into their own states, but it joins no group, starts no producer and
writes nothing. The last line is JSON: for each service the records and bytes that it read, the seconds and the
processor time that this took, and for each topic the keys that are alive. `bench/growth.py` runs it beside the fleet.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from aiokafka import TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness

from moorage.cli.local import services
from moorage.insight.explain import grounds
from moorage.insight.query.query_tables import QueryTables
from moorage.runtime.engine.engine import EngineRules, PartitionEngine
from moorage.runtime.kafka.partition.table_restore import Restorer
from moorage.runtime.kafka.tables.global_tables import GlobalReader, fold_into_view
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.table_reader import TableReader
from moorage.runtime.service import GlobalView, Service
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.record_format import KafkaFormat
from moorage_schemas.topics import Topic


class Tally:
    """What was read."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.alive: defaultdict[str, set[bytes]] = defaultdict(set)

    def add(self, topic: Topic, records: Iterable[Any]) -> None:
        """Count consumed records."""
        alive = self.alive[topic.short]
        for record in records:
            self.records += 1
            self.bytes += len(record.key or b"") + len(record.value or b"")
            if record.value is None:
                alive.discard(record.key)
            else:
                alive.add(record.key)


class CountingEngine(PartitionEngine[Any]):
    """An engine that counts what it folds."""

    def __init__(self, tally: Tally, service: Service[Any], partition: int, settings: Settings) -> None:
        rules = EngineRules(
            partitions=settings.partitions,
            report_max_bytes=settings.report_max_bytes,
            batch_max_records=settings.batch_max_records,
            reconcile_interval=timedelta(seconds=settings.reconcile_interval),
        )
        super().__init__(service, partition, rules=rules, form=KafkaFormat())
        self._tally = tally

    def fold(self, topic: Topic, records: Sequence[Any]) -> None:
        """See `PartitionEngine`."""
        self._tally.add(topic, records)
        super().fold(topic, records)


async def read_view(settings: Settings, name: str, topics: Sequence[Topic], view: GlobalView, tally: Tally) -> None:
    """Read topics whole into a view."""

    def fold(topic: Topic, record: Any) -> None:
        tally.add(topic, (record,))
        if isinstance(view, QueryTables):
            view.fold(topic, record)
        else:
            fold_into_view(view, topic, record, service=name)

    reader = GlobalReader(
        service=name,
        topics=topics,
        view=view,
        settings=settings,
        partitions=settings.partitions,
        client_id=f"growth-{name}",
        on_change=lambda _: None,
        fold=fold,
    )
    reader.start()
    try:
        await reader.caught_up.wait()
        if isinstance(view, QueryTables):
            deque(view.read(), maxlen=0)
    finally:
        await reader.stop()


async def restore_partitions(settings: Settings, service: Service[Any], view: GlobalView | None, tally: Tally) -> None:
    """Restore every partition of a service."""
    reader, offsets = TableReader(settings, client_id="growth"), Offsets(settings, name="growth")
    await offsets.start()
    reader.start()
    try:
        places = {
            TopicPartition(topic.name(settings.topic_prefix), partition): (topic, partition)
            for topic in service.sources
            for partition in range(settings.partitions)
        }
        committed = await offsets.committed(f"{settings.topic_prefix}.{service.name}", places)

        async def one(partition: int) -> None:
            engine = CountingEngine(tally, service, partition, settings)
            restorer = Restorer(
                partition=partition,
                prefix=settings.topic_prefix,
                reader=reader,
                offsets=offsets,
                fold=engine.fold,
            )
            at = {topic: committed.get(tp) for tp, (topic, part) in places.items() if part == partition}
            await restorer.run(engine.restore(at, view), service.follows)
            restorer.close()

        await asyncio.gather(*map(one, range(settings.partitions)))
    finally:
        await reader.stop()
        await offsets.stop()


async def measure(settings: Settings, name: str) -> dict[str, Any]:
    """Restore one service, or read the query worker's tables."""
    tally = Tally()
    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    if name == services.QUERY:
        await read_view(settings, name, grounds.TOPICS, QueryTables(settings), tally)
    else:
        service = services.make(name, settings)
        view = service.new_globals()
        if view is not None:
            await read_view(settings, name, service.globals, view, tally)
        await restore_partitions(settings, service, view, tally)
    return {
        "records": tally.records,
        "bytes": tally.bytes,
        "seconds": round(time.perf_counter() - began, 3),
        "cpu_s": round(time.process_time() - cpu, 3),
        "alive": {topic: len(keys) for topic, keys in sorted(tally.alive.items())},
    }


async def main() -> dict[str, Any]:
    """Restore all services in turn."""
    given = harness.parser(__doc__, bootstrap="", prefix="", partitions=24).parse_args()
    settings = Settings(bootstrap_servers=given.bootstrap, topic_prefix=given.prefix, partitions=given.partitions)
    return {name: await measure(settings, name) for name in [*services.names(), services.QUERY]}


if __name__ == "__main__":
    harness.run(main)
