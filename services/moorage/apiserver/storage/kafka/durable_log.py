"""The durable log on Kafka: the writes of the leading gateway, and the condition reports of every gateway."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from typing_extensions import override

from moorage.apiserver.machinery.api_errors import unavailable
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.storage.durable_log import Log, Write, check_sizes
from moorage.apiserver.storage.kafka.leadership import Leadership
from moorage.apiserver.storage.kafka.object_lines import object_lines
from moorage.apiserver.storage.kafka.term import Beginning, Deposed, Term, TermEnded, stop
from moorage.apiserver.storage.kafka.write_spans import WriteSpans
from moorage.apiserver.storage.store import Store
from moorage.runtime.kafka.admin.broker_times import BrokerTimes
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.kafka.tables.table_age import TableAge
from moorage.runtime.process.clock import Clock
from moorage.runtime.process.decision_log import decision_log
from moorage.runtime.process.failures import StartAfresh, TablesTooOld
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.envelope import to_headers
from moorage_schemas.shown import GatewayLeader
from moorage_schemas.topics import partition_of

_log = structlog.get_logger(__name__)

_STARTING: Final = "the gateway is not ready: it is still starting"
_FOLLOWS: Final = "this gateway does not lead"
_REPORT_TIMEOUT: Final = 15.0
_RETRY: Final = 1.0  # seconds between a term that has failed and the next one


class KafkaLog(Log):
    """The log of a fleet."""

    def __init__(self, settings: Settings, store: Store, clock: Clock, metrics: Metrics, *, address: str) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._term: Term | None = None
        self._reports: AIOKafkaProducer | None = None
        self._reports_lock = asyncio.Lock()
        self._partitions = 0
        self._why = _STARTING
        self._failed = False
        """Whether the last term has ended with an error."""

        self.leader: Final = GatewayLeader(instance=uuid.uuid4().hex, address=address)
        """The identity of this gateway."""

        store.led = self._note_leader

    @property
    def leads(self) -> bool:
        """Whether this gateway leads, or is about to."""
        return self._term is not None

    @property
    def leads_since(self) -> int:
        """The version of this gateway's takeover. 0 if it does not lead."""
        return self._term.began if self._term is not None else 0

    @property
    @override
    def obstacle(self) -> str:
        return self._why if self._term is None else self._term.obstacle

    @property
    def failing(self) -> bool:
        """Whether Kafka takes no writes, as far as is known: a term has ended so, and the next one has not begun."""
        return self._failed and not self.leads_since

    async def start(self, partitions: int) -> None:
        """Connect the writer of condition reports. Raises KafkaError if Kafka does not answer."""
        self._partitions = partitions
        await self._reports_producer()

    async def lead(
        self, leadership: Leadership, times: BrokerTimes, new_age: Callable[[], TableAge], during: Beginning
    ) -> None:
        """Lead whenever this gateway is chosen, until cancelled. `during` is entered while writes are possible."""
        self._why = _FOLLOWS
        while True:
            if not leadership.chosen:
                self._failed = False
            await leadership.until(chosen=True)
            self._term = Term(
                self._settings,
                self._partitions,
                self._store,
                self._clock,
                self._metrics,
                leader=self.leader,
                times=times,
                age=new_age(),
            )
            try:
                await _run(self._term, leadership, during)
                self._why, self._failed = _FOLLOWS, False
            except Deposed:
                self._why, self._failed = _FOLLOWS, False
                leadership.lost()
            except (TermEnded, TablesTooOld, StartAfresh, KafkaError, TimeoutError, OSError) as error:
                why = describe(error, self._settings) if isinstance(error, KafkaError) else str(error) or repr(error)
                self._why = f"the gateway is not ready: {why}"
                self._failed = True
                _log.warning("gateway.term_ended", why=why)
            finally:
                self._term = None
            await self._pause(leadership)

    @staticmethod
    async def _pause(leadership: Leadership) -> None:
        """Wait before the next term, in case the reason for the end of the last one remains."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_RETRY):
                await leadership.until(chosen=False)

    def _note_leader(self) -> None:
        """Note that a gateway has taken over. If it is not this one, the term of this one has ended."""
        found, term = self._store.leader, self._term
        if found is None or term is None or found.instance == self.leader.instance:
            return
        if term.began and self._store.leader_version > term.began:
            term.depose()

    async def close(self) -> None:
        """Close everything that is open. Never raises."""
        self._why = "the gateway is stopping"
        await stop(self._reports)

    @override
    async def commit(self, writes: Sequence[Write], *, is_shown: bool = True) -> int:
        if self._term is None:
            raise unavailable(self.obstacle)
        spans = WriteSpans(writes, self._clock.now())
        version = await self._term.commit(spans.writes, is_shown=is_shown)
        spans.written(self._settings.topic_prefix, self._clock.now())
        object_lines(decision_log(self._settings), spans.writes)
        return version

    @override
    async def report(self, writes: Sequence[Write]) -> list[int]:
        check_sizes(writes)
        if not self._partitions:
            raise unavailable(self.obstacle)
        spans = WriteSpans(writes, self._clock.now())
        try:
            async with asyncio.timeout(_REPORT_TIMEOUT):
                producer = await self._reports_producer()
                sent = [await self._send(producer, write) for write in spans.writes]
                found = [record.offset for record in await asyncio.gather(*sent)]
        except (KafkaError, TimeoutError) as error:
            # This producer may be unusable (Kafka may have forgotten its sequence). The next report gets a new one.
            broken, self._reports = self._reports, None
            await stop(broken)
            why = describe(error, self._settings)
            raise unavailable(
                f"Kafka did not accept the report within {_REPORT_TIMEOUT:g} s; send it again: {why}"
            ) from None
        spans.written(self._settings.topic_prefix, self._clock.now())
        return found

    async def _send(self, producer: AIOKafkaProducer, write: Write) -> Any:
        """Send a record. Returns a future of its place in Kafka."""
        return await producer.send(
            write.topic.name(self._settings.topic_prefix),
            key=write.key.encode(),
            value=write.value,
            partition=partition_of(write.partition_key, self._partitions),
            headers=to_headers(write.meta),
        )

    async def _reports_producer(self) -> AIOKafkaProducer:
        async with self._reports_lock:
            if self._reports is None:
                producer = clients.reports_producer(
                    self._settings,
                    client_id=f"{self._settings.topic_prefix}.gateway-reports",
                    timeout_ms=int(_REPORT_TIMEOUT * 1000),
                )
                try:
                    await producer.start()
                except BaseException:
                    await stop(producer)
                    raise
                self._reports = producer
            return self._reports


async def _run(term: Term, leadership: Leadership, during: Beginning) -> None:
    """Run a term until it ends with an error, or until this gateway is no longer chosen."""
    work = asyncio.create_task(term.run(during), name="gateway-term")
    lost = asyncio.create_task(leadership.until(chosen=False), name="gateway-not-chosen")
    try:
        await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        work.cancel()
        lost.cancel()
        await asyncio.gather(work, lost, return_exceptions=True)
    if not work.cancelled():
        work.result()
