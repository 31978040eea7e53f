"""`DedicatedNodes` (moorage.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.kind import Kind, UnknownFields
from moorage.kinds.printing.columns import AGE, TableColumn, text

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage.kinds.status.index import Index
    from moorage_schemas.resources.dedicated import DedicatedNodes


class DedicatedNodesKind(Kind["DedicatedNodes"]):
    """A rule for nodes that are reserved for a group."""

    group = "moorage.io"
    versions = ("v1alpha1",)
    kind = "DedicatedNodes"
    plural = "dedicatednodes"
    singular = "dedicatednode"
    namespaced = False
    order = 90
    apply_order = 20
    unknown_fields = UnknownFields.REFUSED
    columns = (
        TableColumn("KEY", text("spec", "key", default="dedicated")),
        TableColumn("VALUE", text("spec", "value")),
        TableColumn("EFFECT", text("spec", "effect", default="NoSchedule")),
        AGE,
    )

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """See `Kind`."""
        from moorage.kinds.status.dedicated import DedicatedIndex

        return (DedicatedIndex,)

    @property
    def model(self) -> type[DedicatedNodes]:
        """See `Kind`."""
        from moorage_schemas.resources.dedicated import DedicatedNodes

        return DedicatedNodes

    def validate(self, resource: DedicatedNodes, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.dedicated_nodes import validate_dedicated_nodes

        return validate_dedicated_nodes(resource.spec)


KIND = DedicatedNodesKind()
