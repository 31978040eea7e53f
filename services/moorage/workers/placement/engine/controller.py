"""The base of the placement controllers. Each reconciles one family of workloads of one partition."""

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
"""The approximate number of records that are written in one call. The rest waits for the next call."""


class Controller(ABC):
    """Reconciles the workloads of one family. It is level-triggered.

    A change only puts the resources that it may concern on the work queue. Decisions use the present state of
    everything. After a restore, all resources are on the queue.
    """

    resources: ClassVar[tuple[str, ...]]
    """The kinds of resources that it reads, as prefixes of resource keys."""

    decisions: ClassVar[tuple[str, ...]]
    """The kinds of workloads that it decides on, as prefixes of workload keys."""

    at_once: ClassVar[int | None] = None
    """The largest number of resources to reconcile in one call; None for as many as make up a portion."""

    def __init__(self) -> None:
        self.work = WorkQueue()
        self.begun = False
        """Whether everything is on the queue, or was, since the restore."""

    # Input from the topics of the partition.

    @abstractmethod
    def declare(self, key: str, event: ResourceDeclared | None) -> None:
        """Take in a resource that is declared, or deleted (None)."""

    @abstractmethod
    def decided(self, key: str, event: WorkloadPlaced | None) -> None:
        """Take in a decision on a workload; None when the workload does not exist any more."""

    @abstractmethod
    def is_new(self, event: ResourceDeclared) -> bool:
        """Return whether everything that a decision on this resource rests on must be up to date."""

    @abstractmethod
    def look_at(self, key: str, cause: Meta) -> None:
        """Put a resource that was declared, changed or deleted on the queue."""

    @abstractmethod
    def keys(self) -> Iterable[str]:
        """Return the resources that are declared or decided on, in the order in which a restore checks them."""

    # Work to do.

    @abstractmethod
    def due(self) -> bool:
        """Return whether there is something to do now, independent of the time."""

    def next_time(self) -> datetime | None:
        """Return when there is something to do because time has passed; None for never."""
        return None

    @abstractmethod
    def gather(self, now: datetime) -> None:
        """Put what has become due on the queue."""

    def repair(self) -> None:
        """Put everything on the queue, to write what is missing."""
        for key in self.keys():
            self.work.add(Work(key, None, repair=True))

    @abstractmethod
    def reconcile_one(self, outbox: Outbox, work: Work) -> None:
        """Reconcile the records of one resource with what they should be."""

    def reconcile(self, outbox: Outbox) -> None:
        """Process the queue until a portion is written."""
        left = len(self.work) if self.at_once is None else self.at_once
        while self.work and left and len(outbox) < PORTION:
            self.reconcile_one(outbox, self.work.take())
            left -= 1

    # The view.

    @abstractmethod
    def leave(self) -> None:
        """Take back what the partition has assumed in the view, because the partition is taken away."""


def by_prefix(controllers: Sequence[Controller], workload: str) -> Controller | None:
    """Return the controller that decides on a workload."""
    return next((one for one in controllers if workload.startswith(one.decisions)), None)
