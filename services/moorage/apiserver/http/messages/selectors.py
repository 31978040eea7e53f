"""`labelSelector` and `fieldSelector` of list and watch requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from moorage.apiserver.http.messages import label_selectors
from moorage.apiserver.http.messages.label_selectors import Requirement
from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.machinery.api_errors import bad_request, shorten
from moorage.apiserver.machinery.openapi import registry
from moorage.apiserver.machinery.openapi.registry import Origin
from moorage.decide.kubernetes.field_errors import quote
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
    """Tells which objects the selectors of a request select.

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
        """What selects the same objects as far as another test is true of them."""
        return Selector((*self._tests, test), self._texts)

    def __call__(self, document: Document) -> bool:
        """Whether it selects an object."""
        return all(test(document) for test in self._tests)

    def selects(self, json: bytes) -> bool:
        """Whether it selects an object, by its JSON or by the part that selectors read (`selectable`)."""
        for text in self._texts:
            if text not in json:
                return False
        return not self._tests or self(orjson.loads(json))


def selector(labels: str, fields: str, kind: Kind[Any] | None = None) -> Selector:
    """Returns what selects by both selectors. Empty selectors select everything.

    Args:
        labels: the label selector.
        fields: the field selector.
        kind: of the objects, which says what fields may be named beside the name and the namespace.

    Raises:
        StatusError: a selector is invalid, or names a field that is not supported.
    """
    requirements = label_selectors.parse(labels)
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
    """A requirement that names its field by the path."""
    found = _PAIR.fullmatch(part)
    if found is None or found["key"] not in aliases:
        return part
    return f"{aliases[found['key']]}{found['operator']}{found['value']}"


def _may_be_missing(part: str, known: Mapping[str, str]) -> bool:
    """Whether a requirement may be true of an object without the field, or with a value that is no string."""
    found = _PAIR.fullmatch(part)
    return found is not None and (found["value"] == known.get(found["key"], "") or found["value"] in {"true", "false"})


def _text_of(part: str) -> bytes:
    """The text that the JSON of an object contains if a requirement is true of it. Empty if that cannot be said."""
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
    """The requirements of a field selector: split at commas that are not in parentheses and have no backslash before.

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
    """The value of a field as text."""
    value = at(document, *names)
    if value is None or value == "":
        return missing
    return str(value).lower() if isinstance(value, bool) else str(value)


def _labels(document: Document) -> Mapping[str, Any]:
    labels: Mapping[str, Any] = document["metadata"].get("labels") or {}
    return labels
