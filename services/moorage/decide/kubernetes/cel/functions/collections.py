"""Kubernetes' functions on lists, and those of optional values."""

from __future__ import annotations

from typing import Final

from moorage.decide.kubernetes.cel.declarations import Frame, Overload, Run, charge, function, method
from moorage.decide.kubernetes.cel.functions import standard
from moorage.decide.kubernetes.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
)
from moorage.decide.kubernetes.cel.values import (
    NONE,
    CelError,
    Duration,
    Optional,
    Uint,
    Value,
    equal,
    is_zero,
    kind_of,
    order,
    used,
)

_SUMMABLE: Final[tuple[tuple[Type, Value], ...]] = ((INT, 0), (UINT, Uint(0)), (DOUBLE, 0.0), (DURATION, Duration(0)))
_COMPARABLE: Final = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_ORDERED: Final = frozenset({one.name for one in _COMPARABLE})


def _order(one: Value, other: Value) -> int | None:
    """Return the order of two elements. None if they have none, which upstream's functions on lists ignore."""
    try:
        return order(one, other)
    except CelError:
        return None


def _check(value: Value) -> None:
    if kind_of(value) not in _ORDERED:
        raise CelError("no such overload")


def _is_sorted(frame: Frame, items: list[Value]) -> bool:
    charge(frame, len(items))
    before: Value = None
    for place, one in enumerate(items):
        _check(one)
        if place and _order(before, one) == 1:
            return False
        before = one
    return True


def _extreme(name: str, wanted: int) -> Run:
    def run(frame: Frame, items: list[Value]) -> Value:
        charge(frame, len(items))
        if not items:
            raise CelError(f"{name} called on empty list")
        found = items[0]
        _check(found)
        for one in items[1:]:
            _check(one)
            if _order(found, one) == wanted:
                found = one
        return found

    return run


def _sum(start: Value) -> Run:
    def run(frame: Frame, items: list[Value]) -> Value:
        charge(frame, len(items))
        total = start
        for one in items:
            total = standard.add(frame, total, one)
        return total

    return run


def _index_of(frame: Frame, items: list[Value], wanted: Value) -> int:
    return next((place for place, one in enumerate(items) if _equal(frame, one, wanted)), -1)


def _last_index_of(frame: Frame, items: list[Value], wanted: Value) -> int:
    return next((place for place in range(len(items) - 1, -1, -1) if _equal(frame, items[place], wanted)), -1)


def _equal(frame: Frame, one: Value, other: Value) -> bool:
    spent = [1]
    try:
        return equal(one, other, spent)
    except CelError:
        return False
    finally:
        charge(frame, spent[0])


def _of_non_zero(value: Value) -> Optional:
    return NONE if is_zero(value) else Optional((value,))


def _value(value: Optional) -> Value:
    if not value.values:
        raise CelError("optional.none() dereference")
    return used(value.values[0])


def _unwrapped(frame: Frame, items: list[Value]) -> list[Value]:
    charge(frame, len(items))
    if any(type(one) is not Optional for one in items):
        raise CelError("value is not optional")
    return [one.values[0] for one in items if one.values]


def _identity(value: Value) -> Value:
    return value


_K, _V, _E = Type("$K"), Type("$V"), Type("$A")
_MAYBE = optional_of(_V)
_LIST, _MAP = list_of(_V), map_of(_K, _V)


def _index(name: str, takes: tuple[Type, ...]) -> Overload:
    return Overload(name, f"{name} {takes}", takes, _MAYBE, _identity, guarded=False)


OVERLOADS: Final[tuple[Overload, ...]] = (
    *(method("isSorted", (list_of(one),), BOOL, _is_sorted, metered=True) for one in _COMPARABLE),
    *(method("sum", (list_of(one),), one, _sum(start), metered=True) for one, start in _SUMMABLE),
    *(method("max", (list_of(one),), one, _extreme("max", -1), metered=True) for one in _COMPARABLE),
    *(method("min", (list_of(one),), one, _extreme("min", 1), metered=True) for one in _COMPARABLE),
    method("indexOf", (list_of(_E), _E), INT, _index_of, metered=True),
    method("lastIndexOf", (list_of(_E), _E), INT, _last_index_of, metered=True),
    function("optional.of", (_V,), _MAYBE, lambda value: Optional((value,))),
    function("optional.ofNonZeroValue", (_V,), _MAYBE, _of_non_zero),
    function("optional.none", (), _MAYBE, lambda: NONE),
    method("value", (_MAYBE,), _V, _value),
    method("hasValue", (_MAYBE,), BOOL, lambda value: bool(value.values)),
    method("or", (_MAYBE, _MAYBE), _MAYBE, _identity),
    method("orValue", (_MAYBE, _V), _V, _identity),
    method("first", (_LIST,), _MAYBE, lambda items: Optional((items[0],)) if items else NONE),
    method("last", (_LIST,), _MAYBE, lambda items: Optional((items[-1],)) if items else NONE),
    function("optional.unwrap", (list_of(_MAYBE),), _LIST, _unwrapped, metered=True),
    method("unwrapOpt", (list_of(_MAYBE),), _LIST, _unwrapped, metered=True),
    _index("_?._", (DYN, STRING)),
    _index("_[?_]", (_LIST, INT)),
    _index("_[?_]", (optional_of(_LIST), INT)),
    _index("_[?_]", (_MAP, _K)),
    _index("_[?_]", (optional_of(_MAP), _K)),
    _index("_[_]", (optional_of(_LIST), INT)),
    _index("_[_]", (optional_of(_MAP), _K)),
)
"""The operators, `or` and `orValue` are declared for the compiler alone. The evaluation handles them itself."""
