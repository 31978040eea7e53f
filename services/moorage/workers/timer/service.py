"""The service timer. It is independent of the purpose of its timers.

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
from functools import lru_cache
from sys import intern
from typing import Any, ClassVar

from msgspec import Raw
from typing_extensions import override

from moorage.decide.timers.timer_table import Timer, TimerTable
from moorage.runtime.engine.portions import FIRINGS
from moorage.runtime.service import Emit, Input, Service, source_name
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import new_meta
from moorage.runtime.wire.row_reader import RowReader
from moorage.runtime.wire.value_writer import encode_row, row_type, write_value
from moorage_schemas.envelope import id_of
from moorage_schemas.refs import TargetRef
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.topics import TIMER_FIRED, TIMERS, Topic

_TIMER_SET = TIMERS.event_type
_Fired = row_type(TimerFired)


@dataclass(slots=True)
class TimerPartition:
    """The timers of one partition."""

    table: TimerTable = field(default_factory=TimerTable)
    begun: bool = False
    """Whether the service has been woken since the restore. By then all timers are read, so any other is deleted."""


class TimerService(Service[TimerPartition]):
    """Fires timers when they are due."""

    name: ClassVar[str] = "timer"
    summary: ClassVar[str] = "Reads deadlines, and writes `timer-fired` at or after each of them."
    sources: ClassVar[tuple[Topic, ...]] = (TIMERS,)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({TIMERS})
    changelogs: ClassVar[tuple[Topic, ...]] = (TIMER_FIRED,)
    rows: ClassVar[Mapping[Topic, RowReader]] = {TIMERS: RowReader(SetTimer), TIMER_FIRED: RowReader(TimerFired)}

    @override
    def new_state(self, partition: int) -> TimerPartition:
        return TimerPartition()

    @override
    def apply(self, state: TimerPartition, topic: Topic, key: str, event: Any) -> None:
        if topic is TIMERS:
            if event is not None:
                state.table.set(_timer(event))
            else:
                state.table.remove(key)
        elif event is not None:
            state.table.fired(event.id, event.generation)

    @override
    def process(
        self,
        state: TimerPartition,
        batch: Sequence[Input],
        now: datetime,
        *,
        fresh: bool = False,
    ) -> list[Emit]:
        for record in batch:
            self.apply(state, record.topic, record.key, record.event)
        return []

    @override
    def wake(self, state: TimerPartition, now: datetime) -> list[Emit]:
        if not state.begun:  # every timer has been read
            state.begun = True
            state.table.forget_orphans()
        fire = self._fire
        return [fire(timer, now) for timer in state.table.take_due(now, FIRINGS)]

    @override
    def next_wake(self, state: TimerPartition) -> datetime | None:
        return state.table.next_deadline()

    def _fire(self, timer: Timer, now: datetime) -> Emit:
        """Return the record that a timer has fired. The table already contains it, as `apply` would fold it in."""
        timer_id, owner, deadline = timer.id, timer.owner, timer.deadline
        fired = _Fired(
            id=timer_id,
            target=timer.target,
            owner=owner,
            generation=timer.generation,
            deadline=deadline,
            fired_time=now,
            subject=timer.subject,
        )
        # The record that set the timer may no longer be in memory, so the timer itself contains the cause.
        which = id_of(f"timer\x1f{timer_id}\x1f{timer.generation}")
        chain, trace = timer.correlation_id, timer.traceparent
        cause = new_meta((which, _source(owner), _TIMER_SET, deadline, timer_id, chain, "", trace, 0, ()))
        return Emit(TIMER_FIRED, timer_id, timer.target_key, encode_row(fired), cause, reader=owner)


def _timer(timer: Any) -> Timer:
    """Return the kept part of a timer, which is a model or a row."""
    key, value = _target(timer.target.key)
    return Timer(
        id=timer.id,
        target=value,
        target_key=key,
        owner=intern(timer.owner),
        generation=timer.generation,
        deadline=timer.deadline,
        subject=timer.subject,
        correlation_id=timer.correlation_id,
        traceparent=intern(timer.traceparent),
    )


_source = lru_cache(maxsize=64)(source_name)


@lru_cache(maxsize=4096)
def _target(key: str) -> tuple[str, Raw]:
    """Return a target's key and value. All timers about one target share them."""
    return key, Raw(write_value(TargetRef.parse(key)))


def service(settings: Settings) -> TimerService:  # noqa: ARG001 - all services are created in the same way
    """Return the service for the command line to run."""
    return TimerService()
