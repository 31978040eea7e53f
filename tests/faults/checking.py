"""The plainest promises of a round, judged from its history."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.seeded.history import Entry, History

SLACK = 2.0
"""Seconds between what a record says and what the broker's clock says of it."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that must not be."""

    invariant: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.where}: {self.message}"


def check(history: History) -> list[Violation]:
    """Whatever a round has broken of the plainest promises; empty when nothing."""
    return [*_ids_are_unique(history), *_evicted_once_and_in_time(history), *_needed(history)]


def _where(entry: Entry) -> str:
    return f"{entry.topic}/{entry.partition}@{entry.offset} {entry.key}"


def _data(entry: Entry) -> dict[str, Any]:
    found = json.loads(entry.value) if entry.value is not None else {}
    return found if isinstance(found, dict) else {}


def _of(history: History, topic: str) -> Iterator[Entry]:
    return (entry for entry in history.entries if entry.topic == topic)


def _ids_are_unique(history: History) -> Iterator[Violation]:
    seen: dict[tuple[str, str], Entry] = {}
    for entry in history.entries:
        identity = entry.headers.get("ce_id", "")
        own = entry.headers.get("ce_source", "").startswith("moorage/")
        if not identity or not own or entry.value is None:
            continue
        first = seen.setdefault((entry.topic, identity), entry)
        if first is not entry:
            yield Violation("ids_are_unique", _where(entry), f"has the id of {_where(first)}")


def _evicted_once_and_in_time(history: History) -> Iterator[Violation]:
    tasks: dict[str, list[Entry]] = defaultdict(list)
    for entry in _of(history, "evictions"):
        tasks[entry.key].append(entry)
    for entries in tasks.values():
        requested = [one for one in entries if _data(one).get("state") == "Requested"]
        for one in requested[1:]:
            yield Violation("evicted_once", _where(one), "is Requested a second time")
        scheduled = [one for one in entries if _data(one).get("state") == "Scheduled"]
        for one in requested[:1]:
            before = [other for other in scheduled if other.offset < one.offset]
            deadline = _data(before[-1]).get("deadline") if before else None
            if deadline is None or _data(one).get("taints") != _data(before[-1]).get("taints"):
                continue
            early = datetime.fromisoformat(deadline).timestamp() - history.skew - one.appended
            if early > 0:
                yield Violation("never_early", _where(one), f"{early:.3f} s before its deadline")


def _needed(history: History) -> Iterator[Violation]:
    """Who is Requested had a taint that evicts on his target within a moment of that."""
    taints: dict[str, list[Entry]] = defaultdict(list)
    for entry in _of(history, "taints"):
        taints[entry.key].append(entry)
    for entry in _of(history, "evictions"):
        if _data(entry).get("state") != "Requested":
            continue
        known = taints.get(entry.key.split("|")[1], [])
        before = [one for one in known if one.committed <= entry.appended - SLACK - history.skew]
        states = [*before[-1:], *(one for one in known if one not in before and one.appended <= entry.appended + SLACK)]
        if not any(one["effect"] == "NoExecute" for state in states for one in _data(state).get("taints") or ()):
            yield Violation("nobody_evicted_needlessly", _where(entry), "no taint on its target evicts")
