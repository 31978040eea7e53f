"""Validation of priority classes, as Kubernetes 1.37 has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.decide.kubernetes.field_errors import FieldError, forbidden, invalid, not_supported
from moorage.decide.kubernetes.unstructured import part

_POLICIES: Final = ("PreemptLowerPriority", "Never")
_SYSTEM: Final = "system-"
_MOST: Final = 1_000_000_000


def validate_priority_class(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate a priority class of a person: its name and its value must not be those of a class of the system."""
    name, policy = part(document, "metadata").get("name", ""), document.get("preemptionPolicy")
    found = []
    if name.startswith(_SYSTEM):
        rule = f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. "
        found.append(forbidden("metadata.name", f"{rule}error: {name} is not a known system priority class"))
    elif (document.get("value") or 0) > _MOST:
        found.append(forbidden("value", f"maximum allowed value of a user defined priority is {_MOST}"))
    if policy and policy not in _POLICIES:
        found.append(not_supported("preemptionPolicy", policy, _POLICIES))
    return found


def validate_priority_class_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a priority class: what pods have got from it stays."""
    found = []
    if (before.get("value") or 0) != (after.get("value") or 0):
        found.append(forbidden("value", "may not be changed in an update."))
    if before.get("preemptionPolicy") != after.get("preemptionPolicy"):
        found.append(invalid("preemptionPolicy", after.get("preemptionPolicy"), "field is immutable"))
    return found
