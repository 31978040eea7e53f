"""Processes of services that a round may kill, pause, keep away and bring back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx

from moorage.cli.local.supervisor import Launch, Process

_GRACE = 15.0  # seconds to stop in order before the process is killed
_BACK_AFTER = 0.5  # seconds after which one that ended by itself is started again, as a supervisor would
_POLL = 0.05
_TAIL_LINES = 12


class MemberError(Exception):
    """A process does not do what is expected of it."""


@dataclass(slots=True)
class Member:
    """One process."""

    name: str
    launch: Launch
    arguments: Sequence[str]
    environment: Mapping[str, str]
    url: str
    """Answers 200 when it is ready."""

    log: Path
    process: Process | None = None
    keeper: asyncio.Task[None] | None = field(default=None, repr=False)
    wanted: bool = False
    """Whether it is to run: else its end is nobody's concern."""

    asked: int = 0
    """How often this test ended it."""

    crashes: list[int] = field(default_factory=list)
    """Exit codes with which it ended by itself."""

    @property
    def pid(self) -> int:
        """Its process id; 0 when it does not run."""
        return self.process.pid if self.process is not None and self.process.returncode is None else 0

    async def start(self) -> None:
        """Start it, and again whenever it ends by itself. Does nothing when it runs."""
        self.wanted = True
        if not self.pid:
            await self._spawn()
        if self.keeper is None or self.keeper.done():
            self.keeper = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    async def kill(self) -> None:
        """Kill it (SIGKILL), and leave it away."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Ask it to stop (SIGTERM), and leave it away."""
        await self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Let it stand still (SIGSTOP), its connections open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    async def _end(self, number: signal.Signals) -> None:
        self.wanted = False
        if self.keeper is not None:
            self.keeper.cancel()
            await asyncio.gather(self.keeper, return_exceptions=True)
        process = self.process
        if process is None or process.returncode is not None:
            return
        self.asked += 1
        self._signal(number)
        self._signal(signal.SIGCONT)  # one that stands still could not stop in order
        try:
            async with asyncio.timeout(_GRACE):
                await process.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def _spawn(self) -> None:
        with self.log.open("ab") as log:
            self.process = await self.launch(self.arguments, self.environment, log)

    async def _keep(self) -> None:
        while self.process is not None:
            code = await self.process.wait()
            self.crashes.append(code)
            await asyncio.sleep(_BACK_AFTER)
            await self._spawn()

    def tail(self) -> str:
        """The end of its log."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        except OSError:
            return ""
        return "\n".join(f"    | {line[:400]}" for line in lines)


class Members:
    """The processes of one round; an async context manager that ends them."""

    def __init__(self, members: Iterable[Member]) -> None:
        self.all = {one.name: one for one in members}

    def __getitem__(self, name: str) -> Member:
        return self.all[name]

    async def __aenter__(self) -> Self:
        await asyncio.gather(*(one.start() for one in self.all.values()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(one.kill() for one in self.all.values()))

    async def until_ready(self, seconds: float) -> None:
        """Return when every process that is to run says that it is ready.

        Raises:
            MemberError: one is not ready in time; with the end of its log.
        """
        deadline = time.monotonic() + seconds
        async with httpx.AsyncClient(timeout=2.0, trust_env=False) as http:
            waiting = [one for one in self.all.values() if one.wanted]
            while waiting := [one for one in waiting if not await _answers(http, one.url)]:
                if time.monotonic() > deadline:
                    why = "; ".join(f"{one.name} is not ready (it ended with {one.crashes})" for one in waiting)
                    raise MemberError(f"{why}, after {seconds:.0f} s\n{waiting[0].tail()}")
                await asyncio.sleep(_POLL)

    def crashes(self) -> dict[str, list[int]]:
        """The exit codes of processes that ended by themselves."""
        return {one.name: one.crashes for one in self.all.values() if one.crashes}


async def _answers(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(url)).is_success
    except httpx.HTTPError:
        return False
