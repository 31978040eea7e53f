"""64-bit integers as Go and the Kubernetes API have them: what text is one, and what overflow makes of one."""

from __future__ import annotations

import re
from typing import Final

NANOSECONDS: Final = 1_000_000_000
"""Of a second: Go's durations count them."""

INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)
_INT64_DIGITS: Final = 19

# Canonical: no plus sign, no leading zeros, no minus zero; ASCII digits only.
_CANONICAL_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")


def canonical_int64(text: str) -> int | None:
    """The integer that `text` writes canonically within 64 bits, else None (so `007`, `+5`, `-0` are none)."""
    if len(text) > _INT64_DIGITS + 1 or not _CANONICAL_INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if _INT64_MIN <= number <= INT64_MAX else None


def wrapped(number: int) -> int:
    """The number cut to a signed 64-bit one, as Go's arithmetic does."""
    return (number + 2**63) % 2**64 - 2**63
