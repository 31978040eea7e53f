"""Processes of Moorage that start in milliseconds, because they are forked from one that has imported everything.

The start of a service's process takes one to two seconds of CPU time, nearly all of it for imports. Tests that start
hundreds of processes to kill and pause them do not need that each time. A forked process also has an id, a session,
signals and files of its own. tests/e2e/test_cli_up.py tests how `moorage up` starts its processes.
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
        "moorage.apiserver.server",
        "moorage.runtime.app",
    ]
)


class Forked:
    """A forked process, with the methods of `asyncio.subprocess.Process` that its users need."""

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
        """Return its exit code when it has ended, or the negative number of the signal that ended it."""
        await self._over.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal if it is still running."""
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
        function: a function that can be imported by its name.
        arguments: its arguments.
        environment: additional environment variables.
        stdout: an open file for standard output. If None, it is read from the result's `stdout`.
        stderr: an open file for standard error. If None, the one of standard output.
        stdin: an open file for standard input. If None, a pipe that is open for as long as this process lives.
    """
    reads, held = multiprocessing.Pipe(duplex=False) if stdin is None else (_copy(stdin), None)
    read, writes = (await _pipe()) if stdout is None else (None, _copy(stdout))
    files = (reads, writes, _copy(stderr or writes))
    given = (function, arguments, {**os.environ, **environment}, files)
    process = _FORKING.Process(target=_begin, args=given, daemon=True)
    await asyncio.to_thread(process.start)  # the first one waits until the process to fork from has imported everything
    for file in files:
        file.close()
    return Forked(process, held, read)


async def launch(arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None) -> Forked:
    """Start `moorage`. For `moorage.cli.local.supervisor`."""
    return await fork(moorage, *arguments, environment=environment, stdout=output)


def moorage(*arguments: str) -> None:
    """Run the command `moorage`. Call it only in a forked process."""
    from moorage.cli.app import app  # noqa: PLC0415 - imported before the fork, not by the tests

    app(list(arguments), prog_name="moorage")


def _copy(file: IO[bytes] | Connection) -> Connection:
    """An open file in a form that can be passed to a forked process."""
    return Connection(os.dup(file.fileno()))


async def _pipe() -> tuple[asyncio.StreamReader, Connection]:
    """Both ends of a pipe. The first one is for this process."""
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
    """Set up the process as if it had been started separately: session, folder, standard files, variables."""
    os.setsid()
    os.chdir(ROOT)
    for number, file in enumerate(files):
        os.dup2(file.fileno(), number)
        file.close()
    # New objects, so that their buffering fits the files. This process has put aside its standard input.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115 - as above
    os.environ.clear()
    os.environ.update(environment)
    function(*arguments)
