"""Evaluates checked expressions, and counts what that costs.

An expression becomes a tree of functions. Each takes the frame of an evaluation, adds its cost, and returns its value.
The costs are those that upstream counts: 1 for each variable, field and call, 10 for a list, 30 for a map, a tenth for
each character that is read. An error ends an evaluation unless an operator absorbs it. What upstream evaluates after
an error, without effect on the result, is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from moorage.decide.kubernetes.cel.checker import Checked
from moorage.decide.kubernetes.cel.declarations import (
    COST,
    LAZY,
    VARIABLES,
    WORK,
    Frame,
    Overload,
    charge,
    checked_list,
    smaller,
)
from moorage.decide.kubernetes.cel.environments import Environment
from moorage.decide.kubernetes.cel.functions import patterns
from moorage.decide.kubernetes.cel.functions.documents import LIST_COST, MAP_COST, Scores
from moorage.decide.kubernetes.cel.functions.formats import NamedFormat
from moorage.decide.kubernetes.cel.syntax import (
    Bind,
    Call,
    Entries,
    Fold,
    Items,
    Literal,
    Message,
    Name,
    Node,
    OptionalMap,
    Select,
)
from moorage.decide.kubernetes.cel.types import Type, fits
from moorage.decide.kubernetes.cel.values import (
    INT_MAX,
    MISSING,
    NONE,
    CelError,
    Domains,
    Failed,
    FatalError,
    LimitError,
    Opaque,
    Optional,
    TypeValue,
    Uint,
    Value,
    equal,
    find,
    key_of,
    keys_of,
    no_overload,
    used,
)

Step = Callable[[Frame], Value]
"""A part of a program."""

_CHAINS: Final = frozenset({"_[_]", "_[?_]", "_?._"})
_PATHS: Final = _CHAINS | {"_?_:_"}
_SURE: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes"})
"""The types of results that a function need not check."""

_KEYS: Final = frozenset({str, int, Uint, bool, float})
_SCALARS: Final = frozenset({str, int, Uint, bool, float, type(None)})


class ProgramError(ValueError):
    """A checked expression cannot be evaluated. Upstream refuses it as well."""


class Program:
    """An expression that can be evaluated.

    Args:
        tree: the expression.
        checked: the results of its check.
        limit: the maximum cost of an evaluation.
        environment: what it uses.

    Raises:
        ProgramError: it cannot be evaluated.
    """

    def __init__(self, tree: Node, checked: Checked, limit: int, environment: Environment) -> None:
        builder = _Builder(checked, limit, environment)
        self._step = builder.step(tree)
        self._size = builder.size
        self._limit = limit

    def run(self, value: Value, scores: Scores | None) -> tuple[Value, int, int]:
        """Return the result for a value of the variable, or the error; the cost as upstream counts it; other work."""
        frame: Frame = [0, 0, scores, 0, value, *([None] * self._size)]
        found: Value
        try:
            found = self._step(frame)
        except (CelError, FatalError) as error:
            found = error
        except RecursionError:
            found = LimitError("values are nested too deeply")
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            found = LimitError(f"internal error: {error}")
        if frame[COST] > self._limit:
            found = _exceeded()
        return found, frame[COST], frame[WORK]


def _exceeded() -> FatalError:
    return FatalError("operation cancelled: actual cost limit exceeded")


def _new_frame() -> Frame:
    """Return the frame of an evaluation without variables."""
    return [0] * VARIABLES


def _is_constant(node: Node) -> bool:
    """Return whether a node is a literal, or a list or a map of such."""
    if isinstance(node, Items):
        return not node.optional and all(map(_is_constant, node.items))
    if isinstance(node, Entries):
        return not node.optional and all(_is_constant(part) for entry in node.items for part in entry)
    return isinstance(node, Literal)


def _constant(value: Value) -> Step:
    def run(_frame: Frame) -> Value:
        return value

    return run


class _Builder:
    """Makes the functions of a program."""

    def __init__(self, checked: Checked, limit: int, environment: Environment) -> None:
        self._checked = checked
        self._limit = limit
        self._functions = environment.functions
        self._presence = environment.presence
        self._folds = environment.folds
        self._empty_cost = 0 if environment.folds else LIST_COST
        """The cost of the empty list in the macros."""

        self._scopes: list[tuple[str, int, bool]] = [(environment.variable, VARIABLES, False)]
        self.size = 0
        """The number of places for variables, besides that of the environment."""

    def step(self, node: Node, *, bare: bool = False) -> Step:
        """Return the function of a node.

        Args:
            node: the node.
            bare: whether it is a branch of a condition, or an index. Then a path costs nothing itself, as upstream.
        """
        if node in self._checked.constants:
            return _constant(TypeValue(self._checked.constants[node]))
        if isinstance(node, Literal):
            return _constant(node.value)
        if isinstance(node, Message):
            raise ProgramError("messages are not supported")
        if isinstance(node, (Items, Entries, Fold, OptionalMap, Bind)):
            return self._composed(node)
        if isinstance(node, Name):
            self._check_variable(node.name, self._checked.types[node])
            return self._name(node.name, bare=bare)
        return self._path(node, bare=bare) if isinstance(node, Select) else self._call(node, bare=bare)

    def _check_variable(self, name: str, kind: Type) -> None:
        """Check that a variable is no type, which upstream looks for among its types."""
        if kind.name == "type":
            raise ProgramError(f"reference to undefined type: {name}")

    def _composed(self, node: Items | Entries | Fold | OptionalMap | Bind) -> Step:
        if isinstance(node, (Items, Entries)):
            step = self._items(node) if isinstance(node, Items) else self._entries(node)
            return _constant(step(_new_frame())) if self._folds and _is_constant(node) else step
        if isinstance(node, Bind):
            return self._bound(node)
        return self._fold(node) if isinstance(node, Fold) else self._optional_map(node)

    def _branch(self, node: Node) -> Step:
        """Return the function of a branch of a condition. Upstream takes its value for the beginning of a path."""
        step = self.step(node, bare=True)
        if isinstance(node, (Name, Select, OptionalMap)) or (isinstance(node, Call) and node.function in _PATHS):
            return step

        def run(frame: Frame) -> Value:
            value = step(frame)
            return value if type(value) is not Optional else _resolved(value)

        return run

    def _is_sure(self, node: Node) -> bool:
        """Return whether the value of a node surely has its type. Others may come from something dynamic."""
        if isinstance(node, Call):
            fitting = self._checked.calls.get(node, ())
            return bool(fitting) and all(one.returns.name in _SURE for one in fitting)
        return isinstance(node, Literal) and node.value is not None

    # --- variables and paths

    def _place(self, name: str) -> tuple[int, bool]:
        return next((place, lazy) for own, place, lazy in reversed(self._scopes) if own == name)

    def _bind(self, name: str, *, lazy: bool = False) -> int:
        place = VARIABLES + self.size + 1
        self.size += 2 if lazy else 1
        self._scopes.append((name, place, lazy))
        return place

    def _name(self, name: str, *, bare: bool) -> Step:
        place, lazy = self._place(name)
        own = 0 if bare else 1
        if lazy:
            return lambda frame: _lazily(frame, place, own)

        def run(frame: Frame) -> Value:
            frame[COST] += own
            value = frame[place]
            return value if type(value) is not Optional else _resolved(value)

        return run

    def _path(self, node: Node, *, bare: bool) -> Step:
        """Return the function of a chain of fields and indexes."""
        hops: list[_Hop] = []
        test = isinstance(node, Select) and node.test
        while node not in self._checked.constants:
            if isinstance(node, Select) and (not node.test or not hops):
                hops.append(_Hop(node.field, None, optional=False))
                node = node.operand
            elif isinstance(node, Call) and node.function in _CHAINS:
                target, index = node.arguments
                hops.append(self._hop(index, optional=node.function != "_[_]"))
                node = target
            else:
                break
        hops.reverse()
        conditional = isinstance(node, Call) and node.function == "_?_:_"
        own = 0 if bare or conditional else 1
        variable = isinstance(node, Name) and node not in self._checked.constants
        start = self.step(node, bare=variable or conditional)
        if test:
            return _tested(start, own, hops, bare=bare, presence=self._presence)
        if all(hop.computed is None and not hop.optional and type(hop.key) is str for hop in hops):
            return _fields(start, own, hops)

        def run(frame: Frame) -> Value:
            frame[COST] += own
            return _followed(frame, start(frame), hops)

        return run

    def _hop(self, index: Node, *, optional: bool) -> _Hop:
        if isinstance(index, Literal):
            if type(index.value) not in _KEYS:
                raise ProgramError("invalid qualifier type")
            return _Hop(index.value, None, optional=optional)
        return _Hop(None, self.step(index, bare=True), optional=optional)

    # --- calls

    def _call(self, node: Call, *, bare: bool) -> Step:
        name = node.function
        if name in _CHAINS:
            return self._path(node, bare=bare)
        if name in {"_&&_", "_||_"}:
            return _logical([self.step(one) for one in node.arguments], decisive=name == "_||_")
        if name == "_?_:_":
            condition = self.step(node.arguments[0])
            return _conditional(condition, *map(self._branch, node.arguments[1:]))
        operands = list(node.arguments)
        if node.target is not None and node not in self._checked.namespaced:
            operands.insert(0, node.target)
        steps = [self.step(one) for one in operands]
        if name in {"_==_", "_!=_"}:
            return _equality(steps[0], steps[1], wanted=name == "_==_")
        if name in {"or", "orValue"} and len(steps) == 2:  # noqa: PLR2004 - methods of optional values
            return _alternative(steps[0], steps[1], whole=name == "or")
        fitting = self._checked.calls[node]
        if fitting[0].function in {"find", "findAll"} and isinstance(operands[1], Literal):
            problem = patterns.problem(operands[1].value)
            if problem:
                raise ProgramError(problem)
        return _called(fitting, steps, [self._is_sure(one) for one in operands], self._functions[fitting[0].function])

    # --- lists and maps

    def _items(self, node: Items) -> Step:
        steps = [(self.step(item), place in node.optional) for place, item in enumerate(node.items)]

        def run(frame: Frame) -> Value:
            frame[COST] += LIST_COST
            found = []
            for step, optional in steps:
                value = step(frame)
                if optional:
                    if type(value) is not Optional:
                        raise CelError("cannot initialize optional list element from non-optional value")
                    if not value.values:
                        continue
                    value = value.values[0]
                found.append(value)
            return found

        return run

    def _entries(self, node: Entries) -> Step:
        steps = [
            (self.step(key), self.step(value), place in node.optional) for place, (key, value) in enumerate(node.items)
        ]

        def run(frame: Frame) -> Value:
            frame[COST] += MAP_COST
            found: dict[Value, Value] = {}
            for key_step, value_step, optional in steps:
                bare, value = key_step(frame), value_step(frame)
                key = key_of(bare)
                if optional:
                    if type(value) is not Optional:
                        raise CelError("cannot initialize optional entry from non-optional value")
                    if not value.values:
                        found.pop(key, None)
                        continue
                    value = value.values[0]
                found[key] = value
            return found

        return run

    # --- macros

    def _fold(self, node: Fold) -> Step:
        over = self.step(node.over)
        place = self._bind(node.name)
        bodies = [self.step(body) for body in node.bodies]
        self._scopes.pop()
        if node.macro == "filter":
            self._check_variable(node.name, self._checked.elements[node])
        limits = (self._limit, self._empty_cost)
        match node.macro:
            case "all" | "exists":
                return _quantified(over, place, bodies[0], self._limit, decisive=node.macro == "exists")
            case "exists_one":
                return _counted(over, place, bodies[0], self._limit)
            case "filter":
                return _collected(over, place, bodies[0], None, limits)
        return _collected(over, place, bodies[0] if len(bodies) > 1 else None, bodies[-1], limits)

    def _optional_map(self, node: OptionalMap) -> Step:
        target, flat, limit, empty = self.step(node.target), node.flat, self._limit, self._empty_cost
        place = self._bind(node.name, lazy=True)
        body = self.step(node.body)
        self._scopes.pop()

        def run(frame: Frame) -> Value:
            before, lazily = frame[COST], frame[LAZY]
            value = target(frame)
            again = frame[COST] - before - (frame[LAZY] - lazily)
            if frame[COST] > limit:
                raise _exceeded()
            frame[COST] += 1
            if type(value) is not Optional:
                raise no_overload()
            if not value.values:
                frame[COST] += 1
                return NONE
            # Upstream evaluates the target a second time, when the variable is used first.
            frame[place], frame[place + 1] = value.values[0], again + 1
            frame[COST] += empty
            if not flat:
                frame[COST] += 1
                return _resolved(Optional((body(frame),)))
            found = body(frame)
            return found if type(found) is not Optional else _resolved(found)

        return run

    def _bound(self, node: Bind) -> Step:
        value = self.step(node.value)
        place = self._bind(node.name, lazy=True)
        body = self.step(node.body)
        self._scopes.pop()

        def run(frame: Frame) -> Value:
            # As upstream, the value is computed when it is used first.
            frame[place], frame[place + 1] = _Unused(value), 0
            return body(frame)

        return run


class _Unused:
    """A variable whose value has not been used yet."""

    __slots__ = ("step",)

    def __init__(self, step: Step) -> None:
        self.step = step

    def value(self, frame: Frame) -> Value:
        """Compute the value. An error shows each time that the variable is used."""
        try:
            return self.step(frame)
        except CelError as error:
            return Failed(error)


class _Hop:
    """A field, or an index.

    Attributes:
        key: the key, if it is written in the expression.
        computed: computes it otherwise.
        optional: whether it may be missing.
    """

    __slots__ = ("computed", "key", "optional")

    def __init__(self, key: Value, computed: Step | None, *, optional: bool) -> None:
        self.key = key
        self.computed = computed
        self.optional = optional

    def found(self, frame: Frame, value: Value) -> Value:
        """Return the part of a value, or `MISSING`.

        Raises:
            CelError: a value of this type has no such part.
        """
        key = self.key if self.computed is None else self.computed(frame)
        if type(key) not in _KEYS:
            raise CelError("invalid qualifier type")
        kind = type(value)
        if kind is dict:
            return find(value, key)
        if kind is Domains:
            return value.get(key, {})
        if kind is not list:
            return MISSING
        if type(key) is float and key.is_integer():
            key = int(key)
        if type(key) not in (int, Uint) or key > INT_MAX:
            raise CelError("unsupported index in list")
        return value[key] if 0 <= key < len(value) else MISSING


def _lazily(frame: Frame, place: int, own: int) -> Value:
    """Return a variable whose value upstream computes when it is used first."""
    frame[COST] += own + frame[place + 1]
    frame[LAZY] += frame[place + 1]
    frame[place + 1] = 0
    if type(frame[place]) is _Unused:
        frame[place] = frame[place].value(frame)
    value = used(frame[place])
    return value if type(value) is not Optional else _resolved(value)


def _resolved(value: Optional) -> Optional:
    """Return an optional value as upstream does when a path leads to it: it is unwrapped and wrapped again."""
    if not value.values:
        return value
    try:
        return Optional((_native(value.values[0]),))
    except CelError as error:
        return Optional((Failed(error),))


def _native(value: Value) -> Value:
    """Return what is in an optional value at the beginning of a path. Upstream loses the types of some values."""
    if type(value) is Optional:
        return _native(value.values[0]) if value.values else None
    used(value)
    if type(value) is TypeValue:
        return value.name
    if isinstance(value, Opaque) and not isinstance(value, NamedFormat):
        raise CelError(f"unsupported conversion of {value.kind}")
    return value


def _fields(start: Step, own: int, hops: Sequence[_Hop]) -> Step:
    """Return the function of a chain of fields, which is the usual path."""
    keys = [hop.key for hop in hops]

    def run(frame: Frame) -> Value:
        frame[COST] += own
        value = start(frame)
        if type(value) is Optional:
            return _followed(frame, value, hops)
        for key in keys:
            frame[COST] += 1
            if type(value) is dict:
                value = value.get(key, MISSING)
                if value is not MISSING:
                    continue
            elif type(value) is Domains:
                value = value.get(key, {})
                continue
            elif type(value) is list:
                raise CelError("unsupported index type 'string' in list")
            raise CelError(f"no such key: {key}")
        return value

    return run


def _followed(frame: Frame, value: Value, hops: Sequence[_Hop]) -> Value:
    """Follow a path from a value. From an optional value, and after an optional hop, the result is optional."""
    optional = type(value) is Optional
    if optional:
        if not value.values:
            return NONE
        if not hops:
            return _resolved(value)
        value = _native(value.values[0])
    for hop in hops:
        optional = optional or hop.optional
        if optional:
            value = hop.found(frame, value)
            if value is MISSING:
                return NONE
            frame[COST] += 1
            continue
        frame[COST] += 1
        value = hop.found(frame, value)
        if value is MISSING:
            raise CelError("no such key, or index out of bounds")
    return Optional((value,)) if optional else value


def _tested(start: Step, own: int, hops: Sequence[_Hop], *, bare: bool, presence: int) -> Step:
    *before, last = hops

    def run(frame: Frame) -> Value:
        frame[COST] += own
        value = _followed(frame, start(frame), before)
        if type(value) is Optional:
            # The last hop belongs to the same optional path.
            found = _followed(frame, value, [last])
            return found if bare else bool(found.values)
        frame[COST] += presence
        return last.found(frame, value) is not MISSING

    return run


def _logical(steps: Sequence[Step], *, decisive: bool) -> Step:
    """Return the function of `||` (decided by true) or `&&` (by false)."""

    def run(frame: Frame) -> bool:
        error: CelError | None = None
        for step in steps:
            try:
                found = step(frame)
            except CelError as failed:
                error = error or failed
                continue
            if type(found) is not bool:
                error = error or no_overload()
            elif found == decisive:
                return decisive
        if error is not None:
            raise error
        return not decisive

    return run


def _conditional(condition: Step, one: Step, other: Step) -> Step:
    def run(frame: Frame) -> Value:
        found = condition(frame)
        if type(found) is not bool:
            raise no_overload()
        return one(frame) if found else other(frame)

    return run


def _pair(frame: Frame, one: Step, other: Step) -> tuple[Value, Value]:
    """Evaluate two operands. Upstream evaluates and counts the second one even if the first one fails."""
    try:
        first = one(frame)
    except CelError:
        with suppress(CelError):
            other(frame)
        frame[COST] += 1
        raise
    try:
        return first, other(frame)
    except CelError:
        frame[COST] += 1
        raise


def _equality(one: Step, other: Step, *, wanted: bool) -> Step:
    def run(frame: Frame) -> bool:
        first, second = _pair(frame, one, other)
        kind = type(first)
        if kind is str and type(second) is str:
            least = min(len(first), len(second))
            frame[COST] += 1 if 0 < least <= 10 else smaller((first, second))  # noqa: PLR2004 - ten characters cost 1
            return bool(first == second) is wanted
        if kind in _SCALARS and type(second) in _SCALARS:
            frame[COST] += 1 if kind is not str and type(second) is not str else smaller((first, second))
            return equal(first, second) is wanted
        frame[COST] += smaller((first, second))
        spent = [0]
        try:
            found = equal(first, second, spent)
        except CelError:
            if wanted:
                raise
            found = False
        charge(frame, spent[0])
        return found is wanted

    return run


def _alternative(one: Step, other: Step, *, whole: bool) -> Step:
    """Return the function of `or` and `orValue`."""

    def run(frame: Frame) -> Value:
        found = one(frame)
        if type(found) is not Optional:
            return found
        if found.values:
            return found if whole else used(found.values[0])
        return other(frame)

    return run


# --- calls of functions


def _called(
    fitting: Sequence[Overload], steps: Sequence[Step], sure: Sequence[bool], overloads: Sequence[Overload]
) -> Step:
    """Return the function of a call.

    Args:
        fitting: the signatures that it may have.
        steps: its arguments.
        sure: whether each of them has its type surely, so that it need not be checked.
        overloads: all signatures of the function.
    """
    overload = fitting[0]
    if len(fitting) > 1:
        if overload.guarded:
            return _dispatched(overloads, steps)
        overload = overload._replace(cost=None)  # as upstream, for which the signature is unknown
    checks = [
        (place, wanted)
        for place, (wanted, known) in enumerate(zip(overload.takes, sure, strict=True))
        if overload.guarded and not known
    ]
    run, cost, metered = overload.run, overload.cost, overload.metered
    if len(steps) == 1 and not metered:
        return _unary(steps[0], overload, checks)
    if len(steps) == 2 and not metered:  # noqa: PLR2004 - two arguments
        return _binary(steps[0], steps[1], overload, checks)

    def call(frame: Frame) -> Value:
        two = len(steps) == 2  # noqa: PLR2004 - two arguments
        arguments = _pair(frame, steps[0], steps[1]) if two else [step(frame) for step in steps]
        frame[COST] += 1 if cost is None else cost(arguments)
        for place, wanted in checks:
            if not fits(wanted, arguments[place]):
                raise no_overload()
        return run(frame, *arguments) if metered else run(*arguments)

    return call


def _unary(step: Step, overload: Overload, checks: Sequence[tuple[int, Type]]) -> Step:
    run, cost = overload.run, overload.cost

    def call(frame: Frame) -> Value:
        try:
            argument = step(frame)
        except CelError:
            frame[COST] += 1
            raise
        frame[COST] += 1 if cost is None else cost((argument,))
        if checks and not fits(checks[0][1], argument):
            raise no_overload()
        return run(argument)

    return call


def _binary(one: Step, other: Step, overload: Overload, checks: Sequence[tuple[int, Type]]) -> Step:
    run, cost = overload.run, overload.cost

    def call(frame: Frame) -> Value:
        arguments = _pair(frame, one, other)
        frame[COST] += 1 if cost is None else cost(arguments)
        for place, wanted in checks:
            if not fits(wanted, arguments[place]):
                raise no_overload()
        return run(*arguments)

    return call


def _dispatched(overloads: Sequence[Overload], steps: Sequence[Step]) -> Step:
    """Return the function of a call whose signature depends on the values. Upstream counts 1 for it."""
    candidates = [one for one in overloads if len(one.takes) == len(steps)]

    def call(frame: Frame) -> Value:
        arguments = [step(frame) for step in steps]
        frame[COST] += 1
        for one in candidates:
            if all(map(fits, one.takes, arguments)):
                return one.run(frame, *arguments) if one.metered else one.run(*arguments)
        raise no_overload()

    return call


# --- macros


def _elements(values: Value) -> Sequence[Value]:
    if type(values) is list:
        return values
    if type(values) in (dict, Domains):
        return list(keys_of(values))
    raise CelError("the range is neither a list nor a map")


def _quantified(over: Step, place: int, body: Step, limit: int, *, decisive: bool) -> Step:
    """Return the function of `exists` (decided by true) or `all` (by false)."""
    condition = 3 if decisive else 2

    def run(frame: Frame) -> bool:
        elements = _elements(over(frame))
        error: CelError | None = None
        last = len(elements) - 1
        for number, element in enumerate(elements):
            frame[place] = element
            frame[COST] += condition + 1
            if frame[COST] > limit:
                raise _exceeded()
            try:
                found = body(frame)
            except CelError as failed:
                error = error or failed
                continue
            if type(found) is not bool:
                error = error or no_overload()
            elif found == decisive:
                frame[COST] += 1 if number == last else condition + 1
                return decisive
        frame[COST] += 1
        if error is not None:
            raise error
        return not decisive

    return run


def _counted(over: Step, place: int, body: Step, limit: int) -> Step:
    """Return the function of `exists_one`."""

    def run(frame: Frame) -> bool:
        count = 0
        for element in _elements(over(frame)):
            frame[place] = element
            found = body(frame)
            if type(found) is not bool:
                raise no_overload()
            if found:
                count += 1
                frame[COST] += 2
            if frame[COST] > limit:
                raise _exceeded()
        frame[COST] += 2
        return count == 1

    return run


def _collected(over: Step, place: int, condition: Step | None, body: Step | None, limits: tuple[int, int]) -> Step:
    """Return the function of `map` (with a body) or `filter` (without). `limits`: the maximum cost, and its start."""
    limit, empty = limits

    def run(frame: Frame) -> list[Value]:
        elements = _elements(over(frame))
        found: list[Value] = []
        frame[COST] += empty + 1
        for element in elements:
            frame[place] = element
            if condition is not None:
                holds = condition(frame)
                if type(holds) is not bool:
                    raise no_overload()
                if not holds:
                    if frame[COST] > limit:
                        raise _exceeded()
                    charge(frame, 1)
                    continue
            frame[COST] += LIST_COST + (2 if body is not None else 3)
            if frame[COST] > limit:
                raise _exceeded()
            if body is not None:
                found.append(body(frame))
            else:
                found.append(element if type(element) is not Optional else _resolved(element))
        checked_list(frame, len(found))
        return found

    return run
