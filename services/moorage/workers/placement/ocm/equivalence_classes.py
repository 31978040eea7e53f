"""Classes of placements with the same requirements. A cluster's change is evaluated once for each class.

A class contains the placements whose candidates are in the same sets and whose predicates, tolerations and prioritizers
are equal. When a cluster changes, each class that rests on the change checks once whether the cluster passes. Then only
the placements that the change can concern are decided again:

- A placement that has the cluster: if it may no longer keep it, or if another value on which it rests has changed (the
  end of a tolerated time, scores, the group).
- A placement that does not have it: if the cluster has become selectable, or if the scores have changed.
- A placement whose scores are relative to those of all selectable clusters: also if an unselected cluster becomes
  unselectable, or selectable only for a limited time.
- A placement for which the cluster has a score that ends: also if the cluster becomes unselectable.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

import numpy as np

from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.ocm.cluster_sets import ManagedSet
from moorage.decide.scheduling.ocm.columns.column import Column, Mask, Rows
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.taint_table import instant, microseconds
from moorage.decide.scheduling.ocm.columns.usage import Usage
from moorage.decide.scheduling.ocm.plugin import MisconfiguredError, PlacementRequest, Plugins
from moorage.decide.scheduling.ocm.scheduler import SetColumn, members
from moorage.decide.scheduling.ocm.terms import PlacementTerms
from moorage_schemas.envelope import Meta

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""A time at which no toleration has ended yet."""

_NO_ROWS: Final = np.zeros(0, dtype=np.intp)

ClassKey = tuple[frozenset[ManagedSet], Hashable]
"""The sets of the candidates, and everything else that determines whether a cluster passes and how it scores."""


class MemberPartition(Protocol):
    """A partition's state, as classes see it."""

    def notice(self, member: ClassMember, meta: Meta) -> None:
        """Note a change that can concern one of its placements."""


@dataclass(slots=True, eq=False)
class ClassMember:
    """The part of a placement that determines whether a change concerns it."""

    key: str
    namespace: str
    terms: PlacementTerms
    grouped: int
    """The aspects of a cluster that determine its group in the placement: the value of an `Aspect`."""

    partition: MemberPartition
    clusters: tuple[tuple[str, ...], ...] = ()
    """The selected clusters of each PlacementDecision, by name."""

    selected: int = 0
    wrong: bool = False
    """Whether its last decision was a refusal. Then the dependencies of the decision are unknown."""

    of: EquivalenceClass | None = None
    place: int = -1
    """Its place in the view's `Selections`; -1 when it has none."""

    @property
    def relative(self) -> bool:
        """Whether its scores are relative to those of all selectable clusters."""
        return self.chooses and self.of is not None and self.of.relative

    def ends(self, fleet: ManagedFleet, usage: Usage, rows: Rows, now: datetime) -> datetime | None:
        """Return when the first tolerated time for one of some clusters ends; None when no time is limited."""
        request = PlacementRequest(self.terms, rows, usage, usage_has_decided=True, now=now, now_us=microseconds(now))
        found = Plugins.discovered().requeue_at(request, fleet, rows)
        return None if found is None else instant(found)

    @property
    def chooses(self) -> bool:
        """Whether the selection depends on scores."""
        return bool(self.terms.number)


@dataclass(frozen=True, slots=True)
class ClusterJudgement:
    """The present result of a class for one cluster, for placements that do not have it.

    Tolerations that end count as if they had not ended yet, because no record reports their end.

    Attributes:
        candidate: whether it is available and in the sets.
        passes: whether it passes every filter.
        ends: whether it will stop passing by time alone.
        wrong: whether a filter could not be applied.
    """

    candidate: bool = False
    passes: bool = False
    ends: bool = False
    wrong: bool = False


class EquivalenceClass:
    """Placements whose candidates, filters and prioritizers are the same.

    Args:
        usage: the numbers of decisions on clusters; only passed on.
    """

    def __init__(
        self,
        key: ClassKey,
        terms: PlacementTerms,
        fleet: ManagedFleet,
        usage: Usage,
    ) -> None:
        self.key = key
        self.terms = terms
        self.members: dict[str, ClassMember] = {}
        self.plugins = Plugins.discovered()
        self.filter_columns = frozenset(column for one in self.plugins.filters for column in one.columns(terms))
        self._prioritizers = [one.prioritizer for one in self.plugins.chosen(terms)]
        self.score_columns = frozenset(column for one in self._prioritizers for column in one.columns(terms))
        self._sets = tuple(SetColumn(one) for one in key[0])
        self.relative = any(one.relative for one in self._prioritizers)
        self._timed = [one for one in self.plugins.filters if one.timed(terms)]
        self.scores_end = any(Basis.CLOCK in one.rests_on for one in self._prioritizers)
        """Whether time alone may change a score."""

        self._fleet = fleet
        self._usage = usage
        self._in = members(fleet, key[0])
        self._for_a_time: set[int] = set()
        """Rows of clusters that pass until a tolerated time ends, if it has not ended yet."""

        self._passes = self._pass_all()

    @property
    def columns(self) -> frozenset[Column]:
        """The columns that the class rests on."""
        return self.filter_columns | self.score_columns | frozenset(self._sets)

    def takes(self, row: int) -> bool:
        """Return whether a cluster passes for a placement that does not have it."""
        return row < self._passes.size and (bool(self._passes[row]) or row in self._for_a_time)

    def touched(self, row: int, columns: frozenset[Column], having: Mapping[str, ClassMember]) -> Iterator[ClassMember]:
        """Yield the placements that a change of a cluster can concern.

        Args:
            row: the cluster's row.
            columns: the columns whose values for it have changed.
            having: the placements of any class that have it.
        """
        if row >= self._passes.size:
            self._passes = _longer(self._passes, self._fleet.capacity)
            self._in = _longer(self._in, self._fleet.capacity)
        was_in, passed, for_a_time = bool(self._in[row]), bool(self._passes[row]), row in self._for_a_time
        after = self._see(row)
        self._in[row], self._passes[row] = after.candidate, after.passes and not after.ends
        (self._for_a_time.add if after.passes and after.ends else self._for_a_time.discard)(row)
        filtered = was_in != after.candidate or not self.filter_columns.isdisjoint(columns)
        scored = not self.score_columns.isdisjoint(columns)
        mine = having.values() if len(having) < len(self.members) else self.members.values()
        for member in mine:
            if member.of is self and member.key in having and (filtered or (scored and member.chooses)):
                yield member
        others = after.passes and not passed
        lost = (passed or for_a_time) and not after.passes
        limited = passed and after.passes and after.ends  # no record will report when it stops passing
        choosers = (
            (after.passes and scored) or (lost and self._score_ends(row)) or (self.relative and (lost or limited))
        )
        # Placements without clusters report whether there are any candidates.
        turned = was_in != after.candidate and np.count_nonzero(self._in) == int(after.candidate)
        if others or choosers or turned or after.wrong or self.wrong:
            for member in self.members.values():
                if member.key in having:
                    continue
                concerned = (others and member.terms.number != 0) or (choosers and member.chooses)
                if concerned or after.wrong or member.wrong or (turned and not member.selected):
                    yield member

    def _score_ends(self, row: int) -> bool:
        """Return whether placements may have to be decided again when a score of a cluster ends."""
        return any(one.score_ends(self._fleet, row) for one in self._prioritizers)

    @property
    def wrong(self) -> bool:
        """Whether some of its placements may have been refused."""
        return bool(self.plugins.problems(self.terms))

    def _pass_all(self) -> Mask:
        """Return the clusters that pass permanently. Others pass for a time, and no record reports when they stop."""
        request = _request(self.terms, self._usage, _NO_ROWS)
        mask = self._in.copy()
        try:
            for one in self.plugins.filters:
                if mask.any():
                    mask = one.apply(request, self._fleet, mask)
        except MisconfiguredError:
            return np.zeros_like(self._in)
        mask = mask.copy()
        if self._timed:
            self._for_a_time = {row for row in np.flatnonzero(mask).tolist() if self._ends(request, row)}
            mask[list(self._for_a_time)] = False
        return mask

    def _see(self, row: int) -> ClusterJudgement:
        """Return the result for a cluster. Placements that have it may differ, but those are decided again anyway."""
        fleet = self._fleet
        if not fleet.available[row] or not any(fleet.column(one)[row] for one in self._sets):
            return ClusterJudgement()
        request = _request(self.terms, self._usage, _NO_ROWS)
        shown = np.zeros(fleet.capacity, dtype=np.bool_)
        shown[row] = True
        try:
            for one in self.plugins.filters:
                shown = one.apply(request, fleet, shown)
                if not shown[row]:
                    return ClusterJudgement(candidate=True)
        except MisconfiguredError:
            return ClusterJudgement(candidate=True, wrong=True)
        return ClusterJudgement(candidate=True, passes=True, ends=self._ends(request, row))

    def _ends(self, request: PlacementRequest, row: int) -> bool:
        return any(one.until(request, self._fleet, row) is not None for one in self._timed)


@dataclass(slots=True)
class ClassIndex:
    """All classes, and those that rest on each column."""

    classes: dict[ClassKey, EquivalenceClass] = field(default_factory=dict)
    _on: dict[Column, dict[ClassKey, None]] = field(default_factory=dict)

    def add(self, one: EquivalenceClass) -> None:
        """Add a new class."""
        self.classes[one.key] = one
        for column in one.columns:
            self._on.setdefault(column, {})[one.key] = None

    def remove(self, one: EquivalenceClass) -> None:
        """Remove a class that no longer has placements."""
        del self.classes[one.key]
        for column in one.columns:
            resting = self._on[column]
            del resting[one.key]
            if not resting:
                del self._on[column]

    def resting_on(self, columns: frozenset[Column]) -> list[EquivalenceClass]:
        """Return the classes that rest on any of the columns."""
        found: dict[ClassKey, None] = {}
        for column in columns:
            found.update(self._on.get(column, {}))
        return [self.classes[key] for key in found]


def _request(terms: PlacementTerms, usage: Usage, decided: Rows) -> PlacementRequest:
    return PlacementRequest(terms, decided, usage, usage_has_decided=False, now=_EPOCH, now_us=0)


def _longer(mask: Mask, size: int) -> Mask:
    longer = np.zeros(size, dtype=np.bool_)
    longer[: mask.size] = mask
    return longer
