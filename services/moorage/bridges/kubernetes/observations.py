"""What a bridge reports of its cluster: the conditions of its nodes, and how its pods are."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from typing_extensions import override

from moorage.bridges.engine.observations import ReportKey, WorkObservations
from moorage.bridges.engine.reports import Report
from moorage.bridges.engine.silence import Leases
from moorage.bridges.engine.targets import SeenCondition
from moorage.bridges.kubernetes.cluster import READY, ClusterState, SeenNode
from moorage.bridges.kubernetes.node_acts import STOPPED
from moorage.bridges.kubernetes.tables import DecidedTables
from moorage_schemas.condition import EVICTED, FAILED, HEALTHY
from moorage_schemas.refs import TargetKind

_POD_REPORT, _EVICTION_REPORT = "pod", "eviction"


class FailedEviction(NamedTuple):
    """An attempt to evict a pod."""

    uid: str
    """Of the pod. The next one of its name has not been tried."""

    why: str
    """Why it failed."""


class Observations(WorkObservations[ClusterState, DecidedTables]):
    """Computes reports from what was seen. See `TargetObservations`."""

    kind = TargetKind.NODE
    about = "node"
    ready = READY
    judged = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")  # as in Kubernetes
    silent = SeenCondition("Unknown", STOPPED, "Kubelet stopped posting node status.")

    def __init__(
        self,
        source: str,
        cluster: str,
        *,
        state: ClusterState,
        tables: DecidedTables,
        leases: Leases,
        is_mirrored: Callable[[str, str], bool],
    ) -> None:
        super().__init__(source, state, tables, leases, is_mirrored, cluster=cluster)
        self.failures: dict[str, FailedEviction] = {}
        """Why pods could not be evicted, by their keys."""

    @override
    def of_work(self, key: str) -> list[str]:
        return [str(ReportKey(_POD_REPORT, key, HEALTHY)), str(ReportKey(_EVICTION_REPORT, key, EVICTED))]

    @override
    def is_settled(self, target: SeenNode) -> bool:
        taints = self._tables.taints.get(target.name)
        if taints is None or taints.target_uid not in {"", target.uid}:
            return False
        present = ((key, self.present(key)) for key in self.of_target(target.name))
        return all(one is None or self.is_known(key, one) or self.is_taken_over(key) for key, one in present)

    @override
    def _condition(self, target: SeenNode, kind: str) -> SeenCondition | None:
        found = super()._condition(target, kind)
        # What a bridge has written there is not the cluster's own news.
        return found if found is self.silent or kind not in target.own_conditions else None

    @override
    def _of_work(self, about: str, name: str, kind: str) -> Report | None:
        return self._health(name) if about == _POD_REPORT else self._failure(name)

    def _health(self, key: str) -> Report | None:
        """How a pod is that is where it is bound. One that has never been ready is not reported.

        One that is being deleted, or has ended, is not healthy, whatever its kubelet has said last. While its node is
        gone nothing is known of it.
        """
        pod = self._state.pods.get(key)
        binding = self._tables.binding_of(key, pod.uid) if pod is not None else None
        node = self._state.targets.get(pod.node) if pod is not None else None
        if pod is None or binding is None or pod.node != binding.node or node is None or not self._has(node):
            return None
        is_ready = pod.ready and not (pod.leaving or pod.finished)
        known = self._tables.health.get(key, {}).get(self._target(binding.node).key)
        was_ready = known is not None and known.uid == pod.uid and known.status == "True"
        if not is_ready and not was_ready:
            return None
        status, reason = ("True", "") if is_ready else ("False", pod.reason)
        return self._report(
            key, pod.uid, binding.generation, target=binding.node, kind=HEALTHY, status=status, reason=reason
        )

    def _failure(self, key: str) -> Report | None:
        """Why a pod was not evicted, while it has to leave."""
        pod, failed = self._state.pods.get(key), self.failures.get(key)
        eviction = self._tables.eviction_of(key, pod.uid) if pod is not None else None
        if pod is None or eviction is None or failed is None or failed.uid != pod.uid:
            return None
        return self._report(
            key,
            pod.uid,
            eviction.generation,
            target=eviction.node,
            kind=EVICTED,
            status="False",
            reason=FAILED,
            message=failed.why,
        )
