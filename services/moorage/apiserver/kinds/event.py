"""`Event` (v1 and events.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Document, Untyped
from moorage.apiserver.kinds.printing.columns import NONE, Cell, Object, TableColumn, of, text
from moorage.decide.kubernetes.durations import age
from moorage.decide.kubernetes.object_texts import last_seen
from moorage.decide.kubernetes.unstructured import at

GROUP: Final = "events.k8s.io"
"""The group of the newer form."""

_NEWER: Final[Mapping[str, str]] = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
"""The fields of the core group that have other names in the newer form. The others are the same."""

_EMPTY: Final[Mapping[str, Any]] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
"""Fields that an event of the core group shows even if they are unset."""

_CORE: Final[Mapping[str, str]] = {newer: core for core, newer in _NEWER.items()}
_ABOUT: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _core_form(found: Object) -> Object:
    """Return an event of either group in the form of the core group."""
    if not str(found.get("apiVersion", "")).startswith(f"{GROUP}/"):
        return found
    return {_CORE.get(field, field): value for field, value in found.items()}


def _last(found: Object, now: datetime) -> str:
    return age(last_seen(_core_form(found)), now)


def _first(found: Object, now: datetime) -> str:
    event = _core_form(found)
    return age(at(event, "firstTimestamp") or at(event, "eventTime"), now)


def _about(found: Object) -> str:
    about = at(_core_form(found), "involvedObject") or {}
    kind, name = str(about.get("kind") or "").lower(), str(about.get("name") or "")
    return f"{kind}/{name}" if name else kind


def _part(found: Object) -> str:
    return str(at(_core_form(found), "involvedObject", "fieldPath") or "")


def _source(found: Object) -> str:
    event = _core_form(found)
    component = at(event, "source", "component") or at(event, "reportingComponent")
    host = at(event, "source", "host") or at(event, "reportingInstance")
    return ", ".join(str(part) for part in (component, host) if part)


def _message(found: Object) -> str:
    return str(at(_core_form(found), "message") or "").strip()


def _count(found: Object) -> str:
    event = _core_form(found)
    return str(at(event, "series", "count") or at(event, "count") or 1)


def _columns(nothing: str) -> tuple[TableColumn, ...]:
    """Return the columns, with what stands for a missing text."""

    def shown(make: Callable[[Object], str]) -> Cell:
        return of(lambda found: make(found) or nothing)

    return (
        TableColumn("LAST SEEN", _last),
        TableColumn("TYPE", text("type", default=nothing)),
        TableColumn("REASON", text("reason", default=nothing)),
        TableColumn("OBJECT", shown(_about)),
        TableColumn("SUBOBJECT", shown(_part), wide=True),
        TableColumn("SOURCE", shown(_source), wide=True),
        TableColumn("MESSAGE", shown(_message)),
        TableColumn("FIRST SEEN", _first, wide=True),
        TableColumn("COUNT", of(_count), wide=True),
    )


class EventKind(Untyped):
    """A report of what happened to an object, for people. It is stored in the form of the core group."""

    kind = "Event"
    other_groups = ((GROUP, "v1"),)
    logged = True
    short_names = ("ev",)
    namespaced = True
    created_by_update = True
    order = 110
    has_generation = False
    name_comes_last = True
    columns = _columns(NONE)
    api_columns = _columns("")
    field_selectors = MappingProxyType(
        {
            **{f"involvedObject.{field}": "" for field in _ABOUT},
            "reason": "",
            "type": "",
            "reportingComponent": "",
            "source.component": "",
        }
    )
    field_aliases = MappingProxyType(
        {
            **{f"regarding.{field}": f"involvedObject.{field}" for field in _ABOUT},
            "source": "source.component",
            "reportingController": "reportingComponent",
        }
    )

    @override
    def in_group(self, document: Mapping[str, Any], api_version: str) -> Mapping[str, Any]:
        return {**{_NEWER.get(field, field): value for field, value in document.items()}, "apiVersion": api_version}

    @override
    def stored(self, document: Document) -> Document:
        # Upstream's encoder writes some fields also where they are empty.
        if str(document.get("apiVersion", "")).startswith(f"{GROUP}/"):
            document = {_CORE.get(field, field): value for field, value in document.items()}
        made = {**_EMPTY, **document, "apiVersion": self.api_versions[0]}
        if (series := made.get("series")) is not None:
            made["series"] = {"count": 0, "lastObservedTime": None, **series}
        return made


KIND = EventKind()
