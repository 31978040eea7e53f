"""`ClusterRoleBinding` (rbac.authorization.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.families.roles import API_BINDING_COLUMNS, BINDING_COLUMNS, PermissionKind

if TYPE_CHECKING:
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
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

    @override
    def validate(self, resource: Resource, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.rbac import validate_role_binding

        return validate_role_binding(resource, ("ClusterRole",), whole=True)

    @override
    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        from moorage.apiserver.rules.validation.rbac import validate_role_binding_update

        return validate_role_binding_update(before, after)


KIND = ClusterRoleBindingKind()
