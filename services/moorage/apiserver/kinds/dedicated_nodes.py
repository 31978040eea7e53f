"""`DedicatedNodes` (moorage.io/v1alpha1)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind, UnknownFields
from moorage.apiserver.kinds.printing.columns import AGE, TableColumn, text

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.dedicated import DedicatedNodes


class DedicatedNodesKind(Kind["DedicatedNodes"]):
    """A rule for nodes that are reserved for a group."""

    group = "moorage.io"
    versions = ("v1alpha1",)
    kind = "DedicatedNodes"
    plural = "dedicatednodes"
    model_module = "dedicated"
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
    @override
    def indexes(self) -> tuple[type[Index], ...]:
        from moorage.apiserver.kinds.status.pods import DedicatedIndex

        return (DedicatedIndex,)

    def validate(self, resource: DedicatedNodes, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`. The key, the value and the effect must be valid for a taint."""
        from moorage.apiserver.rules.validation.core import validate_taints
        from moorage_schemas.taint import Taint

        taint = Taint(key=resource.spec.key, value=resource.spec.value, effect=resource.spec.effect)
        found = validate_taints([taint], "spec")
        return [replace(error, path=error.path.replace("spec[0]", "spec")) for error in found]


KIND = DedicatedNodesKind()
