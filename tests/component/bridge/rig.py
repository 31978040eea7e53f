"""Whole bridges between an API server in this process and topics in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tests.component.bridge.gateway import GatewayDouble, serve_gateway
from tests.component.bridge.topics import NoOffsets, Topics, TopicsReader
from tests.support.kube_api import KubeApi, serve_kube_api
from tests.support.kube_store import Change
from tests.support.waiting import until

from moorage.bridges.engine.gateway_client import GatewayAddress
from moorage.bridges.engine.member import BridgeMember
from moorage.bridges.engine.plan import Link
from moorage.bridges.kube.client import ClusterAccess
from moorage.bridges.kube.election import Election
from moorage.bridges.kubernetes.cluster_bridge import BridgeAct, BridgeOptions, KubernetesBridge
from moorage.runtime.settings.process_settings import Settings

ALL: Final = frozenset(BridgeAct)


class Rig:
    """A cluster, the topics, the gateway, and the bridges between them."""

    def __init__(self, api: KubeApi, gateway: GatewayDouble, folder: Path) -> None:
        self.api = api
        self.store = api.store
        self.gateway = gateway
        self.topics = gateway.topics
        access = ClusterAccess(api.kubeconfig(folder))
        self.link = Link(access, GatewayAddress(gateway.server), "kube-system")
        self.bridges: list[BridgeMember[Any, Any]] = []

    async def start(self, *, acts: Iterable[BridgeAct] = ALL, **options: Any) -> KubernetesBridge:
        """Start a bridge. It may not be ready yet. Nodes need no Lease, unless a grace period is given."""
        found = BridgeOptions(self.link, acts=frozenset(acts), **{"grace": 1e9, **options})
        bridge = KubernetesBridge(Settings(), found)
        await self.begin(bridge)
        return bridge

    async def begin(self, bridge: BridgeMember[Any, Any]) -> None:
        """Start a bridge of any kind."""
        stand_ins = {"_reader": TopicsReader(self.topics, bridge._tables), "_offsets": NoOffsets()}
        for name, stand_in in stand_ins.items():
            setattr(bridge, name, stand_in)
        await bridge.start()
        self.bridges.append(bridge)

    async def run(self, **options: Any) -> KubernetesBridge:
        """Start a bridge, and wait until it acts, or mirrors if it is not to act."""
        bridge = await self.start(**options)
        await until(lambda: bridge.ready and (not bridge.report()["acts"] or leads(bridge)))
        return bridge

    async def stop(self, bridge: BridgeMember[Any, Any]) -> None:
        """Stop a bridge in order."""
        self.bridges.remove(bridge)
        await bridge.stop()

    async def kill(self, bridge: BridgeMember[Any, Any]) -> None:
        """End a bridge without a word: its Lease stays, and nothing that it has begun is finished."""
        self.bridges.remove(bridge)
        with patch.object(Election, "release", _nothing):
            await bridge.stop()

    def pods_go(self) -> None:
        """Let pods that are deleted be gone at once, as kubelets do."""

        def told(change: Change) -> None:
            metadata = change.object["metadata"]
            if change.resource.kind == "Pod" and change.type != "DELETED" and metadata.get("deletionTimestamp"):
                asyncio.get_running_loop().call_soon(self._gone, metadata["name"], metadata["namespace"])

        self.store.told.append(told)

    def _gone(self, name: str, namespace: str) -> None:
        if self.store.has("Pod", name, namespace):
            self.store.delete("Pod", name, namespace)

    async def quiet(self, seconds: float = 5.0) -> None:
        """Let time pass in which everything that follows from what has happened is done."""
        await asyncio.sleep(seconds)
        for bridge in self.bridges:
            task = bridge._task
            assert task is not None
            assert not task.done(), "a bridge has ended"


@asynccontextmanager
async def rig(folder: Path) -> AsyncIterator[Rig]:
    """Both ends, and no bridge yet."""
    async with serve_kube_api() as api, serve_gateway(Topics()) as gateway:
        found = Rig(api, gateway, folder)
        try:
            yield found
        finally:
            api.heal()
            for bridge in tuple(found.bridges):
                await found.stop(bridge)


def leads(bridge: BridgeMember[Any, Any]) -> bool:
    return bool(bridge.report()["leading"])


async def _nothing(_election: Election) -> None:
    """Release no Lease."""
