"""Cells: what the columns of tables are made of, whichever kind they show. The tables of the kinds build on this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moorage.cli.api.objects import at
from moorage.cli.render.durations import age

Object = Mapping[str, Any]

Cell = Callable[[Object], str]
"""Makes the text of a cell from an object."""

Column = tuple[str, Cell]
"""A title and its cells."""

Columns = tuple[tuple[Column, ...], tuple[Column, ...]]
"""The columns of a kind after the name: those that are always shown, and those of `-o wide`."""

NONE: Final = "<none>"

UNREPORTED: Final = "Unreported"
"""What stands for `Ready` of a target of which nobody has reported it; it counts as ready until somebody does."""


def text(*path: str, default: str = NONE) -> Cell:
    """A cell that shows the value at a path."""

    def cell(found: Object) -> str:
        value = at(found, *path)
        return default if value is None or value == "" else str(value)

    return cell


def taint_text(taint: Object) -> str:
    """A taint as it is written on the command line: `key=value:Effect`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"


def condition_status(found: Object, kind: str) -> str:
    """The status of a condition of an object; empty when it has none of that type."""
    for condition in at(found, "status", "conditions") or []:
        if condition.get("type") == kind:
            return str(condition.get("status", ""))
    return ""


def taints(limit: int | None) -> Cell:
    """The taints of a node, the first `limit` of them."""

    def cell(found: Object) -> str:
        every = [taint_text(taint) for taint in at(found, "spec", "taints") or []]
        if not every:
            return NONE
        more = f",+{len(every) - limit}" if limit is not None and len(every) > limit else ""
        return ",".join(every[:limit]) + more

    return cell


def labels_text(found: Object) -> str:
    """The labels of an object in one line."""
    labels = at(found, "metadata", "labels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def _age(found: Object) -> str:
    return age(at(found, "metadata", "creationTimestamp"))


AGE: Final[Column] = ("AGE", _age)


def since(*path: str) -> Cell:
    """A cell that shows how long ago the time at a path was."""
    return lambda found: age(at(found, *path))
