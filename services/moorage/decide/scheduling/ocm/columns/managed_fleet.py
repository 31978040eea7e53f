"""The managed clusters of a fleet, as columns.

The row of a deleted cluster is kept, because decisions may still contain its name. `forget` releases such rows for
reuse. Columns are cached, and a change of a cluster updates its row in them.

Some data is kept from the first cluster on, so that the first placement need not visit all clusters: their taints as
arrays, the order of their names, the scores of add-ons, and the columns that a scheduler holds.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts, ScoreFacts
from moorage.decide.scheduling.ocm.columns.column import (
    ALL_ASPECTS,
    NOTHING,
    Aspect,
    Column,
    Mask,
    Rows,
    ScoreColumn,
    Scores,
    Values,
)
from moorage.decide.scheduling.ocm.columns.taint_table import TaintTable

_FIRST: Final = 64
_FEW: Final = 32
"""Up to this many added or removed clusters are inserted into the sort order one by one. For more, it is sorted
again."""

_ORDERED: Final = 4096
"""Up to this many clusters, each new one is inserted into the sort order at once. An insertion into a longer order
takes longer than its share of one sort."""

_CODES: Final = 4096
"""The number of texts that may have codes in any case."""

_OPENED: Final = 16
"""The number of different scores of add-ons whose columns are kept before a placement uses them."""

_UNHELD: Final = 512
"""The number of unused columns that stay cached."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The effect of a change of one cluster.

    Attributes:
        aspects: the aspects that have changed. Empty if nothing has changed.
        columns: the columns whose value for the cluster has changed. Includes all lazy columns that depend on the
            change.
        before: whether a placement could choose the cluster before: it existed and was not being deleted.
        after: whether a placement can choose the cluster now.
    """

    cluster: str
    row: int
    aspects: Aspect = NOTHING
    columns: frozenset[Column] = frozenset()
    before: bool = False
    after: bool = False

    def __bool__(self) -> bool:
        """Return whether anything has changed."""
        return bool(self.aspects)


class _Kept:
    """The values of a column, the aspects on which they depend, and how many times it is held."""

    __slots__ = ("_blank", "_column", "_values", "aspects", "holders", "is_blank")

    def __init__(self, column: Column) -> None:
        self._column = column
        self._values: Values | None = None
        self._blank: list[Any] = []
        self.aspects = column.aspects.value
        self.holders = 0
        self.is_blank = True
        """Whether every row has the value for rows without a cluster. False if that is uncertain."""

    def values(self, capacity: int) -> Values:
        """Return the values. They are stored from the first request on."""
        if self._values is None:
            self._values = self._column.empty(capacity)
        return self._values

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        if self._values is not None:
            longer = self._column.empty(capacity)
            longer[..., : self._values.shape[-1]] = self._values
            self._values = longer

    @property
    def blank(self) -> list[Any]:
        """The value for rows without a cluster, one for each part."""
        if not self._blank:
            self._blank = self._column.empty(1)[..., 0].reshape(-1).tolist()
        return self._blank


@dataclass(slots=True)
class _Order:
    """The sort order of the names of the present clusters."""

    names: list[str]
    by_row: Scores
    """The position of each row. Undefined for rows without a cluster."""


class ManagedFleet:
    """Managed clusters, their add-on scores, and columns over them."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        """Rows without a name."""

        self._facts: list[ManagedClusterFacts | None] = []
        self._scores: dict[str, dict[str, ScoreFacts]] = {}
        self.capacity = _FIRST
        """The length of masks and columns. When it grows, masks that were made before become invalid."""

        self._live = np.zeros(_FIRST, dtype=np.bool_)
        self._present = np.zeros(_FIRST, dtype=np.bool_)
        self._count = 0
        self._columns: dict[Column, _Kept] = {}
        self._order: _Order | None = None
        self._unordered: list[str] = []
        """Names that were added or removed since the order was computed."""

        self._codes: dict[str, int] = {}
        self._taints = TaintTable(_FIRST)
        self._given: dict[tuple[str, str], int] = {}
        """The number of clusters that have each score of an add-on."""

        self.version = 0
        """Increases with every change of a cluster or a score."""

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: object) -> bool:
        row = self._rows.get(name) if isinstance(name, str) else None
        return row is not None and self._facts[row] is not None

    @property
    def names(self) -> list[str]:
        """The names of all clusters, sorted."""
        return list(self._ordered().names)

    @property
    def available(self) -> Mask:
        """The clusters that a placement may choose: those that exist and are not being deleted."""
        return self._live

    @property
    def present(self) -> Mask:
        """The clusters that exist."""
        return self._present

    @property
    def taint_table(self) -> TaintTable:
        """The taints of all clusters as arrays."""
        return self._taints

    # --- one cluster

    def row(self, name: str) -> int:
        """Return the row of a name. A name without a row gets one."""
        row = self._rows.get(name)
        if row is None and self._free:
            row = self._rows[name] = self._free.pop()
            self._names[row] = name
        elif row is None:
            row = self._rows[name] = len(self._names)
            self._names.append(name)
            self._facts.append(None)
            if row >= self.capacity:
                self._grow(2 * self.capacity)
        return row

    def rows_for(self, names: Collection[str]) -> list[int]:
        """Return the rows of names. Names without a row get one."""
        known = self._rows
        try:
            return [known[name] for name in names]
        except KeyError:
            return [self.row(name) for name in names]

    @property
    def left_behind(self) -> int:
        """The number of names that have a row but no cluster."""
        return len(self._rows) - self._count

    def forget(self, kept: Mask) -> None:
        """Release the rows of names without a cluster. No caller may hold one of these rows.

        Args:
            kept: the rows to keep, because they still stand for their names somewhere.
        """
        self._ordered()  # apply pending names to the order while they still have a row
        for row in np.flatnonzero(~(self._present | kept)[: len(self._names)]).tolist():
            if self._rows.get(self._names[row]) == row:
                del self._rows[self._names[row]]
                self._names[row] = ""
                self._free.append(row)
        self.version += 1

    def name(self, row: int) -> str:
        """Return the name of a row."""
        return self._names[row]

    def at(self, row: int) -> ManagedClusterFacts:
        """Return the facts about the cluster in a row. Raises LookupError if the row has no cluster."""
        found = self._facts[row]
        if found is None:
            raise LookupError(f"{self._names[row]} is not a cluster of the fleet")
        return found

    def put(self, facts: ManagedClusterFacts) -> Touched:
        """Add or replace a cluster."""
        row = self.row(facts.name)
        before = self._facts[row]
        aspects = ALL_ASPECTS if before is None else _differences(before, facts)
        was = bool(self._live[row])
        self._facts[row] = facts
        if not aspects:
            return Touched(facts.name, row, before=was, after=was)
        self._count += before is None
        self._live[row] = not facts.deleting
        self._present[row] = True
        if before is None or Aspect.TAINTS in aspects:
            self._taints.put(row, facts.taints)
        if before is None:
            self._unordered.append(facts.name)
            if self._count <= _ORDERED:
                self._ordered()
        return self._changed(facts.name, row, aspects, was=was, before=before)

    def remove(self, name: str) -> Touched:
        """Remove a cluster."""
        row = self.row(name)
        was = bool(self._live[row])
        if self._facts[row] is None:
            return Touched(name, row)
        self._facts[row] = None
        self._count -= 1
        self._live[row] = self._present[row] = False
        self._taints.put(row, ())
        self._unordered.append(name)
        return self._changed(name, row, ALL_ASPECTS, was=was)

    # --- scores

    def score(self, cluster: str, resource: str) -> ScoreFacts | None:
        """Return the scores that an `AddOnPlacementScore` gives to a cluster. None if there is no such object."""
        return self._scores.get(cluster, {}).get(resource)

    def put_score(self, score: ScoreFacts) -> Touched:
        """Add or replace the scores of an add-on. The cluster may be added later."""
        row = self.row(score.cluster)
        was = bool(self._live[row])
        of_cluster = self._scores.setdefault(score.cluster, {})
        if of_cluster.get(score.resource) == score:
            return Touched(score.cluster, row, before=was, after=was)
        if (before := of_cluster.get(score.resource)) is not None:
            self._give_no_more(before)
        of_cluster[score.resource] = score
        touched = self._changed(score.cluster, row, Aspect.SCORES, was=was)
        self._give(score, row)
        return touched

    def remove_score(self, cluster: str, resource: str) -> Touched:
        """Remove the scores of an add-on."""
        row = self.row(cluster)
        was = bool(self._live[row])
        of_cluster = self._scores.get(cluster, {})
        removed = of_cluster.pop(resource, None)
        if removed is None:
            return Touched(cluster, row, before=was, after=was)
        self._give_no_more(removed)
        if not of_cluster:
            del self._scores[cluster]
        return self._changed(cluster, row, Aspect.SCORES, was=was)

    def _give(self, score: ScoreFacts, row: int) -> None:
        """Count the scores of a cluster. A score that no other cluster has gets a column."""
        for name in score.scores:
            column = ScoreColumn(score.resource, name)
            uses = self._given[column.resource, name] = self._given.get((column.resource, name), 0) + 1
            if uses == 1 and column not in self._columns and len(self._given) <= _OPENED:
                kept = self._columns[column] = _Kept(column)
                if self._present[row]:
                    self._rewrite(kept, row, column.of(score))
                self._shed()

    def _give_no_more(self, score: ScoreFacts) -> None:
        """Undo `_give`. The column of a score that no cluster has left is dropped, unless it is held."""
        for name in score.scores:
            key = (score.resource, name)
            self._given[key] -= 1
            if not self._given[key]:
                del self._given[key]
                column = ScoreColumn(*key)
                if column in self._columns and not self._columns[column].holders:
                    del self._columns[column]

    # --- many clusters

    def mask(self, names: Collection[str]) -> Mask:
        """Return the rows of those names that are clusters of the fleet."""
        found = [row for name in names if (row := self._rows.get(name)) is not None and self._facts[row] is not None]
        mask = np.zeros(self.capacity, dtype=np.bool_)
        mask[found] = True
        return mask

    def names_of(self, mask: Mask) -> list[str]:
        """Return the names of the clusters in a mask, sorted."""
        return sorted(self._names[row] for row in np.flatnonzero(mask))

    def names_at(self, rows: Rows) -> tuple[str, ...]:
        """Return the names of rows, in their order."""
        names = self._names
        return tuple([names[row] for row in rows.tolist()])

    def rows_of(self, names: Iterable[str]) -> Rows:
        """Return the rows of the fleet's names. Other names are left out."""
        return np.array([row for name in names if (row := self._rows.get(name)) is not None], dtype=np.intp)

    def ranks(self, rows: Rows) -> Scores:
        """Return the positions of rows in the order of all cluster names. All rows must have a cluster."""
        ranks: Scores = self._ordered().by_row.take(rows)
        return ranks

    def _ordered(self) -> _Order:
        order = self._order
        if order is None or len(self._unordered) > _FEW:
            names = sorted(name for name, row in self._rows.items() if self._present[row])
            by_row = np.zeros(self.capacity, dtype=np.int64)
            by_row[self.rows_of(names)] = np.arange(len(names), dtype=np.int64)
            order = self._order = _Order(names, by_row)
        elif self._unordered:
            if order.by_row.size < self.capacity:
                order.by_row = np.concatenate([order.by_row, np.zeros(self.capacity - order.by_row.size, np.int64)])
            for name in self._unordered:
                self._reorder(order, name)
        self._unordered.clear()
        return order

    def _reorder(self, order: _Order, name: str) -> None:
        """Insert a name into the order or remove it, depending on whether its cluster exists."""
        row = self._rows[name]
        place = bisect.bisect_left(order.names, name)
        known = place < len(order.names) and order.names[place] == name
        if known == bool(self._present[row]):
            return
        if known:
            del order.names[place]
            order.by_row[order.by_row > place] -= 1
        else:
            order.names.insert(place, name)
            order.by_row[order.by_row >= place] += 1
            order.by_row[row] = place

    def code(self, text: str) -> int:
        """Return an integer for a text, 0 or more. It is stable until a cluster changes."""
        return self._codes.setdefault(text, len(self._codes))

    # --- columns

    def column(self, column: Column) -> Values:
        """Return the values of a column. They are computed on first use."""
        return self._column(column).values(self.capacity)

    def is_blank(self, column: Column) -> bool:
        """Return whether every cluster certainly has the value of rows without a cluster (`Column.empty`)."""
        return self._column(column).is_blank

    def _column(self, column: Column) -> _Kept:
        kept = self._columns.get(column)
        if kept is None:
            kept = self._columns[column] = _Kept(column)
            kept.is_blank = not column.lazy and column.blank(self)
            if not column.lazy and not kept.is_blank:
                column.fill(self, kept.values(self.capacity), self._there())
            self._shed()
        return kept

    def hold(self, columns: Iterable[Column]) -> None:
        """Keep columns cached, so that `Touched` reports them, until `release` is called as many times."""
        for column in columns:
            self.column(column)
            self._columns[column].holders += 1

    def release(self, columns: Iterable[Column]) -> None:
        """Undo one `hold`."""
        for column in columns:
            kept = self._columns.get(column)
            if kept is not None and kept.holders:
                kept.holders -= 1

    def _there(self) -> Rows:
        return self._present.nonzero()[0]

    def _shed(self) -> None:
        """Drop the oldest unused columns, if there are too many."""
        if len(self._columns) <= _UNHELD:
            return
        loose = [column for column, kept in self._columns.items() if not kept.holders]
        for column in loose[: max(0, len(loose) - _UNHELD)]:
            del self._columns[column]

    def _changed(
        self, name: str, row: int, aspects: Aspect, *, was: bool, before: ManagedClusterFacts | None = None
    ) -> Touched:
        """Update the columns that depend on the change. `before` has the previous facts of a cluster that stays."""
        self.version += 1
        self._forget_codes()
        after = self._facts[row]
        touched = set()
        bits = aspects.value
        for column, kept in self._columns.items():
            if not kept.aspects & bits or (before is not None and after is not None and column.same(before, after)):
                continue
            if column.lazy:
                kept.values(self.capacity)[row] = kept.blank[0]
                touched.add(column)
            elif self._rewrite(kept, row, kept.blank if after is None else column.answer(self, row)):
                touched.add(column)
        return Touched(name, row, aspects, frozenset(touched), was, bool(self._live[row]))

    def _rewrite(self, kept: _Kept, row: int, answer: Any) -> bool:
        """Write a value. Returns whether it differs from the old one. NaN equals NaN here."""
        if kept.is_blank and isinstance(answer, list | tuple) and list(answer) == kept.blank:
            return False
        values = kept.values(self.capacity)
        if values.ndim == 1:
            new = answer[0] if isinstance(answer, list) else answer
            old = values.item(row)
            if old == new or (old != old and new != new):  # noqa: PLR0124 - only values that are not a number differ so
                return False
            values[row] = new
        else:
            if values[:, row].tolist() == list(answer):
                return False
            values[:, row] = answer
        kept.is_blank = False
        return True

    def _forget_codes(self) -> None:
        """Drop the codes of all texts, and the columns of codes, when most texts are those of earlier clusters."""
        if len(self._codes) > max(_CODES, 4 * self._count):
            self._codes.clear()
            for column in [column for column in self._columns if column.coded]:
                del self._columns[column]

    def _grow(self, capacity: int) -> None:
        more = np.zeros(capacity - self.capacity, dtype=np.bool_)
        self._live = np.concatenate([self._live, more])
        self._present = np.concatenate([self._present, more])
        for kept in self._columns.values():
            kept.grow(capacity)
        self._taints.grow(capacity)
        self.capacity = capacity


def _differences(before: ManagedClusterFacts, after: ManagedClusterFacts) -> Aspect:
    aspects = NOTHING
    if before.labels != after.labels:
        aspects |= Aspect.LABELS
    if before.claims != after.claims:
        aspects |= Aspect.CLAIMS
    if before.taints != after.taints:
        aspects |= Aspect.TAINTS
    if before.allocatable != after.allocatable or before.capacity != after.capacity:
        aspects |= Aspect.AMOUNTS
    if before.document != after.document:
        aspects |= Aspect.DOCUMENT
    if before.deleting != after.deleting:
        aspects |= Aspect.LIFE
    return aspects


__all__ = ["Aspect", "Column", "ManagedFleet", "Mask", "Rows", "Scores", "Touched"]
