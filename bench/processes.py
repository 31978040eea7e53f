"""Services as separate processes, for the benchmarks: starts, awaits, measures and stops them."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from moorage.runtime.settings import Settings

_GRACE = 20.0  # seconds that a process may take to stop


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass(slots=True)
class ServiceProcess:
    """`moorage run NAME` in a process."""

    name: str
    process: asyncio.subprocess.Process
    port: int
    log: Path

    async def ready(self, seconds: float) -> float:
        """Wait until it reports that it is ready. Returns the seconds that this took.

        Raises:
            RuntimeError: it ended, or was not ready in time. The message contains the end of its log.
        """
        began = time.perf_counter()
        async with httpx.AsyncClient(timeout=2.0, trust_env=False) as http:
            while True:
                with suppress(httpx.HTTPError):
                    if (await http.get(f"http://127.0.0.1:{self.port}/readyz")).is_success:
                        return time.perf_counter() - began
                if self.process.returncode is not None or time.perf_counter() - began > seconds:
                    raise RuntimeError(f"{self.name} was not ready within {seconds:.0f} s; its log:\n{self.tail()}")
                await asyncio.sleep(0.1)

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-15:])

    def peak_bytes(self) -> int:
        """The highest memory use of the process in bytes (`VmHWM`). 0 if it has ended."""
        return _status_bytes(self.process.pid, "VmHWM")

    def cpu_seconds(self) -> float:
        """The CPU time that it has used, user and system. 0 if it has ended."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def stop(self) -> None:
        """Ask it to stop, and kill it if it does not."""
        if self.process.returncode is not None:
            return
        self.process.terminate()
        try:
            async with asyncio.timeout(_GRACE):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


async def start_service(
    name: str, settings: Settings, folder: Path, *, environment: Mapping[str, str] | None = None
) -> ServiceProcess:
    """Start a service on a fleet.

    Args:
        name: the service, such as `eviction`.
        settings: the settings of the fleet.
        folder: the folder for its log.
        environment: additional `MOORAGE_…` variables.
    """
    port, log = free_port(), folder / f"{name}.log"
    process = await spawn(
        [sys.executable, "-m", "moorage.cli", "run", name, "--with-parent"],
        {
            "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
            "MOORAGE_HTTP_PORT": str(port),
            "MOORAGE_GATEWAY_PORT": str(port),
            "MOORAGE_LOG_LEVEL": "warning",
            "MOORAGE_LOG_FORMAT": "json",
            **(environment or {}),
        },
        log,
    )
    return ServiceProcess(name, process, port, log)


async def settled(members: Sequence[ServiceProcess], partitions: int, *, within: float) -> None:
    """Wait until the processes of a service share the partitions evenly, and standbys of all of them are warm.

    A single process has no standbys.

    Raises:
        TimeoutError: that did not happen in time.
    """
    standbys = partitions if len(members) > 1 else 0
    async with asyncio.timeout(within), httpx.AsyncClient(timeout=2.0, trust_env=False) as http:
        while True:
            owned, warm = [], 0
            for member in members:
                with suppress(httpx.HTTPError, ValueError, KeyError):  # it is starting
                    told = (await http.get(f"http://127.0.0.1:{member.port}/readyz")).json()
                    found = told["services"][member.name]
                    owned.append(sum(one["phase"] == "Running" for one in found["partitions"].values()))
                    warm += sum(one == "Warm" for one in found["standbys"].values())
            shared = len(owned) == len(members) and sum(owned) == partitions and max(owned) - min(owned) <= 1
            if shared and warm == standbys:
                return
            await asyncio.sleep(0.2)


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


def peak_bytes_of(pid: int) -> int:
    """The highest memory use of a process in bytes. 0 if there is no process with that id."""
    return _status_bytes(pid, "VmHWM")


def _status_bytes(pid: int, field: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0)
