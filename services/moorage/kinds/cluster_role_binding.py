"""`ClusterRoleBinding` (rbac.authorization.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.kinds.families.roles import API_BINDING_COLUMNS, BINDING_COLUMNS, PermissionKind

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.meta import Resource


class ClusterRoleBindingKind(PermissionKind):
    """The subjects that have the permissions of a role in every namespace."""

    kind = "ClusterRoleBinding"
    plural = "clusterrolebindings"
    singular = "clusterrolebinding"
    namespaced = False
    created_by_update = True
    order = 280
    has_generation = False
    columns = BINDING_COLUMNS
    api_columns = API_BINDING_COLUMNS

    def validate(self, resource: Resource, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.rbac import validate_role_binding

        return validate_role_binding(resource, ("ClusterRole",), whole=True)

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.rbac import validate_role_binding_update

        return validate_role_binding_update(before, after)


KIND = ClusterRoleBindingKind()
