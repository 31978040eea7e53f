"""Exports of fleets that run in memory, and fleets in memory that are restored from them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from tests.support.worlds.flow import Flow
from tests.support.worlds.world import World, flow_of

from moorage.cli.backup.file_check import CheckedFile, check
from moorage.cli.backup.fleet_file import Begin, End, FileReader
from moorage.cli.backup.restore_plan import PlacedRecord, RestorePlan
from moorage.cli.backup.saved_record import SavedRecord, document_of, parsed, record_of
from moorage.cli.backup.saved_topics import SAVED, PartOfTopic, PositionTable
from moorage.insight.copy.snapshot import Kept, Snapshot
from moorage.runtime.service import Input, Service
from moorage.runtime.wire import codec
from moorage_schemas.times import format_time
from moorage_schemas.topics import Topic

W = TypeVar("W", bound=World)


def export(flow: Flow, file: Path) -> Path:
    """Write what `moorage export --state` writes of a flow at its present time."""
    positions: PositionTable = {name: {} for name in flow.services}
    for (name, short, partition), offset in flow.committed.items():
        positions.setdefault(name, {}).setdefault(short, {})[partition] = offset
    begin = Begin(format_time(flow.now), "test", "moorage", flow.partitions, quiet=True, secrets=True)
    counts: dict[str, int] = {}
    with file.open("wb") as out:
        out.write(begin.document())
        for topic in SAVED:
            for partition in range(flow.partitions):
                part = PartOfTopic(topic, partition, positions)
                part.take(flow.topics.partition(topic, partition))
                for record in part.records():
                    counts[topic.short] = counts.get(topic.short, 0) + 1
                    out.write(document_of(record))
        out.write(End(counts, positions).document())
    return file


def read(file: Path) -> tuple[CheckedFile, list[SavedRecord]]:
    """A file that is valid, and its records."""
    checked, records = check(FileReader(file)), []
    for _, lines in FileReader(file):
        found, data = parsed(lines)
        if "kind" not in found:
            records.append(record_of(found, data, checked.begin.partitions))
    return checked, records


def restore(file: Path, services: Sequence[Service[Any]], *, partitions: int, flow: Flow) -> Flow:
    """A flow that begins with what the file has, when another one ended."""
    checked, records = read(file)
    plan = RestorePlan(checked.end.positions, before=checked.begin.partitions, now=partitions)
    placed = [found for record in records if (found := plan.take(record)) is not None]
    placed += plan.rest()
    kept: list[Kept] = []
    ends: dict[tuple[Topic, int], int] = {}
    for one in placed:
        place = one.record.topic, one.partition
        ends[place] = ends.get(place, -1) + 1
        kept.append(_kept(one, ends[place]))
    positions = {
        (name, topic.short, partition): count
        for name, places in plan.positions().items()
        for (topic, partition), count in places.items()
    }
    restored = flow_of(services, partitions=partitions, start=flow.now)
    restored.restore(Snapshot.of(kept, partitions=partitions, positions=positions, taken=flow.now))
    return restored


def twin(world: W, flow: Flow) -> W:
    """A world with the same objects, on another flow."""
    found = copy.copy(world)
    for name, value in vars(world).items():
        if name not in {"flow", "settings", "_declared", "objects"}:
            setattr(found, name, copy.deepcopy(value))
    found.flow = flow
    found._declared = copy.deepcopy(world._declared)
    found.objects = found._declared.objects
    return found


def _kept(placed: PlacedRecord, offset: int) -> Kept:
    record = placed.record._replace(partition=placed.partition, offset=offset)
    found = codec.decode(record.topic, record)
    assert isinstance(found, Input), found
    return Kept.of(found, datetime.fromtimestamp(record.timestamp / 1000, UTC))
