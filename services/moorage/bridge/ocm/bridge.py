"""The bridge to one hub: mirrors it, reports what it says of its clusters, and writes there what was decided.

Consumes: resources, taints, conditions, placements.
Keeps: nothing that is not in the topics or on the hub.
Emits: nothing itself; it sends objects and reports to the gateway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from moorage.bridge.events import Regarding
from moorage.bridge.fleet_bridge import FleetBridge, FleetPlan, FleetWork
from moorage.bridge.fleet_gate import PATIENCE
from moorage.bridge.gateway_client import GatewayClient
from moorage.bridge.kube.client import KubeClient
from moorage.bridge.kube.reflector import Reflector
from moorage.bridge.leases import Leases
from moorage.bridge.member import Link
from moorage.bridge.ocm.cluster_acts import ClusterActs
from moorage.bridge.ocm.clusters import SeenCluster
from moorage.bridge.ocm.decision_acts import DecisionActs
from moorage.bridge.ocm.hub import (
    ADD_ON,
    CLUSTER,
    CLUSTER_LEASE,
    FOLLOWED,
    LEASE,
    LEASES,
    MIRRORED,
    PLACEMENT,
    SCORE,
    HubSink,
    HubState,
)
from moorage.bridge.ocm.new_placements import HubContent, NewPlacements
from moorage.bridge.ocm.observations import HubObservations
from moorage.bridge.ocm.tables import TOPICS, HubTables
from moorage.bridge.silence import LeaseResource
from moorage.core.taints.desired.leases import DEFAULT_GRACE
from moorage.runtime.settings import Settings
from moorage_schemas.keys import ResourceKey
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE as AVAILABLE

SOURCE: Final = "bridge/ocm"
"""The source of what this bridge says."""

LEASE_NAME: Final = "moorage-bridge-ocm"


class HubAct(StrEnum):
    """What a bridge writes to its hub."""

    PLACEMENTS = "placements"
    """PlacementDecisions, and the status of Placements."""

    TAINTS = "taints"
    LABELS = "labels"
    """Of managed clusters, for their add-ons."""


@dataclass(frozen=True, slots=True)
class HubOptions:
    """How a hub is bridged.

    Attributes:
        link: how it is reached.
        acts: what is written to it.
    """

    link: Link
    acts: frozenset[HubAct] = field(default_factory=frozenset)

    @property
    def plan(self) -> FleetPlan[HubAct]:
        """What the bridge does."""
        return FleetPlan(
            self.link,
            SOURCE,
            LEASE_NAME,
            self.acts,
            cluster=CLUSTER,
            mirrored=MIRRORED,
            placed=frozenset({PLACEMENT}),
            places=HubAct.PLACEMENTS,
            written={HubAct.PLACEMENTS: "decisions", HubAct.TAINTS: "taints", HubAct.LABELS: "labels of add-ons"},
            patience=PATIENCE,
        )


class HubBridge(FleetBridge[HubAct, SeenCluster]):
    """Bridges one hub until it is stopped. See `Member`.

    Args:
        settings: the address of Kafka, with the fleet's actual number of partitions.
        options: how the hub is bridged.
    """

    def __init__(self, settings: Settings, options: HubOptions) -> None:
        self._tables = HubTables(self._touched)
        self._state = HubState(self._seen, self._tables.is_decided)
        super().__init__(
            settings,
            options.plan,
            state=self._state,
            tables=self._tables,
            topics=TOPICS,
            leases=Leases(DEFAULT_GRACE.total_seconds()),
            resource=LeaseResource(
                f"{LEASES}/leases",
                {"fieldSelector": f"metadata.name={CLUSTER_LEASE}"},
                lambda cluster: f"{LEASES}/namespaces/{cluster}/leases/{CLUSTER_LEASE}",
            ),
        )

    def _follows(self, client: KubeClient) -> list[Reflector]:
        return [Reflector(client, one.path, HubSink(self._state, one.kind), one.params) for one in FOLLOWED]

    def _work(self, client: KubeClient, gateway: GatewayClient) -> HubWork:
        return HubWork(
            self._plan, state=self._state, tables=self._tables, leases=self._leases, client=client, gateway=gateway
        )

    def _grace(self, cluster: SeenCluster) -> float:
        return cluster.grace

    def _leased(self, kind: str, key: str) -> str:
        _, namespace, name, _ = ResourceKey.parse(key)
        return namespace if kind == LEASE and name == CLUSTER_LEASE else ""

    def _state_of(self) -> dict[str, Any]:
        return {**super()._state_of(), "placements": len(self._state.placements)}


class HubWork(FleetWork[HubAct, SeenCluster]):
    """The parts of a bridge that send and act, once the hub and the topics are known. See `FleetWork`."""

    observations: HubObservations

    def __init__(
        self,
        plan: FleetPlan[HubAct],
        *,
        state: HubState,
        tables: HubTables,
        leases: Leases,
        client: KubeClient,
        gateway: GatewayClient,
    ) -> None:
        super().__init__(plan, state=state, tables=tables, leases=leases, client=client, gateway=gateway)
        self._state = state
        self.observations = HubObservations(SOURCE, state.clusters.get, tables, leases, self.mirror.has)
        self.reports = self._reporting(self.observations, gateway)
        self.new_placements = NewPlacements(self._is_read, self.mirror.mark)
        clusters = ClusterActs(
            client,
            tables,
            state.clusters.get,
            seen=lambda found: state.put(CLUSTER, found),
            is_settled=self.observations.is_settled,
            add_ons=state.add_ons,
            taints=self._contention(HubAct.TAINTS),
            labels=self._contention(HubAct.LABELS),
        )
        decisions = DecisionActs(
            client, tables, state, contention=self._contention(HubAct.PLACEMENTS), tell=self.events.tell
        )
        self.queues = self._queued(
            {HubAct.PLACEMENTS: decisions.place, HubAct.TAINTS: clusters.taint, HubAct.LABELS: clusters.label}
        )

    def seen(self, kind: str, key: str) -> None:
        """See `FleetWork`."""
        if kind in MIRRORED and self._is_due(key) and not self._has_to_wait(key):
            self.mirror.mark(key)
        if kind == CLUSTER:
            self.cluster_changed(ResourceKey.parse(key).name)
        elif kind == PLACEMENT:
            self._decisions_count(key)
            self.work_changed(key)
        elif kind == SCORE:
            self._note(key)
        elif kind == ADD_ON:
            cluster = ResourceKey.parse(key).namespace
            self._note(str(ResourceKey(CLUSTER, "", cluster)))
            self._act(cluster, HubAct.LABELS)

    def touched(self, kind: str, key: str) -> None:
        """See `FleetWork`."""
        if kind == CLUSTER:
            self.new_placements.look(str(ResourceKey(CLUSTER, "", key)))
            self._act(key, HubAct.TAINTS, HubAct.LABELS)
        elif kind == SCORE:
            self.new_placements.look(key)
        else:
            self._decisions_count(key)
            self.work_changed(key)

    def cluster_changed(self, name: str) -> None:
        """See `FleetWork`."""
        self.reports.mark(*self.observations.of_cluster(name))
        self._note(str(ResourceKey(CLUSTER, "", name)))
        self._act(name, HubAct.TAINTS, HubAct.LABELS)

    def work_changed(self, key: str) -> None:
        """See `FleetWork`."""
        self._act(key, HubAct.PLACEMENTS)

    def _work(self) -> Iterable[str]:
        return self._state.placements

    def _about(self, act: HubAct, key: str) -> Regarding | None:
        if act is HubAct.PLACEMENTS:
            found = self._state.placements.get(key)
            return Regarding.of(found) if found is not None else None
        cluster = self._state.clusters.get(key)
        return cluster.about if cluster is not None else None

    def _decisions_count(self, placement: str) -> None:
        """Whether the decisions of a placement on the hub count depends on what is decided on it."""
        self.mirror.mark(*self._state.decisions.get(placement, ()))

    def _is_due(self, key: str) -> bool:
        return super()._is_due(key) and not self.new_placements.holds(key)

    def _has_to_wait(self, key: str) -> bool:
        """Whether an object is a new placement that has to wait for clusters."""
        placement = self._state.placements.get(key)
        if placement is None or self.mirror.has(key, str(placement["metadata"].get("uid") or "")):
            return False
        return self.new_placements.hold(key)

    def _note(self, key: str) -> None:
        """Note that a cluster or scores may have changed, for which new placements then wait."""
        kind, _, name, _ = ResourceKey.parse(key)
        state, cluster = self.mirror.state(key), self._state.clusters.get(name) if kind == CLUSTER else None
        available = cluster.conditions.get(AVAILABLE) if cluster is not None else None
        says = available.status if available is not None else ""
        if cluster is not None and self._leases.is_silent(name):
            says = "Unknown"
        self.new_placements.changed(key, HubContent(state, says) if state is not None else None)
        self.new_placements.look(key)

    def _is_read(self, key: str, content: HubContent | None) -> bool:
        """Whether the topics have an object as it is on the hub, and know of a cluster what follows from it."""
        kind, _, name, _ = ResourceKey.parse(key)
        is_read = self.mirror.is_read(key, content.state if content is not None else None)
        return is_read and (kind != CLUSTER or self._is_known(name))

    def _is_known(self, name: str) -> bool:
        cluster = self._state.clusters.get(name)
        return cluster is None or (
            self.observations.is_settled(cluster) and self.observations.has_labels(cluster, self._state.add_ons(name))
        )
