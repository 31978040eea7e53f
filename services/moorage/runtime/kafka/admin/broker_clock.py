"""Measures how far the clock of this process is from the brokers' clock, and corrects it.

The measurement is a record in `clocks`, whose time the broker sets when it appends the record.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.process import metrics
from moorage.runtime.process.clock import CLOCK_LIMIT, ClockReading, CorrectedClock
from moorage.runtime.process.failures import end_task, restarted
from moorage.runtime.process.versions import own_version
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.clock import ClockMeasured
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.topics import CLOCKS

log = structlog.get_logger(__name__)

_EVERY: Final = 30.0
"""Seconds between two measurements."""

_LOOK: Final = 1.0
"""Seconds between two checks of whether the machine's clock was set."""

_DOUBT: Final = timedelta(seconds=0.5)
"""The difference from which a measurement is repeated, because the answer may have been slow."""

_TRIES: Final = 3
_TIMEOUT: Final = 5.0  # seconds that Kafka may take to answer
_PATIENCE: Final = 5  # attempts to measure for the first time
_CHANGE: Final = timedelta(seconds=0.5)  # a change of the difference that is reported at once
_AGAIN: Final = 600.0  # seconds after which an unchanged difference is reported again
_PARTITION: Final = 0  # all processes measure the same broker
_APPEND_TIME: Final = 1  # Kafka's number of LogAppendTime


class UnmeasurableError(Exception):
    """The brokers' clock cannot be measured."""


class _Measured(NamedTuple):
    at: ClockReading
    offset: timedelta
    seconds: float
    """The time between the request and its answer."""


class BrokerClock:
    """Measures the clock of a process from time to time, and corrects it if it is off by more than a second.

    Args:
        names: the services of the process.
        clock: the clock to correct.
    """

    def __init__(self, settings: Settings, names: Sequence[str], clock: CorrectedClock) -> None:
        self._settings, self._names, self._clock = settings, tuple(names), clock
        self._host = socket.gethostname()
        self._key = f"{self._host}/{uuid.uuid4().hex[:12]}"
        self._producer: AIOKafkaProducer | None = None
        self._task: asyncio.Task[None] | None = None
        self._offset: timedelta | None = None
        self._reported = timedelta(0)
        self._reported_at = 0.0
        self._is_refused = False

    @property
    def state(self) -> str:
        """A sentence about a clock that is off, for the readiness page; empty if it is right."""
        if self._offset is None or abs(self._offset) <= CLOCK_LIMIT:
            return ""
        return f"the clock of this process is {_words(self._offset)} the brokers'; it is corrected"

    async def start(self) -> None:
        """Measure once, and then from time to time. Decisions and stamps may begin when this returns.

        If the brokers do not answer after several attempts, the machine's clock counts until they do.
        """
        for _ in range(_PATIENCE):
            if await self.measure():
                break
            await asyncio.sleep(_LOOK)
        else:
            log.warning("clock.not_measured", why="the brokers did not answer", topic=CLOCKS.short)
        self._task = asyncio.create_task(restarted("broker-clock", self._mind), name="broker-clock")

    async def stop(self) -> None:
        """Stop. The clock is the machine's again."""
        task, self._task = self._task, None
        await end_task(task)
        self._clock.forget()
        await self._close()

    async def measure(self) -> bool:
        """Measure, and correct the clock. Return whether there is a result; a lasting refusal is one."""
        try:
            found = await self._once()
            if abs(found.offset) > _DOUBT:
                found = min([found, *[await self._once() for _ in range(_TRIES - 1)]], key=lambda one: one.seconds)
        except (UnmeasurableError, TopicAuthorizationFailedError) as error:
            if not self._is_refused:
                self._is_refused = True
                why = str(error) if isinstance(error, UnmeasurableError) else describe(error, self._settings)
                log.warning("clock.not_measured", why=why, topic=CLOCKS.short)
            return True
        except (KafkaError, TimeoutError, OSError) as error:
            log.debug("clock.no_answer", error=repr(error))
            await self._close()
            return False
        self._is_refused = False
        self._offset = found.offset
        self._clock.set_offset(found.at, found.offset)
        metrics.CLOCK_OFFSET.set(found.offset.total_seconds())
        self._report(found.offset)
        return True

    async def _mind(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _EVERY
            while loop.time() < due and not self._clock.moved:  # noqa: ASYNC110 - the machine reports no step
                await asyncio.sleep(_LOOK)
            await self.measure()
            await asyncio.sleep(_LOOK)

    async def _once(self) -> _Measured:
        producer = await self._started()
        off = self._offset
        event = ClockMeasured(
            services=self._names,
            host=self._host,
            version=own_version(),
            offset_seconds=None if off is None else off.total_seconds(),
            corrected=bool(self._clock.correction),
        )
        began = self._clock.read()
        meta = Meta(event_id("clock", self._key, began.ticks), "moorage/clock", CLOCKS.event_type, subject=self._key)
        async with asyncio.timeout(_TIMEOUT):
            answer = await producer.send_and_wait(
                CLOCKS.name(self._settings.topic_prefix),
                event.model_dump_json(by_alias=True).encode(),
                key=self._key.encode(),
                partition=_PARTITION,
                headers=to_headers(meta),
            )
        if answer.timestamp_type != _APPEND_TIME:
            raise UnmeasurableError("the topic's message.timestamp.type is not LogAppendTime")
        seconds = self._clock.read().ticks - began.ticks
        own = began.wall + timedelta(seconds=seconds / 2)
        return _Measured(began, own - datetime.fromtimestamp(answer.timestamp / 1000, UTC), seconds)

    async def _started(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = clients.reports_producer(
                self._settings, client_id=f"moorage-clock-{self._key}", timeout_ms=round(_TIMEOUT * 1000)
            )
            self._producer = producer
            async with asyncio.timeout(_TIMEOUT):
                await producer.start()
        return self._producer

    async def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(Exception):  # the client is given up after any error
                async with asyncio.timeout(_TIMEOUT):
                    await producer.stop()

    def _report(self, offset: timedelta) -> None:
        """Log a clock that is off once for each change, and again every ten minutes; and one that is right again."""
        now = asyncio.get_running_loop().time()
        is_off = abs(offset) > CLOCK_LIMIT
        if not is_off:
            if self._reported:
                log.info("clock.right", services=self._names)
            self._reported = timedelta(0)
            return
        if abs(offset - self._reported) > _CHANGE or now - self._reported_at >= _AGAIN:
            self._reported, self._reported_at = offset, now
            log.error(
                "clock.off",
                services=self._names,
                host=self._host,
                seconds=round(offset.total_seconds(), 3),
                why=f"the clock of this process is {_words(offset)} the brokers'; it is corrected: check its NTP",
            )


def _words(offset: timedelta) -> str:
    seconds = offset.total_seconds()
    return f"{abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'}"
