"""Priorities: that of a new pod, which follows from its class, and the one default class. Moorage only shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.status.built_in import PRIORITY_CLASS
from moorage.apiserver.kinds.status.pods import PriorityIndex
from moorage.apiserver.machinery.api_errors import StatusError, forbidden
from moorage.apiserver.storage.tables import Tables
from moorage_schemas.resources.workload_kinds import POD

_LOWER: Final = "PreemptLowerPriority"

Document = dict[str, Any]


def with_priority(document: Document, kind: ServedKind, tables: Tables) -> Document:
    """Return a new pod with the name, the value and the preemption policy of its class, or of the default one.

    Objects of other kinds stay as they are.

    Raises:
        StatusError: 403 if the class does not exist, or the pod has another value or policy than its class.
    """
    spec = document.get("spec")
    if kind.kind != POD or not isinstance(spec, dict):
        return document
    classes = tables.index(PriorityIndex).classes
    name = spec.get("priorityClassName") or _default(classes)
    if name and name not in classes:
        raise _refusal(document, kind, f"no PriorityClass with name {name} was found")
    found = classes.get(name, {})
    value, policy = found.get("value") or 0, found.get("preemptionPolicy") or _LOWER
    for field, shown, computed in (
        ("priority", "integer value of priority", value),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ):
        if (given := spec.get(field)) not in {None, computed}:
            why = (
                f"the {shown} ({given}) must not be provided in pod spec; "
                f"priority admission controller computed {computed} from the given PriorityClass name"
            )
            raise _refusal(document, kind, why)
    if not name:  # the defaults of its fields are the same
        return document
    return {**document, "spec": {**spec, "priorityClassName": name, "priority": value, "preemptionPolicy": policy}}


def check_default_class(document: Document, kind: ServedKind, tables: Tables) -> None:
    """Check that a priority class is not a second default. Objects of other kinds pass.

    Raises:
        StatusError: 403 if there is another default.
    """
    if kind.kind != PRIORITY_CLASS or document.get("globalDefault") is not True:
        return
    for name, one in tables.index(PriorityIndex).classes.items():
        if one.get("globalDefault") is True and name != document["metadata"].get("name"):
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise _refusal(document, kind, why)


def _default(classes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the name of the default class: the lowest of several, as in Kubernetes. Empty if there is none."""
    defaults = [(one.get("value") or 0, name) for name, one in classes.items() if one.get("globalDefault") is True]
    return min(defaults)[1] if defaults else ""


def _refusal(document: Document, kind: ServedKind, why: str) -> StatusError:
    return forbidden(kind.group, kind.plural, str(document["metadata"].get("name", "")), why)
