"""Bugs at the boundary of Kafka: fencing, transactions, offsets, rebalances, markers, readers."""

from __future__ import annotations

import itertools
from typing import Any

from tests.chaos.seeded.bugs.registry import Change, bug

from moorage.runtime.engine.engine import PartitionEngine
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.fenced_producer import PartitionProducer
from moorage.runtime.kafka.partition import commit_watch, dangling_transactions, fresh_reads, partition_task
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.partition_task import PartitionTask
from moorage.runtime.kafka.tables.global_tables import GlobalReader
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.table_reader import TableReader

_WRITE = PartitionProducer.write
_SINK = GlobalReader._sink


@bug("no-fence", "Each owner has a transactional id of its own, so none fences those before it.")
def _() -> list[Change]:
    numbers = itertools.count()

    def producer(self: Any, partition: int) -> Any:
        id_ = f"{self.owners}.{partition}.{next(numbers)}"
        return PartitionProducer(self.settings, transactional_id=id_)

    return [(WorkerContext, "producer", producer)]


@bug("offsets-first", "Offsets are committed in a transaction of their own, before the records.", "moments")
def _() -> list[Change]:
    async def write(self: Any, transaction: Any) -> None:
        await self._producer.write([], self._all_offsets())
        await _OWN(self, transaction)

    return [(PartitionTask, "_write", write)]


_OWN = PartitionTask._write


@bug("torn", "The records of a decision are written in two transactions.", "moments")
def _() -> list[Change]:
    async def write(self: Any, records: Any, offsets: Any, *, within: float | None = None, **_: Any) -> None:
        half = len(records) // 2
        if half:
            await _WRITE(self, records[:half], {}, within=within)
        await _WRITE(self, records[half:], offsets, within=within)

    return [(PartitionProducer, "write", write)]


@bug("written-again", "After a failed write the records are written once more by a new producer.")
def _() -> list[Change]:
    async def write(self: Any, transaction: Any) -> None:
        try:
            await _OWN(self, transaction)
        except Exception:  # noqa: BLE001 - that is the bug
            await self._producer.close()
            self._producer = self._context.producer(self.partition)
            await self._producer.start()
            await _OWN(self, transaction)

    return [(PartitionTask, "_write", write)]


@bug("uncommitted-read", "Tables and sources are read without waiting for the commit.")
def _() -> list[Change]:
    table, group = clients.table_consumer, clients.group_consumer

    def loose(settings: Any, *, client_id: str, committed_only: bool = True) -> Any:
        return table(settings, client_id=client_id, committed_only=committed_only and client_id.endswith("-stable"))

    def open_group(*given: Any, **named: Any) -> Any:
        consumer = group(*given, **named)
        consumer._committed_only = False
        return consumer

    return [(clients, "table_consumer", loose), (clients, "group_consumer", open_group)]


@bug(
    "no-seek",
    "A partition that comes back in a rebalance goes on from offsets committed earlier, not where its state is.",
    "rebalances",
)
def _() -> list[Change]:
    # What is done is committed before the rebalance, and a consumer begins there by itself: both have to be missing.
    def let_in(self: Any, ends: Any = None) -> None:
        if self.phase is not partition_task.Phase.PARKED:
            _LET_IN(self, ends)
            return
        self._chain.begin()
        self._chain._floors = {}
        self._feed.reset()
        self._feed.resume()
        self.phase = partition_task.Phase.RUNNING
        self._event.set()

    return [(PartitionTask, "_let_in", let_in), (PartitionEngine, "pending_offsets", lambda _self, _now: None)]


_LET_IN = PartitionTask._let_in


@bug(
    "offsets-at-fetched",
    "A drained owner commits the offsets of what it has fetched, not of what it has done.",
    "rebalances",
)
def _() -> list[Change]:
    clear = PartitionEngine.clear

    def skip(self: Any) -> None:
        for topic, record in self._queue:
            self._positions[topic] = record.offset + 1
        clear(self)

    return [(PartitionEngine, "clear", skip)]


@bug("lost-markers", "An owner begins though a transaction of the one before is still open.", "markers")
def _() -> list[Change]:
    async def end(_context: Any, _partition: int, _producers: Any, committed: Any) -> Any:
        return dangling_transactions.Sound(committed)

    return [(partition_task, "end_lost_transactions", end)]


@bug(
    "groundless-offsets",
    "Offsets are trusted though the records that they rest on were lost with their markers.",
    "markers",
)
def _() -> list[Change]:
    found = dangling_transactions.end_lost_transactions

    async def end(context: Any, partition: int, producers: Any, committed: Any) -> Any:
        await found(context, partition, producers, committed)
        return dangling_transactions.Sound(committed)

    return [(partition_task, "end_lost_transactions", end)]


@bug("slow-commit", "Nobody looks whether a commit that took long has its markers.", "markers")
def _() -> list[Change]:
    async def mind(*_given: Any) -> None:
        return None

    return [(commit_watch, "mind_a_slow_commit", mind)]


@bug("old-news", "A process that stood still writes the evictions that it had decided on before.", "deadlines")
def _() -> list[Change]:
    async def write(self: Any, records: Any, offsets: Any, *, within: float | None = None, **named: Any) -> None:  # noqa: ARG001 - it has no limit
        await _WRITE(self, records, offsets, **named)

    return [(fresh_reads, "_STALE", 1e9), (fresh_reads, "_FRESH", 1e9), (PartitionProducer, "write", write)]


@bug("4 dead-reader", "A reader of the global view has died, and nobody notices.")
def _() -> list[Change]:
    def sink(self: Any, topic: Any) -> Any:
        take = _SINK(self, topic)
        left = 12

        def dying(records: Any) -> None:
            nonlocal left
            left -= len(records) if self.caught_up.is_set() else 0
            if left > 0:
                take(records)

        return dying

    return [(GlobalReader, "_sink", sink)]


@bug("view-behind", "The global view is one record behind forever.")
def _() -> list[Change]:
    def sink(self: Any, topic: Any) -> Any:
        take = _SINK(self, topic)
        kept: list[Any] = []

        def late(records: Any) -> None:
            kept.extend(records)
            take(kept[:-1])
            del kept[:-1]

        return late

    return [(GlobalReader, "_sink", sink)]


@bug("view-not-fresh", "What pauses and budgets there are is not read before an eviction.", "answers")
def _() -> list[Change]:
    async def freshen(_self: Any, _topics: Any, _offsets: Any) -> None:
        return None

    return [(GlobalReader, "freshen", freshen)]


@bug("tombstones-unread", "Readers of tables pass over tombstones.")
def _() -> list[Change]:
    add = TableReader.add

    def without(self: Any, tp: Any, position: int, sink: Any, **named: Any) -> Any:
        return add(self, tp, position, lambda found: sink([one for one in found if one.value is not None]), **named)

    return [(TableReader, "add", without)]


@bug("exact-ends", "An end counts as reached only by a record, which compaction or markers may have taken away.")
def _() -> list[Change]:
    return [(PartitionEngine, "passed", lambda _self, _topic, _offset: None)]


@bug("end-is-begin", "The end of a partition is asked for once and used ever after.")
def _() -> list[Change]:
    stable = Offsets.stable

    async def once(self: Any, partitions: Any) -> Any:
        known = self.__dict__.setdefault("_known", {})
        wanted = [tp for tp in partitions if tp not in known]
        if wanted:
            known.update(await stable(self, wanted))
        return {tp: known[tp] for tp in partitions}

    return [(Offsets, "stable", once)]
