"""Edits a history: a record is changed, removed or added, as if a service had written it so."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tests.chaos.seeded.history import Acknowledged, Entry, History

Json = dict[str, Any]
Test = Callable[[Entry, Json], bool]


def value_of(entry: Entry) -> Json:
    """A record's JSON; empty for a tombstone."""
    found: Json = json.loads(entry.value) if entry.value is not None else {}
    return found


def text(time: float) -> str:
    """A time as RFC 3339."""
    return datetime.fromtimestamp(round(time, 6), UTC).isoformat().replace("+00:00", "Z")


def instant(time: str) -> float:
    """A time of RFC 3339."""
    return datetime.fromisoformat(time).timestamp()


def where(topic: str, key: str = "", **fields: object) -> Test:
    """Records of a topic whose key contains a text and whose value has these fields."""

    def test(entry: Entry, value: Json) -> bool:
        return entry.topic == topic and key in entry.key and all(value.get(name) == one for name, one in fields.items())

    return test


def find(history: History, test: Test, number: int = 0) -> Entry:
    """The record that is meant: the first, or another by its number among those that fit (-1 is the last).

    Raises:
        LookupError: there is no such record.
    """
    return [entry for entry in history.entries if test(entry, value_of(entry))][number]


def changed(
    history: History, entry: Entry, value: Json | None = None, *, earlier: float = 0.0, sources: str = ""
) -> History:
    """With other fields in a record's value, with positions, or earlier in time by some seconds, not in order."""
    given = dict(entry.headers) | ({"moorage-sources": sources} if sources else {})
    if earlier and "ce_time" in given:
        given["ce_time"] = text(instant(given["ce_time"]) - earlier)
    other = replace(
        entry,
        value=entry.value if value is None else json.dumps(value_of(entry) | value).encode(),
        headers=given,
        appended=entry.appended - earlier,
        committed=entry.committed - earlier,
    )
    return replace(history, entries=[other if one is entry else one for one in history.entries])


def without(history: History, *tests: Test) -> History:
    """With none of the records that fit."""
    left = [entry for entry in history.entries if not any(test(entry, value_of(entry)) for test in tests)]
    return replace(history, entries=left)


def put(
    history: History,
    topic: str,
    key: str,
    value: Mapping[str, Any] | None,
    *,
    before: Entry | None = None,
    at: float | None = None,
    source: str = "moorage/test",
    partition: int = 0,
    acknowledged: bool = False,
    cause: str = "",
) -> History:
    """With one more record: right before another one and at its time, or at the end."""
    time = at if at is not None else (before.committed if before is not None else history.ended)
    entries = [replace(entry, order=2 * entry.order) for entry in history.entries]
    order = 2 * before.order - 1 if before is not None else max((one.order for one in entries), default=0) + 1
    taken = [entry.offset for entry in entries if (entry.topic, entry.partition) == (topic, partition)]
    entry = Entry(
        topic=topic,
        partition=partition,
        offset=max(taken, default=-1) + 1,
        key=key,
        value=None if value is None else json.dumps(value).encode(),
        headers={"ce_source": source, "ce_time": text(time), "ce_id": f"planted-{order}", "ce_causationid": cause},
        appended=time,
        committed=time,
        order=order,
    )
    told = [*history.acknowledged]
    if acknowledged:
        told.append(Acknowledged(time, topic, partition, entry.offset))
    return replace(history, entries=sorted([*entries, entry], key=lambda one: one.order), acknowledged=told)


def nothing(**given: Any) -> History:
    """A history without records: a minute long, exact and quiet unless something else is said."""
    fields: dict[str, Any] = {
        "entries": [],
        "acknowledged": [],
        "exact": True,
        "began": 1_000_000.0,
        "ended": 1_000_060.0,
        "quiet": True,
        "partitions": 1,
    }
    return History(**(fields | given))
