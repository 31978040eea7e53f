"""`Namespace` (v1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Untyped
from moorage.apiserver.kinds.printing.columns import AGE, TableColumn, text
from moorage.apiserver.kinds.status import built_in

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.dedicated import DedicatedNodes

FINALIZERS: Final = ("kubernetes",)
"""The finalizer of a namespace's content. The other finalizers in a namespace's `spec` have a group."""

FINALIZE: Final = "finalize"
"""The subresource that changes them."""

_NAME_LABEL: Final = "kubernetes.io/metadata.name"


class NamespaceKind(Untyped):
    """A namespace. Its objects can only be created while it exists, and are deleted with it."""

    kind = "Namespace"
    mirrorable = True
    short_names = ("ns",)
    namespaced = False
    order = 10
    status_shown = True
    field_selectors: ClassVar[Mapping[str, str]] = {"status.phase": "Active"}
    apply_order = 10
    has_generation = False
    columns = (TableColumn("STATUS", text("status", "phase", default="Active")), AGE)
    label_names = True
    own_subresources = (FINALIZE,)
    built_in = built_in.NAMESPACES
    built_in_kept = "this namespace may not be deleted"
    deleted_with_content = True

    @override
    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        # Its name is also the value of a label.
        from moorage.apiserver.rules.validation.core import validate_labels

        return validate_labels({_NAME_LABEL: str(document["metadata"].get("name") or "")})

    @override
    def admitted(self, document: dict[str, Any], rules: Iterable[DedicatedNodes]) -> dict[str, Any]:
        metadata = document["metadata"]
        labels = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata["name"]}
        return {**document, "metadata": {**metadata, "labels": labels}}

    @override
    def changed(self, wanted: dict[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
        # The finalizers of its spec are a subresource.
        return {**wanted, "spec": shown["spec"]}

    @override
    def is_held(self, document: Mapping[str, Any]) -> bool:
        return bool((document.get("spec") or {}).get("finalizers", FINALIZERS))

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        if resource.mirrored is not None and (said := resource.object.get("status")):
            found: Document = said
            return found
        return {"phase": "Terminating" if resource.object["metadata"].get("deletionTimestamp") else "Active"}

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        # An undeclared namespace is shown while other objects imply it.
        from moorage.apiserver.kinds.status.namespaces import NamespaceIndex

        name = object_id.name
        if object_id.key not in records.resources and records.index(NamespaceIndex).implies(name):
            return self.built_in_object(object_id, records)
        found = super().shown(object_id, records)
        return {**found, "spec": {"finalizers": list(FINALIZERS), **(found.get("spec") or {})}} if found else None

    @override
    def implied(self, records: Records) -> Iterable[str]:
        from moorage.apiserver.kinds.status.namespaces import NamespaceIndex

        return records.index(NamespaceIndex).implied()

    @override
    def built_in_object(self, object_id: ObjectId, records: Records) -> Document:
        from moorage.apiserver.kinds.status.namespaces import identity

        name = object_id.name
        return {
            "apiVersion": "v1",
            "kind": self.kind,
            "metadata": {"name": name, **identity(name, records), "labels": {_NAME_LABEL: name}},
            "spec": {"finalizers": list(FINALIZERS)},
            "status": {"phase": "Active"},
        }


KIND = NamespaceKind()
