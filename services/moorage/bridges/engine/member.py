"""The life of a bridge: it reads the topics and its cluster, and then sends and acts until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import structlog
from typing_extensions import override

from moorage.bridges.engine import identity
from moorage.bridges.engine.gateway_client import GatewayClient, GatewayError
from moorage.bridges.engine.loop import BridgeLoop, BridgeOutlets
from moorage.bridges.engine.plan import Act, BridgePlan
from moorage.bridges.engine.seen_state import LEASE, SeenState, StateSink
from moorage.bridges.engine.silence import Leases, SilenceWatch
from moorage.bridges.engine.target_tables import TargetTables
from moorage.bridges.kube.client import KubeClient
from moorage.bridges.kube.permissions import MissingPermissions
from moorage.bridges.kube.reflector import Reflector
from moorage.runtime.kafka.tables.global_tables import GlobalReader
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.process.failures import first_of
from moorage.runtime.process.member import Behind, TaskMember
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.keys import ResourceKey

_log = structlog.get_logger(__name__)

NAME: Final = "bridge"

_HEARTBEAT: Final = 30.0
"""Seconds between two signs of life for the gateway (`GET /v1/clusters`)."""

State = TypeVar("State", bound=SeenState[Any])


class BridgeMember(TaskMember, Generic[Act, State]):
    """A bridge to one cluster, until it is stopped.

    Args:
        settings: the address of Kafka, with the fleet's actual number of partitions.
        state: what it sees, which calls `_noticed`.
        tables: the content of the topics, which calls `_touched`.
        loop: makes what sends and acts, once the cluster and the topics are known.
    """

    def __init__(
        self,
        settings: Settings,
        plan: BridgePlan[Act],
        state: State,
        tables: TargetTables,
        loop: Callable[[BridgeOutlets[Act]], BridgeLoop[Act, State]],
    ) -> None:
        super().__init__(NAME)
        self._plan = plan
        self._state = state
        state.keeps_taints = plan.keeps_taints
        self._tables = tables
        self._leases = Leases(plan.grace)
        self._loop = loop
        self._loops: tuple[BridgeLoop[Act, State], ...] = ()
        """The one that runs, if one does."""

        self._reflectors: tuple[Reflector, ...] = ()
        self._refusals = MissingPermissions()
        client_id = f"moorage-{NAME}-{uuid.uuid4().hex[:12]}"
        self._offsets = Offsets(settings, name=client_id)
        self._reader = GlobalReader(
            service=NAME,
            topics=tables.topics,
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
        """Whether it has read the cluster and the topics."""
        return bool(self._loops) and self._reader.sound

    @property
    def restored(self) -> object:
        """The content of the topics, once it is ready."""
        return self._tables if self.ready else None

    @property
    def idle(self) -> bool:
        """Whether it has read the topics once. That the cluster is away for long is no failure of this process."""
        return self._reader.caught_up.is_set()

    @property
    def lacks(self) -> str:
        """The reason why it is not idle."""
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

    @override
    async def _run(self, failure: asyncio.Future[None]) -> None:
        plan = self._plan
        client = await KubeClient.connect(plan.link.access, self._refusals)
        try:
            async with (
                GatewayClient(plan.link.gateway, keeps_taints=plan.keeps_taints) as gateway,
                asyncio.TaskGroup() as group,
            ):

                async def watch_failure() -> None:
                    await asyncio.shield(failure)

                group.create_task(watch_failure())
                await self._offsets.start()
                self._reader.start()
                self._reflectors = tuple(
                    Reflector(client, one.path, StateSink(self._state, one.kind), one.params) for one in plan.followed
                )
                for reflector in self._reflectors:
                    group.create_task(reflector.run(), name=f"reflector {reflector.path}")
                await self._reader.caught_up.wait()
                for reflector in self._reflectors:
                    await reflector.synced.wait()
                uid = gateway.cluster_uid = await identity.wait_for_uid(client)
                identity.check_uid(self._tables, plan.source, uid, plan.cluster)
                group.create_task(identity.watch_uid(client, uid))
                group.create_task(self._heartbeat(gateway))
                loop = self._loop(
                    BridgeOutlets(plan, self._state, self._tables, self._leases, client=client, gateway=gateway)
                )
                loop.begin()
                for work in (*loop.tasks(), self._silence_watch(client, loop).run()):
                    group.create_task(work)
                self._loops = (loop,)
                _log.info("bridge.ready", **self._state_of())
        except BaseExceptionGroup as errors:
            raise first_of(errors) from errors
        finally:
            self._loops = ()
            await asyncio.gather(self._reader.stop(), self._offsets.stop(), return_exceptions=True)
            await client.close()

    async def _heartbeat(self, gateway: GatewayClient) -> None:
        """Report regularly to the gateway that this bridge runs, also while nothing changes in the cluster."""
        while True:
            with contextlib.suppress(GatewayError):  # what is sent beside it is logged
                await gateway.mirror(self._plan.source, self._plan.cluster, (), ())
            await asyncio.sleep(_HEARTBEAT)

    def _silence_watch(self, client: KubeClient, loop: BridgeLoop[Act, State]) -> SilenceWatch:
        return SilenceWatch(
            client,
            self._leases,
            self._plan.leases,
            linked=lambda: self._linked,
            renewed=lambda lease: self._state.put(LEASE, lease),
            changed=loop.target_changed,
        )

    def _state_of(self) -> dict[str, Any]:
        """Return the fields of the bridge for a report and the log."""
        return {
            "acts": sorted(self._plan.acts),
            "leading": any(one.leadership.may_act for one in self._loops),
            "fleet_known": any(one.gate.is_open for one in self._loops),
        }

    def _grace(self, target: Any) -> float:  # noqa: ARG002 - for targets that have one of their own
        """Return seconds without a sign of life after which a target is silent."""
        return self._plan.grace

    # What changes, in the cluster and in the topics.

    def _noticed(self, kind: str, key: str) -> None:
        """Note that an object of the cluster has changed."""
        if leased := self._state.leased(kind, key):
            if self._renewed(leased):
                for loop in self._loops:
                    loop.target_changed(leased)
            return
        if kind == self._plan.target:
            name = ResourceKey.parse(key).name
            target = self._state.targets.get(name)
            if target is None:
                self._leases.gone(name)
            else:
                self._leases.set_grace(name, self._grace(target))
                self._renewed(name)
        for loop in self._loops:
            loop.seen(kind, key)

    def _renewed(self, name: str) -> bool:
        """Note the last sign of life of a target. Return whether it is no longer silent.

        For a target that does not exist nothing is noted. Otherwise a new one of its name would be silent from the
        start.
        """
        target = self._state.targets.get(name)
        if target is None:
            return False
        now, lease = asyncio.get_running_loop().time(), self._state.renewals.get(name, "")
        return self._leases.renewed(name, now, lease=lease, heartbeat=target.heartbeat)

    def _touched(self, kind: str, key: str) -> None:
        """Note a change in the topics."""
        for loop in self._loops:
            loop.touched(kind, key)
