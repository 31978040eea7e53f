"""`Budget` (moorage.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import TableColumn, since, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.apiserver.kinds.status.records import ObjectId
    from moorage_schemas.base import Model


class BudgetKind(View):
    """The present counts of a budget of evictions."""

    kind = "Budget"
    plural = "budgets"
    singular = "budget"
    namespaced = False
    order = 2020
    columns = (
        TableColumn("ALLOWED", text("status", "allowed", default="0")),
        TableColumn("UNDER-WAY", text("status", "inProgress", default="0")),
        TableColumn("IN-WINDOW", text("status", "inWindow", default="0")),
        TableColumn("HELD", text("status", "held", default="0")),
        TableColumn("COUNTED", since("status", "countedTime")),
        TableColumn("EXPECTED", text("status", "expected", default="0"), wide=True),
        TableColumn("HEALTHY", text("status", "healthy", default="0"), wide=True),
        TableColumn("TOKENS", text("status", "tokens"), wide=True),
    )
    made_from = "budgets"

    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        """See `View`. A name is `poddisruptionbudget.shop.web` or `resource-eviction-rate`."""
        from moorage.apiserver.kinds.status.records import ObjectId

        if "/" not in key:
            yield ObjectId(self.kind, "", key)
            return
        kind, namespace, name, _ = ObjectId.of(key)
        yield ObjectId(self.kind, "", ".".join(filter(None, (kind.lower(), namespace, name))))


KIND = BudgetKind()
