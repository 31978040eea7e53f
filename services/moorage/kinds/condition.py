"""`Condition` (moorage.io/v1alpha1)."""

from __future__ import annotations

from moorage.kinds.kind import View


class ConditionKind(View):
    """One condition of a target."""

    kind = "Condition"
    plural = "conditions"
    singular = "condition"
    cli_names = ("cond",)
    namespaced = False
    order = 2030


KIND = ConditionKind()
