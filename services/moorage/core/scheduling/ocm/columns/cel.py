"""A column with the results of a CEL expression for each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import cel
import numpy as np

from moorage.core.apimachinery.cel import Expression, context
from moorage.core.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Rows, Values

UNKNOWN, FALSE, TRUE = 0, 1, 2
"""The values of a `CelColumn`. `UNKNOWN` means that the expression has not been evaluated yet."""


def scores_of(fleet: ColumnSource) -> cel.Context:
    """The context for evaluating expressions, with the scores of a fleet."""

    def scores(cluster: str, resource: str) -> Mapping[str, int] | None:
        found = fleet.score(cluster, resource)
        return None if found is None else found.scores

    return context(scores)


@dataclass(frozen=True, slots=True)
class CelColumn(Column):
    """Whether an expression is true. It is evaluated for a cluster only when the result is needed."""

    expression: Expression

    aspects: ClassVar[Aspect] = Aspect.DOCUMENT | Aspect.SCORES | Aspect.LABELS | Aspect.TAINTS | Aspect.LIFE
    lazy: ClassVar[bool] = True

    def empty(self, capacity: int) -> Values:
        """Not evaluated yet."""
        return np.zeros(capacity, dtype=np.uint8)

    def answer(self, fleet: ColumnSource, row: int) -> int:
        """Evaluate the expression for one cluster."""
        return TRUE if self.expression.holds(fleet.at(row).document, scores_of(fleet)) else FALSE

    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        """Evaluate the expression for the rows."""
        within = scores_of(fleet)
        for row in rows.tolist():
            values[row] = TRUE if self.expression.holds(fleet.at(row).document, within) else FALSE
