"""A supervisor of child processes: starts them, restarts them after a crash, and stops them together.

A child's standard input is a pipe that this process holds open and never writes to. A child that is started with
`--with-parent` ends when the pipe is closed, so no child outlives this process.
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
from moorage.cli.local.log_files import rotate
from moorage.runtime.settings.state_folders import make_private

_BACKOFF_FIRST, _BACKOFF_MAX = 0.5, 30.0
_STEADY = 60.0  # seconds of running after which a crash counts as the first one again
_GRACE = 15.0  # seconds a child may take to stop before it is killed
_POLL = 0.1
_TRIES_BEFORE_READY = 3  # a child that ends this often before it is ready will never be ready
_TAIL_LINES = 15
_REPORT_AFTER = 4.0  # seconds without a line while children start
_ROTATE = 10.0  # seconds between two checks of the sizes of logs

Say = Callable[[str], None]


class Process(Protocol):
    """The part of an asyncio process that the supervisor needs."""

    @property
    def pid(self) -> int:
        """The process id."""

    @property
    def returncode(self) -> int | None:
        """The exit code. None while it runs."""

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """The process's output, if it is followed."""

    async def wait(self) -> int:
        """Return its exit code when it has ended."""

    def send_signal(self, signal: int, /) -> None:
        """Send it a signal."""

    def kill(self) -> None:
        """Kill it at once."""


Launch = Callable[[Sequence[str], Mapping[str, str], IO[bytes] | None], Awaitable[Process]]
"""Starts `moorage` with arguments and with environment variables in addition to those of this process.

Its output goes to the open file, or to its `stdout` if there is none.
"""


async def end(process: Process, grace: float, late: Callable[[], None] = lambda: None) -> None:
    """End a process in order, or kill it if it does not.

    It may take `grace` seconds. `late` is called before it is killed.
    """
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(grace):
            await process.wait()
    except TimeoutError:
        late()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def launch(arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None) -> Process:
    """Start `moorage` with this interpreter."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "moorage.cli", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE if output is None else output,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,  # Ctrl-C goes to this process, which stops the children in order
    )


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A child process to run, and how to see that it is ready."""

    name: str
    arguments: Sequence[str]
    """The arguments of `moorage`, such as `run timer`."""

    environment: Mapping[str, str]
    log: Path
    ready_url: str
    """A URL that answers with status 200 when the child is ready."""


@dataclass(slots=True)
class Child:
    """The present state of a child process."""

    spec: ChildSpec
    process: Process | None = None
    task: asyncio.Task[None] | None = None
    started: float = 0.0
    ready: bool = False
    crashes: int = 0
    pump: asyncio.Task[None] | None = field(default=None)

    @property
    def pid(self) -> int:
        """The process id. 0 if it is not running."""
        return self.process.pid if self.process is not None and self.process.returncode is None else 0


class Supervisor:
    """Keeps child processes running until it is stopped.

    They are stopped in the opposite order of `specs`. `follow`: whether their logs are also printed, each line with the
    name of the child.
    """

    def __init__(self, specs: Sequence[ChildSpec], say: Say, *, follow: bool = False, launch: Launch = launch) -> None:
        self.children = [Child(spec) for spec in specs]
        self._say = say
        self._follow = follow
        self._launch = launch
        self._stopping = asyncio.Event()
        self._rotating: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start all children."""
        for child in self.children:
            await self._spawn(child)
            child.task = asyncio.create_task(self._keep(child), name=f"keep {child.spec.name}")
        self._rotating = asyncio.create_task(self._rotate(), name="rotate logs")

    async def until_ready(self, seconds: float) -> None:
        """Return when every child is ready.

        Raises:
            CliError: one ends again and again, or is not ready in time. The message has the end of its log.
        """
        began = reported = time.monotonic()
        deadline = began + seconds
        # What answers on this machine's own port is a child, whatever name its certificate has.
        async with httpx.AsyncClient(timeout=2.0, trust_env=False, verify=False) as http:  # noqa: S501 - as said above
            while waiting := [child for child in self.children if not child.ready]:
                for child in waiting:
                    child.ready = child.pid != 0 and await _answers(http, child.spec.ready_url)
                    if child.ready:
                        continue
                    if child.crashes >= _TRIES_BEFORE_READY:
                        raise _failed(child, f"ended {child.crashes} times before it was ready")
                    if time.monotonic() > deadline:
                        raise _failed(child, f"was not ready within {seconds:.0f} s")
                names = ", ".join(child.spec.name for child in waiting if not child.ready)
                if names and (now := time.monotonic()) - reported >= _REPORT_AFTER:
                    reported = now
                    self._say(f"waiting for {names}: {now - began:.0f} s so far")
                await asyncio.sleep(_POLL)

    async def stop(self) -> None:
        """Ask all children to stop, the last one first, and kill those that do not."""
        self._stopping.set()
        for child in reversed(self.children):
            await self._end(child)
        for child in self.children:
            if child.task is not None:
                await child.task
        if self._rotating is not None:
            self._rotating.cancel()
            await asyncio.gather(self._rotating, return_exceptions=True)

    def kill(self) -> None:
        """Kill all children at once."""
        self._stopping.set()
        for child in self.children:
            if child.process is not None and child.pid:
                child.process.kill()

    async def _end(self, child: Child) -> None:
        if child.process is not None:
            late = f"{child.spec.name} did not stop within {_GRACE:.0f} s; killing it"
            await end(child.process, _GRACE, lambda: self._say(late))

    async def _keep(self, child: Child) -> None:
        """Restart the child whenever it ends, with a growing delay, until the supervisor is stopped."""
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
            self._say(f"{child.spec.name} ended with {_code(code)}; restarting in {delay:g} s (log: {child.spec.log})")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._stopping.wait()
            if self._stopping.is_set():
                return
            delay = min(delay * 2, _BACKOFF_MAX)
            await self._spawn(child)

    async def _rotate(self) -> None:
        """Keep the logs small. They would otherwise grow for as long as the children run."""
        while True:
            for child in self.children:
                try:
                    await asyncio.to_thread(rotate, child.spec.log)
                except OSError as error:
                    self._say(f"{child.spec.log} was emptied, and its lines are lost: {error.strerror or error}")
            await asyncio.sleep(_ROTATE)

    async def _spawn(self, child: Child) -> None:
        spec = child.spec
        make_private(spec.log.parent)
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
    except ValueError:  # longer than the stream's limit, so the rest comes as the next line
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
