"""CEL's own operators and functions, except for those on times."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from moorage.decide.kubernetes.cel.declarations import (
    Cost,
    Frame,
    Overload,
    Run,
    both,
    charge,
    checked_list,
    checked_text,
    function,
    matching,
    method,
    reading,
    searching,
    smaller,
)
from moorage.decide.kubernetes.cel.functions import patterns, times
from moorage.decide.kubernetes.cel.functions.numbers import double_text
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
    A,
    B,
    Type,
    list_of,
    map_of,
    type_of,
)
from moorage.decide.kubernetes.cel.values import (
    INT_MAX,
    INT_MIN,
    MISSING,
    UINT_MAX,
    CelError,
    Domains,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    equal,
    find,
    kind_of,
    no_overload,
    order,
    size_of,
)


def _int(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def _uint(value: int) -> Uint:
    if not 0 <= value <= UINT_MAX:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def _arithmetic(one: Value, other: Value, compute: Callable[[Value, Value], Value]) -> Value:
    """Compute with two numbers of one type."""
    kind = type(one)
    if kind is not type(other):
        raise no_overload()
    if kind is int:
        return _int(compute(one, other))
    if kind is Uint:
        return _uint(compute(int(one), int(other)))
    if kind is not float:
        raise no_overload()
    return compute(one, other)


def add(frame: Frame, one: Value, other: Value) -> Value:
    """Add two values of suitable types."""
    kind, its = type(one), type(other)
    if kind is its and kind in (str, bytes):
        checked_text(frame, len(one) + len(other))
        return one + other
    if kind is list:
        if its is not list:
            raise no_overload()
        checked_list(frame, len(one) + len(other))
        return one + other
    if kind in (Duration, Timestamp):
        return times.add(one, other)
    return _arithmetic(one, other, lambda a, b: a + b)


def _subtract(one: Value, other: Value) -> Value:
    if type(one) in (Duration, Timestamp):
        return times.subtract(one, other)
    return _arithmetic(one, other, lambda a, b: a - b)


def _multiply(one: Value, other: Value) -> Value:
    return _arithmetic(one, other, lambda a, b: a * b)


def _divided(one: Value, other: Value) -> Value:
    if isinstance(one, float):
        if other == 0:
            return math.nan if one == 0 or math.isnan(one) else math.copysign(math.inf, one) * math.copysign(1, other)
        return one / other
    if other == 0:
        raise CelError("division by zero")
    found = abs(one) // abs(other)
    return found if (one < 0) == (other < 0) else -found


def _divide(one: Value, other: Value) -> Value:
    return _arithmetic(one, other, _divided)


def _remainder(one: Value, other: Value) -> Value:
    if other == 0:
        raise CelError("modulus by zero")
    if one == INT_MIN and other == -1:
        raise CelError("integer overflow")
    return math.copysign(1, one).__int__() * (abs(one) % abs(other))


def _modulo(one: Value, other: Value) -> Value:
    if type(one) is float:
        raise no_overload()
    return _arithmetic(one, other, _remainder)


def _negate(value: Value) -> Value:
    if type(value) is int:
        return _int(-value)
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return times.duration(-value.ns)
    raise no_overload()


def _not(value: Value) -> bool:
    if type(value) is not bool:
        raise no_overload()
    return not value


def contains(frame: Frame, item: Value, whole: Value) -> bool:
    """Return whether a list has an element, or a map a key."""
    if type(whole) in (dict, Domains):
        return find(whole, item) is not MISSING
    if type(whole) is not list:
        raise no_overload()
    charge(frame, len(whole))
    if type(item) is str:
        return item in whole
    spent = [0]
    found = any(_equal_or_not(item, one, spent) for one in whole)
    charge(frame, spent[0])
    return found


def _equal_or_not(one: Value, other: Value, spent: list[int]) -> bool:
    try:
        return equal(one, other, spent)
    except CelError:
        return False


def _size(value: Value) -> int:
    if not isinstance(value, (str, bytes, list, dict)) and size_of(value) == 1:
        raise no_overload()
    return size_of(value)


def _text(function_: Callable[[str, str], bool]) -> Run:
    def run(one: Value, other: Value) -> bool:
        if type(one) is not str or type(other) is not str:
            raise no_overload()
        return function_(one, other)

    return run


# --- conversions

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,400}")
_UNSIGNED: Final = re.compile(r"[0-9]{1,400}")
_DECIMAL: Final = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)
_HEXADECIMAL: Final = re.compile(r"[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?[0-9]+", re.IGNORECASE)
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _unconvertible(value: Value, kind: str) -> CelError:
    return CelError(f"type conversion error from '{kind_of(value)}' to '{kind}'")


def _to_int(value: Value) -> int:
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value):
            raise _unconvertible(value, "int")
        whole = int(value)
        if not INT_MIN <= whole <= INT_MAX:
            raise _unconvertible(value, "int")
        return whole
    if isinstance(value, float):
        if not float(INT_MIN) < value < float(INT_MAX):
            raise CelError("integer overflow")
        return int(value)
    if isinstance(value, Timestamp):
        return value.ns // 10**9
    return value.ns if isinstance(value, Duration) else _int(int(value))


def _to_uint(value: Value) -> Uint:
    if isinstance(value, str):
        if not _UNSIGNED.fullmatch(value) or int(value) > UINT_MAX:
            raise _unconvertible(value, "uint")
        return Uint(int(value))
    if isinstance(value, float) and not 0 <= value < float(UINT_MAX):
        raise CelError("unsigned integer overflow")
    return _uint(int(value))


def _to_double(value: Value) -> float:
    if not isinstance(value, str):
        return float(value)
    if _DECIMAL.fullmatch(value):
        found = float(value)
        if math.isinf(found) and not value.lower().lstrip("+-").startswith("inf"):
            raise _unconvertible(value, "double")
        return found
    if _HEXADECIMAL.fullmatch(value):
        try:
            return float.fromhex(value)
        except OverflowError:
            pass
    raise _unconvertible(value, "double")


def _to_bool(value: str) -> bool:
    if value not in _TRUE | _FALSE:
        raise _unconvertible(value, "bool")
    return value in _TRUE


def _bytes_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def _type(value: Value) -> TypeValue:
    return TypeValue(kind_of(value))


def _identity(value: Value) -> Value:
    return value


def _operator(
    name: str, run: Run, rows: Sequence[tuple[Type, ...]], costs: dict[Type, Cost], *, metered: bool = False
) -> Iterator[Overload]:
    """Declare an operator. The last type of a row is that of its result."""
    for *takes, returns in rows:
        cost = costs.get(takes[0])
        yield Overload(name, f"{name} {takes}", tuple(takes), returns, run, cost=cost, metered=metered, guarded=False)


def _comparison(name: str, test: Callable[[int], bool]) -> Iterator[Overload]:
    scalars = (BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION)
    mixed = [(one, other) for one in (INT, UINT, DOUBLE) for other in (INT, UINT, DOUBLE) if one != other]
    rows = [(one, other, BOOL) for one, other in (*zip(scalars, scalars, strict=True), *mixed)]
    return _operator(name, lambda one, other: test(order(one, other)), rows, {STRING: smaller, BYTES: smaller})


def _same(*kinds: Type) -> list[tuple[Type, ...]]:
    return [(one, one, one) for one in kinds]


def _conversions(
    name: str, returns: Type, run: Run, *takes: Type, costs: dict[Type, Cost] | None = None
) -> Iterator[Overload]:
    for one in takes:
        same = one == returns
        cost = (costs or {}).get(one)
        yield Overload(name, f"{name} {one.name}", (one,), returns, _identity if same else run, cost=cost)


MIXED: Final = frozenset(
    (name, (one, other))
    for name in ("_<_", "_<=_", "_>_", "_>=_")
    for one in (INT, UINT, DOUBLE)
    for other in (INT, UINT, DOUBLE)
    if one != other
)
"""Comparisons of numbers of two types, which upstream's compiler only allows after a macro."""

_LIST, _MAP = list_of(A), map_of(A, B)

OVERLOADS: Final[tuple[Overload, ...]] = (
    *_operator(
        "_+_",
        add,
        [
            (BYTES, BYTES, BYTES),
            (DOUBLE, DOUBLE, DOUBLE),
            (DURATION, DURATION, DURATION),
            (DURATION, TIMESTAMP, TIMESTAMP),
            (TIMESTAMP, DURATION, TIMESTAMP),
            (INT, INT, INT),
            (_LIST, _LIST, _LIST),
            (STRING, STRING, STRING),
            (UINT, UINT, UINT),
        ],
        {STRING: both, BYTES: both},
        metered=True,
    ),
    *_operator(
        "_-_",
        _subtract,
        [
            (DOUBLE, DOUBLE, DOUBLE),
            (DURATION, DURATION, DURATION),
            (INT, INT, INT),
            (TIMESTAMP, DURATION, TIMESTAMP),
            (TIMESTAMP, TIMESTAMP, DURATION),
            (UINT, UINT, UINT),
        ],
        {},
    ),
    *_operator("_*_", _multiply, _same(DOUBLE, INT, UINT), {}),
    *_operator("_/_", _divide, _same(DOUBLE, INT, UINT), {}),
    *_operator("_%_", _modulo, _same(INT, UINT), {}),
    *_operator("-_", _negate, [(DOUBLE, DOUBLE), (INT, INT)], {}),
    *_operator("!_", _not, [(BOOL, BOOL)], {}),
    *_comparison("_<_", lambda found: found < 0),
    *_comparison("_<=_", lambda found: found <= 0),
    *_comparison("_>_", lambda found: found > 0),
    *_comparison("_>=_", lambda found: found >= 0),
    *_operator("_==_", equal, [(A, A, BOOL)], {}),
    *_operator("_!=_", equal, [(A, A, BOOL)], {}),
    *_operator("_[_]", _identity, [(_LIST, INT, A), (_MAP, A, B)], {}),
    *_operator("_?_:_", _identity, [(BOOL, A, A, A)], {}),
    *_operator("@in", contains, [(A, _LIST, BOOL)], {A: lambda arguments: size_of(arguments[1])}, metered=True),
    *_operator("@in", contains, [(A, _MAP, BOOL)], {}, metered=True),
    *(
        Overload("size", f"size {one.name}", (one,), INT, _size, member=member, guarded=False)
        for one in (STRING, BYTES, _LIST, _MAP)
        for member in (False, True)
    ),
    Overload("type", "type", (A,), type_of(A), _type, guarded=False),
    Overload("dyn", "dyn", (A,), DYN, _identity, guarded=False),
    *_conversions("bool", BOOL, _to_bool, BOOL, STRING),
    *_conversions("bytes", BYTES, lambda value: value.encode(), BYTES, STRING, costs={STRING: reading}),
    *_conversions("double", DOUBLE, _to_double, DOUBLE, INT, STRING, UINT),
    *_conversions("int", INT, _to_int, INT, DOUBLE, DURATION, STRING, TIMESTAMP, UINT),
    *_conversions("uint", UINT, _to_uint, UINT, DOUBLE, INT, STRING),
    *_conversions("string", STRING, str, STRING, INT, UINT),
    *_conversions("string", STRING, lambda value: "true" if value else "false", BOOL),
    *_conversions("string", STRING, _bytes_text, BYTES, costs={BYTES: reading}),
    *_conversions("string", STRING, double_text, DOUBLE),
    Overload(
        "contains",
        "contains",
        (STRING, STRING),
        BOOL,
        _text(lambda one, other: other in one),
        member=True,
        cost=searching,
        guarded=False,
    ),
    Overload(
        "endsWith", "endsWith", (STRING, STRING), BOOL, _text(str.endswith), member=True, cost=reading, guarded=False
    ),
    Overload(
        "startsWith",
        "startsWith",
        (STRING, STRING),
        BOOL,
        _text(str.startswith),
        member=True,
        cost=reading,
        guarded=False,
    ),
    function("matches", (STRING, STRING), BOOL, patterns.matches, metered=True),
    method("matches", (STRING, STRING), BOOL, patterns.matches, matching, metered=True),
)
"""Operators that the evaluation handles itself are declared for the compiler alone."""
