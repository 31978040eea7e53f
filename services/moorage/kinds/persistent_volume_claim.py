"""`PersistentVolumeClaim` (v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.families.stored import StoredKind
from moorage.kinds.printing.columns import AGE, TableColumn, of, text
from moorage.kinds.printing.kubernetes import access_modes

if TYPE_CHECKING:
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage.kinds.status.records import Document, Records
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

    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.storage import validate_claim

        return validate_claim(document)

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.storage import validate_claim_update

        return validate_claim_update(before, after)

    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        """See `Kind`. As an API server says of a new claim: nobody here binds it."""
        return {"phase": "Pending"}


KIND = PersistentVolumeClaimKind()
