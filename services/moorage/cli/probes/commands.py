"""Runs the command of a check, so that nothing of it is left: no process, no pipe, no flood of output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from typing import Final

from moorage.cli.probes.results import CheckOutcome, CheckResult

OK: Final = 0
PROBLEM: Final = 1
"""Exit codes of node-problem-detector's plugins. All others mean that it is not known."""

_PORTION: Final = 65_536  # bytes that are read at once
_LAST_OUTPUT: Final = 0.5  # seconds in which what was written before the end is read
_OUTCOMES: Final = {OK: CheckOutcome.OK, PROBLEM: CheckOutcome.PROBLEM}


async def run_command(words: Sequence[str], *, timeout: float, max_output: int) -> CheckResult:  # noqa: ASYNC109 - a check has a time of its own, and its processes end with it
    """Run a command, and return its result by its exit code.

    It has a process group of its own. When the command ends, or after its time, the whole group is killed, because
    a process that it leaves behind would run on and hold the pipe. The command's standard error is this process' own.

    Args:
        words: the program and its arguments.
        timeout: seconds after which it is killed. The result is then unknown.
        max_output: characters of its output that are kept. The rest is read and thrown away.
    """
    mine, its = os.pipe()
    reader, kept = asyncio.StreamReader(), bytearray()
    with os.fdopen(mine, "rb", buffering=0) as end, os.fdopen(its, "wb", buffering=0) as beginning:
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), end)
        with contextlib.closing(pipe):
            try:
                process = await asyncio.create_subprocess_exec(
                    *words, stdin=asyncio.subprocess.DEVNULL, stdout=beginning, start_new_session=True
                )
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                text = f"{words[0]} cannot be started: {why}"[:max_output]
                return CheckResult(CheckOutcome.UNKNOWN, text, "CheckNotStarted")
            # Nothing waits between the start and here, so the process cannot outlive a cancellation.
            beginning.close()
            reading = asyncio.create_task(_read(reader, kept, max_output * 4))  # bytes of a character in UTF-8
            try:
                async with asyncio.timeout(timeout):
                    code = await process.wait()
            except TimeoutError:
                return CheckResult(CheckOutcome.UNKNOWN, f"no result within {timeout:g} s", "CheckTimedOut")
            finally:
                _kill(process.pid)
                await process.wait()
                # A process that has left the group may hold the pipe open, and must not keep this one waiting.
                await asyncio.wait([reading], timeout=_LAST_OUTPUT)
                reading.cancel()
                _reap(process.pid)
    text = _printable(kept.decode(errors="replace").strip()[:max_output])
    if code in _OUTCOMES:
        return CheckResult(_OUTCOMES[code], text)
    if code < 0:
        return CheckResult(CheckOutcome.UNKNOWN, text or f"ended by signal {-code}", "CheckKilled")
    return CheckResult(CheckOutcome.UNKNOWN, text or f"exit code {code}")


async def _read(reader: asyncio.StreamReader, kept: bytearray, most: int) -> None:
    """Read the output to its end, and keep its beginning."""
    while portion := await reader.read(_PORTION):
        kept += portion[: max(most - len(kept), 0)]


def _printable(text: str) -> str:
    """Return a text without control characters, which a terminal would obey."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in text)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _reap(group: int) -> None:
    """Reap the orphans of a group. They become children of this process if it is the first one of a container."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
