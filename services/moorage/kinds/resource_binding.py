"""`ResourceBinding` (work.karmada.io/v1alpha2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.families.bindings import PlacementOnClusters

if TYPE_CHECKING:
    from moorage.kinds.status.index import Index
    from moorage.kinds.status.records import Document, ObjectId, Records
    from moorage_schemas.resources.bindings import ResourceBinding


class ResourceBindingKind(PlacementOnClusters):
    """The placement of a resource of a namespace. Those of resources that are declared here are made from decisions."""

    kind = "ResourceBinding"
    plural = "resourcebindings"
    singular = "resourcebinding"
    short_names = ("rb",)
    namespaced = True
    order = 2090

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """See `Kind`."""
        from moorage.kinds.status.controllers import OwnerIndex
        from moorage.kinds.status.reported import ReportIndex
        from moorage.kinds.status.resource_bindings import PolicyIndex

        return (OwnerIndex, ReportIndex, PolicyIndex)

    @property
    def model(self) -> type[ResourceBinding]:
        """See `Kind`."""
        from moorage_schemas.resources.bindings import ResourceBinding

        return ResourceBinding

    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        """See `Kind`."""
        from moorage.kinds.status.resource_bindings import resource_binding

        declared = records.resources.get(object_id.key)
        if declared is not None:
            return declared.object
        placed = records.placements.get(object_id.key)
        return resource_binding(placed, records) if placed is not None else None


KIND = ResourceBindingKind()
