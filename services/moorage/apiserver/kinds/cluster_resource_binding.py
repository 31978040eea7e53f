"""`ClusterResourceBinding` (work.karmada.io/v1alpha2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.families.bindings import PlacementOnClusters

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage_schemas.resources.bindings import ClusterResourceBinding


class ClusterResourceBindingKind(PlacementOnClusters):
    """The placement of a resource without a namespace. Moorage claims none that are declared here."""

    kind = "ClusterResourceBinding"
    plural = "clusterresourcebindings"
    singular = "clusterresourcebinding"
    short_names = ("crb",)
    namespaced = False
    order = 2095

    @property
    @override
    def model(self) -> type[ClusterResourceBinding]:
        from moorage_schemas.resources.bindings import ClusterResourceBinding

        return ClusterResourceBinding

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        mirrored = records.resources.get(object_id.key)
        return mirrored.object if mirrored is not None else None


KIND = ClusterResourceBindingKind()
