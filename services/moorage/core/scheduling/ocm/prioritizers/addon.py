"""AddOn: the score of a name that an add-on has given the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from moorage.core.scheduling.ocm.columns import Aspect, Column, ColumnSource, Rows, Values
from moorage.core.scheduling.ocm.fleet import ManagedFleet
from moorage.core.scheduling.ocm.instants import FOREVER, microseconds
from moorage.core.scheduling.ocm.plugin import SUCCESS, Code, ManagedPrioritizer, Request, Scored, Status
from moorage.core.scheduling.ocm.terms import Coordinate, PlacementTerms

_VALUE: Final = 0
_UNTIL: Final = 1


@dataclass(frozen=True, slots=True)
class ScoreColumn(Column):
    """The score, 0 where there is none; and the last instant at which it counts."""

    resource: str
    score: str

    aspects: ClassVar[Aspect] = Aspect.SCORES | Aspect.LIFE

    def empty(self, capacity: int) -> Values:
        """No score, for ever."""
        values = np.zeros((2, capacity), dtype=np.int64)
        values[_UNTIL] = FOREVER
        return values

    def answer(self, fleet: ColumnSource, row: int) -> tuple[int, int]:
        """Both."""
        found = fleet.score(fleet.name(row), self.resource)
        if found is None:
            return 0, FOREVER
        until = FOREVER if found.valid_until is None else microseconds(found.valid_until)
        return found.scores.get(self.score, 0), until


class AddOn(ManagedPrioritizer):
    """What the add-on says, as it says it; 0 where it says nothing, or where what it said is no longer valid."""

    add_on: ClassVar[bool] = True
    static: ClassVar[bool] = True

    def score(self, coordinate: Coordinate, request: Request, fleet: ManagedFleet, rows: Rows) -> Scored:
        """The scores that are valid, and a warning that names those that are not."""
        said = fleet.column(ScoreColumn(coordinate.resource, coordinate.score))[:, rows]
        values, until = said[_VALUE], said[_UNTIL]
        over = until < request.now_us
        to_come = until[~over & (until != FOREVER)]
        past = until[over]
        status = SUCCESS
        if past.size:
            values = np.where(over, 0, values)
            names = [fleet.name(row) for row in rows[over]]
            if not request.terms.as_upstream:
                # Upstream lists them in the order in which it was given the clusters, which varies.
                names.sort()
            listed = "".join(f" {name}/{coordinate.resource}" for name in names)
            status = Status(Code.WARNING, coordinate.name, f"AddOnPlacementScores{listed} expired")
        return Scored(
            values,
            status=status,
            until=int(to_come.min()) + 1 if to_come.size else None,
            since=int(past.max()) + 1 if past.size else None,
        )

    def columns(self, coordinate: Coordinate, terms: PlacementTerms) -> tuple[Column, ...]:  # noqa: ARG002 - the plugin's signature
        """One."""
        return (ScoreColumn(coordinate.resource, coordinate.score),)


PLUGIN = AddOn()
