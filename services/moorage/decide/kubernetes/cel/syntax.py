"""The syntax of a CEL expression as a tree, with the limits of upstream's parser.

An expression has at most 100,000 characters and a depth of 250. A chain such as `a.b.c` or `1 + 1 + 1` is as deep as it
is long; a chain of `&&` or of `||` is not. Brackets may be nested less deeply than upstream, because Python limits how
deeply functions call each other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from moorage.decide.kubernetes.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint, Value

LONGEST: Final = 100_000
"""The maximum number of characters of an expression, as in upstream's parser."""

DEEPEST: Final = 250
"""The maximum depth of an expression, as in upstream's parser."""

NESTED: Final = 95
"""The maximum number of brackets within brackets."""

ACCUMULATORS: Final = frozenset({"@result", "__result__"})
"""Names that a macro does not bind."""


class SyntaxTreeError(ValueError):
    """The text is not an expression.

    Attributes:
        at: where it is wrong.
    """

    def __init__(self, at: int, problem: str) -> None:
        super().__init__(problem)
        self.at = at


class TooDeepError(ValueError):
    """The expression exceeds a limit of the parser.

    Attributes:
        as_upstream: whether upstream also refuses the expression.
    """

    def __init__(self, problem: str, *, as_upstream: bool = True) -> None:
        super().__init__(problem)
        self.as_upstream = as_upstream


@dataclass(slots=True, eq=False)
class Literal:
    """A value in the text."""

    at: int
    value: Value


@dataclass(slots=True, eq=False)
class Name:
    """A variable or a type."""

    at: int
    name: str


@dataclass(slots=True, eq=False)
class Select:
    """`operand.field`, or `has(operand.field)`."""

    at: int
    operand: Node
    field: str
    test: bool = False


@dataclass(slots=True, eq=False)
class Call:
    """A call of a function, or an operator. Operators have upstream's names, such as `_+_` and `_?._`."""

    at: int
    function: str
    target: Node | None
    arguments: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class Items:
    """A list. `optional` has the places of elements with `?`."""

    at: int
    items: tuple[Node, ...]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entries:
    """A map. `optional` has the places of entries with `?`."""

    at: int
    items: tuple[tuple[Node, Node], ...]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Message:
    """A message of protobuf: `name{…}`."""

    at: int
    name: str


@dataclass(slots=True, eq=False)
class Fold:
    """A macro over a list or a map: `over.all(name, body)`. `map` may have a condition before its body."""

    at: int
    macro: str
    over: Node
    name: str
    bodies: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class OptionalMap:
    """`target.optMap(name, body)`, or `optFlatMap`."""

    at: int
    target: Node
    name: str
    body: Node
    flat: bool


@dataclass(frozen=True, slots=True, eq=False)
class Bind:
    """`cel.bind(name, value, body)`."""

    at: int
    name: str
    value: Node
    body: Node


Node = Literal | Name | Select | Call | Items | Entries | Message | Fold | OptionalMap | Bind

_FOLDS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("all", "exists", "exists_one", "filter"), (2,)),
    "map": (2, 3),
}
"""The macros over lists and maps, with their numbers of arguments."""

_OPTIONAL_MAPS: Final = frozenset({"optMap", "optFlatMap"})


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_ESCAPED: Final = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
_TOKEN: Final = re.compile(
    rf"""
    (?P<space>[\t \r\n\f]+|//[^\n]*)
    |(?P<string>[bB]?(?:
        [rR](?:'''(?s:.*?)''' | \"\"\"(?s:.*?)\"\"\" | '[^'\n\r]*' | "[^"\n\r]*")
        | '''(?:{_ESCAPED}|[^\\])*?''' | \"\"\"(?:{_ESCAPED}|[^\\])*?\"\"\"
        | '(?:{_ESCAPED}|[^'\\\n\r])*' | "(?:{_ESCAPED}|[^"\\\n\r])*"
    ))
    |(?P<number>0x[0-9a-fA-F]+[uU]?|(?:\d+\.\d+(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+[uU]?))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<operator>&&|\|\||[<>=!]=|[-+*/%<>!?:.,(){{}}\[\]])
    """,
    re.VERBOSE | re.ASCII,
)
_LEVELS: Final[Mapping[str, int]] = {
    "||": 0,
    "&&": 1,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), 2),
    **dict.fromkeys(("+", "-"), 3),
    **dict.fromkeys(("*", "/", "%"), 4),
}
"""How closely the operators bind."""

_OPERANDS: Final = "'.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"
_OPERAND: Final = f"{{'[', '{{', '(', {_OPERANDS}}}"
_OPERAND_OR_END: Final = f"{{'[', '{{', '(', ')', {_OPERANDS}}}"
"""The tokens that may begin an operand, as upstream lists them."""

_LOGICAL: Final = frozenset({"||", "&&"})
_CONSTANTS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None}
_KEYWORDS: Final = frozenset({*_CONSTANTS, "in"})
_RESERVED: Final = frozenset(
    {"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"}
) | {"namespace", "return", "var", "void", "while"}


def parse(text: str, *, binds: bool = False) -> Node:
    """Parse an expression.

    Args:
        text: the expression.
        binds: whether `cel.bind` is a macro.

    Raises:
        TooDeepError: it is too long, or too deep.
        SyntaxTreeError: it is not an expression.
    """
    if len(text) > LONGEST:
        raise TooDeepError(f"expression code point size exceeds limit: size: {len(text)}, limit {LONGEST}")
    return _Parser(list(_tokens(text)), binds=binds).whole()


def operator_name(operator: str) -> str:
    """Return the name of the function of an operator with two operands."""
    return "@in" if operator == "in" else f"_{operator}_"


def qualified_name(node: Node) -> str:
    """Return the name with dots that a node may be. Empty if it is something else."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test:
        parts.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(parts)]) if isinstance(node, Name) else ""


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise SyntaxTreeError(place, f"Syntax error: token recognition error at: '{text[place]}'")
        kind = found.lastgroup or ""
        if kind != "space":
            yield _Token("operator" if kind == "name" and found[0] == "in" else kind, found[0], place)
        place = found.end()
    yield _Token("end", "<EOF>", place)


Found = tuple[Node, int]
"""A node and its depth."""


class _Parser:
    """A parser by recursive descent for brackets, and by precedence for operators.

    Python allows about 1,000 nested calls. Each bracket takes four.
    """

    def __init__(self, tokens: list[_Token], *, binds: bool) -> None:
        self._tokens = tokens
        self._binds = binds
        self._place = 0
        self._brackets = 0
        """How many brackets are open."""

        self._first = -1
        """The place of the first argument of a call, where its bracket may also close."""

    def whole(self) -> Node:
        """Return the expression."""
        node, _ = self._expression()
        if self._next.kind != "end":
            raise SyntaxTreeError(self._next.at, f"Syntax error: extraneous input '{self._next.text}' expecting <EOF>")
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
            if operator in {")", "]"} and self._next.kind == "end":
                raise SyntaxTreeError(self._next.at, f"Syntax error: missing '{operator}' at '<EOF>'")
            raise self._unexpected(f"'{operator}'")

    def _unexpected(self, expected: str) -> SyntaxTreeError:
        return SyntaxTreeError(
            self._next.at, f"Syntax error: mismatched input '{self._next.text}' expecting {expected}"
        )

    def _expression(self) -> Found:
        parts, places = [self._operation()], list[int]()
        while self._is("?"):
            places.append(self._take().at)
            parts.append(self._operation())
            self._expect(":")
            parts.append(self._operation())
        node, depth = parts.pop()
        while parts:
            (condition, first), (one, second) = parts.pop(-2), parts.pop()
            node = Call(places.pop(), "_?_:_", None, (condition, one, node))
            depth = _checked(max(depth, first, second) + 1)
        return node, depth

    def _operation(self) -> Found:
        """Parse operands with operators between them."""
        found, operators = [self._operand()], list[_Token]()
        while True:
            operator = self._next.text if self._next.kind == "operator" else ""
            level = _LEVELS.get(operator, -1)
            while operators and (
                (last := _LEVELS[operators[-1].text]) > level or (last == level and operators[-1].text not in _LOGICAL)
            ):
                _join(found, operators)
            if level < 0:
                return found[0]
            operators.append(self._take())
            found.append(self._operand())

    def _operand(self) -> Found:
        first = self._next
        sign = first.text if self._is("!", "-") else ""
        count = 0
        while sign and self._is(sign):
            negative = sign == "-" and self._tokens[self._place + 1].kind == "number"
            if negative and not count and self._tokens[self._place + 1].text[-1] not in "uU":
                break  # the sign belongs to the literal
            self._take()
            count += 1
        node, depth = self._member()
        if count % 2 == 0:
            return node, depth
        return Call(first.at, "!_" if sign == "!" else "-_", None, (node,)), _checked(depth + 1)

    def _member(self) -> Found:
        node, depth = self._primary()
        while self._is(".", "["):
            token = self._take()
            if token.text == "[":
                optional = self._accept("?")
                index, one = self._one("]")
                node = Call(token.at, "_[?_]" if optional else "_[_]", None, (node, index))
                depth = max(depth, one)
            elif self._accept("?"):
                field = self._name()
                node = Call(token.at, "_?._", None, (node, Literal(field.at, field.text)))
            else:
                field = self._name()
                if self._is("("):
                    bracket = self._take().at
                    arguments, _, one = self._arguments(")")
                    node, depth = _called(bracket, field.text, node, arguments, binds=self._binds), max(depth, one)
                else:
                    node = Select(token.at, node, field.text)
            depth = _checked(depth + 1)
        return node, depth

    def _primary(self) -> Found:
        rooted = self._accept(".")
        found = self._take()
        if found.kind == "name" and found.text not in _KEYWORDS:
            return self._named(found)
        if rooted:
            raise SyntaxTreeError(found.at, f"Syntax error: mismatched input '{found.text}' expecting IDENTIFIER")
        if found.kind in {"name", "string"}:
            value = _CONSTANTS[found.text] if found.kind == "name" else _text_of(found)
            return Literal(found.at, value), 1
        if found.kind == "number" or (found.text == "-" and self._next.kind == "number"):
            return Literal(found.at, _number_of(found, self._take() if found.text == "-" else None)), 1
        if found.text == "(":
            return self._one(")")
        if found.text == "[":
            items, optional, depth = self._arguments("]", trailing=True)
            return Items(found.at, items, optional), _checked(depth + 1)
        if found.text == "{":
            return self._entries(found.at)
        self._place -= 1
        raise self._unexpected(_OPERAND_OR_END if self._place == self._first else _OPERAND)

    def _named(self, found: _Token) -> Found:
        message = self._message_name(found)
        if message:
            _, depth = self._fields()
            return Message(found.at, message), _checked(depth + 1)
        if found.text in _RESERVED:
            raise SyntaxTreeError(found.at, f"reserved identifier: {found.text}")
        if not self._is("("):
            return Name(found.at, found.text), 1
        bracket = self._take().at
        arguments, _, depth = self._arguments(")")
        if found.text == "has" and len(arguments) == 1:
            return _presence(bracket, arguments[0]), _checked(depth + 1)
        return Call(bracket, found.text, None, arguments), _checked(depth + 1)

    def _message_name(self, found: _Token) -> str:
        """Return the name of a message, and go to its bracket. Empty if there is none."""
        place, names = self._place, [found.text]
        while self._tokens[place].text == "." and self._tokens[place + 1].kind == "name":
            names.append(self._tokens[place + 1].text)
            place += 2
        if self._tokens[place].text != "{" or self._tokens[place].kind != "operator":
            return ""
        self._place = place + 1
        return ".".join(names)

    def _fields(self) -> tuple[None, int]:
        """Parse the fields of a message."""
        self._open()
        deepest, first = 0, True
        while not self._accept("}"):
            if not first:
                self._expect(",")
                if self._accept("}"):
                    break
            first = False
            self._accept("?")
            self._name()
            self._expect(":")
            deepest = max(deepest, self._expression()[1])
        self._brackets -= 1
        return None, deepest

    def _entries(self, at: int) -> Found:
        self._open()
        entries: list[tuple[Node, Node]] = []
        optional: set[int] = set()
        deepest = 0
        while not self._accept("}"):
            if self._is(",") and not entries:  # as in upstream's grammar, a comma may stand alone
                self._take()
                self._expect("}")
                break
            if entries:
                self._expect(",")
                if self._accept("}"):
                    break
            if self._accept("?"):
                optional.add(len(entries))
            key, one = self._expression()
            self._expect(":")
            value, other = self._expression()
            entries.append((key, value))
            deepest = max(deepest, one, other)
        self._brackets -= 1
        return Entries(at, tuple(entries), frozenset(optional)), _checked(deepest + 1)

    def _one(self, end: str) -> Found:
        """Parse one expression and a closing bracket."""
        self._open()
        found = self._expression()
        self._expect(end)
        self._brackets -= 1
        return found

    def _open(self) -> None:
        self._brackets += 1
        if self._brackets > DEEPEST:
            raise TooDeepError(f"expression recursion limit exceeded: {DEEPEST}")
        if self._brackets > NESTED:
            raise TooDeepError(f"more than {NESTED} brackets within each other", as_upstream=False)

    def _arguments(self, end: str, *, trailing: bool = False) -> tuple[tuple[Node, ...], frozenset[int], int]:
        """Parse expressions up to a closing bracket.

        Args:
            end: the bracket.
            trailing: whether they are elements of a list: with optional ones, and a comma at the end.
        """
        self._open()
        found: list[Node] = []
        optional: set[int] = set()
        deepest = 0
        if not trailing:
            self._first = self._place
        while not self._accept(end):
            if trailing and not found and self._accept(","):
                self._expect(end)
                break
            if found:
                self._expect(",")
                if trailing and self._accept(end):
                    break
            if trailing and self._accept("?"):
                optional.add(len(found))
            node, depth = self._expression()
            found.append(node)
            deepest = max(deepest, depth)
        self._brackets -= 1
        return tuple(found), frozenset(optional), deepest

    def _name(self) -> _Token:
        if self._next.kind != "name" or self._next.text in _KEYWORDS:
            raise SyntaxTreeError(self._next.at, "Syntax error: no viable alternative at input '.'")
        return self._take()


def _checked(depth: int) -> int:
    if depth > DEEPEST:
        raise TooDeepError(f"expression recursion limit exceeded: {DEEPEST}")
    return depth


def _join(found: list[Found], operators: list[_Token]) -> None:
    """Replace the last operands by one node. A chain of `&&` or of `||` becomes one node at once."""
    operator, count = operators.pop(), 2
    while operator.text in _LOGICAL and operators and operators[-1].text == operator.text:
        operator = operators.pop()
        count += 1
    operands = found[-count:]
    node = Call(operator.at, operator_name(operator.text), None, tuple(node for node, _ in operands))
    found[-count:] = [(node, _checked(max(depth for _, depth in operands) + 1))]


def _called(at: int, function: str, receiver: Node, arguments: tuple[Node, ...], *, binds: bool) -> Node:
    """Return the call of a method, or the macro that it is."""
    if len(arguments) in _FOLDS.get(function, ()):
        name = _bound(arguments[0], "argument must be a simple name" if len(arguments) == 2 else "")  # noqa: PLR2004 - a name and a body
        return Fold(at, function, receiver, name, arguments[1:])
    if function in _OPTIONAL_MAPS and len(arguments) == 2:  # noqa: PLR2004 - a name and a body
        name = _bound(arguments[0], f"{function}() variable name must be a simple identifier")
        return OptionalMap(at, receiver, name, arguments[1], function == "optFlatMap")
    if function == "bind" and binds and len(arguments) == 3 and qualified_name(receiver) == "cel":  # noqa: PLR2004 - its arguments
        name = _bound(arguments[0], "cel.bind() variable names must be simple identifiers")
        return Bind(at, name, *arguments[1:])
    return Call(at, function, receiver, arguments)


def _bound(node: Node, problem: str) -> str:
    if not isinstance(node, Name):
        raise SyntaxTreeError(node.at, problem or "argument is not an identifier")
    if node.name in ACCUMULATORS:
        raise SyntaxTreeError(node.at, "iteration variable overwrites accumulator variable")
    return node.name


def _presence(at: int, node: Node) -> Node:
    if not isinstance(node, Select):
        raise SyntaxTreeError(node.at, "invalid argument to has() macro")
    return Select(at, node.operand, node.field, test=True)


# --- literals

_ESCAPE: Final = re.compile(
    r"""\\(?:(?P<plain>[abfnrtv"'\\?`])|[xX](?P<hex>..)|u(?P<short>.{4})|U(?P<long>.{8})|(?P<octal>[0-3]..))""",
    re.DOTALL,
)
_PLAIN: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_SURROGATES: Final = range(0xD800, 0xE000)


def _number_of(found: _Token, digits: _Token | None) -> Value:
    sign, text = ("-", digits.text) if digits else ("", found.text)
    unsigned = text[-1] in "uU"
    bare = text.removesuffix("u").removesuffix("U")
    if bare.isdecimal() or bare.startswith("0x"):
        hexadecimal = bare.startswith("0x")
        short = bare[2:].lstrip("0") if hexadecimal else bare.lstrip("0")
        least, most = (0, UINT_MAX) if unsigned else (INT_MIN, INT_MAX)
        whole = int(f"{sign}{short or 0}", 16 if hexadecimal else 10) if len(short) <= _LONGEST_NUMBER else most + 1
        if not least <= whole <= most or (unsigned and sign):
            raise SyntaxTreeError(found.at, f"invalid {'uint' if unsigned else 'int'} literal")
        return Uint(whole) if unsigned else whole
    number = float(sign + text)
    if math.isinf(number):
        raise SyntaxTreeError(found.at, "invalid double literal")
    return number


_LONGEST_NUMBER: Final = 32
"""How many digits an integer may have, besides zeros in front."""


def _text_of(found: _Token) -> str | bytes:
    text = found.text.replace("\r\n", "\n").replace("\r", "\n")
    bare = text.lstrip("bBrR")
    prefix = text[: len(text) - len(bare)].lower()
    quotes = 3 if len(bare) >= 6 and bare[:3] in {"'''", '"""'} else 1  # noqa: PLR2004 - two times three quotes
    content = bare[quotes:-quotes]
    if "b" in prefix:
        return content.encode() if "r" in prefix else _bytes_of(content, found.at)
    if "r" in prefix or "\\" not in content:
        return content
    return _ESCAPE.sub(lambda escape: _character(escape, found.at), content)


def _character(escape: re.Match[str], at: int) -> str:
    if (plain := escape["plain"]) is not None:
        return _PLAIN.get(plain, plain)
    octal = escape["octal"]
    code = int(octal, 8) if octal is not None else int(escape["hex"] or escape["short"] or escape["long"], 16)
    if code > 0x10FFFF or code in _SURROGATES:  # noqa: PLR2004 - the last character of Unicode
        raise SyntaxTreeError(at, "invalid unicode code point")
    return chr(code)


def _bytes_of(content: str, at: int) -> bytes:
    parts: list[bytes] = []
    place = 0
    for escape in _ESCAPE.finditer(content):
        parts.append(content[place : escape.start()].encode())
        place = escape.end()
        if escape["short"] or escape["long"]:
            raise SyntaxTreeError(at, "unable to unescape string")
        digits = escape["octal"] or escape["hex"]
        code = int(digits, 8 if escape["octal"] else 16) if digits else ord(_character(escape, at))
        parts.append(bytes([code]))
    return b"".join(parts) + content[place:].encode()
