"""Finds the best of the clusters that passed every filter: by total from high to low, then by name."""

from __future__ import annotations

from typing import Final

import numpy as np

from moorage.decide.scheduling.ocm.columns.column import Rows, Scores
from moorage.decide.scheduling.ocm.columns.usage import GrowthSpan
from moorage.decide.scheduling.ocm.plugin import CountedScores

_ROOM: Final = 2**62

_AHEAD: Final = 6
"""How many times the requested number of clusters is found at once when the best are looked for among all. As long as
enough of these remain good enough, the next placements with the same terms choose among them."""

_LISTED: Final = 12
"""The same for a shortlist, which is used without looking at all clusters again."""

NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)


class BestClusters:
    """The order of the feasible clusters, for all placements that share the scores in `total`.

    Args:
        ranks: their positions in the order of all names.
        total: the weighted sums of the scores that placements share.
        names: the number of names that have positions.
        reach: the greatest amount by which all other scores together can change a total.
        weight: the weight of counted scores, above 0 where there are any.
    """

    __slots__ = (
        "_bound",
        "_keys",
        "_near",
        "_near_bound",
        "_near_keys",
        "_ranks",
        "_rows",
        "_span",
        "_step",
        "_table",
        "_total",
        "_weight",
    )

    def __init__(self, rows: Rows, ranks: Scores, total: Scores, *, names: int, reach: int, weight: int = 0) -> None:
        self._rows, self._ranks, self._total = rows, ranks, total
        self._step = self._keys = _NO_STEP
        self._bound = _LOWEST
        self._weight = weight
        self._span: GrowthSpan | None = None
        step = names + 1
        largest = max(total.item(total.argmax()), -total.item(total.argmin())) if total.size else 0
        if (largest + reach + 1) * step < _ROOM:
            # Sorting by `rank - step * total` sorts by total and then by name. An array without dimensions, because
            # numpy converts a plain number in each operation.
            self._step = np.array(step)
            self._keys = ranks - self._step * total

    def by_scores(self, scores: Scores | None, number: int | None) -> Rows:
        """Return the best clusters, best first.

        Args:
            scores: the weighted sums of the scores that are not in `total`, in the order of the rows. None for none.
            number: how many clusters to find. None means all.
        """
        rows = self._rows
        wanted = rows.size if number is None else number
        if wanted < 0:
            raise ValueError(f"numberOfClusters: Invalid value: {wanted}: must be greater than or equal to 0")
        if self._step is _NO_STEP:
            total = self._total if scores is None else self._total + scores
            return rows[np.lexsort((self._ranks, -total))[:wanted]]
        keys = self._keys if scores is None else self._keys - self._step * scores
        if wanted >= keys.size:
            return rows[np.argsort(keys)]
        if not wanted:
            return NO_ROWS
        near = self._nearest(keys, wanted, _AHEAD)
        return rows[near[keys[near].argsort()[:wanted]]]

    def takes_counted(self, number: int | None) -> bool:
        """Return whether `by_counted` can find this number of clusters."""
        return number is not None and 0 < number < self._rows.size and self._step is not _NO_STEP

    def by_counted(self, counted: CountedScores, number: int) -> Rows:
        """Return the best clusters, best first, with the scores of one prioritizer that counts.

        Within a span, scores only fall. So a cluster that was behind the shortlist stays behind its bound. The best are
        found in the shortlist alone, as long as enough clusters in it are still ahead of the bound.

        Args:
            counted: the scores that are not in `total`.
            number: how many clusters to find. `takes_counted` must be true for it.
        """
        if self._span is not counted.span:
            return self._anew(counted, number)
        keys = self._near_keys - self._table.take(counted.counts.take(self._near))
        order = keys.argsort()
        if order.size < number or keys.item(order.item(number - 1)) > self._near_bound:
            return self._anew(counted, number)
        return self._near[order[:number]]

    def _anew(self, counted: CountedScores, number: int) -> Rows:
        """Find the best among all clusters, and make a shortlist for the next placements."""
        table = counted.table * (self._step * self._weight)
        keys = self._keys - table.take(counted.counts.take(self._rows))
        near = self._nearest(keys, number, _LISTED)
        self._span, self._table = counted.span, table
        self._near, self._near_keys, self._near_bound = self._rows[near], self._keys[near], self._bound.item()
        return self._near[keys[near].argsort()[:number]]

    def _nearest(self, keys: Scores, number: int, ahead: int) -> Rows:
        """Return the positions of the clusters whose keys are lowest: at least the number, and up to 36 times as many.

        The bound below which they lie is kept. It is only a hint for the next time: the result is right with any value.
        """
        near: Rows = (keys <= self._bound).nonzero()[0]
        if not number <= near.size <= _AHEAD * _AHEAD * number:
            last = min(keys.size, ahead * number) - 1
            self._bound = np.array(np.partition(keys, last)[last])
            near = (keys <= self._bound).nonzero()[0]
        return near


_NO_STEP: Final[Scores] = np.zeros(0, dtype=np.int64)
_LOWEST: Final[Scores] = np.array(-(2**63), dtype=np.int64)
