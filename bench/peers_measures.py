"""The measures of `bench/peers.py`: each does the same to the control plane of every side, and counts from outside."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from bench import peers_sides as sides
from bench import peers_table as table
from bench.peers_sides import Options, Side
from bench.peers_table import MOORAGE, TUNED, UPSTREAM, Document
from tests.planes.cluster import Cluster, Follower, connected, following
from tests.planes.plane import Plane

PODS_PER_NODE: Final = 4
SINGLE: Final = 3
"""How often a single node is disturbed in a round, each time another one."""

BINDINGS: Final = "/apis/moorage.io/v1alpha1/bindings"

MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
LIFTED: Final = "--kube-api-qps=1000 --kube-api-burst=2000"
_LIFTED: Final = "--kube-api-qps=2000 --kube-api-burst=4000"  # of hubs
WITHOUT_TAINTS: Final = "--controllers=*,-taint-eviction-controller,-node-lifecycle-controller"
_ZONES: Final = 3
_SKIPPED: Final = 10  # the nodes before those that are disturbed together
_NOT_READY: Final = "node.kubernetes.io/not-ready=0,node.kubernetes.io/unreachable=0"
_FEW: Final = 60.0  # seconds for a disturbance
_MANY: Final = 420.0  # seconds for pods, nodes and the like
_SECONDS: Final = 600.0  # seconds for placements and policies
_AT_ONCE: Final = 16
_TOGETHER: Final = 20.0  # seconds in which nodes are watched that zones let go one by one


# Kubernetes: (a), (b) and (c).


async def kubernetes(plane: Plane, options: Options, nodes: int) -> None:
    """Measure taints, nodes that are not ready, and the placement of pods with so many nodes."""
    lifted = {"KCM_FLAGS": LIFTED}
    async with sides.controllers(plane, flags=lifted, ends=(MANAGER,)):
        await sides.generate(plane, "fleet", "--nodes", str(nodes), "--zones", str(_ZONES), seconds=_MANY)
    for number in range(options.rounds):
        for name, deciding in options.chosen(KUBERNETES).items():
            async with options.attempt(f"{nodes} nodes, round {number + 1}: {name}"), deciding(plane, options) as side:
                await _pods(side, nodes)


_BOTH: Final = (MANAGER, SCHEDULER)
KUBERNETES: Final = {
    UPSTREAM: sides.upstream(UPSTREAM, flags={}, ends=_BOTH),
    TUNED: sides.upstream(TUNED, flags={"KCM_FLAGS": LIFTED, "SCHEDULER_FLAGS": LIFTED}, ends=_BOTH),
    MOORAGE: sides.bridged(
        *("kubernetes", "--act", "all", "--scheduler-name", "default-scheduler"),
        flags={"KCM_FLAGS": WITHOUT_TAINTS},
        ends=_BOTH,
        without=(SCHEDULER,),
    ),
}


async def _pods(side: Side, nodes: int) -> None:
    """Place pods, taint nodes; place pods again, and let nodes be not ready."""
    wanted, pods = side.options.wanted, PODS_PER_NODE * nodes
    if wanted & {"a", "c"}:
        await _place(side, pods)
        if "a" in wanted:
            await _disturb(side, _TAINTED, nodes)
        await _clear(side)
    if "b" in wanted:
        await _place(side, pods, "--tolerate", _NOT_READY)
        await _disturb(side, _UNREADY, nodes)
        await _clear(side)


async def _place(side: Side, pods: int, *words: str) -> None:
    case = f"{pods:,} pods on {pods // PODS_PER_NODE} nodes"
    await side.measure("c", case, table.pods, "pods", "--pods", str(pods), *words, seconds=_MANY)
    await side.knows(BINDINGS, pods)


class Disturbance(NamedTuple):
    """What is done to nodes."""

    measure: str
    what: str
    """As the generator calls it."""

    patience: float
    """Seconds after which it is not waited for what follows."""

    read: Callable[[Document], Mapping[str, float]]


_TAINTED: Final = Disturbance("a", "taint", _FEW, table.scenario)
_UNREADY: Final = Disturbance("b", "notready", _TOGETHER, table.not_ready)


async def _disturb(side: Side, done: Disturbance, nodes: int) -> None:
    """Do something to single nodes, and then to a tenth of them at once."""
    words = ("scenario", "--do", done.what, f"--timeout={done.patience:.0f}s")
    counts = [(number, 1) for number in range(SINGLE)] + [(_SKIPPED, max(1, nodes // 10))]
    for skip, count in counts:
        case, which = f"{count} of {nodes} nodes", ("--skip", str(skip), "--count", str(count))
        await side.measure(done.measure, case, done.read, *words, *which, seconds=done.patience + _FEW)


async def _clear(side: Side) -> None:
    """Remove the pods, and wait until the side has taken its taints back. Otherwise the next one would find them."""
    await sides.generate(side.plane, "clear", seconds=_MANY)
    await side.knows(BINDINGS, 0)
    async with connected(side.plane.folder) as cluster:

        async def untainted() -> bool:
            nodes = (await cluster.get("/api/v1/nodes"))["items"]
            return not any(one["spec"].get("taints") for one in nodes)

        await sides.until(untainted, _MANY, "some nodes are still tainted")


# OCM: (d).

MEMBERS: Final = 100

_FLEET: Final = {"KCM_FLAGS": LIFTED}
"""Kubernetes' own controllers make and remove what the measures need, and are not compared here."""

_OCM: Final = "ocm-placement"
_MANAGED: Final = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
_DECISIONS: Final = "/apis/cluster.open-cluster-management.io/v1beta1/placementdecisions"


async def placements(plane: Plane, options: Options) -> None:
    """Measure how long Placements wait for their decisions."""
    async with sides.controllers(plane, "ocm", flags=_FLEET, ends=(_OCM,)):
        await sides.generate(plane, *_words(options, 1), seconds=_SECONDS)  # makes the clusters, too
        async with connected(plane.folder) as hub:
            # Without the condition they would be unreachable by the rules of registration's controllers.
            await each_of(options.clusters, lambda number: _available(hub, f"cluster-{number:05}"))
            await _nothing_left(hub)
    for number in range(options.rounds):
        for name, deciding in options.chosen(OCM).items():
            what = f"{options.clusters} managed clusters, round {number + 1}: {name}"
            async with options.attempt(what), deciding(plane, options) as side, connected(plane.folder) as hub:
                for count in options.placements:
                    case = f"{count:,} placements, {options.clusters:,} clusters"
                    await side.measure("d", case, table.placements, *_words(options, count), seconds=_SECONDS)
                    await _nothing_left(hub)


def _words(options: Options, count: int) -> tuple[str, ...]:
    clusters = ("--clusters", str(options.clusters), "--placements", str(count))
    return ("ocm", *clusters, "--taint", "0", "--timeout", "5m")


async def _available(hub: Cluster, name: str) -> None:
    """Let a cluster be available, as its agent would say it."""
    condition = {"type": "ManagedClusterConditionAvailable", "status": "True", "reason": "ManagedClusterAvailable"}
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"conditions": [{**condition, "message": "", "lastTransitionTime": now}]}
    await hub.patch(f"{_MANAGED}/{name}/status", {"status": status})


async def _nothing_left(hub: Cluster) -> None:
    """Return when the decisions of the last placements are gone."""

    async def gone() -> bool:
        return not (await hub.get(f"{_DECISIONS}?limit=1"))["items"]

    await sides.until(gone, _SECONDS, "the last decisions are not gone")


OCM: Final = {
    UPSTREAM: sides.upstream(UPSTREAM, "ocm", flags=_FLEET, ends=(_OCM,)),
    TUNED: sides.upstream(TUNED, "ocm", flags={**_FLEET, "OCM_FLAGS": _LIFTED}, ends=(_OCM,)),
    MOORAGE: sides.bridged(
        *("ocm", "--act", "placements"), parts=("ocm",), flags=_FLEET, ends=(_OCM,), without=(_OCM,)
    ),
}

# Karmada: (e).

_KARMADA: Final = ("karmada-controller-manager", "karmada-scheduler")
_NO_WORKLOADS: Final = (
    "--controllers=namespace-controller,garbage-collector-controller,serviceaccount-controller,"
    "serviceaccount-token-controller,clusterrole-aggregation-controller"
)
_SILENCE: Final = "--cluster-monitor-grace-period=24h"  # nobody renews the Leases of the members
_MEMBERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"
_POLICIES: Final = "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies"
_TAINT: Final = "bench.example/tainted"


async def taint_policies(plane: Plane, options: Options) -> None:
    """Measure how long a ClusterTaintPolicy needs until it has tainted each cluster."""
    async with KARMADA[UPSTREAM](plane, options), connected(plane.folder) as control:
        await each_of(MEMBERS, lambda number: _member(control, f"member-{number:04}"))
    for number in range(options.rounds):
        for name, deciding in options.chosen(KARMADA).items():
            what = f"{MEMBERS} clusters, round {number + 1}: {name}"
            async with options.attempt(what), deciding(plane, options) as side, connected(plane.folder) as control:
                async with following(control, _MEMBERS) as (members,):
                    await _tainted_by_policy(side, control, members, number)
                await control.delete(f"{_POLICIES}/bench-{number}")
            async with connected(plane.folder) as control:
                await each_of(MEMBERS, lambda number: _without_taints(control, f"member-{number:04}"))


async def _tainted_by_policy(side: Side, control: Cluster, members: Follower, number: int) -> None:
    key = f"{_TAINT}-{number}"
    is_ready = {"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}
    spec = {"addOnConditions": [is_ready], "taints": [{"key": key, "effect": "NoSchedule"}]}
    policy = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy"}

    def tainted() -> list[dt.datetime] | None:
        times = [at for name in names if (at := _tainted_at(members, name, key)) is not None]
        return times if len(times) == len(names) else None

    names = [one["metadata"]["name"] for one in members.all()]
    with side.machine.measured():
        began = dt.datetime.now(dt.UTC)
        await control.create(_POLICIES, {**policy, "metadata": {"name": f"bench-{number}"}, "spec": spec})
        times = await members.until(f"{key} on {len(names)} clusters", tainted, _SECONDS)
    side.note("e", f"{len(names)} clusters", table.spread([(at - began).total_seconds() for at in times]))


def _tainted_at(members: Follower, name: str, key: str) -> dt.datetime | None:
    """When a taint of a cluster was first seen."""
    return next(
        (
            seen.time
            for seen in members.versions(name)
            if any(one["key"] == key for one in seen.object["spec"].get("taints") or ())
        ),
        None,
    )


async def _member(control: Cluster, name: str) -> None:
    """Make a cluster that is Ready, as its agent would say it."""
    path, now = f"{_MEMBERS}/{name}", dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kind = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}
    await control.create(_MEMBERS, {**kind, "metadata": {"name": name}, "spec": {"syncMode": "Pull", "id": name}})
    ready = {"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "", "lastTransitionTime": now}
    await control.patch(f"{path}/status", {"status": {"kubernetesVersion": "v1.37.0", "conditions": [ready]}})


async def _without_taints(control: Cluster, name: str) -> None:
    note = {"annotations": {"moorage.io/taints": None}}
    await control.patch(f"{_MEMBERS}/{name}", {"metadata": note, "spec": {"taints": None}})


async def each_of(count: int, act: Any) -> None:
    """Call an act with each number, some at a time."""
    numbers = iter(range(count))

    async def work(mine: Iterator[int]) -> None:
        for number in mine:
            await act(number)

    await asyncio.gather(*(work(numbers) for _ in range(_AT_ONCE)))


def _flags(more: str = "") -> dict[str, str]:
    return {"KCM_FLAGS": f"{_NO_WORKLOADS} {LIFTED}", "KARMADA_FLAGS": f"{_SILENCE} {more}"}


KARMADA: Final = {
    UPSTREAM: sides.upstream(UPSTREAM, "karmada", flags=_flags(), ends=_KARMADA),
    TUNED: sides.upstream(TUNED, "karmada", flags=_flags(_LIFTED), ends=_KARMADA),
    MOORAGE: sides.bridged(
        *("karmada", "--act", "taints", "--cluster-monitor-grace-period", "86400"),
        parts=("karmada",),
        flags=_flags("--feature-gates=Failover=false"),
        ends=_KARMADA,
        without=_KARMADA[1:],
        feature_gates="Failover=true",
    ),
}
