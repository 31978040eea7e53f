"""Every command of the pages that are followed runs, in its order, and writes what the page shows."""

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
from tests.support import console
from tests.support.brokers import Broker
from tests.support.commands import program
from tests.support.forks import ROOT
from tests.support.live import Live, running
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

READS = ("get", "describe", "explain", "simulate")
"""Commands that change nothing, so they may be run again until what they show has come about."""

STARTS = "moorage up"
"""Stands for the stack of these tests; what it writes is held in tests/e2e/test_cli_up.py."""

ADDRESS = "http://127.0.0.1:8080"
"""Where the gateway of `moorage up` is unless it is told otherwise."""

SECONDS = 120.0
FOLLOWED = (
    "README.md",
    "docs/tutorial.md",
    "docs/eviction-requests.md",
    "docs/node-conditions.md",
    "docs/rollouts.md",
)
PAGES = {name: (ROOT / name).read_text("utf-8") for name in FOLLOWED}


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
    """Does what a page says, as somebody would who reads it.

    Args:
        live: the Moorage that runs.
        folder: where the files go that the page tells to save: its blocks of code whose title is a name.
    """

    def __init__(self, live: Live, folder: Path) -> None:
        self._live = live
        self._folder = folder
        self._files: dict[str, str] = {}
        self._terminals: dict[str, Background] = {}

    def save(self, page: str) -> None:
        """Save the files of a page, with the address of the gateway that runs here."""
        for language in ("yaml", "python"):
            for _, title, lines in console.blocks(page, language):
                path = self._folder / title
                path.write_text("\n".join(lines).replace(ADDRESS, self._live.server), "utf-8")
                self._files[title] = str(path)

    async def follow(self, name: str) -> None:
        self.save(PAGES[name])
        for step in console.steps(PAGES[name]):
            where = f"{name}:{step.line}"
            if step.command == STARTS:
                continue
            if not step.command:
                await self._see(where, step)
            elif step.terminal:
                self._terminals[step.terminal] = await self._start(step.command)
                await self._see(where, step)
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
        words = self._words(command)
        if words[0] == "moorage":
            return await self._live.shown(*words[1:])
        done = await program(*words, env=self._live.env)
        return done.out + done.err

    def _words(self, command: str) -> list[str]:
        """A command with the paths of the files that were saved."""
        program, *rest = [self._files.get(word, word) for word in shlex.split(command)]
        return [sys.executable if program == "python" else program, *rest]

    async def _start(self, command: str) -> Background:
        words = self._words(command)
        if words[:2] == ["moorage", "watch"]:
            # Nothing tells when it listens, so what happens until then is asked for, too.
            words = [sys.executable, "-m", "moorage.cli", *words[1:], "--since", datetime.now(UTC).isoformat()]
        process = await asyncio.create_subprocess_exec(
            *words,
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
        # What the next step shows may have come already.
        terminal.lines[:] = console.later(step.output, terminal.lines)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    # The one setting that is not the default: the five seconds that a zone waits prove nothing here.
    given = {"node_monitor_period": 0.5}
    async with running(broker.bootstrap, f"{RUN}-readers", tmp_path_factory.mktemp("readers"), **given) as found:
        yield found


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_can_be_followed_to_its_end(live: Live, page: str, tmp_path: Path) -> None:
    reader = Reader(live, tmp_path)
    try:
        await reader.follow(page)
    finally:
        await reader.close()
