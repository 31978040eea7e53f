"""Checks of all processes by their last measurements in the topic `clocks`: their clocks and versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiokafka import TopicPartition

from moorage.insight.copy.snapshot import partitions_of
from moorage.insight.survey.findings import Finding, Level
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.read_to_end import read_to
from moorage.runtime.process.clock import CLOCK_LIMIT
from moorage.runtime.service import Malformed
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import decode
from moorage_schemas.clock import ClockMeasured
from moorage_schemas.topics import CLOCKS

CLOCKS_CHECK: Final = "clocks"
VERSIONS: Final = "versions"

_RECENT: Final = timedelta(seconds=75)
"""The age up to which a measurement is that of a running process: twice the interval and some seconds."""

_READ: Final = 20_000
"""The most offsets at the end of the topic that are read: an hour of a hundred processes."""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process that has measured its clock lately."""

    key: str
    measured: ClockMeasured
    time: datetime
    """The brokers' time of the measurement."""

    since: datetime
    """The brokers' time of its first known measurement."""

    @property
    def name(self) -> str:
        """Its services and machine, for messages."""
        return f"{', '.join(self.measured.services)} on {self.measured.host}"


async def running_processes(settings: Settings) -> list[RunningProcess]:
    """Return the processes that have measured their clocks lately, by the brokers' time.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
        TimeoutError: Kafka does not answer.
    """
    name = CLOCKS.name(settings.topic_prefix)
    if not await partitions_of(settings, [name]):  # its offsets would be waited for
        return []
    consumer = clients.table_consumer(settings, client_id="moorage-doctor")
    await consumer.start()
    try:
        tp = TopicPartition(name, 0)
        ends = await consumer.end_offsets([tp])
        begins = await consumer.beginning_offsets([tp])
        found: dict[str, RunningProcess] = {}
        starts = {tp: max(begins[tp], ends[tp] - _READ)}
        async for _, records in read_to(consumer, starts, ends):
            for record in records:
                if (process := _process(record)) is not None:
                    before = found.get(process.key, process)
                    found[process.key] = replace(process, since=before.since)
    finally:
        await consumer.stop()
    return recent(found)


def _process(record: Any) -> RunningProcess | None:
    found = decode(CLOCKS, record)
    if isinstance(found, Malformed) or not isinstance(found.event, ClockMeasured):
        return None
    when = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    return RunningProcess(found.key, found.event, when, when)


def recent(found: Mapping[str, RunningProcess]) -> list[RunningProcess]:
    """Return those that ran when the newest of all was measured, by name.

    One that has not measured since another of the same services began on its machine counts as replaced by that one.
    """
    newest = max((one.time for one in found.values()), default=None)
    if newest is None:
        return []
    began: dict[str, datetime] = {}
    for one in found.values():
        began[one.name] = max(began.get(one.name, one.since), one.since)
    running = (one for one in found.values() if newest - one.time <= _RECENT and one.time >= began[one.name])
    return sorted(running, key=lambda one: one.name)


def clock_findings(processes: Sequence[RunningProcess], gateway_ahead: timedelta | None = None) -> list[Finding]:
    """Return the clocks that are off, or that none is.

    Args:
        processes: the running processes.
        gateway_ahead: by how much the gateway's clock is ahead of this machine's; None if it is unknown.
    """
    found = []
    offsets = [(one, one.measured.offset_seconds) for one in processes if one.measured.offset_seconds is not None]
    for one, offset in offsets:
        if abs(offset) > CLOCK_LIMIT.total_seconds():
            where = "ahead of" if offset > 0 else "behind"
            note = "; it is corrected" if one.measured.corrected else ""
            text = f"the clock of {one.name} is {abs(offset):.1f} s {where} the brokers'{note}"
            found.append(Finding(Level.WARNING, CLOCKS_CHECK, text, "check NTP on that machine"))
    if gateway_ahead is not None and abs(gateway_ahead) > 2 * CLOCK_LIMIT:
        seconds = gateway_ahead.total_seconds()
        where = "behind" if seconds > 0 else "ahead of"
        text = f"the clock of this machine is {abs(seconds):.0f} s {where} the gateway's"
        remedy = "check NTP here: reports with a time in the future are refused"
        found.append(Finding(Level.WARNING, CLOCKS_CHECK, text, remedy))
    if not found and offsets:
        values = [offset for _, offset in offsets]
        text = f"{len(offsets)} processes are within {max(values) - min(values):.2f} s of each other"
        found.append(Finding(Level.OK, CLOCKS_CHECK, text))
    if not processes:
        found.append(Finding(Level.UNKNOWN, CLOCKS_CHECK, "no process has measured its clock", "start the services"))
    elif not found:
        text = "the processes have just started: their clocks are known after half a minute"
        found.append(Finding(Level.UNKNOWN, CLOCKS_CHECK, text))
    return found


def version_findings(processes: Iterable[RunningProcess], own: str, gateway: str) -> list[Finding]:
    """Return whether all processes have one version.

    Args:
        processes: the running processes.
        own: the version of this command.
        gateway: the version of the gateway. Empty if it is unknown.
    """
    users: defaultdict[str, set[str]] = defaultdict(set)
    users[own].add("this command")
    if gateway:
        users[gateway].add("gateway")
    for one in processes:
        users[one.measured.version or "an earlier version"].update(one.measured.services)
    if len(users) == 1:
        return [Finding(Level.OK, VERSIONS, f"all run {own}")]
    listed = "; ".join(f"{version}: {', '.join(sorted(names))}" for version, names in sorted(users.items()))
    remedy = "normal during an upgrade; otherwise replace the processes of the older version"
    return [Finding(Level.WARNING, VERSIONS, listed, remedy)]
