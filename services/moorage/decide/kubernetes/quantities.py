"""Kubernetes quantities such as `500m`, `1.5Gi` and `2e3`, converted exactly to whole numbers (without floats).

A quantity is a decimal number with a binary suffix (`Ki` … `Ei`), a decimal suffix (`n u m k M G T P E`) or an exponent
(`e3`, `E-2`). As in Kubernetes, an amount that is not whole in its resource's unit is rounded up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"

MILLI: Final = 1000
"""Millicores in a core."""

_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?:(?P<suffix>[KMGTPE]i|[numkMGTPE]?)|[eE](?P<exponent>[+-]?[0-9]{1,4}))"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_KIBI: Final = 1024
_SMALLEST: Final = min(_DECIMAL.values())
_LARGEST: Final = max(_DECIMAL.values())
_LONGEST: Final = 64
_EXPONENT_LIMIT: Final = 40

RULE: Final = (
    "must be a decimal number with an optional suffix: n, u, m, k, M, G, T, P, E, "
    "Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3"
)


class QuantityError(ValueError):
    """A quantity is invalid. The error names the field, its value and the rule."""

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(f"{field}: Invalid value: {value!r}: {rule}")
        self.field = field
        self.value = value
        self.rule = rule


def parse_quantity(value: str | float, field: str = "quantity") -> Fraction:
    """Parse a quantity exactly.

    Args:
        value: the text, or the plain number that JSON and YAML allow instead.
        field: the path of the field, for the message.

    Raises:
        QuantityError: the value is not a quantity.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QuantityError(field, value, RULE)
    text = value if isinstance(value, str) else repr(value)
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise QuantityError(field, value, RULE)
    number = Fraction(found["number"])
    if found["exponent"] is not None:
        exponent = int(found["exponent"])
        if abs(exponent) > _EXPONENT_LIMIT:
            raise QuantityError(field, value, f"the exponent must be between -{_EXPONENT_LIMIT} and {_EXPONENT_LIMIT}")
        number *= Fraction(10) ** exponent
    elif found["suffix"] in _BINARY:
        number *= 1 << _BINARY[found["suffix"]]
    else:
        number *= Fraction(10) ** _DECIMAL[found["suffix"]]
    return -number if found["sign"] == "-" else number


@lru_cache(maxsize=4096, typed=True)
def whole(resource: str, value: str | float, field: str = "quantity") -> int:
    """Convert a quantity to its resource's unit, rounded up: cpu in millicores, all others in their own unit.

    Raises:
        QuantityError: the value is not a quantity, or it is negative.
    """
    number = parse_quantity(value, field)
    if number < 0:
        raise QuantityError(field, value, "must be greater than or equal to 0")
    if resource == CPU:
        number *= MILLI
    return -(-number.numerator // number.denominator)


def whole_amounts(amounts: Mapping[str, Any] | None, path: str) -> dict[str, int]:
    """Convert each resource of a list of requests, limits or capacities as `whole` does.

    Raises:
        QuantityError: one of them is invalid; the field is `path[resource]`.
    """
    result = {}
    for resource, value in (amounts or {}).items():
        try:
            result[resource] = whole(resource, value, f"{path}[{resource}]")
        except TypeError:  # a list or an object cannot be hashed
            raise QuantityError(f"{path}[{resource}]", value, RULE) from None
    return result


def thousandths(value: Any, path: str, resource: str) -> int:
    """Convert a quantity to thousandths of its unit, the smallest part that Kubernetes stores, rounded up.

    Raises:
        QuantityError: the value is not a quantity, or it is negative. The field is `path[resource]`.
    """
    try:
        return whole(CPU, value)
    except TypeError:  # a list or an object cannot be hashed
        raise QuantityError(f"{path}[{resource}]", value, RULE) from None
    except QuantityError as error:
        raise QuantityError(f"{path}[{resource}]", value, error.rule) from None


def units_of(resource: str, amount: int) -> int:
    """Return an amount in thousandths in its resource's unit, rounded up, as `whole` does."""
    return amount if resource == CPU else -(-amount // MILLI)


def canonical_text(value: str | float) -> str:
    """Format a quantity as Kubernetes shows it: `200m` for `0.2`, `1Gi` for `1024Mi`, `2` for `2000m`.

    Raises:
        QuantityError: the value is not a quantity.
    """
    number, text = parse_quantity(value), str(value)
    if text.endswith("i") and number.denominator == 1 and abs(number) >= _KIBI:
        power = max(bits for bits in (0, *_BINARY.values()) if number % (1 << bits) == 0)
        suffix = next((name for name, bits in _BINARY.items() if bits == power), "")
        return f"{int(number) >> power}{suffix}"
    if number == 0:
        return "0"
    number *= Fraction(10) ** -_SMALLEST
    mantissa, power = -(-number.numerator // number.denominator), _SMALLEST
    while mantissa % 1000 == 0 and power < _LARGEST:
        mantissa, power = mantissa // 1000, power + 3
    if re.search(r"[eE][+-]?[0-9]", text):
        return f"{mantissa}e{power}" if power else str(mantissa)
    return f"{mantissa}{next(suffix for suffix, exponent in _DECIMAL.items() if exponent == power)}"


def amount_text(resource: str, amount: int) -> str:
    """Format an amount in whole units as people write it: `1500m` or `2` for cpu, `512Mi` for resources in bytes."""
    if resource == CPU:
        return f"{amount}m" if amount % MILLI else str(amount // MILLI)
    if resource in {MEMORY, "ephemeral-storage"} or resource.startswith("hugepages-"):
        for suffix, bits in reversed(_BINARY.items()):
            if amount and amount % (1 << bits) == 0:
                return f"{amount >> bits}{suffix}"
    return str(amount)


def is_extended(resource: str) -> bool:
    """Return whether a resource's name has a domain outside `kubernetes.io`, such as `nvidia.com/gpu`."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


NANOSECONDS: Final = 1_000_000_000
"""Nanoseconds in a second. Go's durations are counted in nanoseconds."""

INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)
_INT64_DIGITS: Final = 19

# Canonical: no plus sign, no leading zeros, no minus zero, ASCII digits only.
_CANONICAL_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")


def canonical_int64(text: str) -> int | None:
    """Parse a canonical 64-bit integer. Returns None for any other text, such as `007`, `+5` or `-0`."""
    if len(text) > _INT64_DIGITS + 1 or not _CANONICAL_INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if _INT64_MIN <= number <= INT64_MAX else None


def wrapped(number: int) -> int:
    """Wrap the number around to a signed 64-bit integer, as Go's arithmetic does."""
    return (number + 2**63) % 2**64 - 2**63
