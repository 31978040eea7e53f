"""Processes that run the counter, for tests that kill and pause them."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvloop
from tests.support.forks import Forked, fork
from tests.support.toys import Counter, worker_for

from moorage.runtime.process.logs import configure_logs
from moorage.runtime.settings.process_settings import Settings

_READY = "ready"


@asynccontextmanager
async def counting(settings: Settings) -> AsyncIterator[Forked]:
    """A process with one ready worker of the counter. It is killed at the end."""
    with tempfile.TemporaryFile() as nowhere:
        process = await fork(_run, settings.model_dump_json(), environment={}, stderr=nowhere)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            while (await process.stdout.readline()).strip() != _READY.encode():
                assert not process.stdout.at_eof(), "it ended before it was ready"
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


def _run(settings: str) -> None:
    uvloop.run(_count(Settings.model_validate_json(settings)))


async def _count(settings: Settings) -> None:
    configure_logs(settings)
    worker = worker_for(Counter(), settings)
    await worker.start()
    await worker.wait_ready()
    print(_READY, flush=True)  # noqa: T201 - the test waits for this output
    await worker.join()
    await asyncio.Event().wait()
