"""Ends a process whose test did not end at its time limit, and shows what its threads and tasks wait for.

pytest-timeout raises an exception in the handler of a signal. If a task in the background happens to run at that
moment, the exception ends that task alone, and the test waits for ever. It also stops counting at a failure, before the
fixtures have ended. pytest-xdist replaces a process that ends, and reports the test that it ran by its name.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import sys
import threading
from collections.abc import Callable
from typing import Final, TextIO

import pytest

_GRACE: Final = 60.0
"""Seconds in which pytest-timeout may fail the test, and its fixtures may end."""


def end_after(seconds: float, item: pytest.Item) -> Callable[[], None]:
    """End this process a while after the time limit of a test, unless the result is called before."""
    timer = threading.Timer(seconds + _GRACE, _end, (seconds, item))
    timer.daemon = True
    timer.start()
    return timer.cancel


def _end(seconds: float, item: pytest.Item) -> None:
    try:
        capture = item.config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=False)
        show(f"{item.nodeid} did not end within {seconds:g} s", sys.stderr)
    finally:
        os._exit(1)


def show(title: str, file: TextIO) -> None:
    """Write the stacks of all tasks, and those of all threads."""
    print(f"\n{title}", file=file)
    for task in (found for found in gc.get_objects() if isinstance(found, asyncio.Task)):
        if not task.done():
            task.print_stack(file=file)
    file.flush()
    faulthandler.dump_traceback(file, all_threads=True)
    file.flush()
