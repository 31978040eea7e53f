"""`ManagedCluster` (cluster.open-cluster-management.io/v1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from moorage.kinds.families.targets import Target

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.dedicated import DedicatedNodes
    from moorage_schemas.resources.managed import ManagedCluster


class ManagedClusterKind(Target["ManagedCluster"]):
    """A cluster that OCM's placements choose."""

    group = "cluster.open-cluster-management.io"
    kind = "ManagedCluster"
    plural = "managedclusters"
    singular = "managedcluster"
    short_names = ("mcl", "mcls")
    namespaced = False
    order = 200
    apply_order = 140

    @property
    def model(self) -> type[ManagedCluster]:
        """See `Kind`."""
        from moorage_schemas.resources.managed import ManagedCluster

        return ManagedCluster

    def validate(self, resource: ManagedCluster, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.ocm import validate_managed_cluster

        return validate_managed_cluster(resource)

    def admitted(self, document: dict[str, Any], rules: Iterable[DedicatedNodes]) -> dict[str, Any]:
        """See `Kind`."""
        from moorage.core.admission.ocm_defaults import admit_managed_cluster

        return admit_managed_cluster(document)


KIND = ManagedClusterKind()
