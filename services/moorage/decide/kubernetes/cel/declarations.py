"""Declarations of functions: which types they take and return, how they are computed, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from moorage.decide.kubernetes.cel.types import Type
from moorage.decide.kubernetes.cel.values import LimitError, Value, size_of

Run = Callable[..., Value]
Cost = Callable[[Sequence[Value]], int]
"""Returns the cost of a call from its arguments."""

Frame = list[Value]
"""The counters and variables of an evaluation: `COST`, `WORK`, `SCORES`, `LAZY`, then variables."""

COST, WORK, SCORES, LAZY, VARIABLES = range(5)

WORK_LIMIT: Final = 1_000_000
"""How much work an evaluation may do that has no cost upstream. A unit takes as long as a unit of cost."""

LONGEST_TEXT: Final = 1_000_000
"""How many characters a text may have that an expression builds."""

LONGEST_LIST: Final = 100_000
"""How many elements a list may have that an expression builds."""

_PER_UNIT: Final = 10


class Overload(NamedTuple):
    """One signature of a function.

    Attributes:
        function: the name under which expressions call it.
        id: upstream's name of the signature.
        takes: the types of its arguments, the receiver first.
        returns: the type of its result.
        run: computes it. If it is `metered`, the first argument is the evaluation's frame.
        member: whether it is called as a method of its first argument.
        cost: the cost of a call. 1 if there is none.
        metered: whether it counts its own work.
        guarded: whether the types of its arguments are checked before it is called.
    """

    function: str
    id: str
    takes: tuple[Type, ...]
    returns: Type
    run: Run
    member: bool = False
    cost: Cost | None = None
    metered: bool = False
    guarded: bool = True


def method(
    name: str, takes: Sequence[Type], returns: Type, run: Run, cost: Cost | None = None, *, metered: bool = False
) -> Overload:
    """Declare a method."""
    return Overload(name, name, tuple(takes), returns, run, member=True, cost=cost, metered=metered)


def function(
    name: str, takes: Sequence[Type], returns: Type, run: Run, cost: Cost | None = None, *, metered: bool = False
) -> Overload:
    """Declare a function."""
    return Overload(name, name, tuple(takes), returns, run, cost=cost, metered=metered)


def tenth(size: int) -> int:
    """Return the cost of going through a text."""
    return math.ceil(size * 0.1)


def reading(arguments: Sequence[Value]) -> int:
    """Return the cost of going through the first argument."""
    return tenth(size_of(arguments[0]))


def smaller(arguments: Sequence[Value]) -> int:
    """Return the cost of comparing two values."""
    return tenth(min(size_of(arguments[0]), size_of(arguments[1])))


def both(arguments: Sequence[Value]) -> int:
    """Return the cost of joining two values."""
    return tenth(size_of(arguments[0]) + size_of(arguments[1]))


def searching(arguments: Sequence[Value]) -> int:
    """Return the cost of looking for a text in another."""
    return tenth(size_of(arguments[0])) * tenth(size_of(arguments[1]))


def matching(arguments: Sequence[Value]) -> int:
    """Return the cost of matching a text with a pattern."""
    return math.ceil((1.0 + size_of(arguments[0])) * 0.1) * math.ceil(size_of(arguments[1]) * 0.25)


def charge(frame: Frame, amount: int) -> None:
    """Count work on some characters or elements.

    Raises:
        LimitError: the evaluation does too much.
    """
    frame[WORK] += 1 + amount // _PER_UNIT
    if frame[WORK] > WORK_LIMIT:
        raise LimitError(f"the evaluation takes more than {WORK_LIMIT} units of work")


def checked_text(frame: Frame, length: int) -> None:
    """Count the work of building a text, before it is built.

    Raises:
        LimitError: it becomes too long.
    """
    charge(frame, length)
    if length > LONGEST_TEXT:
        raise LimitError(f"a text has more than {LONGEST_TEXT} characters")


def checked_list(frame: Frame, length: int) -> None:
    """Count the work of building a list, before it is built.

    Raises:
        LimitError: it becomes too long.
    """
    charge(frame, length)
    if length > LONGEST_LIST:
        raise LimitError(f"a list has more than {LONGEST_LIST} elements")
