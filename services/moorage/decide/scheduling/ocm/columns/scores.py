"""The scores of add-ons, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from moorage.decide.scheduling.ocm.columns.cluster_facts import ScoreFacts
from moorage.decide.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Values
from moorage.decide.scheduling.ocm.columns.instants import FOREVER, microseconds

VALUE: Final = 0
UNTIL: Final = 1
"""The parts of a `ScoreColumn`."""


@dataclass(frozen=True, slots=True)
class ScoreColumn(Column):
    """The score, or 0 if there is none, and the last instant at which it counts."""

    resource: str
    score: str

    aspects: ClassVar[Aspect] = Aspect.SCORES | Aspect.LIFE

    def empty(self, capacity: int) -> Values:
        """No score, and no end."""
        values = np.zeros((2, capacity), dtype=np.int64)
        values[UNTIL] = FOREVER
        return values

    def answer(self, fleet: ColumnSource, row: int) -> tuple[int, int]:
        """Both values."""
        return self.of(fleet.score(fleet.name(row), self.resource))

    def of(self, found: ScoreFacts | None) -> tuple[int, int]:
        """Both values for a cluster to which an add-on gives these scores; None for no scores."""
        if found is None:
            return 0, FOREVER
        until = FOREVER if found.valid_until is None else microseconds(found.valid_until)
        return found.scores.get(self.score, 0), until
