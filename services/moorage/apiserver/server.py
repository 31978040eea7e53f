"""Runs the gateway: reads the object log, serves HTTP, and leads when it is chosen to."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from ipaddress import ip_address

import structlog
import uvicorn
from starlette.applications import Starlette

from moorage.apiserver.authentication.account_tokens import StoredAccounts
from moorage.apiserver.authentication.authenticator import ADMIN, Authenticator
from moorage.apiserver.authentication.certificates import ServerTls
from moorage.apiserver.http.app import Front, Gateway, create_app
from moorage.apiserver.http.filters.hosts import hosts_of
from moorage.apiserver.http.forwarding import Forwarding
from moorage.apiserver.http.intake.explain import Explanations
from moorage.apiserver.http.protocol import IncompleteHeads, Protocol
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.storage.kafka.durable_log import KafkaLog
from moorage.apiserver.storage.kafka.leadership import Leadership
from moorage.apiserver.storage.kafka.object_reader import ObjectReader, object_partition
from moorage.apiserver.storage.kafka.report_outcomes import KafkaReportOutcomes
from moorage.apiserver.storage.kafka.term import Beginning
from moorage.apiserver.storage.kafka.topic_records import KafkaTopicRecords
from moorage.apiserver.storage.store import Store
from moorage.runtime.kafka.admin.broker_clock import BrokerClock
from moorage.runtime.kafka.admin.broker_times import broker_times
from moorage.runtime.kafka.admin.topic_settings import add_missing
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.tables.table_age import TableAge, tombstones_kept
from moorage.runtime.process.clock import MACHINE
from moorage.runtime.process.failures import RuntimeFailure, StartAfresh, TablesTooOld, first_of
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import RESOURCES

_log = structlog.get_logger(__name__)

_FIRST = 5.0  # seconds in which the first configuration is usually written
_RENEW = 10.0  # seconds between two looks whether the certificate of HTTPS has changed
_LOOK = 1.0  # seconds between two checks of the age of the tables

_OTHER_FILES = 256
"""Open files that a gateway needs besides its connections: those to Kafka and to other gateways."""

_IDLE = 90
"""Seconds for which an idle connection stays open, as in Kubernetes. Go's clients close theirs then, so that few
requests are sent just as the connection is closed."""

Ready = Callable[[str], None]


async def serve(settings: Settings, *, ready: Ready | None = None, front: Front | None = None) -> None:
    """Serve until cancelled.

    The gateway starts again after it was stopped for so long that it may have missed deletions, and when its reader
    makes no progress.

    The port answers from the beginning. Until the tables are read, the answer is 503 with the progress. `ready` is
    called once with the gateway's address when reads and writes are served. `front` makes what stands before the API.

    Raises:
        RuntimeFailure: the topics do not have the expected settings.
        KafkaError: Kafka does not answer, or reading has failed for good.
        OSError: the port is in use.
    """
    while True:
        try:
            await _serve(settings, ready, front)
        except* (TablesTooOld, StartAfresh) as reasons:
            _log.warning("gateway.starts_again", why=str(first_of(reasons)))


async def _serve(settings: Settings, ready: Ready | None, front: Front | None) -> None:
    """Serve until cancelled."""
    store, metrics, clock = Store(), Metrics(), MACHINE
    brokers_clock = BrokerClock(settings, ("gateway",), clock)
    tls = server_tls(settings)
    authenticator = authenticator_of(settings, store, metrics)
    sock = listen(settings.http_host, settings.gateway_port)
    scheme = "http" if tls is None else "https"
    address = _address(sock, scheme)
    log = KafkaLog(settings, store, clock, metrics, address=settings.gateway_address or _reachable(sock, scheme))
    reading, outcomes, records = _Reading(), KafkaReportOutcomes(settings), KafkaTopicRecords(settings)
    forwarding = Forwarding(store, log.leader, log, ca_file=settings.gateway_ca_file)
    app = create_app(
        Gateway(
            store=store,
            log=log,
            clock=clock,
            metrics=metrics,
            settings=settings,
            hosts=hosts_of(settings),
            progress=reading.progress,
            behind=reading.obstacle,
            catch_up=reading.catch_up,
            clock_state=lambda: brokers_clock.state,
            explanations=Explanations(
                settings.query_server, peers=authenticator.peers, simulation_timeout=settings.simulation_timeout
            ),
            outcomes=outcomes,
            records=records,
            authenticator=authenticator,
            forwarding=forwarding,
        ),
        front,
    )
    async with http_server(app, sock, tls, most_connections=_connections(settings)) as server:
        try:
            async with asyncio.TaskGroup() as tasks:
                partitions = outcomes.partitions = records.partitions = (await ensure_topics(settings))[RESOURCES.short]
                await add_missing(settings)
                await brokers_clock.start()
                kept = await tombstones_kept(settings)
                times = await broker_times(settings)
                age = TableAge(clock, kept)
                objects = reading.begin(ObjectReader(settings, partitions, store, metrics))
                await objects.start()
                tasks.create_task(objects.run(), name="gateway-objects")
                tp = object_partition(settings, partitions)
                leadership = Leadership(settings, times, tp, lambda: log.leads_since)
                await log.start(partitions)
                tasks.create_task(leadership.run(), name="gateway-leadership")
                leads = log.lead(leadership, times, lambda: TableAge(clock, kept), _during(app))
                tasks.create_task(leads, name="gateway-leader")
                await objects.catch_up()
                tasks.create_task(age.mind(objects.read_to_ends), name="gateway-age")
                tasks.create_task(_until_too_old(age), name="gateway-tables")
                await _until_served(store, log, forwarding, app.state.first_content.done)
                _log.info("gateway.ready", address=address, leads=log.leads)
                if ready is not None:
                    ready(address)
                tasks.create_task(_until_closed(server), name="gateway-http")
        finally:
            store.history.close()
            await brokers_clock.stop()
            await log.close()
            await reading.close()


class _Reading:
    """The reader of the object log, as soon as there is one."""

    def __init__(self) -> None:
        self._reader: ObjectReader | None = None

    def begin(self, reader: ObjectReader) -> ObjectReader:
        """Note the reader, and return it."""
        self._reader = reader
        return reader

    def progress(self) -> str:
        """Return how far the object log was read."""
        return "connecting to Kafka" if self._reader is None else self._reader.progress()

    async def catch_up(self) -> None:
        """Read the object log to its present end."""
        if self._reader is not None:
            await self._reader.read_to_ends()

    def obstacle(self) -> str:
        """Return what keeps the object log from being read, or nothing."""
        return "" if self._reader is None else self._reader.obstacle()

    async def close(self) -> None:
        """Disconnect."""
        if self._reader is not None:
            await self._reader.close()


def _during(app: Starlette) -> Beginning:
    """Return what runs while this gateway leads: its own controllers, and the writer of the first configuration."""

    @contextlib.asynccontextmanager
    async def during() -> AsyncIterator[None]:
        # The services use their own settings until it exists, so nothing depends on it.
        first = asyncio.create_task(app.state.first_content.run(), name="gateway-configuration")
        try:
            async with app.state.leading():
                yield
        finally:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)

    return during


async def _until_served(store: Store, log: KafkaLog, forwarding: Forwarding, configured: asyncio.Event) -> None:
    """Return when reads are served, and writes are, here or by another gateway."""
    while not store.ready:
        await store.history.wait()
    await forwarding.found()
    if log.leads:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST):
                await configured.wait()


async def _until_too_old(age: TableAge) -> None:
    while True:
        age.check()
        await asyncio.sleep(min(_LOOK, age.interval))


async def _until_closed(server: asyncio.Task[None]) -> None:
    await asyncio.shield(server)
    raise RuntimeError("the HTTP server has ended")


@contextlib.asynccontextmanager
async def http_server(
    app: object, sock: socket.socket, tls: ServerTls | None = None, *, most_connections: int = 0
) -> AsyncIterator[asyncio.Task[None]]:
    """Serve HTTP on a socket within the context, or HTTPS with `tls`. The socket is closed at the end.

    0 as `most_connections` means any number.
    """
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]  # uvicorn's type of an application is narrower than Starlette's
        http=type("LimitedProtocol", (Protocol,), {"most_connections": most_connections, "heads": IncompleteHeads()}),
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=65_536,
    )
    config.load()
    renewing = None
    if tls is not None:
        config.ssl = tls.context
        renewing = asyncio.create_task(_renewing(tls), name="http-certificates")
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[sock]), name="http")
    try:
        yield task
    finally:
        if renewing is not None:
            renewing.cancel()
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await task
        sock.close()


def _connections(settings: Settings) -> int:
    """Return the number of connections to keep, by the settings and the limit of open files.

    The limit is raised as far as this process may.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or not settings.max_connections:
        return settings.max_connections
    wanted = settings.max_connections + _OTHER_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(settings.max_connections, soft - _OTHER_FILES))


async def _renewing(tls: ServerTls) -> None:
    while True:
        await asyncio.sleep(_RENEW)
        tls.refresh()


def server_tls(settings: Settings) -> ServerTls | None:
    """Return how HTTPS is served. None if it is not. Raises RuntimeFailure if a file cannot be used."""
    if not settings.tls_cert_file:
        return None
    try:
        return ServerTls(settings)
    except (OSError, ValueError) as error:
        raise RuntimeFailure(str(error)) from None


def authenticator_of(settings: Settings, store: Store, metrics: Metrics) -> Authenticator:
    """Return what authenticates the gateway's callers.

    Raises:
        RuntimeFailure: a file cannot be used, or others than this machine could call without saying who they are.
    """
    if not settings.listens_on_loopback and not settings.authenticates:
        raise RuntimeFailure(
            f"MOORAGE_HTTP_HOST: invalid value {settings.http_host!r}: others than this machine would reach the "
            "gateway without showing who they are. Set MOORAGE_TOKEN_AUTH_FILE, MOORAGE_CLIENT_CA_FILE or "
            "MOORAGE_OIDC_ISSUER_URL, or listen on 127.0.0.1."
        )
    try:
        found = Authenticator(settings, StoredAccounts(store), metrics)
    except (OSError, ValueError) as error:
        raise RuntimeFailure(str(error)) from None
    if found.without is ADMIN:
        _log.warning("gateway.open", why="without a token, every local user is its administrator")
    return found


def _address(sock: socket.socket, scheme: str) -> str:
    """Return the address of a listening socket."""
    host, port = sock.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _reachable(sock: socket.socket, scheme: str) -> str:
    """Return the address at which other gateways reach a listening socket, unless a setting gives another one."""
    host, port = sock.getsockname()[:2]
    return f"{scheme}://{socket.gethostname()}:{port}" if ip_address(host).is_unspecified else _address(sock, scheme)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

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
