"""`ClusterRole` (rbac.authorization.k8s.io/v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.families.roles import ROLE_COLUMNS, PermissionKind
from moorage.apiserver.kinds.printing.kubernetes import CREATED

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
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
    @override
    def indexes(self) -> tuple[type[Index], ...]:
        from moorage.apiserver.kinds.status.aggregation import AggregationIndex

        return (AggregationIndex,)

    @override
    def validate(self, resource: Resource, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.rbac import validate_role

        return validate_role(resource, whole=True)


KIND = ClusterRoleKind()
