"""`Placement` (cluster.open-cluster-management.io/v1beta1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moorage.kinds.kind import Kind, UnknownFields

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.managed import Placement


class PlacementKind(Kind["Placement"]):
    """A rule by which managed clusters are chosen, for whoever reads its decisions."""

    group = "cluster.open-cluster-management.io"
    versions = ("v1beta1", "v1alpha1")
    kind = "Placement"
    plural = "placements"
    singular = "placement"
    namespaced = True
    order = 230
    apply_order = 180
    unknown_fields = UnknownFields.WARNED
    fields_elsewhere = frozenset({"status", "spec.spreadPolicy"})

    @property
    def model(self) -> type[Placement]:
        """See `Kind`."""
        from moorage_schemas.resources.managed import Placement

        return Placement

    def validate(self, resource: Placement, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.ocm import validate_placement
        from moorage.core.scheduling.ocm.plugin import Plugins

        return validate_placement(resource, Plugins.discovered().built_in_names)

    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        """See `Kind`."""
        from moorage.core.admission.validation.ocm import misconfigured_expressions, misconfigured_tolerations
        from moorage_schemas.resources.pod import OpenToleration

        spec = document.get("spec") or {}
        if spec.get("spreadPolicy"):
            yield "spec.spreadPolicy has no effect"
        tolerations = [OpenToleration.model_validate(one) for one in spec.get("tolerations") or ()]
        wrong = [*misconfigured_expressions(spec), *misconfigured_tolerations(tolerations)]
        yield from (f"the placement is misconfigured: {error}" for error in wrong)


KIND = PlacementKind()
