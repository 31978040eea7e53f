"""Runs jobs on every core, in newly started processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from typing import TypeVar

Given = TypeVar("Given")
Result = TypeVar("Result")

_NICE = 5  # these only compute; tests beside them have deadlines. With 10 they would hardly run on a busy machine
_AHEAD = 4  # jobs that wait for each process, so that none is idle while a result is looked at


def each(
    function: Callable[[Given], Result],
    jobs: Iterable[Given],
    *,
    processes: int | None = None,
) -> Iterator[Result]:
    """Call a function for each job, in other processes; the results come as they are there.

    The processes are spawned, not forked. A fork takes along what other threads of this process hold at that moment,
    and what this process does with signals: such a child can stand still for ever, and then so does who waits for it.

    Args:
        function: one that can be imported by its name.
        jobs: as many as there are, without an end too: few are taken ahead.
        processes: how many at a time; as many as there are cores without.
    """
    size = processes or os.cpu_count() or 1
    rest = iter(jobs)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(size, mp_context=context, initializer=_begin) as pool:
        running: set[Future[Result]] = set()
        try:
            while True:
                running |= {pool.submit(function, job) for job in islice(rest, size * _AHEAD - len(running))}
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin() -> None:
    """Give way to whatever else runs here, and end with the parent: without it this would wait for ever."""
    os.nice(_NICE)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
