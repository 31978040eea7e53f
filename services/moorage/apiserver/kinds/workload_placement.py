"""`WorkloadPlacement` (moorage.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import Object, TableColumn, of, reference_text, since, target, text
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.apiserver.kinds.status.records import ObjectId
    from moorage_schemas.base import Model


def _targets(found: Object) -> str:
    """The target, or the targets of a workload that can be on several."""
    several = at(found, "status", "targets") or []
    return ",".join(reference_text(one["target"]) for one in several) or reference_text(at(found, "status", "target"))


class WorkloadPlacementKind(View):
    """The decision on one workload with its grounds. A `Placement` is declared by people."""

    kind = "WorkloadPlacement"
    plural = "workloadplacements"
    singular = "workloadplacement"
    short_names = ("wp", "pl")
    namespaced = True
    order = 2070
    columns = (
        TableColumn("STATE", text("status", "state")),
        TableColumn("TARGET", of(_targets)),
        TableColumn("REASON", text("status", "reason")),
        TableColumn("AGE", since("status", "decidedTime")),
        TableColumn("OWNER", target("status", "owner"), wide=True),
        TableColumn("PREVIOUS", target("status", "previousTarget"), wide=True),
        TableColumn("MESSAGE", text("status", "message"), wide=True),
    )
    made_from = "placements"

    @override
    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.names import workload_name, workload_namespace
        from moorage.apiserver.kinds.status.records import ObjectId

        workload = ObjectId.of(key)
        if workload.kind != "PlacementDecision":  # it has a kind of its own
            yield ObjectId(self.kind, workload_namespace(workload), workload_name(workload))


KIND = WorkloadPlacementKind()
