"""`ClusterRole` (rbac.authorization.k8s.io/v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.families.roles import ROLE_COLUMNS, PermissionKind
from moorage.kinds.printing.kubernetes import CREATED

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage.kinds.status.index import Index
    from moorage_schemas.resources.meta import Resource


class ClusterRoleKind(PermissionKind):
    """Permissions in every namespace."""

    kind = "ClusterRole"
    plural = "clusterroles"
    singular = "clusterrole"
    namespaced = False
    created_by_update = True
    order = 270
    has_generation = False
    columns = ROLE_COLUMNS
    api_columns = (CREATED,)

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """See `Kind`."""
        from moorage.kinds.status.aggregation import AggregationIndex

        return (AggregationIndex,)

    def validate(self, resource: Resource, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.rbac import validate_role

        return validate_role(resource, whole=True)


KIND = ClusterRoleKind()
