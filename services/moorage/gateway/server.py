"""Runs the gateway: reads the tables, takes over the writes, and serves HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator

import structlog
import uvicorn

from moorage.gateway.http.app import Gateway, create_app
from moorage.gateway.http.explain import Explanations
from moorage.gateway.http.hosts import hosts_of
from moorage.gateway.kafka.durable_log import KafkaLog
from moorage.gateway.kafka.reader import Reader
from moorage.gateway.metrics import Metrics
from moorage.gateway.store import Store
from moorage.runtime.clock import WallClock
from moorage.runtime.errors import StartAfresh, TablesTooOld
from moorage.runtime.kafka.table_age import TableAge, tombstones_kept
from moorage.runtime.kafka.topic_settings import add_missing
from moorage.runtime.kafka.topics_admin import ensure_topics
from moorage.runtime.settings import Settings
from moorage_schemas.topics import RESOURCES

_log = structlog.get_logger(__name__)

_FIRST = 5.0  # seconds in which the first configuration is usually written
_LOOK = 1.0  # seconds between two checks of the age of the tables

Ready = Callable[[str], None]


async def serve(settings: Settings, *, ready: Ready | None = None) -> None:
    """Serve until cancelled.

    The gateway starts again after it was stopped for so long that it may have missed deletions, and when its reader
    makes no progress.

    The port answers from the beginning. Until the tables are read, the answer is 503 with the progress.

    Args:
        settings: Kafka's addresses, and the address to listen on.
        ready: called once with the gateway's address, such as `http://127.0.0.1:8080`, when reads and writes are
            served.

    Raises:
        RuntimeFailure: the topics do not have the expected settings.
        KafkaError: Kafka does not answer, or reading has failed for good.
        OSError: the port is in use.
    """
    while True:
        try:
            await _serve(settings, ready)
        except* (TablesTooOld, StartAfresh) as reasons:
            _log.warning("gateway.starts_again", why=str(first_of(reasons)))


def first_of(error: BaseException) -> BaseException:
    """The first error that is not an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _serve(settings: Settings, ready: Ready | None) -> None:
    """Serve until cancelled.

    Raises:
        ExceptionGroup: with TablesTooOld or StartAfresh, among others, if everything has to be read again.
    """
    store, metrics, clock = Store(), Metrics(), WallClock()
    reader = Reader(settings, store, metrics)
    log = KafkaLog(settings, reader, clock, metrics)
    app = create_app(
        Gateway(
            store=store,
            log=log,
            clock=clock,
            metrics=metrics,
            settings=settings,
            hosts=hosts_of(settings),
            progress=reader.progress,
            behind=reader.obstacle,
            explanations=Explanations(settings.query_server),
        )
    )
    async with _http(app, settings) as (server, address):
        try:
            async with asyncio.TaskGroup() as tasks:
                partitions = (await ensure_topics(settings))[RESOURCES.short]
                await add_missing(settings)
                age = TableAge(clock, await tombstones_kept(settings))
                log.age = age
                await reader.start(partitions)
                tasks.create_task(reader.run(), name="gateway-reader")
                await log.start(partitions)
                tasks.create_task(log.run(), name="gateway-writer")
                # The services use their own settings until it exists, so nothing depends on it.
                begun = tasks.create_task(app.state.first_content.run(), name="gateway-configuration")
                await asyncio.wait({begun}, timeout=_FIRST)
                _log.info("gateway.ready", address=address)
                if ready is not None:
                    ready(address)
                tasks.create_task(_until_closed(server), name="gateway-http")
                tasks.create_task(age.mind(reader.read_to_ends), name="gateway-age")
                tasks.create_task(_until_too_old(age), name="gateway-tables")
        finally:
            store.history.close()
            await log.close()
            await reader.close()


async def _until_too_old(age: TableAge) -> None:
    while True:
        age.check()
        await asyncio.sleep(min(_LOOK, age.interval))


async def _until_closed(server: asyncio.Task[None]) -> None:
    await asyncio.shield(server)
    raise RuntimeError("the HTTP server has ended")


@contextlib.asynccontextmanager
async def _http(app: object, settings: Settings) -> AsyncIterator[tuple[asyncio.Task[None], str]]:
    """Serve HTTP within the context."""
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]  # uvicorn's type of an application is narrower than Starlette's
        host=settings.http_host,
        port=settings.gateway_port,
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=65_536,
    )
    sock = listen(settings.http_host, settings.gateway_port)
    host, port = sock.getsockname()[:2]
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[sock]), name="http")
    try:
        yield task, f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    finally:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await task
        sock.close()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    asyncio turns off Nagle's algorithm only for sockets whose protocol is stated as TCP, which is not the case for
    uvicorn's own. With the algorithm, an answer in two parts waits 40 ms for the delayed acknowledgement of the client.

    Raises:
        OSError: the port cannot be used; the message names it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise OSError(f"gateway_port: invalid value {port}: cannot listen on {host}:{port}: {error.strerror}") from None
    return sock


class _Server(uvicorn.Server):
    """uvicorn without signal handlers. The process that runs the gateway has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield
