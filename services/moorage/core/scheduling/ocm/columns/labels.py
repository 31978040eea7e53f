"""Label selectors over labels and over claims, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from moorage.core.apimachinery.selectors import EXISTS, IN, NOT_IN
from moorage.core.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.core.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Mask, Rows, Values
from moorage.core.scheduling.ocm.selector import LabelTerms

_ABSENT: Final = -1
_FEW: Final = 16
"""Up to this many clusters are evaluated one by one."""


@dataclass(frozen=True, slots=True)
class CodeColumn(Column):
    """The value of one label as an integer (`ManagedFleet.code`). -1 if the label is absent."""

    key: str

    aspects: ClassVar[Aspect] = Aspect.LABELS | Aspect.LIFE

    def empty(self, capacity: int) -> Values:
        """Absent."""
        return np.full(capacity, _ABSENT, dtype=np.int32)

    def answer(self, fleet: ColumnSource, row: int) -> int:
        """The code of the label's value."""
        value = _labels(fleet.at(row)).get(self.key)
        return _ABSENT if value is None else fleet.code(value)

    def same(self, before: ManagedClusterFacts, after: ManagedClusterFacts) -> bool:
        """Whether the value is the same as before."""
        return _labels(before).get(self.key) == _labels(after).get(self.key)


@dataclass(frozen=True, slots=True)
class ClaimCodeColumn(Column):
    """The value of one claim as an integer. -1 if the claim is absent."""

    key: str

    aspects: ClassVar[Aspect] = Aspect.CLAIMS | Aspect.LIFE

    def empty(self, capacity: int) -> Values:
        """Absent."""
        return np.full(capacity, _ABSENT, dtype=np.int32)

    def answer(self, fleet: ColumnSource, row: int) -> int:
        """The code of the claim's value."""
        value = _claims(fleet.at(row)).get(self.key)
        return _ABSENT if value is None else fleet.code(value)

    def same(self, before: ManagedClusterFacts, after: ManagedClusterFacts) -> bool:
        """Whether the value is the same as before."""
        return _claims(before).get(self.key) == _claims(after).get(self.key)


@dataclass(frozen=True, slots=True)
class LabelColumn(Column):
    """Whether a cluster's labels match a selector."""

    terms: LabelTerms

    aspects: ClassVar[Aspect] = Aspect.LABELS | Aspect.LIFE

    def empty(self, capacity: int) -> Values:
        """False."""
        return np.zeros(capacity, dtype=np.bool_)

    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        """Evaluate the rows. Many rows are evaluated together."""
        if rows.size > _FEW:
            values[rows] = _hold(self.terms, CodeColumn, fleet)[rows]
        else:
            Column.fill(self, fleet, values, rows)

    def answer(self, fleet: ColumnSource, row: int) -> bool:
        """Whether the labels match."""
        return self.terms.hold(_labels(fleet.at(row)))

    def same(self, before: ManagedClusterFacts, after: ManagedClusterFacts) -> bool:
        """Whether the selector's keys have the same values as before."""
        was, now = _labels(before), _labels(after)
        return all(was.get(key) == now.get(key) for key, _, _ in self.terms.requirements)


@dataclass(frozen=True, slots=True)
class ClaimColumn(Column):
    """Whether a cluster's claims match a selector."""

    terms: LabelTerms

    aspects: ClassVar[Aspect] = Aspect.CLAIMS | Aspect.LIFE

    def empty(self, capacity: int) -> Values:
        """False."""
        return np.zeros(capacity, dtype=np.bool_)

    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        """Evaluate the rows. Many rows are evaluated together."""
        if rows.size > _FEW:
            values[rows] = _hold(self.terms, ClaimCodeColumn, fleet)[rows]
        else:
            Column.fill(self, fleet, values, rows)

    def answer(self, fleet: ColumnSource, row: int) -> bool:
        """Whether the claims match."""
        return self.terms.hold(_claims(fleet.at(row)))

    def same(self, before: ManagedClusterFacts, after: ManagedClusterFacts) -> bool:
        """Whether the selector's keys have the same values as before."""
        was, now = _claims(before), _claims(after)
        return all(was.get(key) == now.get(key) for key, _, _ in self.terms.requirements)


def _labels(facts: ManagedClusterFacts) -> Mapping[str, str]:
    return facts.labels


def _claims(facts: ManagedClusterFacts) -> Mapping[str, str]:
    return facts.claims


def _hold(terms: LabelTerms, kind: type[CodeColumn | ClaimCodeColumn], fleet: ColumnSource) -> Mask:
    """`LabelTerms.hold` for all clusters at once."""
    good = np.ones(fleet.capacity, dtype=np.bool_)
    for key, operator, values in terms.requirements:
        codes = fleet.column(kind(key))
        if operator in {IN, NOT_IN}:
            among = np.isin(codes, [fleet.code(value) for value in values])
            good &= among if operator == IN else ~among
        else:
            good &= (codes != _ABSENT) == (operator == EXISTS)
    return good
