"""The roles of ops/kubernetes/bridge are what a bridge needs: no less, and no more.

A bridge with all acts runs as their service account, with the kubeconfig that the page makes of it. The API server's
audit has each of its requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from tests.conftest import RUN
from tests.planes.cluster import Cluster, connected
from tests.planes.kubernetes.engines import Moorage
from tests.planes.kubernetes.world import World, followed
from tests.planes.pages import shell, typed
from tests.planes.plane import started
from tests.planes.roles import Permission, audit_flags, audited, documents_of, grant, granted, permits, without
from tests.support import manifests
from tests.support.brokers import Broker
from tests.support.live import Live
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

ACCOUNT: Final = "moorage-bridge"
USER: Final = f"system:serviceaccount:{manifests.NAMESPACE}:{ACCOUNT}"
DOCUMENTS: Final = documents_of("kubernetes")
NAMES: Final = {"namespaces": "kube-system"}

# What the bridge of this test has no reason to do, or only by chance.
ELSEWHERE: Final = {
    ("", "nodes", "get"): "only after somebody else has changed the node's taints at the same time",
    ("", "pods/eviction", "create"): "only with --eviction=api",
    ("", "events", "patch"): "only when the same happens again",
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def requests(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Cluster, Path]]:
    """A cluster on which a bridge did one thing of each kind, and the audit of what it has requested."""
    folder = tmp_path_factory.mktemp("plane")
    typing = tmp_path_factory.mktemp("typing")
    audit, flags = audit_flags(folder, USER)
    async with started(folder) as plane:
        await plane.up(flags={"APISERVER_FLAGS": flags})
        await plane.down("kube-controller-manager")  # the engine starts it without the controllers that it replaces
        async with connected(plane.folder) as cluster:
            shell(typing, plane)
            for title in ("the other cluster", "its kubeconfig"):
                await typed(typing, title)
            access = ("--kubeconfig", str(typing / "east.kubeconfig"), "--lease-namespace", manifests.NAMESPACE)
            engine = Moorage(broker.bootstrap, f"{RUN}-roles-", tmp_path_factory.mktemp("moorage"), access)
            async with engine.bridged(plane) as bridge, followed(cluster) as followers:
                world = World("roles", plane, cluster, followers, engine)
                await world.open()
                await _something_of_everything(world, bridge.live)
            yield cluster, audit


async def _something_of_everything(world: World, live: Live) -> None:
    """Let the bridge bind a pod, say why one waits, set a taint, evict a pod, and show a condition."""
    node = await world.node()
    for name in ("n2", "n3"):
        await world.node(name)
    await world.start_pod("bound", scheduler=world.engine.scheduler, nodeSelector={"kubernetes.io/hostname": node})
    assert await world.bound("bound") == node
    await world.start_pod("waits", scheduler=world.engine.scheduler, nodeSelector={"example.com/no-node": "has-it"})
    await world.unschedulable("waits")
    await world.event("waits", "FailedScheduling")
    await world.run_pod("leaves", node=node)
    await world.taint(node, {"key": "example.com/gone", "effect": "NoExecute"})
    await world.leaving("leaves")
    await world.event("leaves", "TaintManagerEviction")
    await world.condition(f"{world.name}-n2", "Ready", "False")
    await world.has_taint(f"{world.name}-n2", "node.kubernetes.io/not-ready", "NoSchedule")
    done = await live.moorage("report", f"node/{world.name}-n3", "ExampleHealthy=False")
    assert done.code == 0
    await world.has_condition(f"{world.name}-n3", "ExampleHealthy", "False")


async def test_a_bridge_is_refused_nothing_and_uses_every_rule(requests: tuple[Cluster, Path]) -> None:
    found = audited(requests[1])
    assert [one for one in found if one.code in (401, 403)] == []
    used, permitted = {one.permission for one in found}, granted(DOCUMENTS)
    assert used <= permitted
    assert permitted - used <= ELSEWHERE.keys()
    # These rules are in the roles of two acts, for each needs them.
    for pod in ("waits", "leaves"):
        assert any(one.permission == ("", "pods/status", "patch") and one.name == pod for one in found), pod
    leases = {(one.namespace, one.permission[2]) for one in found if one.permission[1] == "leases"}
    assert leases == {
        *((manifests.NAMESPACE, verb) for verb in ("create", "get", "update")),
        *(("kube-node-lease", verb) for verb in leases_of_nodes(leases)),
    }


def leases_of_nodes(leases: set[tuple[str, str]]) -> set[str]:
    """How the Leases of nodes are read: by one watch, and singly only when a node seems silent."""
    verbs = {verb for space, verb in leases if space == "kube-node-lease"}
    assert {"list", "watch"} <= verbs <= {"list", "watch", "get"}
    return verbs


@pytest.mark.parametrize("permission", sorted(granted(DOCUMENTS)), ids=" ".join)
async def test_without_a_rule_the_server_refuses_what_it_is_for(
    requests: tuple[Cluster, Path], permission: Permission
) -> None:
    cluster, _ = requests
    roles = [one for one in DOCUMENTS if permission in granted([one])]
    spaces = {one["metadata"].get("namespace", "default") for one in roles}

    async def permitted(space: str) -> bool:
        return await permits(cluster, USER, permission, space, NAMES)

    for space in spaces:
        assert await permitted(space)
    try:
        await grant(cluster, [without(one, permission) for one in roles])

        async def refused() -> bool:
            return not any([await permitted(space) for space in spaces])

        await until(refused, 30, "it is still permitted")
    finally:
        await grant(cluster, roles)
