"""The functions over sets: lists whose order and repetitions do not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moorage.decide.kubernetes.cel.declarations import Frame, Overload, function
from moorage.decide.kubernetes.cel.functions.standard import contains
from moorage.decide.kubernetes.cel.types import BOOL, A, list_of
from moorage.decide.kubernetes.cel.values import Value


def _contains(frame: Frame, whole: list[Value], part: list[Value]) -> bool:
    return all(contains(frame, one, whole) for one in part)


def _equivalent(frame: Frame, one: list[Value], other: list[Value]) -> bool:
    return _contains(frame, one, other) and _contains(frame, other, one)


def _intersects(frame: Frame, one: list[Value], other: list[Value]) -> bool:
    return any(contains(frame, element, other) for element in one)


def _product(arguments: Sequence[Value]) -> int:
    return 1 + len(arguments[0]) * len(arguments[1])


def _both_ways(arguments: Sequence[Value]) -> int:
    return 1 + 2 * len(arguments[0]) * len(arguments[1])


_LISTS: Final = (list_of(A), list_of(A))

OVERLOADS: Final[tuple[Overload, ...]] = (
    function("sets.contains", _LISTS, BOOL, _contains, _product, metered=True),
    function("sets.equivalent", _LISTS, BOOL, _equivalent, _both_ways, metered=True),
    function("sets.intersects", _LISTS, BOOL, _intersects, _product, metered=True),
)
