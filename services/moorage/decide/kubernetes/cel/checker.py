"""The compiler's check of an expression: are all names declared, and do the types fit?

The errors have upstream's texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from moorage.decide.kubernetes.cel.declarations import Overload
from moorage.decide.kubernetes.cel.environments import Environment
from moorage.decide.kubernetes.cel.functions.all import TYPES
from moorage.decide.kubernetes.cel.functions.formatting import CLAUSES, check_clause, clauses
from moorage.decide.kubernetes.cel.functions.standard import MIXED
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
    qualified_name,
)
from moorage.decide.kubernetes.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    STRING,
    Type,
    Variables,
    is_dynamic,
    list_of,
    map_of,
    optional_of,
    shown,
    type_of,
)
from moorage.decide.kubernetes.cel.values import kind_of

_PROTOBUF: Final = "google."


class UnsupportedError(ValueError):
    """Upstream may compile an expression that is not supported here."""


class Checked:
    """The results of the check.

    Attributes:
        types: the type of each node.
        calls: the signatures that a call may have, by its node.
        namespaced: the calls whose receiver is a part of the function's name.
        elements: the types of the variables of macros.
        constants: the types that names stand for, by their nodes.
        errors: the errors with their places.
    """

    def __init__(self) -> None:
        self.types: dict[Node, Type] = {}
        self.calls: dict[Node, tuple[Overload, ...]] = {}
        self.elements: dict[Node, Type] = {}
        self.namespaced: set[Node] = set()
        self.constants: dict[Node, str] = {}
        self.errors: list[tuple[int, str]] = []


def check(tree: Node, environment: Environment) -> Checked:
    """Check an expression.

    Args:
        tree: the expression.
        environment: what it may use.

    Raises:
        UnsupportedError: it uses something that is not supported here.
        TooDearError: the check takes too long.
    """
    checker = _Checker(environment)
    checker.check(tree)
    return checker.finished()


class _Checker:
    """Visits the nodes of an expression."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._found = Checked()
        self._variables = Variables()
        self._scopes: list[tuple[str, Type]] = []
        self._mixed = False
        """Whether numbers of two types may be compared, which upstream allows once it has left a macro."""

        self._formats: list[Call] = []
        self._visits: dict[type, Callable[[Any], Type]] = {
            Literal: lambda node: Type(kind_of(node.value)),
            Name: self._name,
            Select: self._select,
            Call: self._call,
            Items: self._items,
            Entries: self._entries,
            Fold: self._fold,
            OptionalMap: self._optional_map,
            Bind: self._bind,
            Message: self._message,
        }

    def finished(self) -> Checked:
        """Return the results."""
        if not self._found.errors:
            types = self._found.types
            for key, one in types.items():
                types[key] = self._variables.resolved(one, dynamic=True)
            for key, one in self._found.elements.items():
                self._found.elements[key] = self._variables.resolved(one, dynamic=True)
            for call in self._formats:
                self._check_format(call)
        return self._found

    def check(self, node: Node) -> Type:
        """Return the type of a node."""
        visit = self._visits[type(node)]
        found = visit(node)
        self._found.types[node] = found
        return found

    def _error(self, at: int, text: str) -> Type:
        self._found.errors.append((at, text))
        return ERROR

    def _undeclared(self, at: int, name: str) -> Type:
        return self._error(at, f"undeclared reference to '{name}' (in container '')")

    def _mismatch(self, at: int, wanted: Type, found: Type) -> Type:
        return self._error(at, f"expected type '{shown(wanted)}' but found '{shown(found)}'")

    # --- names

    def _variable(self, name: str) -> Type | None:
        for own, one in reversed(self._scopes):
            if own == name:
                return one
        return self._environment.type if name == self._environment.variable else None

    def _name(self, node: Name) -> Type:
        found = self._variable(node.name)
        if found is not None:
            return found
        if node.name in TYPES:
            self._found.constants[node] = node.name
            return type_of(TYPES[node.name])
        return self._undeclared(node.at, node.name)

    def _message(self, node: Message) -> Type:
        if node.name.startswith(_PROTOBUF):
            raise UnsupportedError(f"messages such as {node.name} are not supported")
        return self._undeclared(node.at, node.name)

    def _select(self, node: Select) -> Type:
        name = qualified_name(node)
        if name in TYPES and self._variable(name.partition(".")[0]) is None:
            self._found.constants[node] = name
            return type_of(TYPES[name])
        if name.startswith(_PROTOBUF) and self._variable("google") is None:
            raise UnsupportedError(f"{name} is not supported")
        found = self._field(node.at, node.operand, node.field, optional=False)
        return BOOL if node.test else found

    def _field(self, at: int, operand: Node, field: str, *, optional: bool) -> Type:
        given = self._variables.resolved(self.check(operand))
        whole = given.parts[0] if given.name == "optional_type" else given
        found = DYN
        if whole.name == "map":
            found = whole.parts[1]
        elif whole.is_variable:
            self._variables.assign([DYN], [whole])
        elif (fields := self._environment.fields.get(whole.name)) is not None:
            found = fields[field] if field in fields else self._error(at, f"undefined field '{field}'")
        elif not is_dynamic(whole):
            # Upstream checks the fields of its own types, which have none.
            self._error(at, f"type '{shown(whole)}' does not support field selection")
        found = self._variables.resolved(found)
        return optional_of(found) if optional or whole is not given else found

    # --- calls

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            operand, field = node.arguments
            found = self._field(node.at, operand, field.value if isinstance(field, Literal) else "", optional=True)
            self._found.types[field] = STRING
            return found
        given = [self.check(argument) for argument in node.arguments]
        if node.function in {"_&&_", "_||_"}:
            return self._logical(node, given)
        name, target = node.function, node.target
        if target is not None:
            prefix = qualified_name(target)
            if prefix and f"{prefix}.{name}" in self._environment.functions:
                self._found.namespaced.add(node)
                name, target = f"{prefix}.{name}", None
        if target is not None:
            given.insert(0, self.check(target))
        if name not in self._environment.functions:
            if name in self._environment.unsupported:
                raise UnsupportedError(f"the function {name} is not supported")
            return self._undeclared(node.at, name)
        found = self._resolve(node, name, given, member=target is not None)
        if name == "format" and isinstance(target, Literal) and isinstance(node.arguments[0], Items):
            self._formats.append(node)
        return found

    def _logical(self, node: Call, given: Sequence[Type]) -> Type:
        wrong = False
        for argument, one in zip(node.arguments, given, strict=True):
            if not self._variables.assign([one], [BOOL]):
                self._mismatch(argument.at, BOOL, one)
                wrong = True
        return ERROR if wrong else BOOL

    def _resolve(self, node: Node, name: str, given: Sequence[Type], *, member: bool = False) -> Type:
        """Return the type of a call, and remember its possible signatures."""
        result: Type | None = None
        fitting: list[Overload] = []
        for overload in self._environment.functions[name]:
            if overload.member != member or len(overload.takes) != len(given):
                continue
            if not self._mixed and (name, overload.takes) in MIXED:
                continue
            returns, *takes = self._variables.instance([overload.returns, *overload.takes])
            if not self._variables.assign(given, takes):
                continue
            fitting.append(overload)
            found = self._variables.resolved(returns)
            if result is None:
                result = found
            elif result.name != "dyn" and found != result:
                result = DYN
        if result is None:
            texts = [shown(self._variables.resolved(one, dynamic=True)) for one in given]
            signature = f"{texts[0]}.({', '.join(texts[1:])})" if member else f"({', '.join(texts)})"
            return self._error(node.at, f"found no matching overload for '{name}' applied to '{signature}'")
        self._found.calls[node] = tuple(fitting)
        return result

    # --- lists, maps, macros

    def _items(self, node: Items) -> Type:
        found: Type | None = None
        for place, item in enumerate(node.items):
            one = self.check(item)
            if place in node.optional:
                one = self._unwrapped(item, one)
            found = self._joined(found, one)
        return list_of(found if found is not None else self._variables.new())

    def _entries(self, node: Entries) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for place, (key, value) in enumerate(node.items):
            keys = self._joined(keys, self.check(key))
            one = self.check(value)
            if place in node.optional:
                one = self._unwrapped(value, one)
            values = self._joined(values, one)
        if keys is None or values is None:
            return map_of(self._variables.new(), self._variables.new())
        return map_of(keys, values)

    def _unwrapped(self, node: Node, one: Type) -> Type:
        if one.name == "optional_type":
            return one.parts[0]
        if one.name != "dyn":
            self._mismatch(node.at, optional_of(one), one)
        return one

    def _joined(self, before: Type | None, one: Type) -> Type:
        if before is None:
            return one
        return self._variables.joined(before, one) if self._variables.assign([before], [one]) else DYN

    def _fold(self, node: Fold) -> Type:
        over = self._variables.resolved(self.check(node.over))
        collected = list_of(self._variables.new()) if node.macro in {"map", "filter"} else BOOL
        element = DYN
        if over.name in {"list", "map"}:
            element = over.parts[0]
        elif is_dynamic(over) or over.is_variable:
            self._variables.assign([DYN], [over])
        else:
            self._error(
                node.over.at,
                f"expression of type '{shown(over)}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
            )
            element = ERROR
        self._found.elements[node] = element
        self._scopes.append((node.name, element))
        self._mixed = True
        bodies = [self.check(body) for body in node.bodies]
        self._scopes.pop()
        if node.macro in {"all", "exists"}:
            if not self._variables.assign([bodies[0]], [BOOL]):
                self._mismatch(node.bodies[0].at, BOOL, bodies[0])
            return BOOL
        if node.macro == "exists_one":
            self._resolve(node, "_?_:_", [bodies[0], INT, INT])
            return BOOL
        step = self._resolve(node, "_+_", [collected, list_of(element if node.macro == "filter" else bodies[-1])])
        if node.macro == "filter" or len(bodies) == 2:  # noqa: PLR2004 - a condition and a body
            step = self._resolve(node, "_?_:_", [bodies[0], step, collected])
        if not self._variables.assign([collected], [step]):
            self._mismatch(node.at, collected, step)
        return self._variables.resolved(collected)

    def _optional_map(self, node: OptionalMap) -> Type:
        target = self.check(node.target)
        self._resolve(node, "hasValue", [target], member=True)
        value = self._resolve(node, "value", [target], member=True)
        self._scopes.append((node.name, value))
        self._mixed = True
        body = self.check(node.body)
        self._scopes.pop()
        if not node.flat:
            body = self._resolve(node, "optional.of", [body])
        none = self._resolve(node, "optional.none", [])
        return self._resolve(node, "_?_:_", [BOOL, body, none])

    def _bind(self, node: Bind) -> Type:
        value = self.check(node.value)
        self._scopes.append((node.name, value))
        self._mixed = True
        found = self.check(node.body)
        self._scopes.pop()
        return found

    # --- formats

    def _check_format(self, node: Call) -> None:
        """Check a format that is written in the expression against the types of its arguments."""
        form, arguments = node.target, node.arguments[0]
        if not isinstance(form, Literal) or not isinstance(arguments, Items):
            return
        taken = 0
        for clause in clauses(form.value):
            if not clause.kind:
                continue
            taken += 1
            if clause.kind == "end":
                self._error(node.at, "unexpected end of string")
                return
            if taken > len(arguments.items):
                self._error(node.at, f"index {taken - 1} out of range")
                return
            if problem := check_clause(clause):
                self._error(node.at, problem)
                return
            wrong = self._misfit(arguments.items[taken - 1], clause.kind)
            if wrong is not None:
                name = self._found.types[wrong].name
                self._error(wrong.at, f"error during formatting: {CLAUSES[clause.kind][1]}, was given {name}")
                return
        if len(arguments.items) > taken:
            self._error(
                node.at,
                f"too many arguments supplied to string.format (expected {taken}, got {len(arguments.items)})",
            )

    def _misfit(self, node: Node, kind: str) -> Node | None:
        """Return the node that a clause cannot format. None if there is none."""
        name = self._found.types[node].name
        if name != "dyn" and name not in CLAUSES[kind][0]:
            return node
        if kind != "s":
            return None
        inner: list[Node] = []
        if isinstance(node, Items):
            inner = list(node.items)
        elif isinstance(node, Entries):
            inner = [part for entry in node.items for part in entry]
        return next((wrong for one in inner if (wrong := self._misfit(one, kind)) is not None), None)
