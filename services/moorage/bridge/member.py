"""The life of a bridge: it reads the topics and its cluster, and then sends and acts until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import uuid
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from moorage.bridge import identity
from moorage.bridge.gateway_client import GatewayAddress, GatewayClient, GatewayError
from moorage.bridge.kube.client import ClusterAccess, KubeClient
from moorage.bridge.kube.election import Election
from moorage.bridge.kube.permissions import MissingPermissions
from moorage.bridge.kube.reflector import Reflector
from moorage.bridge.mirror import MirrorSender
from moorage.bridge.reports import Reports
from moorage.bridge.tables import TargetTables
from moorage.runtime.errors import first_of
from moorage.runtime.kafka.consumer_lag import Behind
from moorage.runtime.kafka.global_tables import GlobalReader
from moorage.runtime.kafka.offsets import Offsets
from moorage.runtime.member import TaskMember
from moorage.runtime.settings import Settings
from moorage_schemas.topics import Topic

_log = structlog.get_logger(__name__)

NAME: Final = "bridge"

_HEARTBEAT: Final = 30.0
"""Seconds between two signs of life for the gateway (`GET /v1/clusters`)."""

Work = Coroutine[Any, Any, None]


@dataclass(frozen=True, slots=True)
class Link:
    """How a bridge reaches its cluster and the gateway, and how one of several is elected.

    Attributes:
        access: which cluster, and as whom.
        gateway: where objects and reports are sent.
        lease_namespace: where the Lease is that elects one of several bridges.
        lease_duration: seconds without a renewal after which another bridge takes it.
    """

    access: ClusterAccess
    gateway: GatewayAddress
    lease_namespace: str
    lease_duration: float = 3.0


class BridgeLeadership:
    """Whether this process may send and act. Of several bridges one may.

    A bridge without acts needs no right to write to its cluster, so it has no Lease there and is always allowed.

    Args:
        client: of the cluster.
        link: says where the Lease is.
        name: of the Lease.
        is_acting: whether the bridge has acts.
        begins: called when this process begins to lead.
    """

    def __init__(
        self, client: KubeClient, link: Link, name: str, *, is_acting: bool, begins: Callable[[], None]
    ) -> None:
        self._begins = begins
        self._leading = asyncio.Event()
        self._election = (
            Election(
                client,
                namespace=link.lease_namespace,
                name=name,
                identity=f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
                duration=link.lease_duration,
                on_change=self._changed,
            )
            if is_acting
            else None
        )
        if self._election is None:
            self._leading.set()

    @property
    def may_send(self) -> bool:
        """Whether this process may send to the gateway."""
        return self._leading.is_set()

    @property
    def may_act(self) -> bool:
        """Whether this process may write to the cluster now."""
        return self._election is not None and self._election.leading

    def checked(self, work: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
        """Return an act that is only done while this process may.

        It raises `OSError` while a leader does not know whether it still holds the Lease, because a renewal is late. An
        act that was only left out would be lost: nobody begins to lead when the renewal comes after all.
        """

        async def act(key: str) -> None:
            if self.may_act:
                await work(key)
            elif self.may_send:
                raise OSError("the Lease of this bridge is not renewed yet")

        return act

    async def run(self) -> None:
        """Take part in the election until cancelled, and give the Lease back."""
        if self._election is None:
            return
        try:
            await self._election.run()
        finally:
            await asyncio.shield(self._election.release())

    async def send(self, *senders: MirrorSender | Reports) -> None:
        """Mirror and report while this process leads. One that waits reads alone."""
        while True:
            await self._leading.wait()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(sender.run()) for sender in senders]
                while self._leading.is_set():  # noqa: ASYNC110 - who leads changes seldom
                    await asyncio.sleep(0.5)
                for task in tasks:
                    task.cancel()

    def _changed(self, leading: bool) -> None:  # noqa: FBT001 - a value that states what happened, not a switch
        if leading:
            self._leading.set()
            self._begins()
        else:
            self._leading.clear()


class BridgeMember(TaskMember):
    """Bridges one cluster until it is stopped. See `Member`.

    Args:
        settings: the address of Kafka, with the fleet's actual number of partitions.
        link: how the cluster and the gateway are reached.
        topics: those that the tables are made of.
        tables: what the topics say.
        source: of what the bridge says.
        fleet: the name of the cluster in references. Empty for the home fleet.
    """

    def __init__(
        self,
        settings: Settings,
        link: Link,
        topics: Sequence[Topic],
        tables: TargetTables,
        *,
        source: str,
        fleet: str = "",
    ) -> None:
        super().__init__(NAME)
        self._link = link
        self._known = tables
        self._source = source
        self._fleet = fleet
        self._reflectors: list[Reflector] = []
        self._begun = False
        self._refusals = MissingPermissions()
        client_id = f"moorage-{NAME}-{uuid.uuid4().hex[:12]}"
        self._offsets = Offsets(settings, name=client_id)
        self._reader = GlobalReader(
            service=NAME,
            topics=topics,
            view=tables,
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
        return self._begun and self._reader.sound

    @property
    def restored(self) -> object:
        """See `Member`."""
        return self._known if self.ready else None

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
        """Return the progress of reading, how the link is, and what the cluster does not permit."""
        refused = self._refusals.current()
        return {
            "ready": self.ready,
            "tables": round(self._reader.progress, 3),
            "linked": self._linked,
            **self._state_of(),
            **({"refused": refused} if refused else {}),
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
        """Whether everything that happens in the cluster is seen."""
        return bool(self._reflectors) and all(one.watching for one in self._reflectors)

    async def _run(self, failure: asyncio.Future[None]) -> None:
        client = await KubeClient.connect(self._link.access, self._refusals)
        try:
            async with GatewayClient(self._link.gateway) as gateway, asyncio.TaskGroup() as group:

                async def watch_failure() -> None:
                    await asyncio.shield(failure)

                group.create_task(watch_failure())
                await self._offsets.start()
                self._reader.start()
                self._reflectors = self._follows(client)
                for reflector in self._reflectors:
                    group.create_task(reflector.run(), name=f"reflector {reflector.path}")
                await self._reader.caught_up.wait()
                for reflector in self._reflectors:
                    await reflector.synced.wait()
                uid = gateway.cluster_uid = await identity.wait_for_uid(client)
                identity.check_uid(self._known, self._source, uid, self._fleet)
                group.create_task(identity.watch_uid(client, uid))
                group.create_task(self._heartbeat(gateway))
                for work in self._begin(client, gateway):
                    group.create_task(work)
                self._begun = True
                _log.info("bridge.ready", **self._state_of())
        except BaseExceptionGroup as errors:
            raise first_of(errors) from errors
        finally:
            self._begun = False
            await asyncio.gather(self._reader.stop(), self._offsets.stop(), return_exceptions=True)
            await client.close()

    async def _heartbeat(self, gateway: GatewayClient) -> None:
        """Tell the gateway regularly that this bridge is there, also while nothing changes in the cluster."""
        while True:
            with contextlib.suppress(GatewayError):  # what is sent beside it is logged
                await gateway.mirror(self._source, self._fleet, (), ())
            await asyncio.sleep(_HEARTBEAT)

    @abstractmethod
    def _follows(self, client: KubeClient) -> list[Reflector]:
        """Return the reflectors of everything that is followed in the cluster."""

    @abstractmethod
    def _begin(self, client: KubeClient, gateway: GatewayClient) -> Collection[Work]:
        """Begin to send and to act, since the cluster and the topics are known. Return what runs from now on."""

    @abstractmethod
    def _state_of(self) -> dict[str, Any]:
        """Return what a report and the log say of the bridge."""
