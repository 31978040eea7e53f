"""The bridge to one hub: mirrors it, reports what it says of its clusters, and writes there what was decided.

Consumes: resources, taints, conditions, placements.
Keeps: nothing that is not in the topics or on the hub.
Emits: nothing itself; it sends objects and reports to the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from moorage.bridge.act_queue import ActQueue
from moorage.bridge.contention import Contention
from moorage.bridge.fleet_gate import FleetGate, resync
from moorage.bridge.gateway_client import GatewayClient
from moorage.bridge.kube.client import KubeClient
from moorage.bridge.kube.reflector import Reflector
from moorage.bridge.leases import Leases
from moorage.bridge.member import BridgeLeadership, BridgeMember, Link, Work
from moorage.bridge.mirror import MirrorSender
from moorage.bridge.ocm.cluster_acts import ClusterActs
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
    HubSink,
    HubState,
)
from moorage.bridge.ocm.new_placements import NewPlacements
from moorage.bridge.ocm.observations import HubObservations
from moorage.bridge.ocm.tables import TOPICS, HubTables
from moorage.bridge.reports import Reports
from moorage.bridge.silence import LeaseResource, SilenceWatch
from moorage.core.taints.desired.leases import DEFAULT_GRACE
from moorage.runtime.clock import WallClock
from moorage.runtime.settings import Settings
from moorage_schemas.keys import ResourceKey

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


class HubBridge(BridgeMember):
    """Bridges one hub until it is stopped. See `Member`.

    Args:
        settings: the address of Kafka, with the fleet's actual number of partitions.
        options: how the hub is bridged.
    """

    def __init__(self, settings: Settings, options: HubOptions) -> None:
        self._options = options
        self._tables = HubTables(self._touched)
        self._state = HubState(self._seen, self._tables.is_decided)
        self._leases = Leases(DEFAULT_GRACE.total_seconds())
        self._running: _Running | None = None
        super().__init__(settings, options.link, TOPICS, self._tables, source=SOURCE)

    def _follows(self, client: KubeClient) -> list[Reflector]:
        return [Reflector(client, one.path, HubSink(self._state, one.kind), one.params) for one in FOLLOWED]

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
        resource = LeaseResource(
            f"{LEASES}/leases",
            {"fieldSelector": f"metadata.name={CLUSTER_LEASE}"},
            lambda cluster: f"{LEASES}/namespaces/{cluster}/leases/{CLUSTER_LEASE}",
        )
        watch = SilenceWatch(
            client,
            self._leases,
            resource,
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
            "placements": len(state.placements),
        }

    # What changes, on the hub and in the topics.

    def _seen(self, kind: str, key: str) -> None:
        _, namespace, name, _ = ResourceKey.parse(key)
        running = self._running
        if kind == LEASE and name == CLUSTER_LEASE:
            if self._renewed(namespace) and running is not None:
                running.cluster_changed(namespace)
            return
        if kind == CLUSTER:
            cluster = self._state.clusters.get(name)
            if cluster is None:
                self._leases.gone(name)
            else:
                self._leases.set_grace(name, cluster.grace)
                self._renewed(name)
        if running is not None:
            running.seen(kind, key)

    def _renewed(self, cluster: str) -> bool:
        """Note what is known of the Lease of a cluster. Return whether the cluster is not silent any more."""
        if cluster not in self._state.clusters:
            return False
        lease = self._state.renewals.get(cluster, "")
        return self._leases.renewed(cluster, asyncio.get_running_loop().time(), lease=lease)

    def _touched(self, kind: str, key: str) -> None:
        if self._running is not None:
            self._running.touched(kind, key)


class _Running:
    """The parts of a bridge that send and act, once the hub and the topics are known."""

    def __init__(
        self,
        options: HubOptions,
        *,
        state: HubState,
        tables: HubTables,
        leases: Leases,
        client: KubeClient,
        gateway: GatewayClient,
    ) -> None:
        self._state = state
        self._leases = leases
        self.mirror = MirrorSender(
            SOURCE, "", gateway=gateway, tables=tables, present=state.object, sent=self._mirrored
        )
        self.observations = HubObservations(SOURCE, state.clusters.get, tables, leases, self.mirror.has)
        self.new_placements = NewPlacements(self._is_new_known, self.mirror.mark)
        self.reports = Reports(SOURCE, gateway, WallClock(), self.observations.present, self.observations.is_known)
        self.leadership = BridgeLeadership(
            client, options.link, LEASE_NAME, is_acting=bool(options.acts), begins=self._begin_leading
        )
        self.fleet = FleetGate(lambda: self.leadership.may_send, self._unknown, self._fleet_known)
        checked = self.leadership.checked
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
        decisions = DecisionActs(client, tables, state, self._contention(HubAct.PLACEMENTS))
        self._queues = {
            HubAct.PLACEMENTS: ActQueue("placements", checked(decisions.place)),
            HubAct.TAINTS: ActQueue("taints", checked(clusters.taint)),
            HubAct.LABELS: ActQueue("labels", checked(clusters.label)),
        }
        self._queues = {act: queue for act, queue in self._queues.items() if act in options.acts}

    def _contention(self, act: HubAct) -> Contention:
        def later(key: str, seconds: float) -> None:
            self._queues[act].add_later(key, seconds)  # the queues are made afterwards

        return Contention(act, later)

    def tasks(self) -> list[Work]:
        """Return what runs until the bridge is stopped."""
        queues = [queue.run() for queue in self._queues.values()]
        sending = self.leadership.send(self.mirror, self.reports)
        learning = [self.fleet.run(), self.new_placements.run()]
        comparing = resync(
            self._report_keys, self.reports, self.observations, mirror=self.mirror, compare=self.compare_everything
        )
        return [sending, self.leadership.run(), *learning, comparing, *queues]

    def restore_silence(self) -> None:
        """Let the clusters be silent that a bridge has said to be, until their Leases are renewed."""
        self._leases.silence(
            name for name, cluster in self._state.clusters.items() if self.observations.was_silent(cluster)
        )

    def seen(self, kind: str, key: str) -> None:
        """Note that an object of the hub has changed."""
        if kind == CLUSTER:
            self.new_placements.cluster_changed(ResourceKey.parse(key).name)
        if kind in MIRRORED and self._is_due(key) and not self._has_to_wait(key):
            self.mirror.mark(key)
        if kind == CLUSTER:
            self.cluster_changed(ResourceKey.parse(key).name)
        elif kind == PLACEMENT:
            self._decisions_count(key)
            self._act(key, HubAct.PLACEMENTS)
        elif kind == ADD_ON:
            self._act(ResourceKey.parse(key).namespace, HubAct.LABELS)

    def touched(self, kind: str, key: str) -> None:
        """Note that the topics say something new about a cluster or a placement."""
        if kind == CLUSTER:
            self._act(key, HubAct.TAINTS, HubAct.LABELS)
        else:
            self._decisions_count(key)
            self._act(key, HubAct.PLACEMENTS)

    def cluster_changed(self, name: str) -> None:
        """Note that a cluster has changed, has fallen silent, or speaks again."""
        self.reports.mark(*self.observations.of_cluster(name))
        self._act(name, HubAct.TAINTS, HubAct.LABELS)

    def compare_everything(self) -> None:
        """Compare all that the hub has with all that the topics say."""
        present = self._state.keys
        self.mirror.mark(*self.mirror.gone(MIRRORED, present), *filter(self._is_due, present))
        for name in self._state.clusters:
            self.cluster_changed(name)
        self._act_on_placements()

    def _decisions_count(self, placement: str) -> None:
        """Whether the decisions of a placement on the hub count depends on what is decided on it."""
        self.mirror.mark(*self._state.decisions.get(placement, ()))

    def _act_on_placements(self) -> None:
        for key in self._state.placements:
            self._act(key, HubAct.PLACEMENTS)

    def _act(self, key: str, *acts: HubAct) -> None:
        if not self.leadership.may_send:
            return
        for act in acts:
            if act is HubAct.PLACEMENTS and not self.fleet.is_open:
                continue
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
        """Whether an object is to be mirrored now. Placements come after everything that decisions rest on.

        A placement that came first would be decided without the clusters that are still on their way, and lose them on
        the hub.
        """
        if ResourceKey.parse(key).kind != PLACEMENT:
            return True
        return self.fleet.is_open and not self.new_placements.holds(key)

    def _has_to_wait(self, key: str) -> bool:
        """Whether an object is a new placement that has to wait for clusters."""
        placement = self._state.placements.get(key)
        if placement is None or self.mirror.has(key, str(placement["metadata"].get("uid") or "")):
            return False
        return self.new_placements.hold(key)

    def _is_new_known(self, name: str) -> bool:
        """Whether a cluster that has changed was mirrored and is known."""
        key = str(ResourceKey(CLUSTER, "", name))
        return not self.mirror.is_waiting([key]) and self.mirror.is_read(key) and self._is_known(name)

    def _fleet_known(self) -> None:
        """Mirror and decide on placements."""
        self.mirror.mark(*self._state.placements)
        self._act_on_placements()

    def _unknown(self) -> Callable[[], list[str]]:
        """Return what names the clusters of now that the topics do not know."""
        first = [key for key in self._state.keys if ResourceKey.parse(key).kind != PLACEMENT]
        names = list(self._state.clusters)

        def unknown() -> list[str]:
            waits = [name for name in names if not self._is_known(name)]
            return waits or (first[:1] if self.mirror.is_waiting(first) else [])

        return unknown

    def _report_keys(self) -> Iterator[str]:
        for name in self._state.clusters:
            yield from self.observations.of_cluster(name)

    def _is_known(self, name: str) -> bool:
        """Whether the topics say of a cluster what the hub says, and what follows from it; or it is gone."""
        cluster = self._state.clusters.get(name)
        return cluster is None or (
            self.observations.is_settled(cluster) and self.observations.has_labels(cluster, self._state.add_ons(name))
        )

    def _mirrored(self, keys: Sequence[str]) -> None:
        """Report on what can be reported on now."""
        for key in keys:
            if ResourceKey.parse(key).kind == CLUSTER:
                self.reports.mark(*self.observations.of_cluster(ResourceKey.parse(key).name))
