"""`Budget` (moorage.io/v1alpha1)."""

from __future__ import annotations

from moorage.kinds.kind import View
from moorage.kinds.printing.columns import Column, since, text


class BudgetKind(View):
    """What a budget of evictions has left."""

    kind = "Budget"
    plural = "budgets"
    singular = "budget"
    namespaced = False
    order = 2020
    columns = (
        Column("ALLOWED", text("status", "allowed", default="0")),
        Column("UNDER-WAY", text("status", "inProgress", default="0")),
        Column("IN-WINDOW", text("status", "inWindow", default="0")),
        Column("HELD", text("status", "held", default="0")),
        Column("COUNTED", since("status", "countedTime")),
        Column("EXPECTED", text("status", "expected", default="0"), wide=True),
        Column("HEALTHY", text("status", "healthy", default="0"), wide=True),
        Column("TOKENS", text("status", "tokens"), wide=True),
    )


KIND = BudgetKind()
