"""The bridge to one Karmada control plane: mirrors it, reports what it says, and writes there what was decided.

Consumes: resources, taints, conditions, bindings, placements, evictions, workload-conditions.
Keeps: nothing that is not in the topics or on the control plane.
Emits: nothing itself; it sends objects and reports to the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from moorage.bridge.act_queue import ActQueue
from moorage.bridge.fleet_gate import FleetGate, resync
from moorage.bridge.gateway_client import GatewayClient
from moorage.bridge.karmada.binding_acts import BindingActs
from moorage.bridge.karmada.member_acts import MemberActs
from moorage.bridge.karmada.observations import PlaneObservations
from moorage.bridge.karmada.plane import (
    CLUSTER,
    FOLLOWED,
    LEASE,
    LEASES,
    MIRRORED,
    PlaneSink,
    PlaneState,
    is_binding,
)
from moorage.bridge.karmada.tables import TOPICS, PlaneTables
from moorage.bridge.kube.client import KubeClient
from moorage.bridge.kube.reflector import Reflector
from moorage.bridge.leases import Leases
from moorage.bridge.member import BridgeLeadership, BridgeMember, Link, Work
from moorage.bridge.mirror import MirrorSender
from moorage.bridge.reports import Reports
from moorage.bridge.silence import LeaseResource, SilenceWatch
from moorage.core.scheduling.karmada.mirrored import SCHEDULER
from moorage.runtime.clock import WallClock
from moorage.runtime.settings import Settings
from moorage_schemas.keys import ResourceKey
from moorage_schemas.resources.workload_kinds import BINDING_KINDS

SOURCE: Final = "bridge/karmada"
"""The source of what this bridge says."""

LEASE_NAME: Final = "moorage-bridge-karmada"
"""The name of the Lease that elects one of several bridges."""


class PlaneAct(StrEnum):
    """What a bridge writes to its control plane."""

    TAINTS = "taints"
    BINDING_KINDS = "bindings"
    """The clusters, the eviction tasks and the scheduler's status of ResourceBindings and ClusterResourceBindings."""


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    """How a control plane is bridged.

    Attributes:
        link: how it is reached.
        acts: what is written to it.
        scheduler: the `spec.schedulerName` of the bindings that Moorage places, beside those that name it.
        grace: seconds without a sign of life of its agent after which a cluster is silent.
    """

    link: Link
    acts: frozenset[PlaneAct] = field(default_factory=frozenset)
    scheduler: str = SCHEDULER
    grace: float = 40.0


class PlaneBridge(BridgeMember):
    """Bridges one control plane until it is stopped. See `Member`.

    Args:
        settings: the address of Kafka, with the fleet's actual number of partitions.
        options: how the control plane is bridged.
    """

    def __init__(self, settings: Settings, options: PlaneOptions) -> None:
        self._options = options
        self._state = PlaneState(options.scheduler, self._seen)
        self._tables = PlaneTables(self._touched)
        self._leases = Leases(options.grace)
        self._running: _Running | None = None
        super().__init__(settings, options.link, TOPICS, self._tables, source=SOURCE)

    def _follows(self, client: KubeClient) -> list[Reflector]:
        return [Reflector(client, one.path, PlaneSink(self._state, one.kind)) for one in FOLLOWED]

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
            LeaseResource(LEASES, {}, lambda cluster: f"{LEASES}/{cluster}"),
            linked=lambda: self._linked,
            renewed=lambda lease: self._state.put(LEASE, lease),
            changed=running.cluster_changed,
        )
        return [*running.tasks(), watch.run()]

    def _state_of(self) -> dict[str, Any]:
        state, running = self._state, self._running
        return {
            "acts": sorted(self._options.acts),
            "leading": running is not None and running.leadership.may_act,
            "fleet_known": running is not None and running.fleet.is_open,
            "clusters": len(state.clusters),
            "bindings": len(state.bindings),
        }

    # What changes, on the control plane and in the topics.

    def _seen(self, kind: str, key: str) -> None:
        name, running = ResourceKey.parse(key).name, self._running
        if kind == LEASE:
            if self._renewed(name) and running is not None:
                running.cluster_changed(name)
            return
        if kind == CLUSTER:
            cluster = self._state.clusters.get(name)
            if cluster is None:
                self._leases.gone(name)
            else:
                self._leases.set_grace(name, cluster.grace(self._options.grace))
                self._renewed(name)
        if running is not None:
            running.seen(kind, key)

    def _renewed(self, name: str) -> bool:
        """Note the last sign of life of a cluster. Return whether it is not silent any more."""
        cluster = self._state.clusters.get(name)
        if cluster is None:
            return False
        now, lease = asyncio.get_running_loop().time(), self._state.renewals.get(name, "")
        return self._leases.renewed(name, now, lease=lease, heartbeat=cluster.heartbeat)

    def _touched(self, kind: str, key: str) -> None:
        if self._running is not None:
            self._running.touched(kind, key)


class _Running:
    """The parts of a bridge that send and act, once the control plane and the topics are known."""

    def __init__(
        self,
        options: PlaneOptions,
        *,
        state: PlaneState,
        tables: PlaneTables,
        leases: Leases,
        client: KubeClient,
        gateway: GatewayClient,
    ) -> None:
        self._state = state
        self._leases = leases
        self.mirror = MirrorSender(
            SOURCE, "", gateway=gateway, tables=tables, present=state.object, sent=self._mirrored
        )
        self.observations = PlaneObservations(SOURCE, state, tables, leases, self.mirror.has)
        seen = self.observations
        self.reports = Reports(
            SOURCE, gateway, WallClock(), seen.present, seen.is_known, is_urgent=seen.is_about_target
        )
        self.leadership = BridgeLeadership(
            client, options.link, LEASE_NAME, is_acting=bool(options.acts), begins=self._begin_leading
        )
        # A binding that was decided without its clusters would lose them, so this is waited for without an end.
        self.fleet = FleetGate(lambda: self.leadership.may_send, self._unknown, self._fleet_known, patience=None)
        clusters = MemberActs(
            client,
            tables,
            state.clusters.get,
            seen=lambda found: state.put(CLUSTER, found),
            is_settled=self.observations.is_settled,
        )
        bindings = BindingActs(client, tables, state.bindings.get, lambda found: state.put(str(found["kind"]), found))
        checked = self.leadership.checked
        self._queues = {
            PlaneAct.TAINTS: ActQueue("taints", checked(clusters.taint)),
            PlaneAct.BINDING_KINDS: ActQueue("bindings", checked(bindings.place)),
        }
        self._queues = {act: queue for act, queue in self._queues.items() if act in options.acts}

    def tasks(self) -> list[Work]:
        """Return what runs until the bridge is stopped."""
        queues = [queue.run() for queue in self._queues.values()]
        sending = self.leadership.send(self.mirror, self.reports)
        comparing = resync(
            self._report_keys, self.reports, self.observations, mirror=self.mirror, compare=self.compare_everything
        )
        return [sending, self.leadership.run(), self.fleet.run(), comparing, *queues]

    def restore_silence(self) -> None:
        """Let the clusters be silent that a bridge has said to be, until their agents say something."""
        self._leases.silence(
            name for name, cluster in self._state.clusters.items() if self.observations.was_silent(cluster)
        )

    def seen(self, kind: str, key: str) -> None:
        """Note that an object of the control plane has changed."""
        if self._is_due(key):
            self.mirror.mark(key)
        if kind == CLUSTER:
            self.cluster_changed(ResourceKey.parse(key).name)
        elif kind in BINDING_KINDS:
            self._binding(key)

    def touched(self, kind: str, key: str) -> None:
        """Note that the topics say something new about a cluster or a binding."""
        if kind == CLUSTER:
            self._act(key, PlaneAct.TAINTS)
        else:
            self._binding(key)

    def cluster_changed(self, name: str) -> None:
        """Note that a cluster has changed, has fallen silent, or speaks again."""
        self.reports.mark(*self.observations.of_cluster(name))
        self._act(name, PlaneAct.TAINTS)

    def compare_everything(self) -> None:
        """Compare all that the control plane has with all that the topics say."""
        present = self._state.keys
        self.mirror.mark(*self.mirror.gone(MIRRORED, present), *filter(self._is_due, present))
        for name in self._state.clusters:
            self.cluster_changed(name)
        for key in self._state.bindings:
            self._binding(key)

    def _binding(self, key: str) -> None:
        if key not in self._state.bindings:
            return
        self.reports.mark(*self.observations.of_binding(key))
        self._act(key, PlaneAct.BINDING_KINDS)

    def _act(self, key: str, act: PlaneAct) -> None:
        if not self.leadership.may_send or (act is PlaneAct.BINDING_KINDS and not self.fleet.is_open):
            return
        if (queue := self._queues.get(act)) is not None:
            queue.add(key)

    def _begin_leading(self) -> None:
        """Begin anew, since another process may have sent and written something else meanwhile."""
        self.mirror.forget()
        self.reports.forget_all()
        self.restore_silence()
        self.fleet.close()
        self.compare_everything()

    def _is_due(self, key: str) -> bool:
        """Whether an object is to be mirrored now. Bindings come after everything that decisions rest on."""
        return self.fleet.is_open or not is_binding(key)

    def _fleet_known(self) -> None:
        """Mirror and act on bindings."""
        self.mirror.mark(*filter(is_binding, self._state.keys))
        for key in self._state.bindings:
            self._binding(key)

    def _unknown(self) -> Callable[[], list[str]]:
        """Return what names the clusters of now of which the topics do not say what the control plane says."""
        first = [key for key in self._state.keys if not is_binding(key)]
        names = list(self._state.clusters)

        def unknown() -> list[str]:
            there = (self._state.clusters[name] for name in names if name in self._state.clusters)
            waits = [one.name for one in there if not self.observations.is_settled(one)]
            return waits or (first[:1] if self.mirror.is_waiting(first) else [])

        return unknown

    def _report_keys(self) -> Iterator[str]:
        for name in self._state.clusters:
            yield from self.observations.of_cluster(name)
        for binding in self._state.bindings:
            yield from self.observations.of_binding(binding)

    def _mirrored(self, keys: Sequence[str]) -> None:
        """Report on what can be reported on now."""
        for key in keys:
            if ResourceKey.parse(key).kind == CLUSTER:
                self.reports.mark(*self.observations.of_cluster(ResourceKey.parse(key).name))
