"""The brokers that tests run against: one interface over a named cluster, a container and the embedded broker.

They are tried in this order: MOORAGE_BOOTSTRAP_SERVERS, a container if a Docker daemon answers and can get the image,
the embedded broker. MOORAGE_TEST_BROKER=external|docker|embedded requires one of them; if it is missing, the tests
fail.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import shlex
import socket
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from moorage.cli.local.stack import free_ports
from moorage.runtime.embedded import EmbeddedKafka, answers
from moorage.runtime.embedded.config import TUNING

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

IMAGE = "apache/kafka:4.3.1"
CHOICE_VARIABLE = "MOORAGE_TEST_BROKER"
SERVERS_VARIABLE = "MOORAGE_BOOTSTRAP_SERVERS"
OWNER_LABEL = "io.moorage.tests.owner"
_OWNER = f"{socket.gethostname()}:{os.getpid()}"
_READY_WITHIN = 90.0  # seconds; a container on a busy machine takes 20
_HOST_PORT = 9092

# It would need another image before any test. Containers are removed by label instead.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")

Kind = Literal["external", "docker", "embedded"]


class BrokerMissingError(Exception):
    """The required broker is not available."""


class Broker(ABC):
    """A broker with an address that a restart does not change."""

    kind: Kind
    bootstrap: str

    @abstractmethod
    async def start(self) -> None:
        """Start it, also after `stop` or `kill`. Returns when it answers."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop it in order. Its data stays until `close`."""

    @abstractmethod
    async def kill(self) -> None:
        """End it at once, like a crash."""

    @abstractmethod
    async def pause(self) -> None:
        """Freeze it. Connections stay open, but nothing answers."""

    @abstractmethod
    async def resume(self) -> None:
        """Let it continue after `pause`."""

    @abstractmethod
    async def close(self) -> None:
        """Stop it for good and remove everything that belongs to it."""

    async def restart(self) -> None:
        """Stop it in order and start it again."""
        await self.stop()
        await self.start()


class ExternalBroker(Broker):
    """A cluster that is run by others. It can be used but not controlled."""

    kind = "external"

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.bootstrap = bootstrap
        self._prefix = prefix

    async def start(self) -> None:
        if not await answers(self.bootstrap, patience=10.0):
            raise BrokerMissingError(f"{SERVERS_VARIABLE}={self.bootstrap!r}: no broker answers there")

    async def stop(self) -> None:
        raise self._not_ours("stop")

    async def kill(self) -> None:
        raise self._not_ours("kill")

    async def pause(self) -> None:
        raise self._not_ours("pause")

    async def resume(self) -> None:
        raise self._not_ours("resume")

    async def close(self) -> None:
        """Delete the topics that this run created."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            ours = [name for name in await admin.list_topics() if name.startswith(self._prefix)]
            if ours:
                await admin.delete_topics(ours)
        finally:
            await admin.close()

    def _not_ours(self, verb: str) -> BrokerMissingError:
        return BrokerMissingError(f"cannot {verb} a cluster that others run; use the fixture own_broker")


class EmbeddedBroker(Broker):
    """The embedded broker, with a data folder of its own."""

    kind = "embedded"

    def __init__(self, data_dir: Path, settings: dict[str, str] | None = None) -> None:
        self.kafka = EmbeddedKafka(data_dir, settings=settings)

    async def start(self) -> None:
        await self.kafka.start()
        self.bootstrap = self.kafka.bootstrap

    async def stop(self) -> None:
        await self.kafka.stop()

    async def kill(self) -> None:
        await self.kafka.kill()

    async def pause(self) -> None:
        self.kafka.pause()

    async def resume(self) -> None:
        self.kafka.resume()

    async def close(self) -> None:
        await self.kafka.kill()


class DockerBroker(Broker):
    """Apache Kafka's public image in a container."""

    kind = "docker"

    def __init__(self) -> None:
        self._container: DockerContainer | None = None

    async def start(self) -> None:
        await asyncio.to_thread(self._start)
        deadline = time.monotonic() + _READY_WITHIN
        while not await answers(self.bootstrap):
            status, log = await asyncio.to_thread(self._status)
            if status != "running" or time.monotonic() > deadline:
                raise BrokerMissingError(f"the container of {IMAGE} is {status} and does not answer:\n{log}")
            await asyncio.sleep(0.1)  # seconds between two checks, because nothing signals that it is ready

    async def stop(self) -> None:
        await asyncio.to_thread(self._wrapped().stop, timeout=15)

    async def kill(self) -> None:
        await asyncio.to_thread(self._wrapped().kill)

    async def pause(self) -> None:
        await asyncio.to_thread(self._wrapped().pause)

    async def resume(self) -> None:
        await asyncio.to_thread(self._wrapped().unpause)

    async def close(self) -> None:
        if self._container is not None:
            await asyncio.to_thread(self._container.stop)

    def _start(self) -> None:
        if self._container is not None:
            self._wrapped().start()
            return
        sweep(stale_only=True)
        container = self._container = kafka_container(*free_ports(1))
        container.start()
        atexit.register(sweep)  # if a signal or an error prevents the fixture from closing it
        host, port = container.get_container_host_ip(), container.get_exposed_port(_HOST_PORT)
        host = "127.0.0.1" if host == "localhost" else host  # the port is mapped for IPv4
        self.bootstrap = f"{host}:{port}"
        # The address is known only after the container has started. It waits for this file before it starts Kafka.
        advertised = f"INTERNAL://localhost:19092,HOST://{self.bootstrap}"
        script = f"export KAFKA_ADVERTISED_LISTENERS={advertised}\nexec /etc/kafka/docker/run\n"
        write = f"printf %s {shlex.quote(script)} > /tmp/tc-start.part && mv /tmp/tc-start.part /tmp/tc-start.sh"
        code, output = container.exec(["sh", "-c", write])
        if code:
            raise BrokerMissingError(f"the container of {IMAGE} refused its start script: {output.decode()}")

    def _wrapped(self) -> Any:
        if self._container is None:
            raise RuntimeError("the container was not started")
        return self._container.get_wrapped_container()

    def _status(self) -> tuple[str, str]:
        wrapped = self._wrapped()
        wrapped.reload()
        return wrapped.status, wrapped.logs(tail=15).decode(errors="replace")


def kafka_container(host_port: int) -> DockerContainer:
    """Return a container with one broker, not started yet.

    Args:
        host_port: Its port on the host. It is fixed, because Docker would choose another one at each restart.
    """
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - takes 0.5 s, and few runs need it

    settings = {
        **TUNING,
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "controller.listener.names": "CONTROLLER",
        # The node also connects to itself (for transaction markers), where the host's address is not reachable.
        "inter.broker.listener.name": "INTERNAL",
        "listeners": f"INTERNAL://:19092,HOST://:{_HOST_PORT},CONTROLLER://:9093",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,HOST:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": "/var/lib/kafka/data",
    }
    container = DockerContainer(IMAGE)
    for key, value in settings.items():
        container.with_env("KAFKA_" + key.upper().replace(".", "_"), value)
    wait = "until [ -f /tmp/tc-start.sh ]; do sleep 0.1; done; exec bash /tmp/tc-start.sh"
    return (
        container.with_env("KAFKA_HEAP_OPTS", "-Xmx512m")
        .with_bind_ports(_HOST_PORT, host_port)
        .with_command(["sh", "-c", wait])
        .with_kwargs(labels={OWNER_LABEL: _OWNER})
    )


def sweep(*, stale_only: bool = False) -> None:
    """Remove the containers of this run, and those of earlier runs on this machine that did not remove theirs.

    Args:
        stale_only: Keep the containers of this run.
    """
    import docker  # noqa: PLC0415 - only if there is a daemon
    from docker.errors import DockerException  # noqa: PLC0415 - as above

    with contextlib.suppress(DockerException, OSError):
        client = docker.from_env()
        for container in client.containers.list(all=True, filters={"label": OWNER_LABEL}):
            host, _, pid = container.labels[OWNER_LABEL].partition(":")
            ours = f"{host}:{pid}" == _OWNER
            stale = host == socket.gethostname() and not Path(f"/proc/{pid}").exists() and Path("/proc").exists()
            if stale if stale_only else ours:
                with contextlib.suppress(DockerException):
                    container.remove(force=True, v=True)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which broker the tests use.

    Attributes:
        kind: The kind. None if the required broker is missing.
        why: The reason, for the header of the run.
        named: Whether this broker was required, so that no other one may be used.
    """

    kind: Kind | None
    why: str
    named: bool


def choose() -> Choice:
    """Choose the broker of this run. This is quick and starts nothing.

    Raises:
        BrokerMissingError: MOORAGE_TEST_BROKER names no kind of broker.
    """
    wanted, servers = os.environ.get(CHOICE_VARIABLE, ""), os.environ.get(SERVERS_VARIABLE, "")
    if wanted not in {"", "external", "docker", "embedded"}:
        raise BrokerMissingError(f"{CHOICE_VARIABLE}={wanted!r}: must be external, docker or embedded")
    named = f"named by {CHOICE_VARIABLE}"
    if wanted == "embedded":
        return Choice(kind="embedded", why=named, named=True)
    if wanted == "external" and not servers:
        return Choice(kind=None, why=f"external is {named}, but {SERVERS_VARIABLE} is not set", named=True)
    if servers and wanted != "docker":
        return Choice(kind="external", why=f"{SERVERS_VARIABLE}={servers}", named=True)
    obstacle = docker_obstacle()
    if not obstacle:
        return Choice(kind="docker", why=named if wanted else "a Docker daemon answers", named=bool(wanted))
    if wanted:
        return Choice(kind=None, why=f"docker is {named}, but {obstacle}", named=True)
    return Choice(kind="embedded", why=obstacle, named=False)


def docker_obstacle() -> str:
    """Return why a container of Kafka is not possible. Empty if it is."""
    import docker  # noqa: PLC0415 - takes 0.2 s
    from docker.errors import DockerException, ImageNotFound  # noqa: PLC0415 - as above

    try:
        client = docker.from_env(timeout=20)
        client.ping()
    except (DockerException, OSError):
        return "no Docker daemon answers"
    try:
        client.images.get(IMAGE)
    except ImageNotFound:
        try:
            client.images.get_registry_data(IMAGE)  # sends a request to the registry, but pulls nothing yet
        except (DockerException, OSError):
            return f"a Docker daemon answers, but {IMAGE} is not there and cannot be pulled"
    except (DockerException, OSError) as error:
        return f"a Docker daemon answers, but not about {IMAGE}: {error}"
    finally:
        client.close()
    return ""


async def until_it_has_groups(bootstrap: str) -> None:
    """Wait for the coordinator of groups. A new broker creates the topic of groups at the first request about one."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        async with asyncio.timeout(_READY_WITHIN):
            while True:
                try:
                    await admin.list_consumer_group_offsets("nobody")
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    await asyncio.sleep(0.05)  # seconds between two checks, because nothing signals that it is there
                else:
                    return
    finally:
        await admin.close()
