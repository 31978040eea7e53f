"""The base of the placement controllers. Each reconciles one family of workloads of one partition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar, Final

from moorage.workers.placement.engine.outbox import LastDecision, Outbox
from moorage.workers.placement.engine.work_queue import Work, WorkQueue
from moorage_schemas.envelope import Meta
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared

PORTION: Final = 200
"""The approximate number of records that are written in one call. The rest waits for the next call. A pod has two
records and takes about half a millisecond on 5,000 nodes, so a call stays well below 100 ms."""

EFFORT: Final = 5000
"""The approximate number of visits (`Outbox.effort`) in one call, about 40 ms. The rest waits for the next call."""


class Controller(ABC):
    """Reconciles the workloads of one family. It is level-triggered.

    A change only adds the resources that it may concern to the work queue. Decisions use the present state of
    everything. After a restore, all resources are on the queue.
    """

    resources: tuple[str, ...]
    """The kinds of resources that it reads, as prefixes of resource keys."""

    decisions: tuple[str, ...]
    """The kinds of workloads that it decides on, as prefixes of workload keys."""

    at_once: ClassVar[int | None] = None
    """The maximum number of resources to reconcile in one call. None means until a portion is written."""

    def __init__(self) -> None:
        self.work = WorkQueue()
        self.begun = False
        """Whether everything has been put on the queue since the restore."""

    # Input from the topics of the partition.

    @abstractmethod
    def declare(self, key: str, event: ResourceDeclared | None) -> None:
        """Fold in a resource that is declared, or deleted (None)."""

    @abstractmethod
    def decided(self, key: str, event: WorkloadPlaced | None) -> None:
        """Fold in a decision on a workload; None when the workload no longer exists."""

    @abstractmethod
    def decision(self, workload: str) -> LastDecision | None:
        """Return the last decision on a workload. None if there is none."""

    @abstractmethod
    def is_new(self, event: ResourceDeclared) -> bool:
        """Return whether everything on which a decision about this resource rests must be up to date."""

    @abstractmethod
    def check_resource(self, key: str, cause: Meta) -> None:
        """Add a resource that was declared, changed or deleted to the queue."""

    @abstractmethod
    def keys(self) -> Iterable[str]:
        """Return the resources that are declared or decided on, in the order in which a restore checks them."""

    # Work to do.

    @abstractmethod
    def due(self) -> bool:
        """Return whether there is something to do now, independent of the time."""

    def next_time(self) -> datetime | None:
        """Return when the passing of time alone requires work; None for never."""
        return None

    @abstractmethod
    def gather(self, now: datetime) -> None:
        """Add resources that have become due to the queue."""

    def repair(self) -> None:
        """Add everything to the queue, to write missing records."""
        for key in self.keys():
            self.work.add(Work(key, None, repair=True))

    @abstractmethod
    def reconcile_one(self, outbox: Outbox, work: Work) -> None:
        """Bring the records of one resource to their desired state."""

    def reconcile(self, outbox: Outbox) -> None:
        """Process the queue until a portion is written, or a portion of work is done without writing much."""
        left = len(self.work) if self.at_once is None else self.at_once
        while self.work and left and len(outbox) < PORTION and outbox.effort < EFFORT:
            self.reconcile_one(outbox, self.work.take())
            left -= 1

    # The view.

    @abstractmethod
    def leave(self) -> None:
        """Undo what the partition has assumed in the view, because the partition is taken away."""


def by_prefix(controllers: Sequence[Controller], workload: str) -> Controller | None:
    """Return the controller that decides on a workload."""
    for one in controllers:  # a plain loop, because this runs for each record of a restore
        if workload.startswith(one.decisions):
            return one
    return None
