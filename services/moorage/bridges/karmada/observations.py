"""What a bridge reports of its control plane: the conditions of its clusters, and how the work of its bindings is."""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from moorage.bridges.engine.observations import ReportKey, WorkObservations
from moorage.bridges.engine.reports import Report
from moorage.bridges.engine.targets import SeenCondition
from moorage.bridges.karmada.bindings import SeenBinding
from moorage.bridges.karmada.plane import READY, PlaneState, SeenMember
from moorage.bridges.karmada.tables import PlaneTables
from moorage.decide.taints.dialects.karmada import READY_TAINTS
from moorage_schemas.condition import EVICTED, HEALTHY
from moorage_schemas.refs import TargetKind

_NEVER_READY: Final = SeenCondition("False", "ClusterStatusNeverUpdated", "The cluster has no condition Ready yet.")
"""Of a cluster without the condition, for which Karmada's cluster controller decides the same."""

_HEALTH: Final = {"Healthy": "True", "Unhealthy": "False"}


class PlaneObservations(WorkObservations[PlaneState, PlaneTables]):
    """Computes reports from what was seen. See `TargetObservations`."""

    kind = TargetKind.CLUSTER
    ready = READY
    judged = (READY,)
    silent = SeenCondition(
        "Unknown", "ClusterStatusUnknown", "Cluster status controller stopped posting cluster status."
    )  # as in Karmada

    @override
    def of_work(self, key: str) -> list[str]:
        bound = [str(ReportKey(key, name, HEALTHY)) for name in self._tables.bound.get(key, ())]
        evicted = {one.target.name for one in self._tables.evictions.get(key, {}).values()}
        return [*bound, *(str(ReportKey(key, name, EVICTED)) for name in sorted(evicted))]

    @override
    def was_silent(self, name: str) -> bool:
        cluster = self._state.targets.get(name)
        is_pulling = cluster is not None and cluster.is_pulling and cluster.conditions.get(READY) != self.silent
        return is_pulling and super().was_silent(name)

    @override
    def is_settled(self, target: SeenMember) -> bool:
        # Before that, a cluster that was just mirrored counts as one without conditions.
        tainted = self._tables.taints.get(target.name)
        if not self._has(target) or tainted is None or tainted.target_uid not in {"", target.uid}:
            return False
        for key in self.of_target(target.name):
            report = self.present(key)
            if report is not None and not self.is_taken_over(key) and not self._says(target, report):
                return False
        if tainted.settles_at is not None or tainted.held:
            return True
        # The record of the taints may be older than that of the condition.
        ready = self._tables.conditions.get(target.name, {}).get(READY)
        wanted = READY_TAINTS.get(ready.status.value) if ready is not None else None
        present = {one.identity for one in tainted.taints} & {one.identity for one in READY_TAINTS.values()}
        return wanted is None or wanted.identity in present

    def _says(self, cluster: SeenMember, report: Report) -> bool:
        record = self._tables.condition_of(cluster.name, cluster.uid, report.type)
        return record is not None and record.status.value == report.status

    @override
    def _condition(self, target: SeenMember, kind: str) -> SeenCondition | None:
        return super()._condition(target, kind) or (_NEVER_READY if kind == READY else None)

    @override
    def _of_work(self, about: str, name: str, kind: str) -> Report | None:
        binding = self._state.bindings.get(about)
        if binding is None:
            return None
        return self._left(about, binding, name) if kind == EVICTED else self._health(about, binding, name)

    def _health(self, key: str, binding: SeenBinding, cluster: str) -> Report | None:
        """How the work is on a cluster where it is bound. What nobody knows is not reported."""
        bound, status = self._tables.bound.get(key, {}).get(cluster), _HEALTH.get(binding.health(cluster))
        if bound is None or bound.uid != binding.uid or status is None:
            return None
        if cluster not in binding.clusters and binding.task(cluster) is None:
            return None
        return self._report(key, bound.uid, bound.generation, target=cluster, kind=HEALTHY, status=status)

    def _left(self, key: str, binding: SeenBinding, cluster: str) -> Report | None:
        """That the work has left a cluster that it had to leave."""
        asked = (one for one in self._tables.requested(key, binding.uid) if one.target.name == cluster)
        eviction = max(asked, key=lambda one: one.generation, default=None)
        if eviction is None or eviction.acknowledged is not None or not binding.has_left(cluster):
            return None
        return self._report(key, binding.uid, eviction.generation, target=cluster, kind=EVICTED, status="True")
