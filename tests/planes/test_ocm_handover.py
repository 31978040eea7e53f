"""A hub goes over from OCM's own placement controller to Moorage, and back, and nothing moves that need not move."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from tests.conftest import RUN
from tests.planes.bridges import Bridge
from tests.planes.cluster import Cluster, Document, connected
from tests.planes.ocm.engines import Nobody, Upstream
from tests.planes.ocm.world import Followers, World, followed
from tests.planes.plane import Plane, started
from tests.support.brokers import Broker
from tests.support.live import Live, running

pytestmark = pytest.mark.kafka

NOTE: Final = "moorage.io/taints"


class Hub:
    """Placements on a hub."""

    def __init__(self, cluster: Cluster, followers: Followers) -> None:
        self._cluster, self._followers = cluster, followers
        self._worlds = 0

    async def world(self) -> World:
        """A placement's part of the hub, with five clusters and no placement yet."""
        self._worlds += 1
        world = World(f"handover-{self._worlds}", self._cluster, self._followers, Upstream())
        await world.open()
        await world.bound_set(world.own("set"))
        return world

    async def placed(self) -> World:
        """A placement of two of five clusters, which are others than it would choose now."""
        world = await self.world()
        names = await world.clusters(world.own("set"), 5)
        for name in names[:3]:
            await world.taint(name, "example.com/away", "", "NoSelect")
        await world.place(numberOfClusters=2)
        await world.selects(names[3:])
        for name in names[:3]:
            await world.untaint(name, "example.com/away")
        return world

    async def decides(self) -> None:
        """Return when somebody has decided on a placement that is new."""
        world = await self.world()
        names = await world.clusters(world.own("set"), 1)
        await world.place()
        await world.selects(names)

    async def tainted(self, name: str, *keys: str) -> Document:
        """Return a cluster when it has taints of exactly these keys."""
        return await World("any", self._cluster, self._followers, Upstream()).tainted(name, *keys)


def _shown(world: World) -> list[Any]:
    """What the hub has of the decisions of a placement, with the versions."""
    return [(one["metadata"]["uid"], one["status"]["decisions"]) for one in world.decisions()]


async def test_a_hub_goes_over_to_moorage_and_back(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("moorage")
    async with (
        started(tmp_path_factory.mktemp("plane")) as plane,
        Nobody().deciding(plane),
        connected(plane.folder) as cluster,
        followed(cluster) as followers,
    ):
        hub = Hub(cluster, followers)
        async with Upstream().deciding(plane):
            first = await hub.placed()
            before = _shown(first)
        async with running(broker.bootstrap, f"{RUN}-handover-ocm-", folder) as live:
            bridge = Bridge(plane, live, folder, ("ocm",))
            try:
                await bridge.start()
                await hub.decides()
                assert _shown(first) == before
                second = await hub.placed()
                # One that need not stay moves, and Moorage's taint with it.
                await _mirrored_untainted(live, second)
                gone = second.selected()[0]
                await live.moorage("taint", "managedcluster", gone, "example.com/broken=:NoSelect")
                tainted = await hub.tainted(gone, "example.com/broken")
                assert NOTE in tainted["metadata"]["annotations"]
                await second.selects([f"{second.name}-c000", second.selected()[-1]])
            finally:
                await bridge.stop()
            after = [_shown(first), _shown(second)]
            left = await live.moorage("bridge", "leave", "ocm", "--kubeconfig", str(plane.kubeconfig))
            assert left.out.startswith("cleaned 1 clusters, and ")
            assert NOTE not in (await hub.tainted(gone))["metadata"].get("annotations", {})
            assert (await live.moorage("get", "managedclusters", "-o", "json")).json["items"] == []
        await _goes_on(plane, hub)
        assert [_shown(first), _shown(second)] == after


async def _mirrored_untainted(live: Live, world: World) -> None:
    """Return when Moorage shows that no cluster of a placement has a taint, so that it may choose any of them."""
    async with asyncio.timeout(60):
        while True:
            found = (await live.moorage("get", "managedclusters", "-o", "json")).json["items"]
            own = [one for one in found if one["metadata"]["name"].startswith(f"{world.name}-")]
            if len(own) == 5 and not any(one["spec"].get("taints") for one in own):
                return


async def _goes_on(plane: Plane, hub: Hub) -> None:
    """OCM's own controller decides again."""
    async with Upstream().deciding(plane):
        await hub.decides()
