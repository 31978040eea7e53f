"""Columns over the clusters of a fleet: what a placement asks of each cluster, asked once and kept.

A column is a frozen value, so that equal questions share one answer. Its answers lie in one numpy array, a row a
cluster; when a cluster changes, its row is answered again, in the columns that rest on what changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Flag, auto
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from moorage.core.scheduling.ocm.facts import ClusterFacts, ScoreFacts

Rows: TypeAlias = NDArray[np.intp]
"""Numbers of rows."""

Mask: TypeAlias = NDArray[np.bool_]
"""A truth a row; as long as the fleet's `capacity`."""

Scores: TypeAlias = NDArray[np.int64]
"""A score a row."""

Values: TypeAlias = NDArray[Any]
"""A column's answers: of shape `(capacity,)`, or `(parts, capacity)`."""


class Aspect(Flag):
    """What can change about a cluster."""

    LABELS = auto()
    CLAIMS = auto()
    TAINTS = auto()
    AMOUNTS = auto()
    DOCUMENT = auto()
    """Anything of its object, which is what CEL sees."""

    SCORES = auto()
    LIFE = auto()
    """Whether it is there, and whether it is about to go."""


NOTHING = Aspect(0)
ALL_ASPECTS = ~NOTHING


class ColumnSource(Protocol):
    """What a column answers from. `ManagedFleet` is one."""

    @property
    def capacity(self) -> int:
        """How long columns are."""

    def name(self, row: int) -> str:
        """The name of a row."""

    def at(self, row: int) -> ClusterFacts:
        """What is known of the cluster of a row."""

    def score(self, cluster: str, resource: str) -> ScoreFacts | None:
        """The scores that an `AddOnPlacementScore` gives to a cluster; None when there is no such object."""

    def code(self, text: str) -> int:
        """A number that stands for a text."""

    def column(self, column: Column) -> Values:
        """The answers of another column."""


class Column(ABC):
    """A question about every cluster. Subclasses are frozen dataclasses: their fields are the question."""

    aspects: ClassVar[Aspect]
    """What the answers rest on."""

    lazy: ClassVar[bool] = False
    """Whether answers are dear: a row that changed is only marked as not answered, with `empty`."""

    @abstractmethod
    def empty(self, capacity: int) -> Values:
        """Answers for rows without a cluster."""

    @abstractmethod
    def answer(self, fleet: ColumnSource, row: int) -> Any:
        """The answer for the row, which has a cluster; of a column of several parts, one of each."""

    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        """Write the answers for the rows, which all have a cluster, into `values`."""
        for row in rows.tolist():
            values[..., row] = self.answer(fleet, row)

    def same(self, before: ClusterFacts, after: ClusterFacts) -> bool:
        """Whether a cluster that changed surely has the answer that it had; False when that is to be found out."""
        return False
