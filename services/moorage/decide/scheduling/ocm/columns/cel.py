"""A column with the results of a CEL expression for each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from moorage.decide.kubernetes.cel import Evaluation, Expression
from moorage.decide.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Rows, Values

_SEEN: Final = Aspect.DOCUMENT | Aspect.SCORES | Aspect.LABELS | Aspect.TAINTS | Aspect.LIFE
"""What an expression sees of a cluster."""

UNKNOWN, FALSE, TRUE = 0, 1, 2
"""The values of a `CelColumn`. `UNKNOWN` means that the expression has not been evaluated yet."""


def scores_of(fleet: ColumnSource) -> Evaluation:
    """What expressions are evaluated in, with the scores of a fleet."""

    def scores(cluster: str, resource: str) -> Mapping[str, int] | None:
        found = fleet.score(cluster, resource)
        return None if found is None else found.scores

    return Evaluation(scores)


@dataclass(frozen=True, slots=True)
class CelCostColumn(Column):
    """The highest possible cost of an expression. 0 means that it is not known yet."""

    expression: Expression

    aspects: ClassVar[Aspect] = _SEEN
    lazy: ClassVar[bool] = True

    def empty(self, capacity: int) -> Values:
        """Not known yet."""
        return np.zeros(capacity, dtype=np.int64)

    def answer(self, fleet: ColumnSource, row: int) -> int:
        """The cost for one cluster."""
        return max(1, self.expression.cost(fleet.at(row).document, scores_of(fleet)))

    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        """Write the costs for the rows."""
        within, largest = scores_of(fleet), np.iinfo(np.int64).max
        for row in rows.tolist():
            values[row] = min(largest, max(1, self.expression.cost(fleet.at(row).document, within)))


def costs_of(expression: Expression, fleet: ColumnSource, rows: Rows) -> Values:
    """The highest possible costs of an expression for the clusters in some rows."""
    column = CelCostColumn(expression)
    values = fleet.column(column)
    missing = rows[values[rows] == 0]
    if missing.size:
        column.fill(fleet, values, missing)
    found: Values = values[rows]
    return found


@dataclass(frozen=True, slots=True)
class CelColumn(Column):
    """Whether an expression is true. It is evaluated for a cluster only when the result is needed."""

    expression: Expression

    aspects: ClassVar[Aspect] = _SEEN
    lazy: ClassVar[bool] = True

    def empty(self, capacity: int) -> Values:
        """Not evaluated yet."""
        return np.zeros(capacity, dtype=np.uint8)

    def answer(self, fleet: ColumnSource, row: int) -> int:
        """Evaluate the expression for one cluster."""
        return TRUE if self.expression.holds(fleet.at(row).document, scores_of(fleet)) else FALSE

    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        """Evaluate the expression for the rows."""
        within, expression = scores_of(fleet), self.expression
        costs = costs_of(expression, fleet, rows)
        for row, spent in zip(rows.tolist(), costs.tolist(), strict=True):
            found = spent <= expression.limit and expression.evaluate(fleet.at(row).document, within)
            values[row] = TRUE if found else FALSE
