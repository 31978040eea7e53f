"""`Namespace` (v1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from moorage.kinds.kind import Untyped
from moorage.kinds.printing.columns import AGE, TableColumn, text

if TYPE_CHECKING:
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage.kinds.status.records import Document, Records
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.dedicated import DedicatedNodes
    from moorage_schemas.resources.meta import ObjectMeta


class NamespaceKind(Untyped):
    """A namespace. When it is deleted, its objects are deleted, too."""

    kind = "Namespace"
    plural = "namespaces"
    singular = "namespace"
    short_names = ("ns",)
    namespaced = False
    order = 10
    field_selectors: ClassVar[Mapping[str, str]] = {"status.phase": "Active"}
    apply_order = 10
    columns = (TableColumn("STATUS", text("status", "phase", default="Active")), AGE)
    built_in = ("default",)
    deleted_with_content = True

    def validate_metadata(self, metadata: ObjectMeta) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.core import validate_name

        return super().validate_metadata(metadata) or validate_name(metadata.name, dns_label=True)

    def admitted(self, document: dict[str, Any], rules: Iterable[DedicatedNodes]) -> dict[str, Any]:
        """See `Kind`."""
        metadata = document["metadata"]
        labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
        return {**document, "metadata": {**metadata, "labels": labels}}

    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        """See `Kind`."""
        return {"phase": "Active"}

    def built_in_object(self, name: str, records: Records) -> Document:
        """See `Kind`."""
        return {
            "apiVersion": "v1",
            "kind": self.kind,
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }

    def refusal(self, name: str, change: str) -> str:
        """See `Kind`."""
        return "this namespace may not be deleted" if name in self.built_in and change == "deleted" else ""


KIND = NamespaceKind()
