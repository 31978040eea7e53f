"""The part of a cluster that one scenario has for itself: nodes that its pods alone go to, and a namespace."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tests.planes.cluster import APPLY, STRATEGIC, Cluster, Document, Follower, NotSeenError, Seen, following
from tests.planes.kubernetes.engines import KubernetesEngine
from tests.planes.plane import Plane

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
EVENTS: Final = "/api/v1/events"
NAMESPACES: Final = "/api/v1/namespaces"
HOSTNAME: Final = "kubernetes.io/hostname"

Taint = dict[str, str]
Found = TypeVar("Found")


class SetUpError(Exception):
    """What does not depend on the engine did not happen, so nothing was tested."""


_LABEL: Final = "example.com/scenario"
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_SIZE: Final = {"cpu": "4", "memory": "16Gi", "pods": "110"}
_SET_UP: Final = 60.0  # seconds for what does not depend on the engine


@dataclass(frozen=True)
class Followers:
    """What the scenarios of an engine read."""

    nodes: Follower
    pods: Follower
    events: Follower


@asynccontextmanager
async def followed(cluster: Cluster) -> AsyncIterator[Followers]:
    """Followers of nodes, pods and events."""
    async with following(cluster, NODES, PODS, EVENTS) as followers:
        yield Followers(*followers)


class World:
    """The nodes and the namespace of one scenario."""

    def __init__(
        self, name: str, plane: Plane, cluster: Cluster, followers: Followers, engine: KubernetesEngine
    ) -> None:
        """Describe the part.

        Args:
            name: of the namespace, and the beginning of the names of the nodes.
            plane: the control plane, some of whose processes may be paused.
            cluster: its API server.
            followers: of what it holds.
            engine: what decides.
        """
        self.name, self.plane, self.cluster, self.engine = name, plane, cluster, engine
        self.patience = engine.patience
        self._followers = followers

    async def open(self) -> None:
        """Create the namespace, with the service account that its pods need."""
        await self.cluster.create(NAMESPACES, {"metadata": {"name": self.name}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        place = f"{NAMESPACES}/{self.name}/serviceaccounts/default?fieldManager=scenarios"
        await self.cluster.patch(place, account, APPLY)  # a controller creates it, too

    async def close(self) -> None:
        """Delete everything."""
        await self.cluster.delete(f"{NAMESPACES}/{self.name}/pods", gracePeriodSeconds=0)
        await self.cluster.delete(f"{NAMESPACES}/{self.name}")
        await self.cluster.delete(f"{NODES}?labelSelector={_LABEL}%3D{self.name}")

    # What the scenario sets up.

    async def new_node(
        self,
        name: str = "n1",
        *,
        kubelets: str = "a",
        labels: Mapping[str, str] | None = None,
        size: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> str:
        """Create a node that becomes Ready, and return its name.

        Args:
            name: of the node within the scenario.
            kubelets: which of the simulated kubelets keep it: `a` or `b`.
            labels: of the node. Each scenario is a zone of its own unless they say otherwise.
            size: its capacity, where it is not the usual one.
            spec: the fields of its spec.
        """
        full = f"{self.name}-{name}"
        zone = {"topology.kubernetes.io/region": "here", "topology.kubernetes.io/zone": self.name}
        own = {HOSTNAME: full, "kwok": kubelets, _LABEL: self.name}
        room = {**_SIZE, **(size or {})}
        await self.cluster.create(
            NODES,
            {
                "metadata": {"name": full, "labels": {**zone, **own, **(labels or {})}},
                "spec": spec,
                "status": {"capacity": room, "allocatable": room},
            },
        )
        await self._set_up(self._followers.nodes, f"{full} is ready", lambda: self._ready(full))
        return full

    async def node(self, name: str = "n1", **given: Any) -> str:
        """Create a node that is Ready, and has no taint that says otherwise, as `new_node` does."""
        full = await self.new_node(name, **given)

        def clear(node: Document) -> None:
            node["spec"]["taints"] = [one for one in node["spec"].get("taints", ()) if one["key"] != _NOT_READY]

        # It is new. If the engine has taken the taint off already, this changes nothing.
        await self.cluster.update(f"{NODES}/{full}", clear)
        return full

    async def start_pod(
        self,
        name: str,
        *,
        node: str = "",
        scheduler: str = "",
        tolerations: Iterable[Document] = (),
        labels: Mapping[str, str] | None = None,
        requests: Mapping[str, str] | None = None,
        limits: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Create a pod for the nodes of the scenario, or for one of them.

        Args:
            name: of the pod.
            node: the node that it is to run on.
            scheduler: its `schedulerName`. By default that of Kubernetes.
            tolerations: of the pod.
            labels: of the pod.
            requests: what its container requests.
            limits: what its container may use at most.
            spec: more fields of its spec.
        """
        selector = {_LABEL: self.name} | ({HOSTNAME: node} if node else {})
        resources = {"requests": dict(requests or {}), "limits": dict(limits or {})}
        container = {"name": "main", "image": "pause:3.10", "resources": resources, **spec.pop("container", {})}
        await self.cluster.create(
            f"{NAMESPACES}/{self.name}/pods",
            {
                "metadata": {"name": name, "labels": {"name": name, **(labels or {})}},
                "spec": {
                    "schedulerName": scheduler or "default-scheduler",
                    "nodeSelector": selector | spec.pop("nodeSelector", {}),
                    "tolerations": list(tolerations),
                    "containers": [container],
                    **spec,
                },
            },
        )

    async def run_pod(self, name: str, **given: Any) -> str:
        """Create a pod that Kubernetes' own scheduler places, and return its node when it runs."""
        await self.start_pod(name, **given)

        def running() -> str | None:
            found = self.pod(name)
            return found["spec"]["nodeName"] if found and found["status"].get("phase") == "Running" else None

        return await self._set_up(self._followers.pods, f"{name} runs", running)

    async def taint(self, node: str, taint: Taint) -> dt.datetime:
        """Add a taint to a node as of now, and return when tolerated times begin."""
        now = dt.datetime.now(dt.UTC).replace(microsecond=0)  # the API knows whole seconds
        added = {**taint, "timeAdded": now.strftime("%Y-%m-%dT%H:%M:%SZ")}

        def add(found: Document) -> None:
            same = (taint["key"], taint["effect"])
            others = [one for one in found["spec"].get("taints", ()) if (one["key"], one["effect"]) != same]
            found["spec"]["taints"] = [*others, added]

        await self.cluster.update(f"{NODES}/{node}", add)
        return now

    async def untaint(self, node: str, taint: Taint) -> None:
        """Remove a taint from a node."""

        def remove(found: Document) -> None:
            same = (taint["key"], taint["effect"])
            kept = [one for one in found["spec"].get("taints", ()) if (one["key"], one["effect"]) != same]
            found["spec"]["taints"] = kept

        await self.cluster.update(f"{NODES}/{node}", remove)

    async def condition(self, node: str, type_: str, status: str) -> None:
        """Report a condition of a node, as its kubelet would."""
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        condition = {"type": type_, "status": status, "reason": "Scenario", "message": "", **times}
        await self.cluster.patch(f"{NODES}/{node}/status", {"status": {"conditions": [condition]}}, STRATEGIC)

    async def remove_gates(self, name: str) -> None:
        """Remove the scheduling gates of a pod."""
        await self.cluster.patch(f"{NAMESPACES}/{self.name}/pods/{name}", {"spec": {"schedulingGates": []}})

    async def delete_pod(self, name: str) -> None:
        """Delete a pod."""
        await self.cluster.delete(f"{NAMESPACES}/{self.name}/pods/{name}")

    # What the API server shows.

    def pod(self, name: str) -> Document | None:
        """A pod as it is now. None if it is gone."""
        return self._followers.pods.get(name, self.name)

    def versions_of_node(self, node: str) -> list[Seen]:
        """Everything that was seen of a node."""
        return self._followers.nodes.versions(node)

    def taints(self, node: str) -> set[tuple[str, str]]:
        """Keys and effects of the taints that a node has now."""
        found = self._followers.nodes.get(node) or {"spec": {}}
        return {(one["key"], one["effect"]) for one in found["spec"].get("taints", ())}

    async def tainted(self, node: str, *taints: tuple[str, str], seconds: float | None = None) -> None:
        """Return when a node has these taints and no others."""
        wanted = set(taints)
        await self._followers.nodes.until(
            f"{node} has the taints {sorted(wanted)}",
            lambda: True if self.taints(node) == wanted else None,
            self.patience if seconds is None else seconds,
        )

    async def has_taint(self, node: str, key: str, effect: str, seconds: float | None = None) -> None:
        """Return when a node has this taint."""
        await self._followers.nodes.until(
            f"{node} has the taint {key}:{effect}",
            lambda: True if (key, effect) in self.taints(node) else None,
            self.patience if seconds is None else seconds,
        )

    async def has_condition(self, node: str, type_: str, status: str, seconds: float | None = None) -> None:
        """Return when a node has this condition."""
        await self._followers.nodes.until(
            f"{node} has the condition {type_}={status}",
            lambda: True if self._condition(node, type_) == status else None,
            self.patience if seconds is None else seconds,
        )

    async def leaving(self, pod: str, seconds: float | None = None) -> Seen:
        """Return the first version of a pod that is being deleted, or is gone."""

        def find() -> Seen | None:
            versions = self._followers.pods.versions(pod, self.name)
            return next((seen for seen in versions if _is_leaving(seen)), None)

        patience = self.patience if seconds is None else seconds
        return await self._followers.pods.until(f"{pod} is deleted", find, patience)

    def events_of(self, pod: str, reason: str) -> int:
        """How often an Event about a pod with this reason was told so far."""
        found = self._followers.events.all(self.name)
        about = [one for one in found if (one["involvedObject"]["name"], one["reason"]) == (pod, reason)]
        return sum(int(one.get("count") or 1) for one in about)

    async def bound(self, pod: str, seconds: float | None = None) -> str:
        """Return the node of a pod as soon as it has one."""
        return await self._followers.pods.until(
            f"{pod} has a node",
            lambda: (self.pod(pod) or {"spec": {}})["spec"].get("nodeName"),
            self.patience if seconds is None else seconds,
        )

    async def unschedulable(self, pod: str, seconds: float | None = None) -> str:
        """Return the message of the condition that says that a pod cannot be placed."""

        def find() -> str | None:
            found = self.pod(pod) or {"spec": {}, "status": {}}
            if node := found["spec"].get("nodeName"):
                raise NotSeenError(f"{pod} is unschedulable, but was placed on {node}")
            for one in found["status"].get("conditions", ()):
                if (one["type"], one["status"], one.get("reason")) == ("PodScheduled", "False", "Unschedulable"):
                    return str(one.get("message", ""))
            return None

        patience = self.patience if seconds is None else seconds
        return await self._followers.pods.until(f"{pod} is unschedulable", find, patience)

    async def event(self, pod: str, reason: str) -> Document:
        """Return an Event about a pod with this reason."""

        def find() -> Document | None:
            for one in self._followers.events.all(self.name):
                about = one["involvedObject"]
                if (about["kind"], about["name"], one["reason"]) == ("Pod", pod, reason):
                    return one
            return None

        return await self._followers.events.until(f"an Event {reason} about {pod}", find, self.patience)

    async def stays(self, pod: str) -> None:
        """Check that a pod is not being deleted, by all that the API server has accepted up to now."""
        found = await self.cluster.get(f"{NAMESPACES}/{self.name}/pods/{pod}")
        assert "deletionTimestamp" not in found["metadata"], f"{pod} is deleted, and should stay"
        versions = self._followers.pods.versions(pod, self.name)
        assert not any(_is_leaving(seen) for seen in versions), f"{pod} was deleted, and should have stayed"

    def _ready(self, node: str) -> bool | None:
        return True if self._condition(node, "Ready") == "True" else None

    def _condition(self, node: str, type_: str) -> str:
        found = self._followers.nodes.get(node)
        conditions = found["status"].get("conditions", ()) if found else ()
        return next((str(one["status"]) for one in conditions if one["type"] == type_), "")

    async def _set_up(self, follower: Follower, expected: str, find: Callable[[], Found | None]) -> Found:
        """Wait for what the engine has no part in. That it does not happen is not the engine's fault."""
        try:
            return await follower.until(expected, find, _SET_UP)
        except NotSeenError as error:
            raise SetUpError(str(error)) from error


def _is_leaving(seen: Seen) -> bool:
    return seen.change == "DELETED" or "deletionTimestamp" in seen.object["metadata"]


def tolerated(key: str, *, seconds: int | None = None, effect: str = "NoExecute", **given: str) -> Document:
    """A toleration of a taint with this key, for ever or for some seconds."""
    how = given or {"operator": "Exists"}
    return {"key": key, "effect": effect, **how, **({} if seconds is None else {"tolerationSeconds": seconds})}
