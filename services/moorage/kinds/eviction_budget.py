"""`EvictionBudget` (moorage.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.kind import Kind, UnknownFields

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.budgets import EvictionBudget


class EvictionBudgetKind(Kind["EvictionBudget"]):
    """How many evictions may be under way, or happen in a time."""

    group = "moorage.io"
    versions = ("v1alpha1",)
    kind = "EvictionBudget"
    plural = "evictionbudgets"
    singular = "evictionbudget"
    short_names = ("eb",)
    namespaced = False
    order = 180
    apply_order = 40
    unknown_fields = UnknownFields.REFUSED

    @property
    def model(self) -> type[EvictionBudget]:
        """See `Kind`."""
        from moorage_schemas.resources.budgets import EvictionBudget

        return EvictionBudget

    def validate(self, resource: EvictionBudget, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.budgets import validate_eviction_budget

        return validate_eviction_budget(resource.spec)


KIND = EvictionBudgetKind()
