"""Doubles as Go shows them."""

from __future__ import annotations

import math
from decimal import Decimal


def double_text(value: float) -> str:
    """Return a double with the fewest digits that identify it, with an exponent where it is large or small (`%g`)."""
    if math.isnan(value) or math.isinf(value):
        return special(value, "+Inf", "-Inf")
    digits, exponent = _digits(value)
    power = len(digits) + exponent - 1
    if value == 0 or -5 < power < 21:  # noqa: PLR2004 - the bounds of Go's %g
        return fixed_text(value)
    sign = "-" if math.copysign(1, value) < 0 else ""
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02}"


def fixed_text(value: float) -> str:
    """Return a double with the fewest digits that identify it, without an exponent."""
    text = format(Decimal(repr(value)), "f")
    return text.removesuffix(".0")


def special(value: float, infinity: str = "Infinity", negative: str = "-Infinity") -> str:
    """Return the name of a double that is no number, or infinite. Empty for all others."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return infinity if value > 0 else negative
    return ""


def _digits(value: float) -> tuple[str, int]:
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    return "".join(map(str, digits)), int(exponent)
