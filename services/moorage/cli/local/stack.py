"""All of Moorage on this machine: broker, topics, services and gateway. `up` and `demo` run it."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Self

from aiokafka.errors import KafkaError

from moorage.cli import flags
from moorage.cli.api import topics
from moorage.cli.errors import CliError
from moorage.cli.local import services
from moorage.cli.local.supervisor import ChildSpec, Launch, Supervisor, launch
from moorage.runtime.chains import grouped
from moorage.runtime.embedded import EmbeddedKafka, EmbeddedKafkaError, answers
from moorage.runtime.embedded.broker_users import BrokerUsers
from moorage.runtime.identities import kafka_identities
from moorage.runtime.identities.gateway_identities import GatewayIdentities
from moorage.runtime.kafka.admin import acls
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.clients.refusals import REFUSALS
from moorage.runtime.kafka.clients.security import security
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.settings.environment import variable
from moorage.runtime.settings.process_settings import Settings


@dataclass(frozen=True, slots=True)
class SecureKafka:
    """The roles of a fleet, and the folder of their passwords."""

    folder: Path
    """The folder of the passwords. It is made at the start."""

    roles: tuple[str, ...]
    allowed: Callable[[str], Collection[acls.AclEntry]]
    """Returns what all roles may do, for a prefix of the topics."""

    def broker_users(self) -> BrokerUsers:
        """Return the users for the broker, whose missing passwords are made.

        Raises:
            CliError: the folder cannot be used.
        """
        try:
            passwords = kafka_identities.ensure(self.folder, (*self.roles, kafka_identities.ADMIN))
        except OSError as error:
            raise CliError(f"the passwords for Kafka cannot be kept in {self.folder}: {error}") from None
        users = {kafka_identities.USERS + role: password for role, password in passwords.items()}
        return BrokerUsers(users, superusers=(kafka_identities.USERS + kafka_identities.ADMIN,))

    def as_admin(self, settings: Settings) -> Settings:
        """Return settings for the superuser of the brokers."""
        return settings.model_copy(update=kafka_identities.settings_of(self.folder, kafka_identities.ADMIN))

    def environment(self, role: str) -> dict[str, str]:
        """Return the environment variables that make a process this role."""
        found = kafka_identities.settings_of(self.folder, role)
        return {variable(field): value for field, value in found.items()}

    async def allow(self, settings: Settings) -> int:
        """Give the roles exactly the permissions that they need. Return the number of added permissions.

        Raises:
            KafkaError: Kafka does not answer, or refuses.
        """
        wanted = set(self.allowed(settings.topic_prefix))
        present = await acls.listed(settings, {entry.principal for entry in wanted})
        await acls.created(settings, wanted - present)
        return len(wanted - present)


_READY = "/readyz"
_READY_SECONDS = 120.0
_RENEW_SECONDS = 3_600.0
_BROKER_BACKOFF_MAX = 30.0
EMBEDDED_PARTITIONS = 1
"""The partitions of a new fleet on the embedded Kafka. One process of each service has all of them. With more, what
comes at once is divided among as many transactions, each of which wakes every reader: with six, a pod of a burst costs
a third more processor time, and is bound after twice the time."""

KAFKA_FOLDER = "kafka"
"""The folder of the embedded Kafka in the folder of the state."""

Say = Callable[[str], None]


@dataclass(eq=False)
class Stack:
    """Supervised broker, services and gateway. An async context manager.

    Without an address in the settings, Kafka is an embedded one, which requires authentication with `secure_kafka`. A
    `secure_gateway` serves HTTPS, and also requires authentication on this machine. With `follow`, the children's logs
    are printed. With `together`, all services share one process, which takes less memory and processor time. With
    `secure_kafka`, only the services of a chain share one, because a process is one user of Kafka.
    """

    settings: Settings
    folder: Path
    say: Say
    _: KW_ONLY
    follow: bool = False
    together: bool = False
    gateways: int = 1
    secure_gateway: bool = False
    launch: Launch = launch
    secure_kafka: SecureKafka | None = None

    server: str = field(default="", init=False)
    """The gateway's address when it is running."""

    _certificate: tuple[Path, Path] | None = field(default=None, init=False)
    _renewing: asyncio.Task[None] | None = field(default=None, init=False)
    _broker: EmbeddedKafka | None = field(default=None, init=False)
    _supervisor: Supervisor | None = field(default=None, init=False)
    _broker_task: asyncio.Task[None] | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._identities = GatewayIdentities.in_state(self.folder)
        self.bootstrap = self.settings.bootstrap_servers
        """Kafka's addresses when it is running."""

    @property
    def embedded(self) -> bool:
        """Whether the broker belongs to this stack."""
        return not self.settings.bootstrap_servers

    @property
    def is_open(self) -> bool:
        """Whether the gateway requires no authentication."""
        settings = self.settings
        if settings.loopback_admin is not None:
            return settings.loopback_admin and not self.secure_gateway
        return not (self.secure_gateway or settings.authenticates)

    @property
    def token_file(self) -> str:
        """The file with the administrator's token. Empty if the gateway has configured tokens."""
        return "" if self.settings.token_auth_file else str(self._identities.admin_token)

    @property
    def ca_file(self) -> str:
        """The authority of the gateway's certificate. Empty if it was not made here."""
        return str(self._identities.authority) if self._has_own_certificate else ""

    @property
    def logs(self) -> Path:
        """The folder of the children's logs."""
        return self.folder / "logs"

    @property
    def health(self) -> dict[str, str]:
        """The address of each process's health and metrics, by the child's name."""
        return {child.spec.name: child.spec.ready_url.removesuffix(_READY) for child in self.supervisor.children}

    @property
    def supervisor(self) -> Supervisor:
        """The supervisor of the child processes."""
        if self._supervisor is None:
            raise RuntimeError("a Stack is used inside `async with`")
        return self._supervisor

    async def __aenter__(self) -> Self:
        topics.quiet()
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop gateway, services and broker, in this order."""
        self._stopping = True
        if self._supervisor is not None:
            await self._supervisor.stop()
        if self._renewing is not None:
            self._renewing.cancel()
        if self._broker_task is not None:
            self._broker_task.cancel()
            await asyncio.gather(self._broker_task, return_exceptions=True)
        if self._broker is not None:
            await self._broker.stop()

    def kill(self) -> None:
        """Kill the children at once. The broker ends with this process."""
        if self._supervisor is not None:
            self._supervisor.kill()

    async def _start(self) -> None:
        settings = self.settings
        if self.embedded and "partitions" not in settings.model_fields_set:
            settings = settings.model_copy(update={"partitions": EMBEDDED_PARTITIONS})
        port = _gateway_port(settings)
        await self._start_broker()
        began = time.monotonic()
        settings = settings.model_copy(update={"bootstrap_servers": self.bootstrap})
        secure = self.secure_kafka
        if secure is not None:
            settings = secure.as_admin(settings)
        try:
            counts = await ensure_topics(settings)
            if secure is not None:
                added = await secure.allow(settings)
                self.say(f"Kafka requires authentication; {added} permissions added, passwords in {secure.folder}")
        except RuntimeFailure as error:
            raise CliError(str(error)) from None
        except (KafkaError, OSError) as error:
            raise topics.unreachable(settings, error) from None
        partitions = next(iter(counts.values()))
        # A fleet keeps its number of partitions, whatever the settings are now.
        settings = settings.model_copy(update={"partitions": partitions})
        self.say(f"{len(counts)} topics with {partitions} partition{'s' * (partitions != 1)} ({_took(began)})")
        began = time.monotonic()
        self._identities.ensure()
        if self._has_own_certificate:
            self._certificate = self._identities.server_certificate()
            self._renewing = asyncio.create_task(self._renew(), name="renew the certificate")
        self.server = f"{self._scheme}://127.0.0.1:{port}"
        self._supervisor = Supervisor(self._specs(settings, port), self.say, follow=self.follow, launch=self.launch)
        await self._supervisor.start()
        await self._supervisor.until_ready(_READY_SECONDS)
        self.say(f"services and gateway are ready ({_took(began)})")

    async def _start_broker(self) -> None:
        began = time.monotonic()
        if not self.embedded:
            if not await answers(self.bootstrap, client=security(self.settings)):
                refused = REFUSALS.current()
                silent = topics.unreachable(self.settings, ConnectionError("no answer"))
                raise CliError(refused[0]) if refused else silent
            self.say(f"Kafka at {self.bootstrap} answers")
            return
        if self.settings.kafka_security_protocol != "PLAINTEXT":
            raise CliError(
                f"MOORAGE_KAFKA_SECURITY_PROTOCOL: invalid value {self.settings.kafka_security_protocol!r}: only with "
                "MOORAGE_BOOTSTRAP_SERVERS, because the embedded Kafka has users of its own, with --secure-kafka"
            )
        secured = None if self.secure_kafka is None else self.secure_kafka.broker_users()
        self._broker = EmbeddedKafka(self.folder / KAFKA_FOLDER, users=secured)
        try:
            await self._broker.start()
        except EmbeddedKafkaError as error:
            self._broker = None
            raise CliError(str(error)) from None
        self.bootstrap = self._broker.bootstrap
        self.say(f"Kafka runs at {self.bootstrap} ({_took(began)})")
        self._broker_task = asyncio.create_task(self._keep_broker(self._broker), name="keep kafka")

    async def _keep_broker(self, broker: EmbeddedKafka) -> None:
        """Restart the broker when it ends by itself. It keeps its port and its data."""
        delay = 0.5
        while True:
            code = await broker.wait()
            if self._stopping:
                return
            self.say(f"Kafka ended with code {code}; restarting in {delay:g} s")
            await asyncio.sleep(delay)
            delay = min(delay * 2, _BROKER_BACKOFF_MAX)
            await broker.stop()
            while True:
                try:
                    await broker.start()
                except EmbeddedKafkaError as error:
                    self.say(str(error))
                    await asyncio.sleep(delay)
                else:
                    break

    def _specs(self, settings: Settings, gateway_port: int) -> list[ChildSpec]:
        names = [*services.names(), services.WEBHOOKS, services.QUERY]
        groups: list[Sequence[str]] = [names]
        if not self.together:
            groups = [[name] for name in names]
        elif self.secure_kafka is not None:
            # A process is one user, who may do what one service or one chain may do.
            groups = list(grouped(names).values())
        ports = free_ports(len(groups) + 2 * self.gateways, besides=gateway_port)
        specs = [self._spec(settings, group, port) for group, port in zip(groups, ports, strict=False)]
        # The query worker is in the last of the groups.
        query = f"http://127.0.0.1:{ports[len(groups) - 1]}"
        rest = ports[len(groups) :]
        for number in range(self.gateways):
            own, other = rest[2 * number : 2 * number + 2]
            found = self._spec(
                settings, [services.GATEWAY], own, gateway_port=other if number else gateway_port, query=query
            )
            specs.append(
                found if not number else replace(found, name=f"{found.name}-{number + 1}", log=self._log(number))
            )
        return specs

    @property
    def _scheme(self) -> str:
        return "https" if self.secure_gateway or self.settings.tls_cert_file else "http"

    @property
    def _has_own_certificate(self) -> bool:
        return self.secure_gateway and not self.settings.tls_cert_file

    async def _renew(self) -> None:
        """Replace the gateway's certificate before it ends. The gateway reads it again."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await asyncio.to_thread(self._identities.server_certificate)
            except (OSError, ValueError) as error:
                self.say(f"the gateway's certificate cannot be renewed: {error}")

    def _log(self, number: int) -> Path:
        return self.logs / f"{services.GATEWAY}-{number + 1}.log"

    def _spec(
        self, settings: Settings, group: Sequence[str], port: int, *, gateway_port: int = 0, query: str = ""
    ) -> ChildSpec:
        role, *others = grouped(group)
        name = "services" if others else role
        identity = {} if self.secure_kafka is None else self.secure_kafka.environment(role)
        environment = {
            "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
            "MOORAGE_PARTITIONS": str(settings.partitions),
            "MOORAGE_HTTP_HOST": "127.0.0.1",
            "MOORAGE_HTTP_PORT": str(port),
            "MOORAGE_STATE_DIR": str(self.folder),
            "MOORAGE_LOG_FORMAT": "json" if settings.log_format == "auto" else settings.log_format,
            **flags.environment(settings),
            **identity,
        }
        if not settings.service_account_signing_key_file:
            environment["MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE"] = str(self._identities.signing_key)
        if gateway_port:
            environment |= {"MOORAGE_GATEWAY_PORT": str(gateway_port), "MOORAGE_QUERY_SERVER": query}
            environment["MOORAGE_LOOPBACK_ADMIN"] = str(self.is_open).lower()
            if not settings.token_auth_file:
                environment["MOORAGE_TOKEN_AUTH_FILE"] = str(self._identities.tokens)
            if self._certificate is not None:
                certificate, key = self._certificate
                environment["MOORAGE_TLS_CERT_FILE"] = str(certificate)
                environment["MOORAGE_TLS_PRIVATE_KEY_FILE"] = str(key)
                environment["MOORAGE_GATEWAY_CA_FILE"] = str(self._identities.authority)
        return ChildSpec(
            name=name,
            arguments=("run", "--with-parent", *group),
            environment=environment,
            log=self.logs / f"{name}.log",
            ready_url=f"{self._scheme if gateway_port else 'http'}://127.0.0.1:{gateway_port or port}{_READY}",
        )


_RESERVED: deque[socket.socket] = deque()
_MOST_RESERVED = 256


def free_ports(count: int, *, besides: int = 0) -> list[int]:
    """Return free ports of the loopback interface.

    On Linux the last 256 stay reserved for servers that set SO_REUSEADDR: a socket that is bound but does not listen
    keeps the system from giving the port to another program. Elsewhere such a socket would also keep the server out.
    """
    sockets = [socket.socket() for _ in range(count + 1)]
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", 0))
    found = [int(one.getsockname()[1]) for one in sockets]
    _RESERVED.extend(sockets)
    while len(_RESERVED) > (_MOST_RESERVED if sys.platform == "linux" else 0):
        _RESERVED.popleft().close()
    return [port for port in found if port != besides][:count]


def _gateway_port(settings: Settings) -> int:
    if not settings.gateway_port:
        return free_ports(1)[0]
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", settings.gateway_port))
        except OSError as error:
            raise CliError(
                f"the gateway cannot listen on port {settings.gateway_port} of 127.0.0.1: {error.strerror}.\n"
                "Stop the program that uses it, or choose another port (0 for a free one) with `moorage up --port` or "
                "MOORAGE_GATEWAY_PORT."
            ) from None
    return settings.gateway_port


def _took(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"
