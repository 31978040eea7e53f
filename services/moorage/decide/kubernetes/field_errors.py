"""Errors of fields in the format of the Kubernetes API: path, value, rule."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ErrorKind(StrEnum):
    """The kind of a field error. The value is the cause's `reason` in a Kubernetes Status."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TYPE_INVALID = "FieldValueTypeInvalid"

    @property
    def words(self) -> str:
        """The text before the value in the message."""
        return _TITLES[self]


_TITLES = {
    ErrorKind.REQUIRED: "Required value",
    ErrorKind.INVALID: "Invalid value",
    ErrorKind.NOT_SUPPORTED: "Unsupported value",
    ErrorKind.DUPLICATE: "Duplicate value",
    ErrorKind.FORBIDDEN: "Forbidden",
    ErrorKind.TOO_LONG: "Too long",
    ErrorKind.TYPE_INVALID: "Invalid value",
}
# Kinds whose message does not repeat the value.
_WITHOUT_VALUE = frozenset({ErrorKind.REQUIRED, ErrorKind.FORBIDDEN, ErrorKind.TOO_LONG})

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:  # noqa: PLR2004 - the end of ASCII
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - the basic plane's end


def quote(text: str) -> str:
    """Quote the text with the escapes of Go's `strconv.Quote`, as Kubernetes' messages do."""
    return '"' + "".join(map(_escaped, text)) + '"'


@dataclass(frozen=True, slots=True)
class FieldError:
    """One rule that one field breaks. `str()` returns Kubernetes' message.

    Attributes:
        path: the path of the field, such as `spec.tolerations[0].operator`.
        kind: the kind of error.
    """

    path: str
    kind: ErrorKind
    value: Any
    detail: str

    @property
    def body(self) -> str:
        """The message without the path, as in the causes of a Status."""
        text = self.kind.words
        if self.kind not in _WITHOUT_VALUE:
            shown = (
                quote(self.value)
                if isinstance(self.value, str)
                else json.dumps(self.value, separators=(",", ":"), ensure_ascii=False, default=str)
            )
            text = f"{text}: {shown}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


def required(path: str, detail: str = "") -> FieldError:
    """Return the error for a field that is missing or empty."""
    return FieldError(path, ErrorKind.REQUIRED, "", detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """Return the error for a value that breaks the rule in `detail`."""
    return FieldError(path, ErrorKind.INVALID, value, detail)


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Return the error for a value that is not one of the `supported` ones."""
    names = ", ".join(map(quote, supported))
    return FieldError(path, ErrorKind.NOT_SUPPORTED, value, f"supported values: {names}" if names else "")


def duplicate(path: str, value: Any, detail: str = "") -> FieldError:
    """Return the error for a value that occurs twice."""
    return FieldError(path, ErrorKind.DUPLICATE, value, detail)


def forbidden(path: str, detail: str) -> FieldError:
    """Return the error for a field that may not be set here."""
    return FieldError(path, ErrorKind.FORBIDDEN, None, detail)
