"""The allocatable amount of a resource as a score: the more, the higher."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from moorage.decide.kubernetes.quantities import QuantityError, parse_quantity
from moorage.decide.scheduling.framework.plugins import MAX_SCORE
from moorage.decide.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Rows, Scores, Values
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.plugin import ManagedPrioritizer, PlacementRequest, Scored
from moorage.decide.scheduling.ocm.terms import PlacementTerms

_DECIMAL: Final = re.compile(r"([+-]?)0*([0-9]*)\.?([0-9]*)([numkMGTPE]?|[eE][+-]?[0-9]+)")
_EXPONENTS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_EXACT_DIGITS: Final = 18
_NANO: Final = -9
_MOST: Final = 2**63 - 1


@lru_cache(maxsize=65_536, typed=True)
def approximate(value: str | float) -> float:
    """Convert a quantity to the float that upstream computes, which may differ from the nearest float in the last bit.

    A number with few decimal digits is those digits times a power of ten. Any other number is counted in billionths,
    rounded up. A number with a binary suffix is at most `_MOST`.

    Raises:
        QuantityError: the value is not a quantity.
    """
    exact = parse_quantity(value)
    found = _DECIMAL.fullmatch(value if isinstance(value, str) else repr(value))
    if found:
        sign, whole, part, suffix = found.groups()
        exponent = _EXPONENTS[suffix] if suffix in _EXPONENTS else int(suffix[1:])
        digits, scale = whole + part, exponent - len(part)
        if len(digits) <= _EXACT_DIGITS and scale >= _NANO:
            number = float(int(digits or "0")) * (10.0**scale if scale else 1.0)
            return -number if sign == "-" else number
    elif exact.denominator == 1 and abs(exact) < 2**50:
        return float(exact)
    size = abs(exact)
    if isinstance(value, str) and value.endswith("i"):
        size = min(size, Fraction(_MOST))
    billionths = math.ceil(size * 10**9)
    return math.copysign(float(billionths) * 10.0**_NANO, exact)


@dataclass(frozen=True, slots=True)
class AllocatableColumn(Column):
    """The allocatable amount of a resource. NaN unless the cluster states both this amount and its capacity."""

    resource: str

    aspects: ClassVar[Aspect] = Aspect.AMOUNTS | Aspect.LIFE

    @override
    def empty(self, capacity: int) -> Values:
        # NaN means that the amount is not stated
        return np.full(capacity, np.nan)

    @override
    def answer(self, fleet: ColumnSource, row: int) -> float:
        # an invalid quantity counts as not stated
        facts = fleet.at(row)
        amount = facts.allocatable.get(self.resource)
        if amount is None or self.resource not in facts.capacity:
            return math.nan
        try:
            return approximate(amount)
        except QuantityError:
            return math.nan


class ResourceAllocatable(ManagedPrioritizer):
    """Scores from -100 for the scored cluster with the least to 100 for the one with the most."""

    resource: ClassVar[str]
    """The name of the resource in `status.allocatable`."""

    lowest = -MAX_SCORE
    relative = True

    @override
    def score(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> Scored:
        amounts = fleet.column(AllocatableColumn(self.resource)).take(rows)
        if amounts.size and not math.isnan(amounts.item(amounts.argmin())):  # argmin finds the first NaN
            return Scored(_proportional(amounts))
        given = ~np.isnan(amounts)
        values = np.zeros(rows.size, dtype=np.int64)
        have = amounts[given]
        if have.size:
            values[given] = _proportional(have)
        return Scored(values, given)

    @override
    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        return self.standing()

    @override
    def standing(self) -> tuple[Column, ...]:
        return (AllocatableColumn(self.resource),)

    @override
    def details(self, request: PlacementRequest, fleet: ManagedFleet, target: str) -> Iterable[str]:
        row = fleet.row(target)
        if math.isnan(fleet.column(AllocatableColumn(self.resource))[row]):
            yield f"it does not state both its allocatable {self.resource} and its capacity"
        else:
            yield f"{fleet.at(row).allocatable[self.resource]} of {self.resource} is allocatable"


def _proportional(amounts: Values) -> Scores:
    """Return the score of each amount, by its place between the least and the most. At least one, no NaN."""
    least, most = amounts.item(amounts.argmin()), amounts.item(amounts.argmax())
    if most == least:
        return np.full(amounts.size, MAX_SCORE, dtype=np.int64)
    places = amounts - least
    places /= most - least
    places -= 0.5
    places *= 2.0 * MAX_SCORE
    scores: Scores = places.astype(np.int64)  # truncates towards zero
    return scores
