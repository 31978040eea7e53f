"""The content of the topics about a control plane: beside its clusters, the decisions on its bindings."""

from __future__ import annotations

from typing_extensions import override

from moorage.bridges.engine.target_tables import Touched, WorkTables
from moorage.bridges.karmada.plane import CLUSTER
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resources.workload_kinds import BINDING_KINDS


class PlaneTables(WorkTables[WorkloadPlaced, EvictionDecided]):
    """The present content of the topics about the control plane. Its workloads are the bindings.

    Args:
        touched: called for each change, with the name of a cluster or the key of a binding.
    """

    _work = BINDING_KINDS

    def __init__(self, touched: Touched) -> None:
        super().__init__(CLUSTER, "", touched)

    def requested(self, binding: str, uid: str) -> list[EvictionDecided]:
        """Return the evictions that are requested of a binding with this uid."""
        return [one for one in self.evictions.get(binding, {}).values() if one.workload_uid in {"", uid}]

    @override
    def _kept_decision(self, event: WorkloadPlaced) -> WorkloadPlaced:
        return event

    @override
    def _kept_eviction(self, event: EvictionDecided) -> EvictionDecided:
        return event
