"""The bridge to one Karmada control plane: mirrors it, reports what it says, and writes there what was decided.

Consumes: resources, taints, conditions, bindings, placements, evictions, workload-conditions.
Keeps: nothing that is not in the topics or on the control plane.
Emits: nothing itself; it sends objects and reports to the gateway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from moorage.bridge.events import Regarding
from moorage.bridge.fleet_bridge import FleetBridge, FleetPlan, FleetWork
from moorage.bridge.gateway_client import GatewayClient
from moorage.bridge.karmada.binding_acts import BindingActs
from moorage.bridge.karmada.member_acts import MemberActs
from moorage.bridge.karmada.members import SeenMember
from moorage.bridge.karmada.observations import PlaneObservations
from moorage.bridge.karmada.plane import (
    CLUSTER,
    FOLLOWED,
    LEASE,
    LEASES,
    MIRRORED,
    PlaneSink,
    PlaneState,
)
from moorage.bridge.karmada.tables import TOPICS, PlaneTables
from moorage.bridge.kube.client import KubeClient
from moorage.bridge.kube.reflector import Reflector
from moorage.bridge.leases import Leases
from moorage.bridge.member import Link
from moorage.bridge.silence import LeaseResource
from moorage.core.scheduling.karmada.mirrored import SCHEDULER
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
    BINDINGS = "bindings"
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

    @property
    def plan(self) -> FleetPlan[PlaneAct]:
        """What the bridge does."""
        return FleetPlan(
            self.link,
            SOURCE,
            LEASE_NAME,
            self.acts,
            cluster=CLUSTER,
            mirrored=MIRRORED,
            placed=frozenset(BINDING_KINDS),
            places=PlaneAct.BINDINGS,
            written={PlaneAct.TAINTS: "taints", PlaneAct.BINDINGS: "clusters and eviction tasks"},
            patience=None,  # a binding that was decided without its clusters would lose them
        )


class PlaneBridge(FleetBridge[PlaneAct, SeenMember]):
    """Bridges one control plane until it is stopped. See `Member`.

    Args:
        settings: the address of Kafka, with the fleet's actual number of partitions.
        options: how the control plane is bridged.
    """

    def __init__(self, settings: Settings, options: PlaneOptions) -> None:
        self._seconds = options.grace
        self._state = PlaneState(options.scheduler, self._seen)
        self._tables = PlaneTables(self._touched)
        super().__init__(
            settings,
            options.plan,
            state=self._state,
            tables=self._tables,
            topics=TOPICS,
            leases=Leases(options.grace),
            resource=LeaseResource(LEASES, {}, lambda cluster: f"{LEASES}/{cluster}"),
        )

    def _follows(self, client: KubeClient) -> list[Reflector]:
        return [Reflector(client, one.path, PlaneSink(self._state, one.kind)) for one in FOLLOWED]

    def _work(self, client: KubeClient, gateway: GatewayClient) -> PlaneWork:
        return PlaneWork(
            self._plan, state=self._state, tables=self._tables, leases=self._leases, client=client, gateway=gateway
        )

    def _grace(self, cluster: SeenMember) -> float:
        return cluster.grace(self._seconds)

    def _heartbeat_of(self, cluster: SeenMember) -> str:
        return cluster.heartbeat

    def _leased(self, kind: str, key: str) -> str:
        return ResourceKey.parse(key).name if kind == LEASE else ""

    def _state_of(self) -> dict[str, Any]:
        return {**super()._state_of(), "bindings": len(self._state.bindings)}


class PlaneWork(FleetWork[PlaneAct, SeenMember]):
    """The parts of a bridge that send and act, once the control plane and the topics are known. See `FleetWork`."""

    observations: PlaneObservations

    def __init__(
        self,
        plan: FleetPlan[PlaneAct],
        *,
        state: PlaneState,
        tables: PlaneTables,
        leases: Leases,
        client: KubeClient,
        gateway: GatewayClient,
    ) -> None:
        super().__init__(plan, state=state, tables=tables, leases=leases, client=client, gateway=gateway)
        self._state = state
        self.observations = PlaneObservations(SOURCE, state, tables, leases, self.mirror.has)
        self.reports = self._reporting(self.observations, gateway, self.observations.is_about_target)
        clusters = MemberActs(
            client,
            tables,
            state.clusters.get,
            seen=lambda found: state.put(CLUSTER, found),
            is_settled=self.observations.is_settled,
            undone=self._contention(PlaneAct.TAINTS),
            tell=self.events.tell,
        )
        bindings = BindingActs(
            client,
            tables,
            state.bindings.get,
            seen=lambda found: state.put(str(found["kind"]), found),
            undone=self._contention(PlaneAct.BINDINGS),
            tell=self.events.tell,
        )
        self.queues = self._queued({PlaneAct.TAINTS: clusters.taint, PlaneAct.BINDINGS: bindings.place})

    def seen(self, kind: str, key: str) -> None:
        """See `FleetWork`."""
        if self._is_due(key):
            self.mirror.mark(key)
        if kind == CLUSTER:
            self.cluster_changed(ResourceKey.parse(key).name)
        elif kind in BINDING_KINDS:
            self.work_changed(key)

    def touched(self, kind: str, key: str) -> None:
        """See `FleetWork`."""
        if kind == CLUSTER:
            self._act(key, PlaneAct.TAINTS)
        else:
            self.work_changed(key)

    def cluster_changed(self, name: str) -> None:
        """See `FleetWork`."""
        self.reports.mark(*self.observations.of_cluster(name))
        self._act(name, PlaneAct.TAINTS)

    def work_changed(self, key: str) -> None:
        """See `FleetWork`. One that is gone is forgotten by its act."""
        self.reports.mark(*self.observations.of_binding(key))
        self._act(key, PlaneAct.BINDINGS)

    def _work(self) -> Iterable[str]:
        return self._state.bindings

    def _about(self, act: PlaneAct, key: str) -> Regarding | None:
        if act is PlaneAct.TAINTS:
            cluster = self._state.clusters.get(key)
            return cluster.about if cluster is not None else None
        binding = self._state.bindings.get(key)
        return binding.about[0] if binding is not None else None

    def _is_known(self, name: str) -> bool:
        cluster = self._state.clusters.get(name)
        return cluster is None or self.observations.is_settled(cluster)

    def _report_keys(self) -> Iterator[str]:
        yield from super()._report_keys()
        for binding in self._state.bindings:
            yield from self.observations.of_binding(binding)
