"""Runs one or several services in a process: start, signals, health, watchdog, stop.

FastStream provides the life cycle and the process's own connection to Kafka, which the watchdog uses to check whether
Kafka answers. The partition tasks read and write the records.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog
import uvloop
from aiokafka.errors import KafkaError
from faststream import FastStream
from faststream.kafka import KafkaBroker
from starlette.routing import Route

from moorage.runtime.chains import grouped
from moorage.runtime.kafka.admin.broker_clock import BrokerClock
from moorage.runtime.kafka.admin.topic_settings import add_missing
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.refusals import REFUSALS, NotAuthenticatedError, describe
from moorage.runtime.kafka.clients.security import security
from moorage.runtime.kafka.partition.watchdog import Watchdog
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.kafka.tables.shared_reader import SharedReader
from moorage.runtime.process.clock import MACHINE, Clock, CorrectedClock
from moorage.runtime.process.decision_log import report_left_out
from moorage.runtime.process.failures import EXIT_FAILED, RuntimeFailure, end_task, restarted
from moorage.runtime.process.fleet_metrics import FleetMetrics
from moorage.runtime.process.health import HttpServer, health_app
from moorage.runtime.process.member import Member, MemberMaker
from moorage.runtime.process.memory import Freezing
from moorage.runtime.service import Service
from moorage.runtime.settings.process_settings import Settings

log = structlog.get_logger(__name__)

T = TypeVar("T")

ServiceMaker = Callable[[Settings], Service[Any]]
"""Creates a service. Its settings have the fleet's actual number of partitions."""

GC_THRESHOLDS: Final = (50_000, 20, 100)
"""The thresholds of the garbage collector in every process of the services."""

_PING_TIMEOUT = 5.0
_RETRY = 1.0  # seconds between attempts to reach Kafka


@dataclass(frozen=True, slots=True)
class ServiceRun:
    """The running members, reported once everything is ready."""

    services: tuple[str, ...]
    http_host: str
    http_port: int
    """0 when there is no HTTP server."""


async def run_services(
    services: Sequence[Service[Any] | ServiceMaker],
    settings: Settings,
    *,
    beside: Sequence[MemberMaker] = (),
    shared: SharedReader | None = None,
    routes: Sequence[Route] = (),
    clock: Clock | None = None,
    ready: Callable[[ServiceRun], None] | None = None,
    http: bool = True,
    stop: asyncio.Event | None = None,
    on_stuck: Callable[[str], None] | None = None,
) -> int:
    """Run services until a signal (SIGINT, SIGTERM), `stop`, or a failure; then stop in order.

    Args:
        services: the services, or functions that create them. Each gets a worker. Pass a function for a service that
            depends on the number of partitions, because an existing fleet's number may differ from the settings. For a
            service that is passed itself, such a difference is an error.
        settings: where Kafka is, and how to run.
        beside: functions that create the members that only read; these run beside the services.
        shared: reads for the global views of the services. It may also read for those members.
        routes: additional HTTP routes, which those members serve.
        clock: the source of the time; the machine's clock when None. It is corrected by the brokers' clock.
        ready: called once, when all partitions assigned to the workers are restored.
        http: whether to serve `/healthz`, `/readyz` and `/metrics`.
        stop: ends the run when it is set.
        on_stuck: called by the watchdog; by default it ends the process.

    Returns:
        The exit code: 0 after a stop in order, 70 after a failure.
    """
    process = _Process(
        services, settings, clock, ready, beside=beside, shared=shared, routes=routes, http=http, on_stuck=on_stuck
    )
    return await process.run(stop)


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on uvloop, with the garbage collector configured for large states."""
    # States are hundreds of thousands of small objects that live long and form no cycles. With Python's defaults,
    # scanning all of them so often would take a large part of a restore.
    gc.set_threshold(*GC_THRESHOLDS)
    return uvloop.run(main)


def _edge_broker(settings: Settings) -> KafkaBroker:
    broker = KafkaBroker(clients.servers(settings), logger=None, client_id="moorage-edge")
    # FastStream has no argument for a token provider, and its other arguments want passwords as text.
    broker._connection_kwargs.update(security(settings))  # noqa: SLF001 - as above
    return broker


class _Process:
    """One run of `run_services`."""

    def __init__(
        self,
        services: Sequence[Service[Any] | ServiceMaker],
        settings: Settings,
        clock: Clock | None,
        ready: Callable[[ServiceRun], None] | None,
        *,
        beside: Sequence[MemberMaker],
        shared: SharedReader | None,
        routes: Sequence[Route],
        http: bool,
        on_stuck: Callable[[str], None] | None,
    ) -> None:
        self._services = services
        self._beside = beside
        self._shared = shared or SharedReader(settings, client_id=f"moorage-globals-{uuid.uuid4().hex[:12]}")
        self._settings = settings
        self._clock = MACHINE if clock is None else CorrectedClock(clock.now)
        self._brokers_clock: BrokerClock | None = None
        self._ready = ready
        self._on_stuck = on_stuck
        self._workers: list[Member] = []
        self._began = False
        self._fleet = FleetMetrics(lambda: self._workers if self._began else [], self._clock.now)
        self._http = (
            HttpServer(
                health_app(
                    lambda: self._workers if self._began else [],
                    routes,
                    refused=REFUSALS.current,
                    clock=lambda: "" if self._brokers_clock is None else self._brokers_clock.state,
                    fleet=self._fleet,
                ),
                host=settings.http_host,
                port=settings.http_port,
            )
            if http
            else None
        )
        self._broker = _edge_broker(settings)
        self._watchdog: Watchdog | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: BaseException | None = None
        self._ending = asyncio.Event()
        self._app = FastStream(
            self._broker,
            logger=None,
            on_startup=[self._before],
            after_startup=[self._start],
            on_shutdown=[self._stop],
        )

    async def run(self, stop: asyncio.Event | None) -> int:
        if stop is not None:
            self._keep(self._exit_on(stop))
        try:
            await self._run()
        except RuntimeFailure as error:
            self._failure = error
            await self._stop()
        finally:
            for task in self._tasks:
                task.cancel()
        if self._failure is not None:
            log.critical("process.failed", problem=str(self._failure), exit_code=EXIT_FAILED)
            return EXIT_FAILED
        log.info("process.stopped")
        return 0

    async def _run(self) -> None:
        """Start, and stop once the end is requested. `FastStream.run` would check ten times a second for that."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._ending.set)
        ending = asyncio.create_task(self._ending.wait())
        starting = asyncio.create_task(self._app.start())
        try:
            await asyncio.wait((starting, ending), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            await ending
        finally:
            ending.cancel()
            await end_task(starting)
        await self._app.stop()

    async def _before(self) -> None:
        """Serve health first, then wait for Kafka and its topics."""
        if self._http is not None:
            await self._http.start()
            log.info("http.listening", host=self._settings.http_host, port=self._http.port)
        partitions = await self._make_topics()
        log.info("topics.ready", prefix=self._settings.topic_prefix, partitions=partitions)
        settings = self._settings.model_copy(update={"partitions": partitions})
        for given in self._services:
            if isinstance(given, Service) and partitions != self._settings.partitions:
                raise RuntimeFailure(
                    f"partitions: invalid value {self._settings.partitions}: the topics of "
                    f"{self._settings.topic_prefix!r} have {partitions}, which cannot be changed; "
                    f"set MOORAGE_PARTITIONS={partitions}"
                )
        made = [given if isinstance(given, Service) else given(settings) for given in self._services]
        by_name = {service.name: service for service in made}
        for names in grouped(by_name).values():
            chain = [by_name[name] for name in names]
            self._workers.append(Worker(chain, settings, clock=self._clock, partitions=partitions, shared=self._shared))
        if self._workers:
            self._brokers_clock = BrokerClock(settings, list(by_name), self._clock)
            await self._brokers_clock.start()
        self._workers += [make(settings) for make in self._beside]

    async def _make_topics(self) -> int:
        """Create the topics as soon as Kafka answers, with their settings. Return their number of partitions."""
        while True:
            try:
                counts = await ensure_topics(self._settings)
                await add_missing(self._settings)
                return next(iter(counts.values()))
            except NotAuthenticatedError as error:
                raise RuntimeFailure(str(error)) from None
            except (KafkaError, TimeoutError, OSError) as error:
                why = describe(error, self._settings)
                log.warning("kafka.not_reachable", servers=self._settings.bootstrap_servers, error=why)
                await asyncio.sleep(_RETRY)

    async def _start(self) -> None:
        for worker in self._workers:
            await worker.start()
            self._keep(worker.join())  # it ends by itself only after a failure
        self._began = True
        self._watchdog = Watchdog(
            self._workers,
            limit=self._settings.watchdog_timeout,
            hidden=3 * self._settings.transaction_timeout_ms / 1000,
            kafka_answers=self._kafka_answers,
            end=self._on_stuck,
        )
        self._watchdog.start()
        self._keep(restarted("fleet-metrics", self._fleet.run))
        self._keep(self._report_ready())

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work in the background. If it fails, the process ends."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._done)
        self._tasks.append(task)

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error
            self._ending.set()

    async def _stop(self) -> None:
        log.info("process.stopping")
        if self._watchdog is not None:
            await self._watchdog.stop()
        await asyncio.gather(*(worker.stop() for worker in self._workers), return_exceptions=True)
        await self._shared.stop()
        if self._brokers_clock is not None:
            await self._brokers_clock.stop()
        if self._http is not None:
            await self._http.stop()
        report_left_out()

    async def _report_ready(self) -> None:
        began = asyncio.get_running_loop().time()
        while not all(worker.ready for worker in self._workers):  # noqa: ASYNC110 - it depends on the states of many tasks
            await asyncio.sleep(0.05)
        freezing = Freezing(self._workers)
        freezing.now()
        self._keep(restarted("freezing", freezing.run))
        log.info(
            "process.ready",
            services=[worker.name for worker in self._workers],
            seconds=round(asyncio.get_running_loop().time() - began, 2),
        )
        if self._ready is not None:
            self._ready(
                ServiceRun(
                    services=tuple(worker.name for worker in self._workers),
                    http_host=self._settings.http_host,
                    http_port=0 if self._http is None else self._http.port,
                )
            )

    async def _exit_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._ending.set()

    async def _kafka_answers(self) -> bool:
        with contextlib.suppress(Exception):
            return await self._broker.ping(timeout=_PING_TIMEOUT)
        return False
