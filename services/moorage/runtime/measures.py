"""The numbers of the fleet that services show to Prometheus.

A service keeps them in the state of each partition. A process shows the sum over the partitions that it owns, and
Prometheus adds up the processes. No label has values that grow with the fleet, such as the names of targets or
workloads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import add
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct

from moorage.decide.timers.deadline_index import DeadlineIndex

OTHER: Final = "other"
"""The value of a label that stands for all values beyond its limit."""

K = TypeVar("K", bound=Any)
"""The type of the keys of what is counted. The keys of one tally must be comparable."""


@dataclass(frozen=True, slots=True, eq=False)
class FleetGauge:
    """A metric of the fleet. Its values come from the states of partitions when Prometheus scrapes them."""

    name: str
    documentation: str
    labels: tuple[str, ...] = ()
    merged: Callable[[float, float], float] = add
    """Returns the value for two partitions, or for two values of a label beyond its limit."""

    limits: Mapping[str, int] = field(default_factory=dict)
    """The largest number of values of a label, by its name. Further values become `other`."""


class Measure(NamedTuple):
    """One value of a metric of the fleet."""

    gauge: FleetGauge
    labels: tuple[str, ...]
    value: float


class Contribution(Struct, frozen=True, gc=False):
    """A series to which something contributes."""

    gauge: FleetGauge
    labels: tuple[str, ...]
    time: datetime | None = None
    """The series shows the earliest of these times. None if it shows a number."""


Series = tuple[FleetGauge, tuple[str, ...]]


class SeriesTally(Generic[K]):
    """Counts what contributes to each series, brought up to date when Prometheus scrapes.

    A change costs one entry in a set, so that the way of an event is not slower, and several changes between two
    scrapes count once. The state is the only source: `settle` reads it, and a restored state counts like any other.
    """

    def __init__(self) -> None:
        self._changed: set[K] = set()
        self._known: dict[K, tuple[Contribution, ...]] = {}
        self._counts: dict[Series, int] = {}
        self._times: dict[Series, DeadlineIndex[K]] = {}

    def touch(self, key: K) -> None:
        """Note that something has changed, appeared or ended."""
        self._changed.add(key)

    def end(self, key: K) -> None:
        """Note that something has ended, so that it contributes to nothing. A key that was never counted is dropped."""
        if key in self._known:
            self._changed.add(key)
        else:
            self._changed.discard(key)

    def settle(self, counted: Callable[[K], Iterable[Contribution]], limit: int) -> bool:
        """Count a portion of what has changed. Return whether nothing is left.

        Args:
            counted: returns the series to which something contributes now; none if it no longer exists.
            limit: the number of keys to count.
        """
        changed = self._changed
        while changed and limit > 0:
            limit -= 1
            self._set(key := changed.pop(), tuple(counted(key)))
        return not changed

    def _set(self, key: K, now: tuple[Contribution, ...]) -> None:
        before = self._known.pop(key, ())
        if now:
            self._known[key] = now
        if before == now:
            return
        for one in before:
            series = (one.gauge, one.labels)
            if one.time is None:
                self._add(series, -1)
            else:
                index = self._times[series]
                index.remove(key)
                if not len(index):
                    del self._times[series]
        for one in now:
            series = (one.gauge, one.labels)
            if one.time is None:
                self._add(series, 1)
            elif (times := self._times.get(series)) is not None:
                times.set(key, one.time)
            else:
                self._times[series] = DeadlineIndex()
                self._times[series].set(key, one.time)

    def _add(self, series: Series, change: int) -> None:
        count = self._counts.get(series, 0) + change
        if count:
            self._counts[series] = count
        else:
            del self._counts[series]

    def measures(self) -> Iterator[Measure]:
        """Yield the values of all series to which anything contributes."""
        for (gauge, labels), count in self._counts.items():
            yield Measure(gauge, labels, count)
        for (gauge, labels), index in self._times.items():
            if (first := index.next()) is not None:
                yield Measure(gauge, labels, first.timestamp())


class LabelLimits:
    """Replaces the values of a label beyond a limit by `other`. A value that was shown stays until it ends."""

    def __init__(self) -> None:
        self._shown: dict[Hashable, set[str]] = {}

    def shown(self, label: Hashable, present: set[str], limit: int) -> set[str]:
        """Return the values of a label to show.

        Args:
            label: the metric and the label.
            present: all present values.
            limit: the largest number of values to show.
        """
        kept = self._shown.get(label, set()) & present
        kept.update(sorted(present - kept)[: max(0, limit - len(kept))])
        self._shown[label] = kept
        return kept


def merged(measures: Iterable[Measure], limits: LabelLimits) -> dict[FleetGauge, dict[tuple[str, ...], float]]:
    """Return the values by metric and labels, those of several partitions merged."""
    found: dict[FleetGauge, dict[tuple[str, ...], float]] = {}
    for gauge, labels, value in measures:
        _merge(found.setdefault(gauge, {}), gauge, labels, value)
    return {gauge: _limited(gauge, values, limits) for gauge, values in found.items()}


def _limited(
    gauge: FleetGauge, values: dict[tuple[str, ...], float], limits: LabelLimits
) -> dict[tuple[str, ...], float]:
    """Return the values with `other` for those of labels beyond their limits."""
    for name, limit in gauge.limits.items():
        place, before = gauge.labels.index(name), values
        shown = limits.shown((gauge.name, name), {labels[place] for labels in before}, limit)
        values = {}
        for labels, value in before.items():
            known = labels if labels[place] in shown else (*labels[:place], OTHER, *labels[place + 1 :])
            _merge(values, gauge, known, value)
    return values


def _merge(values: dict[tuple[str, ...], float], gauge: FleetGauge, labels: tuple[str, ...], value: float) -> None:
    values[labels] = gauge.merged(values[labels], value) if labels in values else value
