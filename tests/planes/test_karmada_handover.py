"""A control plane goes over from Karmada's controllers to Moorage and back, and nothing moves that need not move."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
from tests.conftest import RUN
from tests.planes.bridges import Bridge
from tests.planes.cluster import Cluster, connected
from tests.planes.karmada.engines import BRIDGE, GATES, Nobody, Upstream
from tests.planes.karmada.world import Followers, World, followed
from tests.planes.plane import started
from tests.support.brokers import Broker
from tests.support.live import running

pytestmark = pytest.mark.kafka

AWAY: Final = {"key": "example.com/away", "effect": "NoExecute"}
ONE: Final = [{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 1}]


class Plane:
    """Deployments on a control plane."""

    def __init__(self, cluster: Cluster, followers: Followers) -> None:
        self._cluster, self._followers = cluster, followers
        self._worlds = 0

    async def placed(self) -> tuple[World, str]:
        """A deployment on one of two clusters, and the name of the other, which it would choose as well."""
        self._worlds += 1
        world = World(f"handover-{self._worlds}", self._cluster, self._followers, Upstream())
        await world.open()
        members = {await world.member("m1"), await world.member("m2")}
        await world.deploy({"clusterAffinity": {"clusterNames": sorted(members)}, "spreadConstraints": ONE})
        (here,) = await world.placed(lambda found: len(found) == 1, "on one cluster")
        await world.healthy(here)
        (other,) = members - {here}
        return world, other

    async def leaving(self) -> tuple[World, str]:
        """A deployment that is leaving a cluster, and the name of that. Nobody says that its replacement is healthy."""
        world, other = await self.placed()
        (here,) = world.targets()
        await world.taint(here, AWAY)
        await world.placed(lambda found: found == {other}, f"on {other}")
        await world.untaint(here, AWAY)
        return world, here


def _shown(world: World) -> Any:
    spec = world.binding()["spec"]
    tasks = [(one["fromCluster"], one["producer"]) for one in spec.get("gracefulEvictionTasks") or ()]
    return spec["clusters"], tasks


async def test_a_control_plane_goes_over_to_moorage_and_back(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("moorage")
    async with started(tmp_path_factory.mktemp("plane")) as plane, AsyncExitStack() as stack:
        async with Upstream().deciding(plane):
            cluster = await stack.enter_async_context(connected(plane.folder))
            here = Plane(cluster, await stack.enter_async_context(followed(cluster)))
            stays, _ = await here.placed()
            leaves, left = await here.leaving()
            before = [_shown(stays), _shown(leaves)]
            assert before[1][1] != []
        async with Nobody().deciding(plane), running(broker.bootstrap, f"{RUN}-handover-", folder, **GATES) as live:
            bridge = Bridge(plane, live, folder, BRIDGE)
            try:
                await bridge.start()
                another, gone = await here.leaving()
                assert [_shown(stays), _shown(leaves)] == before
                await leaves.healthy(*leaves.targets())
                await leaves.disappears([left])
                await live.moorage("taint", "clusters.cluster.karmada.io", gone, "example.com/broken=:NoSchedule")
                await another.tainted(gone, ("example.com/broken", "NoSchedule"))
            finally:
                await bridge.stop()
            after = [_shown(one) for one in (stays, leaves, another)]
            assert after[2][1] != []
            done = await live.moorage("bridge", "leave", "karmada", "--kubeconfig", str(plane.kubeconfig))
            assert done.out.startswith("cleaned 1 clusters, and ")
            await another.tainted(gone)
        async with Upstream().deciding(plane):
            await here.placed()
            assert [_shown(one) for one in (stays, leaves, another)] == after
            await another.healthy(*another.targets())
            await another.disappears([gone])
