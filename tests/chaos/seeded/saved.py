"""Histories as text: one JSON document with a line for each record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.chaos.seeded.history import Acknowledged, Entry, History


def dumps(history: History, story: str = "") -> str:
    """A history as JSON; `story` says what happens in it. What replicas held at the end (`views`) is left out."""
    head = {
        "story": story,
        "exact": history.exact,
        "began": history.began,
        "ended": history.ended,
        "quiet": history.quiet,
        "partitions": history.partitions,
        "skew": history.skew,
        "evictionSkew": history.eviction_skew,
        "settings": dict(history.settings),
        "acknowledged": [[one.time, one.topic, one.partition, one.offset] for one in history.acknowledged],
    }
    lines = [json.dumps(_record(entry)) for entry in history.entries]
    return json.dumps({**head, "entries": []}, default=list)[:-2] + "\n" + ",\n".join(lines) + "\n]}\n"


def _record(entry: Entry) -> list[Any]:
    value = None if entry.value is None else entry.value.decode("utf-8", "surrogateescape")
    place = [entry.topic, entry.partition, entry.offset, entry.key]
    return [*place, value, dict(entry.headers), entry.appended, entry.committed, entry.order]


def loads(text: str) -> History:
    """What `dumps` has written."""
    found = json.loads(text)
    entries = [
        Entry(
            topic,
            partition,
            offset,
            key,
            None if value is None else value.encode("utf-8", "surrogateescape"),
            headers,
            appended,
            committed,
            order,
        )
        for topic, partition, offset, key, value, headers, appended, committed, order in found["entries"]
    ]
    return History(
        entries=entries,
        acknowledged=[Acknowledged(*one) for one in found["acknowledged"]],
        exact=found["exact"],
        began=found["began"],
        ended=found["ended"],
        quiet=found["quiet"],
        partitions=found["partitions"],
        skew=found["skew"],
        eviction_skew=found.get("evictionSkew"),
        settings=found["settings"],
    )


def load(path: Path) -> History:
    """A history from a file."""
    return loads(path.read_text(encoding="utf-8"))
