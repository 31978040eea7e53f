"""`EvictionPause` (moorage.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.kind import Kind, UnknownFields

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.budgets import EvictionPause


class EvictionPauseKind(Kind["EvictionPause"]):
    """Holds evictions back."""

    group = "moorage.io"
    versions = ("v1alpha1",)
    kind = "EvictionPause"
    plural = "evictionpauses"
    singular = "evictionpause"
    cli_names = ("ep",)
    namespaced = False
    order = 190
    apply_order = 30
    unknown_fields = UnknownFields.REFUSED

    @property
    def model(self) -> type[EvictionPause]:
        """See `Kind`."""
        from moorage_schemas.resources.budgets import EvictionPause

        return EvictionPause

    def validate(self, resource: EvictionPause, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.budgets import validate_eviction_pause

        return validate_eviction_pause(resource.spec)


KIND = EvictionPauseKind()
