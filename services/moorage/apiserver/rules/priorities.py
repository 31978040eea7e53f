"""The priority that a pod gets from its class, and the validation of classes, as Kubernetes 1.37 has them.

Moorage only shows a priority.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.decide.kubernetes.field_errors import FieldError, forbidden, invalid, not_supported
from moorage.decide.kubernetes.unstructured import part

_LOWER: Final = "PreemptLowerPriority"
_POLICIES: Final = (_LOWER, "Never")
_SYSTEM: Final = "system-"
_MOST: Final = 1_000_000_000

Document = dict[str, Any]


class PriorityError(ValueError):
    """A pod may not have the priority that it asks for. The text says why."""


def prioritized(pod: Document, classes: Mapping[str, Mapping[str, Any]]) -> Document:
    """A new pod with the name, the value and the preemption policy of its class, or of the default one.

    Args:
        pod: as it was sent.
        classes: all priority classes, by name.

    Raises:
        PriorityError: there is no such class, or the pod says another value or policy than the class.
    """
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    name = spec.get("priorityClassName") or _default(classes)
    if name and name not in classes:
        raise PriorityError(f"no PriorityClass with name {name} was found")
    found = classes.get(name, {})
    value, policy = found.get("value") or 0, found.get("preemptionPolicy") or _LOWER
    if (said := spec.get("priority")) not in {None, value}:
        raise PriorityError(
            f"the integer value of priority ({said}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
    if (said := spec.get("preemptionPolicy")) not in {None, policy}:
        raise PriorityError(
            f"the string value of PreemptionPolicy ({said}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
    if not name:  # the defaults of its fields say the same
        return pod
    return {**pod, "spec": {**spec, "priorityClassName": name, "priority": value, "preemptionPolicy": policy}}


def check_only_default(priority_class: Mapping[str, Any], classes: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that a priority class is not a second default.

    Raises:
        PriorityError: there is another default.
    """
    own = (priority_class.get("metadata") or {}).get("name")
    others = (name for name, one in classes.items() if one.get("globalDefault") is True and name != own)
    if priority_class.get("globalDefault") is True and (other := next(others, None)):
        raise PriorityError(f"PriorityClass {other} is already marked as default. Only one default can exist")


def _default(classes: Mapping[str, Mapping[str, Any]]) -> str:
    """The name of the default class: the lowest of several, as in Kubernetes. Empty if there is none."""
    defaults = [(one.get("value") or 0, name) for name, one in classes.items() if one.get("globalDefault") is True]
    return min(defaults)[1] if defaults else ""


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
    """Validate a change of a priority class: what pods have got from it stays.

    Args:
        before: the class as it is shown.
        after: the class as it is wanted.
    """
    found = []
    if (before.get("value") or 0) != (after.get("value") or 0):
        found.append(forbidden("value", "may not be changed in an update."))
    if before.get("preemptionPolicy") != after.get("preemptionPolicy"):
        found.append(invalid("preemptionPolicy", after.get("preemptionPolicy"), "field is immutable"))
    return found
