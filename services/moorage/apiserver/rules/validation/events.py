"""Validation of events, and of changes to them, as Kubernetes 1.37 has it.

An event comes in the form of one of two groups. Kubernetes asks more of those of `events.k8s.io`, and names their
fields as the core group does, apart from the controller that reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import Fields, inner, number, object_in, qualified_name, text
from moorage.decide.kubernetes.field_errors import FieldError, invalid, required

_GROUP: Final = "events.k8s.io/"
_ELSEWHERE: Final = "does not match event.namespace"
_DEFAULT: Final = "default"
_SYSTEM: Final = "kube-system"
_LONGEST: Final = 128
_LONGEST_NOTE: Final = 1024
_FEWEST_IN_SERIES: Final = 2
_TYPES: Final = ("Normal", "Warning")
_UNSET: Final = "needs to be unset"
_IMMUTABLE: Final = "field is immutable"
_STAYS: Final = {
    "regarding": "involvedObject",
    "reason": "reason",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "type": "type",
    "eventTime": "eventTime",
    "action": "action",
    "related": "related",
    "reportingController": "reportingController",
    "reportingInstance": "reportingInstance",
}
"""Fields of `events.k8s.io` that no change may touch, each with its name in messages."""


def validate_event(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate a new event, in the form of either group."""
    found = list(_event(document))
    return [*found, *_newer(document)] if _is_newer(document) else found


def validate_event_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of an event. In the newer form, only its series may change.

    Args:
        before: the event as it is shown.
        after: the event as it is wanted, in the same form.
    """
    found = list(_event(after))
    if not _is_newer(after):
        return found
    if before.get("series") != after.get("series"):
        found += _series(after)
    changed = (field for field in _STAYS if (before.get(field) or None) != (after.get(field) or None))
    return [*found, *(invalid(_STAYS[field], after.get(field), _IMMUTABLE) for field in changed)]


def _is_newer(document: Fields) -> bool:
    return text(document, "apiVersion").startswith(_GROUP)


def _event(document: Fields) -> Iterator[FieldError]:
    """The errors of an event that is in another namespace than its object. One with a time has to say who acted."""
    is_newer = _is_newer(document)
    about = text(inner(document, "regarding" if is_newer else "involvedObject"), "namespace")
    own, has_time = text(inner(document, "metadata"), "namespace"), document.get("eventTime") is not None
    elsewhere = own not in ({_DEFAULT, _SYSTEM} if has_time else {_DEFAULT}) if not about else own != about
    if elsewhere and (not about or not has_time):
        yield invalid("involvedObject.namespace", about, _ELSEWHERE)
    if not has_time:
        return
    controller = "reportingController" if is_newer else "reportingComponent"
    name = text(document, controller)
    if not name:
        yield required(controller)
    yield from qualified_name(name, controller)
    for field in ("reportingInstance", "action", "reason"):
        if not text(document, field):
            yield required(field)
        yield from _not_longer(document, field, field, _LONGEST)
    yield from _not_longer(document, "note" if is_newer else "message", "message", _LONGEST_NOTE)


def _not_longer(document: Fields, field: str, path: str, most: int) -> Iterator[FieldError]:
    if len(text(document, field).encode()) > most:
        yield invalid(path, "", f"can have at most {most} characters")


def _newer(document: Fields) -> Iterator[FieldError]:
    yield from _series(document)
    if document.get("eventTime") is None:
        yield required("eventTime")
    if (kind := text(document, "type")) not in _TYPES:
        yield invalid("type", "", f"has invalid value: {kind}")
    for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount"):
        if document.get(field):
            yield invalid(_STAYS[field], "", _UNSET)
    source = inner(document, "deprecatedSource")
    if text(source, "component") or text(source, "host"):
        yield invalid("source", "", _UNSET)


def _series(document: Fields) -> Iterator[FieldError]:
    series = object_in(document, "series")
    if series is None:
        return
    if (number(series, "count") or 0) < _FEWEST_IN_SERIES:
        yield invalid("series.count", "", f"should be at least {_FEWEST_IN_SERIES}")
    if series.get("lastObservedTime") is None:
        yield required("series.lastObservedTime")
