"""`StorageClass` (storage.k8s.io/v1)."""

from __future__ import annotations

from moorage.apiserver.kinds.families.stored import StoredKind
from moorage.apiserver.kinds.printing.columns import AGE, TableColumn, of, text


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


KIND = StorageClassKind()
