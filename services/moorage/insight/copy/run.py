"""Runs a copy without and with a change, and keeps the records of each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from moorage.insight.copy.gateway import Edge
from moorage.insight.copy.memory import Record
from moorage.insight.copy.snapshot import Snapshot
from moorage.insight.copy.stack import MemoryStack
from moorage.insight.copy.stand_ins import FOR_EVER, Deployers, StillEviction, StillTimer, Sweep, lives_on
from moorage.runtime.service import Service
from moorage.runtime.settings.moorage_configuration import configured, spec_of
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, placement, taint_manager, timer
from moorage.workers.condition_ingest.service import ConditionIngest
from moorage_schemas.configuration import ConfigurationChanged
from moorage_schemas.resources.configuration import CONFIGURATION_NAME
from moorage_schemas.topics import CONFIGURATION, FLEET, Topic

Change = Callable[[Edge, MemoryStack], Sequence[str]]
"""Changes the copy through its gateway, and returns in words what it has done."""

Progress = Callable[[str, float], None]
"""Called with the name of the present run and the share of its time that has passed, 0 to 1."""


def services(settings: Settings, since: datetime | None = None) -> list[Service[Any]]:
    """Return every service. With `since`, as they run in a copy that was taken at that time."""
    return [
        condition_ingest.service(settings),
        taint_manager.service(settings),
        governor.service(settings),
        eviction.service(settings) if since is None else StillEviction(settings),
        timer.service(settings) if since is None else StillTimer(since),
        placement.service(settings),
    ]


def in_force(snapshot: Snapshot, settings: Settings) -> Settings:
    """Return the settings with those of the copy's configuration in their place, if it has one."""
    known = _configuration(snapshot)
    return settings if known is None else configured(settings, known.spec)


def _configuration(snapshot: Snapshot) -> ConfigurationChanged | None:
    kept = snapshot.last(CONFIGURATION, CONFIGURATION_NAME)
    return kept.event if kept is not None and isinstance(kept.event, ConfigurationChanged) else None


def restored(snapshot: Snapshot, settings: Settings) -> MemoryStack:
    """Return the services on a copy, at the time of the copy and before anything has been done.

    If the settings differ from the copy's configuration, the configuration is replaced: the services decide by them.
    """
    settings = settings.model_copy(update={"partitions": snapshot.partitions})
    stack = MemoryStack(
        [*services(settings, snapshot.taken), Sweep(), Deployers()],
        partitions=snapshot.partitions,
        start=snapshot.taken,
        report_max_bytes=settings.report_max_bytes,
    )
    stack.restore(lives_on(snapshot))
    known, spec = _configuration(snapshot), spec_of(settings)
    if known is not None and known.spec != spec:
        # With another uid it counts, and so does a later one that the copy's gateway writes.
        event = known.model_copy(update={"uid": "simulated", "spec": spec})
        stack.produce(CONFIGURATION, CONFIGURATION_NAME, event, partition_key=FLEET, source="simulation")
    return stack


@dataclass(slots=True)
class Course:
    """The result of one run."""

    records: dict[str, list[Record]]
    """The records that were written, in order, by the topic's short name."""

    quiet: bool
    """Whether nothing is waiting for time to pass, apart from what never expires in a copy."""

    said: tuple[str, ...] = ()
    """The effect of the change, in words."""

    def written(self, topic: Topic) -> list[Record]:
        """Return the records that were written to a topic."""
        return self.records.get(topic.short, [])


@dataclass(slots=True)
class Simulated:
    """The results of both runs."""

    snapshot: Snapshot
    until: datetime
    without: Course
    """The run without the change."""

    changed: Course
    steps: int = field(default=0)
    """How many times services were called in both runs."""


def simulate(
    snapshot: Snapshot,
    settings: Settings,
    change: Change,
    horizon: timedelta,
    progress: Progress | None = None,
) -> Simulated:
    """Run a copy without and with a change.

    Args:
        snapshot: the copy. It is not modified.
        settings: the settings by which the services decide: `in_force`, perhaps with some of them changed.
        change: makes the change, after everything that was waiting at the time of the copy has been done.
        horizon: how much time passes, by the copy's clock.
        progress: called with the progress.

    Raises:
        RestlessError: the services do not come to rest.
    """
    tell = progress or (lambda _run, _share: None)
    until = snapshot.taken + horizon
    # The run with the change is first, so that a change that is refused fails early.
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
    # condition-ingest itself only waits to remove what has no effect any more; its deadlines are timers.
    due = stack.next_due(without={ConditionIngest.name})
    return Course(records, due is None or due > snapshot.taken + FOR_EVER / 2, said), stack.steps
