"""The two ways to compute an explanation, on topics in memory.

One uses a copy that is made for the request, the other uses tables that have followed the topics.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from tests.support.worlds.flow import Flow, Record

from moorage.insight.copy.snapshot import Kept, Snapshot
from moorage.insight.explain.answer import answer
from moorage.insight.explain.chain import EventRecord
from moorage.insight.explain.document import document_of
from moorage.insight.explain.explanation import Summary
from moorage.insight.explain.grounds import TOPICS, SnapshotGrounds
from moorage.insight.explain.history import Places, Window, complete
from moorage.insight.explain.question import Question
from moorage.insight.query import chain_index
from moorage.insight.query.chain_index import ChainIndex, rounds_of
from moorage.insight.query.query_tables import ChainsNow, QueryTables
from moorage.runtime.service import Input
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import CONDITION_REPORTS, Topic


def kept(record: Record) -> Kept:
    """A record in the form that a copy has."""
    found = record.decode()
    assert isinstance(found, Input)
    assert record.timestamp is not None
    return Kept.of(found, datetime.fromtimestamp(record.timestamp / 1000, UTC))


def belongs(record: Record, wanted: frozenset[bytes]) -> bool:
    """Whether a record belongs to one of the chains."""
    return not wanted.isdisjoint({record.meta.id.encode(), record.meta.correlation.encode()})


class Scanned:
    """Older records that are searched everywhere."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    async def of_chains(self, places: Places, wanted: frozenset[bytes]) -> list[EventRecord]:
        return [
            kept(record)
            for topic, partitions in places.items()
            for partition in partitions
            for record in self._flow.topics.partition(topic, partition)
            if belongs(record, wanted)
        ]

    async def of_key(self, topic: Topic, partition: int, key: str) -> list[EventRecord]:
        return [kept(record) for record in self._flow.topics.partition(topic, partition) if record.name == key]

    async def reports(self, windows: Iterable[Window], wanted: frozenset[bytes]) -> list[EventRecord]:
        found: list[EventRecord] = []
        for window in windows:
            records = map(kept, self._flow.topics.partition(CONDITION_REPORTS, window.partition))
            inside = [one for one in records if window.since <= one.timestamp <= window.until]
            found += [one for one in inside if one.meta.correlation.encode() in wanted]
        return found


class Indexed(Scanned):
    """Older records at the places in an index. Reports are searched in the usual way."""

    def __init__(self, flow: Flow, index: ChainIndex) -> None:
        super().__init__(flow)
        self._index = index
        self.read = 0

    async def of_key(self, topic: Topic, partition: int, key: str) -> list[EventRecord]:
        offsets = set(self._index.find_key(topic, partition, key))
        there = [one for one in self._flow.topics.partition(topic, partition) if one.offset in offsets]
        self.read += len(there)
        return [kept(record) for record in there if record.name == key]

    async def of_chains(self, places: Places, wanted: frozenset[bytes]) -> list[EventRecord]:
        found: list[EventRecord] = []
        for spans in rounds_of(self._index.find(places, wanted), 1):
            for (topic, partition), span in spans.items():
                there = [one for one in self._flow.topics.partition(topic, partition) if one.offset in span]
                self.read += len(there)
                found += [kept(record) for record in there if belongs(record, wanted)]
        return found


class Following:
    """Tables that follow a flow."""

    def __init__(self, flow: Flow, settings: Settings) -> None:
        self.flow, self.settings = flow, settings
        self.tables = QueryTables(settings)
        self.index = ChainIndex(self.tables, 0)
        self.older = Indexed(flow, self.index)
        self._seen: dict[str, int] = {}

    def follow(self) -> None:
        """Read new records."""
        for topics, fold in ((TOPICS, self.tables.fold), (chain_index.TOPICS, self.index.fold)):
            fresh = [(topic, record) for topic in topics for record in self._fresh(topic, fold.__qualname__)]
            for topic, record in sorted(fresh, key=lambda one: one[1].seq):
                fold(topic, record)

    def read(self) -> QueryTables:
        """The tables with all records in them."""
        return self.tables.as_of(self.flow.now)

    def _fresh(self, topic: Topic, reader: str) -> list[Record]:
        place = f"{reader} {topic.short}"
        records = self.flow.topics.topic(topic.short, self._seen.get(place, 0))
        if records:
            self._seen[place] = records[-1].seq + 1
        return records

    async def explained(self, asked: Question) -> str:
        """The explanation from the tables, as the command prints it."""
        told = answer(self.tables.as_of(self.flow.now), asked)
        if not isinstance(told, Summary):
            steps = [step.record for chain in told.chains for step in chain.steps if step.record is not None]
            present = ChainsNow(self.tables, {record.meta.correlation for record in steps})
            await complete(told, present, self.older, self.flow.partitions)
        return json.dumps(document_of(told), indent=2)

    async def from_topics(self, asked: Question) -> str:
        """The explanation from a copy, as the command prints it."""
        grounds = SnapshotGrounds(copy_of(self.flow), self.settings)
        told = answer(grounds, asked)
        if not isinstance(told, Summary):
            await complete(told, grounds.records, Scanned(self.flow), self.flow.partitions)
        return json.dumps(document_of(told), indent=2)


def copy_of(flow: Flow) -> Snapshot:
    """The records that a reader of the topics keeps: the last one of each key."""
    last: dict[tuple[str, int, str], Kept] = {}
    for topic in TOPICS:
        for record in flow.records(topic):
            last[topic.short, record.partition, record.name] = kept(record)
    return Snapshot.of(last.values(), partitions=flow.partitions, taken=flow.now)
