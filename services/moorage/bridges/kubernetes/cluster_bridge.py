"""The bridge to one Kubernetes cluster: mirrors it, reports its conditions, and carries out the decisions there.

Consumes: resources, taints, conditions, bindings, placements, evictions, workload-conditions.
Keeps: nothing that is not in the topics or in the cluster.
Emits: nothing itself; it sends objects and reports to the gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from typing_extensions import override

from moorage.bridges.engine.cluster_events import Regarding
from moorage.bridges.engine.fleet_names import lease_of, source_of
from moorage.bridges.engine.leaving import Bridged, remove_taints
from moorage.bridges.engine.loop import PATIENCE, BridgeLoop, BridgeOutlets
from moorage.bridges.engine.member import BridgeMember
from moorage.bridges.engine.mirror import is_target
from moorage.bridges.engine.observations import ReportKey, WorkObservations
from moorage.bridges.engine.plan import BridgePlan, FollowedKind, LeaseResource, Link
from moorage.bridges.engine.reports import Report
from moorage.bridges.engine.seen_state import LEASE
from moorage.bridges.engine.seen_target import SeenCondition
from moorage.bridges.kube.api_error import NOT_FOUND, ApiError
from moorage.bridges.kube.client import APPLY_PATCH, FIELD_MANAGER, KubeClient
from moorage.bridges.kubernetes.cluster import LEASES, MIRRORED, NODE, POD, READY, ClusterState, SeenNode
from moorage.bridges.kubernetes.cluster_tables import DecidedTables
from moorage.bridges.kubernetes.node_acts import STOPPED, NodeActs, node_path
from moorage.bridges.kubernetes.pod_acts import EvictionMode, PodActs
from moorage.bridges.kubernetes.reduced import SCHEDULER
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import EVICTED, FAILED, HEALTHY
from moorage_schemas.refs import HOME, TargetKind

_POD_REPORT, _EVICTION_REPORT = "pod", "eviction"


class FailedEviction(NamedTuple):
    """An attempt to evict a pod."""

    uid: str
    """Of the pod. The next one of its name has not been tried."""

    why: str
    """Why it failed."""


@dataclass(eq=False)
class Observations(WorkObservations[ClusterState, DecidedTables]):
    """Reports from what was seen."""

    kind = TargetKind.NODE
    about = "node"
    ready = READY
    judged = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")  # as in Kubernetes
    silent = SeenCondition("Unknown", STOPPED, "Kubelet stopped posting node status.")

    failures: dict[str, FailedEviction] = field(default_factory=dict, init=False)
    """Why pods could not be evicted, by their keys."""

    @override
    def of_work(self, key: str) -> list[str]:
        return [str(ReportKey(_POD_REPORT, key, HEALTHY)), str(ReportKey(_EVICTION_REPORT, key, EVICTED))]

    @override
    def is_settled(self, target: SeenNode) -> bool:
        taints = self.tables.taints.get(target.name)
        if taints is None or taints.target_uid not in {"", target.uid}:
            return False
        if self.state.keeps_taints and not self._has_its_taints(target):
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
        """Return the health of a pod that is where it is bound. One that has never been ready is not reported.

        One that is being deleted, or has ended, is not healthy, whatever its kubelet has reported. Without its node its
        health is unknown.
        """
        pod = self.state.pods.get(key)
        binding = self.tables.binding_of(key, pod.uid) if pod is not None else None
        node = self.state.targets.get(pod.node) if pod is not None else None
        if pod is None or binding is None or pod.node != binding.target or node is None or not self._has(node):
            return None
        is_ready = pod.ready and not (pod.leaving or pod.finished)
        known = self.tables.health.get(key, {}).get(self._target(binding.target).key)
        was_ready = known is not None and known.uid == pod.uid and known.status == "True"
        if not is_ready and not was_ready:
            return None
        status, reason = ("True", "") if is_ready else ("False", pod.reason)
        return self._report(
            key, pod.uid, binding.generation, target=binding.target, kind=HEALTHY, status=status, reason=reason
        )

    def _failure(self, key: str) -> Report | None:
        """Return why a pod was not evicted, while it has to leave."""
        pod, failed = self.state.pods.get(key), self.failures.get(key)
        eviction = self.tables.eviction_of(key, pod.uid) if pod is not None else None
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


_PACE: Final = 0.3
"""Seconds between two batches of objects that are not urgent, such as pods that were bound or deleted. Each batch
costs every service a transaction that what is urgent has to wait for."""


class BridgeAct(StrEnum):
    """The acts of a bridge on its cluster."""

    TAINTS = "taints"
    EVICTIONS = "evictions"
    PLACEMENT = "placement"
    CONDITIONS = "conditions"


@dataclass(frozen=True, slots=True)
class BridgeOptions:
    """How a cluster is bridged.

    Attributes:
        link: how it is reached.
        cluster: the name of the cluster in references. Empty for the home fleet.
        eviction_mode: how pods are removed.
        scheduler: the `spec.schedulerName` of the pods that Moorage places, beside those that name it.
        grace: seconds without a renewal of its Lease after which a node is silent.
    """

    link: Link
    cluster: str = ""
    acts: frozenset[BridgeAct] = field(default_factory=frozenset)
    eviction_mode: EvictionMode = EvictionMode.DELETE
    scheduler: str = SCHEDULER
    grace: float = 50.0

    @property
    def plan(self) -> BridgePlan[BridgeAct]:
        """The plan of the bridge."""
        return BridgePlan(
            link=self.link,
            source=source_of(self.cluster),
            lease=lease_of(self.cluster),
            acts=self.acts,
            target_acts=(BridgeAct.TAINTS, BridgeAct.CONDITIONS),
            held_acts=frozenset(),
            target=NODE,
            work=frozenset({POD}),
            followed=(*MIRRORED, FollowedKind(LEASE, LEASES)),
            mirrored=frozenset(one.kind for one in MIRRORED),
            leases=LeaseResource(LEASES, {}, lambda node: f"{LEASES}/{node}"),
            grace=self.grace,
            patience=PATIENCE,
            pace=_PACE,
            cluster=self.cluster,
        )


class KubernetesBridge(BridgeMember[BridgeAct, ClusterState]):
    """A bridge to one Kubernetes cluster."""

    def __init__(self, settings: Settings, options: BridgeOptions) -> None:
        state = ClusterState(options.cluster, self._noticed, options.scheduler)
        tables = DecidedTables(options.cluster, self._touched)
        super().__init__(
            settings, options.plan, state, tables, partial(ClusterLoop, state, tables, mode=options.eviction_mode)
        )

    @override
    def _state_of(self) -> dict[str, Any]:
        counts = {"nodes": len(self._state.targets), "pods": len(self._state.pods)}
        return {"cluster": self._plan.cluster or HOME, **super()._state_of(), **counts}


class ClusterLoop(BridgeLoop[BridgeAct, ClusterState]):
    """The parts of a bridge to a cluster that send and act."""

    _observations: Observations

    def __init__(
        self,
        state: ClusterState,
        tables: DecidedTables,
        outlets: BridgeOutlets[BridgeAct],
        *,
        mode: EvictionMode,
    ) -> None:
        self._tables = tables
        plan, leases = outlets.plan, outlets.leases
        observations = Observations(plan.source, state, tables, leases, outlets.objects.has, cluster=plan.cluster)
        nodes = NodeActs(outlets.client, tables, plan.source, state.targets.get, leases.is_silent)
        self._pods = PodActs(
            outlets.client,
            tables,
            state.pods.get,
            tell=outlets.events.tell,
            failed=self._not_evicted,
            node_uid=self._node_uid,
            mode=mode,
            contention=outlets.contention(BridgeAct.CONDITIONS, "condition Ready", self._pod),
        )
        self._lost: set[str] = set()
        """The nodes that were not ready when their pods were last checked."""

        async def condition(key: str) -> None:
            await (self._pods.follow_node if is_pod_key(key) else nodes.condition)(key)

        works = {
            BridgeAct.TAINTS: nodes.taint,
            BridgeAct.CONDITIONS: condition,
            BridgeAct.EVICTIONS: self._pods.evict,
            BridgeAct.PLACEMENT: self._pods.bind,
        }
        super().__init__(state, outlets, observations=observations, works=works)

    @override
    def begin(self) -> None:
        self._tables.spared.clear()  # the process that led has stated it
        super().begin()

    @override
    def work_changed(self, key: str) -> None:
        if key in self._tables.spared and BridgeAct.EVICTIONS in self._plan.acts:
            self._pods.spare(key)
        self.reports.mark(*self._observations.of_work(key))
        if self._pods.has_to_leave(key) is not None:
            self._act(key, BridgeAct.EVICTIONS)
        self._act(key, BridgeAct.PLACEMENT)
        pod = self._state.pods.get(key)
        if pod is not None and pod.ready and self._pods.is_lost(pod.node):
            self._act(key, BridgeAct.CONDITIONS)

    @override
    def touched(self, kind: str, key: str) -> None:
        super().touched(kind, key)
        if kind != NODE or (is_lost := self._pods.is_lost(key)) == (key in self._lost):
            return
        if not is_lost:
            self._lost.discard(key)
            return
        self._lost.add(key)
        for pod_key, pod in self._state.pods.items():
            if pod.node == key and pod.ready:
                self._act(pod_key, BridgeAct.CONDITIONS)

    def _node_uid(self, name: str) -> str:
        node = self._state.targets.get(name)
        return node.uid if node is not None else ""

    def _pod(self, key: str) -> Regarding | None:
        """Return the name of a pod in events. None if it does not exist."""
        pod = self._state.pods.get(key)
        return Regarding("v1", POD, pod.namespace, pod.name, pod.uid) if pod is not None else None

    @override
    def _work(self) -> Collection[str]:
        return self._state.pods

    @override
    def _is_urgent(self, key: str) -> bool:
        # Targets are, and the pods that need a node.
        pod = self._state.pods.get(key)
        return is_target(key) if pod is None else pod.scheduler == SCHEDULER and not pod.node

    @override
    def _is_due(self, key: str) -> bool:
        # A pod that needs a node comes after all that its placement rests on. Otherwise it would be placed on the first
        # nodes that come, as if they were empty.
        pod = self._state.pods.get(key)
        return pod is None or self.gate.is_open or bool(pod.node) or pod.scheduler != SCHEDULER

    @override
    def _fleet_known(self) -> None:
        self.mirror.mark(*(key for key, pod in self._state.pods.items() if not pod.node))

    @override
    def _others_unknown(self) -> Callable[[], list[str]]:
        # Without the pods that have a node, others would be placed as if the nodes were empty.
        pods = [key for key, pod in self._state.pods.items() if pod.node]
        return lambda: [key for key in pods if not self._is_bound(key)]

    def _is_bound(self, key: str) -> bool:
        """Return whether the topics contain the binding of a pod that has a node, or it was deleted."""
        pod = self._state.pods.get(key)
        if pod is None or pod.finished or pod.node not in self._state.targets:
            return True
        binding = self._tables.binding_of(key, pod.uid)
        return binding is not None and binding.target == pod.node

    def _not_evicted(self, key: str, uid: str, why: str) -> None:
        failures = self._observations.failures
        if why:
            failures[key] = FailedEviction(uid, why)
        elif failures.pop(key, None) is None:
            return
        self.reports.mark(*self._observations.of_work(key))


def is_pod_key(key: str) -> bool:
    """Return whether a key is that of a pod. Nodes have their names."""
    return "/" in key


def bridged_cluster(link: Link, cluster: str = "") -> Bridged:
    """Return what to take back when a cluster is left. `cluster` is its name in Moorage."""
    return Bridged(BridgeOptions(link, cluster).plan, clean_node)


async def clean_node(client: KubeClient, found: dict[str, Any]) -> bool:
    """Remove the taints and conditions from a node that a bridge has set. Return whether there were any."""
    node = SeenNode.of(found)
    path = node_path(node.name)
    had = await remove_taints(client, node, path=path, read=lambda found: SeenNode.of({**found, "kind": NODE}))
    if not node.own_conditions:
        return had
    body = {"apiVersion": "v1", "kind": NODE, "metadata": {"name": node.name}, "status": {}}
    params = {"fieldManager": FIELD_MANAGER, "force": "true"}
    try:
        await client.request("PATCH", f"{path}/status", params=params, body=body, content_type=APPLY_PATCH)
    except ApiError as error:
        if error.status != NOT_FOUND:  # the node is gone
            raise
    return True
