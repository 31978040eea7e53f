"""Writes to the cluster: keys to work on, writes that another controller reverts, and requests with their metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

import structlog

from moorage.bridges.engine.metrics import ACTS, CONTRADICTED, WAITING
from moorage.bridges.kube.api_error import CONFLICT, NOT_FOUND, ApiError
from moorage.bridges.kube.client import MERGE_PATCH, KubeClient

_log = structlog.get_logger(__name__)

_INFO, _WARNING = 20, 30
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_DOUBLINGS: Final = 9  # of the pause, after which it is the longest
_AT_ONCE: Final = 16

_FREE: Final = 3
"""So many times in a row the same is written at once: others may have written what they had read before."""

_FIRST_CONTENTION, _LONGEST_CONTENTION = 5.0, 300.0
_QUIET: Final = 2.0
"""After so many pauses without a write, contention has ended."""

_TIDY: Final = 60.0  # seconds between two removals of what need not be remembered

LOST: Final = frozenset({NOT_FOUND, CONFLICT})
"""The answers about an object that does not exist, has changed meanwhile, or is another one of its name."""


def stored_time(at: datetime) -> str:
    """Return a time as an API server stores it, in whole seconds."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def outcome_of(error: ApiError) -> str:
    """Return the outcome to count: `refused` by the cluster, such as by one of its budgets, else `failed`."""
    return "refused" if HTTPStatus.BAD_REQUEST <= error.status < HTTPStatus.INTERNAL_SERVER_ERROR else "failed"


async def send(
    client: KubeClient,
    act: str,
    path: str,
    body: Any,
    *,
    method: str = "PATCH",
    params: Mapping[str, str] | None = None,
    content_type: str = MERGE_PATCH,
    lost: str = "conflict",
) -> dict[str, Any] | None:
    """Send a write, count it, and return the answer. None if the object is lost (`LOST`), which the watch reports.

    Args:
        client: of the cluster.
        act: what is written, for metrics.
        path: of the request.
        body: of the request.
        method: of the request.
        params: of the request.
        content_type: of the body.
        lost: the outcome that is counted if the object is lost.

    Raises:
        ApiError: the cluster refuses.
        OSError: it cannot be reached.
    """
    try:
        found = await client.request(method, path, params=params, body=body, content_type=content_type)
    except ApiError as error:
        ACTS.labels(act, lost if error.status in LOST else outcome_of(error)).inc()
        if error.status in LOST:
            return None
        raise
    ACTS.labels(act, "done").inc()
    return found


class ActQueue:
    """A queue of keys, with a function that compares the present with the wanted state of each.

    A key waits here and not in its act, so that each act starts from the latest state.

    Args:
        name: for logs and metrics.
        room: returns how many keys are worked on at a time. It may change, and is at least one.
    """

    def __init__(self, name: str, room: Callable[[], int] = lambda: _AT_ONCE) -> None:
        self._name = name
        self._room = room
        self._waiting: dict[str, None] = {}
        self._busy: set[str] = set()
        self._failures: dict[str, int] = {}
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._woken = asyncio.Event()

    def add(self, *keys: str) -> None:
        """Add keys. Those that are being worked on are worked on again afterwards."""
        self._waiting.update(dict.fromkeys(keys))
        self._woken.set()

    def add_later(self, key: str, seconds: float) -> None:
        """Add a key after a while, unless it is added before."""
        if key in self._later:
            return

        def now() -> None:
            self._later.pop(key, None)
            self.add(key)

        self._later[key] = asyncio.get_running_loop().call_later(seconds, now)

    async def run(self, work: Callable[[str], Awaitable[None]]) -> None:
        """Work until cancelled.

        Args:
            work: makes it so for one key. If it raises an error, it is called again later. Other keys go on.
        """
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    group.create_task(self._work_on(await self._next(), work))
        finally:
            for handle in self._later.values():
                handle.cancel()

    async def _work_on(self, key: str, work: Callable[[str], Awaitable[None]]) -> None:
        try:
            await work(key)
            self._failures.pop(key, None)
        except Exception as error:  # noqa: BLE001 - no object of a cluster may stop the acts on others
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            pause = min(_FIRST_PAUSE * 2.0 ** min(failures, _DOUBLINGS), _LONGEST_PAUSE)
            if isinstance(error, ApiError) and error.retry_after is not None:
                pause = max(pause, error.retry_after)
            expected = isinstance(error, (ApiError, OSError))
            level = _WARNING if failures > 1 or not expected else _INFO
            _log.log(level, "bridge.act_failed", queue=self._name, key=key, error=str(error), exc_info=not expected)
            self.add_later(key, pause)
        finally:
            self._busy.discard(key)
            if self._waiting:
                self._woken.set()

    async def _next(self) -> str:
        while True:
            if len(self._busy) < self._room():
                for key in self._waiting:
                    if key not in self._busy:
                        del self._waiting[key]
                        self._busy.add(key)
                        WAITING.labels(self._name).set(len(self._waiting))
                        return key
            self._woken.clear()
            await self._woken.wait()


@dataclass(slots=True)
class _Writes:
    """The last write of an object."""

    content: Hashable
    times: int
    """In a row."""

    at: float

    @property
    def pause(self) -> float:
        """Seconds from the last write to the next one of the same."""
        if self.times < _FREE:
            return 0.0
        return float(min(_FIRST_CONTENTION * 2.0 ** min(self.times - _FREE, 16), _LONGEST_CONTENTION))

    def has_ended(self, now: float) -> bool:
        """Return whether nothing contradicts it now."""
        return now >= self.at + max(self.pause, _FIRST_CONTENTION) * _QUIET


class Contention:
    """Contention with other controllers: when to write again what they have reverted. New content is written now.

    Two controllers that contradict each other would write in turn, as fast as the API server lets them. So the same is
    written less and less often.

    Args:
        act: what is written, for logs and metrics.
        later: called with a key, and the seconds after which it is to be checked again.
        noticed: called with the key of an object that another controller reverts, each time that it is written.
    """

    def __init__(self, act: str, later: Callable[[str, float], None], noticed: Callable[[str], None]) -> None:
        CONTRADICTED.labels(act)  # else its alert does not notice the first one
        self._act = act
        self._later = later
        self._noticed = noticed
        self._written: dict[str, _Writes] = {}
        self._tidy_at = float("-inf")

    def holds(self, key: str, content: Hashable) -> bool:
        """Return whether a write has to wait. It is then checked again when its time has come."""
        known, now = self._written.get(key), asyncio.get_running_loop().time()
        if known is None or known.content != content:
            return False
        if known.has_ended(now):
            del self._written[key]
            return False
        if (left := known.at + known.pause - now) <= 0:
            return False
        self._later(key, left)
        return True

    def written(self, key: str, content: Hashable) -> None:
        """Note that something was written."""
        now = asyncio.get_running_loop().time()
        if now >= self._tidy_at:
            self._tidy_at = now + _TIDY
            self._written = {one: writes for one, writes in self._written.items() if not writes.has_ended(now)}
        known = self._written.get(key)
        if known is None or known.content != content:
            self._written[key] = _Writes(content, 1, now)
            return
        known.times, known.at = known.times + 1, now
        if known.times >= _FREE:
            CONTRADICTED.labels(self._act).inc()
            _log.warning("bridge.contradicted", act=self._act, key=key, times=known.times, pause=known.pause)
            self._noticed(key)

    def gone(self, key: str) -> None:
        """Forget an object that no longer exists."""
        self._written.pop(key, None)
