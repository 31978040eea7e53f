"""Last decisions, and the records to write for each piece of work. They take effect as soon as they are added."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from moorage.runtime.service import Emit
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.topics import PLACEMENTS, Topic

SOURCE: Final = "moorage/placement"

DECISION: Final = 25
"""The number of visits that take as long as one scheduling decision on 5,000 nodes."""

Apply = Callable[[Topic, str, Model | None], None]
"""Folds a record into the state of the partition."""


Last = Callable[[str], "LastDecision | None"]
"""Returns the last decision on a workload."""


class Outbox:
    """The records of one call, in the order in which they are written.

    Args:
        apply: folds a decision into the state, so that later decisions use it.
        last: returns the last decision on a workload, for the log.
    """

    def __init__(self, apply: Apply, now: datetime, last: Last | None = None) -> None:
        self.now = now
        self.emits: list[Emit] = []
        self.cause = Meta(id="", source="", type="")
        """The cause of the records that are added from now on."""

        self.effort = 0
        """The work done in this call, counted in pods and nodes that were visited. A scheduling decision counts as
        `DECISION` of them."""

        self._apply = apply
        self._last = last

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.emits)

    def begin(self, cause: Meta | None, *grounds: object) -> None:
        """Begin a piece of work.

        Args:
            cause: the event that caused it; None when no event did.
            grounds: values that distinguish this work from other work without an event. Its id is made from them and
                the time.
        """
        if cause is None:
            cause = Meta(event_id(SOURCE, *grounds, self.now.isoformat()), SOURCE, PLACEMENTS.event_type)
        self.cause = cause

    def put(self, topic: Topic, key: str, partition_key: str, event: Model | None, *, step: str = "") -> None:
        """Write a record, or a tombstone (None). The arguments are those of `Emit`."""
        was = None
        if isinstance(event, WorkloadPlaced) and event.state is PlacementState.PENDING and self._last is not None:
            was = self._last(key)
        self.emits.append(Emit(topic, key, partition_key, event, self.cause, step=step, before=was))
        if topic is PLACEMENTS:
            self._apply(topic, key, event)


def timed_cause(key: str, at: datetime) -> Meta:
    """Return the cause of work that is due at a certain time."""
    return Meta(event_id(SOURCE, key, at.isoformat()), SOURCE, WorkloadPlaced.event_type, time=at)


@dataclass(slots=True, eq=False)
class LastDecision:
    """The fields that the decisions of all three controllers share."""

    workload: str
    uid: str
    """The uid of the workload."""

    generation: int
    state: PlacementState
    reason: str
    message: str
    decided_time: datetime


def supersedes(event: WorkloadPlaced, known: LastDecision | None) -> bool:
    """Return whether a decision replaces the last one: it is newer, or about a later workload of the same name."""
    return known is None or known.uid != event.uid or event.generation >= known.generation
