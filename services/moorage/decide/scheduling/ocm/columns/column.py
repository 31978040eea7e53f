"""Columns over the clusters of a fleet: properties that placements need of each cluster, computed once and cached.

A column is a frozen value, so equal columns share one array. The array has one row for each cluster. When a cluster
changes, its row is computed again in the columns that depend on the change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts, ScoreFacts
from moorage.decide.scheduling.ocm.columns.taint_table import FOREVER, TaintTable, microseconds

Rows: TypeAlias = NDArray[np.intp]
"""Row numbers."""

Mask: TypeAlias = NDArray[np.bool_]
"""A boolean for each row, as long as the fleet's `capacity`."""

Scores: TypeAlias = NDArray[np.int64]
"""A score for each row."""

Values: TypeAlias = NDArray[Any]
"""The values of a column, with shape `(capacity,)` or `(parts, capacity)`."""


class Aspect(Flag):
    """The aspects of a cluster that can change."""

    LABELS = auto()
    CLAIMS = auto()
    TAINTS = auto()
    AMOUNTS = auto()
    DOCUMENT = auto()
    """Anything in its object, which CEL expressions use."""

    SCORES = auto()
    LIFE = auto()
    """Whether the cluster exists, and whether it is being deleted."""


NOTHING = Aspect(0)
ALL_ASPECTS = ~NOTHING


class ColumnSource(Protocol):
    """The source of a column. `ManagedFleet` implements it."""

    @property
    def capacity(self) -> int:
        """The length of columns."""

    @property
    def taint_table(self) -> TaintTable:
        """The taints of all clusters as arrays."""

    def name(self, row: int) -> str:
        """Return the name of the cluster in a row."""

    def at(self, row: int) -> ManagedClusterFacts:
        """Return the facts about the cluster in a row."""

    def score(self, cluster: str, resource: str) -> ScoreFacts | None:
        """Return the scores that an `AddOnPlacementScore` gives to a cluster. None if there is no such object."""

    def code(self, text: str) -> int:
        """Return an integer that stands for a text."""

    def column(self, column: Column) -> Values:
        """Return the values of another column."""


class Column(ABC):
    """A property of every cluster. Subclasses are frozen dataclasses whose fields define the property."""

    aspects: ClassVar[Aspect]
    """The aspects of a cluster on which the values depend."""

    lazy: ClassVar[bool] = False
    """Whether values are expensive to compute. A changed row is then only reset to `empty`."""

    coded: ClassVar[bool] = False
    """Whether values are codes of the fleet (`ColumnSource.code`). Such a column cannot be held."""

    @abstractmethod
    def empty(self, capacity: int) -> Values:
        """Return the values for rows without a cluster."""

    @abstractmethod
    def answer(self, fleet: ColumnSource, row: int) -> Any:
        """Return the value for a row that has a cluster. For a column with several parts, one value for each part."""

    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        """Write the values for the rows into `values`, which are `empty` there. All rows have a cluster."""
        for row in rows.tolist():
            values[..., row] = self.answer(fleet, row)

    def blank(self, fleet: ColumnSource) -> bool:
        """Return whether every cluster surely has the value of `empty`, so that no values need to be stored."""
        return False

    def same(self, before: ManagedClusterFacts, after: ManagedClusterFacts) -> bool:
        """Return whether a changed cluster's answer is surely the same. If False, it is computed again."""
        return False


VALUE: Final = 0
UNTIL: Final = 1
"""The parts of a `ScoreColumn`."""


@dataclass(frozen=True, slots=True)
class ScoreColumn(Column):
    """The score, or 0 if there is none, and the last instant at which it counts."""

    resource: str
    score: str

    aspects: ClassVar[Aspect] = Aspect.SCORES | Aspect.LIFE

    @override
    def empty(self, capacity: int) -> Values:
        values = np.zeros((2, capacity), dtype=np.int64)
        values[UNTIL] = FOREVER
        return values

    @override
    def answer(self, fleet: ColumnSource, row: int) -> tuple[int, int]:
        return self.of(fleet.score(fleet.name(row), self.resource))

    def of(self, found: ScoreFacts | None) -> tuple[int, int]:
        """Return both values for a cluster to which an add-on gives these scores; None for no scores."""
        if found is None:
            return 0, FOREVER
        until = FOREVER if found.valid_until is None else microseconds(found.valid_until)
        return found.scores.get(self.score, 0), until
