"""Lets things happen in a cluster, chosen at random by a seed, through its API server alone."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from tests.planes.cluster import STRATEGIC, Cluster, Document
from tests.planes.plane import Plane
from tests.planes.shadow.history import ClusterHistory

NAMESPACE: Final = "shadow"
STOPS: Final = "example.com/stops"
"""A finalizer of all pods, so that they take a while to stop, as real ones do. KWOK alone removes them at once."""

_NODES: Final = "/api/v1/nodes"
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_BUDGETS: Final = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
_KEYS: Final = ("example.com/maintenance", "example.com/quarantine")
_OF_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EFFECTS: Final = ("NoExecute", "NoExecute", "NoSchedule", "PreferNoSchedule")
_SIZE: Final = {"cpu": "8", "memory": "32Gi", "pods": "40"}
_SILENT: Final = "b"
"""The group of nodes whose kubelets are stopped at times."""

_KUBELETS: Final = f"kwok-{_SILENT}"
_AT_ONCE: Final = 16
_REPLICAS: Final = 25
_MANY: Final = 500  # for so many nodes something happens to one at once
_FORGOTTEN: Final = 40  # seconds after which pods of a node that is gone are deleted
_NO_TIME: Final = 0.03  # how often a toleration has no time
_WITHOUT_TIME: Final = 4
"""Of so many deployments tolerations may have no time.

Their pods come to a tainted node and leave at once, again and again. A large cluster would do little else.
"""


@dataclass(frozen=True)
class Plan:
    """How large a cluster is, and what happens there."""

    nodes: int
    pods: int
    seconds: float
    seed: str
    grace: float
    """Seconds after which nodes whose kubelets have stopped are Unknown."""

    bound: float
    """Seconds within which both sides have to do the same. Some pods take longer to stop."""

    pace: float = 1.0
    """Seconds from one thing that happens to the next, on average."""

    zones: int = 3


class Driver:
    """Acts on a cluster.

    Args:
        cluster: a client of the cluster.
        plane: whose simulated kubelets can be stopped.
        plan: what is to happen.
    """

    def __init__(self, cluster: Cluster, plane: Plane, plan: Plan) -> None:
        self._cluster, self._plane, self._plan = cluster, plane, plan
        self._dice = random.Random(plan.seed)  # noqa: S311 - repeatable, and no secret
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._names = [f"n-{number:04}" for number in range(plan.nodes)]
        self._free = set(self._names)
        self._deployments = [f"d-{number:03}" for number in range(max(4, plan.pods // _REPLICAS))]
        self._still: set[str] = set(self._deployments)
        self._in_background: set[asyncio.Task[None]] = set()
        self._silenced = False
        self.done: Counter[str] = Counter()
        """How often each thing has happened."""

    # The beginning and the end.

    async def set_up(self) -> None:
        """Make the nodes and the deployments, whose pods others have to place."""
        await self._cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await self._each(self._new_node(name) for name in self._names)
        await self._each(self._new_deployment(name) for name in self._deployments)
        await self._cluster.create(_BUDGETS, _budget(self._deployments[0]))

    async def run(self) -> None:
        """Let things happen for a while. Everything is as at the beginning when it returns."""
        acts: list[tuple[str, int, Callable[[], Coroutine[Any, Any, None]]]] = [
            ("taint", 8, self._taint),
            ("cordon", 2, self._cordon),
            ("not ready", 3, self._not_ready),
            ("pressure", 2, self._pressure),
            ("silence", 2, self._silence),
            ("scale", 5, self._scale),
            ("deployment anew", 1, self._deployment_anew),
            ("node anew", 2, self._node_anew),
        ]
        weights = [weight for _, weight, _ in acts]
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._plan.seconds
        async with asyncio.TaskGroup() as group:
            while loop.time() < ends:
                name, _, act = self._dice.choices(acts, weights)[0]
                self.done[name] += 1
                group.create_task(act())
                await asyncio.sleep(self._plan.pace * self._dice.uniform(0.3, 1.7))  # the pace of the plan

    def is_placed(self, history: ClusterHistory) -> bool:
        """Whether all pods of the beginning have nodes."""
        return sum(one.bound is not None for one in history.pods.values()) >= _REPLICAS * len(self._deployments)

    async def close(self) -> None:
        """End what still stops pods."""
        for task in self._in_background:
            task.cancel()
        await asyncio.gather(*self._in_background, return_exceptions=True)

    def leaves(self, _namespace: str, name: str, uid: str) -> None:
        """Let a pod that is being deleted stop after a while."""

        async def stop() -> None:
            quick, slow = self._for(0, 0.3), self._for(1.5, 2)
            await asyncio.sleep(self._dice.choice((quick, slow)))  # as long as it takes to stop
            body = {"metadata": {"uid": uid, "finalizers": None}}
            async with self._limit:
                await self._cluster.send("PATCH", f"{_PODS}/{name}", body, "application/merge-patch+json", missing=True)

        self._begin(stop())

    def speaks(self, name: str) -> None:
        """Let a node report again that is Unknown, but whose kubelet runs. It was late, as on a busy machine.

        KWOK renews leases and leaves the condition as it is; a kubelet would report both.
        """
        if self._silenced and self._group(name) == _SILENT:
            return
        self.done["late kubelet"] += 1

        async def report() -> None:
            async with self._limit:
                await self._ready(name, missing=True)

        self._begin(report())

    # What happens.

    async def _taint(self) -> None:
        dice = self._dice
        key, effect = dice.choice(_KEYS), dice.choice(_EFFECTS)
        taint: Document = {"key": key, "effect": effect, "value": dice.choice(("", "planned"))}
        if effect == "NoExecute" and dice.random() < 0.3:  # kubectl gives no time
            taint["timeAdded"] = (dt.datetime.now(dt.UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
        hold = self._for(0.2, 4)
        async with self._some(dice.choice((1, 1, 2, 3))) as nodes:
            await self._each(self._change_node(name, lambda node: _add(node, taint)) for name in nodes)
            await asyncio.sleep(hold)
            await self._each(self._change_node(name, lambda node: _remove(node, key, effect)) for name in nodes)

    async def _cordon(self) -> None:
        hold = self._for(0.2, 3)
        async with self._some(1) as nodes:
            for unschedulable in (True, False):
                for name in nodes:
                    await self._cluster.patch(f"{_NODES}/{name}", {"spec": {"unschedulable": unschedulable or None}})
                if unschedulable:
                    await asyncio.sleep(hold)

    async def _not_ready(self) -> None:
        hold = self._for(0.2, 6)
        async with self._some(self._dice.choice((1, 1, 2))) as nodes:
            await self._each(self._condition(name, "Ready", "False") for name in nodes)
            await asyncio.sleep(hold)
            await self._each(self._ready(name) for name in nodes)

    async def _pressure(self) -> None:
        hold, kind = self._for(0.2, 3), self._dice.choice(("MemoryPressure", "DiskPressure", "PIDPressure"))
        async with self._some(1) as nodes:
            await self._each(self._condition(name, kind, "True") for name in nodes)
            await asyncio.sleep(hold)
            await self._each(self._condition(name, kind, "False") for name in nodes)

    async def _silence(self) -> None:
        group = {name for name in self._names if self._group(name) == _SILENT}
        if not group <= self._free:
            return
        # Upstream counts from when it has looked, and looks every twelfth of the grace. A silence that is little longer
        # than the grace may be none there, and is one here.
        hold = self._plan.grace * 7 / 6 + self._for(0.5, 4)
        self._free -= group
        self._silenced = True
        self._plane.pause(_KUBELETS)
        try:
            await asyncio.sleep(hold)
        finally:
            self._plane.resume(_KUBELETS)
            self._silenced = False
        await self._each(self._ready(name) for name in sorted(group))  # KWOK renews leases alone
        self._free |= group

    async def _scale(self) -> None:
        async with self._deployment() as name:
            if name:
                replicas = self._dice.choice((0, 1, _REPLICAS // 2, _REPLICAS, _REPLICAS, 2 * _REPLICAS))
                await self._cluster.patch(f"{_DEPLOYMENTS}/{name}", {"spec": {"replicas": replicas}})

    async def _deployment_anew(self) -> None:
        hold = self._for(0, 1)
        async with self._deployment() as name:
            if name:
                await self._cluster.delete(f"{_DEPLOYMENTS}/{name}", propagationPolicy="Background")
                await asyncio.sleep(hold)
                await self._new_deployment(name)

    async def _node_anew(self) -> None:
        hold = self._dice.choice((0.0, self._for(0, 1.5), _FORGOTTEN + self._for(0, 2)))
        async with self._some(1) as nodes:
            for name in nodes:
                await self._cluster.delete(f"{_NODES}/{name}")
                await asyncio.sleep(hold)
                await self._new_node(name)

    def _for(self, least: float, most: float) -> float:
        """Seconds that something lasts, as multiples of the bound: shorter ones may be missed, longer ones not."""
        return self._dice.uniform(least, most) * self._plan.bound

    # Nodes.

    def _group(self, name: str) -> str:
        return _SILENT if self._names.index(name) % 5 == 0 else "a"

    async def _new_node(self, name: str) -> None:
        number = self._names.index(name)
        labels = {
            "kubernetes.io/hostname": name,
            "kwok": self._group(name),
            "topology.kubernetes.io/region": "here",
            "topology.kubernetes.io/zone": f"zone-{number % self._plan.zones}",
        }
        status = {"capacity": _SIZE, "allocatable": _SIZE}
        await self._cluster.create(_NODES, {"metadata": {"name": name, "labels": labels}, "status": status})

    async def _change_node(self, name: str, change: Callable[[Document], None]) -> None:
        await self._cluster.update(f"{_NODES}/{name}", change)

    async def _ready(self, name: str, *, missing: bool = False) -> None:
        await self._condition(name, "Ready", "True", missing=missing)

    async def _condition(self, name: str, kind: str, status: str, *, missing: bool = False) -> None:
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        condition = {"type": kind, "status": status, "reason": "Driver", "message": "", **times}
        body = {"status": {"conditions": [condition]}}
        await self._cluster.send("PATCH", f"{_NODES}/{name}/status", body, STRATEGIC, missing=missing)

    @asynccontextmanager
    async def _some(self, count: int) -> AsyncIterator[list[str]]:
        """Nodes to which nothing else happens meanwhile, fewer where there are not so many."""
        free = sorted(self._free)
        nodes = self._dice.sample(free, min(count * max(1, self._plan.nodes // _MANY), len(free)))
        self._free -= set(nodes)
        yield nodes
        self._free |= set(nodes)

    # Deployments.

    @asynccontextmanager
    async def _deployment(self) -> AsyncIterator[str]:
        """A deployment to which nothing else happens meanwhile. Empty if there is none."""
        name = self._dice.choice(sorted(self._still)) if self._still else ""
        self._still.discard(name)
        yield name
        self._still |= {name} - {""}

    def _no_time(self, name: str) -> float:
        return _NO_TIME if self._deployments.index(name) < _WITHOUT_TIME else 0.0

    async def _new_deployment(self, name: str) -> None:
        dice = self._dice
        requests = {"cpu": dice.choice(("100m", "250m", "500m", "1")), "memory": dice.choice(("64Mi", "1Gi", "2Gi"))}
        container = {"name": "main", "image": "pause:3.10", "resources": {"requests": requests}}
        template = {
            "metadata": {"labels": {"app": name}, "finalizers": [STOPS]},
            "spec": {
                "containers": [container],
                "tolerations": _tolerations(dice, self._plan.bound, self._no_time(name)),
                "terminationGracePeriodSeconds": 10,
            },
        }
        spec = {"replicas": _REPLICAS, "selector": {"matchLabels": {"app": name}}, "template": template}
        await self._cluster.create(_DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._in_background.add(task)
        task.add_done_callback(self._in_background.discard)

    async def _each(self, works: Iterable[Awaitable[None]]) -> None:
        async def limited(work: Awaitable[None]) -> None:
            async with self._limit:
                await work

        await asyncio.gather(*(limited(one) for one in works))


def _tolerations(dice: random.Random, bound: float, no_time: float) -> list[Document]:
    """Tolerations of one deployment: none, for ever, or for some seconds."""
    limits = [round(one * bound) for one in (0.5, 2, 4.5)]
    found: list[Document] = []
    for key in (*_KEYS, *_OF_READY):
        seconds = 0 if dice.random() < no_time else dice.choice((None, None, -1, *limits))
        if seconds is None:
            continue
        limit = {} if seconds < 0 else {"tolerationSeconds": seconds}
        found.append({"key": key, "operator": "Exists", "effect": "NoExecute", **limit})
    if dice.random() < 0.2:
        found.append({"key": dice.choice(_KEYS), "operator": "Exists", "effect": "NoSchedule"})
    return found


def _budget(name: str) -> Document:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}}
    return {"metadata": {"name": name}, "spec": spec}


def _add(node: Document, taint: Document) -> None:
    same = (taint["key"], taint["effect"])
    others = [one for one in node["spec"].get("taints") or () if (one["key"], one["effect"]) != same]
    node["spec"]["taints"] = [*others, taint]


def _remove(node: Document, key: str, effect: str) -> None:
    taints = node["spec"].get("taints") or ()
    node["spec"]["taints"] = [one for one in taints if (one["key"], one["effect"]) != (key, effect)]
