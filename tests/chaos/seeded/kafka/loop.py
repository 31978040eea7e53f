"""An event loop on which time passes only when nothing is left to do, and processes that live on it.

Nothing is waited for in real time, nothing is read or written, and no thread takes part: two runs from the same seed
take the same steps. A run that goes on for ever, or that waits for what nobody will do, ends with `StuckError`.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from enum import Enum
from random import Random
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The true time at which every run begins."""

START_SECONDS: Final = START.timestamp()

_CLOCK_STEP = 10.0  # seconds within which the real clock sees that it was set
_SHOWN_TASKS = 40
_PRUNE_TASKS = 1000  # tasks beyond those that live; then those that ended are let go


class StuckError(AssertionError):
    """A run took too many steps or too much virtual time, or waits for what will never come."""


class State(Enum):
    """How a process is."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Process:
    """Everything that one operating system's process would own; what it starts belongs to it, however deep.

    Args:
        loop: what it runs on.
        name: for people.
        skew: seconds by which its clock is ahead.
    """

    def __init__(self, loop: VirtualLoop, name: str, *, skew: float = 0.0) -> None:
        self.loop = loop
        self.name = name
        self.state = State.RUNNING
        self.connected = True
        """Whether it reaches the broker; told by the cluster, which cuts it off."""

        self.stash: deque[events.Handle] = deque()
        """What would have run while it was paused, or since it died."""

        self.on_state: list[Callable[[], None]] = []
        """Told of each change of its state: the cluster, which stops to hear its heartbeats."""

        self.clock = SimClock(self, skew)
        self._context = contextvars.copy_context()
        self._context.run(_current.set, self)
        loop.processes.append(self)

    def __repr__(self) -> str:
        return f"<{self.name} {self.state.value}>"

    @property
    def alive(self) -> bool:
        """Whether it was not killed."""
        return self.state is not State.DEAD

    @property
    def reachable(self) -> bool:
        """Whether the broker hears of it now."""
        return self.connected and self.state is State.RUNNING

    def spawn(self, main: Coroutine[Any, Any, T], *, name: str = "") -> asyncio.Task[T]:
        """Run a coroutine in this process."""
        return self.loop.create_task(main, name=name or self.name, context=self._context.copy())

    def crash(self) -> None:
        """SIGKILL: nothing of it runs any more, not even what cleans up."""
        if self.state is not State.DEAD:
            self.loop.graveyard.append(asyncio.all_tasks(self.loop))
            self._change(State.DEAD)

    def pause(self) -> None:
        """SIGSTOP."""
        if self.state is State.RUNNING:
            self._change(State.PAUSED)

    def resume(self) -> None:
        """SIGCONT."""
        if self.state is State.PAUSED:
            self._change(State.RUNNING)
            self.loop.take_back(self.stash)

    def _change(self, state: State) -> None:
        self.state = state
        for told in self.on_state:
            told()


_current: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def current_process() -> Process | None:
    """The process whose code runs now; None in what stands outside all of them."""
    return _current.get()


class SimClock:
    """A process's clock: the true time and its skew. Implements `moorage.runtime.process.clock.Clock`."""

    def __init__(self, process: Process, skew: float) -> None:
        self._process = process
        self._loop = process.loop
        self._skew = skew
        self._offset = START + timedelta(seconds=skew)
        self._sleepers: dict[asyncio.Future[None], None] = {}

    @property
    def skew(self) -> float:
        """Seconds by which it is ahead."""
        return self._skew

    def set_skew(self, seconds: float, rng: Random | None = None) -> None:
        """Set the clock; who sleeps on it sees that within some seconds, as on a real machine.

        Args:
            seconds: by which it is ahead from now on.
            rng: draws when sleepers see it; at once without.
        """
        self._skew = seconds
        self._offset = START + timedelta(seconds=seconds)
        for sleeper in list(self._sleepers):
            delay = 0.0 if rng is None else rng.uniform(0, _CLOCK_STEP)
            self._loop.call_later(delay, _finish, sleeper)

    def now(self) -> datetime:
        """The present instant as this process sees it, UTC."""
        return self._offset + timedelta(seconds=self._loop.time())

    def milliseconds(self) -> int:
        """The same as milliseconds since the epoch, for the timestamps of records."""
        return int((START_SECONDS + self._skew + self._loop.time()) * 1000)

    async def sleep_until(self, when: datetime) -> None:
        """Return at or after `when`, never before."""
        while (left := (when - self.now()).total_seconds()) > 0:
            sleeper: asyncio.Future[None] = self._loop.create_future()
            self._sleepers[sleeper] = None
            timer = self._loop.call_later(max(left, 1e-6), _finish, sleeper)
            try:
                await sleeper
            finally:
                timer.cancel()
                del self._sleepers[sleeper]


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs what is ready in the order in which it became so; when nothing is, it is at once the next timer's time.

    Args:
        max_steps: callbacks after which the run is stuck.
        max_time: virtual seconds after which it is.
    """

    def __init__(self, *, max_steps: int = 5_000_000, max_time: float = 1e9) -> None:
        super().__init__()
        self.steps = 0
        """Callbacks that have run."""

        self.max_steps = max_steps
        self.max_time = max_time
        self.graveyard: list[set[asyncio.Task[Any]]] = []
        """Tasks that were there when a process was killed, for `dump`."""

        self.processes: list[Process] = []
        """Every one that there ever was."""

        self.on_dispose: list[Callable[[], None]] = []
        """Called before what is left is ended: nothing of it may reach anything any more."""

        self.before_step: Callable[[], None] | None = None
        """Called before each callback, when it is set: for faults at an exact step."""

        self.unhandled: list[dict[str, Any]] = []
        """Errors that no task took up."""

        self._now = 0.0
        self._timers: list[tuple[float, int, events.TimerHandle]] = []
        self._timer_count = 0
        self._waiting: deque[events.Handle] = deque()
        self._tasks: list[asyncio.Task[Any]] = []
        self._prune_at = _PRUNE_TASKS
        self._over = False

    # What asyncio asks of a loop.

    def time(self) -> float:
        """Virtual seconds since the run began."""
        return self._now

    def create_task(  # type: ignore[override]  # typeshed asks for a Generator, too; nobody here gives one
        self, coro: Coroutine[Any, Any, T], *, name: object = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        """Run a coroutine as a task, and keep the task until it has ended.

        asyncio itself holds tasks weakly. One that waits for an answer that was lost would be thrown away whenever
        the garbage collector comes by, its `finally` would run, and two runs of a seed would differ.
        """
        task = super().create_task(coro, name=name, context=context)
        self._tasks.append(task)
        if len(self._tasks) > self._prune_at:
            self._let_go()
        return task

    def _let_go(self) -> None:
        """Let go of the tasks that ended; an error that nobody took up comes to `unhandled`."""
        self._tasks = [one for one in self._tasks if not one.done()]
        self._prune_at = 2 * len(self._tasks) + _PRUNE_TASKS

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> events.Handle:
        """Run a callback in its turn."""
        handle = events.Handle(callback, args, self, context)
        self._waiting.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> events.TimerHandle:
        """Run a callback after some virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> events.TimerHandle:
        """Run a callback at a virtual time; those of one instant run in the order in which they were asked for."""
        timer = events.TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, timer))
        return timer

    def call_soon_threadsafe(self, *_: Any, **__: Any) -> events.Handle:  # type: ignore[override]  # it never works
        """Never: there are no threads here."""
        raise RuntimeError("a simulated process uses no threads")

    def run_in_executor(self, *_: Any) -> Any:  # type: ignore[override]  # it never works
        """Never: there are no threads here."""
        raise RuntimeError("a simulated process uses no threads")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what nobody took up; who plays the run looks at it."""
        if not self._over:
            self.unhandled.append(context)

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """A timer that was cancelled is thrown away when its time comes."""

    def _process_events(self, event_list: Any) -> None:
        """There is no input."""

    def _write_to_self(self) -> None:
        """There is no selector to wake."""

    def take_back(self, stash: deque[events.Handle]) -> None:
        """Let what a paused process has missed run, in its order."""
        self._waiting.extend(stash)
        stash.clear()

    def _run_once(self) -> None:
        waiting = self._waiting
        if not waiting:
            self._advance()
        if self.steps > self.max_steps:
            raise StuckError(f"{self.steps} steps and no end at {self._now:.3f} s\n{self.dump()}")
        before = self.before_step
        running = State.RUNNING
        # What they make ready waits for the next round, as in any asyncio loop.
        for _ in range(len(waiting)):
            handle = waiting.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(_current)  # type: ignore[attr-defined]  # the types leave it out
            if process is not None and process.state is not running:
                process.stash.append(handle)
                continue
            self.steps += 1
            if before is not None:
                before()
                if process is not None and process.state is not running:
                    process.stash.append(handle)
                    continue
            handle._run()

    def _advance(self) -> None:
        """Go to the time of the next timer, and make all of that time ready."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not timers:
            raise StuckError(f"everybody waits at {self._now:.3f} s, and no timer runs\n{self.dump()}")
        now = max(self._now, timers[0][0])
        if now > self.max_time:
            raise StuckError(f"not at an end after {self._now:.3f} virtual seconds\n{self.dump()}")
        self._now = now
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            if not timer._cancelled:
                self._waiting.append(timer)

    # What a run is made of.

    def play(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, then end everything else and close the loop."""
        try:
            return self.run_until_complete(main)
        finally:
            self.dispose()

    def dispose(self) -> None:
        """End every task that is left, those of dead processes too, and close the loop."""
        self._let_go()
        self._over = True
        for told in self.on_dispose:
            told()
        for process in self.processes:
            self._waiting.extend(process.stash)
            process.stash.clear()
        self.before_step = None
        self._timers.clear()
        events._set_running_loop(self)
        try:
            for _ in range(100):
                tasks = [task for task in asyncio.all_tasks(self) if not task.done()]
                if not tasks:
                    break
                for task in tasks:
                    task.cancel()
                while self._waiting:
                    handle = self._waiting.popleft()
                    if not handle._cancelled:
                        handle._run()
        finally:
            events._set_running_loop(None)
        self._waiting.clear()
        self._timers.clear()
        self.graveyard.clear()
        self._tasks.clear()
        self.close()

    def dump(self) -> str:
        """What every task that has not ended waits for."""
        lines = []
        dead = set().union(*self.graveyard) if self.graveyard else set()
        for task in sorted(asyncio.all_tasks(self), key=lambda task: task.get_name()):
            frames = task.get_stack(limit=None)
            place = " < ".join(f"{frame.f_code.co_qualname}:{frame.f_lineno}" for frame in reversed(frames))
            inner = _innermost(task)
            old = " (older than a crash)" if task in dead else ""
            lines.append(f"  {task.get_name()}: {place}{inner}{old}")
        more = len(lines) - _SHOWN_TASKS
        return "\n".join(lines[:_SHOWN_TASKS] + ([f"  and {more} more"] if more > 0 else []))


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _innermost(task: asyncio.Task[Any]) -> str:
    """The chain of coroutines below a task's own frame."""
    chain: list[str] = []
    awaited: Any = getattr(task.get_coro(), "cr_await", None)
    while awaited is not None and len(chain) < 12:
        code = getattr(awaited, "cr_code", None)
        if code is None:
            break
        frame = awaited.cr_frame
        chain.append(f"{code.co_qualname}:{frame.f_lineno if frame is not None else '?'}")
        awaited = awaited.cr_await
    return " > " + " > ".join(chain) if chain else ""
