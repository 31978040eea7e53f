"""The service timer. It does not know the purpose of its timers.

Consumes:
    `timers`: set, move, cancel (an upsert without deadline) and delete (a tombstone).
Keeps:
    The timers (source table `timers`) and which generation of each has fired (changelog `timer-fired`), in a heap.
Emits:
    `timer-fired`: at or after the deadline, never before, once for each generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from sys import intern
from typing import Any, ClassVar

from msgspec import Struct

from moorage.core.apimachinery.trusted_events import target_ref, trusted
from moorage.core.timers.timer_table import DueTimer, TimerTable
from moorage.runtime.portions import FIRINGS
from moorage.runtime.row_reader import RowReader
from moorage.runtime.service import Emit, Input, Service, source_name
from moorage.runtime.settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.refs import TargetRef
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.topics import TIMER_FIRED, TIMERS, Topic

_TIMER_SET = TIMERS.event_type


class KnownTimer(Struct, frozen=True, gc=False):
    """What is kept of a timer. There may be a million of them."""

    id: str
    target: TargetRef
    target_key: str
    owner: str
    generation: int
    deadline: datetime | None
    subject: str
    correlation_id: str


@dataclass(slots=True)
class TimerPartition:
    """The timers of one partition."""

    table: TimerTable[KnownTimer] = field(default_factory=TimerTable)
    begun: bool = False
    """Whether the service has been woken since the restore. By then all timers are known, so any other is deleted."""


class TimerService(Service[TimerPartition]):
    """Fires timers when they are due."""

    name: ClassVar[str] = "timer"
    summary: ClassVar[str] = "Reads deadlines, and writes `timer-fired` at or after each of them."
    sources: ClassVar[tuple[Topic, ...]] = (TIMERS,)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({TIMERS})
    changelogs: ClassVar[tuple[Topic, ...]] = (TIMER_FIRED,)
    rows: ClassVar[Mapping[Topic, RowReader]] = {TIMERS: RowReader(SetTimer), TIMER_FIRED: RowReader(TimerFired)}

    def new_state(self, partition: int) -> TimerPartition:  # noqa: ARG002 - all partitions begin in the same way
        """Return an empty state for a partition."""
        return TimerPartition()

    def apply(self, state: TimerPartition, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in a timer, or a record that a timer has fired."""
        if topic is TIMERS:
            if isinstance(event, SetTimer):
                state.table.set(_known(event, event.target))
            else:
                state.table.remove(key)
        elif isinstance(event, TimerFired):
            state.table.fired(event)

    def apply_row(self, state: TimerPartition, topic: Topic, key: str, row: Any) -> bool:  # noqa: ARG002 - a timer has its id
        """Fold in a timer, or a record that a timer has fired."""
        if topic is TIMERS:
            state.table.set(_known(row, target_ref(row.target.key)))
        else:
            state.table.fired(row)
        return True

    def process(
        self,
        state: TimerPartition,
        batch: Sequence[Input],
        now: datetime,  # noqa: ARG002 - `wake` handles what is due
        *,
        fresh: bool = False,  # noqa: ARG002 - the service follows no topics
    ) -> list[Emit]:
        """Fold in the timers. `wake`, which is called next, handles what is due."""
        for record in batch:
            self.apply(state, record.topic, record.key, record.event)
        return []

    def wake(self, state: TimerPartition, now: datetime) -> list[Emit]:
        """Fire a portion of the timers that have come due."""
        if not state.begun:  # every timer is known now
            state.begun = True
            state.table.forget_orphans()
        return [self._fire(state, due, now) for due in islice(state.table.take_due(now), FIRINGS)]

    def next_wake(self, state: TimerPartition) -> datetime | None:
        """Return the earliest deadline."""
        return state.table.next_deadline()

    def _fire(self, state: TimerPartition, due: DueTimer[KnownTimer], now: datetime) -> Emit:
        timer, deadline = due
        timer_id, owner = timer.id, timer.owner
        event = trusted(
            TimerFired,
            id=timer_id,
            target=timer.target,
            owner=owner,
            generation=timer.generation,
            deadline=deadline,
            fired_time=now,
            subject=timer.subject,
        )
        state.table.fired(timer)  # as `apply` does with the event, whose id and generation are the timer's
        # The record that set the timer may no longer be in memory, so the timer itself contains the cause.
        which = event_id("timer", timer_id, timer.generation)
        cause = Meta(which, source_name(owner), _TIMER_SET, deadline, timer_id, timer.correlation_id)
        return Emit(TIMER_FIRED, timer_id, timer.target_key, event, cause)


def _known(timer: Any, target: TargetRef) -> KnownTimer:
    """Return what is kept of a timer, which is a model or a row."""
    return KnownTimer(
        id=timer.id,
        target=target,
        target_key=intern(target.key),
        owner=intern(timer.owner),
        generation=timer.generation,
        deadline=timer.deadline,
        subject=timer.subject,
        correlation_id=timer.correlation_id,
    )


def service(settings: Settings) -> TimerService:  # noqa: ARG001 - all services are created in the same way
    """Return the service for the command line to run."""
    return TimerService()
