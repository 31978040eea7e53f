"""The measures of `bench/peers.py` on hubs: OCM's Placements (d), and Karmada's ClusterTaintPolicies (e)."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

from bench import peers_sides as sides
from bench import peers_table as table
from bench.peers_measures import LIFTED, Options, Side, informed
from bench.peers_table import MOORAGE, TUNED, UPSTREAM
from tests.planes.cluster import Cluster, Follower, connected, following
from tests.planes.plane import Plane

MEMBERS: Final = 100

_FLEET: Final = {"KCM_FLAGS": LIFTED}
"""Kubernetes' own controllers make and remove what the measures need, and are not compared here."""

_SECONDS: Final = 600.0
_AT_ONCE: Final = 16

# OCM: (d).

_OCM: Final = "ocm-placement"
_OCM_LIFTED: Final = "--kube-api-qps=2000 --kube-api-burst=4000"
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


@asynccontextmanager
async def _ocm(plane: Plane, options: Options) -> AsyncIterator[Side]:
    async with sides.controllers(plane, "ocm", flags=_FLEET, ends=(_OCM,)):
        yield Side(UPSTREAM, plane, options, sides.Machine(lambda: sides.pids_of(plane)), informed)


@asynccontextmanager
async def _ocm_tuned(plane: Plane, options: Options) -> AsyncIterator[Side]:
    async with sides.controllers(plane, "ocm", flags={**_FLEET, "OCM_FLAGS": _OCM_LIFTED}, ends=(_OCM,)):
        yield Side(TUNED, plane, options, sides.Machine(lambda: sides.pids_of(plane)), informed)


@asynccontextmanager
async def _ocm_bridged(plane: Plane, options: Options) -> AsyncIterator[Side]:
    async with (
        sides.controllers(plane, "ocm", flags=_FLEET, ends=(_OCM,), without=(_OCM,)),
        sides.moorage(options.bootstrap, plane, options.folder) as fleet,
    ):
        bridge = await fleet.bridge("ocm", "--act", "placements")
        await bridge.leads()
        yield Side(MOORAGE, plane, options, fleet.machine, fleet.knows)


OCM: Final = {UPSTREAM: _ocm, TUNED: _ocm_tuned, MOORAGE: _ocm_bridged}

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
    async with _karmada(plane, options), connected(plane.folder) as control:
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


def _karmada_flags(more: str = "") -> dict[str, str]:
    return {"KCM_FLAGS": f"{_NO_WORKLOADS} {LIFTED}", "KARMADA_FLAGS": f"{_SILENCE} {more}"}


@asynccontextmanager
async def _karmada(plane: Plane, options: Options) -> AsyncIterator[Side]:
    async with sides.controllers(plane, "karmada", flags=_karmada_flags(), ends=_KARMADA):
        yield Side(UPSTREAM, plane, options, sides.Machine(lambda: sides.pids_of(plane)), informed)


@asynccontextmanager
async def _karmada_tuned(plane: Plane, options: Options) -> AsyncIterator[Side]:
    flags = _karmada_flags("--kube-api-qps=2000 --kube-api-burst=4000")
    async with sides.controllers(plane, "karmada", flags=flags, ends=_KARMADA):
        yield Side(TUNED, plane, options, sides.Machine(lambda: sides.pids_of(plane)), informed)


@asynccontextmanager
async def _karmada_bridged(plane: Plane, options: Options) -> AsyncIterator[Side]:
    flags = _karmada_flags("--feature-gates=Failover=false")
    async with (
        sides.controllers(plane, "karmada", flags=flags, ends=_KARMADA, without=_KARMADA[1:]),
        sides.moorage(options.bootstrap, plane, options.folder, feature_gates="Failover=true") as fleet,
    ):
        bridge = await fleet.bridge("karmada", "--act", "taints", "--cluster-monitor-grace-period", "86400")
        await bridge.leads()
        yield Side(MOORAGE, plane, options, fleet.machine, fleet.knows)


KARMADA: Final = {UPSTREAM: _karmada, TUNED: _karmada_tuned, MOORAGE: _karmada_bridged}
