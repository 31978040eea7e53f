"""`labelSelector` and `fieldSelector` of list and watch requests, with Kubernetes' grammar and messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.machinery.api_errors import StatusError, bad_request, shorten
from moorage.apiserver.machinery.openapi import registry
from moorage.apiserver.machinery.openapi.registry import Origin
from moorage.decide.kubernetes.field_errors import invalid, quote
from moorage.decide.kubernetes.names import check_label_value, check_qualified_name
from moorage.decide.kubernetes.quantities import canonical_int64
from moorage.decide.kubernetes.unstructured import at

_CUSTOM: Final = frozenset({Origin.CUSTOM, Origin.OWN})

Document = Mapping[str, Any]
Predicate = Callable[[Document], bool]

_PAIR = re.compile(r"\s*(?P<key>[^\s!=(),]+)\s*(?P<operator>==|=|!=)\s*(?P<value>(?:\\[\\,=]|[^\s!=(),\\])*)\s*")
_ESCAPED = re.compile(r"\\([\\,=])")
_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")  # characters that JSON writes as they are

MOST_REQUIREMENTS: Final = 1_000
"""The number of requirements that the selectors of a request may have. Each is tested for each object."""

_EVERYWHERE: Final = ("metadata.name", "metadata.namespace")
"""The fields that a `fieldSelector` may name for every kind."""


class Selector:
    """The selectors of a request.

    Args:
        tests: an object is selected if all of them are true.
        texts: parts that the JSON of every selected object contains. Objects without them need not be parsed.
    """

    def __init__(self, tests: Sequence[Predicate] = (), texts: Sequence[bytes] = ()) -> None:
        self._tests = tests
        self._texts = texts

    @property
    def is_empty(self) -> bool:
        """Whether it selects every object."""
        return not self._tests

    def also(self, test: Predicate) -> Selector:
        """Return a selector of the same objects, as far as they also pass another test."""
        return Selector((*self._tests, test), self._texts)

    def __call__(self, document: Document) -> bool:
        """Return whether it selects an object."""
        return all(test(document) for test in self._tests)

    def selects(self, json: bytes) -> bool:
        """Return whether it selects an object, by its JSON or by the part that selectors read (`selectable`)."""
        for text in self._texts:
            if text not in json:
                return False
        return not self._tests or self(orjson.loads(json))


def selector(labels: str, fields: str, kind: Kind[Any] | None = None) -> Selector:
    """Return what selects by both selectors. Empty selectors select everything.

    The kind defines the fields that may be named beside the name and the namespace.

    Raises:
        StatusError: a selector is invalid, or names a field that is not supported.
    """
    requirements = parse_label_selector(labels)
    field_parts = split(fields) if fields.strip() else []
    if len(requirements) + len(field_parts) > MOST_REQUIREMENTS:
        raise bad_request(
            f"the selectors have {len(requirements) + len(field_parts)} requirements: they may have at most "
            f"{MOST_REQUIREMENTS}"
        )
    tests = [_label_test(one) for one in requirements]
    known = kind.field_selectors if kind is not None else {}
    if kind is not None and kind.field_aliases:
        field_parts = [_with_path(part, kind.field_aliases) for part in field_parts]
    is_custom = kind is not None and registry.origin_of(kind.group, kind.kind) in _CUSTOM
    tests += [_field_test(part, known, is_custom=is_custom) for part in field_parts]
    sure = (part for part in field_parts if not _may_be_missing(part, known))
    return Selector(tests, [*_label_texts(requirements), *(text for part in sure if (text := _text_of(part)))])


def _with_path(part: str, aliases: Mapping[str, str]) -> str:
    """Return a requirement that names its field by the path."""
    found = _PAIR.fullmatch(part)
    if found is None or found["key"] not in aliases:
        return part
    return f"{aliases[found['key']]}{found['operator']}{found['value']}"


def _may_be_missing(part: str, known: Mapping[str, str]) -> bool:
    """Return whether a requirement may be true of an object without the field, or with a value that is no string."""
    found = _PAIR.fullmatch(part)
    return found is not None and (found["value"] == known.get(found["key"], "") or found["value"] in {"true", "false"})


def _text_of(part: str) -> bytes:
    """Return a text that the JSON of every object contains that meets a requirement. Empty if there is none."""
    found = _PAIR.fullmatch(part)
    if found is None or found["operator"] == "!=" or _PLAIN.fullmatch(found["value"]) is None:
        return b""
    if found["value"].isdecimal():
        return found["value"].encode()  # it may be a number
    return f'"{found["value"]}"'.encode()


def named_by_field_selector(text: str) -> str:
    """Return the one name that a field selector lets through. Empty if it lets others through, or is invalid."""
    for part in split(text) if text.strip() else ():
        found = _PAIR.fullmatch(part)
        if found is not None and found["key"] == "metadata.name" and found["operator"] != "!=":
            return _ESCAPED.sub(r"\1", found["value"])
    return ""


def split(text: str) -> list[str]:
    """Split a field selector at commas outside parentheses that have no backslash before them.

    An empty requirement is kept, because it is a mistake. If it were ignored, `,` would select everything, also in a
    request to delete.
    """
    return re.split(r"(?<!\\),(?![^()]*\))", text)


def _label_test(requirement: Requirement) -> Predicate:
    return lambda document: requirement.holds(_labels(document))


def _label_texts(requirements: Sequence[Requirement]) -> Iterator[bytes]:
    """Texts that the JSON of every object contains that has the labels."""
    for one in requirements:
        if one.operator == "=" and (value := next(iter(one.values))) and _PLAIN.fullmatch(value):
            yield f'"{value}"'.encode()


def _field_test(part: str, known: Mapping[str, str], *, is_custom: bool) -> Predicate:
    found = _PAIR.fullmatch(part)
    if found is None:
        raise bad_request(f"invalid selector: '{shorten(part)}'; can't understand '{shorten(part)}'")
    path, value, same = found["key"], _ESCAPED.sub(r"\1", found["value"]), found["operator"] != "!="
    if path not in _EVERYWHERE and path not in known:
        if known or is_custom:
            raise bad_request(f"field label not supported: {shorten(path)}")
        supported = ", ".join(map(quote, _EVERYWHERE))
        raise bad_request(f"{quote(str(shorten(path)))} is not a known field selector: only {supported}")
    names, missing = path.split("."), known.get(path, "")
    return lambda document: (_text_at(document, names, missing) == value) is same


def _text_at(document: Document, names: Sequence[str], missing: str) -> str:
    """Return the value of a field as text."""
    value = at(document, *names)
    if value is None or value == "":
        return missing
    return str(value).lower() if isinstance(value, bool) else str(value)


def _labels(document: Document) -> Mapping[str, Any]:
    labels: Mapping[str, Any] = document["metadata"].get("labels") or {}
    return labels


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
        """Return whether labels fulfil it."""
        value = labels.get(self.key)
        if self.operator in {"exists", "!"}:
            return (value is not None) is (self.operator == "exists")
        if self.operator in _ORDERS:
            number, bound = _integer(value), _integer(next(iter(self.values)))
            if number is None or bound is None:
                return False
            return number < bound if self.operator == "<" else number > bound
        return (value in self.values) is (self.operator in {"=", "in"})


def parse_label_selector(text: str) -> list[Requirement]:
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
