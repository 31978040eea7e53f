"""Documents from the text of a request: JSON or YAML, with the keys that occur twice.

Upstream's decoder takes the last of two fields of one name, and reports the field. An object in which that has happened
is `Repeating`: it has all that was written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from moorage.apiserver.machinery.openapi.json_values import DEEPEST, INTEGERS, TOO_DEEP, ParseError

_LONGEST_EXCERPT: Final = 30
_MOST_VALUES: Final = 1_000_000
"""The values of a document after its aliases are written out. A YAML document of a few lines may have billions."""


class Repeating(dict[str, Any]):
    """An object in which a key occurs more than once. As a dict it has the last value of each."""

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        self.pairs = list(pairs)
        """Every key with its value, in the order of the text."""
        super().__init__(self.pairs)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document, and what a text of its format may not contain but was taken all the same."""

    document: Any
    problems: tuple[str, ...] = field(default=())
    """The keys that occur twice in YAML, with their lines. Those of JSON are in the document, as `Repeating`."""


def parse(body: bytes, *, is_yaml: bool = False) -> Parsed:
    """Return the document in a request's body. Of YAML, which may as well be JSON, only the first document is read.

    Raises:
        ParseError: it is not of the format, is nested too deeply, or stands for too many values.
    """
    if is_yaml:
        from moorage.apiserver.machinery.openapi import yaml_documents  # noqa: PLC0415  # YAML loads slowly, and most bodies are JSON

        found = Parsed(*yaml_documents.read(body))
    else:
        found = Parsed(_from_json(body))
    # Numbers of JSON are checked while they are read, and only an escape can be half of a character.
    _measure(found.document, is_checked=not is_yaml and b"\\u" not in body)
    return found


def excerpt(body: bytes) -> str:
    """Return the beginning of a body as messages show it: text if it looks like an object, else hexadecimal."""
    if not body:
        return "<empty>"
    begin = body[:_LONGEST_EXCERPT]
    text = begin.decode("utf-8", "replace") if body.startswith(b"{") else begin.hex()
    return text if begin == body else f"{text} ..."


def _from_json(body: bytes) -> Any:
    try:
        return json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_no_constant,
        )
    except UnicodeDecodeError as error:
        _from_json_before(body[: error.start])
        raise ParseError(f"json parse error: invalid UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ParseError(f"json parse error: {_syntax(error)}") from None
    except RecursionError:
        raise ParseError(TOO_DEEP) from None


def _from_json_before(body: bytes) -> None:
    """Refuse what is wrong in a text before its first byte that is no UTF-8."""
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        if (flaw := _syntax(error)) != _ENDS_EARLY:
            raise ParseError(f"json parse error: {flaw}") from None


_ENDS_EARLY: Final = "unexpected end of JSON input"
_EXPECTED: Final = {
    "Extra data": "after top-level value",
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
}


def _syntax(error: json.JSONDecodeError) -> str:
    rest = error.doc[error.pos :].lstrip()
    if not rest or error.msg.startswith("Unterminated"):
        return _ENDS_EARLY
    where = next((ours for theirs, ours in _EXPECTED.items() if error.msg.startswith(theirs)), error.msg)
    return f"invalid character {rest[0]!r} {where}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeating(pairs)


def _integer(text: str) -> int | float:
    """Return an integer of 64 bits, or else the nearest number, as upstream reads an untyped number."""
    if len(text) < len("-9223372036854775808"):
        return int(text)
    exact = float(text)
    if math.isinf(exact):
        raise ParseError(f"json: cannot unmarshal number {text[:_LONGEST_EXCERPT]} into Go value of type float64")
    return whole if abs(exact) < 2**64 and (whole := int(text)) in INTEGERS else exact


def _number(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise ParseError(f"json: cannot unmarshal number {text[:_LONGEST_EXCERPT]} into Go value of type float64")
    return found


def _no_constant(text: str) -> Any:
    raise ParseError(f"json parse error: invalid character {text[0]!r} looking for beginning of value")


_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _measure(document: Any, *, is_checked: bool) -> None:
    """Refuse what is too deep, or is too large once its aliases are written out, and what JSON cannot express."""
    level: list[Any] = [document]
    values = 0
    for _ in range(DEEPEST + 1):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
                if not is_checked:
                    _check(*one)
            elif isinstance(one, list):
                inner += one
            elif not is_checked:
                _check(one)
            if len(inner) + values > _MOST_VALUES:
                raise ParseError("yaml: document contains excessive aliasing")
        values += len(inner)
        if not inner:
            return
        level = inner
    raise ParseError(TOO_DEEP)


def _check(*values: Any) -> None:
    """Refuse a text or a number that cannot be written as JSON."""
    for value in values:
        if isinstance(value, str) and _LONE_SURROGATE.search(value):
            raise ParseError("json parse error: half of a surrogate pair in a string")
        if isinstance(value, float) and not math.isfinite(value):
            name = "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
            raise ParseError(f"json: unsupported value: {name}")
        if isinstance(value, int) and value not in INTEGERS:
            raise ParseError(f"json: unsupported value: an integer of {value.bit_length()} bits")
