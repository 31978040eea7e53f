"""`StorageClass` (storage.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.kinds.families.stored import StoredKind
from moorage.kinds.printing.columns import AGE, TableColumn, of, text

if TYPE_CHECKING:
    from moorage.core.apimachinery.field_errors import FieldError


class StorageClassKind(StoredKind):
    """A kind of storage. Those who run the work provide it."""

    group = "storage.k8s.io"
    kind = "StorageClass"
    plural = "storageclasses"
    singular = "storageclass"
    short_names = ("sc",)
    namespaced = False
    order = 340
    deleted_is_returned = True
    has_generation = False
    api_columns = (
        TableColumn("PROVISIONER", text("provisioner", default="")),
        TableColumn("ReclaimPolicy", text("reclaimPolicy", default="Delete")),
        TableColumn("VolumeBindingMode", text("volumeBindingMode", default="Immediate")),
        TableColumn(
            "AllowVolumeExpansion",
            of(lambda found: str(bool(found.get("allowVolumeExpansion"))).lower()),
            holds="boolean",
        ),
        AGE,
    )

    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.storage import validate_storage_class

        return validate_storage_class(document)

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.storage import validate_storage_class_update

        return validate_storage_class_update(before, after)


KIND = StorageClassKind()
