"""Runs a copy twice, as it is and with a change, and keeps what happened in each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from moorage.runtime.service import Service
from moorage.runtime.settings import Settings
from moorage.simulation.copy.alive import FOR_EVER, StillTimer, lives_on
from moorage.simulation.copy.gateway import Edge
from moorage.simulation.copy.memory import Record
from moorage.simulation.copy.pod_gc import Sweep
from moorage.simulation.copy.snapshot import Snapshot
from moorage.simulation.copy.stack import MemoryStack
from moorage.workers import condition_ingest, eviction, governor, placement, taint_manager, timer
from moorage_schemas.topics import Topic

Change = Callable[[Edge, MemoryStack], Sequence[str]]
"""Changes the copy through its gateway, and says in words what it did."""

Progress = Callable[[str, float], None]
"""Told which run is on, and how much of its time is over, 0 to 1."""


def services(settings: Settings, since: datetime | None = None) -> list[Service[Any]]:
    """Every service, as it runs; with `since` as in a copy that was taken then."""
    return [
        condition_ingest.service(settings),
        taint_manager.service(settings),
        governor.service(settings),
        eviction.service(settings),
        timer.service(settings) if since is None else StillTimer(since),
        placement.service(settings),
    ]


def restored(snapshot: Snapshot, settings: Settings) -> MemoryStack:
    """The services on a copy, at the moment at which it was taken; nothing has been done yet."""
    settings = settings.model_copy(update={"partitions": snapshot.partitions})
    stack = MemoryStack(
        [*services(settings, snapshot.taken), Sweep()],
        partitions=snapshot.partitions,
        start=snapshot.taken,
        report_max_bytes=settings.report_max_bytes,
    )
    stack.restore(lives_on(snapshot))
    return stack


@dataclass(slots=True)
class Course:
    """What happened in one run."""

    records: dict[str, list[Record]]
    """What was written, by the topic's short name, in order."""

    quiet: bool
    """Whether nothing is left that waits for time, but for what never runs out in a copy."""

    said: tuple[str, ...] = ()
    """What the change did, in words."""

    def written(self, topic: Topic) -> list[Record]:
        """What was written to a topic."""
        return self.records.get(topic.short, [])


@dataclass(slots=True)
class Simulated:
    """Both runs."""

    snapshot: Snapshot
    until: datetime
    without: Course
    """As things are."""

    changed: Course
    steps: int = field(default=0)
    """How often services were called, in both."""


def simulate(
    snapshot: Snapshot,
    settings: Settings,
    change: Change,
    horizon: timedelta,
    progress: Progress | None = None,
) -> Simulated:
    """Run a copy without and with a change.

    Args:
        snapshot: the copy; it stays as it is.
        settings: of the services and of the gateway, as where they run.
        change: what is changed, once everything that was waiting at that moment is done.
        horizon: for how long, by the copy's clock.
        progress: told how far it is.

    Raises:
        RestlessError: the services do not come to rest.
    """
    tell = progress or (lambda _run, _share: None)
    until = snapshot.taken + horizon
    # The change first: when it is refused, nobody has waited for the other run.
    changed, steps = _run(snapshot, settings, change, until, lambda share: tell("with the change", share))
    without, more = _run(snapshot, settings, None, until, lambda share: tell("without it", share))
    return Simulated(snapshot, until, without, changed, steps + more)


def _run(
    snapshot: Snapshot, settings: Settings, change: Change | None, until: datetime, tell: Callable[[float], None]
) -> tuple[Course, int]:
    tell(0.0)
    stack = restored(snapshot, settings)
    begin = stack.topics.written
    stack.run()
    said: tuple[str, ...] = ()
    if change is not None:
        with Edge(stack, settings) as edge:
            said = tuple(change(edge, stack))
            edge.settle()
    whole = (until - snapshot.taken).total_seconds() or 1.0
    for now in stack.wakes(until):
        tell((now - snapshot.taken).total_seconds() / whole)
    records = {short: found for short in stack.topics.latest if (found := stack.topics.topic(short, begin))}
    due = stack.next_due()
    return Course(records, due is None or due > snapshot.taken + FOR_EVER / 2, said), stack.steps
