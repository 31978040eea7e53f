"""`Node` (v1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moorage.kinds.families.targets import Target

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.node import Node
    from moorage_schemas.taint import Taint


class NodeKind(Target["Node"]):
    """A node: a target that carries pods."""

    kind = "Node"
    plural = "nodes"
    singular = "node"
    short_names = ("no",)
    namespaced = False
    order = 20
    apply_order = 80

    @property
    def model(self) -> type[Node]:
        """See `Kind`."""
        from moorage_schemas.resources.node import Node

        return Node

    def validate(self, resource: Node, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.core import validate_taints

        return validate_taints(resource.spec.taints or [])

    def created(self, document: dict[str, Any], gates: FeatureGates) -> dict[str, Any]:
        """See `Kind`."""
        from moorage.core.admission.defaults import declare_external_cloud

        return declare_external_cloud(document) if gates.external_cloud else document

    def taints_of_new(self, resource: Node) -> Sequence[Taint]:
        """See `Kind`."""
        from moorage.core.admission.defaults import role_taints

        return role_taints(resource.metadata.labels, resource.spec.taints or ())


KIND = NodeKind()
