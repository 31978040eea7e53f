"""`AddOnPlacementScore` (cluster.open-cluster-management.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.kind import Kind

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.managed import AddOnPlacementScore


class AddOnPlacementScoreKind(Kind["AddOnPlacementScore"]):
    """Scores that an add-on gives to the cluster of its namespace; all that it says is in its status."""

    group = "cluster.open-cluster-management.io"
    versions = ("v1alpha1",)
    kind = "AddOnPlacementScore"
    plural = "addonplacementscores"
    singular = "addonplacementscore"
    namespaced = True
    order = 240
    apply_order = 150
    status_declared = True

    @property
    def model(self) -> type[AddOnPlacementScore]:
        """See `Kind`."""
        from moorage_schemas.resources.managed import AddOnPlacementScore

        return AddOnPlacementScore

    def validate(self, resource: AddOnPlacementScore, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.ocm import validate_add_on_score

        return validate_add_on_score(resource)


KIND = AddOnPlacementScoreKind()
