"""Parts that the benchmarks share: a broker, records, processes of services, medians, and the last line of JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import socket
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx
import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from bench import history

from moorage.runtime.app import run_async
from moorage.runtime.embedded import EmbeddedKafka
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.taint import Toleration
from moorage_schemas.topics import Topic, partition_of

Record = tuple[int, bytes, bytes, list[tuple[str, bytes]]]
"""Partition, key, value, headers."""

CONDITIONS = {
    "Ready": "True",
    "MemoryPressure": "False",
    "DiskPressure": "False",
    "PIDPressure": "False",
    "NetworkUnavailable": "False",
}
"""The conditions of a healthy node."""

KUBELET = {"reason": "KubeletReady", "message": "kubelet is posting ready status", "source": "probe/kubelet"}
"""The fields of a report on a healthy node."""

_GRACE = 20.0  # seconds that a process may take to stop


# Options and results.


def parser(about: str | None, **defaults: float | str) -> argparse.ArgumentParser:
    """Return a parser with an option for each default."""
    found = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        option = f"--{name.replace('_', '-')}"
        found.add_argument(option, type=type(default), default=default, help=f"default: {default}")
    return found


def median(values: Iterable[float], digits: int | None = None) -> float:
    """Return the median as a plain number, rounded if digits are given."""
    found = float(statistics.median(values))
    return found if digits is None else round(found, digits)


def note(text: str) -> None:
    """Write a message about progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def report(result: dict[str, Any]) -> dict[str, Any]:
    """Record a result if that is wanted, print it as the last line, and return it.

    A result without `bench` comes from a process that helps a benchmark. It is not recorded.
    """
    if "bench" in result:
        history.record(result)
    print(json.dumps(result), flush=True)
    return result


def run(main: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Run a benchmark on uvloop, and report its result."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))  # errors only
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

    async def started() -> dict[str, Any]:
        return await main()

    return report(run_async(started()))


# Kafka.


@asynccontextmanager
async def kafka() -> AsyncIterator[str]:
    """Provide the address of a broker: MOORAGE_BOOTSTRAP_SERVERS, otherwise an embedded broker for this run."""
    if named := os.environ.get("MOORAGE_BOOTSTRAP_SERVERS"):
        yield named
        return
    with tempfile.TemporaryDirectory(prefix="moorage-bench-") as folder:
        async with EmbeddedKafka(Path(folder)) as broker:
            yield broker.bootstrap


async def fleet(bootstrap: str, *, partitions: int) -> Settings:
    """Return the settings of a new fleet whose topics exist. `BENCH_PREFIX` sets the prefix of their names."""
    prefix = f"{os.environ.get('BENCH_PREFIX', 'bench')}-{uuid.uuid4().hex[:8]}"
    settings = Settings(bootstrap_servers=bootstrap, topic_prefix=prefix, partitions=partitions)
    await ensure_topics(settings)
    return settings


class Writer:
    """A producer of events; an async context manager.

    Args:
        settings: the settings of the fleet.
        source: the source that its records name.
        options: options of the producer that differ from those for many records.
    """

    def __init__(self, settings: Settings, source: str = "bench", **options: Any) -> None:
        self._settings = settings
        self._source = source
        given = {"linger_ms": 5, "max_batch_size": 200_000, **options}
        self._producer = AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers, **given)

    async def __aenter__(self) -> Self:
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.stop()

    async def send(
        self, topic: Topic, key: str, event: Model | str, *, partition_key: str = "", **meta: Any
    ) -> Awaitable[Any]:
        """Send an event, or its JSON. Return what can be awaited until it is written.

        Args:
            topic: its topic.
            key: its key.
            event: the event.
            partition_key: the key that chooses the partition, if it is another one.
            meta: fields of its envelope.
        """
        meta.setdefault("id", event_id(topic.short, key, time.time_ns()))
        meta.setdefault("source", self._source)
        value = event if isinstance(event, str) else event.model_dump_json()
        sent: Awaitable[Any] = await self._producer.send(
            topic.name(self._settings.topic_prefix),
            value.encode(),
            key=key.encode(),
            partition=partition_of(partition_key or key, self._settings.partitions),
            headers=to_headers(Meta(type=topic.event_type, **meta)),
        )
        return sent

    async def flush(self) -> None:
        """Return when everything is written."""
        await self._producer.flush()


def places_of(settings: Settings, *topics: Topic) -> list[TopicPartition]:
    """Return the partitions of topics."""
    names = [topic.name(settings.topic_prefix) for topic in topics]
    return [TopicPartition(name, number) for name in names for number in range(settings.partitions)]


async def read(settings: Settings, *topics: Topic) -> AsyncIterator[tuple[Topic, list[Any]]]:
    """Read topics from their beginning to their present end, as batches of records with their topic."""
    by_name = {topic.name(settings.topic_prefix): topic for topic in topics}
    places = places_of(settings, *topics)
    async with AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        isolation_level="read_committed",
        enable_auto_commit=False,
        max_partition_fetch_bytes=8_000_000,
    ) as consumer:
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends = await consumer.end_offsets(places)
        while any([await consumer.position(place) < end for place, end in ends.items()]):
            for place, batch in (await consumer.getmany(timeout_ms=200, max_records=20_000)).items():
                yield by_name[place.topic], batch


async def send_batched(producer: AIOKafkaProducer, topic: str, records: Iterable[Record]) -> list[Awaitable[Any]]:
    """Send records, each run of the same partition in batches of its own. Return what tells that they are written."""
    sent: list[Awaitable[Any]] = []
    batch, current = None, -1
    for partition, key, value, headers in records:
        same = {"timestamp": None, "key": key, "value": value, "headers": headers}
        if batch is None or partition != current or batch.append(**same) is None:
            if batch is not None:
                batch.close()
                sent.append(await producer.send_batch(batch, topic, partition=current))
            batch, current = producer.create_batch(), partition
            batch.append(**same)
    if batch is not None:
        batch.close()
        sent.append(await producer.send_batch(batch, topic, partition=current))
    return sent


# Objects.


def node_ref(name: str) -> TargetRef:
    """Return the reference of a node."""
    return TargetRef(kind=TargetKind.NODE, name=name)


def tolerations(seconds: int = 300) -> list[dict[str, Any]]:
    """Return the tolerations of a pod for a lost node, as admission adds them."""
    same = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    return [{"key": f"node.kubernetes.io/{key}", **same} for key in ("not-ready", "unreachable")]


TOLERATED = tuple(Toleration.model_validate(one) for one in tolerations())


def document(api: str, kind: str, name: str, namespace: str = "", **parts: Any) -> dict[str, Any]:
    """Return an object."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | parts.pop("metadata", {})
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **parts}


def node_document(name: str, zone: str = "", cpu: int = 32) -> dict[str, Any]:
    """Return a node with room for 110 pods."""
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/region": "region-1"}
    labels |= {"topology.kubernetes.io/zone": zone} if zone else {}
    status = {"allocatable": {"cpu": f"{cpu}", "memory": f"{4 * cpu}Gi", "pods": "110"}}
    return document("v1", "Node", name, metadata={"labels": labels}, status=status)


def pod_spec(cpu: str = "100m", seconds: int = 300, image: str = "app:1") -> dict[str, Any]:
    """Return the spec of a pod with requests, which tolerates a lost node for some seconds."""
    resources = {"requests": {"cpu": cpu, "memory": "128Mi"}}
    return {
        "containers": [{"name": "main", "image": image, "resources": resources}],
        "tolerations": tolerations(seconds),
    }


def deployment_document(name: str, namespace: str, replicas: int, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a Deployment with pods of a spec."""
    app = {"app": name}
    template = {"metadata": {"labels": app}, "spec": spec}
    whole = {"replicas": replicas, "selector": {"matchLabels": app}, "template": template}
    return document("apps/v1", "Deployment", name, namespace, metadata={"labels": app}, spec=whole)


# Processes.


def memory() -> int:
    """Return the memory that this process uses now, in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, user and system. 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def spawn(command: Sequence[str], environment: Mapping[str, str], log: Path) -> asyncio.subprocess.Process:
    """Start a process with pipes for input and output, and a log for errors. It ends with this process."""
    with log.open("ab") as errors:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=errors if "--with-parent" in command else asyncio.subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **environment},
        )


@dataclass(slots=True)
class ServiceProcess:
    """`moorage run NAME` in a process."""

    name: str
    process: asyncio.subprocess.Process
    port: int
    log: Path

    @classmethod
    async def start(cls, name: str, settings: Settings, folder: Path, **environment: str) -> Self:
        """Start a service on a fleet.

        Args:
            name: the service, such as `eviction`.
            settings: the settings of the fleet.
            folder: the folder for its log.
            environment: additional `MOORAGE_…` variables.
        """
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        given = {
            "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
            "MOORAGE_HTTP_PORT": str(port),
            "MOORAGE_GATEWAY_PORT": str(port),
            "MOORAGE_LOG_LEVEL": "warning",
            "MOORAGE_LOG_FORMAT": "json",
            **environment,
        }
        command = [sys.executable, "-m", "moorage.cli", "run", name, "--with-parent"]
        log = folder / f"{name}.log"
        return cls(name, await spawn(command, given, log), port, log)

    async def get(self, path: str) -> httpx.Response:
        """Request a path of its HTTP server."""
        async with httpx.AsyncClient(timeout=10.0, trust_env=False) as http:
            return await http.get(f"http://127.0.0.1:{self.port}/{path}")

    async def ready(self, seconds: float) -> None:
        """Wait until it reports that it is ready.

        Raises:
            RuntimeError: it ended, or was not ready in time. The message contains the end of its log.
        """
        ends = time.monotonic() + seconds
        while True:
            with suppress(httpx.HTTPError):
                if (await self.get("readyz")).is_success:
                    return
            if self.process.returncode is not None or time.monotonic() > ends:
                raise RuntimeError(f"{self.name} was not ready within {seconds:.0f} s; its log:\n{self.tail()}")
            await asyncio.sleep(0.1)

    def tail(self) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-15:])

    def peak_bytes(self) -> int:
        """Return the highest memory use of the process in bytes (`VmHWM`). 0 if it has ended."""
        try:
            lines = Path(f"/proc/{self.process.pid}/status").read_text("ascii", "replace").splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used. 0 if it has ended."""
        return cpu_seconds(self.process.pid)

    async def stop(self) -> None:
        """Ask it to stop, and kill it if it does not."""
        if self.process.returncode is None:
            self.process.terminate()
            try:
                async with asyncio.timeout(_GRACE):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
                await self.process.wait()


async def settled(members: Sequence[ServiceProcess], partitions: int, *, within: float) -> None:
    """Wait until the processes of a service share the partitions evenly, and standbys of all of them are warm.

    A single process has no standbys.

    Raises:
        TimeoutError: that did not happen in time.
    """
    standbys = partitions if len(members) > 1 else 0
    async with asyncio.timeout(within):
        while True:
            owned, warm = [], 0
            for member in members:
                with suppress(httpx.HTTPError, ValueError, KeyError):  # it is starting
                    found = (await member.get("readyz")).json()["services"][member.name]
                    owned.append(sum(one["phase"] == "Running" for one in found["partitions"].values()))
                    warm += sum(one == "Warm" for one in found["standbys"].values())
            shared = len(owned) == len(members) and sum(owned) == partitions and max(owned) - min(owned) <= 1
            if shared and warm == standbys:
                return
            await asyncio.sleep(0.2)
