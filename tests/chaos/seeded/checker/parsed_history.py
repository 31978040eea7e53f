"""A history as JSON values, CloudEvents headers, and tables as they were at a time. It judges nothing."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from tests.chaos.seeded.checker.violations import Allowances
from tests.chaos.seeded.history import Entry, History

Json = Mapping[str, Any]

EPSILON = 2e-6
"""Seconds: times are floating-point numbers of seconds since the epoch, good for a microsecond."""

_PART: Final = re.compile(r"([0-9.]+)(ms|s|m|h|d)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}

_WORKED = 0.25
"""Seconds; a broker that hangs twice may have worked for a moment in between."""


@lru_cache(maxsize=1 << 16)
def instant(text: str) -> float:
    """An RFC 3339 time in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def when(data: Json, field: str) -> float | None:
    """A time in a record; None when it is not there."""
    text = data.get(field)
    return instant(text) if isinstance(text, str) else None


def name_of(ref: Json) -> str:
    """The key of a workload (`Kind/namespace/name`) or a target (`Kind/name`)."""
    parts = [ref["kind"], ref["name"]]
    if "namespace" in ref:
        parts.insert(1, ref["namespace"])
    return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Seen:
    """One record, read."""

    entry: Entry
    data: Json
    """Empty for a tombstone, and for what is no JSON object."""

    id: str
    source: str
    decided: float
    """The clock of the process that wrote it, when it did; the time of the record when it does not say."""

    @property
    def key(self) -> str:
        """The record's key."""
        return self.entry.key

    @property
    def gone(self) -> bool:
        """Whether it is a tombstone."""
        return self.entry.value is None

    @property
    def order(self) -> int:
        """Its place among all."""
        return self.entry.order

    @property
    def where(self) -> str:
        """Its place, for people."""
        return f"{self.entry.topic}/{self.entry.partition}@{self.entry.offset} {self.entry.key}"

    def positions(self) -> dict[str, int] | None:
        """The next offset of each source, on which this decision rests; None when it does not say.

        `topic=offset,topic=offset`, or the same as a JSON object.
        """
        text = self.entry.headers.get("moorage-sources")
        if text is None:
            return None
        if text.startswith("{"):
            return {name: int(offset) for name, offset in json.loads(text).items()}
        return {name: int(offset) for name, offset in (part.split("=") for part in text.split(",") if part)}


def read(entry: Entry) -> Seen:
    """Read a record; in CloudEvents' structured mode the attributes are in the value, beside the data."""
    data: Json = {}
    attributes: Json = {name.removeprefix("ce_"): value for name, value in entry.headers.items()}
    if entry.value is not None:
        try:
            found = json.loads(entry.value)
        except ValueError:
            found = {}
        data = found if isinstance(found, dict) else {}
        if "specversion" in data and "data" in data:
            attributes, data = data, data["data"] if isinstance(data["data"], dict) else {}
    try:
        decided = instant(str(attributes["time"]))
    except (KeyError, ValueError):
        decided = entry.appended
    return Seen(entry, data, str(attributes.get("id", "")), str(attributes.get("source", "")), decided)


def retentions(run: Run) -> list[float]:
    """The seconds for which an eviction that is over is kept: all values that this had, one after the other."""
    return run.settings("eviction_retention", 86_400.0)


def _number(value: object) -> float:
    """A number, or a duration in seconds, as it stands in a configuration."""
    parts = _PART.findall(str(value))
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else float(str(value))


class Run:
    """A history with its records read and sorted.

    Args:
        history: what happened.
        allowances: what is allowed for.
    """

    def __init__(self, history: History, allowances: Allowances) -> None:
        self.history = history
        self.allowances = allowances
        slack = allowances.slack if allowances.slack is not None else (0.05 if history.exact else 2.0)
        self.slack = slack
        self.skew = history.skew
        self.eviction_skew = history.skew if history.eviction_skew is None else history.eviction_skew
        self._topics: dict[str, list[Seen]] = defaultdict(list)
        found: dict[str, dict[str, list[Seen]]] = defaultdict(lambda: defaultdict(list))
        self._committed: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.places: dict[tuple[str, int, int], Seen] = {}
        for entry in history.entries:
            seen = read(entry)
            self._topics[entry.topic].append(seen)
            found[entry.topic][entry.key].append(seen)
            self.places[entry.topic, entry.partition, entry.offset] = seen
        self._keys = {topic: dict(sorted(keys.items())) for topic, keys in found.items()}
        for topic, keys in self._keys.items():
            for key, records in keys.items():
                # What became readable later than its follower counts from when both were.
                self._committed[topic, key] = list(accumulate((seen.entry.committed for seen in records), max))
        self._appended: list[float] = []
        self._parts: dict[tuple[str, int], tuple[list[Seen], list[int]]] = {}
        self._latest: dict[tuple[str, int, float], list[Seen]] = {}
        self.told = {(one.topic, one.partition, one.offset): one.time for one in history.acknowledged}

    # Settings.

    def setting(self, name: str, default: float) -> float:
        """A setting that is a number, as it was at the end; `inf` may be written as text."""
        return self.settings(name, default)[-1]

    def settings(self, name: str, default: float) -> list[float]:
        """All values that a setting had, one after the other: the one that the services began with, and each change."""
        value = self.history.settings.get(name, default)
        began = float(value) if isinstance(value, (int, float, str)) else default
        return [began, *map(_number, self._changes(name))]

    def failover(self, decision: Seen | None = None) -> bool:
        """Whether the feature gate Failover was on for a decision, or at the end."""
        gates = str(self.history.settings.get("feature_gates", "")).replace(" ", "")
        began = {"Failover": "Failover=true" in gates}
        return [began, *self._changes("feature_gates", decision)][-1]["Failover"] is True

    def clusters_evict(self, decision: Seen | None = None) -> bool:
        """Whether NoExecute taints evicted from Karmada clusters for a decision, or at the end."""
        name = "enable_no_execute_taint_eviction"
        began = self.history.settings.get(name) in {True, "true", "True"}
        return self.failover(decision) and [began, *self._changes(name, decision)][-1] is True

    def _changes(self, name: str, decision: Seen | None = None) -> list[Any]:
        """The values that configurations gave to a setting: up to that by which something was decided, or all of them.

        A decision names the generation of its configuration.
        """
        until = math.inf if decision is None else int(decision.entry.headers.get("ce_configuration", 0))
        first, *others = name.split("_")
        field = first + "".join(map(str.capitalize, others))
        return [seen.data["spec"][field] for seen in self.of("configuration") if seen.data["generation"] <= until]

    def runs(self, service: str) -> bool:
        """Whether a service took part; `services` among the settings names those that did, else all did."""
        services = self.history.settings.get("services")
        return not isinstance(services, (list, tuple, set, frozenset)) or service in services

    # Records.

    def of(self, topic: str) -> Sequence[Seen]:
        """The records of a topic, in the order in which they became readable."""
        return self._topics.get(topic, ())

    def keys(self, topic: str) -> Iterator[tuple[str, Sequence[Seen]]]:
        """The records of each key of a topic."""
        yield from self._keys.get(topic, {}).items()

    def records(self, topic: str, key: str) -> Sequence[Seen]:
        """The records of a key."""
        return self._keys.get(topic, {}).get(key, ())

    def table(self, topic: str) -> dict[str, Seen]:
        """The last record of each key that is not deleted."""
        return {key: records[-1] for key, records in self.keys(topic) if not records[-1].gone}

    def readable(self, topic: str, key: str, time: float) -> int:
        """How many records of a key could be read at a true time."""
        return bisect_right(self._committed.get((topic, key), ()), time)

    def of_services(self, sources: Collection[str]) -> Iterator[Seen]:
        """The records of some services, topic by topic."""
        for topic in sorted(self._topics):
            yield from (seen for seen in self._topics[topic] if seen.source in sources)

    def latest(self, topic: str, partition: int, time: float, decision: Seen) -> Seen | None:
        """The last record of a partition that could be read at a true time and still counted when that was decided.

        What is deleted or was written anew since may have been compacted away.
        """
        place = (topic, partition, time)
        if place not in self._latest:
            last: dict[str, Seen] = {}
            for seen in self.of(topic):
                if seen.entry.partition == partition and seen.entry.committed <= time:
                    last[seen.key] = seen
            left = [seen for seen in last.values() if not seen.gone]
            self._latest[place] = sorted(left, key=lambda seen: -seen.entry.offset)
        for seen in self._latest[place]:
            records = self.records(topic, seen.key)
            after = records.index(seen) + 1
            if after == len(records) or records[after].order > decision.order:
                return seen
        return None

    def wrote(self, begin: float, end: float) -> bool:
        """Whether the broker took anything between two true times, and not just for a moment.

        Of a broker that hangs twice, one moment after another, it does not count that it took something in between.
        """
        if not self._appended:
            self._appended.extend(sorted(entry.appended for entry in self.history.entries))
        taken = self._appended[bisect_right(self._appended, begin) : bisect_right(self._appended, end)]
        return bool(taken) and taken[-1] - taken[0] >= _WORKED

    def unread(self, topic: str, partition: int, position: int) -> Sequence[Seen]:
        """The records of a partition from an offset on."""
        records, offsets = self._parted(topic, partition)
        return records[bisect_left(offsets, position) :]

    def last_read(self, topic: str, partition: int, position: int) -> Seen | None:
        """The last record of a partition below an offset; None without any."""
        records, offsets = self._parted(topic, partition)
        place = bisect_left(offsets, position)
        return records[place - 1] if place else None

    def _parted(self, topic: str, partition: int) -> tuple[list[Seen], list[int]]:
        if (topic, partition) not in self._parts:
            found = sorted(
                (one for one in self.of(topic) if one.entry.partition == partition), key=lambda one: one.entry.offset
            )
            self._parts[topic, partition] = (found, [one.entry.offset for one in found])
        return self._parts[topic, partition]

    # Decisions.

    def before(self, decision: Seen, *, within: float = 0.0) -> float:
        """The true time up to which whoever decided must have known everything.

        The process's clock may be ahead by the skew. `within`: the seconds after which he must know it, where he does
        not wait for it (`Allowances`).
        """
        return decision.decided - self.skew - max(self.slack, within)

    def at_most(self, topic: str, key: str, decision: Seen) -> int:
        """How many records of a key whoever decided can have known: those readable before his own record was."""
        return sum(1 for one in self.records(topic, key) if self.precedes(one, decision))

    def precedes(self, one: Seen, decision: Seen) -> bool:
        """Whether a record may have been known when another one was decided on; by timestamps it is not sure.

        Services of a chain write in one transaction, whose records become readable in any order of their partitions.
        """
        if self.history.exact:
            return one.order < decision.order or self._rests_on(decision, one)
        return one is not decision and one.entry.appended <= decision.entry.appended + self.slack

    @staticmethod
    def _rests_on(decision: Seen, one: Seen) -> bool:
        """Whether a decision names a position after a record of the same partition."""
        positions = decision.positions() or {}
        entry = one.entry
        return entry.partition == decision.entry.partition and entry.offset < positions.get(entry.topic, 0)

    def states(self, topic: str, key: str, decision: Seen, *, within: float = 0.0) -> list[Seen | None]:
        """The last record of a key as whoever decided may rightly have seen it, at each time when he may have looked.

        None stands for a key without record. A decision that names its positions is held to them, unless they are
        older than what he must have known.
        """
        records = self.records(topic, key)
        least = self.readable(topic, key, self.before(decision, within=within))
        most = max(least, self.at_most(topic, key, decision))
        positions = None if within else decision.positions()
        if positions is not None and topic in positions and self.history.exact:
            known = sum(1 for one in records if one.entry.offset < positions[topic])
            least = most = max(least, known)
        return [records[count - 1] if count else None for count in range(least, most + 1)]


def is_request(seen: Seen) -> bool:
    """Whether a record of an eviction is the decision that the work must go.

    What a deployer says of it later is written to the same eviction, and decides nothing.
    """
    return (
        seen.data.get("state") == "Requested" and not seen.data.get("escalated") and not seen.data.get("acknowledged")
    )


def waits_for_its_deployer(task: Seen) -> bool:
    """Whether a requested eviction is not carried out before its deployer has acknowledged that."""
    waits = task.data.get("deployer") and not task.data.get("acknowledged")
    return bool(waits) and task.data.get("state") == "Requested"
