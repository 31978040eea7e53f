"""Semantic versions."""

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
_LOOSE: Final = re.compile(r"(?P<major>[0-9]+)(?:\.(?P<minor>[0-9]+)(?:\.(?P<patch>[0-9]+))?)?(?P<rest>(?:[-+].*)?)")
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


def version_of(text: str) -> SemanticVersion:
    """Parse a version.

    Raises:
        CelError: the text is no version.
    """
    found = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise CelError(f"{text!r} is no semantic version")
    numbers = tuple(int(found[place]) for place in (1, 2, 3))
    pre = [(0, int(one), "") if one.isdecimal() else (1, 0, one) for one in found[4].split(".")] if found[4] else []
    if max(*numbers, *(one[1] for one in pre)) > UINT_MAX:
        raise CelError(f"{text!r} is no semantic version: a number is too large")
    return SemanticVersion((*numbers, not pre, tuple(pre)))


def _normalized(text: str, normalize: bool) -> SemanticVersion:  # noqa: FBT001 - CEL has no named arguments
    """Parse a version. With `normalize`, a `v` in front, missing numbers and zeros in front are allowed."""
    if not normalize:
        return version_of(text)
    found = _LOOSE.fullmatch(text.removeprefix("v")) if len(text) <= _LONGEST else None
    if found is None:
        raise CelError(f"{text!r} is no semantic version")
    numbers = ".".join(str(int(found[place] or 0)) for place in ("major", "minor", "patch"))
    return version_of(numbers + found["rest"])


def _is_normalized(text: str, normalize: bool) -> bool:  # noqa: FBT001 - CEL has no named arguments
    try:
        _normalized(text, normalize)
    except CelError:
        return False
    return True


def _is_version(text: str) -> bool:
    try:
        version_of(text)
    except CelError:
        return False
    return True


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("semver", (STRING,), SEMVER, version_of),
    function("isSemver", (STRING,), BOOL, _is_version),
    method("isGreaterThan", (SEMVER, SEMVER), BOOL, lambda one, other: one.key > other.key),
    method("isLessThan", (SEMVER, SEMVER), BOOL, lambda one, other: one.key < other.key),
    method("compareTo", (SEMVER, SEMVER), INT, lambda one, other: (one.key > other.key) - (one.key < other.key)),
    method("major", (SEMVER,), INT, lambda version: _signed(version.key[0])),
    method("minor", (SEMVER,), INT, lambda version: _signed(version.key[1])),
    method("patch", (SEMVER,), INT, lambda version: _signed(version.key[2])),
)

"""The functions as OCM's environment has them."""

NORMALIZED: Final[tuple[Overload, ...]] = (
    function("semver", (STRING, BOOL), SEMVER, _normalized),
    function("isSemver", (STRING, BOOL), BOOL, _is_normalized),
)
"""The further functions of later environments."""


def _signed(number: int) -> int:
    """Return a number as upstream converts it."""
    return number - 2**64 if number >= 2**63 else number
