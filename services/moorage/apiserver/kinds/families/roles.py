"""Roles and their bindings (rbac.authorization.k8s.io)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Untyped
from moorage.apiserver.kinds.printing.columns import AGE, NONE, Cell, Object, TableColumn, count, of
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.meta import ObjectMeta


def _role(found: Object) -> str:
    return f"{at(found, 'roleRef', 'kind')}/{at(found, 'roleRef', 'name')}"


def _subjects(found: Object) -> str:
    return ",".join(str(one.get("name")) for one in found.get("subjects") or []) or NONE


ROLE_COLUMNS: Final = (AGE, TableColumn("RULES", count("rules"), wide=True))


def _subjects_of(kind: str) -> Cell:
    """A cell of the names of subjects of a kind."""

    def cell(found: Object, _: datetime) -> str:
        chosen = (one for one in found.get("subjects") or [] if one.get("kind") == kind)
        return ",".join(f"{one['namespace']}/{one['name']}" if one.get("namespace") else one["name"] for one in chosen)

    return cell


API_BINDING_COLUMNS: Final = (
    TableColumn("Role", of(_role)),
    AGE,
    TableColumn("Users", _subjects_of("User"), wide=True),
    TableColumn("Groups", _subjects_of("Group"), wide=True),
    TableColumn("ServiceAccounts", _subjects_of("ServiceAccount"), wide=True),
)
BINDING_COLUMNS: Final = (TableColumn("ROLE", of(_role)), AGE, TableColumn("SUBJECTS", of(_subjects), wide=True))


class PermissionKind(Untyped):
    """A role or a binding. Its name may be any valid path segment, such as `system:masters`."""

    group: ClassVar[str] = "rbac.authorization.k8s.io"

    @override
    def validate_metadata(self, metadata: ObjectMeta) -> list[FieldError]:
        from moorage.apiserver.rules.validation.rbac import validate_path_name

        # Valid names: those of roles have other rules.
        named = metadata.model_copy(update={"name": "role", "generate_name": ""})
        return validate_path_name(metadata.name) + super().validate_metadata(named)
