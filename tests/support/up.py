"""A `moorage up` as a process of a test."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.brokers import Broker


class Up:
    """A `moorage up` as a process."""

    def __init__(self, process: asyncio.subprocess.Process, env: dict[str, str], state: Path) -> None:
        self.process, self.env, self.state = process, env, state
        self.said: list[str] = []

    @property
    def run_file(self) -> Path:
        return self.state / "run.json"

    async def wait_for(self, text: str) -> str:
        """Read what it says up to a line with this text."""
        assert self.process.stdout is not None
        async with asyncio.timeout(120):
            while True:
                line = (await self.process.stdout.readline()).decode()
                assert line, f"it ended before it said {text!r}: {self.said}"
                self.said.append(line)
                if text in line:
                    return line

    async def drain(self) -> None:
        """Read what it says until it ends, so that it never waits for a reader."""
        assert self.process.stdout is not None
        while line := (await self.process.stdout.readline()).decode():
            self.said.append(line)

    def running(self) -> dict[str, Any]:
        """What it has written for other commands."""
        found: dict[str, Any] = json.loads(self.run_file.read_text("utf-8"))
        return found

    def children(self) -> dict[str, int]:
        """The process id of each child, by its service, from the system's process table."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    words = (entry / "cmdline").read_text().split("\0")
                    parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                except OSError:
                    continue
                if "--with-parent" in words and int(parent) == self.process.pid:
                    found[words[words.index("--with-parent") + 1]] = int(entry.name)
        return found


@asynccontextmanager
async def started(
    broker: Broker | None, prefix: str, state: Path, *words: str, env: Mapping[str, str] | None = None
) -> AsyncIterator[Up]:
    """A `moorage up` that is up. Without a broker it starts its own."""
    env = {
        **(env or {}),
        "MOORAGE_STATE_DIR": str(state),
        "MOORAGE_BOOTSTRAP_SERVERS": "" if broker is None else broker.bootstrap,
        "MOORAGE_TOPIC_PREFIX": prefix,
        "MOORAGE_PARTITIONS": "3",
        "MOORAGE_GATEWAY_PORT": "0",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "moorage.cli", "up", *words),
        env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    up = Up(process, env, state)
    try:
        await up.wait_for("Ctrl-C stops it")
        yield up
    finally:
        if process.returncode is None and broker is None:
            process.send_signal(signal.SIGTERM)  # which ends its broker, too
        elif process.returncode is None:
            process.kill()
        await process.communicate()
