"""An event loop with real sockets on which time passes only when nobody has anything to do.

Sockets on loopback carry a message at once. So when nothing is ready, all parts of a test wait for a time, and the
clock of the loop goes on to the next of these times. An hour takes as long as what happens in it.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Final, ParamSpec, TypeVar, TypeVarTuple, Unpack

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_LOOK: Final = 0.002
"""Seconds for which the kernel may take to carry a message before time passes."""


class _Selector(selectors.DefaultSelector):
    """Waits in virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        if timeout is None:  # nobody waits for a time
            return super().select(None)
        if not (found := super().select(_LOOK)):
            self.time += timeout
        return found


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The loop."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.time

    def run_in_executor(
        self,
        executor: Executor | None,  # noqa: ARG002 - the signature of asyncio's loops
        func: Callable[[Unpack[Ts]], T],
        *args: *Ts,
    ) -> asyncio.Future[T]:
        """Call the function at once, because no time may pass while a thread works."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it belongs to the caller, as from a thread
            future.set_exception(error)
        return future


def virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on a loop of its own with virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
