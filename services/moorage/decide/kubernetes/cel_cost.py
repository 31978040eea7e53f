"""The maximum cost of a CEL expression for one object, before it is evaluated.

The costs are those of Kubernetes' and OCM's estimators: 1 for each variable, field and operator, 10 for a list, 30 for
a map, and a tenth for each character that is read. A regular expression costs the product of a tenth of the text and a
quarter of the pattern. Some are higher, because they take longer here. Upstream counts while it evaluates. The library
that evaluates expressions here counts nothing, so this is an upper bound: the dearer branch of a condition counts, `&&`
and `||` evaluate all of their parts, and macros visit all elements. The lengths are those of the object itself,
wherever a path leads to it.

The result depends on the expression and the object alone, never on durations, so a repeated decision is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

from moorage.decide.kubernetes.cel_functions import pattern_size
from moorage.decide.kubernetes.cel_syntax import Call, Comprehension, IndexInto, Items, Literal, Name, Node, Select

PER_CALL_LIMIT: Final = 1_000_000
"""The maximum cost of one expression for one cluster, as upstream (`PerCallLimit`): about 0.1 s."""

BUDGET: Final = 10_000_000
"""The maximum cost of all expressions of a selector for one cluster, as upstream (`RuntimeCELCostBudget`)."""

_LIST, _MAP = 10, 30
_CHARACTER: Final = 0.1
_PATTERN: Final = 0.25
_ELEMENT: Final = 5
"""The cost of an element that a macro visits, besides that of its body."""

_CALL: Final = 50
"""The cost of a call of a function in Python. Its arguments are converted, which is counted by their weight."""

_LONGEST_NUMBER: Final = 32
_PARSED: Final = 4
"""The cost of each character of JSON that is parsed. `[],` is a list of cost 10."""

_ANY_PATTERN: Final = 2_000
"""The size that a pattern counts as which is not written in the expression."""

_COMPILE: Final = 20_000
"""The cost of compiling such a pattern."""

_UNKNOWN: Final = object()


class Extent(NamedTuple):
    """How large a value is at most."""

    size: int
    """The number of characters of a text, or of elements of a list or a map. 1 for anything else."""

    deep: int
    """The largest size of the value and of everything in it."""

    weight: int
    """The number of characters and of values in all of it."""

    parts: int = 1
    """The number of values in all of it."""

    value: Any = _UNKNOWN
    """The value itself, if available."""


_SCALAR: Final = Extent(1, 1, 1)
_UNMEASURED: Final = Extent(0, 0, 0, 0)


def _text(length: int) -> Extent:
    return Extent(length, length, length + 1)


def extent_of(value: Any) -> Extent:
    """Return how large a value is."""
    sizes: list[int] = []
    characters = count = 0
    waiting = [value]
    while waiting:
        one = waiting.pop()
        count += 1
        if isinstance(one, (str, bytes)):
            sizes.append(len(one))
            characters += len(one)
        elif isinstance(one, Mapping):
            sizes.append(len(one))
            waiting += one
            waiting += one.values()
        elif isinstance(one, Sequence):
            sizes.append(len(one))
            waiting += one
    size = len(value) if isinstance(value, (str, bytes, Mapping, Sequence)) else 1
    return Extent(size, max(sizes, default=1), characters + count, count, value)


def _either(one: Extent, other: Extent) -> Extent:
    """Return how large a value is that is one of two."""
    larger = (max(mine, its) for mine, its in zip(one[:4], other[:4], strict=True))
    return Extent(*larger)


def _within(whole: Extent) -> Extent:
    """Return how large an unknown part of a value is."""
    return Extent(whole.deep, whole.deep, whole.weight, whole.parts)


def _together(parts: Sequence[Extent]) -> Extent:
    """Return how large a text or a list is that is made of others."""
    size = sum(one.size for one in parts)
    deep = max([size, *(one.deep for one in parts)])
    return Extent(size, deep, sum(one.weight for one in parts), sum(one.parts for one in parts))


def _measured(found: Extent) -> Extent:
    """Return a value with its sizes."""
    return found if found.weight or found.value is _UNKNOWN else extent_of(found.value)


Variables = Mapping[str, Extent]
Function = Callable[[Sequence[Extent]], tuple[float, Extent]]
"""Returns the cost of a call, without that of its arguments, and how large its result is."""

Scores = Callable[[str], Any]
"""Returns the scores of the cluster by the name of the resource."""


def cost(node: Node, variables: Mapping[str, Any], scores: Scores | None = None) -> int:
    """Return the highest possible cost of evaluating an expression."""
    # A value is measured only where that is needed.
    known = {name: _UNMEASURED._replace(value=value) for name, value in variables.items()}
    return int(_Walk(scores).visit(node, known)[0])


class _Walk:
    """Visits the nodes of an expression. Each visit returns the cost, and the size of the value.

    Args:
        scores: as for `cost`.
    """

    def __init__(self, scores: Scores | None) -> None:
        self._scores = scores
        self._loops = 0
        """The number of macros around the present node."""

    def visit(self, node: Node, known: Variables) -> tuple[float, Extent]:
        """Return the cost of a node, and how large its value is. Unless it is measured, only the value may be given."""
        match node:
            case Literal(value, size):
                return 0, _text(size)._replace(value=_UNKNOWN if value is None else value)
            case Name(name):
                return 1, known.get(name, _SCALAR)
            case Select() | IndexInto():
                return self._path(node, known)
            case Call():
                return self._call(node, known)
            case Items(items, is_map):
                return self._items(items, known, is_map=is_map)
            case Comprehension():
                return self._comprehension(node, known)

    def _path(self, node: Select | IndexInto, known: Variables) -> tuple[float, Extent]:
        spent, whole = self.visit(node.operand, known)
        place: Any
        if isinstance(node, Select):
            place = node.field
        else:
            also, at = self.visit(node.index, known)
            spent, place = spent + also, at.value
        part = self._part(whole, place)
        # The library copies the part, which counts where it is done repeatedly.
        return spent + (_measured(part).parts if self._loops else 1), part

    def _call(self, node: Call, known: Variables) -> tuple[float, Extent]:
        # Chains of operators are deep, so their operands are visited from here, without another call.
        spent, given = 0.0, list[Extent]()
        for argument in node.arguments:
            also, extent = self.visit(argument, known)
            spent += also
            given.append(extent)
        if node.function == "has":
            return spent + 1, _SCALAR
        if node.function == "scores":
            more, extent = self._scored(given)
        else:
            more, extent = _FUNCTIONS.get(node.function, _other)([_measured(one) for one in given])
        return spent + more, extent

    def _part(self, whole: Extent, place: Any) -> Extent:
        value = whole.value
        if value is not _UNKNOWN:
            try:
                return _UNMEASURED._replace(value=value[place])
            except (LookupError, TypeError):
                if place is not _UNKNOWN:
                    return _SCALAR  # the evaluation fails here
        return _within(_measured(whole))

    def _items(self, items: Sequence[Node], known: Variables, *, is_map: bool) -> tuple[float, Extent]:
        spent, parts = self._all(items, known)
        size = len(items) // 2 if is_map else len(items)
        deep = max([size, *(one.deep for one in parts)])
        extent = Extent(size, deep, 1 + sum(one.weight for one in parts), 1 + sum(one.parts for one in parts))
        return spent + (_MAP if is_map else _LIST) + len(items), extent

    def _all(self, nodes: Sequence[Node], known: Variables) -> tuple[float, list[Extent]]:
        spent, found = 0.0, []
        for node in nodes:
            also, extent = self.visit(node, known)
            spent += also
            found.append(_measured(extent))
        return spent, found

    def _comprehension(self, node: Comprehension, known: Variables) -> tuple[float, Extent]:
        spent, over = self.visit(node.over, known)
        over = _measured(over)
        inner = {**known, node.name: self._element(over)}
        self._loops += 1
        body, parts = self._all(node.bodies, inner)
        self._loops -= 1
        spent += _LIST + over.parts + over.size * (body + _ELEMENT)
        if node.macro == "filter":
            return spent, over._replace(value=_UNKNOWN)
        if node.macro == "map":
            made = parts[-1]
            deep = max(over.size, made.deep)
            return spent, Extent(over.size, deep, 1 + over.size * made.weight, 1 + over.size * made.parts)
        return spent, _SCALAR

    def _element(self, whole: Extent) -> Extent:
        """Return how large the elements of a list, or the keys of a map, are at most."""
        value = whole.value
        if value is _UNKNOWN or isinstance(value, str) or not isinstance(value, (Mapping, Sequence)):
            return _within(whole)
        elements = [extent_of(one) for one in value]
        return reduce(_either, elements, _SCALAR)._replace(value=_UNKNOWN)

    def _scored(self, given: Sequence[Extent]) -> tuple[float, Extent]:
        """Return the cost of `scores`. The cluster, which is the first argument, is not measured."""
        name = given[-1].value if given else _UNKNOWN
        if self._scores is None or not isinstance(name, str):
            # The name is computed, so any of the cluster's scores may be meant.
            return PER_CALL_LIMIT, _SCALAR
        found = self._scores(name) or {}
        value = [{"name": one, "value": number} for one, number in found.items()]
        return _CALL + _LIST + len(value) * (1 + _MAP), extent_of(value)


def _other(given: Sequence[Extent]) -> tuple[float, Extent]:
    """Return the cost of a function whose result is no larger than its arguments, such as `url` or `upperAscii`."""
    weight = sum(one.weight for one in given)
    size = max(_LONGEST_NUMBER, weight)
    return _CALL + weight * _CHARACTER + _converted(given), Extent(size, size, size, size)


def _converted(given: Sequence[Extent]) -> float:
    """Return the cost of converting the lists and maps among the arguments of a function in Python."""
    return sum(float(one.weight) for one in given if one.parts > 1)


def _logic(_: Sequence[Extent]) -> tuple[float, Extent]:
    return 1, _SCALAR


def _number(given: Sequence[Extent]) -> tuple[float, Extent]:
    """Return the cost of a function whose result has no size, such as `indexOf`."""
    return _other(given)[0], _SCALAR


def _comparison(given: Sequence[Extent]) -> tuple[float, Extent]:
    return 1 + min((one.weight for one in given), default=0) * _CHARACTER, _SCALAR


def _in(given: Sequence[Extent]) -> tuple[float, Extent]:
    return 1 + sum(one.weight for one in given) * _CHARACTER + given[-1].size, _SCALAR


def _sum(given: Sequence[Extent]) -> tuple[float, Extent]:
    made = _together(given)
    return 1 + made.weight * _CHARACTER, made


def _choice(given: Sequence[Extent]) -> tuple[float, Extent]:
    return 1, _either(given[1], given[2])


def _search(given: Sequence[Extent]) -> tuple[float, Extent]:
    """Return the cost of `contains`, `startsWith`, `endsWith`, `size`."""
    return 1 + sum(one.size for one in given) * _CHARACTER, _SCALAR


def _regular(given: Sequence[Extent]) -> tuple[float, Extent]:
    """Return the cost of `matches`, `find`, `findAll`: linear in the text and in the size of the compiled pattern."""
    text = given[0].size if given else 0
    pattern = given[1].value if len(given) > 1 else _UNKNOWN
    states = pattern_size(pattern) if isinstance(pattern, str) else _ANY_PATTERN
    extent = Extent(text + 1, text + 1, 2 * text + 2, text + 2)
    return _CALL + (1 + text) * _CHARACTER * max(1.0, states * _PATTERN) + (states == _ANY_PATTERN) * _COMPILE, extent


def _replace(given: Sequence[Extent]) -> tuple[float, Extent]:
    """Return the cost of `replace`: each character, and each empty text around it, may become the longest text."""
    text = given[0].size if given else 0
    by = given[2].size if len(given) > 2 else 0  # noqa: PLR2004 - text, what is replaced, by what
    made = _text(text + (text + 1) * by)
    return _CALL + made.weight * 2 * _CHARACTER, made


def _split(given: Sequence[Extent]) -> tuple[float, Extent]:
    text = given[0].size if given else 0
    return _CALL + 4 * (text + 1), Extent(text + 1, text + 1, 2 * text + 2, text + 2)


def _joined(given: Sequence[Extent]) -> tuple[float, Extent]:
    between = given[1].size if len(given) > 1 else 0
    made = _text(given[0].weight + given[0].size * between) if given else _text(0)
    return _CALL + made.weight * 2 * _CHARACTER + _converted(given), made


def _parsed(given: Sequence[Extent]) -> tuple[float, Extent]:
    text = given[0].size if given else 0
    return _CALL + _MAP + text * _PARSED, Extent(text + 1, text + 1, text + 1, text + 1)


def _quoted(given: Sequence[Extent]) -> tuple[float, Extent]:
    made = _text(2 + 2 * sum(one.size for one in given))
    return _CALL + made.weight * _CHARACTER, made


def _same(given: Sequence[Extent]) -> tuple[float, Extent]:
    """Return the cost of a function that returns one of its arguments, or an optional value of it."""
    return _CALL + _converted(given), reduce(_either, given, _SCALAR)


_FUNCTIONS: Final[Mapping[str, Function]] = {
    **dict.fromkeys(("&&", "||", "!!", "--", "-", "*", "/", "%"), _logic),
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), _comparison),
    **dict.fromkeys(("contains", "startsWith", "endsWith", "size"), _search),
    **dict.fromkeys(("matches", "find", "findAll"), _regular),
    **dict.fromkeys(("dyn", "of", "ofNonZeroValue", "value", "or", "orValue", "min", "max"), _same),
    **dict.fromkeys(("indexOf", "lastIndexOf", "isSorted", "sum", "compareTo", "isLessThan", "isGreaterThan"), _number),
    "in": _in,
    "+": _sum,
    "?:": _choice,
    "replace": _replace,
    "split": _split,
    "join": _joined,
    "parseJSON": _parsed,
    "quote": _quoted,
}
"""The costs of functions and operators. `_other` has those of all others."""
