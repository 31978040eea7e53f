"""Validation of events, and of changes to them, as Kubernetes 1.37 has it.

An event comes in the form of one of two groups. Those of `events.k8s.io` have more rules. Errors name their fields as
the core group does, apart from the controller that reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import CheckedField
from moorage.decide.kubernetes.field_errors import FieldError

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
    event = CheckedField(document)
    _check_event(event)
    if _is_newer(event):
        _check_newer(event)
    return event.errors


def validate_event_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of an event. In the newer form, only its series may change."""
    event = CheckedField(after)
    _check_event(event)
    if _is_newer(event):
        if before.get("series") != after.get("series"):
            _check_series(event["series"])
        for field, path in _STAYS.items():
            if (before.get(field) or None) != (after.get(field) or None):
                event[path].invalid(_IMMUTABLE, after.get(field))
    return event.errors


def _is_newer(event: CheckedField) -> bool:
    return event["apiVersion"].text.startswith(_GROUP)


def _check_event(event: CheckedField) -> None:
    """Check that an event is in the namespace of its object and, if it has a time, names its reporter."""
    is_newer, has_time = _is_newer(event), event["eventTime"].value is not None
    about = event["regarding" if is_newer else "involvedObject"]["namespace"].text
    own = event["metadata"]["namespace"].text
    elsewhere = own not in ({_DEFAULT, _SYSTEM} if has_time else {_DEFAULT}) if not about else own != about
    if elsewhere and (not about or not has_time):
        event["involvedObject"]["namespace"].invalid(_ELSEWHERE, about)
    if not has_time:
        return
    controller = event["reportingController" if is_newer else "reportingComponent"]
    controller.check_set()
    controller.check_qualified_name()
    for field in (event["reportingInstance"], event["action"], event["reason"]):
        field.check_set()
        _check_length(field, field.text, _LONGEST)
    _check_length(event["message"], event["note" if is_newer else "message"].text, _LONGEST_NOTE)


def _check_length(field: CheckedField, text: str, most: int) -> None:
    if len(text.encode()) > most:
        field.invalid(f"can have at most {most} characters", "")


def _check_newer(event: CheckedField) -> None:
    _check_series(event["series"])
    if event["eventTime"].value is None:
        event["eventTime"].required()
    if event["type"].text not in _TYPES:
        event["type"].invalid(f"has invalid value: {event['type'].text}", "")
    for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount"):
        if event[field].value:
            event[_STAYS[field]].invalid(_UNSET, "")
    source = event["deprecatedSource"]
    if source["component"].text or source["host"].text:
        event["source"].invalid(_UNSET, "")


def _check_series(series: CheckedField) -> None:
    if not series.is_object:
        return
    if (series["count"].number or 0) < _FEWEST_IN_SERIES:
        series["count"].invalid(f"should be at least {_FEWEST_IN_SERIES}", "")
    if series["lastObservedTime"].value is None:
        series["lastObservedTime"].required()
