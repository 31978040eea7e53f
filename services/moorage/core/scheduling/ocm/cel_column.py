"""A column of what a CEL expression says of each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import cel
import numpy as np

from moorage.core.apimachinery.cel import Expression, context
from moorage.core.scheduling.ocm.columns import Aspect, Column, ColumnSource, Rows, Values

UNKNOWN, FALSE, TRUE = 0, 1, 2
"""Answers of a `CelColumn`; unknown is not asked yet."""


def scores_of(fleet: ColumnSource) -> cel.Context:
    """What expressions are asked in, with the scores that a fleet knows."""

    def scores(cluster: str, resource: str) -> Mapping[str, int] | None:
        found = fleet.score(cluster, resource)
        return None if found is None else found.scores

    return context(scores)


@dataclass(frozen=True, slots=True)
class CelColumn(Column):
    """Whether an expression holds; asked of a cluster when somebody needs to know."""

    expression: Expression

    aspects: ClassVar[Aspect] = Aspect.DOCUMENT | Aspect.SCORES | Aspect.LABELS | Aspect.TAINTS | Aspect.LIFE
    lazy: ClassVar[bool] = True

    def empty(self, capacity: int) -> Values:
        """Not asked yet."""
        return np.zeros(capacity, dtype=np.uint8)

    def answer(self, fleet: ColumnSource, row: int) -> int:
        """Ask about one cluster."""
        return TRUE if self.expression.holds(fleet.at(row).document, scores_of(fleet)) else FALSE

    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        """Ask about the rows."""
        within = scores_of(fleet)
        for row in rows.tolist():
            values[row] = TRUE if self.expression.holds(fleet.at(row).document, within) else FALSE
