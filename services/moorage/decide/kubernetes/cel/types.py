"""The static types of CEL, and which values of one type may stand where another is expected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from moorage.decide.kubernetes.cel.values import Value, kind_of, value_of


class TooDearError(ValueError):
    """Checking the types of an expression takes too many steps."""


class Type(NamedTuple):
    """A type. The name of a parameter of a declaration begins with `$`, that of a variable with `?`."""

    name: str
    parts: tuple[Type, ...] = ()

    @property
    def is_variable(self) -> bool:
        """Whether it stands for a type that is not known yet."""
        return self.name[0] == "?"


DYN, ERROR, NULL = Type("dyn"), Type("!error!"), Type("null_type")
BOOL, INT, UINT, DOUBLE = Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES = Type("string"), Type("bytes")
DURATION, TIMESTAMP = Type("google.protobuf.Duration"), Type("google.protobuf.Timestamp")
A, B = Type("$A"), Type("$B")

_SHOWN: Final = {NULL.name: "null", DURATION.name: "duration", TIMESTAMP.name: "timestamp"}
_SCALARS: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "type", "null_type"})
_STEPS: Final = 1_000_000
"""How many steps checking an expression takes at most: about a second."""


def list_of(element: Type) -> Type:
    """Return the type of lists with elements of a type."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps with keys and values of two types."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type of optional values of a type."""
    return Type("optional_type", (value,))


def type_of(instance: Type) -> Type:
    """Return the type of a type."""
    return Type("type", (instance,))


def is_dynamic(one: Type) -> bool:
    """Return whether a type is only known while an expression is evaluated, or wrong."""
    return one.name in {"dyn", "!error!"}


def shown(one: Type) -> str:
    """Return a type as messages show it."""
    if one.is_variable:
        return "_var" + one.name[1:]
    name = _SHOWN.get(one.name, one.name)
    return f"{name}({', '.join(map(shown, one.parts))})" if one.parts else name


def fits(wanted: Type, value: Value) -> bool:
    """Return whether a function takes a value. Of a list and a map, the first element alone is checked, as upstream."""
    name = wanted.name
    if name == "dyn" or name[0] == "$":
        return True
    if name != kind_of(value):
        return False
    if name == "list":
        return not value or fits(wanted.parts[0], value[0])
    if name == "map" and value:
        key = next(iter(value))
        return fits(wanted.parts[0], value_of(key)) and fits(wanted.parts[1], value[key])
    return True


class Variables:
    """The types that variables stand for, which are found while an expression is checked."""

    def __init__(self) -> None:
        self._found: dict[str, Type] = {}
        self._undo: list[tuple[str, Type | None]] = []
        self._count = 0
        self._steps = 0

    def new(self) -> Type:
        """Return a new variable."""
        self._count += 1
        return Type(f"?{self._count - 1}")

    def instance(self, parts: Sequence[Type]) -> list[Type]:
        """Return types of a declaration with new variables for its parameters."""
        names: dict[str, Type] = {}
        return [self._instance(one, names) for one in parts]

    def _instance(self, one: Type, names: dict[str, Type]) -> Type:
        if one.name[0] == "$":
            if one.name not in names:
                names[one.name] = self.new()
            return names[one.name]
        return Type(one.name, tuple(self._instance(part, names) for part in one.parts)) if one.parts else one

    def resolved(self, one: Type, *, dynamic: bool = False) -> Type:
        """Return a type without the variables whose types are known.

        Args:
            one: the type.
            dynamic: whether other variables become `dyn`.
        """
        self._step()
        while one.is_variable and one.name in self._found:
            self._step()
            one = self._found[one.name]
        if one.is_variable:
            return DYN if dynamic else one
        if one.parts:
            return Type(one.name, tuple(self.resolved(part, dynamic=dynamic) for part in one.parts))
        return one

    def assign(self, wanted: Sequence[Type], given: Sequence[Type]) -> bool:
        """Return whether values of some types may stand where others are wanted. If not, nothing is remembered."""
        mark = len(self._undo)
        if len(wanted) == len(given) and all(self._fits(one, its) for one, its in zip(wanted, given, strict=True)):
            return True
        while len(self._undo) > mark:
            name, before = self._undo.pop()
            if before is None:
                del self._found[name]
            else:
                self._found[name] = before
        return False

    def joined(self, one: Type, other: Type) -> Type:
        """Return the more general one of two types that fit."""
        return one if self._is_general(one, other) else other

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _STEPS:
            raise TooDearError(f"checking its types takes more than {_STEPS} steps")

    def _fits(self, one: Type, other: Type) -> bool:  # noqa: PLR0911 - one for each step of a rule
        self._step()
        if other.is_variable:
            fit, known = self._becomes(other, one)
            if fit or known:
                return fit
        if one.is_variable:
            return self._becomes(one, other)[0]
        if is_dynamic(one) or is_dynamic(other):
            return True
        if NULL in (one, other):
            return _nullable(other if one == NULL else one)
        if one.name != other.name:
            return False
        if one.name == "type":
            return True
        return len(one.parts) == len(other.parts) and all(map(self._fits, one.parts, other.parts))

    def _becomes(self, variable: Type, value: Type) -> tuple[bool, bool]:
        """Let a variable stand for a type. Returns whether it may, and whether its type was known before."""
        if variable == value:
            return True, True
        known = self._found.get(variable.name)
        if known is not None:
            if known == value:
                return True, True
            if not self._fits(value, known):
                return False, True
            general = self.joined(value, known)
            if not self._occurs(variable, general):
                self._set(variable.name, general)
            return True, True
        if self._occurs(variable, value):
            return False, False
        self._set(variable.name, value)
        return True, False

    def _set(self, name: str, value: Type) -> None:
        self._undo.append((name, self._found.get(name)))
        self._found[name] = value

    def _occurs(self, variable: Type, within: Type) -> bool:
        self._step()
        while True:
            if within == variable:
                return True
            if not (within.is_variable and within.name in self._found):
                break
            self._step()
            within = self._found[within.name]
        return any(self._occurs(variable, part) for part in within.parts)

    def _is_general(self, one: Type, other: Type) -> bool:
        self._step()
        if one.name == "dyn" or one.is_variable:
            return True
        if other.name == "dyn" or other.is_variable or one.name != other.name:
            return False
        return one.name == "type" or (
            len(one.parts) == len(other.parts) and all(map(self._is_general, one.parts, other.parts))
        )


def _nullable(one: Type) -> bool:
    """Return whether null may stand for a type: for times, and for the types of libraries."""
    return one.name not in _SCALARS or one == NULL
