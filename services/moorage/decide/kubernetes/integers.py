"""64-bit integers as in Go and the Kubernetes API: parsing and overflow."""

from __future__ import annotations

import re
from typing import Final

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
