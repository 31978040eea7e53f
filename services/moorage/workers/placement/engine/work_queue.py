"""What a controller has to look at, in the order in which it came."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from moorage_schemas.envelope import Meta


@dataclass(frozen=True, slots=True)
class Work:
    """A resource to reconcile."""

    key: str
    """The resource key."""

    cause: Meta | None
    """The event that led here; None when a restore or the reconciler did."""

    pod: str = ""
    """The key of the one pod of the resource to look at; empty for all of it."""

    gone: str = ""
    """The name of a target that was deleted, or made again under its name."""

    repair: bool = False
    """Whether to write again what should be there and is not."""

    check: bool = False
    """Whether to decide again only when what is written can no longer be right."""


@dataclass(slots=True)
class _Waiting:
    work: Work


class WorkQueue:
    """Work in the order of its arrival."""

    def __init__(self) -> None:
        self._queue: deque[_Waiting] = deque()
        self._once: dict[str, _Waiting] = {}

    def __len__(self) -> int:
        """How much is waiting."""
        return len(self._queue)

    def __iter__(self) -> Iterator[Work]:
        """What is waiting, first come first."""
        return (waiting.work for waiting in self._queue)

    def add(self, work: Work) -> None:
        """Put work at the end, whatever is waiting already."""
        self._queue.append(_Waiting(work))

    def add_once(self, work: Work) -> None:
        """Put work at the end, unless work that came this way waits for the same resource.

        The first cause counts. Work that only checks gives way to work that decides in any case, at its place.
        """
        known = self._once.get(work.key)
        if known is None:
            waiting = self._once[work.key] = _Waiting(work)
            self._queue.append(waiting)
        elif known.work.check and not work.check:
            known.work = work

    def put_back(self, work: Work) -> None:
        """Put work that is not finished at the front."""
        self._queue.appendleft(_Waiting(work))

    def take(self) -> Work:
        """The next work.

        Raises:
            IndexError: nothing is waiting.
        """
        work = self._queue.popleft().work
        self._once.pop(work.key, None)
        return work
