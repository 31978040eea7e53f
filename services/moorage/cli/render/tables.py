"""Tables of objects: the columns are those of their kinds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.printing.columns import Object, TableColumn
from moorage.cli.render import output
from moorage.cli.render.durations import to_the_second


def columns(kind: ServedKind, *, wide: bool) -> tuple[TableColumn, ...]:
    """Return the columns of a kind after the name."""
    return tuple(column for column in kind.definition.columns if wide or not column.wide)


def listed(kind: ServedKind, answer: Object) -> list[dict[str, Any]]:
    """Return the items of a list that a table shows, in their order."""
    return kind.definition.listed(answer.get("items") or [])


def nothing(namespace: str | None, kinds: Sequence[ServedKind]) -> str:
    """Return the message that no object was found. A namespace of None stands for all namespaces."""
    if namespace is not None and any(kind.namespaced for kind in kinds):
        return f"No resources found in {namespace} namespace."
    return "No resources found"  # without a full stop, as kubectl has it


def row(found: Object, columns: Sequence[TableColumn]) -> list[str]:
    """Return the cells of one object, with times to the second."""
    now = datetime.now(UTC)
    return [output.cell(to_the_second(column.cell(found, now))) for column in columns]
