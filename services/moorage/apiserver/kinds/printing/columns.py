"""The columns that a table shows for a kind's objects after the name.

An object is JSON, and any part of it may be missing. A cell gets the present time as an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from moorage.decide.kubernetes.durations import age
from moorage.decide.kubernetes.object_texts import taint_text
from moorage.decide.kubernetes.unstructured import at

Object = Mapping[str, Any]

Cell = Callable[[Object, datetime], str]
"""Returns the text of a cell for an object at a time."""

NONE: Final = "<none>"

_ACRONYMS: Final = {"IP": "IP", "URLS": "URLs"}  # as Kubernetes writes them in titles


class TableColumn(NamedTuple):
    """One column of a table."""

    title: str
    """In capitals, or as Kubernetes spells it."""

    cell: Cell
    wide: bool = False
    """Whether only wide tables have it (`-o wide`)."""

    type: str = "string"
    """The type of its cells in the API: `string`, `integer`, `boolean` or `date`."""

    description: str = ""
    """Its meaning, for the API. Empty if the title is enough."""

    spelled: str = ""
    """The title in the API, if that is not `title` in lower case: `SelectedClusters`."""

    holds: str = ""
    """The type of its cells in JSON, if that is not `type`. Kubernetes counts some things in columns of texts."""

    @property
    def api_name(self) -> str:
        """The title as the tables of the API have it: `Up-to-date`, `Managed Cluster URLs`."""
        if self.spelled:
            return self.spelled
        if not self.title.isupper():
            return self.title
        return " ".join(_ACRONYMS.get(word) or word.capitalize() for word in self.title.split())


def of(make: Callable[[Object], str]) -> Cell:
    """Return a cell whose text depends on the object alone."""
    return lambda found, _: make(found)


def text(*path: str, default: str = NONE) -> Cell:
    """Return a cell that shows the value at a path, or the default if there is none."""

    def cell(found: Object, _: datetime) -> str:
        value = at(found, *path)
        return default if value is None or value == "" else str(value)

    return cell


def since(*path: str) -> Cell:
    """Return a cell that shows how long ago the time at a path was."""
    return lambda found, now: age(at(found, *path), now)


def count(*path: str) -> Cell:
    """Return a cell that shows the length of the list or mapping at a path."""
    return lambda found, _: str(len(at(found, *path) or ()))


def label(name: str) -> Cell:
    """Return a cell that shows the value of a label."""
    return lambda found, _: str(at(found, "metadata", "labels", name) or NONE)


def condition(kind: str, field: str = "status") -> Cell:
    """Return a cell that shows a field of the condition of a type."""
    return lambda found, _: condition_field(found, kind, field)


def taints(limit: int | None) -> Cell:
    """Return a cell that shows the taints in `spec`, the first `limit` of them."""
    return lambda found, _: taints_text(found, limit)


def target(*path: str) -> Cell:
    """Return a cell that shows the target or workload at a path: `node/n1`."""
    return lambda found, _: reference_text(at(found, *path))


def condition_field(found: Object, kind: str, field: str = "status") -> str:
    """Return a field of the condition of a type. `<none>` if the object has no such condition."""
    for one in at(found, "status", "conditions") or []:
        if one.get("type") == kind:
            return str(one.get(field) or NONE)
    return NONE


def taints_text(found: Object, limit: int | None = None) -> str:
    """Return the taints in `spec` of an object, the first `limit` of them."""
    every = [taint_text(taint) for taint in at(found, "spec", "taints") or []]
    if not every:
        return NONE
    more = f",+{len(every) - limit}" if limit is not None and len(every) > limit else ""
    return ",".join(every[:limit]) + more


def reference_text(reference: Any) -> str:
    """Return a target or workload: `node/n1`. `<none>` if there is none."""
    return f"{reference['kind'].lower()}/{reference['name']}" if isinstance(reference, Mapping) else NONE


def labels_text(found: Object) -> str:
    """Return the labels of an object in one line."""
    labels = at(found, "metadata", "labels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


AGE: Final = TableColumn("AGE", since("metadata", "creationTimestamp"))
CUSTOM_AGE: Final = AGE._replace(type="date")
"""The age in tables of custom resources."""

LABELS: Final = TableColumn("LABELS", of(labels_text), wide=True)


def selector_text(selector: Any) -> str:
    """Return a label selector in one line, as it is written on the command line. `<all>` if it is empty."""
    parts = [f"{key}={value}" for key, value in sorted((at(selector, "matchLabels") or {}).items())]
    for one in at(selector, "matchExpressions") or []:
        key, operator = one.get("key"), one.get("operator")
        values = ",".join(one.get("values") or [])
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        parts.append(words.get(str(operator), str(key)))
    return ",".join(parts) or "<all>"
