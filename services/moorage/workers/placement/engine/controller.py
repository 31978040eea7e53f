"""What a placement controller is: one family of workloads of one partition, brought to what it should be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar, Final

from moorage.workers.placement.engine.outbox import Outbox
from moorage.workers.placement.engine.work_queue import Work, WorkQueue
from moorage_schemas.envelope import Meta
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared

PORTION: Final = 500
"""Records that are written in one call, about; the rest waits for the next one."""


class Controller(ABC):
    """Reconciles the workloads of one family: it is level-triggered.

    A change only puts the resources that it may matter to on the work queue; what is decided rests on the present state
    of everything. After a restore, all resources are on the queue.
    """

    resources: ClassVar[tuple[str, ...]]
    """The kinds of resources that it reads, as prefixes of resource keys."""

    decisions: ClassVar[tuple[str, ...]]
    """The kinds of workloads that it decides on, as prefixes of workload keys."""

    at_once: ClassVar[int | None] = None
    """How many resources are reconciled in one call at most; None for as many as make up a portion."""

    def __init__(self) -> None:
        self.work = WorkQueue()
        self.begun = False
        """Whether everything is on the queue, or was, since the restore."""

    # What the topics of the partition say.

    @abstractmethod
    def declare(self, key: str, event: ResourceDeclared | None) -> None:
        """A resource is declared, or deleted (None)."""

    @abstractmethod
    def decided(self, key: str, event: WorkloadPlaced | None) -> None:
        """A decision was written on a workload, or the workload is no more (None)."""

    @abstractmethod
    def is_new(self, event: ResourceDeclared) -> bool:
        """Whether a declared resource is one of which everything that it rests on must be fresh when it is decided."""

    @abstractmethod
    def look_at(self, key: str, cause: Meta) -> None:
        """Put a resource on the queue that was declared, changed or deleted."""

    @abstractmethod
    def keys(self) -> Iterable[str]:
        """The resources that are declared or decided on, in the order in which they are looked at after a restore."""

    # What there is to do.

    @abstractmethod
    def due(self) -> bool:
        """Whether there is something to do, whatever the time."""

    def next_time(self) -> datetime | None:
        """When there is something to do because time has passed; None when that is never."""
        return None

    @abstractmethod
    def gather(self, now: datetime) -> None:
        """Put on the queue what has become due."""

    def repair(self) -> None:
        """Put everything on the queue, to write what should be there and is not."""
        for key in self.keys():
            self.work.add(Work(key, None, repair=True))

    @abstractmethod
    def reconcile_one(self, outbox: Outbox, work: Work) -> None:
        """Bring what is written of a resource to what it should be."""

    def reconcile(self, outbox: Outbox) -> None:
        """Work the queue off until a portion is written."""
        left = len(self.work) if self.at_once is None else self.at_once
        while self.work and left and len(outbox) < PORTION:
            self.reconcile_one(outbox, self.work.take())
            left -= 1

    # The view.

    @abstractmethod
    def leave(self) -> None:
        """The partition is taken away: take back what it has assumed in the view."""


def by_prefix(controllers: Sequence[Controller], workload: str) -> Controller | None:
    """The controller that decides on a workload."""
    return next((one for one in controllers if workload.startswith(one.decisions)), None)
