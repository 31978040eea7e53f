"""The syntax of a CEL expression as a tree, to compute its cost (`cel_cost`).

The library that evaluates expressions shows none, and it ends the process when an expression is nested too deeply. So
every expression is parsed here first, with the limits of upstream's parser: 100,000 characters, and a depth of 250. A
chain such as `a.b.c` or `1 + 1 + 1` is as deep as it is long; a chain of `&&` or of `

` is not. Brackets may be nested less deeply than upstream, because the library allows no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

LONGEST: Final = 100_000
"""The maximum number of characters of an expression, as in upstream's parser."""

DEEPEST: Final = 250
"""The maximum depth of an expression, as in upstream's parser."""

NESTED: Final = 95
"""The maximum number of brackets within brackets, which is that of the evaluating library."""

MACROS: Final = frozenset({"all", "exists", "exists_one", "filter", "map"})
"""The calls that evaluate an argument for each element of a list or a map."""


class SyntaxTreeError(ValueError):
    """The text is not an expression. The evaluating library has the better words for that."""


class TooDeepError(ValueError):
    """The expression exceeds a limit of the parser. The text is upstream's."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value in the text."""

    value: str | int | None
    """The value of a string or a whole number, if it is plain. None for all others."""

    size: int
    """The largest size that the value may have."""


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`."""

    operand: Node
    field: str


@dataclass(frozen=True, slots=True)
class IndexInto:
    """`operand[index]`."""

    operand: Node
    index: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function, or an operator, whose name is then the operator. The receiver is the first argument.

    A namespace is not an argument: `ip.isCanonical(x)` is the function `ip.isCanonical` if `ip` is no variable. The
    parser cannot decide that, so the receiver is kept, and costs little.
    """

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list, or a map with its keys and values in turn."""

    items: tuple[Node, ...]
    is_map: bool = False


@dataclass(frozen=True, slots=True)
class Comprehension:
    """A macro: `over.all(name, body)`. `map` may have a condition as a second body."""

    macro: str
    over: Node
    name: str
    bodies: tuple[Node, ...]


Node = Literal | Name | Select | IndexInto | Call | Items | Comprehension


class _Token(NamedTuple):
    kind: str
    text: str


_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
    |(?P<string>(?P<prefix>[bBrR]{0,2})(?:
        '''(?:[^\\]|\\.)*?''' | \"\"\"(?:[^\\]|\\.)*?\"\"\"
        | '(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*"
    ))
    |(?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)?[uU]?)
    |(?P<name>`[^`\n]*`|[A-Za-z_][A-Za-z0-9_]*)
    |(?P<operator>&&|\|\||[<>=!]=|[-+*/%<>!?:.,(){}\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)
_LEVELS: Final[Mapping[str, int]] = {
    "||": 0,
    "&&": 1,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), 2),
    **dict.fromkeys(("+", "-"), 3),
    **dict.fromkeys(("*", "/", "%"), 4),
}
"""How closely the operators bind."""

_LOGICAL: Final = frozenset({"||", "&&"})
_CONSTANTS: Final = frozenset({"true", "false", "null"})


def parse(text: str) -> Node:
    """Parse an expression.

    Raises:
        TooDeepError: it is too long, or too deep.
        SyntaxTreeError: it is not an expression.
    """
    if len(text) > LONGEST:
        raise TooDeepError(f"expression code point size exceeds limit: size: {len(text)}, limit {LONGEST}")
    return _Parser(list(_tokens(text))).whole()


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return an expression in which some functions are called by other names.

    Args:
        text: an expression that `parse` accepts.
        names: the new names by the present ones.
    """
    tokens = list(_tokens(text, spaces=True))
    for place, token in enumerate(tokens):
        if token.kind == "name" and token.text in names:
            after = next(one for one in tokens[place + 1 :] if one.kind != "space")
            if after.text == "(":
                tokens[place] = token._replace(text=names[token.text])
    return "".join(token.text for token in tokens)


def _tokens(text: str, *, spaces: bool = False) -> Iterator[_Token]:
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise SyntaxTreeError(f"unexpected character at {place}")
        kind = found.lastgroup or ""
        if kind == "prefix":
            kind = "string"
        if spaces or kind != "space":
            yield _Token(kind, found[0])
        place = found.end()
    yield _Token("end", "")


Found = tuple[Node, int]
"""A node and its depth."""


class _Parser:
    """A parser by recursive descent for brackets, and by precedence for operators.

    Python allows about 1,000 nested calls. Each bracket takes four.
    """

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._brackets = 0
        """How many brackets are open."""

    def whole(self) -> Node:
        """Return the expression."""
        node, _ = self._expression()
        if self._next.kind != "end":
            raise SyntaxTreeError(f"unexpected {self._next.text!r}")
        return node

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self) -> _Token:
        found = self._tokens[self._place]
        self._place += 1
        return found

    def _is(self, *operators: str) -> bool:
        return self._next.kind == "operator" and self._next.text in operators

    def _accept(self, operator: str) -> bool:
        if self._is(operator):
            self._place += 1
            return True
        return False

    def _expect(self, operator: str) -> None:
        if not self._accept(operator):
            raise SyntaxTreeError(f"unexpected {self._next.text!r}")

    def _expression(self) -> Found:
        parts = [self._operation()]
        while self._accept("?"):
            parts.append(self._operation())
            self._expect(":")
            parts.append(self._operation())
        node, depth = parts.pop()
        while parts:
            (condition, first), (one, second) = parts.pop(-2), parts.pop()
            node, depth = Call("?:", (condition, one, node)), _checked(max(depth, first, second) + 1)
        return node, depth

    def _operation(self) -> Found:
        """Parse operands with operators between them."""
        found, operators = [self._operand()], list[str]()
        while True:
            operator = self._next.text if self._next.kind in {"operator", "name"} else ""
            level = _LEVELS.get(operator, -1)
            while operators and (
                (last := _LEVELS[operators[-1]]) > level or (last == level and operators[-1] not in _LOGICAL)
            ):
                _join(found, operators)
            if level < 0:
                return found[0]
            operators.append(self._take().text)
            found.append(self._operand())

    def _operand(self) -> Found:
        sign = self._next.text if self._is("!", "-") else ""
        while sign and self._accept(sign):  # a repeated sign is one rule in the grammar
            pass
        node, depth = self._primary()
        while self._is(".", "["):
            if self._accept("["):
                index, one = self._one("]")
                node, depth = IndexInto(node, index), max(depth, one)
            elif self._accept("."):
                self._accept("?")
                field = self._name()
                if self._accept("("):
                    arguments, one = self._arguments(")")
                    node, depth = _called(field, node, arguments), max(depth, one)
                elif self._is("{"):
                    raise SyntaxTreeError("messages are not supported")
                else:
                    node = Select(node, field)
            depth = _checked(depth + 1)
        return (Call(sign * 2, (node,)), _checked(depth + 1)) if sign else (node, depth)

    def _primary(self) -> Found:
        self._accept(".")  # a name from the root
        found = self._take()
        if found.kind == "name" and found.text not in _CONSTANTS:
            if self._accept("("):
                arguments, depth = self._arguments(")")
                return Call(found.text, arguments), _checked(depth + 1)
            return Name(found.text), 1
        if found.kind in {"name", "number", "string"}:
            return _literal(found), 1
        if found.text == "(":
            return self._one(")")
        if found.text not in {"[", "{"}:
            raise SyntaxTreeError(f"unexpected {found.text!r}")
        arguments, depth = self._arguments("]" if found.text == "[" else "}")
        return Items(arguments, is_map=found.text == "{"), _checked(depth + 1)

    def _one(self, end: str) -> Found:
        """Parse one expression and a closing bracket."""
        found, depth = self._arguments(end)
        if len(found) != 1:
            raise SyntaxTreeError("one expression must be in brackets")
        return found[0], depth

    def _arguments(self, end: str) -> tuple[tuple[Node, ...], int]:
        """Parse expressions up to a closing bracket. Those of a map also have colons between."""
        self._brackets += 1
        if self._brackets > NESTED:
            raise TooDeepError(f"expression recursion limit exceeded: {NESTED}")
        found: list[Node] = []
        deepest = 0
        while not self._accept(end):
            if found:
                self._expect(":" if end == "}" and len(found) % 2 else ",")
                if self._accept(end):  # a comma at the end
                    break
            self._accept("?")
            node, depth = self._expression()
            found.append(node)
            deepest = max(deepest, depth)
        if end == "}" and len(found) % 2:
            raise SyntaxTreeError("a key has no value")
        self._brackets -= 1
        return tuple(found), deepest

    def _name(self) -> str:
        found = self._take()
        if found.kind != "name":
            raise SyntaxTreeError(f"unexpected {found.text!r}")
        return found.text.strip("`")


def _checked(depth: int) -> int:
    if depth > DEEPEST:
        raise TooDeepError(f"expression recursion limit exceeded: {DEEPEST}")
    return depth


def _join(found: list[Found], operators: list[str]) -> None:
    """Replace the last operands by one node. A chain of `&&` or of `||` becomes one node at once."""
    operator, count = operators.pop(), 2
    while operator in _LOGICAL and operators and operators[-1] == operator:
        operators.pop()
        count += 1
    operands = found[-count:]
    node = Call(operator, tuple(node for node, _ in operands))
    found[-count:] = [(node, _checked(max(depth for _, depth in operands) + 1))]


def _called(function: str, receiver: Node, arguments: tuple[Node, ...]) -> Node:
    if function in MACROS and len(arguments) > 1 and isinstance(arguments[0], Name):
        return Comprehension(function, receiver, arguments[0].name, arguments[1:])
    return Call(function, (receiver, *arguments))


_ESCAPE: Final = re.compile(
    r"""\\(?:(?P<plain>[abfnrtv\\?"'`])|[xX](?P<hex>[0-9a-fA-F]{2})|u(?P<short>[0-9a-fA-F]{4})"""
    r"""|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2}))"""
)
_PLAIN: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


def _literal(found: _Token) -> Literal:
    if found.kind == "number" and found.text.isdecimal():
        return Literal(int(found.text), 1)
    if found.kind != "string":
        return Literal(None, 1)
    bare = found.text.lstrip("bBrR")
    prefix = found.text[: len(found.text) - len(bare)].lower()
    quotes = 3 if bare[:3] in {"'''", '"""'} else 1
    content = bare[quotes:-quotes]
    if "b" in prefix:
        return Literal(None, len(content.encode()))
    # A text is never longer than it is written.
    return Literal(content if "r" in prefix else _unescaped(content), len(content))


def _unescaped(content: str) -> str | None:
    """Return a text with its escapes resolved. None if one is unknown."""
    if "\\" not in content:
        return content
    if "\\" in _ESCAPE.sub("", content):
        return None
    try:
        return _ESCAPE.sub(_character, content)
    except ValueError:  # beyond Unicode
        return None


def _character(escape: re.Match[str]) -> str:
    if (plain := escape["plain"]) is not None:
        return _PLAIN.get(plain, plain)
    if (octal := escape["octal"]) is not None:
        return chr(int(octal, 8))
    return chr(int(escape["hex"] or escape["short"] or escape["long"], 16))
