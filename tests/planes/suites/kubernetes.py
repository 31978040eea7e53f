"""Kubernetes' own end-to-end specs, on nodes without containers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from tests.planes.cluster import Cluster, Document, Follower, connected, following
from tests.planes.kubernetes.engines import OFF
from tests.planes.plane import Plane, started
from tests.planes.suites import engines, programs
from tests.planes.suites.reports import UPSTREAM, Outcome

FOCUS: Final = r"NoExecuteTaintManager|SchedulerPredicates|SchedulerPriorities"

_NODES: Final = "/api/v1/nodes"
_COUNT: Final = 4
_ROOM: Final = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_BRIDGE: Final = ("kubernetes", "--scheduler-name", "default-scheduler")
_JSON_PATCH: Final = "application/json-patch+json"
_FOREVER: Final = 1e9
_SECONDS: Final = 60.0  # until all nodes are ready and an engine has taken their first taint off


async def run(folder: Path, engine: str, focus: str) -> dict[str, Outcome]:
    """Run the specs that match a regular expression with an engine."""
    program = programs.kubernetes()
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(started(folder / "plane"))
        await stack.enter_async_context(_deciding(plane, folder, engine))
        cluster = await stack.enter_async_context(connected(plane.folder))
        await stack.enter_async_context(nodes(cluster))
        words = (f"--kubeconfig={plane.kubeconfig}", "--provider=skeleton")
        return await engines.played(program, folder, focus, words=words)


@asynccontextmanager
async def _deciding(plane: Plane, folder: Path, engine: str) -> AsyncIterator[None]:
    if engine == UPSTREAM:
        await plane.up()
        yield
        return
    await plane.up(flags={"KCM_FLAGS": OFF})
    await plane.down("kube-scheduler")
    async with engines.moorage(plane, folder, _BRIDGE, "all"):
        yield


@asynccontextmanager
async def nodes(cluster: Cluster) -> AsyncIterator[None]:
    """Nodes that are ready, and what a kubelet does for the specs and KWOK does not."""
    for number in range(_COUNT):
        await cluster.create(_NODES, _node(number))
    async with following(cluster, _NODES) as (follower,):
        await follower.until("nodes that are ready", lambda: all(map(_is_ready, follower.all())) or None, _SECONDS)
        copying = asyncio.create_task(_copy_capacities(cluster, follower))
        try:
            yield
        finally:
            copying.cancel()
            await asyncio.gather(copying, return_exceptions=True)


def _node(number: int) -> Document:
    name = f"node-{number}"
    zone = {"topology.kubernetes.io/region": "here", "topology.kubernetes.io/zone": f"zone-{number % 2}"}
    system = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name}
    addresses = [{"type": "InternalIP", "address": f"10.1.0.{number + 1}"}, {"type": "Hostname", "address": name}]
    status = {"capacity": _ROOM, "allocatable": _ROOM, "addresses": addresses}
    return {"metadata": {"name": name, "labels": {"kwok": "a", **zone, **system}}, "status": status}


def _is_ready(node: Document) -> bool:
    conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


async def _copy_capacities(cluster: Cluster, nodes: Follower) -> None:
    """Offer what a spec adds to the capacity of a node, and take back what it removes."""
    while True:
        node = await nodes.until("another capacity", lambda: next(filter(_differs, nodes.all()), None), _FOREVER)
        room = [{"op": "replace", "path": "/status/allocatable", "value": node["status"]["capacity"]}]
        await cluster.patch(f"{_NODES}/{node['metadata']['name']}/status", room, _JSON_PATCH)
        await nodes.until("what is offered now", lambda: not any(map(_differs, nodes.all())) or None, _SECONDS)


def _differs(node: Document) -> bool:
    return bool(node["status"]["capacity"] != node["status"]["allocatable"])
