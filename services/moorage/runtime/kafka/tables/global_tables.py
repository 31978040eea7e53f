"""The global view of a service: every worker reads every partition of some topics.

A view that fails while it folds in records is no longer used: no task starts with it, and the worker ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from moorage.runtime.engine.journal import Journal
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.shared_reader import SharedReader, ViewReading
from moorage.runtime.process import metrics
from moorage.runtime.process.failures import RuntimeFailure, StartAfresh, end_task
from moorage.runtime.service import GlobalView, Input, Malformed
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire import codec
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)

Fold = Callable[[Topic, Any], None]
"""Folds in a consumed record of a topic."""

Decode = Callable[[Topic, Any], Input | Malformed]
"""Returns a consumed record as a view sees it."""

_BACKOFF = 0.5  # seconds between attempts to request the ends


class GlobalReader:
    """Keeps a `GlobalView` up to date for the lifetime of the worker, across changes of its tasks.

    Args:
        service: the service's name, for metrics.
        client_id: the client's name, for Kafka's logs.
        on_change: called with the partitions to wake; None for all of them.
        on_failure: called at once when the view can no longer be used. Without it, `failure` shows it.
        fold: folds in a record, in place of the view's `apply`; must not raise when a record is invalid.
        shared: reads for all views of the process. Without it, this view has a reader of its own.
    """

    def __init__(
        self,
        *,
        service: str,
        topics: Sequence[Topic],
        view: GlobalView,
        settings: Settings,
        partitions: int,
        client_id: str,
        on_change: Callable[[Iterable[int] | None], None],
        on_failure: Callable[[BaseException], None] | None = None,
        journal: Journal | None = None,
        fold: Fold | None = None,
        shared: SharedReader | None = None,
    ) -> None:
        self.view = view
        self.caught_up = asyncio.Event()
        self._service = service
        self._topics = topics
        self._settings = settings
        self._partitions = partitions
        self._on_change = on_change
        self._on_failure = on_failure
        self._journal = journal
        self._is_alone = shared is None
        self._shared = shared or SharedReader(settings, client_id=f"{client_id}-globals")
        self._fold: Fold = fold or partial(fold_into_view, view, service=service, decode=self._shared.decode)
        self._failure: RuntimeFailure | None = None
        self._offsets = Offsets(settings, name=f"{client_id}-globals")
        self._reading: ViewReading | None = None
        self._begins: dict[TopicPartition, int] = {}
        self._wanted = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def failure(self) -> RuntimeFailure | None:
        """Why the view can no longer be used; None while it can."""
        if self._failure is None and self._task is not None and not self._alive:
            return RuntimeFailure(f"the reader of the global view of {self._service} has ended")
        return self._failure

    @property
    def _alive(self) -> bool:
        return self._shared.alive if self._reading is None else self._reading.alive

    @property
    def sound(self) -> bool:
        """Whether the view has been read to its end once, and has followed Kafka since."""
        return self.caught_up.is_set() and self.failure is None and not self.standing

    @property
    def standing(self) -> frozenset[TopicPartition]:
        """The partitions that do not advance although Kafka has more."""
        return frozenset() if self._reading is None else self._reading.standing

    @property
    def followed(self) -> frozenset[TopicPartition]:
        """The partitions that are followed; empty until the first read is finished."""
        return frozenset(self._begins) if self.caught_up.is_set() else frozenset()

    async def behind(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the partitions that are not read to an end, each with the offset that it has reached."""
        return dict.fromkeys(ends, -1) if self._reading is None else await self._reading.behind(ends)

    @property
    def progress(self) -> float:
        """How far the first read has come, 0 to 1."""
        if self.caught_up.is_set():
            return 1.0
        if not self._wanted:
            return 0.0
        return min(0.999, (self._taken - sum(self._begins.values())) / self._wanted)

    @property
    def moves(self) -> int:
        """A number that changes with each step of the first read. The watchdog reads it."""
        return 0 if self.caught_up.is_set() else self._taken

    @property
    def _taken(self) -> int:
        reading = self._reading
        return 0 if reading is None else sum(map(reading.taken, self._begins))

    def start(self) -> None:
        """Start reading."""
        self._shared.start()
        self._task = asyncio.create_task(self._catch_up(), name=f"{self._service}-globals")

    async def stop(self) -> None:
        """Stop reading."""
        await end_task(self._task)
        self._task = None
        if self._reading is not None:
            await self._reading.stop()
        if self._is_alone:
            await self._shared.stop()

    async def freshen(self, topics: Collection[Topic], offsets: Offsets) -> dict[TopicPartition, int]:
        """Read some of the topics up to their committed end.

        Returns:
            The ends to which they were read; empty before the first read has begun.

        Raises:
            StartAfresh: the view is no longer read.
        """
        names = {topic.name(self._settings.topic_prefix) for topic in topics}
        reading, wanted = self._reading, [tp for tp in self._begins if tp.topic in names]
        if reading is None or not wanted:
            return {}
        ends = await offsets.stable(wanted)
        await reading.reached_all(ends)
        return ends

    async def _catch_up(self) -> None:
        while not self.caught_up.is_set() and self._failure is None:
            try:
                await self._read_to_end()
            except (KafkaError, TimeoutError, OSError, StartAfresh) as error:
                log.warning("globals.not_caught_up", service=self._service, error=describe(error, self._settings))
                await asyncio.sleep(_BACKOFF)
            except Exception as error:  # noqa: BLE001 - any error ends the worker
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Stop following the view, and let no task start with it, because a record may be folded in only partly."""
        if self._failure is not None:
            return
        self._failure = RuntimeFailure(f"the global view of {self._service} failed: {error!r}")
        log.error("globals.failed", service=self._service, exc_info=error)
        self.caught_up.clear()
        if self._reading is not None:
            self._reading.close()
        if self._on_failure is not None:
            self._on_failure(self._failure)

    async def _read_to_end(self) -> None:
        places = {
            TopicPartition(topic.name(self._settings.topic_prefix), partition): topic
            for topic in self._topics
            for partition in range(self._partitions)
        }
        await self._offsets.start()
        try:
            begins = await self._offsets.begin(places)
            ends = await self._offsets.end(places)
        finally:
            await self._offsets.stop()
        if self._reading is None:  # a second attempt continues the first one
            self._reading = self._shared.subscribe(begins, lambda tp: self._sink(places[tp]), on_failure=self._fail)
            self._begins = begins
        self._wanted = sum(ends[tp] - begins[tp] for tp in places)
        await self._reading.reached_all(ends)
        self._reading.is_complete = True
        self.caught_up.set()
        if self._journal is not None:
            self._journal.view_whole()
        self._on_change(None)

    def _sink(self, topic: Topic) -> Callable[[Sequence[Any]], None]:
        def take(records: Sequence[Any]) -> None:
            if records and self._journal is not None:
                self._journal.viewed(topic, records[0].partition, records)
            for record in records:
                self._fold(topic, record)
            if self.caught_up.is_set():
                self._on_change(self.view.changed())

        return take


def fold_into_view(view: GlobalView, topic: Topic, record: Any, *, service: str, decode: Decode = codec.decode) -> None:
    """Fold a consumed record into a view. A record that fails is logged, counted and skipped."""
    if not view.wants(topic, (record.key or b"").decode(errors="replace")):
        return
    decoded = decode(topic, record)
    if isinstance(decoded, Malformed):
        metrics.TABLE_RECORDS_SKIPPED.labels(service).inc()
        log.error(
            "globals.malformed_record",
            topic=topic.short,
            partition=record.partition,
            offset=record.offset,
            problem=decoded.message,
        )
        return
    try:
        view.apply(decoded)
    except Exception:
        metrics.TABLE_RECORDS_SKIPPED.labels(service).inc()
        log.exception("globals.record_not_applied", topic=topic.short, partition=record.partition, offset=record.offset)
