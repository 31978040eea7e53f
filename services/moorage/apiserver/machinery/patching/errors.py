"""Errors of a patch, in the form of the API's `Status`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

BAD_REQUEST: Final = "BadRequest"
CONFLICT: Final = "Conflict"
INVALID: Final = "Invalid"
TOO_LARGE: Final = "RequestEntityTooLarge"

_LEAST_PLAIN: Final = -4
_LEAST_WITH_EXPONENT: Final = 6
"""Powers of ten from which on numbers are written without an exponent, and with one."""


@dataclass(frozen=True, slots=True)
class PatchCause:
    """One cause of a refusal: the reason, the message, and the field."""

    reason: str
    message: str
    field: str


class PatchError(ValueError):
    """A patch that cannot be applied, with the contents of its `Status`.

    Kubernetes answers some mistakes of a client with 500, since its code does not separate them from its own. Here
    they are 400, with the same message (deviation `bad-patch-is-the-clients`).
    """

    def __init__(self, code: int, reason: str, message: str, causes: tuple[PatchCause, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        """The HTTP status: 400, 409, 413 or 422."""

        self.reason = reason
        self.message = message
        self.causes = causes


def bad_patch(message: str) -> PatchError:
    """400: the patch cannot be understood, or does not fit the object."""
    return PatchError(400, BAD_REQUEST, message)


def unprocessable() -> PatchError:
    """422: the patch is well formed, but cannot be applied to this object. Kubernetes gives no reason."""
    return PatchError(422, INVALID, "the server rejected our request due to an error in our request")


def shown(value: Any) -> str:
    """Return a JSON value in the form in which the messages of Kubernetes show it: `map[name:a ports:[80 443]]`."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{shown(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(shown, value))}]"
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    """Return a number with as many digits as it needs, and with an exponent from a million on: `1.5`, `1e+06`."""
    if not math.isfinite(value):
        return str(value)
    sign, digits, _ = (exact := Decimal(repr(value)).normalize()).as_tuple()
    power = exact.adjusted() if value else 0
    if _LEAST_PLAIN <= power < _LEAST_WITH_EXPONENT:
        return f"{exact:f}"
    first, *rest = map(str, digits)
    fraction = f".{''.join(rest)}" if rest else ""
    return f"{'-' if sign else ''}{first}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def quoted(text: str) -> str:
    """Return a text in double quotes, as the messages of Kubernetes show it."""
    return json.dumps(text, ensure_ascii=False)


def type_name(value: Any) -> str:
    """Return the type of a JSON value, as the messages of Kubernetes name it."""
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    return "[]interface {}" if isinstance(value, list) else "map[string]interface {}"
