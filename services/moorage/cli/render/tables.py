"""The columns of every kind, and what is listed in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from moorage.cli.api.objects import at
from moorage.cli.render import karmada_tables, kubernetes_tables, ocm_tables, own_tables
from moorage.cli.render.cells import AGE, Column, Columns, Object
from moorage.cli.render.durations import to_the_second
from moorage.kinds.kind import ServedKind

_COLUMNS: Final[dict[str, Columns]] = {
    **kubernetes_tables.COLUMNS,
    **karmada_tables.COLUMNS,
    **ocm_tables.COLUMNS,
    **own_tables.COLUMNS,
}


def table(kind: ServedKind, *, wide: bool) -> tuple[Column, ...]:
    """The columns of a kind, after the name."""
    plain, more = _COLUMNS.get(kind.kind, ((AGE,), ()))
    return (*plain, *more) if wide else plain


def listed(kind: ServedKind, answer: Object) -> list[dict[str, Any]]:
    """The items of a list; of timers those that are set, the earliest first."""
    items: list[dict[str, Any]] = answer.get("items") or []
    if kind.kind != "Timer":
        return items
    waiting = [item for item in items if at(item, "status", "deadline")]
    return sorted(waiting, key=lambda item: (at(item, "status", "deadline"), at(item, "metadata", "name")))


def nothing(namespace: str | None, kinds: Sequence[ServedKind]) -> str:
    """What is said when no object was found; `namespace` None means all were looked at."""
    where = f" in {namespace} namespace" if namespace is not None and any(kind.namespaced for kind in kinds) else ""
    return f"No resources found{where}."


def row(found: Object, columns: Sequence[Column]) -> list[str]:
    """The cells of one object, with times to the second."""
    return [to_the_second(cell(found)) for _, cell in columns]
