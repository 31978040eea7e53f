"""Runs the counter in a process of its own, for tests that kill or pause it: `toy_process.py SETTINGS_JSON`."""

from __future__ import annotations

import asyncio
import sys

import uvloop
from tests.kafka.toys import Counter, worker_for

from moorage.runtime.logs import configure_logs
from moorage.runtime.settings import Settings


async def main() -> None:
    settings = Settings.model_validate_json(sys.argv[1])
    configure_logs(settings)
    worker = worker_for(Counter(), settings)
    await worker.start()
    await worker.wait_ready()
    print("ready", flush=True)  # noqa: T201 - what the test waits for
    await worker.join()
    await asyncio.Event().wait()


uvloop.run(main())
