"""A column with the results of a CEL expression for each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from moorage.decide.kubernetes.cel import Evaluation, Expression
from moorage.decide.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Rows, Values

_SEEN: Final = Aspect.DOCUMENT | Aspect.SCORES | Aspect.LABELS | Aspect.TAINTS | Aspect.LIFE
"""The aspects of a cluster that an expression uses."""

UNKNOWN, FALSE, TRUE = 0, 1, 2
"""The values of a `CelColumn`. `UNKNOWN` means that the expression has not been evaluated yet."""


def scores_of(fleet: ColumnSource) -> Evaluation:
    """Return the evaluation of expressions, with the scores of a fleet."""

    def scores(cluster: str, resource: str) -> Mapping[str, int] | None:
        found = fleet.score(cluster, resource)
        return None if found is None else found.scores

    return Evaluation(scores)


@dataclass(frozen=True, slots=True)
class CelCostColumn(Column):
    """The highest possible cost of an expression. 0 means that it is not computed yet."""

    expression: Expression

    aspects: ClassVar[Aspect] = _SEEN
    lazy: ClassVar[bool] = True

    @override
    def empty(self, capacity: int) -> Values:
        return np.zeros(capacity, dtype=np.int64)

    @override
    def answer(self, fleet: ColumnSource, row: int) -> int:
        return max(1, self.expression.cost(fleet.at(row).document, scores_of(fleet)))

    @override
    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        within, largest = scores_of(fleet), np.iinfo(np.int64).max
        for row in rows.tolist():
            values[row] = min(largest, max(1, self.expression.cost(fleet.at(row).document, within)))


def costs_of(expression: Expression, fleet: ColumnSource, rows: Rows) -> Values:
    """Return the highest possible costs of an expression for the clusters in some rows."""
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

    @override
    def empty(self, capacity: int) -> Values:
        return np.zeros(capacity, dtype=np.uint8)

    @override
    def answer(self, fleet: ColumnSource, row: int) -> int:
        return TRUE if self.expression.holds(fleet.at(row).document, scores_of(fleet)) else FALSE

    @override
    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        within, expression = scores_of(fleet), self.expression
        costs = costs_of(expression, fleet, rows)
        for row, spent in zip(rows.tolist(), costs.tolist(), strict=True):
            found = spent <= expression.limit and expression.evaluate(fleet.at(row).document, within)
            values[row] = TRUE if found else FALSE
