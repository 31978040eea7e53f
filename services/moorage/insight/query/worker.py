"""The query worker: it reads tables, follows them, and explains from what is committed at the time of the question."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from prometheus_client import Counter, Gauge, Histogram
from typing_extensions import override

from moorage.insight.explain.answer import answer
from moorage.insight.explain.chain import EventRecord
from moorage.insight.explain.document import Document, document_of
from moorage.insight.explain.explanation import Summary
from moorage.insight.explain.grounds import TOPICS
from moorage.insight.explain.history import OlderRecords, Places, TopicScan, Window, complete
from moorage.insight.explain.question import Question
from moorage.insight.query import chain_index
from moorage.insight.query.chain_index import YOUNG_SECONDS, ChainIndex, rounds_of, spans_of
from moorage.insight.query.query_tables import NAME, ChainsNow, QueryTables
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.kafka.tables.global_tables import GlobalReader
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.shared_reader import SharedReader
from moorage.runtime.kafka.tables.table_age import TableAge, tombstones_kept
from moorage.runtime.process import metrics
from moorage.runtime.process.clock import Clock, WallClock
from moorage.runtime.process.failures import StartAfresh, TablesTooOld, restarted
from moorage.runtime.process.member import Behind, TaskMember
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import Topic

_GAP: Final = 2_000
"""The gap between two records up to which the records between them are also read. Skipping them takes as long."""

_MOST: Final = 2_000
"""The largest number of records of chains that are read from one partition. The latest are read."""

Freshen = Callable[[Collection[Topic]], Awaitable[bool]]
"""Reads topics into the index, up to what is committed now. Returns False while the index is incomplete."""


class IndexedHistory(OlderRecords):
    """Older records, found by the index. Only one reading takes place at a time.

    Args:
        freshen: adds to the index what has been committed last.
    """

    def __init__(self, settings: Settings, index: ChainIndex, freshen: Freshen) -> None:
        self._settings = settings
        self._index = index
        self._freshen = freshen
        self._scan: TopicScan | None = None
        self._turn = asyncio.Lock()

    @override
    async def of_chains(self, places: Places, wanted: frozenset[bytes]) -> Sequence[EventRecord]:
        # While the index is incomplete, whole topics are searched.
        if not await self._freshen(tuple(places)):
            async with self._reading() as scan:
                return await scan.of_chains(places, wanted)
        known = {place: offsets[-_MOST:] for place, offsets in self._index.find(places, wanted).items()}
        found: list[EventRecord] = []
        if known:
            async with self._reading() as scan:
                for spans in rounds_of(known, _GAP):
                    found += await scan.between(spans, wanted)
        return found

    @override
    async def reports(self, windows: Iterable[Window], wanted: frozenset[bytes]) -> Sequence[EventRecord]:
        async with self._reading() as scan:
            return await scan.reports(windows, wanted)

    @override
    async def of_key(self, topic: Topic, partition: int, key: str) -> Sequence[EventRecord]:
        # While the index is incomplete, the whole partition is searched.
        if not await self._freshen((topic,)):
            async with self._reading() as scan:
                return await scan.of_key(topic, partition, key)
        found: list[EventRecord] = []
        spans = spans_of(self._index.find_key(topic, partition, key), _GAP)
        if spans:
            async with self._reading() as scan:
                for span in spans:
                    found += await scan.of_key(topic, partition, key, span)
        return found

    async def close(self) -> None:
        """Disconnect."""
        async with self._turn:
            await self._give_up()

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[TopicScan]:
        """Provide a connection, which is kept. After an error the next reading gets a new one."""
        async with self._turn:
            if self._scan is None:
                self._scan = TopicScan(self._settings)
            try:
                yield self._scan
            except BaseException:
                await self._give_up()
                raise

    async def _give_up(self) -> None:
        scan, self._scan = self._scan, None
        if scan is not None:
            await scan.close()


REQUESTS = Counter("moorage_query_requests_total", "Requests for explanations", ["code"])
SECONDS = Histogram(
    "moorage_query_seconds",
    "Seconds until a request for an explanation was answered",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
RECORDS = Gauge("moorage_query_table_records", "Records in each table of the query worker", ["topic"])
INDEXED = Gauge("moorage_query_indexed_records", "Records of chains in the index of the query worker")


_log = structlog.get_logger(__name__)

_AT_ONCE: Final = 8
"""The number of questions that are answered at the same time. Others wait."""

_WAITING: Final = 32
"""The largest number of questions that wait."""

_FRESH_SECONDS: Final = 5.0
"""How many seconds an answer waits until everything is read that was committed before the question."""

_ANSWER_SECONDS: Final = 15.0
"""How many seconds a question waits for its turn and its answer."""

_INDEXED_ANEW: Final = 500_000
"""The number of records by which the index may exceed twice its size before unwanted ones are dropped."""

_CHECK_EVERY: Final = 1.0  # seconds between two checks of the age of the tables and the size of the index
_ASKING: Final = 5.0  # seconds that Kafka may take to return the ends of partitions
_BACKOFF_FIRST, _BACKOFF_MAX = 0.2, 5.0


class NotReadyError(Exception):
    """No question can be answered now. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An explanation, and the offsets that it rests on."""

    document: Document
    positions: Mapping[str, tuple[int, ...]]
    """For each partition of each topic, the offset up to which everything was read."""


class QueryWorker(TaskMember):
    """Keeps the tables until it is stopped, and answers questions.

    Args:
        settings: the address of Kafka and the settings of the services, with the fleet's actual number of partitions.
        shared: reads for all views of the process. Without it, this worker has readers of its own.
    """

    def __init__(self, settings: Settings, clock: Clock | None = None, *, shared: SharedReader | None = None) -> None:
        super().__init__(NAME)
        self._settings = settings
        self._clock = clock or WallClock()
        self._shared = shared
        self._reading: _Reading | None = None
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    # What others see.

    @property
    def lacks(self) -> str:
        """The reason why it is not idle."""
        return "has not read its tables"

    @property
    def ready(self) -> bool:
        """Whether the tables are complete and follow Kafka."""
        return self._reading is not None and self._reading.tables_reader.sound

    @property
    def restored(self) -> object:
        """The reading, once it is ready."""
        return self._reading if self.ready else None

    @property
    def idle(self) -> bool:
        """Whether the tables have been read to their ends once."""
        return self._reading is not None and self._reading.tables_reader.caught_up.is_set()

    @property
    def moves(self) -> int:
        """A value that changes with each step of the first reading."""
        return 0 if self._reading is None else self._reading.tables_reader.moves

    def report(self) -> dict[str, Any]:
        """Return the progress of reading."""
        reading = self._reading
        if reading is None:
            return {"ready": False, "tables": 0.0, "chains": 0.0, "standing": []}
        standing = reading.tables_reader.standing | reading.chains_reader.standing
        return {
            "ready": self.ready,
            "tables": round(reading.tables_reader.progress, 3),
            "chains": round(reading.chains_reader.progress, 3),
            "standing": sorted(f"{tp.topic}/{tp.partition}" for tp in standing),
        }

    async def behind(self) -> Behind:
        """Return the partitions of which Kafka has more than has been read. Empty if it does not answer."""
        reading = self._reading
        if reading is None:
            return Behind()
        try:
            async with asyncio.timeout(_ASKING):
                return Behind(tables=await reading.behind())
        except (KafkaError, TimeoutError, OSError, RuntimeError):  # no answer, or everything is changing at the moment
            return Behind()

    # Questions.

    async def explain(self, asked: Question) -> Answer:
        """Answer a question from everything that was committed before it.

        Raises:
            NotFoundError: there is no such object, node or cluster.
            QuestionError: a node is named for a workload that is placed on clusters, or a cluster for one on nodes.
            NotReadyError: the tables are not read yet, Kafka does not answer in time, or there are too many questions.
        """
        if self._waiting >= _WAITING:
            raise NotReadyError(f"{self._waiting} questions are already waiting")
        self._waiting += 1
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), self._slots:
                return await self._explain(asked)
        except TimeoutError:
            raise NotReadyError(f"there was no answer within {_ANSWER_SECONDS:g} s") from None
        except (KafkaError, OSError, StartAfresh) as error:
            raise NotReadyError(f"Kafka does not answer: {describe(error, self._settings)}") from None
        finally:
            self._waiting -= 1

    async def _explain(self, asked: Question) -> Answer:
        reading = self._reading
        if reading is None or not self.ready:
            raise NotReadyError(f"its tables are read to {0 if reading is None else reading.progress:.0%}")
        try:
            async with asyncio.timeout(_FRESH_SECONDS):
                ends = await reading.freshen(TOPICS)
        except TimeoutError:
            raise NotReadyError(f"what is committed was not read within {_FRESH_SECONDS:g} s") from None
        for _ in reading.tables.read():
            await asyncio.sleep(0)
        # Nothing is awaited, and therefore nothing read, while an explanation is made.
        told = answer(reading.tables.as_of(self._clock.now()), asked)
        if not isinstance(told, Summary):
            steps = [step.record for chain in told.chains for step in chain.steps if step.record is not None]
            present = ChainsNow(reading.tables, {record.meta.correlation for record in steps})
            await complete(told, present, reading.history, self._settings.partitions)
        return Answer(document_of(told), reading.positions(ends))

    # Life.

    async def _run(self, failure: asyncio.Future[None]) -> None:
        backoff = _BACKOFF_FIRST
        while True:
            try:
                await self._read(failure)
            except TablesTooOld as reason:
                _log.warning("query.reads_anew", why=str(reason))
                metrics.RESTARTS.labels(NAME, "age").inc()
                backoff = _BACKOFF_FIRST
            except (KafkaError, TimeoutError, OSError) as error:
                _log.warning("query.reading_failed", error=describe(error, self._settings))
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, _BACKOFF_MAX)

    async def _read(self, failure: asyncio.Future[None]) -> None:
        """Read everything from the beginning, and follow it."""
        age = TableAge(self._clock, await tombstones_kept(self._settings))

        def fail(error: BaseException) -> None:
            if not failure.done():
                failure.set_exception(error)

        reading = _Reading(self._settings, self._clock, fail, self._shared)
        try:
            await reading.start()
            self._reading = reading
            minding = asyncio.create_task(
                restarted(f"{NAME}-age", functools.partial(age.mind, reading.to_ends)), name=f"{NAME}-age"
            )
            try:
                while True:
                    await asyncio.wait([failure], timeout=min(_CHECK_EVERY, age.interval))
                    reading.measure()
                    if failure.done():
                        failure.result()
                    age.check()
            finally:
                minding.cancel()
        finally:
            self._reading = None
            await reading.stop()


class _Reading:
    """One reading of all topics, from the beginning.

    Args:
        fail: called when the tables can no longer be used.
    """

    def __init__(
        self, settings: Settings, clock: Clock, fail: Callable[[BaseException], None], shared: SharedReader | None
    ) -> None:
        self.tables = QueryTables(settings)
        self._index = ChainIndex(self.tables, clock.now().timestamp())
        self._settings = settings
        client_id = f"moorage-{NAME}-{uuid.uuid4().hex[:12]}"
        self._offsets = Offsets(settings, name=client_id)
        common: dict[str, Any] = {
            "service": NAME,
            "settings": settings,
            "partitions": settings.partitions,
            "on_change": lambda _: None,
            "on_failure": fail,
            "shared": shared,
        }
        self.tables_reader = GlobalReader(
            topics=TOPICS, view=self.tables, fold=self.tables.fold, client_id=f"{client_id}-tables", **common
        )
        self.chains_reader = GlobalReader(
            topics=chain_index.TOPICS,
            view=self._index,
            fold=self._index.fold,
            client_id=f"{client_id}-chains",
            **common,
        )
        self.history = IndexedHistory(settings, self._index, self._freshen_index)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Connect, and start reading."""
        await self._offsets.start()
        self.tables_reader.start()
        self._tasks = [asyncio.create_task(self._index_chains(), name=f"{NAME}-chains")]

    async def stop(self) -> None:
        """Stop reading."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        closing = (self.chains_reader.stop(), self.tables_reader.stop(), self._offsets.stop(), self.history.close())
        await asyncio.gather(*closing, return_exceptions=True)

    @property
    def progress(self) -> float:
        """The share of the tables that has been read, 0 to 1."""
        return self.tables_reader.progress

    async def freshen(self, topics: Collection[Topic]) -> dict[TopicPartition, int]:
        """Read tables up to what is committed now."""
        return await self.tables_reader.freshen(topics, self._offsets)

    async def to_ends(self) -> bool:
        """Wait until everything that is committed now has been read. Return False before the first reading ends."""
        if not self.tables_reader.caught_up.is_set():
            return False
        await self.tables_reader.freshen(TOPICS, self._offsets)
        return True

    async def behind(self) -> dict[TopicPartition, int]:
        """Return the partitions of which Kafka has more than has been read, with the offset that has been reached."""
        tables, chains = self.tables_reader.followed, self.chains_reader.followed
        ends = await self._offsets.stable({*tables, *chains})
        found = await self.chains_reader.behind({tp: ends[tp] for tp in chains})
        return found | await self.tables_reader.behind({tp: ends[tp] for tp in tables})

    def positions(self, ends: Mapping[TopicPartition, int]) -> dict[str, tuple[int, ...]]:
        """Return the ends of each topic's partitions."""
        prefix = self._settings.topic_prefix
        parts = range(self._settings.partitions)
        return {
            topic.short: tuple(ends[TopicPartition(topic.name(prefix), part)] for part in parts) for topic in TOPICS
        }

    def measure(self) -> None:
        """Update the metrics of what is kept."""
        for short, size in self.tables.sizes().items():
            RECORDS.labels(short).set(size)
        INDEXED.set(self._index.size)

    async def _freshen_index(self, topics: Collection[Topic]) -> bool:
        if not self.chains_reader.sound:
            return False
        await self.chains_reader.freshen(topics, self._offsets)
        return True

    async def _index_chains(self) -> None:
        """Index the records of chains when the tables show which are wanted, and drop the others."""
        await self.tables_reader.caught_up.wait()
        self.chains_reader.start()
        await restarted(f"{NAME}-chains", self._sweep_chains)

    async def _sweep_chains(self) -> None:
        clock = asyncio.get_running_loop().time
        swept, size = clock(), 0
        while True:
            await asyncio.sleep(_CHECK_EVERY)
            ages = clock() - swept >= YOUNG_SECONDS / 2
            if not ages and self._index.size < 2 * size + _INDEXED_ANEW:
                continue
            for _ in self._index.sweep(ages=ages):
                await asyncio.sleep(0)
            size = self._index.size
            swept = clock() if ages else swept
