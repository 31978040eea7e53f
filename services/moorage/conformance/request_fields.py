"""Parses the fields of an `eval` request, and formats its answers. An error names the field, its value and the rule.

There are two modes. As documented, unknown fields and missing required fields are refused. As upstream, field names
match in any case, unknown fields are ignored, and null or missing means empty, as with Go's JSON decoder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, TypeVar

from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, required
from moorage_schemas.taint import Taint, Toleration
from moorage_schemas.times import format_time

_T = TypeVar("_T")
_INT64: Final = 2**63
_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_TIME_RULE: Final = "must be an RFC 3339 time such as 2026-01-01T00:00:00Z"

OBJECT: Final = ("apiVersion", "kind", "metadata", "spec", "status")
SELECTED: Final = ("clusterName", "reason")
CONDITION: Final = ("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration")
REQUIREMENT: Final = ("key", "operator", "values")
TAINT_FIELDS: Final = ("key", "value", "effect", "timeAdded")
TOLERATION_FIELDS: Final = ("key", "operator", "value", "effect", "tolerationSeconds")


class RequestError(ValueError):
    """A field of a request is invalid."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


def _refuse(path: str, value: Any, rule: str) -> NoReturn:
    raise RequestError(FieldError(path, ErrorKind.TYPE_INVALID, value, rule))


@dataclass(frozen=True, slots=True)
class RequestFields:
    """The fields of one JSON object in a request. A field that is not what it is read as raises a `RequestError`.

    Attributes:
        path: the path of the object. Empty for the request itself.
        upstream: whether to parse as upstream does.
    """

    values: Mapping[str, Any]
    path: str
    upstream: bool

    @classmethod
    def of(cls, value: Any, path: str, known: Collection[str], *, upstream: bool, closed: bool = True) -> RequestFields:
        """Parse an object. If it is not `closed`, fields that are not `known` are allowed and ignored.

        Raises:
            RequestError: the value is not an object or, as documented, it has a field that is not `known`.
        """
        if value is None and upstream:
            return cls({}, path, upstream)
        if not isinstance(value, Mapping):
            _refuse(path or "request", value, "must be an object")
        if upstream:
            folded = {name.casefold(): name for name in known}
            named = {folded.get(str(name).casefold(), str(name)): item for name, item in value.items()}
            return cls(named, path, upstream)
        for name in value:
            if closed and name not in known:
                at = f"{path}.{name}" if path else str(name)
                rule = f"unknown field; known fields: {', '.join(known)}"
                raise RequestError(FieldError(at, ErrorKind.FORBIDDEN, None, rule))
        return cls(value, path, upstream)

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def need(self, name: str) -> None:
        """As documented, refuse a missing or null field. Raises RequestError if the field is missing or null."""
        if not self.upstream and self.values.get(name) is None:
            raise RequestError(required(self.at(name)))

    def text(self, name: str) -> str:
        """Return a text field. Missing or null means empty."""
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            _refuse(self.at(name), value, "must be a string")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean field. Missing or null means the default."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            _refuse(self.at(name), value, "must be true or false")
        return value

    def integer(self, name: str) -> int | None:
        """Return a 64-bit integer field. Missing or null means None."""
        value = self.values.get(name)
        return None if value is None else _int64(value, self.at(name))

    def time(self, name: str, *, cut: bool = True) -> datetime | None:
        """Return an RFC 3339 time. Missing or null means None. As upstream, it is cut to whole seconds if `cut`."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
            _refuse(self.at(name), value, _TIME_RULE)
        try:
            instant = datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            _refuse(self.at(name), value, _TIME_RULE)
        return instant.replace(microsecond=0) if self.upstream and cut else instant

    def items(self, name: str, read: Callable[[Any, str], _T]) -> list[_T]:
        """Return a list whose items are parsed by `read(item, path)`. Missing or null means empty."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            _refuse(self.at(name), value, "must be a list")
        return [read(item, f"{self.at(name)}[{i}]") for i, item in enumerate(value)]

    def objects(self, name: str, known: Collection[str], read: Callable[[RequestFields], _T]) -> list[_T]:
        """Return a list of objects, which have no fields but the `known` ones, each parsed by `read`."""
        return self.items(name, lambda item, path: read(RequestFields.of(item, path, known, upstream=self.upstream)))

    def inner(self, name: str, known: Collection[str], *, closed: bool = True) -> RequestFields:
        """Return an object field. Missing or null means an object without fields.

        Raises:
            RequestError: the field is not an object or, as documented, it is `closed` and has a field that is not
                `known`.
        """
        value = self.values.get(name)
        return RequestFields.of(
            {} if value is None else value, self.at(name), known, upstream=self.upstream, closed=closed
        )

    def has(self, name: str) -> bool:
        """Return whether the field is present and not null."""
        return self.values.get(name) is not None

    def mapping(self, name: str) -> dict[str, str]:
        """Return text values by name. Missing or null means empty."""
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            _refuse(self.at(name), value, "must be an object")
        # Not `RequestFields.of`: these names are data and keep their case.
        entries = RequestFields(value, self.at(name), self.upstream)
        return {str(key): entries.text(key) for key in value}

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""

        def read(item: Any, path: str) -> str:
            if item is None and self.upstream:
                return ""
            if not isinstance(item, str):
                _refuse(path, item, "must be a string")
            return item

        return self.items(name, read)

    def integers(self, name: str) -> list[int]:
        """Return a list of 64-bit integers."""

        def read(item: Any, path: str) -> int:
            return 0 if item is None and self.upstream else _int64(item, path)

        return self.items(name, read)

    def statuses(self, name: str) -> list[tuple[str, str]]:
        """Return a list of conditions: their types and statuses."""

        def read(condition: RequestFields) -> tuple[str, str]:
            condition.need("type")
            condition.need("status")
            condition.time("lastTransitionTime")
            return condition.text("type"), condition.text("status")

        return self.objects(name, CONDITION, read)

    def taints(self, name: str, *, nullable: bool = True, effect: bool = True, cut: bool = True) -> list[Taint]:
        """Return taints. `effect` states whether each needs an effect (removals do not). For `cut`, see `time`."""

        def read(item: Any, path: str) -> Taint:
            # Upstream reads a null item of a plain list as an empty taint. A null item behind a pointer makes it crash.
            if item is None and not (self.upstream and nullable):
                _refuse(path, item, "must be an object")
            return read_taint(item, path, upstream=self.upstream, effect=effect, cut=cut)

        return self.items(name, read)

    def tolerations(self, name: str) -> list[Toleration]:
        """Return a list of tolerations."""
        return self.items(name, lambda item, path: read_toleration(item, path, upstream=self.upstream))


def _int64(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(path, value, "must be an integer")
    if not -_INT64 <= value < _INT64:
        _refuse(path, value, "must be within 64 bits")
    return value


def read_taint(value: Any, path: str, *, upstream: bool, effect: bool = True, cut: bool = True) -> Taint:
    """Parse a taint; see `RequestFields.taints`. Raises RequestError if a field is invalid."""
    fields = RequestFields.of(value, path, TAINT_FIELDS, upstream=upstream)
    fields.need("key")
    if effect:
        fields.need("effect")
    return Taint(
        key=fields.text("key"),
        value=fields.text("value"),
        effect=fields.text("effect"),
        time_added=fields.time("timeAdded", cut=cut),
    )


def read_toleration(value: Any, path: str, *, upstream: bool) -> Toleration:
    """Parse a toleration. Raises RequestError if a field is invalid."""
    fields = RequestFields.of(value, path, TOLERATION_FIELDS, upstream=upstream)
    return Toleration(
        key=fields.text("key"),
        operator=fields.text("operator"),
        value=fields.text("value"),
        effect=fields.text("effect"),
        toleration_seconds=fields.integer("tolerationSeconds"),
    )


Answer = dict[str, Any]


def taint_json(taint: Taint, *, fresh: bool = False) -> Answer:
    """Return a taint in upstream's format. A `fresh` taint was added by the operation, at a time of the caller."""
    answer: Answer = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        answer["value"] = taint.value
    if fresh:
        # There is no clock here. NOW stands for the time at which the answer is applied.
        answer["timeAdded"] = "NOW"
    elif taint.time_added is not None:
        answer["timeAdded"] = format_time(taint.time_added)
    return answer


def toleration_json(toleration: Toleration) -> Answer:
    """Return a toleration in upstream's format. Empty fields are left out, but a tolerationSeconds of 0 is not."""
    wire: Answer = toleration.model_dump(mode="json", by_alias=True)
    return {name: value for name, value in wire.items() if value not in ("", None)}
