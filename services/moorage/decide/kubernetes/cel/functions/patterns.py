"""Regular expressions. As upstream's, RE2 takes a time that is linear in the text."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any, Final

import re2

from moorage.decide.kubernetes.cel.declarations import Frame, charge, method
from moorage.decide.kubernetes.cel.types import INT, STRING, list_of
from moorage.decide.kubernetes.cel.values import CelError

_MEMORY: Final = 2 * 1_048_576
"""Bytes that a compiled pattern may take. A larger one is an error, as a repetition of more than 1,000 is."""

_PATTERNS: Final = 1024
"""How many compiled patterns are kept."""

_COMPILING: Final = 1_000
"""The work of looking up or compiling a pattern, for each character of it."""

_STEPS: Final = 5
"""How many steps of a pattern are as much work as reading a character."""


def _options() -> Any:
    found = re2.Options()
    found.max_mem = _MEMORY
    found.log_errors = False
    return found


@lru_cache(maxsize=_PATTERNS)
def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        return CelError(f"error parsing regexp: {error}")


def problem(pattern: str) -> str:
    """Return what is wrong with a pattern. Empty if nothing is."""
    found = _compiled(pattern)
    return str(found) if isinstance(found, CelError) else ""


def _pattern(frame: Frame, text: str, pattern: str) -> Any:
    """Return a compiled pattern for a text.

    Raises:
        CelError: the pattern is invalid.
    """
    charge(frame, _COMPILING * len(pattern) // 10)
    found = _compiled(pattern)
    if isinstance(found, CelError):
        raise CelError(str(found))
    charge(frame, (len(text) + 1) * (1 + found.programsize // _STEPS))
    return found


def matches(frame: Frame, text: str, pattern: str) -> bool:
    """Return whether a text contains a match of a pattern."""
    return _pattern(frame, text, pattern).search(text) is not None


def _find(frame: Frame, text: str, pattern: str) -> str:
    found = _pattern(frame, text, pattern).search(text)
    return str(found[0]) if found else ""


def _find_all(frame: Frame, text: str, pattern: str, limit: int = -1) -> list[str]:
    found = _pattern(frame, text, pattern).finditer(text)
    return [str(one[0]) for one in (found if limit < 0 else itertools.islice(found, limit))]


OVERLOADS: Final = (
    method("find", (STRING, STRING), STRING, _find, metered=True),
    method("findAll", (STRING, STRING), list_of(STRING), _find_all, metered=True),
    method("findAll", (STRING, STRING, INT), list_of(STRING), _find_all, metered=True),
)
