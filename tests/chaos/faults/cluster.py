"""Three brokers as processes, from the embedded broker's own jars, with a link that can be harmed before each.

Each node is controller and broker at once, as small clusters are run; three copies of everything, two must be in sync.
A broker has two listeners for services, "sides" A and B, each behind a proxy of its own, so that a link can be harmed
for some processes while others keep theirs. Tests themselves, and the brokers among each other, take a third listener
that nothing harms.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code
from aiokafka.protocol.admin import AlterPartitionReassignmentsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Int16, Int32, Schema, String
from tests.chaos.faults.proxy import Proxy

from moorage.cli.local.stack import free_ports
from moorage.runtime.embedded import answers, config, jars
from moorage.runtime.embedded.warmup import SUPERVISOR
from moorage.runtime.process import shared_files

NODES = 3
SIDES = ("A", "B")
HEAP_MB = 192
DISK_MB = 192
"""Room of the broker whose disk can be filled."""

SESSION = 3.0
"""Seconds of silence after which the controller takes a broker for lost."""

_START_WITHIN = 90.0
_STOP_WITHIN = 15.0
_TOLD_WITHIN = 2.0
_POLL = 0.05
_LISTENERS = "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT," + ",".join(f"{side}:PLAINTEXT" for side in SIDES)
_DISK = "moorage-faults-"  # begins the name of a mounted disk; the number of the process that made it follows
_LIMITS = hasattr(resource, "prlimit")  # Linux can limit the files of another process
_NO_LEADER_MOVED = {0, 84}  # 84: the preferred replica leads already
_LARGER_THAN_ALL = 1 << 62

SETTINGS: Mapping[str, str] = {
    **config.TUNING,
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    # Rounds are short: a lost broker is noticed in seconds, and leads again soon after it is back.
    "broker.session.timeout.ms": str(int(SESSION * 1000)),
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "3000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "5",
    "leader.imbalance.per.broker.percentage": "0",
    "controlled.shutdown.retry.backoff.ms": "200",
    # The times of records are the broker's, so that a checker need not trust a writer's clock.
    "log.message.timestamp.type": "LogAppendTime",
    # The cleaner and retention look often; what they may take is said by each topic (`QUICK_CLEANING`).
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.threads": "1",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "log.cleaner.dedupe.buffer.size": str(2 * 1024 * 1024),
    "offsets.retention.minutes": "60",
}


def quick_cleaning(lag: float, retention: float) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of compacted topics and of others with which records are taken away within seconds.

    Args:
        lag: seconds for which a compacted topic keeps every record. Tombstones stay for 20 s more: a process that is
            behind for half of that time reads everything anew (decision 0019), and a gateway needs seconds to do so.
        retention: seconds for which other topics keep records.
    """
    rolling = {"segment.ms": "1000", "segment.jitter.ms": "0"}
    compact = {
        **rolling,
        "min.compaction.lag.ms": str(int(lag * 1000)),
        "delete.retention.ms": "20000",
        "min.cleanable.dirty.ratio": "0.01",
    }
    return compact, {**rolling, "retention.ms": str(int(retention * 1000))}


_TRIES = 3
_TAKEN = "Address already in use"


class ClusterError(Exception):
    """The cluster cannot be started, or does not do what is asked of it."""


class Node:
    """One broker of the cluster: its folder, its process, the links to it.

    Args:
        number: the node's id, from 1.
        folder: where its data and logs are.
        distribution: the Kafka that runs.
        bounded: its data lies on a small disk of its own, which can be filled.
    """

    def __init__(self, number: int, folder: Path, distribution: jars.Distribution, *, bounded: bool) -> None:
        self.number = number
        self.folder = folder
        self._distribution = distribution
        self._bounded = bounded
        self._mounted = False
        self._process: subprocess.Popen[bytes] | None = None
        self.pid = 0
        """The JVM's process id, of this run or the last."""

        self.ports: dict[str, int] = {}
        self.proxies: dict[str, Proxy] = {}
        """The links of services to this broker, by side."""

    @property
    def running(self) -> bool:
        """Whether its process is there (it may stand still)."""
        return self._process is not None and self._process.poll() is None

    @property
    def bootstrap(self) -> str:
        """The address that nothing harms."""
        return f"127.0.0.1:{self.ports['INTERNAL']}"

    @property
    def disk(self) -> str:
        """How its disk can be filled, in words; empty for a broker whose disk cannot."""
        if not self._bounded or not (self._mounted or _LIMITS):
            return ""
        return f"a disk of {DISK_MB} MB" if self._mounted else "a limit on the size of its files (mounting is refused)"

    def prepare(self, cluster_id: str, ports: Mapping[str, int], voters: str) -> None:
        """Make the folder and format it."""
        self.ports = dict(ports)
        data = self.folder / config.LOGS
        data.mkdir(parents=True)
        if self._bounded:
            options = f"size={DISK_MB}m"
            self._mounted = _run("mount", "-t", "tmpfs", "-o", options, f"{_DISK}{os.getpid()}", str(data))
        self.proxies = {side: Proxy(self.ports[side]) for side in SIDES}
        self._format(data, cluster_id)
        self._voters = voters

    async def start(self) -> None:
        """Start the process; `answers` says when it serves."""
        if self.running:
            return
        for proxy in self.proxies.values():
            await proxy.start()
        self._write_settings()
        with (self.folder / "console.log").open("ab") as console:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - returns at once, and a pipe is wanted that outlives no loop
                [
                    *(sys.executable, "-I", "-S", str(SUPERVISOR), "1", str(os.getpid()), str(_STOP_WITHIN)),
                    *(str(console.fileno()), *self._distribution.command(heap_mb=HEAP_MB)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=console,
                pass_fds=(console.fileno(),),
                cwd=self.folder,
                env=config.jvm_environment(),
                start_new_session=True,
            )
        stdout = self._process.stdout
        line = await asyncio.to_thread(stdout.readline) if stdout is not None else b""
        self.pid = int(line or 0)

    async def until_answers(self, seconds: float = _START_WITHIN) -> None:
        """Return when it serves clients.

        Raises:
            ClusterError: its process ended, or it does not answer in time; with the end of its log.
        """
        deadline = time.monotonic() + seconds
        while not await answers(self.bootstrap):
            if not self.running or time.monotonic() > deadline:
                raise ClusterError(f"broker {self.number} does not answer:\n{self.log_tail()}")
            await asyncio.sleep(_POLL)

    async def stop(self) -> None:
        """Stop it in order: it hands its partitions over first."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()  # what the supervisor waits for
        await self._ended()

    async def kill(self) -> None:
        """Kill it at once (SIGKILL)."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        await self._ended()

    async def until_ended(self, seconds: float) -> bool:
        """Whether it ended by itself within that time."""
        deadline = time.monotonic() + seconds
        while self.running and time.monotonic() < deadline:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(_POLL)
        return not self.running

    def pause(self) -> None:
        """Let it stand still (SIGSTOP), its connections open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def fill_disk(self) -> str:
        """Leave no room for its data, and say how.

        Raises:
            ClusterError: its disk cannot be filled.
        """
        if not self.disk:
            raise ClusterError(f"the disk of broker {self.number} cannot be filled")
        if self._mounted:
            with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
        else:
            # Where nothing can be mounted: no file may grow any more, which fails appends as a full disk does.
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (4096, _LARGER_THAN_ALL))
        return self.disk

    def free_disk(self) -> None:
        """Make room again."""
        self._ballast.unlink(missing_ok=True)
        if not self._mounted and _LIMITS and self.running:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (_LARGER_THAN_ALL, _LARGER_THAN_ALL))

    async def close(self) -> None:
        """End it and leave no mount behind."""
        self.resume_if_running()
        await self.kill()
        for proxy in self.proxies.values():
            await proxy.stop()
        if self._mounted:
            _unmount(self.folder / config.LOGS)
            self._mounted = False

    def resume_if_running(self) -> None:
        """Let it go on, should it stand still."""
        if self.running:
            self.resume()

    def log_tail(self, lines: int = 40) -> str:
        """The last lines that it logged."""
        found: list[str] = []
        for name in (config.LOG_FILE, "console.log"):
            with contextlib.suppress(OSError):
                found += (self.folder / name).read_text(errors="replace").splitlines()[-lines:]
        return "\n".join(found)

    @property
    def _ballast(self) -> Path:
        return self.folder / config.LOGS / "ballast"

    async def _ended(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        while process.poll() is None:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(_POLL)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _write_settings(self) -> None:
        ports = self.ports
        own = {"INTERNAL": ports["INTERNAL"], **{side: ports[side] for side in SIDES}}
        advertised = {"INTERNAL": ports["INTERNAL"], **{side: self.proxies[side].port for side in SIDES}}
        settings = {
            **SETTINGS,
            "process.roles": "broker,controller",
            "node.id": str(self.number),
            "controller.quorum.voters": self._voters,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "INTERNAL",
            "listener.security.protocol.map": _LISTENERS,
            "listeners": _addresses({**own, "CONTROLLER": ports["CONTROLLER"]}),
            "advertised.listeners": _addresses(advertised),
            "log.dirs": config.LOGS,
        }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.folder / config.PROPERTIES_FILE).write_text(text)
        (self.folder / config.LOGGING_FILE).write_text(config.LOGGING)

    def _format(self, data: Path, cluster_id: str) -> None:
        shared_files.write_whole(data / "bootstrap.checkpoint", self._distribution.checkpoint)
        identity = f"version=1\nnode.id={self.number}\ncluster.id={cluster_id}\ndirectory.id={config.kafka_uuid()}\n"
        shared_files.write_whole(data / "meta.properties", identity.encode())


class Cluster:
    """Three brokers on one machine; an async context manager.

    Args:
        folder: where their data goes; removed at the end.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes: list[Node] = []

    @property
    def bootstrap(self) -> str:
        """The addresses that nothing harms: for tests themselves."""
        return ",".join(node.bootstrap for node in self.nodes)

    def bootstrap_of(self, side: str) -> str:
        """The addresses behind the proxies of one side: for services."""
        return ",".join(f"127.0.0.1:{node.proxies[side].port}" for node in self.nodes)

    async def __aenter__(self) -> Self:
        for tries_left in reversed(range(_TRIES)):
            try:
                await self._start()
                break
            except ClusterError as error:
                await self.close()
                # Another program may have taken a port after it was found to be free.
                if not tries_left or _TAKEN not in str(error):
                    raise
            except BaseException:
                await self.close()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all brokers and remove their data."""
        await asyncio.gather(*(node.close() for node in self.nodes))
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _start(self) -> None:
        _unmount_orphans()
        distribution = await asyncio.to_thread(jars.prepare)
        self.nodes = [
            Node(number, self.folder / f"broker-{number}", distribution, bounded=number == NODES)
            for number in range(1, NODES + 1)
        ]
        names = ("INTERNAL", "CONTROLLER", *SIDES)
        ports = free_ports(NODES * len(names))
        each = [dict(zip(names, ports[at : at + len(names)], strict=True)) for at in range(0, len(ports), len(names))]
        voters = ",".join(
            f"{node.number}@127.0.0.1:{own['CONTROLLER']}" for node, own in zip(self.nodes, each, strict=True)
        )
        cluster_id = config.kafka_uuid()
        for node, own in zip(self.nodes, each, strict=True):
            node.prepare(cluster_id, own, voters)
        await asyncio.gather(*(node.start() for node in self.nodes))
        await asyncio.gather(*(node.until_answers() for node in self.nodes))
        await self.until_whole()

    async def mend(self) -> None:
        """Whatever was done to it: every link plain, every broker running, every copy in sync."""
        for node in self.nodes:
            for proxy in node.proxies.values():
                await proxy.heal()
            node.free_disk()
            node.resume_if_running()
            await node.start()
        await asyncio.gather(*(node.until_answers() for node in self.nodes))
        await self.until_whole()

    async def until_whole(self, seconds: float = 180.0) -> None:
        """Return when every partition has all its copies in sync.

        Raises:
            ClusterError: it does not come to that in time.
        """
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(Exception):
                if not await self._incomplete():
                    return
            if time.monotonic() > deadline:
                raise ClusterError(f"not every copy is in sync after {seconds:.0f} s")
            await asyncio.sleep(_POLL * 4)

    async def _incomplete(self) -> int:
        async with administrator(self.bootstrap) as admin:
            if len((await admin.describe_cluster())["brokers"]) < NODES:
                return 1
            described = await admin.describe_topics()
        parts = [part for topic in described for part in topic["partitions"]]
        return sum(part["leader"] < 0 or len(part["isr"]) < len(part["replicas"]) for part in parts)

    async def configure(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Set the settings of topics, in place of all that were set before."""
        async with administrator(self.bootstrap) as admin:
            wanted = [
                ConfigResource(ConfigResourceType.TOPIC, name, configs=dict(values))
                for name, values in settings.items()
            ]
            for response in await admin.alter_configs(wanted):
                for code, message, *_ in response.resources:
                    if code:
                        raise ClusterError(f"settings of topics: {for_code(code).__name__}: {message}")

    async def move_leaders(self, topics: Sequence[str], by: int) -> int:
        """Let other brokers lead the partitions of some topics; return how many have another leader afterwards.

        Args:
            topics: their names.
            by: how many places each partition's list of copies is turned by.
        """
        async with administrator(self.bootstrap) as admin:
            described = [found for found in await admin.describe_topics(list(topics)) if not found["error_code"]]
            turned = {
                found["topic"]: {part["partition"]: _turned(part["replicas"], by) for part in found["partitions"]}
                for found in described
            }
            wanted: list[Any] = [
                (name, [(partition, copies, {}) for partition, copies in parts.items()], {})
                for name, parts in turned.items()
            ]
            answer = await admin._send_to_controller(AlterPartitionReassignmentsRequest(10_000, wanted, {}))
            if answer.error_code:
                raise ClusterError(f"order of copies: {for_code(answer.error_code).__name__}")
            election = await admin._send_to_controller(
                _ElectLeaders([(name, list(parts)) for name, parts in turned.items()], 10_000)
            )
            for _, results in election.replica_election_results:
                for _, code, message in results:
                    if code not in _NO_LEADER_MOVED:
                        raise ClusterError(f"leaders: {for_code(code).__name__}: {message}")
            before = _leaders(described)
            # Any broker answers, and it may not have heard yet.
            deadline = time.monotonic() + _TOLD_WITHIN
            while True:
                after = _leaders(await admin.describe_topics(list(topics)))
                moved = sum(leader != before.get(part) for part, leader in after.items())
                if moved == len(after) or time.monotonic() > deadline:
                    return moved
                await asyncio.sleep(_POLL)

    async def delete_topics(self, prefix: str) -> None:
        """Delete the topics of a round."""
        await delete_topics(self.bootstrap, prefix)


async def delete_topics(bootstrap: str, prefix: str) -> None:
    """Delete the topics of a prefix."""
    async with administrator(bootstrap) as admin:
        ours = [name for name in await admin.list_topics() if name.startswith(f"{prefix}.")]
        if ours:
            await admin.delete_topics(ours)


def _leaders(described: Any) -> dict[tuple[str, int], int]:
    """Who leads each partition."""
    return {(found["topic"], part["partition"]): part["leader"] for found in described for part in found["partitions"]}


class _Administrator:
    def __init__(self, bootstrap: str) -> None:
        self._client = AIOKafkaAdminClient(bootstrap_servers=bootstrap.split(","), client_id="tests-faults")

    async def __aenter__(self) -> Any:
        await self._client.start()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()


def administrator(bootstrap: str) -> _Administrator:
    """An administrator's client, as a context manager."""
    return _Administrator(bootstrap)


def _turned(copies: Sequence[int], by: int) -> list[int]:
    by %= len(copies)
    return [*copies[by:], *copies[:by]]


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def _unmount(place: Path) -> None:
    if not _run("umount", str(place)):
        _run("umount", "-l", str(place))  # something looks into it still


def _unmount_orphans() -> None:
    """Take away the disks of tests that were killed."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            name, place = line.split()[:2]
            if name.startswith(_DISK) and not Path(f"/proc/{name.removeprefix(_DISK)}").exists():
                _unmount(Path(place))


def _run(*words: str) -> bool:
    try:
        return subprocess.run(words, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


# ElectLeaders, which aiokafka does not have: KIP-183, version 0, for preferred leaders only.


class _ElectLeadersResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 43
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "replica_election_results",
            Array(
                ("topic", String("utf-8")),
                (
                    "partition_results",
                    Array(("partition", Int32), ("error_code", Int16), ("error_message", String("utf-8"))),
                ),
            ),
        ),
    )


class _ElectLeadersRequest(RequestStruct):  # type: ignore[misc]  # as above
    API_KEY = 43
    API_VERSION = 0
    RESPONSE_TYPE = _ElectLeadersResponse
    SCHEMA = Schema(
        ("topic_partitions", Array(("topic", String("utf-8")), ("partitions", Array(Int32)))),
        ("timeout_ms", Int32),
    )


class _ElectLeaders(Request[_ElectLeadersRequest]):  # type: ignore[misc]  # as above
    API_KEY = 43

    def __init__(self, partitions: Sequence[tuple[str, Sequence[int]]], timeout_ms: int) -> None:
        self._partitions, self._timeout_ms = partitions, timeout_ms

    def build(self, request_struct_class: type[_ElectLeadersRequest]) -> _ElectLeadersRequest:
        return request_struct_class(self._partitions, self._timeout_ms)
