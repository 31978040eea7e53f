"""The roles of ops/kubernetes/bridge are what a bridge needs: no less, and no more.

A bridge with all acts runs as their service account. The API server's audit has each of its requests.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml
from tests.conftest import RUN
from tests.planes.cluster import APPLY, Cluster, connected
from tests.planes.kubernetes.engines import Moorage
from tests.planes.kubernetes.world import World, followed
from tests.planes.plane import Plane, started
from tests.planes.roles import Permission, audit_flags, audited, grant, granted, path_of, without
from tests.support import manifests
from tests.support.brokers import Broker
from tests.support.live import Live
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

ACCOUNT: Final = "moorage-bridge"
USER: Final = f"system:serviceaccount:{manifests.NAMESPACE}:{ACCOUNT}"
ACTS: Final = ("taints", "evictions", "placement", "conditions", "election")
FILES: Final = ("mirror.yaml", *(f"acts/{act}.yaml" for act in ACTS))

# What the bridge of this test has no reason to do, or only by chance.
ELSEWHERE: Final = {
    ("", "nodes", "get"): "only after somebody else has changed the node's taints at the same time",
    ("", "pods/eviction", "create"): "only with --eviction=api",
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def requests(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Cluster, Path]]:
    """A cluster on which a bridge did one thing of each kind, and the audit of what it has requested."""
    folder = tmp_path_factory.mktemp("plane")
    kubeconfig = folder / "bridge.kubeconfig"
    audit, flags = audit_flags(folder, USER)
    async with started(folder) as plane:
        await plane.up(flags={"APISERVER_FLAGS": flags})
        await plane.down("kube-controller-manager")  # the engine starts it without the controllers that it replaces
        async with connected(plane.folder) as cluster:
            await _grant(cluster)
            kubeconfig.write_text(json.dumps(await _as_account(cluster, plane)))
            access = ("--kubeconfig", str(kubeconfig), "--lease-namespace", manifests.NAMESPACE)
            engine = Moorage(broker.bootstrap, f"{RUN}-roles-", tmp_path_factory.mktemp("moorage"), access)
            async with engine.bridged(plane) as bridge, followed(cluster) as followers:
                world = World("roles", plane, cluster, followers, engine)
                await world.open()
                await _something_of_everything(world, bridge.live)
            yield cluster, audit


def documents() -> list[dict[str, Any]]:
    """The roles and bindings of the manifests."""
    texts = [(manifests.KUBERNETES / "bridge" / file).read_text("utf-8") for file in FILES]
    return [one for text in texts for one in yaml.safe_load_all(text)]


async def _grant(cluster: Cluster) -> None:
    place = "/api/v1/namespaces"
    await cluster.create(place, {"metadata": {"name": manifests.NAMESPACE}})
    await cluster.create(f"{place}/{manifests.NAMESPACE}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
    await grant(cluster, documents())


async def _as_account(cluster: Cluster, plane: Plane) -> dict[str, Any]:
    """A kubeconfig with a token of the service account."""
    place = f"/api/v1/namespaces/{manifests.NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    made = await cluster.create(place, {"spec": {"expirationSeconds": 3600}})
    config: dict[str, Any] = yaml.safe_load(plane.kubeconfig.read_text("utf-8"))
    config["users"][0]["user"] = {"token": made["status"]["token"]}
    return config


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
    used, permitted = {one.permission for one in found}, granted(documents())
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


@pytest.mark.parametrize("permission", sorted(granted(documents())), ids=" ".join)
async def test_without_a_rule_the_server_refuses_what_it_is_for(
    requests: tuple[Cluster, Path], permission: Permission
) -> None:
    cluster, _ = requests
    roles = [one for one in documents() if permission in granted([one])]
    spaces = {one["metadata"].get("namespace", "default") for one in roles}

    async def permitted(space: str) -> bool:
        return await _permits(cluster, permission, space)

    for space in spaces:
        assert await permitted(space)
    try:
        for one in roles:
            await cluster.patch(f"{path_of(one)}?fieldManager=ops&force=true", without(one, permission), APPLY)

        async def refused() -> bool:
            return not any([await permitted(space) for space in spaces])

        await until(refused, 30, "it is still permitted")
    finally:
        for one in roles:
            await cluster.patch(f"{path_of(one)}?fieldManager=ops&force=true", one, APPLY)


async def _permits(cluster: Cluster, permission: Permission, space: str) -> bool:
    group, resource, verb = permission
    name, _, part = resource.partition("/")
    about = {"group": group, "resource": name, "subresource": part, "verb": verb, "namespace": space}
    if resource == "leases" and space == manifests.NAMESPACE and verb != "create":
        about["name"] = "moorage-bridge-home"
    if resource == "namespaces":
        about["name"] = "kube-system"
    review = {"spec": {"user": USER, "groups": ["system:serviceaccounts"], "resourceAttributes": about}}
    answer = await cluster.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
