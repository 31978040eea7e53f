"""A column with the results of a CEL expression for each cluster, and their costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from moorage.decide.kubernetes.cel.expressions import Evaluation, Expression
from moorage.decide.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Mask, Rows, Values

_SEEN: Final = Aspect.DOCUMENT | Aspect.SCORES | Aspect.LABELS | Aspect.TAINTS | Aspect.LIFE
"""The aspects of a cluster that an expression uses."""


def scores_of(fleet: ColumnSource) -> Evaluation:
    """Return the evaluation of expressions, with the scores of a fleet."""

    def scores(cluster: str, resource: str) -> Mapping[str, int] | None:
        found = fleet.score(cluster, resource)
        return None if found is None else found.scores

    return Evaluation(scores)


class UnsupportedExpressionError(ValueError):
    """An expression cannot be evaluated for all clusters, because it exceeds a limit of Moorage."""


_UNSUPPORTED: Final = -1
"""The value of a cluster for which an expression exceeds a limit of Moorage."""


@dataclass(frozen=True, slots=True)
class CelColumn(Column):
    """Whether an expression is true, and what its evaluation took. It is evaluated for a cluster only when needed.

    A value is twice the cost, plus one if the expression is true. 0 means that it has not been evaluated yet, -1 that
    it cannot be.
    """

    expression: Expression

    aspects: ClassVar[Aspect] = _SEEN
    lazy: ClassVar[bool] = True

    @override
    def empty(self, capacity: int) -> Values:
        return np.zeros(capacity, dtype=np.int64)

    @override
    def answer(self, fleet: ColumnSource, row: int) -> int:
        return self._answer(fleet, row, scores_of(fleet))

    @override
    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        within = scores_of(fleet)
        for row in rows.tolist():
            values[row] = self._answer(fleet, row, within)

    def fill_within(self, fleet: ColumnSource, values: Values, rows: Rows, budget: int | None) -> None:
        """Write the missing values for the rows into `values`, unless that costs too much.

        The costs of values that are known already count as well. So the result is independent of earlier evaluations.

        Args:
            fleet: the fleet.
            values: the values.
            rows: the rows that are needed.
            budget: the limit of the cost of all rows together. None means no limit.

        Raises:
            UnsupportedExpressionError: all rows together cost more, or the expression is not supported for one.
        """
        known = values[rows]
        spent, within = int((known[known > 0] >> 1).sum()), scores_of(fleet)
        missing = rows[known == 0].tolist()
        while missing and (budget is None or spent <= budget):
            row = missing.pop()
            found = self._answer(fleet, row, within)
            values[row] = found
            spent += max(0, found >> 1)
        if budget is None:
            return
        self._check_support(fleet, rows[values[rows] == _UNSUPPORTED], within)
        if spent <= budget:
            return
        raise UnsupportedExpressionError(
            f"the CEL expression {self.expression.text!r} exceeds the budget of {budget} for {rows.size} clusters"
        )

    def true_in(self, values: Values) -> Mask:
        """Return the rows for which the expression is true."""
        found: Mask = (values > 0) & (values & 1).astype(np.bool_)
        return found

    def _check_support(self, fleet: ColumnSource, rows: Rows, within: Evaluation) -> None:
        """Check that there is no cluster for which the expression exceeds a limit of Moorage."""
        if not rows.size:
            return
        row = min(rows.tolist(), key=fleet.name)
        error = self.expression.evaluate(fleet.at(row).document, within).error
        raise UnsupportedExpressionError(
            f"the CEL expression {self.expression.text!r} is not supported for the cluster {fleet.name(row)}: {error}"
        )

    def _answer(self, fleet: ColumnSource, row: int, within: Evaluation) -> int:
        result = self.expression.evaluate(fleet.at(row).document, within)
        if result.unsupported:
            return _UNSUPPORTED
        return 2 * max(1, result.cost + result.work) + result.value
