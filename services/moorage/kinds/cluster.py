"""`Cluster` (cluster.karmada.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moorage.kinds.families.targets import Target

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.cluster import Cluster
    from moorage_schemas.resources.dedicated import DedicatedNodes


class ClusterKind(Target["Cluster"]):
    """A member cluster of Karmada: a target that carries whole workloads."""

    group = "cluster.karmada.io"
    versions = ("v1alpha1",)
    kind = "Cluster"
    plural = "clusters"
    singular = "cluster"
    namespaced = False
    order = 140
    apply_order = 70

    @property
    def model(self) -> type[Cluster]:
        """See `Kind`."""
        from moorage_schemas.resources.cluster import Cluster

        return Cluster

    def validate(self, resource: Cluster, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.karmada import validate_cluster

        return validate_cluster(resource)

    def admitted(self, document: dict[str, Any], rules: Iterable[DedicatedNodes]) -> dict[str, Any]:
        """See `Kind`."""
        from moorage.core.admission.defaults import admit_cluster

        return admit_cluster(document)

    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        """See `Kind`."""
        from moorage.core.admission.feature_gates import ineffective_evictions

        return ineffective_evictions(document.get("spec") or {}, gates)


KIND = ClusterKind()
