"""The extended functions on texts, except for `format`."""

from __future__ import annotations

import string
from typing import Final

from moorage.decide.kubernetes.cel.declarations import (
    Frame,
    Overload,
    charge,
    checked_list,
    checked_text,
    function,
    method,
    reading,
)
from moorage.decide.kubernetes.cel.types import INT, STRING, list_of
from moorage.decide.kubernetes.cel.values import CelError

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""The characters that Go takes for space."""

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_QUOTED: Final = str.maketrans(
    {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\""}
)


def _out_of_range(place: int) -> CelError:
    return CelError(f"index out of range: {place}")


def _char_at(text: str, place: int) -> str:
    if not 0 <= place <= len(text):
        raise _out_of_range(place)
    return text[place : place + 1]


def _index_of(frame: Frame, text: str, part: str, start: int = 0) -> int:
    charge(frame, len(text))
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start)


def _last_index_of(frame: Frame, text: str, part: str, end: int | None = None) -> int:
    charge(frame, len(text))
    if not part:
        return len(text) if end is None else end
    if end is None:
        return text.rfind(part)
    if end < 0:
        raise _out_of_range(end)
    return -1 if end >= len(text) else text.rfind(part, 0, end + len(part))


def _replace(frame: Frame, text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    checked_text(frame, len(text) + count * (len(new) - len(old)))
    charge(frame, len(text))
    return text.replace(old, new, count)


def _split(frame: Frame, text: str, separator: str, limit: int = -1) -> list[str]:
    charge(frame, len(text))
    if limit == 0:
        return []
    if not separator:
        checked_list(frame, len(text))
        if limit < 0 or limit >= len(text):
            return list(text)
        return [*text[: limit - 1], text[limit - 1 :]]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end is not None and end > len(text):
        raise _out_of_range(end)
    return text[start:end]


def _lower(frame: Frame, text: str) -> str:
    charge(frame, len(text))
    return text.translate(_LOWER)


def _upper(frame: Frame, text: str) -> str:
    charge(frame, len(text))
    return text.translate(_UPPER)


def _trim(frame: Frame, text: str) -> str:
    charge(frame, len(text))
    return text.strip(_SPACE)


def _reverse(frame: Frame, text: str) -> str:
    charge(frame, len(text))
    return text[::-1]


def _join(frame: Frame, parts: list[str], separator: str = "") -> str:
    charge(frame, len(parts))
    for part in parts:
        if type(part) is not str:
            raise CelError("join: invalid input")
    checked_text(frame, sum(map(len, parts)) + len(separator) * max(0, len(parts) - 1))
    return separator.join(parts)


def _quote(frame: Frame, text: str) -> str:
    checked_text(frame, len(text))
    return f'"{text.translate(_QUOTED)}"'


_TEXTS: Final = list_of(STRING)

OVERLOADS: Final[tuple[Overload, ...]] = (
    method("charAt", (STRING, INT), STRING, _char_at),
    method("indexOf", (STRING, STRING), INT, _index_of, metered=True),
    method("indexOf", (STRING, STRING, INT), INT, _index_of, metered=True),
    method("lastIndexOf", (STRING, STRING), INT, _last_index_of, metered=True),
    method("lastIndexOf", (STRING, STRING, INT), INT, _last_index_of, metered=True),
    method("lowerAscii", (STRING,), STRING, _lower, metered=True),
    method("upperAscii", (STRING,), STRING, _upper, metered=True),
    method("replace", (STRING, STRING, STRING), STRING, _replace, metered=True),
    method("replace", (STRING, STRING, STRING, INT), STRING, _replace, metered=True),
    method("split", (STRING, STRING), _TEXTS, _split, metered=True),
    method("split", (STRING, STRING, INT), _TEXTS, _split, metered=True),
    method("substring", (STRING, INT), STRING, _substring),
    method("substring", (STRING, INT, INT), STRING, _substring),
    method("trim", (STRING,), STRING, _trim, metered=True),
    method("reverse", (STRING,), STRING, _reverse, metered=True),
    method("join", (_TEXTS,), STRING, _join, metered=True),
    method("join", (_TEXTS, STRING), STRING, _join, metered=True),
    function("strings.quote", (STRING,), STRING, _quote, reading, metered=True),
)
