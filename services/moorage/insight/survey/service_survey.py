"""The services of a fleet as their consumer groups and topics show them: members, partitions, lag, last decisions.

Nothing is written, and no group is joined. The number of undecided records is exact while it is small: the markers of
transactions are offsets without records, so the difference of two offsets is mostly too high.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from moorage.insight.survey.findings import Finding, Level
from moorage.runtime.chains import CHAINS, chain_of
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.read_to_end import CONNECT_SECONDS, read_to
from moorage.runtime.service import Service
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.times import format_time
from moorage_schemas.topics import CLOCKS, DEAD_LETTERS, JOURNAL, TIMERS, Topic

GATEWAY: Final = "gateway"

_NAME: Final = "moorage-survey"
_NO_DECISIONS: Final = frozenset({DEAD_LETTERS, JOURNAL, CLOCKS, TIMERS})
"""Outputs that are not decisions."""

_COUNTED: Final = 10_000
"""The most offsets of a partition in which records are counted. Of more, the difference of the offsets is shown."""

_TAIL: Final = 8
"""The offsets at the end of a partition in which the last record is searched for. Each transaction has a marker."""

_SLOW: Final = timedelta(seconds=10)
"""The age of an undecided record from which a service counts as slow."""

_STUCK: Final = timedelta(minutes=1)
"""The age of an undecided record from which a service counts as stuck. A process's watchdog uses the same default."""


@dataclass(frozen=True, slots=True)
class UndecidedRecords:
    """The records of a service that it has not decided on."""

    records: int
    is_exact: bool
    since: datetime | None
    """When the oldest of them was written; None if there are none, or if it is unknown."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The state of a service."""

    name: str
    chain: str
    """The chain that runs it. Empty if it runs alone, or not at all."""

    members: int
    """The number of processes that run it."""

    is_stable: bool
    """Whether its group has divided the partitions."""

    assigned: int
    """The number of partitions that have an owner."""

    partitions: int
    lag: UndecidedRecords | None
    """None for the gateway, which consumes nothing."""

    decided: datetime | None
    """When it last wrote a decision, as far as it is recorded; None if never."""

    @property
    def word(self) -> str:
        """Its state in a word: `Running`, `Rebalancing`, `Stopped`."""
        if not self.members:
            return "Stopped"
        return "Running" if self.is_stable and self.assigned == self.partitions else "Rebalancing"

    def document(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return {
            "name": self.name,
            "chain": self.chain,
            "state": self.word,
            "processes": self.members,
            "assigned": self.assigned,
            "partitions": self.partitions,
            "lag": None if self.lag is None else self.lag.records,
            "lagSince": None if self.lag is None or self.lag.since is None else format_time(self.lag.since),
            "lastDecision": None if self.decided is None else format_time(self.decided),
        }

    def findings(self, now: datetime) -> list[Finding]:
        """Return what is wrong with the service."""
        if not self.members:
            advice = f"start it: moorage run {self.name}"
            if chain := chain_of(self.name):
                advice += f", or its chain: moorage run {' '.join(CHAINS[chain])}"
            return [Finding(Level.ERROR, "services", f"no process runs {self.name}", advice)]
        if self.word == "Rebalancing":
            message = f"{self.name} has owners for {self.assigned} of {self.partitions} partitions"
            return [
                Finding(
                    Level.WARNING, "services", message, "wait for the rebalance to end; if it lasts, look at its logs"
                )
            ]
        if self.lag is None or self.lag.since is None or (age := now - self.lag.since) < _SLOW:
            return []
        message = (
            f"{self.name} has not decided on {self.lag.records} records, the oldest {age.total_seconds():.0f} s old"
        )
        advice = "look at its logs and at moorage_restore_progress; a restore or a slow Kafka takes time"
        return [Finding(Level.ERROR if age >= _STUCK else Level.WARNING, "services", message, advice)]


async def survey(settings: Settings, services: Sequence[type[Service[Any]]], partitions: int) -> list[ServiceState]:
    """Return the state of each service, and that of the gateway at the end.

    Args:
        settings: the address of Kafka, and the prefix of the topics.
        services: the classes of the services.
        partitions: the number of partitions of each topic.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
        TimeoutError: Kafka does not answer.
        OSError: Kafka cannot be reached.
    """
    offsets = Offsets(settings, name=_NAME)
    consumer = clients.table_consumer(settings, client_id=_NAME)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await offsets.start()
            await consumer.start()
        groups = [*(service.name for service in services), *CHAINS, GATEWAY]
        found = [await offsets.members(f"{settings.topic_prefix}.{group}") for group in groups]
        members = dict(zip(groups, found, strict=True))
        reading = _Reading(settings, consumer, offsets, partitions)
        states = []
        lags = await reading.lags(services)
        decided = await reading.last_decisions(services)
        for service in services:
            chain = chain_of(service.name) or ""
            by_chain = bool(chain) and bool(members[chain].assigned)
            group = members[chain if by_chain else service.name]
            states.append(
                ServiceState(
                    service.name,
                    chain if by_chain else "",
                    len(group.assigned),
                    group.is_stable,
                    group.owned(clients.topic_names(service.sources, settings.topic_prefix)),
                    partitions,
                    lags[service.name],
                    decided.get(service.name),
                )
            )
    finally:
        await consumer.stop()
        await offsets.stop()
    leading = members[GATEWAY]
    states.append(
        ServiceState(GATEWAY, "", len(leading.assigned), leading.is_stable, min(1, leading.partitions), 1, None, None)
    )
    return states


class _Reading:
    """Reads positions and records for a survey."""

    def __init__(self, settings: Settings, consumer: AIOKafkaConsumer, offsets: Offsets, partitions: int) -> None:
        self._settings, self._consumer, self._offsets = settings, consumer, offsets
        self._partitions = partitions

    async def lags(self, services: Sequence[type[Service[Any]]]) -> dict[str, UndecidedRecords]:
        """Return the lag of each service."""
        return {service.name: await self._lag(service) for service in services}

    async def _lag(self, service: type[Service[Any]]) -> UndecidedRecords:
        tps = self._tps(service.sources)
        committed = await self._offsets.committed(f"{self._settings.topic_prefix}.{service.name}", tps)
        begins, ends = await self._bounds(tps)
        starts = {tp: max(committed.get(tp, 0), begins[tp]) for tp in tps}
        long = [tp for tp in tps if ends[tp] - starts[tp] > _COUNTED]
        records, since = sum(ends[tp] - starts[tp] for tp in long), list[int]()
        # Of a long lag only the age is read.
        firsts = {tp: starts[tp] + _COUNTED if tp in long else ends[tp] for tp in tps}
        async for tp, found in read_to(self._consumer, starts, firsts):
            if found:
                since.append(found[0].timestamp)
            if tp not in long:
                records += len(found)
        return UndecidedRecords(records, not long, _time(min(since)) if since else None)

    async def last_decisions(self, services: Sequence[type[Service[Any]]]) -> dict[str, datetime]:
        """Return when each service last wrote a decision. Services that never did are left out."""
        writers = {
            topic.name(self._settings.topic_prefix): service.name
            for service in services
            for topic in (*service.changelogs, *service.outputs)
            if topic not in _NO_DECISIONS
        }
        tps = [TopicPartition(name, number) for name in writers for number in range(self._partitions)]
        begins, ends = await self._bounds(tps)
        starts = {tp: max(begins[tp], ends[tp] - _TAIL) for tp in tps}
        last: dict[str, int] = {}
        async for tp, found in read_to(self._consumer, starts, ends):
            writer = writers[tp.topic]
            last[writer] = max([last.get(writer, 0), *(record.timestamp for record in found)])
        return {name: _time(stamp) for name, stamp in last.items() if stamp}

    def _tps(self, topics: Iterable[Topic]) -> list[TopicPartition]:
        names = clients.topic_names(list(topics), self._settings.topic_prefix)
        return [TopicPartition(name, number) for name in names for number in range(self._partitions)]

    async def _bounds(
        self, tps: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return the first offset of each partition, and the one below which no transaction is open."""
        begins: dict[TopicPartition, int] = await self._consumer.beginning_offsets(list(tps))
        ends: dict[TopicPartition, int] = await self._consumer.end_offsets(list(tps))
        return begins, ends


def _time(stamp: int) -> datetime:
    return datetime.fromtimestamp(stamp / 1000, UTC)
