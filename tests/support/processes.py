"""Processes that run the counter, to be killed and paused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from moorage.runtime.settings import Settings

_ROOT = Path(__file__).parents[2]


class CounterProcess:
    """One process with one worker of the counter."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(_ROOT / "tests" / "kafka" / "toy_process.py"),
            self._settings.model_dump_json(),
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )

    async def wait_ready(self, seconds: float = 60.0) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(seconds):
            assert await self._process.stdout.readline() == b"ready\n"

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()
