"""TaintToleration: untolerated taints rule a cluster out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from moorage.decide.kubernetes.quantities import NANOSECONDS, wrapped
from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Mask, Rows, Values
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.taint_table import FOREVER, NEVER, NOT_ADDED, instant, microseconds
from moorage.decide.scheduling.ocm.judged_taints import judge_taints
from moorage.decide.scheduling.ocm.plugin import ManagedFilter, PlacementRequest
from moorage.decide.scheduling.ocm.terms import PlacementTerms
from moorage.decide.taints.dialects.ocm import NO_SELECT_IF_NEW, PREFER_NO_SELECT
from moorage.decide.taints.eviction_verdict import taint_text
from moorage.decide.taints.matching import tolerates
from moorage_schemas.taint import Taint, Toleration, TolerationOperator

_FEW: Final = 16
"""Up to this many clusters are computed one by one."""

_LONGEST: Final = 2**62
"""Durations in microseconds whose sum with an instant may not fit into 64 bits."""

Spans = tuple[int | None, ...]
"""The duration of each toleration that matches a taint, in microseconds. None means forever."""


def spans(taint: Taint, tolerations: tuple[Toleration, ...], *, as_upstream: bool) -> Spans:
    """Return the durations of the tolerations that match a taint, in their order."""
    found: list[int | None] = []
    for toleration in tolerations:
        if toleration.key and toleration.key != taint.key:
            continue  # the usual reason, checked first because each distinct taint is matched with each toleration
        if not tolerates(toleration, taint, comparison=not as_upstream, strict=not as_upstream):
            continue
        seconds = toleration.toleration_seconds
        if seconds is None or (taint.effect == NO_SELECT_IF_NEW and not as_upstream):
            found.append(None)
        else:
            # As upstream, a duration that does not fit into 64 bits of nanoseconds wraps around.
            found.append(wrapped(seconds * NANOSECONDS) // 1000 if as_upstream else seconds * 1_000_000)
    return tuple(found)


def ends(taint: Taint, lasting: Spans) -> list[int]:
    """Return when each of the durations ends, in microseconds since 1970.

    A taint without `timeAdded` counts as added long ago, so every limited duration has ended.
    """
    if not lasting or all(span is None for span in lasting):
        return [FOREVER] * len(lasting)
    added = None if taint.time_added is None else microseconds(taint.time_added)
    return [
        FOREVER if span is None else NEVER if added is None else max(NEVER, min(FOREVER - 1, added + span))
        for span in lasting
    ]


@dataclass(frozen=True, slots=True)
class TaintColumn(Column):
    """Until when a cluster passes if it is new, until when if it is already selected, and whether a limit applies."""

    tolerations: tuple[Toleration, ...]
    as_upstream: bool

    aspects: ClassVar[Aspect] = Aspect.TAINTS | Aspect.LIFE

    @override
    def empty(self, capacity: int) -> Values:
        values = np.full((3, capacity), FOREVER, dtype=np.int64)
        values[2] = 0
        return values

    @override
    def answer(self, fleet: ColumnSource, row: int) -> tuple[int, int, int]:
        return self._answer(fleet, row, {})

    @override
    def blank(self, fleet: ColumnSource) -> bool:
        # every taint of the fleet is tolerated forever
        table = fleet.taint_table
        return not table.crowded and next(self._limiting(table.kinds), None) is None

    @override
    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        # each distinct taint is matched once, and the result is looked up for all rows
        table = fleet.taint_table
        known: dict[tuple[str, str, str], Spans] = {}
        if rows.size <= _FEW:
            one_by_one = rows.tolist()
        else:
            judged = _JudgedKinds(len(table.kinds), self._limiting(table.kinds))
            for codes, added in zip(table.codes, table.added, strict=True):
                judged.narrow(values, rows, codes[rows], added[rows])
            one_by_one = [row for row in rows.tolist() if row in table.crowded] if table.crowded else []
            if judged.exact.any():
                one_by_one += rows[judged.exact[table.codes[:, rows]].any(axis=0)].tolist()
        for row in one_by_one:
            values[:, row] = self._answer(fleet, row, known)

    def _limiting(self, kinds: Sequence[Taint | None]) -> Iterator[tuple[int, Taint, Spans]]:
        """Return the distinct taints that rule clusters out now or later, with codes and tolerated durations."""
        for code, taint in enumerate(kinds):
            if taint is None or taint.effect == PREFER_NO_SELECT:
                continue
            lasting = spans(taint, self.tolerations, as_upstream=self.as_upstream)
            if not lasting or lasting.count(None) < len(lasting):
                yield code, taint, lasting

    def _answer(self, fleet: ColumnSource, row: int, known: dict[tuple[str, str, str], Spans]) -> tuple[int, int, int]:
        new = kept = FOREVER
        limited = 0
        for taint in fleet.at(row).taints:
            if taint.effect == PREFER_NO_SELECT:
                continue
            kind = (taint.key, taint.value, taint.effect)
            if kind not in known:
                known[kind] = spans(taint, self.tolerations, as_upstream=self.as_upstream)
            times = ends(taint, known[kind])
            end = max(times, default=NEVER)
            new = min(new, end)
            if taint.effect != NO_SELECT_IF_NEW:
                kept = min(kept, end)
            limited |= any(time != FOREVER for time in times)
        return new, kept, limited


class _JudgedKinds:
    """The result of matching each distinct taint of a fleet, as lookup tables over the taints' codes.

    Args:
        kinds: the number of codes.
        limiting: the distinct taints that rule clusters out, or will do so: code, example, and tolerated durations.
    """

    def __init__(self, kinds: int, limiting: Iterable[tuple[int, Taint, Spans]]) -> None:
        self.exact = np.zeros(kinds, dtype=np.bool_)
        """The taints for which 64 bits are too few. Clusters that have one are computed one by one."""

        ends = np.full(kinds, FOREVER, dtype=np.int64)
        self._spans = np.zeros(kinds, dtype=np.int64)
        self._timed = np.zeros(kinds, dtype=np.bool_)
        self._keeps = np.zeros(kinds, dtype=np.bool_)
        self._limited = np.zeros(kinds, dtype=np.int64)
        for code, taint, lasting in limiting:
            limits = [span for span in lasting if span is not None]
            self._keeps[code] = taint.effect != NO_SELECT_IF_NEW
            self._limited[code] = bool(limits)
            if not lasting:
                ends[code] = NEVER
            elif len(limits) == len(lasting):
                longest = max(limits)
                self.exact[code] = abs(longest) >= _LONGEST
                self._timed[code] = True
                self._spans[code] = 0 if self.exact[code] else longest
        self._ends = ends

    def narrow(self, values: Values, rows: Rows, codes: NDArray[np.int32], added: NDArray[np.int64]) -> None:
        """Apply one taint of each row to the values of a `TaintColumn`.

        Args:
            values: the values of all rows.
            rows: the rows to compute.
            codes: the code of the taint of each of these rows.
            added: when these taints were added.
        """
        ends = self._ends[codes]
        timed = self._timed[codes]
        if timed.any():
            known = added != NOT_ADDED
            until = np.where(known, added, 0) + self._spans[codes]
            ends = np.where(timed, np.where(known, until, NEVER), ends)
        values[0, rows] = np.minimum(values[0, rows], ends)
        values[1, rows] = np.minimum(values[1, rows], np.where(self._keeps[codes], ends, FOREVER))
        values[2, rows] |= self._limited[codes]


@lru_cache(maxsize=4096)
def _problem(tolerations: tuple[Toleration, ...]) -> str:
    for toleration in tolerations:
        exists = toleration.operator == TolerationOperator.EXISTS
        if not toleration.key and not exists:
            return "If the key is empty, operator must be Exists."
        if exists and toleration.value:
            return "If the operator is Exists, the value should be empty."
    return ""


class TaintToleration(ManagedFilter):
    """Rules out clusters with a taint that the placement does not tolerate, or no longer tolerates.

    `PreferNoSelect` rules nothing out. `NoSelectIfNew` rules nothing out that the placement has selected already.
    """

    name = "TaintToleration"
    order: ClassVar[int] = 2
    rests_on = Basis.CLOCK | Basis.DECIDED
    summary: ClassVar[str] = "cluster(s) had untolerated taint(s)"

    @override
    def problem(self, terms: PlacementTerms) -> str:
        return _problem(terms.tolerations)

    @override
    def timed(self, terms: PlacementTerms) -> bool:
        return terms.limited

    @override
    def idle(self, terms: PlacementTerms, fleet: ManagedFleet) -> bool:
        # every taint of the fleet is certainly tolerated forever
        return fleet.is_blank(TaintColumn(terms.tolerations, terms.as_upstream))

    @override
    def passed(self, request: PlacementRequest, fleet: ManagedFleet, shown: Mask) -> Mask:
        values = self._values(request.terms, fleet)
        passed: Mask = shown & (values[0] > request.now_us)
        decided = request.decided
        if decided.size:
            passed[decided] = shown[decided] & (values[1][decided] > request.now_us)
        return passed

    @override
    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        return (TaintColumn(terms.tolerations, terms.as_upstream),)

    @override
    def validity(self, request: PlacementRequest, fleet: ManagedFleet) -> tuple[int | None, int | None]:
        values = self._values(request.terms, fleet)[:2]
        past = values[(values <= request.now_us) & (values != NEVER)]
        to_come = values[(values > request.now_us) & (values != FOREVER)]
        return (int(past.max()) if past.size else None, int(to_come.min()) if to_come.size else None)

    @override
    def differs_if_decided(self, terms: PlacementTerms, fleet: ManagedFleet) -> Mask | None:
        # the clusters with a `NoSelectIfNew` taint that no toleration tolerates forever
        values = self._values(terms, fleet)
        differ: Mask = values[0] != values[1]
        return differ if differ.any() else None

    @override
    def reason(self, request: PlacementRequest, fleet: ManagedFleet, row: int) -> str:
        terms = request.terms
        decided = bool(np.any(request.decided == row))
        for taint in fleet.at(row).taints:
            if taint.effect == PREFER_NO_SELECT or (taint.effect == NO_SELECT_IF_NEW and decided):
                continue
            times = ends(taint, spans(taint, terms.tolerations, as_upstream=terms.as_upstream))
            if not any(time > request.now_us for time in times):
                over = ", tolerated no longer" if times else ""
                return f"cluster(s) had untolerated taint {{{taint_text(taint)}}}{over}"
        return ""

    @override
    def until(self, request: PlacementRequest, fleet: ManagedFleet, row: int) -> datetime | None:
        decided = bool(np.any(request.decided == row))
        end = int(self._values(request.terms, fleet)[1 if decided else 0][row])
        return None if end in {FOREVER, NEVER} or end <= request.now_us else instant(end)

    @override
    def requeue_at(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> int | None:
        terms = request.terms
        values = self._values(terms, fleet)
        there = rows[fleet.present[rows]]
        found: int | None = None
        for row in there[values[2][there] != 0].tolist():
            if values[1][row] <= request.now_us:
                continue
            for taint in fleet.at(row).taints:
                if taint.effect in {PREFER_NO_SELECT, NO_SELECT_IF_NEW}:
                    continue
                times = ends(taint, spans(taint, terms.tolerations, as_upstream=terms.as_upstream))
                first = next((time for time in times if time > request.now_us), FOREVER)
                if first != FOREVER and (found is None or first < found):
                    found = first
        return found

    @override
    def details(self, request: PlacementRequest, fleet: ManagedFleet, target: str) -> Iterable[str]:
        return [str(one) for one in judge_taints(request, fleet, target) if one.keeps_away]

    def _values(self, terms: PlacementTerms, fleet: ManagedFleet) -> Values:
        return fleet.column(TaintColumn(terms.tolerations, terms.as_upstream))


PLUGIN = TaintToleration()
