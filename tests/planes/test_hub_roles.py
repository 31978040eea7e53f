"""The roles of the bridges to a hub and to a Karmada control plane are what these need: no less, and no more.

A bridge with all acts runs with them. The API server's audit has each of its requests. Then each permission is taken
away in turn: the bridge says which one it lacks, does everything else, and does the rest when it has it again.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import pytest_asyncio
from tests.conftest import RUN
from tests.planes.bridges import Bridge
from tests.planes.cluster import Cluster, connected
from tests.planes.engines import Engine
from tests.planes.karmada import engines as karmada_engines
from tests.planes.karmada import world as karmada_world
from tests.planes.ocm import engines as ocm_engines
from tests.planes.ocm import world as ocm_world
from tests.planes.plane import Plane, started
from tests.planes.roles import (
    Audited,
    Permission,
    applied,
    as_account,
    audit_flags,
    audited,
    documents_of,
    grant,
    granted,
    permits,
    without,
)
from tests.support import manifests
from tests.support.brokers import Broker
from tests.support.live import Live, running
from tests.support.waiting import until

from moorage.bridges.karmada import plane_bridge as karmada_bridge
from moorage.bridges.kube import permissions
from moorage.bridges.ocm import hub_bridge as ocm_bridge

pytestmark = pytest.mark.kafka

_AT_ONCE: Final = 4  # bridges
_CLUSTERS: Final = "cluster.open-cluster-management.io"
_LEASES: Final = ("coordination.k8s.io", "leases")
_CONFLICT: Final = "only after somebody else has changed it at the same time"
_SILENT: Final = "only before a cluster counts as silent"
_AGAIN: Final = "only when the same happens again"

Step = Callable[[Cluster, Live, str], Awaitable[None]]
"""Lets the bridge do something, under a name that nothing else has, and returns when it has."""


@dataclass(frozen=True)
class Case:
    """A bridge, and what it has no reason to do in this test, or only by chance."""

    kind: str
    account: tuple[str, str]
    """The namespace and the name of its service account, and the namespace of its Lease."""

    lease: str
    words: tuple[str, ...]
    settings: Mapping[str, Any]
    undecided: Engine
    everything: Step
    place: Step
    taint: Step
    targets: Permission
    """What taints are written with."""

    elsewhere: Mapping[Permission, str]

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Its roles, and their bindings."""
        return documents_of(self.kind)

    @property
    def reading(self) -> list[dict[str, Any]]:
        """Those of a bridge without acts."""
        names = ("-mirror", "-heartbeats")
        return [one for one in self.documents if one["metadata"]["name"].endswith(names)]

    @property
    def acting(self) -> list[dict[str, Any]]:
        """Those of the acts and of the election."""
        return [one for one in self.documents if one not in self.reading]


async def _hub(cluster: Cluster, live: Live, name: str) -> None:
    """Let the bridge write and delete decisions, taint a cluster, and set the label of an add-on."""
    async with ocm_world.followed(cluster) as followers:
        world = ocm_world.World(name, cluster, followers, ocm_engines.Nobody())
        world.patience = 90.0
        await world.open()
        await world.bound_set(f"{name}-set")
        first, second = await world.clusters(f"{name}-set", 2)
        groups = {"groupStrategy": {"clustersPerDecisionGroup": 1}}
        await world.place(decisionStrategy=groups)
        await world.numbers(2, 2)
        await world.condition("PlacementSatisfied", "True")
        await live.moorage("taint", "managedcluster", first, "example.com/broken=:NoSelect")
        await world.tainted(first, "example.com/broken")
        await world.numbers(1, 1)
        await world.relabel_decision()
        await world.add_on(second, "work")
        await world.labelled(second, "feature.open-cluster-management.io/addon-work", "available")


async def _hub_places(cluster: Cluster, _: Live, name: str) -> None:
    async with ocm_world.followed(cluster) as followers:
        world = ocm_world.World(name, cluster, followers, ocm_engines.Nobody())
        world.patience = 60.0
        await world.open()
        await world.bound_set(f"{name}-set")
        await world.clusters(f"{name}-set", 1)
        await world.place()
        await world.numbers(1, 1)


async def _hub_taints(cluster: Cluster, live: Live, name: str) -> None:
    async with ocm_world.followed(cluster) as followers:
        world = ocm_world.World(name, cluster, followers, ocm_engines.Nobody())
        world.patience = 60.0
        await world.create_set(f"{name}-set")
        (only,) = await world.clusters(f"{name}-set", 1)
        await _tainted(live, "managedcluster", only, "example.com/broken=:NoSelect")
        await world.tainted(only, "example.com/broken")


async def _control_plane(cluster: Cluster, live: Live, name: str) -> None:
    """Let the bridge place a binding of each kind, and taint a cluster."""
    async with karmada_world.followed(cluster) as followers:
        world = karmada_world.World(name, cluster, followers, karmada_engines.Nobody())
        world.patience = 90.0
        await world.open()
        member = await world.member("m1")
        for claim in (world.deploy, world.propagate_role):
            await claim({"clusterAffinity": {"clusterNames": [member]}})
            await world.placed(lambda found: found == {member}, f"on {member}")
            await world.scheduled()
        await live.moorage("taint", "clusters.cluster.karmada.io", member, "example.com/broken=:NoSchedule")
        await world.tainted(member, ("example.com/broken", "NoSchedule"))


async def _control_plane_places(cluster: Cluster, _: Live, name: str) -> None:
    async with karmada_world.followed(cluster) as followers:
        world = karmada_world.World(name, cluster, followers, karmada_engines.Nobody())
        world.patience = 60.0
        await world.open()
        member = await world.member("m1")
        await world.deploy({"clusterAffinity": {"clusterNames": [member]}})
        await world.placed(lambda found: found == {member}, f"on {member}")


async def _control_plane_taints(cluster: Cluster, live: Live, name: str) -> None:
    async with karmada_world.followed(cluster) as followers:
        world = karmada_world.World(name, cluster, followers, karmada_engines.Nobody())
        world.patience = 60.0
        member = await world.member("m1")
        await _tainted(live, "clusters.cluster.karmada.io", member, "example.com/broken=:NoSchedule")
        await world.tainted(member, ("example.com/broken", "NoSchedule"))


async def _tainted(live: Live, kind: str, name: str, taint: str) -> None:
    """Add a taint in Moorage as soon as it knows the cluster."""

    async def is_known() -> bool:
        found = await live.shown("get", kind, name)
        return name in found and "not found" not in found

    await until(is_known, 60, f"{name} was not mirrored")
    await live.moorage("taint", kind, name, taint)


CASES: Final = {
    "ocm": Case(
        "ocm",
        (manifests.NAMESPACE, "moorage-bridge-ocm"),
        ocm_bridge.LEASE_NAME,
        ("ocm",),
        {},
        ocm_engines.Nobody(),
        _hub,
        _hub_places,
        _hub_taints,
        (_CLUSTERS, "managedclusters", "patch"),
        {
            (_CLUSTERS, "managedclusters", "get"): _CONFLICT,
            (_CLUSTERS, "placements", "get"): _CONFLICT,
            (_CLUSTERS, "placementdecisions", "get"): _CONFLICT,
            (_CLUSTERS, "placements/finalizers", "update"): "only asked by an admission plugin, and never requested",
            (*_LEASES, "get"): _SILENT,
            ("", "events", "patch"): _AGAIN,
        },
    ),
    "karmada": Case(
        "karmada",
        ("karmada-system", "moorage-bridge"),
        karmada_bridge.LEASE_NAME,
        karmada_engines.BRIDGE,
        karmada_engines.GATES,
        karmada_engines.Nobody(),
        _control_plane,
        _control_plane_places,
        _control_plane_taints,
        ("cluster.karmada.io", "clusters", "patch"),
        {
            ("cluster.karmada.io", "clusters", "get"): _CONFLICT,
            (*_LEASES, "get"): _SILENT,
            ("", "events", "patch"): _AGAIN,
        },
    ),
}


@dataclass
class Scene:
    """A control plane, a Moorage, and a bridge between them with all acts, which has done one thing of each kind."""

    case: Case
    plane: Plane
    cluster: Cluster
    live: Live
    folder: Path
    bridge: Bridge
    requests: list[Audited]
    """What it has requested until then."""

    count: int = field(default=0)

    def name(self) -> str:
        """A name that nothing else has."""
        self.count += 1
        return f"roles-{self.count}"

    async def access(self, account: str) -> tuple[str, ...]:
        """The options with which a bridge is a service account on the control plane."""
        space = self.case.account[0]
        kubeconfig = self.folder / f"{account}.kubeconfig"
        kubeconfig.write_text(json.dumps(await as_account(self.cluster, self.plane, space, account)))
        return "--kubeconfig", str(kubeconfig), "--lease-namespace", space


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def scene(
    request: pytest.FixtureRequest, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Scene]:
    case, folder = CASES[request.param], tmp_path_factory.mktemp("plane")
    space, account = case.account
    audit, flags = audit_flags(folder, f"system:serviceaccount:{space}:{account}")
    plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(started(folder))
        await plane.up(flags={"APISERVER_FLAGS": f"{flags} {plugin}"})
        await plane.down("kube-controller-manager")  # the engine starts it with flags of its own
        await stack.enter_async_context(case.undecided.deciding(plane))
        cluster = await stack.enter_async_context(connected(folder))
        await applied(plane, *manifests.REMOTE[case.kind])
        logs = tmp_path_factory.mktemp("moorage")
        # Each plane is another cluster, which needs topics of its own.
        prefix = f"{RUN}-roles-{request.param}-{folder.name}-"
        live = await stack.enter_async_context(running(broker.bootstrap, prefix, logs, **case.settings))
        made = Scene(case, plane, cluster, live, logs, Bridge(plane, live, logs, case.words), [])
        made.bridge = Bridge(plane, live, logs, case.words, await made.access(account))
        try:
            await made.bridge.start()
            await case.everything(cluster, live, made.name())
            made.bridge.must_run()
            renews = (*_LEASES, "update")
            await until(lambda: renews in {one.permission for one in audited(audit)}, 30, "its Lease is not renewed")
            made.requests = audited(audit)
            yield made
        finally:
            await made.bridge.stop()


@pytest.mark.parametrize("scene", list(CASES), indirect=True)
async def test_a_bridge_is_refused_nothing_and_uses_every_rule(scene: Scene) -> None:
    found, documents = scene.requests, scene.case.documents
    assert [one for one in found if one.code in (401, 403)] == []
    used, permitted = {one.permission for one in found}, granted(documents)
    assert used <= permitted
    assert permitted - used <= scene.case.elsewhere.keys()


def words_of(permission: Permission) -> str:
    """A permission as a bridge names it, wherever it lacks it."""
    group, resource, verb = permission
    return str(permissions.ClusterPermission(verb, resource, group, ""))


async def refusals(bridge: Bridge) -> tuple[bool, list[str]]:
    """Whether a bridge is ready, and what it lacks, by its readiness page."""
    (listening,) = bridge.logged("http.listening")
    async with httpx.AsyncClient() as client:
        body = (await client.get(f"http://127.0.0.1:{listening['port']}/readyz")).json()
    return body["ready"], body["services"].get("bridge", {}).get("refused", [])


def for_account(document: dict[str, Any], name: str) -> dict[str, Any]:
    """A role or a binding for another account in the same namespace."""
    made = copy.deepcopy(document)
    made["metadata"]["name"] += f"-{name}"
    if "roleRef" in made:
        made["roleRef"]["name"] += f"-{name}"
        made["subjects"][0]["name"] = name
    return made


@pytest.mark.parametrize("scene", list(CASES), indirect=True)
async def test_without_a_right_to_read_it_says_which_and_goes_on_when_it_has_it(scene: Scene) -> None:
    case, gate = scene.case, asyncio.Semaphore(_AT_ONCE)

    async def one(number: int, permission: Permission) -> None:
        async with gate:
            name = f"lacks-{number}"
            accounts = f"/api/v1/namespaces/{case.account[0]}/serviceaccounts"
            await scene.cluster.create(accounts, {"metadata": {"name": name}})
            roles = [for_account(each, name) for each in case.reading]
            await grant(scene.cluster, [without(each, permission) for each in roles])
            logs = scene.folder / name
            logs.mkdir()
            bridge = Bridge(scene.plane, scene.live, logs, case.words, await scene.access(name), acts="")
            await bridge.launch()
            try:
                await _goes_on(bridge, permission, lambda: grant(scene.cluster, roles))
            finally:
                await bridge.stop()

    wanted = sorted(granted(case.reading) - {(*_LEASES, "get")})
    assert len(wanted) > 10
    async with asyncio.TaskGroup() as group:
        for number, permission in enumerate(wanted):
            group.create_task(one(number, permission))


async def _goes_on(bridge: Bridge, permission: Permission, permit: Callable[[], Awaitable[None]]) -> None:
    await bridge.said("bridge.not_permitted")
    said = {one["permission"].partition(" in ")[0] for one in bridge.logged("bridge.not_permitted")}
    assert said == {words_of(permission)}

    async def shows() -> bool:
        ready, lacks = await refusals(bridge)
        # What it lists once, and then does not follow, does not keep it from beginning.
        return ready is (permission[2] == "watch") and len(lacks) == 1 and lacks[0].startswith(words_of(permission))

    await until(shows, 60, f"{permission} is not on the readiness page")
    assert permission[2] == "watch" or not bridge.logged("bridge.ready")
    await permit()

    async def is_whole() -> bool:
        bridge.must_run()
        return await refusals(bridge) == (True, [])

    await until(is_whole, 90, f"it does not go on with {permission}")


def acting(case: Case) -> list[Permission]:
    return sorted(granted(case.acting) - {one for one, why in case.elsewhere.items() if why in {_CONFLICT, _AGAIN}})


@pytest.mark.parametrize(
    ("scene", "permission"),
    [pytest.param(kind, one, id=f"{kind} {words_of(one)}") for kind, case in CASES.items() for one in acting(case)],
    indirect=["scene"],
)
async def test_without_a_right_to_act_it_says_which_and_does_the_rest(scene: Scene, permission: Permission) -> None:
    case, cluster, bridge = scene.case, scene.cluster, scene.bridge
    space, account = case.account
    roles = [one for one in case.documents if permission in granted([one])]
    before = len(bridge.logged("bridge.not_permitted"))

    async def is_permitted() -> bool:
        user, names = f"system:serviceaccount:{space}:{account}", {"leases": case.lease}
        return await permits(cluster, user, permission, space, names)

    async def is_refused() -> bool:
        return not await is_permitted()

    await grant(cluster, [without(one, permission) for one in roles])
    everything: asyncio.Task[None] | None = None
    try:
        await until(is_refused, 30, "it is still permitted")
        if permission == (*_LEASES, "create"):
            await cluster.delete(f"/apis/coordination.k8s.io/v1/namespaces/{space}/leases/{case.lease}")
        if permission[:2] == _LEASES:
            await until(lambda: not bridge.leads, 30, "it acts without a Lease")
        everything = asyncio.ensure_future(case.everything(cluster, scene.live, scene.name()))
        await until(lambda: len(bridge.logged("bridge.not_permitted")) > before, 60, f"it does not lack {permission}")
        found = bridge.logged("bridge.not_permitted")[before]
        if permission == (_CLUSTERS, "placements/finalizers", "update"):
            # An admission plugin asks for it when a decision is made.
            assert found["permission"].startswith(words_of((_CLUSTERS, "placementdecisions", "create")))
            assert "finalizers" in found["why"]
        else:
            assert found["permission"].partition(" in ")[0] == words_of(permission)
        assert any(one.startswith(found["permission"]) for one in (await refusals(bridge))[1])
        if permission[:2] != _LEASES:  # without a Lease nothing is written
            step = case.place if permission == case.targets else case.taint
            await step(cluster, scene.live, scene.name())
        # An Event that is refused holds up nothing.
        assert permission[1] == "events" or not everything.done()
        await grant(cluster, roles)
        await everything

        async def is_whole() -> bool:
            bridge.must_run()
            return await refusals(bridge) == (True, [])

        # An Event that was refused is given up, so what it lacked is shown for its time.
        await until(is_whole, 180 if permission[1] == "events" else 60, f"it still lacks {permission}")
    finally:
        if everything is not None:
            everything.cancel()
        await grant(cluster, roles)
        await until(is_permitted, 30, "it is not permitted again")
