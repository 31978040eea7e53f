"""What a bridge reports of its control plane: the conditions of its clusters, and how the work of its bindings is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from moorage.bridge.karmada.bindings import SeenBinding
from moorage.bridge.karmada.members import READY, MemberCondition, SeenMember
from moorage.bridge.karmada.plane import CLUSTER, PlaneState
from moorage.bridge.karmada.tables import PlaneTables
from moorage.bridge.leases import Leases
from moorage.bridge.reports import Report
from moorage.core.taints.dialects.karmada import READY_TAINTS
from moorage_schemas.condition import EVICTED, HEALTHY
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef

STOPPED: Final = "ClusterStatusUnknown"
"""The reason of the condition of a cluster that has fallen silent, as in Karmada."""

_SILENT: Final = MemberCondition("Unknown", STOPPED, "Cluster status controller stopped posting cluster status.")
_NEVER_READY: Final = MemberCondition("False", "ClusterStatusNeverUpdated", "The cluster has no condition Ready yet.")
"""Of a cluster without the condition, for which Karmada's cluster controller decides the same."""

_STATUSES: Final = frozenset({"True", "False", "Unknown"})
_HEALTH: Final = {"Healthy": "True", "Unhealthy": "False"}
_OF_CLUSTER: Final = "cluster"


class PlaneReportKey(NamedTuple):
    """What a report is about."""

    about: str
    """`cluster`, or the key of a binding."""

    cluster: str
    """The name of the cluster."""

    type: str

    def __str__(self) -> str:
        return f"{self.about}|{self.cluster}|{self.type}"

    @classmethod
    def parse(cls, key: str) -> PlaneReportKey:
        """Parse a key."""
        about, cluster, kind = key.split("|", 2)
        return cls(about, cluster, kind)


class PlaneObservations:
    """Computes reports from what was seen.

    Args:
        source: of the bridge.
        state: the control plane as it was seen.
        tables: what the topics say.
        leases: which clusters are silent.
        is_mirrored: returns whether an object is in `resources` with a uid, so that it can be reported on.
    """

    def __init__(
        self,
        source: str,
        state: PlaneState,
        tables: PlaneTables,
        leases: Leases,
        is_mirrored: Callable[[str, str], bool],
    ) -> None:
        self._source = source
        self._state = state
        self._tables = tables
        self._leases = leases
        self._is_mirrored = is_mirrored

    def of_cluster(self, name: str) -> list[str]:
        """Return the keys of the reports about a cluster."""
        cluster = self._state.clusters.get(name)
        types = {*(cluster.conditions if cluster is not None else ()), READY}
        return [str(PlaneReportKey(_OF_CLUSTER, name, one)) for one in sorted(types)]

    def of_binding(self, key: str) -> list[str]:
        """Return the keys of the reports about a binding."""
        bound = [str(PlaneReportKey(key, name, HEALTHY)) for name in self._tables.bound.get(key, ())]
        evicted = {one.target.name for one in self._tables.evictions.get(key, {}).values()}
        return [*bound, *(str(PlaneReportKey(key, name, EVICTED)) for name in sorted(evicted))]

    @staticmethod
    def is_about_target(key: str) -> bool:
        """Return whether a report is about a target, and not about work on it."""
        return PlaneReportKey.parse(key).about == _OF_CLUSTER

    def present(self, key: str) -> Report | None:
        """Return what is to be reported under a key. None for nothing."""
        about, cluster, kind = PlaneReportKey.parse(key)
        if about == _OF_CLUSTER:
            return self._condition(cluster, kind)
        binding = self._state.bindings.get(about)
        if binding is None:
            return None
        return self._left(about, binding, cluster) if kind == EVICTED else self._health(about, binding, cluster)

    def is_known(self, key: str, report: Report) -> bool:
        """Return whether the topics say what a report says."""
        about, name, kind = PlaneReportKey.parse(key)
        if about == _OF_CLUSTER:
            cluster = self._state.clusters.get(name)
            return cluster is not None and self._tables.is_said(report, cluster.uid, self._source)
        return kind == HEALTHY and self._tables.is_health_said(report)

    def is_taken_over(self, key: str) -> bool:
        """Return whether somebody else has reported a condition of a cluster last."""
        about, name, kind = PlaneReportKey.parse(key)
        return about == _OF_CLUSTER and self._tables.is_taken_over(name, kind, self._source)

    def was_silent(self, cluster: SeenMember) -> bool:
        """Return whether the topics say that a cluster has fallen silent, as a bridge saw it.

        It stays so for a bridge that starts, until its agent says something.
        """
        said = self._tables.was_said_last(cluster.name, cluster.uid, READY, source=self._source, reason=STOPPED)
        return said and cluster.is_pulling and cluster.conditions.get(READY) != _SILENT

    def is_settled(self, cluster: SeenMember) -> bool:
        """Return whether the topics say of a cluster what was seen of it, and what follows for its taints.

        Before that, a cluster that was just mirrored counts as one without conditions.
        """
        tainted = self._tables.taints.get(cluster.name)
        if not self._has(cluster) or tainted is None or tainted.target_uid not in {"", cluster.uid}:
            return False
        for key in self.of_cluster(cluster.name):
            report = self.present(key)
            if report is not None and not self.is_taken_over(key) and not self._says(cluster, report):
                return False
        if tainted.settles_at is not None or tainted.held:
            return True
        # The record of the taints may be older than that of the condition.
        ready = self._tables.conditions.get(cluster.name, {}).get(READY)
        wanted = READY_TAINTS.get(ready.status.value) if ready is not None else None
        present = {one.identity for one in tainted.taints} & {one.identity for one in READY_TAINTS.values()}
        return wanted is None or wanted.identity in present

    def _says(self, cluster: SeenMember, report: Report) -> bool:
        record = self._tables.condition_of(cluster.name, cluster.uid, report.type)
        return record is not None and record.status.value == report.status

    def _has(self, cluster: SeenMember) -> bool:
        return self._is_mirrored(str(ResourceKey(CLUSTER, "", cluster.name)), cluster.uid)

    def _condition(self, name: str, kind: str) -> Report | None:
        cluster = self._state.clusters.get(name)
        if cluster is None or not self._has(cluster):
            return None
        found = cluster.conditions.get(kind)
        if kind == READY:
            found = _SILENT if self._leases.is_silent(name) else found or _NEVER_READY
        if found is None or found.status not in _STATUSES:
            return None
        return Report(_target(name), kind, found.status, found.reason, found.message)

    def _health(self, key: str, binding: SeenBinding, cluster: str) -> Report | None:
        """How the work is on a cluster where it is bound. What nobody knows is not reported."""
        bound, status = self._tables.bound.get(key, {}).get(cluster), _HEALTH.get(binding.health(cluster))
        if bound is None or bound.uid != binding.uid or status is None:
            return None
        if cluster not in binding.clusters and binding.task(cluster) is None:
            return None
        return Report(
            _target(cluster),
            HEALTHY,
            status,
            workload=WorkloadRef.parse(key),
            workload_uid=bound.uid,
            binding_generation=bound.generation,
        )

    def _left(self, key: str, binding: SeenBinding, cluster: str) -> Report | None:
        """That the work has left a cluster that it had to leave."""
        asked = (one for one in self._tables.requested(key, binding.uid) if one.target.name == cluster)
        eviction = max(asked, key=lambda one: one.generation, default=None)
        if eviction is None or eviction.acknowledged is not None or not binding.has_left(cluster):
            return None
        return Report(
            _target(cluster),
            EVICTED,
            "True",
            workload=WorkloadRef.parse(key),
            workload_uid=binding.uid,
            binding_generation=eviction.generation,
        )


def _target(cluster: str) -> TargetRef:
    return TargetRef(kind=TargetKind.CLUSTER, name=cluster)
