"""The bridge to one Kubernetes cluster: mirrors it, reports what it says, and acts there on what was decided.

Consumes: resources, taints, conditions, bindings, placements, evictions, workload-conditions.
Keeps: nothing that is not in the topics or in the cluster.
Emits: nothing itself; it sends objects and reports to the gateway.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import structlog

from moorage.bridge.act_queue import ActQueue
from moorage.bridge.gateway_client import GatewayAddress, GatewayClient, GatewayError
from moorage.bridge.kube.client import ClusterAccess, KubeClient
from moorage.bridge.kube.election import Election
from moorage.bridge.kube.errors import CONFLICT, ApiError
from moorage.bridge.kube.reflector import Reflector
from moorage.bridge.kubernetes.cluster import MIRRORED, NODE, POD, ClusterState
from moorage.bridge.kubernetes.leaving import Left, check_nobody_acts, clean_nodes, forget_objects
from moorage.bridge.kubernetes.node_acts import NodeActs
from moorage.bridge.kubernetes.observations import Observations
from moorage.bridge.kubernetes.pod_acts import EvictionMode, PodActs
from moorage.bridge.leases import Leases
from moorage.bridge.metrics import LINKED
from moorage.bridge.mirror import MirrorSender
from moorage.bridge.reports import Reports
from moorage.bridge.tables import TOPICS, DecidedTables
from moorage.runtime.clock import Clock, WallClock
from moorage.runtime.errors import RuntimeFailure
from moorage.runtime.kafka.consumer_lag import Behind
from moorage.runtime.kafka.global_tables import GlobalReader
from moorage.runtime.kafka.offsets import Offsets
from moorage.runtime.member import TaskMember
from moorage.runtime.settings import Settings
from moorage_schemas.keys import ResourceKey
from moorage_schemas.topics import RESOURCES

_log = structlog.get_logger(__name__)

NAME: Final = "bridge"
HOME: Final = "home"
"""What the home fleet is called where a name is needed."""

_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_KINDS: Final = frozenset(one.kind for one in MIRRORED)
_RESYNC: Final = 60.0  # seconds between two comparisons of everything
_PING: Final = 2.0  # seconds between two questions whether the cluster is there
_CUT: Final = 10.0  # seconds without an answer after which nothing is concluded from silence
_SINGLE: Final = 5  # Leases that are read one by one before all are read at once
_EVENT_WORKERS: Final = 2


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
        access: which cluster, and as whom.
        gateway: where objects and reports are sent.
        cluster: the name of the cluster in references. Empty for the home fleet.
        acts: what is written to it.
        eviction_mode: how pods are removed.
        grace: seconds without a renewal of its Lease after which a node is silent.
        lease_namespace: where the Lease is that elects one of several bridges.
        lease_duration: seconds without a renewal after which another bridge takes it.
    """

    access: ClusterAccess
    gateway: GatewayAddress
    cluster: str = ""
    acts: frozenset[BridgeAct] = field(default_factory=frozenset)
    eviction_mode: EvictionMode = EvictionMode.DELETE
    grace: float = 50.0
    lease_namespace: str = "kube-system"
    lease_duration: float = 4.0

    @property
    def source(self) -> str:
        """The source of what this bridge says."""
        return f"bridge/{self.cluster or HOME}"

    @property
    def lease(self) -> str:
        """The name of the Lease that elects one of several bridges of this cluster."""
        return f"moorage-bridge-{self.cluster or HOME}"


class KubernetesBridge(TaskMember):
    """Bridges one cluster until it is stopped. See `Member`.

    Args:
        settings: the address of Kafka, with the fleet's actual number of partitions.
        options: how the cluster is bridged.
        clock: the source of the time.
    """

    def __init__(self, settings: Settings, options: BridgeOptions, clock: Clock | None = None) -> None:
        super().__init__(NAME)
        self._settings = settings
        self._options = options
        self._clock = clock or WallClock()
        self._state = ClusterState(options.cluster, self._seen)
        self._tables = DecidedTables(options.cluster, self._touched)
        self._leases = Leases(options.grace)
        self._reflectors: list[Reflector] = []
        self._running: _Running | None = None
        client_id = f"moorage-{NAME}-{uuid.uuid4().hex[:12]}"
        self._offsets = Offsets(settings, name=client_id)
        self._reader = GlobalReader(
            service=NAME,
            topics=TOPICS,
            view=self._tables,
            settings=settings,
            partitions=settings.partitions,
            client_id=client_id,
            on_change=lambda _: None,
            on_failure=self._fail,
        )

    # See `Member`.

    @property
    def ready(self) -> bool:
        """Whether it knows the cluster and the topics."""
        return self._running is not None and self._reader.sound

    @property
    def restored(self) -> object:
        """See `Member`."""
        return self._tables if self.ready else None

    @property
    def idle(self) -> bool:
        """Whether it has read the topics once. That the cluster is away for long is no failure of this process."""
        return self._reader.caught_up.is_set()

    @property
    def lacks(self) -> str:
        """See `Member`."""
        return "has not read the topics"

    @property
    def moves(self) -> int:
        """A value that changes with each step of the first reading."""
        return self._reader.moves

    def report(self) -> dict[str, Any]:
        """Return the progress of reading, and how the link is."""
        return {
            "ready": self.ready,
            "tables": round(self._reader.progress, 3),
            "cluster": self._options.cluster or HOME,
            "acts": sorted(self._options.acts),
            "linked": self._linked,
            "leading": self._running is not None and self._running.may_act,
            "nodes": len(self._state.nodes),
            "pods": len(self._state.pods),
        }

    async def behind(self) -> Behind:
        """Return the partitions of which Kafka has more than has been read. Empty if it does not answer."""
        try:
            async with asyncio.timeout(5):
                ends = await self._offsets.stable(self._reader.followed)
                return Behind(tables=await self._reader.behind(ends))
        except Exception:  # noqa: BLE001 - no answer, or it is starting; the next question comes
            return Behind()

    def _fail(self, error: BaseException) -> None:
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    @property
    def _linked(self) -> bool:
        return bool(self._reflectors) and all(one.watching for one in self._reflectors)

    async def _run(self, failure: asyncio.Future[None]) -> None:
        client = await KubeClient.connect(self._options.access)
        # Events have limits of their own, so that they do not hold up what they tell of.
        events = await KubeClient.connect(self._options.access)
        try:
            async with GatewayClient(self._options.gateway) as gateway:
                await self._offsets.start()
                self._reader.start()
                self._reflectors = [Reflector(client, one.path, self._state.sink(one.kind)) for one in MIRRORED]
                lease_sink = _LeaseSink(self)
                self._reflectors.append(Reflector(client, _LEASES, lease_sink))
                running = _Running(
                    self._options,
                    state=self._state,
                    tables=self._tables,
                    leases=self._leases,
                    client=client,
                    events=events,
                    gateway=gateway,
                )
                await self._together(failure, running, client)
        finally:
            self._running = None
            await asyncio.gather(self._reader.stop(), self._offsets.stop(), return_exceptions=True)
            await client.close()
            await events.close()

    async def _together(self, failure: asyncio.Future[None], running: _Running, client: KubeClient) -> None:
        async with asyncio.TaskGroup() as group:

            async def watch_failure() -> None:
                await asyncio.shield(failure)

            group.create_task(watch_failure())
            for reflector in self._reflectors:
                group.create_task(reflector.run(), name=f"reflector {reflector.path}")
            await self._reader.caught_up.wait()
            for reflector in self._reflectors:
                await reflector.synced.wait()
            self._running = running
            _log.info("bridge.ready", cluster=self._options.cluster or HOME, **_sizes(self._state))
            for work in running.tasks():
                group.create_task(work)
            group.create_task(self._watch_silence(running, client))
            running.compare_everything()

    # What changes, in the cluster and in the topics.

    def _seen(self, kind: str, key: str) -> None:
        if kind == NODE:
            name = ResourceKey.parse(key).name
            node = self._state.nodes.get(name)
            if node is None:
                self._leases.gone(name)
            else:
                self._leases.renewed(name, _now(), heartbeat=node.heartbeat)
        if self._running is not None:
            self._running.seen(kind, key)

    def _touched(self, kind: str, key: str) -> None:
        if self._running is not None:
            self._running.touched(kind, key)

    def renewed(self, node: str, time: str) -> None:
        """Note the Lease of a node."""
        if self._leases.renewed(node, _now(), lease=time) and self._running is not None:
            self._running.node_spoke(node)

    async def _watch_silence(self, running: _Running, client: KubeClient) -> None:
        """Find the nodes that have fallen silent, while the cluster is seen."""
        was_cut = False
        while True:
            now = _now()
            was_cut |= now - client.heard_at > _CUT
            try:
                # `/readyz` is open to everybody, so this needs no further right.
                await client.request("GET", "/readyz", tries=1)
            except (ApiError, OSError) as error:
                _log.debug("bridge.not_linked", error=str(error))
            else:
                if was_cut or not self._linked:
                    self._leases.grant(_now())
                    was_cut = not self._linked
                elif due := self._leases.due(_now()):
                    await self._confirm_silence(due, running, client)
            LINKED.set(self._linked and not was_cut)
            await asyncio.sleep(_PING)

    async def _confirm_silence(self, due: list[str], running: _Running, client: KubeClient) -> None:
        """Read the Leases themselves before nodes count as silent, because a watch may be behind."""
        try:
            if len(due) <= _SINGLE:
                found = [await self._lease(client, node) for node in due]
            else:
                found = list((await client.get(_LEASES)).get("items") or ())
        except (ApiError, OSError) as error:
            _log.warning("bridge.leases_not_read", error=str(error))
            return
        for lease in found:
            if lease is not None:
                self.renewed(*_renewal(lease))
        silent = [node for node in self._leases.due(_now()) if node in due]
        self._leases.silence(silent)
        for node in silent:
            _log.info("bridge.node_silent", node=node)
            running.node_spoke(node)

    @staticmethod
    async def _lease(client: KubeClient, node: str) -> dict[str, Any] | None:
        try:
            return await client.get(f"{_LEASES}/{node}")
        except ApiError as error:
            if error.status == 404:  # noqa: PLR2004 - it has none
                return None
            raise


class _LeaseSink:
    """Takes the Leases of nodes."""

    def __init__(self, bridge: KubernetesBridge) -> None:
        self._bridge = bridge

    def replaced(self, objects: Any) -> None:
        """See `Sink`."""
        for one in objects:
            self.changed(one)

    def changed(self, found: dict[str, Any]) -> None:
        """See `Sink`."""
        self._bridge.renewed(*_renewal(found))

    def deleted(self, found: dict[str, Any]) -> None:
        """See `Sink`. A Lease that is gone is not renewed, either."""


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
        events: KubeClient,
        gateway: GatewayClient,
    ) -> None:
        self._options = options
        self._state = state
        self._events_client = events
        source, cluster = options.source, options.cluster
        self.mirror = MirrorSender(
            source, cluster, gateway=gateway, tables=tables, present=state.object, sent=self._mirrored
        )
        self.observations = Observations(
            source, cluster, state=state, tables=tables, leases=leases, is_mirrored=self.mirror.has
        )
        self.reports = Reports(source, gateway, WallClock(), self.observations.present, self.observations.is_known)
        self.node_acts = NodeActs(client, tables, source, state.nodes.get, leases.is_silent)
        self.pod_acts = PodActs(
            client,
            tables,
            state.pods.get,
            tell=self._tell,
            failed=self._not_evicted,
            mode=options.eviction_mode,
        )
        acts = options.acts
        self._queues = {
            BridgeAct.TAINTS: ActQueue("taints", self._if_leading(self.node_acts.taint)),
            BridgeAct.CONDITIONS: ActQueue("conditions", self._if_leading(self.node_acts.condition)),
            BridgeAct.EVICTIONS: ActQueue("evictions", self._if_leading(self.pod_acts.evict)),
            BridgeAct.PLACEMENT: ActQueue("placement", self._if_leading(self.pod_acts.bind)),
        }
        self._queues = {act: queue for act, queue in self._queues.items() if act in acts}
        self._events: dict[str, dict[str, Any]] = {}
        self._event_queue = ActQueue("events", self._send_event, workers=_EVENT_WORKERS)
        self._election = (
            Election(
                client,
                namespace=options.lease_namespace,
                name=options.lease,
                identity=f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
                duration=options.lease_duration,
                on_change=self._leads,
            )
            if acts
            else None
        )
        self._leading = asyncio.Event()
        if self._election is None:
            self._leading.set()

    @property
    def may_act(self) -> bool:
        """Whether this process may write to the cluster now."""
        return bool(self._options.acts) and self._election is not None and self._election.leading

    def tasks(self) -> list[Coroutine[Any, Any, None]]:
        """Return what runs until the bridge is stopped."""
        found = [self._sends(), self._event_queue.run(), self._resync()]
        found += [queue.run() for queue in self._queues.values()]
        if self._election is not None:
            found.append(self._elect(self._election))
        return found

    def seen(self, kind: str, key: str) -> None:
        """Note that an object of the cluster has changed."""
        self.mirror.mark(key)
        if kind == NODE:
            self._node(ResourceKey.parse(key).name)
        elif kind == POD:
            self._pod(key)

    def touched(self, kind: str, key: str) -> None:
        """Note that the topics say something new about a node or a pod."""
        if kind == NODE:
            self._act(key, BridgeAct.TAINTS, BridgeAct.CONDITIONS)
        elif kind == POD:
            self._pod(key)

    def node_spoke(self, node: str) -> None:
        """Note that a node has fallen silent, or speaks again."""
        self._node(node)

    def compare_everything(self) -> None:
        """Compare all that the cluster has with all that the topics say."""
        present = self._state.keys
        self.mirror.mark(*self.mirror.gone(_KINDS, present), *present)
        for node in self._state.nodes:
            self._node(node)
        for pod in self._state.pods:
            self._pod(pod)

    def _node(self, name: str) -> None:
        self.reports.mark(*self.observations.of_node(name))
        self._act(name, BridgeAct.TAINTS, BridgeAct.CONDITIONS)

    def _pod(self, key: str) -> None:
        self.reports.mark(*self.observations.of_pod(key))
        if self.pod_acts.has_to_leave(key) is not None:
            self._act(key, BridgeAct.EVICTIONS)
        self._act(key, BridgeAct.PLACEMENT)

    def _act(self, key: str, *acts: BridgeAct) -> None:
        if self._leading.is_set():
            for act in acts:
                if (queue := self._queues.get(act)) is not None:
                    queue.add(key)

    def _if_leading(self, work: Any) -> Any:
        async def checked(key: str) -> None:
            if self.may_act:
                await work(key)

        return checked

    def _leads(self, leading: bool) -> None:  # noqa: FBT001 - a value that states what happened, not a switch
        if leading:
            self.mirror.forget()
            self.reports.forget_all()
            self._leading.set()
            self.compare_everything()
        else:
            self._leading.clear()

    async def _elect(self, election: Election) -> None:
        try:
            await election.run()
        finally:
            await asyncio.shield(election.release())

    async def _sends(self) -> None:
        """Mirror and report while this process leads. One that waits reads alone."""
        while True:
            await self._leading.wait()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.mirror.run()), group.create_task(self.reports.run())]
                while self._leading.is_set():  # noqa: ASYNC110 - who leads changes seldom
                    await asyncio.sleep(0.5)
                for task in tasks:
                    task.cancel()

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(_RESYNC)
            for node in self._state.nodes:
                for key in self.observations.of_node(node):
                    self._check(key)
            for pod in self._state.pods:
                for key in self.observations.of_pod(pod):
                    self._check(key)
            self.compare_everything()

    def _check(self, key: str) -> None:
        """Send a report again that the topics do not have, because it was refused after it was accepted."""
        report = self.reports.sent(key)
        if report is None or self.observations.is_known(key, report) or self.observations.is_taken_over(key):
            return
        self.reports.forget(key)

    def _mirrored(self, keys: Any) -> None:
        """Report on what can be reported on now."""
        for key in keys:
            if ResourceKey.parse(key).kind == NODE:
                self.reports.mark(*self.observations.of_node(ResourceKey.parse(key).name))

    def _not_evicted(self, key: str, why: str) -> None:
        if why:
            self.observations.failures[key] = why
        elif self.observations.failures.pop(key, None) is None:
            return
        self.reports.mark(*self.observations.of_pod(key))

    def _tell(self, event: dict[str, Any]) -> None:
        name = f"{event['metadata']['namespace']}/{event['metadata']['name']}"
        self._events[name] = event
        self._event_queue.add(name)

    async def _send_event(self, name: str) -> None:
        event = self._events.get(name)
        if event is None:
            return
        path = f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
        try:
            await self._events_client.request("POST", path, body=event)
        except ApiError as error:
            if error.status >= 500:  # noqa: PLR2004 - the server's fault, so it may succeed later
                raise
            if error.status != CONFLICT:
                _log.warning("bridge.event_refused", name=name, error=str(error))
        self._events.pop(name, None)


def _renewal(lease: dict[str, Any]) -> tuple[str, str]:
    """The node of a Lease, and when it was renewed."""
    return str(lease["metadata"]["name"]), str((lease.get("spec") or {}).get("renewTime") or "")


def _sizes(state: ClusterState) -> dict[str, int]:
    return {"nodes": len(state.nodes), "pods": len(state.pods)}


def _now() -> float:
    return asyncio.get_running_loop().time()


async def leave(settings: Settings, options: BridgeOptions) -> Left:
    """Take back what a bridge has written to its cluster and to the gateway. No bridge of it may run.

    Raises:
        RuntimeFailure: one does, or the cluster cannot be reached.
    """
    tables = DecidedTables(options.cluster, lambda _kind, _key: None)
    reader = GlobalReader(
        service=NAME,
        topics=(RESOURCES,),
        view=tables,
        settings=settings,
        partitions=settings.partitions,
        client_id=f"moorage-{NAME}-{uuid.uuid4().hex[:12]}",
        on_change=lambda _: None,
    )
    client = await KubeClient.connect(options.access)
    try:
        await check_nobody_acts(client, options.lease_namespace, options.lease)
        nodes = await clean_nodes(client)
        reader.start()
        await reader.caught_up.wait()
        async with GatewayClient(options.gateway) as gateway:
            objects = await forget_objects(gateway, tables, options.source, options.cluster)
    except (ApiError, GatewayError, OSError) as error:
        raise RuntimeFailure(str(error)) from None
    finally:
        await reader.stop()
        await client.close()
    return Left(nodes, objects)
