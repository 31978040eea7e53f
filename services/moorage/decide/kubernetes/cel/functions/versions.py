"""Semantic versions. As in OCM's environment, `semver` takes no second argument."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from moorage.decide.kubernetes.cel.declarations import Overload, function, method
from moorage.decide.kubernetes.cel.types import BOOL, INT, STRING, Type
from moorage.decide.kubernetes.cel.values import UINT_MAX, CelError, Opaque

SEMVER: Final = Type("kubernetes.Semver")

_NUMBER: Final = "0|[1-9][0-9]*"
_WORD: Final = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_WORD}(?:\.{_WORD})*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)
_LONGEST: Final = 1024


@dataclass(frozen=True, slots=True)
class SemanticVersion(Opaque):
    """A semantic version. Its key sorts a pre-release before its release, and numbers before words."""

    key: tuple[Any, ...]

    @property
    def kind(self) -> str:  # type: ignore[override]  # every version has this kind
        """The name of the type."""
        return SEMVER.name

    @override
    def same(self, other: Opaque) -> bool:
        return self == other


def _parsed(text: str) -> SemanticVersion:
    found = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise CelError(f"{text!r} is no semantic version")
    numbers = tuple(int(found[place]) for place in (1, 2, 3))
    pre = [(0, int(one), "") if one.isdecimal() else (1, 0, one) for one in found[4].split(".")] if found[4] else []
    if max(*numbers, *(one[1] for one in pre)) > UINT_MAX:
        raise CelError(f"{text!r} is no semantic version: a number is too large")
    return SemanticVersion((*numbers, not pre, tuple(pre)))


def _is_version(text: str) -> bool:
    try:
        _parsed(text)
    except CelError:
        return False
    return True


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("semver", (STRING,), SEMVER, _parsed),
    function("isSemver", (STRING,), BOOL, _is_version),
    method("isGreaterThan", (SEMVER, SEMVER), BOOL, lambda one, other: one.key > other.key),
    method("isLessThan", (SEMVER, SEMVER), BOOL, lambda one, other: one.key < other.key),
    method("compareTo", (SEMVER, SEMVER), INT, lambda one, other: (one.key > other.key) - (one.key < other.key)),
    method("major", (SEMVER,), INT, lambda version: _signed(version.key[0])),
    method("minor", (SEMVER,), INT, lambda version: _signed(version.key[1])),
    method("patch", (SEMVER,), INT, lambda version: _signed(version.key[2])),
)


def _signed(number: int) -> int:
    """Return a number as upstream converts it."""
    return number - 2**64 if number >= 2**63 else number
