"""The priority that a pod gets from its class, as Kubernetes' admission has it. Moorage only shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_LOWER: Final = "PreemptLowerPriority"

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
