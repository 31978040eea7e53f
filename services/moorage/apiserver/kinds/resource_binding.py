"""`ResourceBinding` and `ClusterResourceBinding` (work.karmada.io/v1alpha2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.families.bindings import PlacementOnClusters

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records


class ResourceBindingKind(PlacementOnClusters):
    """The placement of a resource of a namespace. Those of resources that are declared here are made from decisions."""

    kind = "ResourceBinding"
    plural = "resourcebindings"
    model_module = "bindings"
    short_names = ("rb",)
    namespaced = True
    order = 2090

    @property
    @override
    def indexes(self) -> tuple[type[Index], ...]:
        from moorage.apiserver.kinds.status.controllers import OwnerIndex
        from moorage.apiserver.kinds.status.reported import ReportIndex
        from moorage.apiserver.kinds.status.resource_bindings import PolicyIndex

        return (OwnerIndex, ReportIndex, PolicyIndex)

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.resource_bindings import resource_binding

        declared = records.resources.get(object_id.key)
        if declared is not None:
            return declared.object
        placed = records.placements.get(object_id.key)
        return resource_binding(placed, records) if placed is not None else None


class ClusterResourceBindingKind(PlacementOnClusters):
    """The placement of a resource without a namespace. Moorage claims none that are declared here."""

    kind = "ClusterResourceBinding"
    plural = "clusterresourcebindings"
    model_module = "bindings"
    short_names = ("crb",)
    namespaced = False
    order = 2095

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        mirrored = records.resources.get(object_id.key)
        return mirrored.object if mirrored is not None else None


KINDS = (ResourceBindingKind(), ClusterResourceBindingKind())
