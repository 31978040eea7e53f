r"""JSONPath templates in kubectl's dialect, which Karmada's rules of state preservation share.

A template is text with actions in braces: paths such as `{.items[0].metadata.name}`, texts such as `{"\n"}`, and loops
from `{range .items[*]}` to `{end}`. The dialect has slices with a step, unions, filters such as
`[?(@.type=="Ready")]`, and `..` for every value below one. It has no functions and no arithmetic. A backslash in a
field's name takes the next character as it is: `.metadata.labels.kubernetes\.io/hostname`.

No library on the package index has loops and texts in this dialect.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_TERMINATORS: Final = frozenset(" \t\r\n.,[]$@{}")
_SLICE: Final = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_KEY: Final = re.compile(r"'([^']*)'")
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?[0-9.]*")
_LONGEST_PLAIN: Final = 1e21  # larger numbers have an exponent

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
}


class TemplateError(ValueError):
    """A template that cannot be read, or does not fit the object."""


@dataclass(frozen=True, slots=True)
class _Literal:
    value: Any


@dataclass(frozen=True, slots=True)
class _Field:
    name: str


@dataclass(frozen=True, slots=True)
class _Wildcard:
    pass


@dataclass(frozen=True, slots=True)
class _Recursive:
    pass


@dataclass(frozen=True, slots=True)
class _Slice:
    first: int
    last: int | None
    """The end, which does not belong to it. None for all that is left."""

    step: int | None
    single: bool
    """Whether the end follows from the beginning: `[3]`."""


@dataclass(frozen=True, slots=True)
class _Union:
    parts: tuple[Steps, ...]


@dataclass(frozen=True, slots=True)
class _Filter:
    left: Steps
    comparison: str
    """Empty if the left side need only exist."""

    right: Steps


@dataclass(frozen=True, slots=True)
class _Word:
    name: str


Step = _Literal | _Field | _Wildcard | _Recursive | _Slice | _Union | _Filter | _Word
Steps = tuple[Step, ...]


@dataclass(slots=True)
class _Block:
    """Texts, actions and loops, in their order."""

    values: Steps = ()
    """The expression that a loop iterates over. Empty for the whole template."""

    parts: list[str | Steps | _Block] = field(default_factory=list)


class JsonPathTemplate:
    """A template that has been read. Raises TemplateError if it cannot be read."""

    def __init__(self, template: str) -> None:
        self._source = template
        try:
            self._root = _blocks(template)
        except _FlawError as flaw:
            raise TemplateError(f"error parsing jsonpath {template}, {flaw}") from None

    def text(self, document: Any, *, is_strict: bool = False) -> str:
        """Return the text that the template makes of an object.

        Args:
            document: the object.
            is_strict: whether every path must find something. Otherwise what is missing is left out.

        Raises:
            TemplateError: an index is out of bounds, values cannot be compared, or nothing is found.
        """
        try:
            found = list(_evaluate(self._root, [document]))
        except _FlawError as flaw:
            raise TemplateError(f'error executing jsonpath "{self._source}": {flaw}') from None
        if is_strict and not all(found):
            raise TemplateError(f'error executing jsonpath "{self._source}": nothing is found')
        return "".join(" ".join(map(as_text, one)) for one in found)

    def values(self, document: Any) -> list[Any]:
        """Return all that the template finds in an object. Raises TemplateError, as `text` does."""
        try:
            return [value for found in _evaluate(self._root, [document]) for value in found]
        except _FlawError as flaw:
            raise TemplateError(f'error executing jsonpath "{self._source}": {flaw}') from None


def as_text(value: Any) -> str:
    """Return a value as kubectl writes it in a template: texts as they are, objects and lists as JSON."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        text = json.dumps(_plain(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False)
        return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return "null" if value is None else str(_plain(value))


def _plain(value: Any) -> Any:
    """Return a value with whole numbers that have no fraction."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _LONGEST_PLAIN:
        return int(value)
    return value


class _FlawError(Exception):
    """A template is invalid, or does not fit the object."""


# reading


def _blocks(template: str) -> _Block:
    root = _Block()
    open_blocks = [root]
    for text, steps in _actions(template):
        if text:
            open_blocks[-1].parts.append(text)
        first = steps[0] if steps else None
        if steps and first == _Word("range"):
            block = _Block(steps[1:])
            open_blocks[-1].parts.append(block)
            open_blocks.append(block)
        elif first == _Word("end"):
            if len(open_blocks) == 1:
                raise _FlawError("not in range, nothing to end")
            open_blocks.pop()
        elif isinstance(first, _Word):
            raise _FlawError(f"unrecognized identifier {first.name}")
        elif steps is not None:
            open_blocks[-1].parts.append(steps)
    return root


def _actions(template: str) -> Iterator[tuple[str, Steps | None]]:
    """Yield each action after the text before it. The last has no action."""
    position = 0
    while (start := template.find("{", position)) >= 0:
        reader = _Reader(template, start + 1)
        steps = reader.action()
        yield template[position:start], steps
        position = reader.position
    yield template[position:], None


def _steps(text: str) -> Steps:
    return _Reader(f"{text}}}", 0).action()


class _Reader:
    """Reads one action."""

    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self.position = position

    def action(self) -> Steps:
        """Return the steps up to the closing brace."""
        found: list[Step] = []
        while True:
            rest = self._text[self.position : self.position + 3]
            if not rest or rest[0] == "\n":
                raise _FlawError("unclosed action")
            if rest[0] == "}":
                self.position += 1
                return tuple(found)
            if rest[0] in " @$":  # the value that the path begins with
                self.position += 1
            else:
                found += self._next(rest)

    def _next(self, rest: str) -> Steps:
        """Return what begins with these characters."""
        if rest == "[?(":
            return (self._filter(),)
        if rest.startswith(".."):
            return self._recursive()
        if rest[0] == "[":
            return self._array()
        if rest[0] == ".":
            self.position += 1
            return (self._field(),)
        return (self._value(rest[0]),)

    def _value(self, sign: str) -> Step:
        if sign in "\"'":
            return self._quoted(sign)
        if sign in "+-" or sign.isdigit():
            return self._number()
        if sign.isalnum() or sign == "_":
            return self._word()
        raise _FlawError(f"unrecognized character in action: U+{ord(sign):04X} '{sign}'")

    def _recursive(self) -> Steps:
        self.position += 2
        named = self.position < len(self._text) and self._text[self.position] not in _TERMINATORS
        return (_Recursive(), self._field()) if named else (_Recursive(),)

    def _field(self) -> Step:
        name = ""
        while self.position < len(self._text) and self._text[self.position] not in _TERMINATORS:
            if self._text[self.position] == "\\":
                self.position += 1
            name += self._text[self.position : self.position + 1]
            self.position += 1
        return _Wildcard() if name == "*" else _Field(name)

    def _word(self) -> Step:
        start = self.position
        while self.position < len(self._text) and self._text[self.position] not in _TERMINATORS:
            self.position += 1
        word = self._text[start : self.position]
        return _Literal(word == "true") if word in {"true", "false"} else _Word(word)

    def _number(self) -> Step:
        match = _NUMBER.match(self._text, self.position)
        text = match[0] if match else ""
        self.position += len(text)
        try:
            return _Literal(float(text) if "." in text else int(text))
        except ValueError:
            raise _FlawError(f"cannot parse number {text}") from None

    def _quoted(self, quote: str) -> Step:
        start = self.position
        self.position += 1
        while self.position < len(self._text) and self._text[self.position] != quote:
            self.position += 2 if self._text[self.position] == "\\" else 1
        if self.position >= len(self._text):
            raise _FlawError("unterminated quoted string")
        self.position += 1
        try:
            return _Literal(ast.literal_eval(self._text[start : self.position]))
        except (SyntaxError, ValueError):
            raise _FlawError(f"invalid quoted string {self._text[start : self.position]}") from None

    def _array(self) -> Steps:
        end = self._text.find("]", self.position)
        if end < 0 or "\n" in self._text[self.position : end]:
            raise _FlawError("unterminated array")
        text = self._text[self.position + 1 : end]
        self.position = end + 1
        if text == "*":
            text = ":"
        parts = text.split(",")
        if len(parts) > 1:
            return (_Union(tuple(_steps(f"[{part.strip(' ')}]") for part in parts)),)
        if key := _KEY.fullmatch(text):
            return _steps(f".{key[1]}")
        match = _SLICE.fullmatch(text)
        if match is None:
            raise _FlawError(f"invalid array index {text}")
        try:
            first = int(match[1]) if match[1] else 0
            # `[3]` is the fourth element, `[3:]` all from it on.
            last = first + 1 if not match[2] else int(match[2][1:]) if match[2] != ":" else None
            step = int(match[3][1:]) if match[3] and match[3] != ":" else None
        except ValueError:
            raise _FlawError(f"array index {text} is not a number") from None
        return (_Slice(first, last, step, not match[2]),)

    def _filter(self) -> Step:
        self.position += len("[?(")
        start = self.position
        quote = ""
        while True:
            sign = self._text[self.position : self.position + 1]
            if sign in {"", "\n"}:
                raise _FlawError("unterminated filter")
            if quote:
                if sign == quote and self._text[self.position - 1] != "\\":
                    quote = ""
            elif sign in "\"'":
                quote = sign
            elif sign == ")":
                break
            self.position += 1
        text = self._text[start : self.position]
        if self._text[self.position + 1 : self.position + 2] != "]":
            raise _FlawError("unclosed array expect ]")
        self.position += 2
        compared = _COMPARISON.fullmatch(text)
        if compared is None:
            return _Filter(_steps(text), "", ())
        if compared[2] not in _OPERATORS:
            raise _FlawError(f"unrecognized filter operator {compared[2]}")
        return _Filter(_steps(compared[1]), compared[2], _steps(compared[3]))


# finding


def _evaluate(block: _Block, values: Sequence[Any]) -> Iterator[list[Any]]:
    for part in block.parts:
        if isinstance(part, str):
            yield [part]
        elif isinstance(part, _Block):
            for value in _walk(part.values, values):
                yield from _evaluate(part, [value])
        else:
            yield _walk(part, values)


def _walk(steps: Steps, values: Sequence[Any]) -> list[Any]:
    found = list(values)
    for step in steps:
        found = list(_next(step, found))
    return found


def _next(step: Step, values: Sequence[Any]) -> Iterator[Any]:
    match step:
        case _Literal(value):
            yield value
        case _Field(name):
            yield from (value[name] for value in values if isinstance(value, dict) and name in value)
        case _Wildcard():
            yield from (child for value in values for child in _children(value))
        case _Recursive():
            yield from (below for value in values for below in _below(value))
        case _Slice():
            yield from (child for value in values if value is not None for child in _sliced(step, value))
        case _Union(parts):
            yield from (child for part in parts for child in _walk(part, values))
        case _Filter():
            yield from (child for value in values for child in _filtered(step, value))
        case _Word(name):
            raise _FlawError(f"unrecognized identifier {name}")


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value[name] for name in sorted(value)]
    return list(value) if isinstance(value, list) else []


def _below(value: Any) -> Iterator[Any]:
    """Yield a value that has others below it, and those of them that have."""
    if children := _children(value):
        yield value
        for child in children:
            yield from _below(child)


def _sliced(step: _Slice, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _FlawError(f"{as_text(value)} is not array or slice")
    length = len(value)
    first = step.first + length if step.first < 0 else step.first
    last = length if step.last is None else step.last
    if last < 0 or (last == 0 and step.single):
        last += length
    if first == last:
        return []
    if not 0 <= first < length:
        raise _FlawError(f"array index out of bounds: index {first}, length {length}")
    if not 0 <= last <= length:
        raise _FlawError(f"array index out of bounds: index {last - 1}, length {length}")
    if first > last:
        raise _FlawError(f"starting index {first} is greater than ending index {last}")
    if step.step is not None and step.step <= 0:
        raise _FlawError("step must be > 0")
    return value[first : last : step.step or 1]


def _filtered(step: _Filter, value: Any) -> Iterator[Any]:
    if not isinstance(value, list):
        raise _FlawError(f"{as_text(value)} is not array or slice and cannot be filtered")
    for one in value:
        left = _walk(step.left, [one])
        if not step.comparison:
            if left:
                yield one
            continue
        right = _walk(step.right, [one]) if left else []
        if max(len(left), len(right)) > 1:
            raise _FlawError("can only compare one element at a time")
        if left and right and _compared(step.comparison, left[0], right[0]):
            yield one


def _compared(comparison: str, left: Any, right: Any) -> bool:
    if {type(left), type(right)} - {bool, int, float, str}:
        raise _FlawError("invalid type for comparison")
    if type(left) is not type(right):
        raise _FlawError("incompatible types for comparison")
    if isinstance(left, bool) and comparison not in {"==", "!="}:
        raise _FlawError("invalid type for comparison")
    return _OPERATORS[comparison](left, right)
