"""`PodDisruptionBudget` (policy/v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.kind import Kind

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.budgets import PodDisruptionBudget


class PodDisruptionBudgetKind(Kind["PodDisruptionBudget"]):
    """How many of a workload's pods evictions must leave."""

    group = "policy"
    kind = "PodDisruptionBudget"
    plural = "poddisruptionbudgets"
    singular = "poddisruptionbudget"
    short_names = ("pdb",)
    namespaced = True
    order = 120
    apply_order = 50

    @property
    def model(self) -> type[PodDisruptionBudget]:
        """See `Kind`."""
        from moorage_schemas.resources.budgets import PodDisruptionBudget

        return PodDisruptionBudget

    def validate(self, resource: PodDisruptionBudget, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.budgets import validate_disruption_budget

        return validate_disruption_budget(resource.spec)


KIND = PodDisruptionBudgetKind()
