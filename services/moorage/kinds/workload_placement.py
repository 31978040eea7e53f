"""`WorkloadPlacement` (moorage.io/v1alpha1)."""

from __future__ import annotations

from moorage.kinds.kind import View


class WorkloadPlacementKind(View):
    """The decision on one workload with its grounds; `Placement` is what people declare."""

    kind = "WorkloadPlacement"
    plural = "workloadplacements"
    singular = "workloadplacement"
    short_names = ("wp", "pl")
    namespaced = True
    order = 2070


KIND = WorkloadPlacementKind()
