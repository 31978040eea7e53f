"""Label selectors over labels and over claims, as columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from moorage.decide.kubernetes.selectors import EXISTS, IN, NOT_IN
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.decide.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Mask, Rows, Values
from moorage.decide.scheduling.ocm.selector import LabelTerms

_ABSENT: Final = -1
_FEW: Final = 16
"""Up to this many clusters are evaluated one by one."""


@dataclass(frozen=True, slots=True)
class _CodeColumn(Column):
    """The value of one key as an integer (`ManagedFleet.code`). -1 if the key is absent."""

    key: str

    coded: ClassVar[bool] = True

    @staticmethod
    @abstractmethod
    def texts(facts: ManagedClusterFacts) -> Mapping[str, str]:
        """Return the labels or the claims of a cluster."""

    @override
    def empty(self, capacity: int) -> Values:
        return np.full(capacity, _ABSENT, dtype=np.int32)

    @override
    def answer(self, fleet: ColumnSource, row: int) -> int:
        value = self.texts(fleet.at(row)).get(self.key)
        return _ABSENT if value is None else fleet.code(value)

    @override
    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        # one loop, because the first placement with the key waits for it
        key, at, texts, code = self.key, fleet.at, self.texts, fleet.code
        found = [texts(at(row)).get(key) for row in rows.tolist()]
        codes = {value: _ABSENT if value is None else code(value) for value in dict.fromkeys(found)}
        values[rows] = [codes[value] for value in found]

    @override
    def same(self, before: ManagedClusterFacts, after: ManagedClusterFacts) -> bool:
        return self.texts(before).get(self.key) == self.texts(after).get(self.key)


class CodeColumn(_CodeColumn):
    """The value of one label as an integer."""

    aspects: ClassVar[Aspect] = Aspect.LABELS | Aspect.LIFE

    @staticmethod
    @override
    def texts(facts: ManagedClusterFacts) -> Mapping[str, str]:
        return facts.labels


class ClaimCodeColumn(_CodeColumn):
    """The value of one claim as an integer."""

    aspects: ClassVar[Aspect] = Aspect.CLAIMS | Aspect.LIFE

    @staticmethod
    @override
    def texts(facts: ManagedClusterFacts) -> Mapping[str, str]:
        return facts.claims


@dataclass(frozen=True, slots=True)
class _SelectorColumn(Column):
    """Whether a cluster's labels or claims match a selector."""

    terms: LabelTerms

    codes: ClassVar[type[_CodeColumn]]
    """The columns of the selector's keys."""

    @override
    def empty(self, capacity: int) -> Values:
        return np.zeros(capacity, dtype=np.bool_)

    @override
    def fill(self, fleet: ColumnSource, values: Values, rows: Rows) -> None:
        if rows.size > _FEW:
            values[rows] = _hold(self.terms, self.codes, fleet)[rows]
        else:
            Column.fill(self, fleet, values, rows)

    @override
    def answer(self, fleet: ColumnSource, row: int) -> bool:
        return self.terms.hold(self.codes.texts(fleet.at(row)))

    @override
    def same(self, before: ManagedClusterFacts, after: ManagedClusterFacts) -> bool:
        was, now = self.codes.texts(before), self.codes.texts(after)
        return all(was.get(key) == now.get(key) for key, _, _ in self.terms.requirements)


class LabelColumn(_SelectorColumn):
    """Whether a cluster's labels match a selector."""

    aspects: ClassVar[Aspect] = CodeColumn.aspects
    codes = CodeColumn


class ClaimColumn(_SelectorColumn):
    """Whether a cluster's claims match a selector."""

    aspects: ClassVar[Aspect] = ClaimCodeColumn.aspects
    codes = ClaimCodeColumn


def _hold(terms: LabelTerms, kind: type[_CodeColumn], fleet: ColumnSource) -> Mask:
    """Return the result of `LabelTerms.hold` for all clusters at once."""
    good = np.ones(fleet.capacity, dtype=np.bool_)
    for key, operator, values in terms.requirements:
        codes = fleet.column(kind(key))
        if operator in {IN, NOT_IN}:
            among = np.isin(codes, [fleet.code(value) for value in values])
            good &= among if operator == IN else ~among
        else:
            good &= (codes != _ABSENT) == (operator == EXISTS)
    return good
