"""What the bridges to a hub and to a Karmada control plane have in common: they place work on whole clusters.

Clusters, and all else that decisions rest on, are mirrored first, and what is placed last. What was decided while
clusters are still on their way would lose those.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from moorage.bridge.act_queue import ActQueue
from moorage.bridge.contention import Contention
from moorage.bridge.event_sender import EventSender
from moorage.bridge.events import Regarding, contradicted
from moorage.bridge.fleet_gate import FleetGate, SeenReports, resync
from moorage.bridge.gateway_client import GatewayClient
from moorage.bridge.kube.client import KubeClient
from moorage.bridge.leases import Leases
from moorage.bridge.member import BridgeLeadership, BridgeMember, Link, Work
from moorage.bridge.mirror import MirrorSender
from moorage.bridge.reports import Report, Reports
from moorage.bridge.silence import LeaseResource, SilenceWatch
from moorage.bridge.tables import TargetTables
from moorage.runtime.clock import WallClock
from moorage.runtime.settings import Settings
from moorage_schemas.keys import ResourceKey
from moorage_schemas.topics import Topic

Act = TypeVar("Act", bound=StrEnum)


class SeenFleetCluster(Protocol):
    """A cluster as it was last seen."""

    @property
    def about(self) -> Regarding:
        """What names it in events."""


Cluster = TypeVar("Cluster", bound=SeenFleetCluster)
Judged_contra = TypeVar("Judged_contra", bound=SeenFleetCluster, contravariant=True)


class FleetState(Protocol[Cluster]):
    """What a bridge has seen of the clusters and of what is placed on them."""

    clusters: dict[str, Cluster]
    """By name."""

    renewals: dict[str, str]
    """The time of the last renewal of a cluster's Lease, by the cluster's name."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all objects that are to be mirrored."""

    def object(self, key: str) -> dict[str, Any] | None:
        """Return an object as it is to be mirrored. None if it is not there."""

    def put(self, kind: str, found: dict[str, Any]) -> None:
        """Note an object as it was seen."""


class FleetObservations(SeenReports, Protocol[Judged_contra]):
    """Computes reports from what was seen."""

    def of_cluster(self, name: str) -> list[str]:
        """Return the keys of the reports about a cluster."""

    def present(self, key: str) -> Report | None:
        """Return what is to be reported under a key. None for nothing."""

    def was_silent(self, cluster: Judged_contra) -> bool:
        """Return whether the topics say that a cluster has fallen silent, as a bridge saw it."""


@dataclass(frozen=True, slots=True)
class FleetPlan(Generic[Act]):
    """What a bridge does.

    Attributes:
        link: how the clusters' control plane and the gateway are reached.
        source: of what the bridge says.
        lease: the name of the Lease that elects one of several bridges.
        acts: what is written.
        cluster: the kind of the clusters.
        mirrored: the kinds of all objects that are mirrored.
        placed: the kinds of what is placed on clusters.
        places: the act that writes where it is placed.
        written: what each act writes, in words.
        patience: seconds after which work is placed although something of the clusters is not known. None waits for
            ever.
    """

    link: Link
    source: str
    lease: str
    acts: frozenset[Act]
    cluster: str
    mirrored: frozenset[str]
    placed: frozenset[str]
    places: Act
    written: Mapping[Act, str]
    patience: float | None

    def is_placed(self, key: str) -> bool:
        """Return whether an object is placed on clusters, by its key."""
        return ResourceKey.parse(key).kind in self.placed


class FleetWork(ABC, Generic[Act, Cluster]):
    """The parts of a bridge that send and act, once the clusters and the topics are known.

    A class that is derived from it sets `observations`, `reports` and `queues`.

    Args:
        plan: what the bridge does.
        state: what it has seen.
        tables: what the topics say.
        leases: which clusters are silent.
        client: of the clusters' control plane.
        gateway: takes objects and reports.
    """

    observations: FleetObservations[Cluster]
    reports: Reports
    queues: dict[Act, ActQueue]

    def __init__(
        self,
        plan: FleetPlan[Act],
        *,
        state: FleetState[Cluster],
        tables: TargetTables,
        leases: Leases,
        client: KubeClient,
        gateway: GatewayClient,
    ) -> None:
        self._plan = plan
        self._there = state
        self._leases = leases
        self.mirror = MirrorSender(
            plan.source, "", gateway=gateway, tables=tables, present=state.object, sent=self._mirrored
        )
        self.leadership = BridgeLeadership(
            client, plan.link, plan.lease, is_acting=bool(plan.acts), begins=self._begin_leading
        )
        self.gate = FleetGate(
            lambda: self.leadership.may_send, self._unknown, self._fleet_known, patience=plan.patience
        )
        self.events = EventSender(client.beside(plan.link.access))

    # What a derived class says.

    @abstractmethod
    def seen(self, kind: str, key: str) -> None:
        """Note that an object has changed."""

    @abstractmethod
    def touched(self, kind: str, key: str) -> None:
        """Note that the topics say something new about a cluster, by its name, or about something else, by its key."""

    @abstractmethod
    def cluster_changed(self, name: str) -> None:
        """Note that a cluster has changed, has fallen silent, or speaks again."""

    @abstractmethod
    def work_changed(self, key: str) -> None:
        """Note that something has changed of what is placed on clusters, or is known of it."""

    @abstractmethod
    def _is_known(self, name: str) -> bool:
        """Whether the topics say of a cluster what was seen of it, and what follows from it; or it is gone."""

    @abstractmethod
    def _work(self) -> Iterable[str]:
        """The keys of what is placed on clusters."""

    @abstractmethod
    def _about(self, act: Act, key: str) -> Regarding | None:
        """The object to which an act writes under a key. None if it is gone."""

    # What it is made of.

    def _reporting(
        self,
        seen: FleetObservations[Cluster],
        gateway: GatewayClient,
        is_urgent: Callable[[str], bool] = lambda _: False,
    ) -> Reports:
        """Return what sends reports."""
        return Reports(self._plan.source, gateway, WallClock(), seen.present, seen.is_known, is_urgent=is_urgent)

    def _queued(self, works: Mapping[Act, Callable[[str], Awaitable[None]]]) -> dict[Act, ActQueue]:
        """Return the queues of the acts that the bridge has."""
        checked = self.leadership.checked
        return {act: ActQueue(act, checked(work)) for act, work in works.items() if act in self._plan.acts}

    def _contention(self, act: Act) -> Contention:
        def later(key: str, seconds: float) -> None:
            self.queues[act].add_later(key, seconds)  # the queues are made afterwards

        def noticed(key: str) -> None:
            if (about := self._about(act, key)) is not None:
                self.events.tell(contradicted(about, self._plan.written[act]))

        return Contention(act, later, noticed)

    # What it does.

    def tasks(self) -> list[Work]:
        """Return what runs until the bridge is stopped."""
        queues = [queue.run() for queue in self.queues.values()]
        sending = self.leadership.send(self.mirror, self.reports)
        comparing = resync(
            self._report_keys, self.reports, self.observations, mirror=self.mirror, compare=self.compare_everything
        )
        return [sending, self.leadership.run(), self.events.run(), self.gate.run(), comparing, *queues]

    def restore_silence(self) -> None:
        """Let the clusters be silent that a bridge has said to be, until they show a sign of life."""
        clusters = self._there.clusters.items()
        self._leases.silence(name for name, cluster in clusters if self.observations.was_silent(cluster))

    def compare_everything(self) -> None:
        """Compare all that was seen with all that the topics say."""
        present = self._there.keys
        self.mirror.mark(*self.mirror.gone(self._plan.mirrored, present), *filter(self._is_due, present))
        for name in self._there.clusters:
            self.cluster_changed(name)
        for key in self._work():
            self.work_changed(key)

    def _act(self, key: str, *acts: Act) -> None:
        if not self.leadership.may_send:
            return
        for act in acts:
            queue = self.queues.get(act)
            if queue is not None and (act is not self._plan.places or self.gate.is_open):
                queue.add(key)

    def _is_due(self, key: str) -> bool:
        """Whether an object is to be mirrored now. What is placed comes after everything that decisions rest on."""
        return self.gate.is_open or not self._plan.is_placed(key)

    def _begin_leading(self) -> None:
        """Begin anew, since another process may have sent and written something else meanwhile."""
        self.mirror.forget()
        self.reports.forget_all()
        self.restore_silence()
        self.gate.close()
        self.compare_everything()

    def _fleet_known(self) -> None:
        """Mirror what is placed, and act on it."""
        self.mirror.mark(*filter(self._plan.is_placed, self._there.keys))
        for key in self._work():
            self.work_changed(key)

    def _unknown(self) -> Callable[[], list[str]]:
        """Return what names the clusters of now of which the topics do not say what was seen of them."""
        first = [key for key in self._there.keys if not self._plan.is_placed(key)]
        names = list(self._there.clusters)

        def unknown() -> list[str]:
            waits = [name for name in names if not self._is_known(name)]
            return waits or (first[:1] if self.mirror.is_waiting(first) else [])

        return unknown

    def _report_keys(self) -> Iterator[str]:
        for name in self._there.clusters:
            yield from self.observations.of_cluster(name)

    def _mirrored(self, keys: Sequence[str]) -> None:
        """Report on what can be reported on now."""
        for kind, _, name, _ in map(ResourceKey.parse, keys):
            if kind == self._plan.cluster:
                self.reports.mark(*self.observations.of_cluster(name))


class FleetBridge(BridgeMember, Generic[Act, Cluster]):
    """Bridges a hub or a control plane until it is stopped. See `Member`.

    Args:
        settings: the address of Kafka, with the fleet's actual number of partitions.
        plan: what the bridge does.
        state: what it sees, which calls `_seen`.
        tables: what the topics say, which call `_touched`.
        topics: those that the tables are made of.
        leases: which clusters are silent.
        resource: where the Leases of clusters are.
    """

    def __init__(
        self,
        settings: Settings,
        plan: FleetPlan[Act],
        *,
        state: FleetState[Cluster],
        tables: TargetTables,
        topics: Sequence[Topic],
        leases: Leases,
        resource: LeaseResource,
    ) -> None:
        self._plan = plan
        self._there = state
        self._leases = leases
        self._resource = resource
        self._running: FleetWork[Act, Cluster] | None = None
        super().__init__(settings, plan.link, topics, tables, source=plan.source)

    @abstractmethod
    def _work(self, client: KubeClient, gateway: GatewayClient) -> FleetWork[Act, Cluster]:
        """Return the parts that send and act."""

    @abstractmethod
    def _grace(self, cluster: Cluster) -> float:
        """Seconds without a sign of life after which a cluster is silent."""

    def _heartbeat_of(self, cluster: Cluster) -> str:  # noqa: ARG002 - for those that have one beside their Lease
        """What changes when a cluster gives a sign of life."""
        return ""

    @abstractmethod
    def _leased(self, kind: str, key: str) -> str:
        """The cluster whose Lease an object is. Empty if it is none."""

    def _begin(self, client: KubeClient, gateway: GatewayClient) -> Collection[Work]:
        running = self._running = self._work(client, gateway)
        running.restore_silence()
        running.compare_everything()
        watch = SilenceWatch(
            client,
            self._leases,
            self._resource,
            linked=lambda: self._linked,
            renewed=lambda lease: self._there.put("Lease", lease),
            changed=running.cluster_changed,
        )
        return [*running.tasks(), watch.run()]

    def _state_of(self) -> dict[str, Any]:
        running = self._running
        return {
            "acts": sorted(self._plan.acts),
            "leading": running is not None and running.leadership.may_act,
            "fleet_known": running is not None and running.gate.is_open,
            "clusters": len(self._there.clusters),
        }

    # What changes, there and in the topics.

    def _seen(self, kind: str, key: str) -> None:
        running = self._running
        if leased := self._leased(kind, key):
            if self._renewed(leased) and running is not None:
                running.cluster_changed(leased)
            return
        if kind == self._plan.cluster:
            name = ResourceKey.parse(key).name
            cluster = self._there.clusters.get(name)
            if cluster is None:
                self._leases.gone(name)
            else:
                self._leases.set_grace(name, self._grace(cluster))
                self._renewed(name)
        if running is not None:
            running.seen(kind, key)

    def _renewed(self, name: str) -> bool:
        """Note the last sign of life of a cluster. Return whether it is not silent any more."""
        cluster = self._there.clusters.get(name)
        if cluster is None:
            return False
        now, lease = asyncio.get_running_loop().time(), self._there.renewals.get(name, "")
        return self._leases.renewed(name, now, lease=lease, heartbeat=self._heartbeat_of(cluster))

    def _touched(self, kind: str, key: str) -> None:
        if self._running is not None:
            self._running.touched(kind, key)
