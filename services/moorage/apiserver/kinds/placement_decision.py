"""`PlacementDecision` (cluster.open-cluster-management.io/v1beta1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.families.ocm import available, decided, group_text, placement_of
from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import CUSTOM_AGE, NONE, Object, TableColumn, count, label, of
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.resources.names import PLACEMENT_LABEL

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records


class PlacementDecisionKind(View):
    """A page of the managed clusters that a placement has selected, as OCM's API shows it.

    One that somebody else has written on a real hub is mirrored. It is shown as it is there, until Moorage decides.
    """

    group = "cluster.open-cluster-management.io"
    versions = ("v1beta1", "v1alpha1")
    kind = "PlacementDecision"
    plural = "placementdecisions"
    model_module = "managed"
    cli_names = ("pd",)
    namespaced = True
    mirrorable = True
    order = 2100
    repeatable = True
    columns = (
        TableColumn("PLACEMENT", label(PLACEMENT_LABEL)),
        TableColumn("CLUSTERS", count("status", "decisions")),
        TableColumn("GROUP", of(group_text)),
        TableColumn("SELECTED", of(lambda found: ",".join(decided(found)) or NONE), wide=True),
    )
    api_columns = (CUSTOM_AGE,)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        yield Pair("Placement", placement_of(found))
        yield Pair("Group", group_text(found))
        known = {str(at(one, "metadata", "name")): one for one in related.list("ManagedCluster")}
        rows = [[name, available(known.get(name, {}))] for name in decided(found)]
        yield Rows(f"Clusters ({len(rows)})", ["NAME", "AVAILABLE"], rows)

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.ocm import placement_decision

        if (placed := records.placements.get(object_id.key)) is not None:
            return placement_decision(placed, records.resources.get(placed.owner.key))
        declared = records.resources.get(object_id.key)
        return declared.object if declared is not None else None


KIND = PlacementDecisionKind()
