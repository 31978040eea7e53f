"""What the tables of flaws share."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]
Flaws = dict[str, tuple[Any, ...]]
"""Paths of fields, each with the values that it may get. None takes the field away."""

Starts = dict[str, tuple[Document, Flaws]]
"""A valid object of each kind, by the plural of the kind, and its flaws."""

LONG = "x" * 64
NAMES = ("Bad_Name", "a.b", "-x", LONG, "")
LABELS = ({"a b": "c"}, {"a": "b c"}, {"x/y/z": "b"}, {"a": LONG})
METADATA: Flaws = {
    "metadata.name": NAMES,
    "metadata.labels": LABELS,
    "metadata.annotations": ({"a b": "c"},),
}


def within(path: str, flaws: Flaws) -> Flaws:
    """The same flaws of an object in a field."""
    return {f"{path}.{field}": values for field, values in flaws.items()}
