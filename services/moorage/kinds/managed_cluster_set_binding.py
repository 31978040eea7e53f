"""`ManagedClusterSetBinding` (cluster.open-cluster-management.io/v1beta2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.kind import Kind, UnknownFields

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.managed import ManagedClusterSetBinding


class ManagedClusterSetBindingKind(Kind["ManagedClusterSetBinding"]):
    """A set that placements of a namespace may choose from."""

    group = "cluster.open-cluster-management.io"
    versions = ("v1beta2", "v1beta1", "v1alpha1")
    kind = "ManagedClusterSetBinding"
    plural = "managedclustersetbindings"
    singular = "managedclustersetbinding"
    short_names = ("mclsetbinding", "mclsetbindings")
    namespaced = True
    order = 220
    apply_order = 130
    unknown_fields = UnknownFields.WARNED

    @property
    def model(self) -> type[ManagedClusterSetBinding]:
        """See `Kind`."""
        from moorage_schemas.resources.managed import ManagedClusterSetBinding

        return ManagedClusterSetBinding

    def validate(self, resource: ManagedClusterSetBinding, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.ocm import validate_set_binding

        return validate_set_binding(resource)


KIND = ManagedClusterSetBindingKind()
