"""Kubernetes' quantities."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from typing_extensions import override

from moorage.decide.kubernetes.cel.declarations import Overload, function, method
from moorage.decide.kubernetes.cel.types import BOOL, DOUBLE, INT, STRING, Type
from moorage.decide.kubernetes.cel.values import INT_MAX, INT_MIN, CelError, LimitError, Opaque, no_overload

QUANTITY: Final = Type("kubernetes.Quantity")

_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<digits>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<suffix>[KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)"
)
_LONGEST: Final = 256
_LARGEST_POWER: Final = 1000
_MOST_DIGITS: Final = 18
"""How many digits upstream puts into an int64."""

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO: Final = -9


@dataclass(frozen=True, slots=True)
class Quantity(Opaque):
    """A quantity.

    Attributes:
        number: its value.
        scale: the power of ten in whose units upstream holds it.
        wide: whether upstream holds it as a decimal number instead of an int64.
        computed: whether it is a sum or a difference. Upstream does not take such a one on the right of `==`.
    """

    number: Fraction
    scale: int
    wide: bool = False
    computed: bool = False

    @property
    def kind(self) -> str:  # type: ignore[override]  # every quantity has this kind
        """The name of the type."""
        return QUANTITY.name

    @override
    def same(self, other: Opaque) -> bool:
        if not isinstance(other, Quantity) or other.computed:
            raise no_overload()
        return self.number == other.number


@lru_cache(maxsize=1024)
def quantity_of(text: str) -> Quantity:
    """Parse a quantity. As upstream, its digits may be missing.

    Raises:
        CelError: the text is no quantity.
    """
    found = _QUANTITY.fullmatch(text) if 0 < len(text) <= _LONGEST else None
    if found is None:
        raise CelError("unable to parse quantity's suffix")
    digits, fraction, suffix = found["digits"].lstrip("0"), found["fraction"] or "", found["suffix"]
    number, power = Fraction(int(digits + fraction or "0"), 10 ** len(fraction)), 0
    binary = suffix in _BINARY
    if binary:
        number *= 1 << _BINARY[suffix]
    else:
        power = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        if abs(power) > _LARGEST_POWER:
            raise LimitError(f"the exponent of a quantity is above {_LARGEST_POWER}")
        number *= Fraction(10) ** power
    number = -number if found["sign"] == "-" else number
    if text == "0":
        return Quantity(number, 0)
    if binary and not fraction and 15 - len(digits or "0") - int(_BINARY[suffix] * 3 / 10) - 1 >= 0:
        return Quantity(number, 0)
    if not binary and len(digits or "0") + len(fraction) <= _MOST_DIGITS and power - len(fraction) >= _NANO:
        return Quantity(number, power - len(fraction))
    number = _rounded(number)
    if binary:
        number = max(min(number, Fraction(INT_MAX)), Fraction(-INT_MAX))
    return Quantity(number, _NANO if number else 0, wide=True)


def _rounded(number: Fraction) -> Fraction:
    """Return a number rounded away from zero to whole billionths."""
    scaled = abs(number) * 10**9
    whole = Fraction(-(-scaled.numerator // scaled.denominator), 10**9)
    return -whole if number < 0 else whole


def _is_quantity(text: str) -> bool:
    try:
        quantity_of(text)
    except CelError:
        return False
    return True


def _whole(value: Quantity) -> int | None:
    if value.wide or value.scale < 0 or not INT_MIN <= value.number <= INT_MAX:
        return None
    return int(value.number)


def _as_integer(value: Quantity) -> int:
    found = _whole(value)
    if found is None:
        raise CelError("cannot convert value to integer")
    return found


def _as_float(value: Quantity) -> float:
    base = float(value.number / Fraction(10) ** value.scale)
    return base * float(f"1e{value.scale}") if value.scale else base


def _sum(one: Quantity, other: Quantity) -> Quantity:
    number, least = one.number + other.number, min(one.scale, other.scale)
    if not (one.wide or other.wide):
        if other.number == 0:
            least = one.scale
        elif one.number == 0:
            least = other.scale
        units = (part / Fraction(10) ** least for part in (one.number, other.number, number))
        if all(INT_MIN <= unit <= INT_MAX for unit in units):
            return Quantity(number, least, computed=True)
        least = min(one.scale, other.scale)
    return Quantity(number, least, wide=True, computed=True)


def _add(one: Quantity, other: Quantity | int) -> Quantity:
    return _sum(one, other if isinstance(other, Quantity) else Quantity(Fraction(other), 0))


def _subtract(one: Quantity, other: Quantity | int) -> Quantity:
    if not isinstance(other, Quantity):
        other = Quantity(Fraction(other), 0)
    opposite = Quantity(-other.number, other.scale, wide=other.wide)
    if not other.wide and other.number == INT_MIN * Fraction(10) ** other.scale:
        # Upstream's smallest int64 is its own opposite, unless the sum exceeds an int64.
        wrapped = _sum(one, other)
        return wrapped if not wrapped.wide else _sum(one, Quantity(opposite.number, opposite.scale, wide=True))
    return _sum(one, opposite)


def _compared(one: Quantity, other: Quantity) -> int:
    return (one.number > other.number) - (one.number < other.number)


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("quantity", (STRING,), QUANTITY, quantity_of),
    function("isQuantity", (STRING,), BOOL, _is_quantity),
    function("sign", (QUANTITY,), INT, lambda value: (value.number > 0) - (value.number < 0)),
    method("isGreaterThan", (QUANTITY, QUANTITY), BOOL, lambda one, other: one.number > other.number),
    method("isLessThan", (QUANTITY, QUANTITY), BOOL, lambda one, other: one.number < other.number),
    method("compareTo", (QUANTITY, QUANTITY), INT, _compared),
    method("asApproximateFloat", (QUANTITY,), DOUBLE, _as_float),
    method("asInteger", (QUANTITY,), INT, _as_integer),
    method("isInteger", (QUANTITY,), BOOL, lambda value: _whole(value) is not None),
    method("add", (QUANTITY, QUANTITY), QUANTITY, _add),
    method("add", (QUANTITY, INT), QUANTITY, _add),
    method("sub", (QUANTITY, QUANTITY), QUANTITY, _subtract),
    method("sub", (QUANTITY, INT), QUANTITY, _subtract),
)
