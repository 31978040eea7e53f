"""Processes of Moorage that begin in milliseconds: forked from one that has imported everything already.

A service's process takes one to two seconds of processor time to begin, nearly all of it imports. Tests that start
hundreds of them, to kill and to pause them, do not need that each time. A forked process has an id, a session, signals
and files of its own, too. How `moorage up` starts its processes is held by tests/e2e/test_cli_up.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
_MOORAGE = ROOT / "services" / "moorage"
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    [
        "moorage.cli.app",
        *(f"moorage.cli.commands.{found.stem}" for found in sorted((_MOORAGE / "cli" / "commands").glob("*.py"))),
        *(f"moorage.workers.{found.parent.name}" for found in sorted((_MOORAGE / "workers").glob("*/__init__.py"))),
        "moorage.gateway.server",
        "moorage.runtime.app",
    ]
)


class Forked:
    """A forked process, with what `asyncio.subprocess.Process` has for those who keep one running."""

    def __init__(
        self, process: ForkServerProcess, stdin: Connection | None, stdout: asyncio.StreamReader | None
    ) -> None:
        self._process = process
        self._stdin = stdin
        self.stdout = stdout
        self._over = asyncio.Event()
        self.returncode: int | None = None
        self.pid = process.pid or 0
        asyncio.get_running_loop().add_reader(process.sentinel, self._ended)

    def _ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self.returncode = self._process.exitcode
        self._process.close()
        if self._stdin is not None:
            self._stdin.close()
        self._over.set()

    async def wait(self) -> int:
        """Return its exit code when it has ended; the negative of the signal that ended it."""
        await self._over.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it at once."""
        self.send_signal(signal.SIGKILL)


async def fork(
    function: Callable[..., Any],
    *arguments: Any,
    environment: Mapping[str, str],
    stdout: IO[bytes] | None = None,
    stderr: IO[bytes] | None = None,
    stdin: IO[bytes] | None = None,
) -> Forked:
    """Call a function in a process of its own.

    Args:
        function: one that can be imported by its name.
        arguments: for it.
        environment: its variables, on top of this process's own.
        stdout: an open file for standard output; when None, it is read from the result's `stdout`.
        stderr: one for standard error; when None, that of standard output.
        stdin: one for standard input; when None, a pipe that is open for as long as this process lives.
    """
    reads, held = multiprocessing.Pipe(duplex=False) if stdin is None else (_copy(stdin), None)
    read, writes = (await _pipe()) if stdout is None else (None, _copy(stdout))
    files = (reads, writes, _copy(stderr or writes))
    given = (function, arguments, {**os.environ, **environment}, files)
    process = _FORKING.Process(target=_begin, args=given, daemon=True)
    await asyncio.to_thread(process.start)  # the first one waits for the process to fork from, which imports everything
    for file in files:
        file.close()
    return Forked(process, held, read)


async def launch(arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None) -> Forked:
    """Start `moorage`; for `moorage.cli.local.supervisor`."""
    return await fork(moorage, *arguments, environment=environment, stdout=output)


def moorage(*arguments: str) -> None:
    """Be the command `moorage`; call it in a forked process only."""
    from moorage.cli.app import app  # noqa: PLC0415 - imported before the fork, not by the tests

    app(list(arguments), prog_name="moorage")


def _copy(file: IO[bytes] | Connection) -> Connection:
    """An open file as something that can be given to a process that is forked."""
    return Connection(os.dup(file.fileno()))


async def _pipe() -> tuple[asyncio.StreamReader, Connection]:
    """Both ends of a pipe, the first for this process."""
    reads, writes = os.pipe()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(reads, "rb"))
    return reader, Connection(writes)


def _begin(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    environment: Mapping[str, str],
    files: Sequence[Connection],
) -> None:
    """Be like a process that was started by itself: its session, its folder, its standard files, its variables."""
    os.setsid()
    os.chdir(ROOT)
    for number, file in enumerate(files):
        os.dup2(file.fileno(), number)
        file.close()
    # Made anew, so that they are buffered as what they lead to wants it; this process has put aside its standard input.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115 - as above
    os.environ.clear()
    os.environ.update(environment)
    function(*arguments)
