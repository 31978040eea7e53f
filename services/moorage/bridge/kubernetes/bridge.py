"""The bridge to one Kubernetes cluster: mirrors it, reports what it says, and acts there on what was decided.

Consumes: resources, taints, conditions, bindings, placements, evictions, workload-conditions.
Keeps: nothing that is not in the topics or in the cluster.
Emits: nothing itself; it sends objects and reports to the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from moorage.bridge.act_queue import ActQueue
from moorage.bridge.event_sender import EventSender
from moorage.bridge.fleet_gate import FleetGate, resync
from moorage.bridge.fleet_names import lease_of, source_of
from moorage.bridge.gateway_client import GatewayClient
from moorage.bridge.kube.client import KubeClient
from moorage.bridge.kube.reflector import Reflector
from moorage.bridge.kubernetes.cluster import MIRRORED, NODE, POD, ClusterState
from moorage.bridge.kubernetes.node_acts import NodeActs
from moorage.bridge.kubernetes.observations import FailedEviction, Observations
from moorage.bridge.kubernetes.pod_acts import EvictionMode, PodActs
from moorage.bridge.kubernetes.pods import SCHEDULER
from moorage.bridge.leases import Leases
from moorage.bridge.member import BridgeLeadership, BridgeMember, Link, Work
from moorage.bridge.mirror import MirrorSender, is_target
from moorage.bridge.reports import Reports
from moorage.bridge.silence import LeaseResource, SilenceWatch
from moorage.bridge.tables import TOPICS, DecidedTables
from moorage.runtime.clock import WallClock
from moorage.runtime.settings import Settings
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import HOME

_PACE: Final = 0.3
"""Seconds between two batches of objects that nobody waits for, such as pods that were bound or are gone. Each batch
costs every service a transaction that what is urgent has to wait for."""

LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_KINDS: Final = frozenset(one.kind for one in MIRRORED)


class BridgeAct(StrEnum):
    """What a bridge writes to its cluster."""

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
        acts: what is written to it.
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
    def source(self) -> str:
        """The source of what this bridge says."""
        return source_of(self.cluster)

    @property
    def lease(self) -> str:
        """The name of the Lease that elects one of several bridges of this cluster."""
        return lease_of(self.cluster)


class KubernetesBridge(BridgeMember):
    """Bridges one cluster until it is stopped. See `Member`.

    Args:
        settings: the address of Kafka, with the fleet's actual number of partitions.
        options: how the cluster is bridged.
    """

    def __init__(self, settings: Settings, options: BridgeOptions) -> None:
        self._options = options
        self._state = ClusterState(options.cluster, self._seen, options.scheduler)
        self._tables = DecidedTables(options.cluster, self._touched)
        self._leases = Leases(options.grace)
        self._renewals: dict[str, str] = {}
        """When the Lease of each node was renewed last, as far as it is there. It may outlive its node."""

        self._running: _Running | None = None
        super().__init__(settings, options.link, TOPICS, self._tables, source=options.source, fleet=options.cluster)

    def _follows(self, client: KubeClient) -> list[Reflector]:
        mirrored = [Reflector(client, one.path, self._state.sink(one.kind)) for one in MIRRORED]
        return [*mirrored, Reflector(client, LEASES, _LeaseSink(self))]

    def _begin(self, client: KubeClient, gateway: GatewayClient) -> Collection[Work]:
        running = _Running(
            self._options,
            state=self._state,
            tables=self._tables,
            leases=self._leases,
            client=client,
            gateway=gateway,
        )
        self._running = running
        running.restore_silence()
        running.compare_everything()
        watch = SilenceWatch(
            client,
            self._leases,
            LeaseResource(LEASES, {}, lambda node: f"{LEASES}/{node}"),
            linked=lambda: self._linked,
            renewed=self.renewed,
            changed=running.node_spoke,
        )
        return [*running.tasks(), watch.run()]

    def _state_of(self) -> dict[str, Any]:
        running = self._running
        return {
            "cluster": self._options.cluster or HOME,
            "acts": sorted(self._options.acts),
            "leading": running is not None and running.leadership.may_act,
            "fleet_known": running is not None and running.fleet.is_open,
            "nodes": len(self._state.nodes),
            "pods": len(self._state.pods),
        }

    # What changes, in the cluster and in the topics.

    def _seen(self, kind: str, key: str) -> None:
        if kind == NODE:
            name = ResourceKey.parse(key).name
            node = self._state.nodes.get(name)
            if node is None:
                self._leases.gone(name)
            else:
                self._renewed(name)
        if self._running is not None:
            self._running.seen(kind, key)

    def _touched(self, kind: str, key: str) -> None:
        if self._running is not None:
            self._running.touched(kind, key)

    def renewed(self, lease: dict[str, Any]) -> None:
        """Note the Lease of a node."""
        name = str(lease["metadata"]["name"])
        self._renewals[name] = str((lease.get("spec") or {}).get("renewTime") or "")
        if self._renewed(name) and self._running is not None:
            self._running.node_spoke(name)

    def leases_gone(self, *nodes: str) -> None:
        """Forget Leases, of all nodes if none is named."""
        for name in nodes or tuple(self._renewals):
            self._renewals.pop(name, None)

    def _renewed(self, name: str) -> bool:
        """Note the last sign of life of a node. Return whether it is not silent any more.

        Of a node that is not there nothing is noted. Otherwise a new one of its name would be silent from the start.
        """
        node = self._state.nodes.get(name)
        if node is None:
            return False
        now, lease = asyncio.get_running_loop().time(), self._renewals.get(name, "")
        return self._leases.renewed(name, now, lease=lease, heartbeat=node.heartbeat)


class _LeaseSink:
    """Takes the Leases of nodes."""

    def __init__(self, bridge: KubernetesBridge) -> None:
        self._bridge = bridge

    def replaced(self, objects: Sequence[dict[str, Any]]) -> None:
        """See `Sink`."""
        self._bridge.leases_gone()
        for one in objects:
            self._bridge.renewed(one)

    def changed(self, found: dict[str, Any]) -> None:
        """See `Sink`."""
        self._bridge.renewed(found)

    def deleted(self, found: dict[str, Any]) -> None:
        """See `Sink`. A Lease that is gone is not renewed, either."""
        self._bridge.leases_gone(str(found["metadata"]["name"]))


class _Running:
    """The parts of a bridge that send and act, once the cluster and the topics are known."""

    def __init__(
        self,
        options: BridgeOptions,
        *,
        state: ClusterState,
        tables: DecidedTables,
        leases: Leases,
        client: KubeClient,
        gateway: GatewayClient,
    ) -> None:
        self._state = state
        self._tables = tables
        self._leases = leases
        source, cluster = options.source, options.cluster
        self.mirror = MirrorSender(
            source,
            cluster,
            gateway=gateway,
            tables=tables,
            present=state.object,
            sent=self._mirrored,
            is_urgent=self._is_urgent,
            pace=_PACE,
        )
        self.observations = Observations(
            source, cluster, state=state, tables=tables, leases=leases, is_mirrored=self.mirror.has
        )
        seen = self.observations
        self.reports = Reports(
            source, gateway, WallClock(), seen.present, seen.is_known, is_urgent=seen.is_about_target
        )
        self.events = EventSender(client.beside(options.link.access))
        self.leadership = BridgeLeadership(
            client, options.link, options.lease, is_acting=bool(options.acts), begins=self._begin_leading
        )
        self.fleet = FleetGate(lambda: self.leadership.may_send, self._unknown, self._fleet_known)
        checked = self.leadership.checked
        node_acts = NodeActs(client, tables, source, state.nodes.get, leases.is_silent)
        self.pod_acts = PodActs(
            client,
            tables,
            state.pods.get,
            tell=self.events.tell,
            failed=self._not_evicted,
            mode=options.eviction_mode,
        )
        queues = {
            BridgeAct.TAINTS: ActQueue("taints", checked(node_acts.taint)),
            BridgeAct.CONDITIONS: ActQueue("conditions", checked(node_acts.condition)),
            BridgeAct.EVICTIONS: ActQueue("evictions", checked(self.pod_acts.evict)),
            BridgeAct.PLACEMENT: ActQueue("placement", checked(self.pod_acts.bind)),
        }
        self._queues = {act: queue for act, queue in queues.items() if act in options.acts}

    def tasks(self) -> list[Work]:
        """Return what runs until the bridge is stopped."""
        sending = self.leadership.send(self.mirror, self.reports)
        queues = [queue.run() for queue in self._queues.values()]
        comparing = resync(
            self._report_keys, self.reports, self.observations, mirror=self.mirror, compare=self.compare_everything
        )
        return [sending, self.leadership.run(), self.events.run(), self.fleet.run(), comparing, *queues]

    def restore_silence(self) -> None:
        """Let the nodes be silent that a bridge has said to be, until their Leases are renewed.

        Otherwise each restart of the bridge would make them Ready for a grace period.
        """
        self._leases.silence(name for name in self._state.nodes if self.observations.was_silent(name))

    def seen(self, kind: str, key: str) -> None:
        """Note that an object of the cluster has changed."""
        if self._is_due(key):
            self.mirror.mark(key)
        if kind == NODE:
            self.node_spoke(ResourceKey.parse(key).name)
        elif kind == POD:
            self._pod(key)

    def touched(self, kind: str, key: str) -> None:
        """Note that the topics say something new about a node or a pod."""
        if kind == NODE:
            self._act(key, BridgeAct.TAINTS, BridgeAct.CONDITIONS)
        elif kind == POD:
            self._pod(key)

    def node_spoke(self, name: str) -> None:
        """Note that a node has changed, has fallen silent, or speaks again."""
        self.reports.mark(*self.observations.of_node(name))
        self._act(name, BridgeAct.TAINTS, BridgeAct.CONDITIONS)

    def compare_everything(self) -> None:
        """Compare all that the cluster has with all that the topics say."""
        present = self._state.keys
        self.mirror.mark(*self.mirror.gone(_KINDS, present), *sorted(filter(self._is_due, present), key=_order))
        for node in self._state.nodes:
            self.node_spoke(node)
        for pod in self._state.pods:
            self._pod(pod)

    def _pod(self, key: str) -> None:
        self.reports.mark(*self.observations.of_pod(key))
        if self.pod_acts.has_to_leave(key) is not None:
            self._act(key, BridgeAct.EVICTIONS)
        self._act(key, BridgeAct.PLACEMENT)

    def _act(self, key: str, *acts: BridgeAct) -> None:
        if self.leadership.may_send:
            for act in acts:
                if (queue := self._queues.get(act)) is not None:
                    queue.add(key)

    def _begin_leading(self) -> None:
        """Begin anew, since another process may have sent and written something else meanwhile."""
        self.mirror.forget()
        self.reports.forget_all()
        self.restore_silence()
        self.fleet.close()
        self.compare_everything()

    def _is_urgent(self, key: str) -> bool:
        """Whether somebody waits for an object to be mirrored: those on a node, or a pod for its node."""
        pod = self._state.pods.get(key)
        return is_target(key) if pod is None else pod.scheduler == SCHEDULER and not pod.node

    def _is_due(self, key: str) -> bool:
        """Whether an object is to be mirrored now.

        A pod that needs a node comes after everything that its placement rests on. Otherwise it would be placed on the
        first nodes that come, as if they were empty.
        """
        pod = self._state.pods.get(key)
        return pod is None or self.fleet.is_open or bool(pod.node) or pod.scheduler != SCHEDULER

    def _fleet_known(self) -> None:
        """Mirror the pods that need a node."""
        self.mirror.mark(*(key for key, pod in self._state.pods.items() if not pod.node))

    def _unknown(self) -> Callable[[], list[str]]:
        """Return what names the nodes of now that are not known, and the pods of which it is not known where they are.

        Without them a pod would be placed as if the nodes were empty, or not there.
        """
        nodes = list(self._state.nodes)
        pods = [key for key, pod in self._state.pods.items() if pod.node]

        def unknown() -> list[str]:
            there = (name for name in nodes if name in self._state.nodes)
            waits = [name for name in there if not self.observations.is_settled(name)]
            return waits or [key for key in pods if not self._is_placed(key)]

        return unknown

    def _is_placed(self, key: str) -> bool:
        """Whether the topics say where a pod is that has a node, or it is gone."""
        pod = self._state.pods.get(key)
        if pod is None or pod.finished or pod.node not in self._state.nodes:
            return True
        binding = self._tables.binding_of(key, pod.uid)
        return binding is not None and binding.node == pod.node

    def _report_keys(self) -> Iterator[str]:
        for node in self._state.nodes:
            yield from self.observations.of_node(node)
        for pod in self._state.pods:
            yield from self.observations.of_pod(pod)

    def _mirrored(self, keys: Sequence[str]) -> None:
        """Report on what can be reported on now."""
        for key in keys:
            if ResourceKey.parse(key).kind == NODE:
                self.reports.mark(*self.observations.of_node(ResourceKey.parse(key).name))

    def _not_evicted(self, key: str, uid: str, why: str) -> None:
        if why:
            self.observations.failures[key] = FailedEviction(uid, why)
        elif self.observations.failures.pop(key, None) is None:
            return
        self.reports.mark(*self.observations.of_pod(key))


def _order(key: str) -> int:
    """The order in which objects are mirrored: nodes, then what owns pods, then pods."""
    kind = ResourceKey.parse(key).kind
    return 0 if kind == NODE else 2 if kind == POD else 1
