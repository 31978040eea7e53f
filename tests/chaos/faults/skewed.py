"""Services as one process whose clock is off. It runs what `moorage run` runs, with another clock."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import IO

from tests.support.forks import fork

from moorage.cli.commands.run import _end_with_parent
from moorage.cli.local import services
from moorage.cli.local.supervisor import Process
from moorage.runtime.app import run_async, run_services
from moorage.runtime.process.clock import WallClock
from moorage.runtime.process.logs import configure_logs
from moorage.runtime.settings.process_settings import Settings

_STEP = 10.0  # seconds


class SkewedClock:
    """The machine's clock, off by a fixed time."""

    def __init__(self, offset: timedelta) -> None:
        self._offset = offset
        self._true = WallClock()

    def now(self) -> datetime:
        return self._true.now() + self._offset

    async def sleep_until(self, when: datetime) -> None:
        while (left := (when - self.now()).total_seconds()) > 0:  # noqa: ASYNC110 - time is what is waited for
            await asyncio.sleep(min(left, _STEP))


async def launch(arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None) -> Process:
    """Start such a process; in place of `moorage.cli.local.supervisor.launch`.

    Args:
        arguments: the seconds by which the clock is ahead, then the names of the services.
        environment: its settings.
        output: an open file for what it writes.
    """
    assert output is not None
    return await fork(_run, *arguments, environment=environment, stdout=output)


def _run(offset: str, *names: str) -> None:
    settings = Settings()
    configure_logs(settings)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    made = [partial(services.make, name) for name in names]
    clock = SkewedClock(timedelta(seconds=float(offset)))
    sys.exit(run_async(run_services(made, settings, clock=clock)))
