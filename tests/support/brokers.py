"""The brokers that tests run against: one interface over a named cluster, a container and the embedded broker.

In this order: MOORAGE_BOOTSTRAP_SERVERS, testcontainers when a Docker daemon answers and can have the image, the
embedded broker. MOORAGE_TEST_BROKER=external|docker|embedded names one; a named one that is missing fails the tests.
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

# An image more that would have to be pulled before any test; containers are swept by label instead.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")

Kind = Literal["external", "docker", "embedded"]


class BrokerMissingError(Exception):
    """The broker that was named is not to be had."""


class Broker(ABC):
    """A broker with an address that a restart does not change."""

    kind: Kind
    bootstrap: str

    @abstractmethod
    async def start(self) -> None:
        """Start it, or start it again after `stop` or `kill`; return when it answers."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop it in order; its data stays until `close`."""

    @abstractmethod
    async def kill(self) -> None:
        """End it at once, as a crash would."""

    @abstractmethod
    async def pause(self) -> None:
        """Freeze it: connections stay open, nothing answers."""

    @abstractmethod
    async def resume(self) -> None:
        """Let it go on after `pause`."""

    @abstractmethod
    async def close(self) -> None:
        """End it for good and leave nothing behind."""

    async def restart(self) -> None:
        """Stop it in order and start it again."""
        await self.stop()
        await self.start()


class ExternalBroker(Broker):
    """A cluster that somebody else runs: it can be used, not controlled."""

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
        """Delete the topics that this run made."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            ours = [name for name in await admin.list_topics() if name.startswith(self._prefix)]
            if ours:
                await admin.delete_topics(ours)
        finally:
            await admin.close()

    def _not_ours(self, verb: str) -> BrokerMissingError:
        return BrokerMissingError(f"cannot {verb} a cluster of somebody else; use the fixture own_broker")


class EmbeddedBroker(Broker):
    """The broker that Moorage brings, on a data folder of its own."""

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
            await asyncio.sleep(0.1)  # between two looks: nothing tells us when it is ready

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
        container = self._container = kafka_container(_free_port())
        container.start()
        atexit.register(sweep)  # where a signal or an error keeps the fixture from closing it
        host, port = container.get_container_host_ip(), container.get_exposed_port(_HOST_PORT)
        host = "127.0.0.1" if host == "localhost" else host  # the port is mapped for IPv4
        self.bootstrap = f"{host}:{port}"
        # The address is known only now that the container runs; it waits for this file before it starts Kafka.
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
    """Return a container of one broker, not yet started.

    Args:
        host_port: Its port on the host: a fixed one, for Docker would choose another at each restart.
    """
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - takes 0.5 s, and few runs need it

    settings = {
        **TUNING,
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "controller.listener.names": "CONTROLLER",
        # The node talks to itself, too (transaction markers), where the host's address leads nowhere.
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
    """Remove the containers of this run, or those of runs on this machine that ended without removing theirs.

    Args:
        stale_only: Leave this run's alone.
    """
    import docker  # noqa: PLC0415 - only where there is a daemon
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which broker the tests use.

    Attributes:
        kind: Which; None when the one that was named is missing.
        why: The reason, for the header of the run.
        named: Somebody asked for this one, so nothing else will do.
    """

    kind: Kind | None
    why: str
    named: bool


def choose() -> Choice:
    """Choose the broker of this run; quick, and starts nothing.

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
    """Return why there can be no container of Kafka; empty when there can."""
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
            client.images.get_registry_data(IMAGE)  # asks the registry, pulls nothing yet
        except (DockerException, OSError):
            return f"a Docker daemon answers, but {IMAGE} is neither there nor to be pulled"
    except (DockerException, OSError) as error:
        return f"a Docker daemon answers, but not about {IMAGE}: {error}"
    finally:
        client.close()
    return ""
