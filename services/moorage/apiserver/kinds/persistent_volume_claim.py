"""`PersistentVolumeClaim` (v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.apiserver.kinds.families.stored import StoredKind
from moorage.apiserver.kinds.printing.columns import AGE, TableColumn, of, text
from moorage.apiserver.kinds.printing.kubernetes import access_modes
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage_schemas.resource import ResourceDeclared


class PersistentVolumeClaimKind(StoredKind):
    """Storage that a pod wants. Those who run the work provide it."""

    kind = "PersistentVolumeClaim"
    plural = "persistentvolumeclaims"
    singular = "persistentvolumeclaim"
    short_names = ("pvc",)
    order = 106
    deleted_is_returned = True
    has_generation = False
    status_shown = True
    api_columns = (
        TableColumn("STATUS", text("status", "phase", default="Pending")),
        TableColumn("VOLUME", text("spec", "volumeName", default="")),
        TableColumn("CAPACITY", text("status", "capacity", "storage", default="")),
        # Those of the bound volume. A claim that nobody has bound has none.
        TableColumn("ACCESS MODES", of(lambda found: access_modes(at(found, "status", "accessModes")))),
        TableColumn("StorageClass", text("spec", "storageClassName", default="")),
        TableColumn("VolumeAttributesClass", text("spec", "volumeAttributesClassName", default="<unset>")),
        AGE,
        TableColumn("VolumeMode", text("spec", "volumeMode", default="Filesystem"), wide=True),
    )

    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        """See `Kind`. As an API server says of a new claim: nobody here binds it."""
        return {"phase": "Pending"}


KIND = PersistentVolumeClaimKind()
