"""`ManagedClusterAddOn` (addon.open-cluster-management.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.kind import Kind

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.managed import ManagedClusterAddOn


class ManagedClusterAddOnKind(Kind["ManagedClusterAddOn"]):
    """An add-on that is enabled on the cluster of its namespace."""

    group = "addon.open-cluster-management.io"
    versions = ("v1alpha1",)
    kind = "ManagedClusterAddOn"
    plural = "managedclusteraddons"
    singular = "managedclusteraddon"
    short_names = ("mca",)
    namespaced = True
    order = 250
    apply_order = 170

    @property
    def model(self) -> type[ManagedClusterAddOn]:
        """See `Kind`."""
        from moorage_schemas.resources.managed import ManagedClusterAddOn

        return ManagedClusterAddOn

    def validate(self, resource: ManagedClusterAddOn, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.ocm import validate_add_on

        return validate_add_on(resource)


KIND = ManagedClusterAddOnKind()
