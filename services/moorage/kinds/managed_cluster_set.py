"""`ManagedClusterSet` (cluster.open-cluster-management.io/v1beta2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moorage.kinds.kind import Kind, UnknownFields

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.managed import ManagedClusterSet

_KNOWS_NO_LEGACY: Final = "v1beta2"


class ManagedClusterSetKind(Kind["ManagedClusterSet"]):
    """A set of managed clusters.

    The versions differ in one word only: the way in which clusters name their set was called `LegacyClusterSetLabel`
    before v1beta2. It is stored as it was written and shown as the version knows it.
    """

    group = "cluster.open-cluster-management.io"
    versions = ("v1beta2", "v1beta1", "v1alpha1")
    kind = "ManagedClusterSet"
    plural = "managedclustersets"
    singular = "managedclusterset"
    short_names = ("mclset", "mclsets")
    namespaced = False
    order = 210
    apply_order = 120
    unknown_fields = UnknownFields.WARNED

    @property
    def model(self) -> type[ManagedClusterSet]:
        """See `Kind`."""
        from moorage_schemas.resources.managed import ManagedClusterSet

        return ManagedClusterSet

    def validate(self, resource: ManagedClusterSet, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.ocm import validate_cluster_set

        return validate_cluster_set(resource)

    def converted(self, document: Mapping[str, Any], version: str) -> Mapping[str, Any]:
        """See `Kind`."""
        from moorage_schemas.resources.managed import EXCLUSIVE, LEGACY

        shown = super().converted(document, version)
        spec = shown.get("spec") or {}
        selector = spec.get("clusterSelector") or {}
        if version != _KNOWS_NO_LEGACY or selector.get("selectorType") != LEGACY:
            return shown
        return {**shown, "spec": {**spec, "clusterSelector": {**selector, "selectorType": EXCLUSIVE}}}


KIND = ManagedClusterSetKind()
