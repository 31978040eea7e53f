"""`Budget` (moorage.io/v1alpha1)."""

from __future__ import annotations

from moorage.kinds.kind import View


class BudgetKind(View):
    """What a budget of evictions has left."""

    kind = "Budget"
    plural = "budgets"
    singular = "budget"
    namespaced = False
    order = 2020


KIND = BudgetKind()
