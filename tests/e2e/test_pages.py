"""Every command of README.md and docs/tutorial.md runs, in its order, and writes what the page shows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from tests.conftest import RUN
from tests.e2e.cli_stack import ROOT, Live, program, running, until
from tests.support import console
from tests.support.brokers import Broker

pytestmark = pytest.mark.kafka

READS = ("get", "describe", "explain", "simulate")
"""Commands that change nothing, so they may be run again until what they show has come about."""

STARTS = "moorage up"
"""Stands for the stack of these tests; what it writes is held in tests/e2e/test_cli_up.py."""

SECONDS = 30.0
PAGES = {name: (ROOT / name).read_text("utf-8") for name in ("README.md", "docs/tutorial.md")}


class Background:
    """A command that runs in a terminal of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        """What it has written that no step has asked for yet."""

        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.lines.append(line.decode().rstrip("\n"))

    async def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self._task
        await self.process.wait()


class Reader:
    """Does what a page says, as somebody would who reads it."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._terminals: dict[str, Background] = {}

    async def follow(self, name: str) -> None:
        for step in console.steps(PAGES[name]):
            where = f"{name}:{step.line}"
            if step.command == STARTS:
                continue
            if not step.command:
                await self._see(where, step)
            elif step.terminal and step.terminal not in self._terminals and step.command.startswith("moorage watch"):
                self._terminals[step.terminal] = await self._start(step)
            else:
                await self._do(where, step)

    async def close(self) -> None:
        for one in self._terminals.values():
            await one.end()

    async def _do(self, where: str, step: console.Step) -> None:
        """Run a command; what it writes must be what the page shows."""
        text = ""

        async def so() -> bool:
            nonlocal text
            text = await self._run(step.command)
            return console.holds(step.output, text.splitlines())

        if step.command.split()[1:2] and step.command.split()[1] in READS:
            with contextlib.suppress(TimeoutError):
                await until(so, SECONDS)
                return
        elif await so():
            return
        pytest.fail(f"{where}: `{step.command}` writes\n{text}\nand not\n" + "\n".join(step.output))

    async def _run(self, command: str) -> str:
        if command.startswith("moorage ") and "\n" not in command:
            return await self._live.shown(*shlex.split(command)[1:])
        env = {**self._live.env, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = await program("bash", "-c", command, env=env)
        return done.out + done.err

    async def _start(self, step: console.Step) -> Background:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "moorage.cli", *shlex.split(step.command)[1:]),
            # Nothing tells when it listens, so that what happens meanwhile is not missed.
            *("--since", datetime.now(UTC).isoformat()),
            env={**os.environ, **self._live.env, "PYTHONUNBUFFERED": "1"},
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        return Background(process)

    async def _see(self, where: str, step: console.Step) -> None:
        """Wait until the command in a terminal has written what the page shows."""
        terminal = self._terminals[step.terminal]

        async def so() -> bool:
            return not console.missing(step.output, terminal.lines)

        try:
            await until(so, SECONDS)
        except TimeoutError:
            wanting = "\n".join(console.missing(step.output, terminal.lines))
            pytest.fail(f"{where}: {step.terminal} lacks\n{wanting}\nand has\n" + "\n".join(terminal.lines))
        terminal.lines.clear()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    # The one setting that is not the default: the five seconds that a zone waits prove nothing here.
    given = {"node_monitor_period": 0.5}
    async with running(broker.bootstrap, f"{RUN}-pages", tmp_path_factory.mktemp("pages"), **given) as found:
        yield found


async def test_the_tutorial_can_be_followed_to_its_end(live: Live) -> None:
    reader = Reader(live)
    try:
        await reader.follow("docs/tutorial.md")
    finally:
        await reader.close()
