"""AddOn: a named score that an add-on has given to the cluster."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import MAX_SCORE, Basis
from moorage.decide.scheduling.ocm.columns.column import UNTIL, VALUE, Column, Rows, ScoreColumn
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.taint_table import FOREVER, microseconds
from moorage.decide.scheduling.ocm.plugin import SUCCESS, Code, ManagedPrioritizer, PlacementRequest, Scored, Status
from moorage.decide.scheduling.ocm.terms import Coordinate, PlacementTerms
from moorage_schemas.times import format_time


class AddOn(ManagedPrioritizer):
    """Takes the named score of the cluster's `AddOnPlacementScore`.

    The score is used as the add-on reports it. It is 0 if the add-on reports none, or if the score is no longer valid.

    Args:
        coordinate: names the score. The plugin itself has none and scores nothing.
    """

    name = "AddOn"
    order = 60
    lowest = -MAX_SCORE
    rests_on = Basis.CLOCK
    built_in = False

    def __init__(self, coordinate: Coordinate | None = None) -> None:
        found = coordinate or Coordinate(built_in=self.name)
        self.name = found.name
        self._column = ScoreColumn(found.resource, found.score)

    @override
    def answers(self, coordinate: Coordinate) -> AddOn | None:
        return None if coordinate.built_in_type else AddOn(coordinate)

    @override
    def score(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> Scored:
        column = fleet.column(self._column)
        values, until = column[VALUE].take(rows), column[UNTIL].take(rows)
        if rows.size and (first := until.item(until.argmin())) >= request.now_us:
            return Scored(values, until=None if first == FOREVER else first + 1)
        expired = until < request.now_us
        to_come = until[~expired & (until != FOREVER)]
        past = until[expired]
        status = SUCCESS
        if past.size:
            values = np.where(expired, 0, values)
            resource = self._column.resource
            names = [fleet.name(row) for row in rows[expired]]
            if not request.terms.as_upstream:
                # Upstream lists them in the order in which it was given the clusters, which varies.
                names.sort()
            listed = "".join(f" {name}/{resource}" for name in names)
            status = Status(Code.WARNING, self.name, f"AddOnPlacementScores{listed} expired")
        return Scored(
            values,
            status=status,
            until=int(to_come.min()) + 1 if to_come.size else None,
            since=int(past.max()) + 1 if past.size else None,
        )

    @override
    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        return (self._column,)

    @override
    def score_ends(self, fleet: ManagedFleet, row: int) -> bool:
        found = fleet.score(fleet.name(row), self._column.resource)
        return found is not None and found.valid_until is not None

    @override
    def details(self, request: PlacementRequest, fleet: ManagedFleet, target: str) -> Iterable[str]:
        column, found = self._column, fleet.score(target, self._column.resource)
        if found is None:
            yield f"it has no AddOnPlacementScore {column.resource}"
        elif column.score not in found.scores:
            yield f"AddOnPlacementScore {column.resource} has no score {column.score}"
        elif found.valid_until is not None:
            ends = "expired" if microseconds(found.valid_until) < request.now_us else "expires"
            yield f"AddOnPlacementScore {column.resource} {ends} at {format_time(found.valid_until)}"


PLUGIN = AddOn()
