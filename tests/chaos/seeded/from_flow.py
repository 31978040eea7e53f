"""A flow's topics as a history. Every record is readable at once, in the order in which it was written."""

from __future__ import annotations

from typing import Any

from tests.chaos.seeded.history import Acknowledged, Entry, History
from tests.support.worlds.flow import START, Flow

from moorage_schemas.topics import TOPICS


def history_of(flow: Flow, *, quiet: bool = True, settings: dict[str, object] | None = None) -> History:
    """What has happened in a flow so far.

    What no service wrote counts as acknowledged when it was written. A flow that has lost records (`compact`) cannot
    be told.

    Args:
        flow: it must keep all its records.
        quiet: whether all is done that was due.
        settings: those that its services were made with, where they differ from the defaults.
    """
    records = sorted((record for topic in TOPICS for record in flow.records(topic)), key=lambda record: record.seq)
    entries: list[Entry] = []
    acknowledged: list[Acknowledged] = []
    now = START.timestamp()
    for record in records:
        headers = {name: value.decode("utf-8", "replace") for name, value in record.headers}
        mine = headers.get("ce_source", "").startswith("moorage/") and headers["ce_source"] != "moorage/gateway"
        if mine:
            now = max(now, record.time.timestamp())
        entry = Entry(
            topic=record.topic.short,
            partition=record.partition,
            offset=record.offset,
            key=(record.key or b"").decode("utf-8", "replace"),
            value=record.value,
            headers=headers,
            appended=now if mine else max(now, _time(record, now)),
            committed=now if mine else max(now, _time(record, now)),
            order=record.seq,
        )
        now = max(now, entry.committed)
        entries.append(entry)
        if not mine:
            acknowledged.append(Acknowledged(entry.committed, entry.topic, entry.partition, entry.offset))
    return History(
        entries=entries,
        acknowledged=acknowledged,
        exact=True,
        began=START.timestamp(),
        ended=flow.now.timestamp(),
        quiet=quiet,
        partitions=flow.partitions,
        settings={"services": tuple(flow.services), **(settings or {})},
    )


def _time(record: Any, now: float) -> float:
    """When something from outside was written: a raw record may hold no time at all."""
    try:
        return float(record.time.timestamp())
    except (ValueError, OverflowError):
        return now
