"""Functions that budgets and eviction pauses share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.printing.columns import Object
from moorage.apiserver.kinds.status.index import Index
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import ObjectId, Records


class BudgetIndex(Index):
    """Which budget looks different when its numbers are counted. The record of a rate names no object."""

    topics = ("budgets",)

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.records import ObjectId

        return (ObjectId.of(key),) if "/" in key else ()


def scope_text(found: Object) -> str:
    """The scope of a budget or a pause: `zones=eu/eu-1;namespaces=shop`, or `<all>` for the fleet."""
    parts = []
    scope = at(found, "spec", "scope")
    for field, value in scope.items() if isinstance(scope, Mapping) else ():
        if isinstance(value, list) and value:
            parts.append(f"{field}={','.join(map(str, value))}")
        elif isinstance(value, Mapping):
            parts.append("<labels>")
    return ";".join(parts) or "<all>"
