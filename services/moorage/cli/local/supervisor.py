"""Child processes that are kept running: started, watched, started again after a crash, stopped together.

A child's standard input is a pipe that this process holds and never writes to: a child that is started
with `--with-parent` ends when it is closed, so that none outlives this process, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

import httpx

from moorage.cli.errors import CliError

_BACKOFF_FIRST, _BACKOFF_MAX = 0.5, 30.0
_STEADY = 60.0  # seconds a child must have run for its crash to count as the first again
_GRACE = 15.0  # seconds a child may take to stop before it is killed
_POLL = 0.1
_TRIES_BEFORE_READY = 3  # a child that ends so often before it was ever ready will not become so
_TAIL_LINES = 15

Say = Callable[[str], None]


class Process(Protocol):
    """What is needed of a child's process, as asyncio's have it."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    @property
    def returncode(self) -> int | None:
        """Its exit code; None while it runs."""
        ...

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """What it writes, where that is followed."""
        ...

    async def wait(self) -> int:
        """Return its exit code when it has ended."""
        ...

    def send_signal(self, signal: int, /) -> None:
        """Send it a signal."""
        ...

    def kill(self) -> None:
        """Kill it at once."""
        ...


Launch = Callable[[Sequence[str], Mapping[str, str], IO[bytes] | None], Awaitable[Process]]
"""Starts `moorage` with arguments and, on top of this process's own, environment variables.

What it writes goes to the open file, or to its `stdout` where there is none.
"""


async def launch(arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None) -> Process:
    """Start `moorage` by this interpreter; see `Launch`."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "moorage.cli", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE if output is None else output,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,  # Ctrl-C is for this process, which stops the children in order
    )


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What is run, and how one sees that it is ready."""

    name: str
    arguments: Sequence[str]
    """Of `moorage`, such as `run timer`."""

    environment: Mapping[str, str]
    log: Path
    ready_url: str
    """Answers 200 when the child is ready."""


@dataclass(slots=True)
class Child:
    """A child process as it is now."""

    spec: ChildSpec
    process: Process | None = None
    task: asyncio.Task[None] | None = None
    started: float = 0.0
    ready: bool = False
    crashes: int = 0
    pump: asyncio.Task[None] | None = field(default=None)

    @property
    def pid(self) -> int:
        """Its process id; 0 when it does not run."""
        return self.process.pid if self.process is not None and self.process.returncode is None else 0


class Supervisor:
    """Keeps children running until it is stopped.

    Args:
        specs: what to run; stopped in the opposite order.
        say: where to tell what happens.
        follow: whether the children's logs are told too, with their names before them.
        launch: starts a child's process.
    """

    def __init__(self, specs: Sequence[ChildSpec], say: Say, *, follow: bool = False, launch: Launch = launch) -> None:
        self.children = [Child(spec) for spec in specs]
        self._say = say
        self._follow = follow
        self._launch = launch
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Start all children."""
        for child in self.children:
            await self._spawn(child)
            child.task = asyncio.create_task(self._keep(child), name=f"keep {child.spec.name}")

    async def until_ready(self, seconds: float) -> None:
        """Return when every child says that it is ready.

        Raises:
            CliError: one ends again and again, or is not ready in time; with the end of its log.
        """
        deadline = time.monotonic() + seconds
        async with httpx.AsyncClient(timeout=2.0, trust_env=False) as http:
            while waiting := [child for child in self.children if not child.ready]:
                for child in waiting:
                    child.ready = child.pid != 0 and await _answers(http, child.spec.ready_url)
                    if child.ready:
                        continue
                    if child.crashes >= _TRIES_BEFORE_READY:
                        raise _failed(child, f"ended {child.crashes} times before it was ready")
                    if time.monotonic() > deadline:
                        raise _failed(child, f"was not ready within {seconds:.0f} s")
                await asyncio.sleep(_POLL)

    async def stop(self) -> None:
        """Ask all to stop, the last one first, and kill those that do not."""
        self._stopping.set()
        for child in reversed(self.children):
            await self._end(child)
        for child in self.children:
            if child.task is not None:
                await child.task

    def kill(self) -> None:
        """Kill all at once."""
        self._stopping.set()
        for child in self.children:
            if child.process is not None and child.pid:
                child.process.kill()

    async def _end(self, child: Child) -> None:
        process = child.process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_GRACE):
                await process.wait()
        except TimeoutError:
            self._say(f"{child.spec.name} did not stop within {_GRACE:.0f} s and is killed")
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _keep(self, child: Child) -> None:
        """Start the child again whenever it ends, later each time, until all is stopped."""
        delay = _BACKOFF_FIRST
        while True:
            process = child.process
            if process is None:
                return
            code = await process.wait()
            if child.pump is not None:
                await child.pump
            if self._stopping.is_set():
                return
            child.crashes += 1
            if time.monotonic() - child.started > _STEADY:
                delay = _BACKOFF_FIRST
            self._say(
                f"{child.spec.name} ended with {_code(code)}; it is started again in {delay:g} s"
                f" (log: {child.spec.log})"
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._stopping.wait()
            if self._stopping.is_set():
                return
            delay = min(delay * 2, _BACKOFF_MAX)
            await self._spawn(child)

    async def _spawn(self, child: Child) -> None:
        spec = child.spec
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        with spec.log.open("ab") as log:
            child.process = await self._launch(spec.arguments, spec.environment, None if self._follow else log)
        child.started = time.monotonic()
        if self._follow:
            child.pump = asyncio.create_task(self._tell(child, child.process))

    async def _tell(self, child: Child, process: Process) -> None:
        """Write a child's output to its log and, with its name, to the terminal."""
        if process.stdout is None:
            return
        with child.spec.log.open("ab", buffering=0) as log:
            while line := await _line(process.stdout):
                log.write(line)
                self._say(f"{child.spec.name:<16} | {line.decode('utf-8', 'replace').rstrip()}")


async def _line(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readline()
    except ValueError:  # longer than the stream's limit: the rest comes as the next line
        return b"(a line that is too long)\n"


async def _answers(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(url)).is_success
    except httpx.HTTPError:
        return False


def _failed(child: Child, what: str) -> CliError:
    try:
        lines = child.spec.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    except OSError:
        lines = []
    tail = "".join(f"\n    | {line[:300]}" for line in lines)
    return CliError(f"{child.spec.name} {what}; the end of its log {child.spec.log}:{tail}")


def _code(code: int) -> str:
    if code >= 0:
        return f"code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
