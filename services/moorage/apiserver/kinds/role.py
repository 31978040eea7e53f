"""`Role` (rbac.authorization.k8s.io/v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.families.roles import ROLE_COLUMNS, PermissionKind
from moorage.apiserver.kinds.printing.kubernetes import CREATED

if TYPE_CHECKING:
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.meta import Resource


class RoleKind(PermissionKind):
    """Permissions in one namespace."""

    kind = "Role"
    plural = "roles"
    singular = "role"
    namespaced = True
    created_by_update = True
    order = 290
    has_generation = False
    columns = ROLE_COLUMNS
    api_columns = (CREATED,)

    @override
    def validate(self, resource: Resource, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.rbac import validate_role

        return validate_role(resource, whole=False)


KIND = RoleKind()
