"""Services as one process whose clock is off: `python skewed.py SECONDS SERVICE…`, settings from the environment.

It runs what `moorage run` runs, with another clock. It ends when standard input is closed.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import datetime, timedelta
from functools import partial

from moorage.cli.commands.run import _end_with_parent
from moorage.cli.local import services
from moorage.runtime.app import run_async, run_services
from moorage.runtime.clock import WallClock
from moorage.runtime.logs import configure_logs
from moorage.runtime.settings import Settings

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


def main(offset: str, *names: str) -> int:
    settings = Settings()
    configure_logs(settings)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    made = [partial(services.make, name) for name in names]
    return run_async(run_services(made, settings, clock=SkewedClock(timedelta(seconds=float(offset)))))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
