"""`PersistentVolume` (v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moorage.apiserver.kinds.families.stored import StoredKind
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.kubernetes import access_modes
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage_schemas.resource import ResourceDeclared


def _claim(found: Object) -> str:
    reference = at(found, "spec", "claimRef")
    known = isinstance(reference, Mapping)
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if known else ""


def _phase(found: Object) -> str:
    if at(found, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(at(found, "status", "phase") or "")


class PersistentVolumeKind(StoredKind):
    """Storage that a claim may be bound to. Those who run the work provide it."""

    kind = "PersistentVolume"
    plural = "persistentvolumes"
    singular = "persistentvolume"
    short_names = ("pv",)
    namespaced = False
    order = 107
    has_generation = False
    status_shown = True
    api_columns = (
        TableColumn("Capacity", text("spec", "capacity", "storage", default="0")),
        TableColumn("Access Modes", of(lambda found: access_modes(at(found, "spec", "accessModes")))),
        TableColumn("Reclaim Policy", text("spec", "persistentVolumeReclaimPolicy", default="Retain")),
        TableColumn("Status", of(_phase)),
        TableColumn("Claim", of(_claim)),
        TableColumn("StorageClass", text("spec", "storageClassName", default="")),
        TableColumn("VolumeAttributesClass", text("spec", "volumeAttributesClassName", default="<unset>")),
        TableColumn("Reason", text("status", "reason", default="")),
        AGE,
        TableColumn("VolumeMode", text("spec", "volumeMode", default="Filesystem"), wide=True),
    )

    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        """See `Kind`. As an API server says of a new volume: nobody here makes it available to claims."""
        since = resource.object["metadata"].get("creationTimestamp")
        return {"phase": "Pending", **({"lastPhaseTransitionTime": since} if since else {})}


KIND = PersistentVolumeKind()
