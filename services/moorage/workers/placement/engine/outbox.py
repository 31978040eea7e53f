"""What is written: for each piece of work, with its cause, and in force as soon as it is put in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from moorage.runtime.service import Emit
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.topics import PLACEMENTS, Topic

SOURCE: Final = "moorage/placement"

Apply = Callable[[Topic, str, Model | None], None]
"""Folds a record into the state of the partition."""


class Outbox:
    """The records of one call, in the order in which they are to be written.

    Args:
        apply: folds a decision into the state, so that what is decided next rests on it.
        now: the time of the call.
    """

    def __init__(self, apply: Apply, now: datetime) -> None:
        self.now = now
        self.emits: list[Emit] = []
        self.cause = Meta(id="", source="", type="")
        """What leads to the records that are put in from now on."""

        self._apply = apply

    def __len__(self) -> int:
        """How many records there are."""
        return len(self.emits)

    def begin(self, cause: Meta | None, *grounds: object) -> None:
        """Take up a piece of work.

        Args:
            cause: what led to it; None when no event did.
            grounds: what tells this work from other work that no event led to: its id is made of that and the time.
        """
        if cause is None:
            cause = Meta(event_id(SOURCE, *grounds, self.now.isoformat()), SOURCE, PLACEMENTS.event_type)
        self.cause = cause

    def put(self, topic: Topic, key: str, partition_key: str, event: Model | None, *, step: str = "") -> None:
        """Write a record, or a tombstone (None); see `Emit` for what the arguments mean."""
        self.emits.append(Emit(topic, key, partition_key, event, self.cause, step=step))
        if topic is PLACEMENTS:
            self._apply(topic, key, event)


def timed_cause(key: str, at: datetime) -> Meta:
    """What causes work that is due because a time has come."""
    return Meta(event_id(SOURCE, key, at.isoformat()), SOURCE, WorkloadPlaced.event_type, time=at)
