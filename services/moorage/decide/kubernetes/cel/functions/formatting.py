"""`format` on texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from moorage.decide.kubernetes.cel.declarations import Frame, Overload, checked_text, method, reading
from moorage.decide.kubernetes.cel.functions.numbers import fixed_text, special
from moorage.decide.kubernetes.cel.functions.times import duration_text, time_text
from moorage.decide.kubernetes.cel.types import DYN, STRING, list_of
from moorage.decide.kubernetes.cel.values import (
    CelError,
    Domains,
    Duration,
    LimitError,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    kind_of,
    value_of,
)

_CLAUSE: Final = re.compile(r"(?:\.([0-9]*))?(.)?", re.DOTALL)
_PRECISE: Final = 100
"""The most digits after the point."""

_NUMBERS: Final = frozenset({"int", "uint", "double"})
_FOR_TEXTS: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps"
)
CLAUSES: Final[dict[str, tuple[frozenset[str], str]]] = {
    "s": (
        frozenset({"string", "bool", "bytes", *_NUMBERS, "map", "list", "type", "null_type"})
        | {"google.protobuf.Duration", "google.protobuf.Timestamp"},
        _FOR_TEXTS,
    ),
    "d": (_NUMBERS, "decimal clause can only be used on ints, uints, and doubles"),
    "f": (_NUMBERS, "fixed-point clause can only be used on ints, uints, and doubles"),
    "e": (_NUMBERS, "scientific clause can only be used on ints, uints, and doubles"),
    "b": (frozenset({"bool", "int", "uint"}), "only ints, uints, and bools can be formatted as binary"),
    "x": (
        frozenset({"int", "uint", "string", "bytes"}),
        "only ints, uints, bytes, and strings can be formatted as hex",
    ),
    "X": (
        frozenset({"int", "uint", "string", "bytes"}),
        "only ints, uints, bytes, and strings can be formatted as hex",
    ),
    "o": (frozenset({"int", "uint"}), "octal clause can only be used on ints and uints"),
}
"""The types that each clause takes, and the error for others."""


class FormatClause(NamedTuple):
    """A clause such as `%.3f`, or a text between clauses. `kind` is empty for a text."""

    text: str
    kind: str = ""
    precision: int = 6


def clauses(form: str) -> Iterator[FormatClause]:
    """Yield the parts of a format. An invalid part is an error when it is reached.

    Raises:
        CelError: the format is invalid.
    """
    place = 0
    while place < len(form):
        at = form.find("%", place)
        if at != place:
            yield FormatClause(form[place : at if at >= 0 else len(form)])
            place = at if at >= 0 else len(form)
            continue
        if form.startswith("%%", place):
            yield FormatClause("%")
            place += 2
            continue
        found = _CLAUSE.match(form, place + 1)
        if found is None or found[2] is None:
            yield FormatClause("", "end")
            return
        yield FormatClause("", found[2], _precision(found[1]))
        place = found.end()


def _precision(digits: str | None) -> int:
    if digits is None:
        return 6
    if not digits or len(digits) > 18:  # noqa: PLR2004 - the digits of a whole number
        return -1
    return int(digits)


def check_clause(clause: FormatClause) -> str:
    """Return what is wrong with a clause. Empty if nothing is."""
    if clause.kind == "end":
        return "unexpected end of string"
    if clause.precision < 0:
        return "could not parse formatting clause: error while parsing precision"
    if clause.kind not in CLAUSES:
        return f'could not parse formatting clause: unrecognized formatting clause "{clause.kind}"'
    return ""


def _format(frame: Frame, form: str, arguments: list[Value]) -> str:
    parts: list[str] = []
    taken = 0
    for clause in clauses(form):
        if not clause.kind:
            parts.append(clause.text)
            continue
        if taken >= len(arguments):
            raise CelError(f"index {taken} out of range")
        if problem := check_clause(clause):
            raise CelError(problem)
        kinds, rule = CLAUSES[clause.kind]
        value = arguments[taken]
        if kind_of(value) not in kinds:
            raise CelError(f"error during formatting: {rule}, was given {kind_of(value)}")
        parts.append(_formatted(frame, clause, value))
        taken += 1
        checked_text(frame, sum(map(len, parts)))
    return "".join(parts)


def _formatted(frame: Frame, clause: FormatClause, value: Value) -> str:
    kind = clause.kind
    if kind == "s":
        return _shown(frame, value)
    if kind == "d":
        return (special(value) or fixed_text(value)) if type(value) is float else str(int(value))
    if kind in {"f", "e"}:
        return _decimal(clause, value)
    if isinstance(value, int):
        return format(int(value), kind)
    found = (value.encode() if isinstance(value, str) else value).hex()
    checked_text(frame, len(found))
    return found if kind == "x" else found.upper()


def _decimal(clause: FormatClause, value: Value) -> str:
    if type(value) is not float:
        # Upstream formats a whole number with a verb for floats, which Go answers with this text.
        name = "uint64" if type(value) is Uint else "int64"
        return f"%!{clause.kind}({name}={_padded(int(value), clause.precision)})"
    if found := special(value):
        return found
    if clause.precision > _PRECISE:
        raise LimitError(f"more than {_PRECISE} digits after the point")
    return format(value, f".{clause.precision}{clause.kind}")


def _padded(value: int, precision: int) -> str:
    if precision > _PRECISE:
        raise LimitError(f"more than {_PRECISE} digits")
    digits = str(abs(value)).rjust(precision, "0") if value or precision else ""
    return f"-{digits}" if value < 0 else digits


_SHOWN: Final[dict[type, Callable[[Value], str]]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    Uint: lambda value: str(int(value)),
    float: lambda value: special(value) or fixed_text(value),
    str: lambda value: value,
    bytes: lambda value: value.decode(errors="replace"),
    type(None): lambda _value: "null",
    TypeValue: lambda value: value.name,
    Duration: duration_text,
    Timestamp: lambda value: time_text(value, utc=True),
}


def _shown(frame: Frame, value: Value) -> str:
    kind = type(value)
    if kind in _SHOWN:
        found = _SHOWN[kind](value)
    elif kind is list:
        found = f"[{', '.join(_shown(frame, one) for one in value)}]"
    elif kind in (dict, Domains):
        entries = sorted((_shown(frame, value_of(key)), _shown(frame, one)) for key, one in value.items())
        found = f"{{{', '.join(f'{key}: {one}' for key, one in entries)}}}"
    else:
        raise CelError(f"error during formatting: {CLAUSES['s'][1]}, was given {kind_of(value)}")
    checked_text(frame, len(found))
    return found


OVERLOADS: Final[tuple[Overload, ...]] = (
    method("format", (STRING, list_of(DYN)), STRING, _format, reading, metered=True),
)
