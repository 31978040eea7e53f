"""The resources that a controller must check, in the order of their arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from moorage_schemas.envelope import Meta


@dataclass(frozen=True, slots=True)
class Work:
    """A resource to reconcile."""

    key: str
    """The resource key."""

    cause: Meta | None
    """The event that caused the work; None when a restore or the reconciler did."""

    pod: str = ""
    """The key of the one pod of the resource to check; empty for the whole resource."""

    removed: str = ""
    """The name of a target that was deleted, or created again under its name."""

    nodes: tuple[str, ...] = ()
    """The names of the only nodes to check, for a resource with a pod on every node; empty for all."""

    repair: bool = False
    """Whether to write missing records again."""

    check: bool = False
    """Whether to decide again only when the written decision can no longer be right."""


@dataclass(slots=True)
class _Waiting:
    work: Work


class WorkQueue:
    """Work in the order of its arrival."""

    def __init__(self) -> None:
        self._queue: deque[_Waiting] = deque()
        self._once: dict[str, _Waiting] = {}
        self._at_nodes: dict[str, _Waiting] = {}

    def __len__(self) -> int:
        """Return the number of waiting pieces of work."""
        return len(self._queue)

    def __iter__(self) -> Iterator[Work]:
        """Iterate over the waiting work, in the order of its arrival."""
        return (waiting.work for waiting in self._queue)

    def add(self, work: Work) -> None:
        """Add work at the end, even if other work for the resource is waiting."""
        self._queue.append(_Waiting(work))

    def add_once(self, work: Work) -> None:
        """Add work at the end, unless work for the same resource that was added in this way is still waiting.

        The first cause counts. Work that only checks is replaced, at its place, by work that always decides.
        """
        known = self._once.get(work.key)
        if known is None:
            waiting = self._once[work.key] = _Waiting(work)
            self._queue.append(waiting)
        elif known.work.check and not work.check:
            known.work = work

    def add_nodes(self, work: Work) -> None:
        """Add work on some nodes at the end, or add the nodes to such work for the same resource that is still waiting.

        The first cause counts.
        """
        known = self._at_nodes.get(work.key)
        if known is None:
            waiting = self._at_nodes[work.key] = _Waiting(work)
            self._queue.append(waiting)
        else:
            known.work = replace(known.work, nodes=tuple(dict.fromkeys((*known.work.nodes, *work.nodes))))

    def put_back(self, work: Work) -> None:
        """Put unfinished work at the front."""
        self._queue.appendleft(_Waiting(work))

    def take(self) -> Work:
        """Return the next work, and remove it. Raises IndexError if nothing is waiting."""
        waiting = self._queue.popleft()
        for index in (self._once, self._at_nodes):
            if index.get(waiting.work.key) is waiting:
                del index[waiting.work.key]
        return waiting.work
