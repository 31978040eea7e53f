"""What a bridge reports of its cluster: the conditions of its nodes, and how its pods are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from moorage.bridge.kubernetes.cluster import ClusterState
from moorage.bridge.kubernetes.node_acts import STOPPED
from moorage.bridge.kubernetes.nodes import READY, Condition
from moorage.bridge.leases import Leases
from moorage.bridge.reports import Report
from moorage.bridge.tables import DecidedTables
from moorage_schemas.condition import EVICTED, FAILED, HEALTHY
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef

_OF_KUBELET: Final = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that become Unknown when a kubelet has stopped, as in Kubernetes."""

_SILENT: Final = Condition("Unknown", STOPPED, "Kubelet stopped posting node status.")

_NODE_REPORT, _POD_REPORT, _EVICTION_REPORT = "node", "pod", "eviction"


class ReportKey(NamedTuple):
    """What a report is about."""

    about: str
    name: str
    """The name of a node, or the key of a pod."""

    type: str

    def __str__(self) -> str:
        return f"{self.about}|{self.name}|{self.type}"

    @classmethod
    def parse(cls, key: str) -> ReportKey:
        """Parse a key."""
        about, name, kind = key.split("|", 2)
        return cls(about, name, kind)


class FailedEviction(NamedTuple):
    """An attempt to evict a pod."""

    uid: str
    """Of the pod. The next one of its name has not been tried."""

    why: str
    """Why it failed."""


class Observations:
    """Computes reports from what was seen.

    Args:
        source: of the bridge.
        cluster: the name of the cluster in references. Empty for the home fleet.
        state: the cluster as it was seen.
        tables: what the topics say.
        leases: which nodes are silent.
        is_mirrored: returns whether an object is in `resources` with a uid, so that it can be reported on.
    """

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
        self._source = source
        self._cluster = cluster
        self._state = state
        self._tables = tables
        self._leases = leases
        self._is_mirrored = is_mirrored
        self.failures: dict[str, FailedEviction] = {}
        """Why pods could not be evicted, by their keys."""

    def of_node(self, name: str) -> list[str]:
        """Return the keys of the reports about a node."""
        node = self._state.nodes.get(name)
        types = {*(node.conditions if node is not None else ()), *_OF_KUBELET}
        return [str(ReportKey(_NODE_REPORT, name, one)) for one in sorted(types)]

    def of_pod(self, key: str) -> list[str]:
        """Return the keys of the reports about a pod."""
        return [str(ReportKey(_POD_REPORT, key, HEALTHY)), str(ReportKey(_EVICTION_REPORT, key, EVICTED))]

    @staticmethod
    def is_about_target(key: str) -> bool:
        """Return whether a report is about a target, and not about work on it."""
        return ReportKey.parse(key).about == _NODE_REPORT

    def present(self, key: str) -> Report | None:
        """Return what is to be reported under a key. None for nothing."""
        about, name, kind = ReportKey.parse(key)
        if about == _NODE_REPORT:
            return self._node(name, kind)
        return self._health(name) if about == _POD_REPORT else self._failure(name)

    def is_known(self, key: str, report: Report) -> bool:
        """Return whether the topics say what a report says."""
        about, name, _ = ReportKey.parse(key)
        if about == _NODE_REPORT:
            node = self._state.nodes.get(name)
            return node is not None and self._tables.is_said(report, node.uid, self._source)
        return about == _POD_REPORT and self._tables.is_health_said(report)

    def was_silent(self, name: str) -> bool:
        """Return whether a bridge has said last that a node is silent."""
        node = self._state.nodes.get(name)
        return node is not None and self._tables.was_said_last(
            name, node.uid, READY, source=self._source, reason=STOPPED
        )

    def is_settled(self, name: str) -> bool:
        """Return whether the topics have a node, what the cluster says of it, and its taints."""
        node, taints = self._state.nodes.get(name), self._tables.taints.get(name)
        if node is None or taints is None or taints.target_uid not in {"", node.uid}:
            return False
        present = ((key, self.present(key)) for key in self.of_node(name))
        return all(one is None or self.is_known(key, one) or self.is_taken_over(key) for key, one in present)

    def is_taken_over(self, key: str) -> bool:
        """Return whether somebody else has reported a condition of a node last."""
        about, name, kind = ReportKey.parse(key)
        return about == _NODE_REPORT and self._tables.is_taken_over(name, kind, self._source)

    def _node(self, name: str, kind: str) -> Report | None:
        node = self._state.nodes.get(name)
        if node is None or not self._has_node(name):
            return None
        if self._leases.is_silent(name) and kind in _OF_KUBELET:
            found: Condition | None = _SILENT
        else:
            # What a bridge has written there is not the cluster's own news.
            found = node.conditions.get(kind) if kind not in node.own_conditions else None
        if found is None or found.status not in {"True", "False", "Unknown"}:
            return None
        return Report(self._target(name), kind, found.status, found.reason, found.message)

    def _health(self, key: str) -> Report | None:
        """How a pod is that is where it is bound. One that has never been ready is not reported.

        One that is being deleted, or has ended, is not healthy, whatever its kubelet has said last. While its node is
        gone nothing is known of it.
        """
        pod = self._state.pods.get(key)
        binding = self._tables.binding_of(key, pod.uid) if pod is not None else None
        if pod is None or binding is None or pod.node != binding.node or not self._has_node(pod.node):
            return None
        is_ready = pod.ready and not (pod.leaving or pod.finished)
        target = self._target(binding.node)
        known = self._tables.health.get(key, {}).get(target.key)
        was_ready = known is not None and known.uid == pod.uid and known.status == "True"
        if not is_ready and not was_ready:
            return None
        return Report(
            target,
            HEALTHY,
            "True" if is_ready else "False",
            "" if is_ready else pod.reason,
            workload=self._workload(key),
            workload_uid=pod.uid,
            binding_generation=binding.generation,
        )

    def _failure(self, key: str) -> Report | None:
        """Why a pod was not evicted, while it has to leave."""
        pod, failed = self._state.pods.get(key), self.failures.get(key)
        eviction = self._tables.eviction_of(key, pod.uid) if pod is not None else None
        if pod is None or eviction is None or failed is None or failed.uid != pod.uid:
            return None
        return Report(
            self._target(eviction.node),
            EVICTED,
            "False",
            FAILED,
            failed.why,
            workload=self._workload(key),
            workload_uid=pod.uid,
            binding_generation=eviction.generation,
        )

    def _has_node(self, name: str) -> bool:
        """Whether a node is there and mirrored, so that something can be reported about it."""
        node = self._state.nodes.get(name)
        return node is not None and self._is_mirrored(str(ResourceKey("Node", "", name, self._cluster)), node.uid)

    def _target(self, node: str) -> TargetRef:
        return TargetRef(kind=TargetKind.NODE, name=node, cluster=self._cluster)

    def _workload(self, key: str) -> WorkloadRef:
        return WorkloadRef.parse(key)
