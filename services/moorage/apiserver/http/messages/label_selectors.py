"""Reads label selectors, with the grammar and the messages of Kubernetes: `a=b,c!=d,e in (f,g),!h,i>5`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moorage.apiserver.machinery.api_errors import StatusError, bad_request
from moorage.decide.kubernetes.field_errors import invalid
from moorage.decide.kubernetes.integers import canonical_int64
from moorage.decide.kubernetes.names import check_label_value, check_qualified_name

_WORDS: Final = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_SYMBOLS: Final = frozenset({"=", "==", "!=", "!", "<", ">", "(", ")", ","})
_SETS: Final = frozenset({"in", "notin"})
_EQUAL: Final = frozenset({"=", "=="})
_ORDERS: Final = frozenset({"<", ">"})
_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement of a label selector."""

    key: str
    operator: str
    """`=`, `!=`, `in`, `notin`, `exists`, `!`, `<` or `>`."""

    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fulfil it."""
        value = labels.get(self.key)
        if self.operator in {"exists", "!"}:
            return (value is not None) is (self.operator == "exists")
        if self.operator in _ORDERS:
            number, bound = _integer(value), _integer(next(iter(self.values)))
            if number is None or bound is None:
                return False
            return number < bound if self.operator == "<" else number > bound
        return (value in self.values) is (self.operator in {"=", "in"})


def parse(text: str) -> list[Requirement]:
    """Return the requirements of a label selector. None of them for an empty one.

    Raises:
        StatusError: 400 if it cannot be read.
    """
    return _Parser(text).requirements()


class _Parser:
    """Goes through the words of a selector."""

    def __init__(self, text: str) -> None:
        self._words: list[str] = [*_WORDS.findall(text), ""]  # the empty word is the end
        self._at = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            word = self._words[self._at]
            if not word and not found:
                return found
            if word in _SYMBOLS and word != "!":
                raise bad_request(f"found '{word}', expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            word = self._next()
            if not word:
                return found
            if word != ",":
                raise bad_request(f"found '{word}', expected: ',' or 'end of string'")
            following = self._words[self._at]
            if not following or (following in _SYMBOLS and following != "!"):
                raise bad_request(f"found '{following}', expected: identifier after ','")

    def _next(self) -> str:
        word = self._words[self._at]
        self._at = min(self._at + 1, len(self._words) - 1)
        return word

    def _requirement(self) -> Requirement:
        is_absent = self._words[self._at] == "!"
        if is_absent:
            self._next()
        key = self._next()
        if not key or key in _SYMBOLS:
            raise _unparsable(f"found '{key}', expected: identifier")
        if errors := check_qualified_name(key):
            raise _unparsable(str(invalid("<nil>", key, errors[0])))
        word = self._words[self._at]
        if is_absent or word in {"", ","}:
            return Requirement(key, "!" if is_absent else "exists")
        operator = self._next()
        if operator in _SETS:
            return Requirement(key, operator, self._checked(key, self._values()))
        if operator in _ORDERS:
            value = self._value()
            if _integer(value) is None:
                raise _unparsable(
                    str(invalid("values[0]", value, "for 'Gt', 'Lt' operators, the value must be an integer"))
                )
            return Requirement(key, operator, self._checked(key, frozenset({value})))
        if operator in _EQUAL or operator == "!=":
            return Requirement(key, "!=" if operator == "!=" else "=", self._checked(key, frozenset({self._value()})))
        raise _unparsable(f"found '{operator}', expected: {_OPERATORS}")

    def _value(self) -> str:
        word = self._words[self._at]
        if word in {"", ","}:
            return ""
        if word in _SYMBOLS:
            raise _unparsable(f"found '{word}', expected: identifier")
        return self._next()

    def _values(self) -> frozenset[str]:
        word = self._next()
        if word != "(":
            raise _unparsable(f"found '{word}' expected: '('")
        values: set[str] = set()
        word = self._next()
        if word == ")":
            return frozenset({""})
        while True:
            if word == ",":
                values.add("")
            elif word and word not in _SYMBOLS:
                values.add(word)
                word = self._next()
                if word not in {",", ")"}:
                    raise _unparsable(f"found '{word}', expected: ',' or ')'")
            else:
                raise _unparsable(f"found '{word}', expected: ',', ')' or identifier")
            if word == ")":
                return frozenset(values)
            word = self._next()
            if word == ")":
                return frozenset({*values, ""})

    @staticmethod
    def _checked(key: str, values: frozenset[str]) -> frozenset[str]:
        for number, value in enumerate(sorted(values)):
            if errors := check_label_value(value):
                raise _unparsable(str(invalid(f"values[{number}][{key}]", value, errors[0])))
        return values


def _integer(text: str | None) -> int | None:
    return None if text is None else canonical_int64(text)


def _unparsable(why: str) -> StatusError:
    return bad_request(f"unable to parse requirement: {why}")
