"""The values of CEL: how Python represents them, and how they are compared.

`bool`, `int`, `float`, `str`, `bytes`, `None`, `list` and `dict` represent themselves. The other types have classes.
A map's key of another type than string or int is wrapped in `OtherKey`, because Python takes `1`, `1.0` and `True` for
one key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from typing_extensions import override

Value: TypeAlias = Any
"""A CEL value."""

INT_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**63)
UINT_MAX: Final = 2**64 - 1


class CelError(Exception):
    """An evaluation failed. `||`, `&&`, `exists` and `all` absorb it where another part decides the result."""


class FatalError(Exception):
    """An evaluation failed in a way that no operator absorbs."""


class LimitError(FatalError):
    """An evaluation exceeded a limit that upstream does not have, so its result is unknown."""


class Uint(int):
    """An unsigned integer."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration in nanoseconds."""

    ns: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """An instant.

    Attributes:
        ns: nanoseconds since 1970.
        offset: the offset of its text from UTC in seconds. Equal instants are equal values.
    """

    ns: int
    offset: int = 0

    @override
    def __eq__(self, other: object) -> bool:
        return type(other) is Timestamp and other.ns == self.ns

    @override
    def __hash__(self) -> int:
        return hash(self.ns)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value."""

    name: str


class Optional(NamedTuple):
    """An optional value. `NONE` has none."""

    values: tuple[Value, ...] = ()


NONE: Final = Optional()


class Failed:
    """An error in an optional value, which shows when the value is used.

    Args:
        error: the error.
    """

    def __init__(self, error: CelError) -> None:
        self.error = error


def used(value: Value) -> Value:
    """Return the value of an optional value.

    Raises:
        CelError: it is an error.
    """
    if type(value) is Failed:
        raise value.error
    return value


class Opaque:
    """A value of a library's own type.

    Attributes:
        kind: the name of the type.
        size: its size in costs.
    """

    __slots__ = ()
    kind = ""
    size = 1

    def same(self, other: Opaque) -> bool:
        """Return whether another value of the same type is equal."""
        raise NotImplementedError


class _Own:
    """A key that equals no other, because upstream compares such keys by their identity."""

    def __init__(self, value: Value) -> None:
        self.value = value


class OtherKey(NamedTuple):
    """A key of a map that is neither a string nor an int."""

    kind: str
    value: Value


_KINDS: Final[Mapping[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Optional: "optional_type",
}


class Domains(dict[str, Value]):
    """A map in which a missing key has an empty map, as the attributes of devices have by domain."""


def kind_of(value: Value) -> str:
    """Return the name of a value's type."""
    found = _KINDS.get(type(value))
    if found is not None:
        return found
    if isinstance(value, Opaque):
        return value.kind
    if isinstance(value, Mapping):
        return "map"
    return "list" if isinstance(value, Sequence) else "dyn"


def no_overload() -> CelError:
    """Return the error about arguments of unsuitable types."""
    return CelError("no such overload")


def size_of(value: Value) -> int:
    """Return the size of a value in costs."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    if isinstance(value, Opaque):
        return value.size
    if type(value) is Optional:
        return size_of(value.values[0]) if value.values else 1
    return 1


# --- keys of maps


def key_of(value: Value) -> Value:
    """Return how a dictionary holds a key."""
    kind = type(value)
    if kind is str or kind is int:
        return value
    if kind is bytes:
        raise FatalError("internal error: runtime error: hash of unhashable type types.Bytes")
    if kind in (list, dict, Optional):
        return OtherKey("identity", _Own(value))
    return OtherKey(kind_of(value), value)


def value_of(key: Value) -> Value:
    """Return the key that a dictionary holds."""
    if type(key) is not OtherKey:
        return key
    return key.value.value if type(key.value) is _Own else key.value


def keys_of(found: Mapping[Value, Value]) -> Iterator[Value]:
    """Yield the keys of a map. Strings are sorted, so that the order is always the same."""
    try:
        yield from sorted(found)
    except TypeError:
        yield from map(value_of, found)


MISSING: Final = object()


def find(found: Mapping[Value, Value], key: Value) -> Value:
    """Return the value of a key, or `MISSING`. Numbers of all types are one key if they are equal."""
    kind = type(key)
    if kind is str:
        return found.get(key, MISSING)
    if kind is bytes and any(type(one) is not str for one in found):
        key_of(key)  # an error in a map of the expression itself
    if kind in (list, dict, Optional, bytes):
        return MISSING
    value = found.get(key_of(key), MISSING)
    if value is not MISSING or kind is bool:
        return value
    if kind is float and key.is_integer():
        whole = int(key)
        value = found.get(whole, MISSING) if INT_MIN < whole < INT_MAX else MISSING
        if value is MISSING and 0 <= whole <= UINT_MAX:
            value = found.get(OtherKey("uint", Uint(whole)), MISSING)
    elif kind is int and key >= 0:
        value = found.get(OtherKey("uint", Uint(key)), MISSING)
    elif kind is Uint:
        value = found.get(int(key), MISSING)
    return value


# --- equality and order

_NUMBERS: Final = frozenset({int, Uint, float})
_PLAIN: Final = frozenset({bool, str, bytes, Duration, Timestamp, TypeValue})


def equal(one: Value, other: Value, spent: list[int] | None = None) -> bool:  # noqa: PLR0911 - one for each kind
    """Return whether two values are equal.

    Args:
        one: the first value.
        other: the second value.
        spent: its only element grows by the number of values that were compared.

    Raises:
        CelError: the types have no equality.
    """
    mine, its = type(one), type(other)
    if mine in _NUMBERS:
        return its in _NUMBERS and _order_of_numbers(one, other) == 0
    if mine in _PLAIN:
        return mine is its and one == other
    if one is None or other is None:
        return one is other
    if mine is Optional:
        if its is not Optional or bool(one.values) != bool(other.values):
            return False
        return not one.values or equal(used(one.values[0]), used(other.values[0]), spent)
    if isinstance(one, Opaque):
        if mine is not its:
            raise no_overload()
        return one.same(other)
    if mine is list:
        return its is list and _equal_lists(one, other, spent)
    return its in (dict, Domains) and _equal_maps(one, other, spent)


def _same(one: Value, other: Value, spent: list[int] | None) -> bool:
    """Return whether two elements are equal. Elements of types without equality count as equal, as upstream."""
    if spent is not None:
        spent[0] += 1
        if spent[0] > _COMPARED:
            raise LimitError(f"more than {_COMPARED} values are compared")
    try:
        return equal(one, other, spent)
    except CelError:
        return True


_COMPARED: Final = 200_000
"""How many values one comparison compares."""


def _equal_lists(one: list[Value], other: list[Value], spent: list[int] | None) -> bool:
    return len(one) == len(other) and all(_same(a, b, spent) for a, b in zip(one, other, strict=True))


def _equal_maps(one: dict[Value, Value], other: dict[Value, Value], spent: list[int] | None) -> bool:
    if len(one) != len(other):
        return False
    for key, value in one.items():
        theirs = find(other, value_of(key))
        if theirs is MISSING or not _same(value, theirs, spent):
            return False
    return True


def _order_of_numbers(one: Value, other: Value) -> int:
    """Compare numbers. An integer is compared with a double as a double. NaN is unequal to all."""
    mine, its = type(one), type(other)
    if mine is float or its is float:
        if one != one or other != other:  # noqa: PLR0124 - NaN
            return _UNORDERED
        if its is float and mine is not float:
            return -_order_of_numbers(other, one)
        if its is not float:
            least, most = (0.0, float(UINT_MAX)) if its is Uint else (float(INT_MIN), float(INT_MAX))
            if not least <= one <= most:
                return -1 if one < least else 1
            other = float(other)
    return int(one > other) - int(one < other)


_UNORDERED: Final = 2


def order(one: Value, other: Value) -> int:
    """Return -1, 0 or 1: the order of two values.

    Raises:
        CelError: they have none.
    """
    mine, its = type(one), type(other)
    if mine in _NUMBERS and its in _NUMBERS:
        found = _order_of_numbers(one, other)
        if abs(found) == _UNORDERED:
            raise CelError("NaN values cannot be ordered")
        return found
    if mine is not its:
        raise no_overload()
    if mine is str:
        if one.isascii() or other.isascii():
            return int(one > other) - int(one < other)
        one, other = one.encode(), other.encode()
    elif mine in (Duration, Timestamp):
        one, other = one.ns, other.ns
    elif mine not in (bool, bytes):
        raise no_overload()
    return int(one > other) - int(one < other)


def is_zero(value: Value) -> bool:
    """Return whether a value is the zero value of its type."""
    if isinstance(value, Timestamp):
        return value.ns == _YEAR_ONE
    if isinstance(value, Duration):
        return value.ns == 0
    if isinstance(value, (Optional, Opaque, TypeValue)):
        return False
    return not value


_YEAR_ONE: Final = -62_135_596_800 * 10**9
"""Go's zero time."""
