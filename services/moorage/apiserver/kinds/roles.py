"""`Role`, `ClusterRole`, `RoleBinding` and `ClusterRoleBinding` (rbac.authorization.k8s.io/v1)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from moorage.apiserver.kinds.kind import Untyped
from moorage.apiserver.kinds.printing.columns import AGE, NONE, Cell, Object, TableColumn, count, of
from moorage.apiserver.kinds.printing.kubernetes import CREATED
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.meta import ObjectMeta, Resource


def _role(found: Object) -> str:
    return f"{at(found, 'roleRef', 'kind')}/{at(found, 'roleRef', 'name')}"


def _subjects(found: Object) -> str:
    return ",".join(str(one.get("name")) for one in found.get("subjects") or []) or NONE


def _subjects_of(kind: str) -> Cell:
    """Return a cell of the names of subjects of a kind."""

    def cell(found: Object, _: datetime) -> str:
        chosen = (one for one in found.get("subjects") or [] if one.get("kind") == kind)
        return ",".join(f"{one['namespace']}/{one['name']}" if one.get("namespace") else one["name"] for one in chosen)

    return cell


class PermissionKind(Untyped):
    """A role or a binding. Its name may be any valid path segment, such as `system:masters`."""

    group: ClassVar[str] = "rbac.authorization.k8s.io"
    created_by_update = True
    has_generation = False

    @override
    def validate_metadata(self, metadata: ObjectMeta) -> list[FieldError]:
        from moorage.apiserver.rules.validation.rbac import validate_path_name

        # Valid names: those of roles have other rules.
        named = metadata.model_copy(update={"name": "role", "generate_name": ""})
        return validate_path_name(metadata.name) + super().validate_metadata(named)


class RoleKind(PermissionKind):
    """Permissions in one namespace."""

    kind = "Role"
    namespaced = True
    order = 290
    columns = (AGE, TableColumn("RULES", count("rules"), wide=True))
    api_columns = (CREATED,)

    @override
    def validate(self, resource: Resource, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.rbac import validate_role

        return validate_role(resource, whole=not self.namespaced)


class ClusterRoleKind(RoleKind):
    """Permissions in every namespace."""

    kind = "ClusterRole"
    namespaced = False
    order = 270


class RoleBindingKind(PermissionKind):
    """The subjects that have the permissions of a role in one namespace."""

    kind = "RoleBinding"
    namespaced = True
    order = 300
    columns = (TableColumn("ROLE", of(_role)), AGE, TableColumn("SUBJECTS", of(_subjects), wide=True))
    api_columns = (
        TableColumn("Role", of(_role)),
        AGE,
        TableColumn("Users", _subjects_of("User"), wide=True),
        TableColumn("Groups", _subjects_of("Group"), wide=True),
        TableColumn("ServiceAccounts", _subjects_of("ServiceAccount"), wide=True),
    )
    role_kinds: ClassVar[tuple[str, ...]] = ("Role", "ClusterRole")
    """The kinds of role that it may name."""

    @override
    def validate(self, resource: Resource, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.rbac import validate_role_binding

        return validate_role_binding(resource, self.role_kinds, whole=not self.namespaced)


class ClusterRoleBindingKind(RoleBindingKind):
    """The subjects that have the permissions of a role in every namespace."""

    kind = "ClusterRoleBinding"
    namespaced = False
    order = 280
    role_kinds = ("ClusterRole",)


ROLE, CLUSTER_ROLE = RoleKind(), ClusterRoleKind()
ROLE_BINDING, CLUSTER_ROLE_BINDING = RoleBindingKind(), ClusterRoleBindingKind()
KINDS = (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING)
