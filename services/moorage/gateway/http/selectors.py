"""`labelSelector` and `fieldSelector` of list and watch requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from moorage.gateway.errors import bad_request

Document = Mapping[str, Any]
Predicate = Callable[[Document], bool]

_SET = re.compile(r"\s*(?P<key>[^\s!=(),]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)\s*")
_PAIR = re.compile(r"\s*(?P<key>[^\s!=(),]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s!=(),]*)\s*")
_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")  # characters that JSON writes as they are
_HAS = re.compile(r"\s*(?P<not>!?)\s*(?P<key>[^\s!=(),]+)\s*")

FIELDS: dict[str, Callable[[Document], str]] = {
    "metadata.name": lambda document: str(document["metadata"].get("name", "")),
    "metadata.namespace": lambda document: str(document["metadata"].get("namespace", "")),
    "spec.nodeName": lambda document: str((document.get("spec") or {}).get("nodeName") or ""),
    "status.phase": lambda document: str((document.get("status") or {}).get("phase") or ""),
}
"""The fields that a `fieldSelector` may name."""


class Selector:
    """Tells which objects the selectors of a request select.

    Args:
        tests: an object is selected if all of them are true.
        texts: parts that the JSON of every selected object contains. Objects without them need not be parsed.
    """

    def __init__(self, tests: Sequence[Predicate] = (), texts: Sequence[bytes] = ()) -> None:
        self._tests = tests
        self._texts = texts

    def __call__(self, document: Document) -> bool:
        """Whether it selects an object."""
        return all(test(document) for test in self._tests)

    def selects(self, json: bytes) -> bool:
        """Whether it selects an object, by its JSON or by the part that selectors read (`selectable`)."""
        for text in self._texts:
            if text not in json:
                return False
        return not self._tests or self(orjson.loads(json))


def selector(labels: str, fields: str) -> Selector:
    """Returns what selects by both selectors. Empty selectors select everything.

    Raises:
        StatusError: a selector is invalid, or names a field that is not supported.
    """
    label_parts = split(labels) if labels.strip() else []
    field_parts = split(fields) if fields.strip() else []
    tests = [_label_test(part, labels) for part in label_parts]
    tests += [_field_test(part, fields) for part in field_parts]
    return Selector(tests, [text for part in (*label_parts, *field_parts) if (text := _text_of(part))])


def _text_of(part: str) -> bytes:
    """The text that the JSON of an object contains if a requirement is true of it. Empty if that cannot be said."""
    found = _PAIR.fullmatch(part)
    if found is None or found["operator"] == "!=" or _PLAIN.fullmatch(found["value"]) is None:
        return b""
    return f'"{found["value"]}"'.encode()


def split(text: str) -> list[str]:
    """The requirements of a selector: split at commas that are not in parentheses.

    An empty requirement is kept, because it is a mistake. If it were ignored, `,` would select everything, also in a
    request to delete.
    """
    return re.split(r",(?![^()]*\))", text)


def _label_test(part: str, whole: str) -> Predicate:
    if found := _SET.fullmatch(part):
        key, wanted = found["key"], found["operator"] == "in"
        values = {value.strip() for value in found["values"].split(",")}
        return lambda document: (_labels(document).get(key) in values) is wanted
    if found := _PAIR.fullmatch(part):
        key, value, same = found["key"], found["value"], found["operator"] != "!="
        return lambda document: (_labels(document).get(key) == value) is same
    if found := _HAS.fullmatch(part):
        key, present = found["key"], not found["not"]
        return lambda document: (key in _labels(document)) is present
    raise bad_request(
        f"unable to parse requirement: labelSelector: invalid value {whole!r}: {part.strip()!r} is not a requirement "
        "such as key=value, key!=value, key in (a,b), key notin (a,b), key, !key"
    )


def _field_test(part: str, whole: str) -> Predicate:
    found = _PAIR.fullmatch(part)
    if found is None:
        raise bad_request(
            f"fieldSelector: invalid value {whole!r}: {part.strip()!r} is not a requirement such as metadata.name=n1"
        )
    read = FIELDS.get(found["key"])
    if read is None:
        raise bad_request(f"field label not supported: {found['key']} (supported: {', '.join(sorted(FIELDS))})")
    value, same = found["value"], found["operator"] != "!="
    return lambda document: (read(document) == value) is same


def _labels(document: Document) -> Mapping[str, Any]:
    labels: Mapping[str, Any] = document["metadata"].get("labels") or {}
    return labels
