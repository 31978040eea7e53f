"""The part of a hub that one scenario has for itself: a namespace, cluster sets and managed clusters."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from tests.planes.cluster import MERGE, Cluster, Document, Follower, NotSeenError, event_told, following
from tests.planes.engines import Engine

_API: Final = "/apis/cluster.open-cluster-management.io"
CLUSTERS: Final = f"{_API}/v1/managedclusters"
SETS: Final = f"{_API}/v1beta2/managedclustersets"
PLACEMENTS: Final = f"{_API}/v1beta1/placements"
DECISIONS: Final = f"{_API}/v1beta1/placementdecisions"
EVENTS: Final = "/api/v1/events"
_NAMESPACES: Final = "/api/v1/namespaces"

_GROUP: Final = "cluster.open-cluster-management.io"
_SET_LABEL: Final = f"{_GROUP}/clusterset"
_PLACEMENT_LABEL: Final = f"{_GROUP}/placement"
_SCENARIO: Final = "example.com/scenario"
_RESOURCES: Final = ("cpu", "memory")


@dataclass(frozen=True)
class Followers:
    """What the scenarios of an engine read."""

    placements: Follower
    decisions: Follower
    clusters: Follower
    events: Follower


@asynccontextmanager
async def followed(cluster: Cluster) -> AsyncIterator[Followers]:
    """Followers of Placements, PlacementDecisions, ManagedClusters and events."""
    async with following(cluster, PLACEMENTS, DECISIONS, CLUSTERS, EVENTS) as followers:
        yield Followers(*followers)


class World:
    """The namespace, sets and clusters of one scenario."""

    def __init__(self, name: str, cluster: Cluster, followers: Followers, engine: Engine) -> None:
        """Describe the part.

        Args:
            name: of the namespace and the placement, and the beginning of all other names.
            cluster: the API server of the hub.
            followers: of what it holds.
            engine: what decides.
        """
        self.name, self.cluster, self.engine = name, cluster, engine
        self.patience = engine.patience
        self._followers = followers
        self._count = 0
        self._sets: list[str] = []
        self._namespaces: list[str] = []

    async def open(self) -> None:
        """Create the namespace."""
        await self._namespace(self.name)

    async def close(self) -> None:
        """Delete everything."""
        await self.cluster.delete(f"{self._placements}/{self.name}")
        await self.cluster.delete(self._in("v1beta1/{}/placementdecisions"))
        await self.cluster.delete(f"{CLUSTERS}?labelSelector={_SCENARIO}%3D{self.name}")
        for one in self._sets:
            await self.cluster.delete(f"{SETS}/{one}")
        for one in self._namespaces:
            await self.cluster.delete(f"{_NAMESPACES}/{one}")

    # What the scenario sets up.

    def own(self, name: str) -> str:
        """A name or a value of a label that no other scenario has."""
        return f"{self.name}-{name}"

    async def create_set(self, name: str, **labels: str) -> None:
        """Create a cluster set: of the clusters that name it, or of those with some labels."""
        selector: Document = {"selectorType": "ExclusiveClusterSetLabel"}
        if labels or name == "global":
            selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": labels}}
        self._sets.append(name)
        await self.cluster.create(SETS, self._object("ManagedClusterSet", "v1beta2", name, clusterSelector=selector))

    async def bind(self, name: str) -> None:
        """Bind a cluster set to the namespace."""
        binding = self._object("ManagedClusterSetBinding", "v1beta2", name, clusterSet=name)
        await self.cluster.create(self._bindings, binding)

    async def bound_set(self, name: str) -> None:
        """Create a cluster set, and bind it."""
        await self.create_set(name)
        await self.bind(name)

    async def delete_set(self, name: str) -> None:
        """Delete a cluster set."""
        await self.cluster.delete(f"{SETS}/{name}")

    async def unbind(self, name: str) -> None:
        """Delete the binding of a cluster set."""
        await self.cluster.delete(f"{self._bindings}/{name}")

    async def clusters(self, set_: str, count: int, **labels: str) -> list[str]:
        """Create clusters of a set, with labels that they have as claims, too. Return their names in order."""
        names = [f"{self.name}-c{self._count + number:03}" for number in range(count)]
        self._count += count
        for first in range(0, count, 20):
            await asyncio.gather(*(self._create_cluster(one, set_, labels) for one in names[first : first + 20]))
        return names

    async def _create_cluster(self, name: str, set_: str, labels: dict[str, str]) -> None:
        cluster = self._object("ManagedCluster", "v1", name, hubAcceptsClient=True)
        cluster["metadata"]["labels"] = {_SET_LABEL: set_, _SCENARIO: self.name, **labels}
        await self.cluster.create(CLUSTERS, cluster)
        claims = [{"name": key, "value": value} for key, value in labels.items()]
        await self._patch_status(name, {"clusterClaims": claims})

    async def _patch_status(self, name: str, status: Document) -> None:
        """Set the status of a cluster, as its agent does. One that nobody says to be available would be tainted."""
        available = {
            "type": "ManagedClusterConditionAvailable",
            "status": "True",
            "reason": "ManagedClusterAvailable",
            "message": "Managed cluster is available",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {"conditions": [available], "version": {}, **status}
        await self.cluster.patch(f"{CLUSTERS}/{name}/status", {"status": status}, MERGE)

    async def delete_clusters(self, *names: str) -> None:
        """Delete clusters."""
        for name in names:
            await self.cluster.delete(f"{CLUSTERS}/{name}")

    async def resources(self, name: str, allocatable: Sequence[str], capacity: Sequence[str]) -> None:
        """Set what a cluster has of processors and memory."""
        given = {"allocatable": dict(zip(_RESOURCES, allocatable, strict=True))}
        given["capacity"] = dict(zip(_RESOURCES, capacity, strict=True))
        await self._patch_status(name, given)

    async def taint(self, name: str, key: str, value: str, effect: str, ago: float | None = None) -> dt.datetime:
        """Add a taint to a cluster, as of some seconds ago or without a time. Return when tolerated times begin."""
        begin = dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(seconds=ago or 0)
        added = None if ago is None else begin.strftime("%Y-%m-%dT%H:%M:%SZ")

        def add(cluster: Document) -> None:
            taint = {"key": key, "value": value, "effect": effect, "timeAdded": added}
            cluster["spec"]["taints"] = [*cluster["spec"].get("taints", ()), taint]

        await self.cluster.update(f"{CLUSTERS}/{name}", add)
        return begin

    async def score(self, cluster: str, value: int) -> None:
        """Set the score `demo` of a cluster, which holds for some seconds, as in upstream's tests."""
        if cluster not in self._namespaces:
            await self._namespace(cluster)
        until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=120)
        scores = f"{_API}/v1alpha1/namespaces/{cluster}/addonplacementscores"
        given = {"apiVersion": f"{_GROUP}/v1alpha1", "kind": "AddOnPlacementScore", "metadata": {"name": "demo"}}
        if not (await self.cluster.get(scores))["items"]:
            await self.cluster.create(scores, given)
        status = {"scores": [{"name": "demo", "value": value}], "validUntil": until.strftime("%Y-%m-%dT%H:%M:%SZ")}
        await self.cluster.patch(f"{scores}/demo/status", {"status": status}, MERGE)

    async def untaint(self, name: str, key: str) -> None:
        """Remove the taints of a key from a cluster."""

        def remove(cluster: Document) -> None:
            cluster["spec"]["taints"] = [one for one in cluster["spec"].get("taints", ()) if one["key"] != key]

        await self.cluster.update(f"{CLUSTERS}/{name}", remove)

    async def tainted(self, name: str, *keys: str) -> Document:
        """Return a cluster when it has taints of exactly these keys."""

        def find() -> Document | None:
            found = self._followers.clusters.get(name)
            taints = found["spec"].get("taints", ()) if found is not None else ()
            return found if sorted(one["key"] for one in taints) == sorted(keys) else None

        return await self._followers.clusters.until(f"{name} has the taints {keys}", find, self.patience)

    async def add_on(self, cluster: str, name: str) -> None:
        """Create an add-on of a cluster, which its agent says to be available."""
        await self._namespace(cluster)
        add_ons = f"/apis/addon.open-cluster-management.io/v1alpha1/namespaces/{cluster}/managedclusteraddons"
        kind = {"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn"}
        await self.cluster.create(add_ons, {**kind, "metadata": {"name": name}, "spec": {}})
        available = {"type": "Available", "status": "True", "reason": "Scenario", "message": ""}
        condition = {**available, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await self.cluster.patch(f"{add_ons}/{name}/status", {"status": {"conditions": [condition]}}, MERGE)

    async def labelled(self, cluster: str, name: str, value: str) -> None:
        """Return when a cluster has a label."""

        def find() -> bool | None:
            found = self._followers.clusters.get(cluster)
            return True if found and found["metadata"].get("labels", {}).get(name) == value else None

        await self._followers.clusters.until(f"{cluster} has {name}={value}", find, self.patience)

    async def place(self, **spec: Any) -> None:
        """Create the placement of the scenario."""
        await self.cluster.create(self._placements, self._object("Placement", "v1beta1", self.name, **spec))

    async def change(self, **spec: Any) -> None:
        """Change fields of the spec of the placement."""
        await self.cluster.patch(f"{self._placements}/{self.name}", {"spec": spec}, MERGE)

    async def decide_elsewhere(self, name: str, clusters: Iterable[str]) -> None:
        """Create a decision of another placement, as if it had been taken."""
        decision = self._object("PlacementDecision", "v1beta1", name)
        decision["metadata"]["labels"] = {_PLACEMENT_LABEL: name}
        decisions = self._in("v1beta1/{}/placementdecisions")
        await self.cluster.create(decisions, decision)
        status = {"decisions": [{"clusterName": one, "reason": ""} for one in clusters]}
        await self.cluster.patch(f"{decisions}/{name}/status", {"status": status}, MERGE)

    async def relabel_decision(self) -> None:
        """Name another group in the label of a decision, and return when it has the right one again."""
        label, (decision, *_) = f"{_GROUP}/decision-group-index", self.decisions()
        name, right = decision["metadata"]["name"], decision["metadata"]["labels"][label]
        path = self._in("v1beta1/{}/placementdecisions") + f"/{name}"
        changed = await self.cluster.patch(path, {"metadata": {"labels": {label: "9"}}}, MERGE)
        version = int(changed["metadata"]["resourceVersion"])

        def find() -> bool | None:
            found = self._followers.decisions.get(name, self.name)
            later = found is not None and int(found["metadata"]["resourceVersion"]) > version
            return True if later and found and found["metadata"]["labels"][label] == right else None

        await self._followers.decisions.until(f"{name} has its group again", find, self.patience)

    async def delete_decisions(self) -> None:
        """Delete the decisions of the placement."""
        for one in self.decisions():
            await self.cluster.delete(self._in("v1beta1/{}/placementdecisions") + f"/{one['metadata']['name']}")

    # What the API server shows.

    def decisions(self) -> list[Document]:
        """The PlacementDecisions of the placement as they are now, in the order of their names."""
        label = _PLACEMENT_LABEL
        every = self._followers.decisions.all(self.name)
        found = [one for one in every if one["metadata"].get("labels", {}).get(label) == self.name]
        return sorted(found, key=lambda one: str(one["metadata"]["name"]))

    def selected(self) -> list[str]:
        """The clusters that are selected now, in the order of their names."""
        decided = [one.get("status", {}).get("decisions", ()) for one in self.decisions()]
        return sorted(cluster["clusterName"] for page in decided for cluster in page)

    async def selects(self, clusters: Iterable[str], seconds: float | None = None) -> None:
        """Return when exactly these clusters are selected."""
        wanted = sorted(clusters)
        try:
            await self._followers.decisions.until(
                f"{self.name} selects {wanted}",
                lambda: True if self.selected() == wanted and self.decisions() else None,
                self.patience if seconds is None else seconds,
            )
        except NotSeenError as error:
            raise NotSeenError(f"{error}. It selects {self.selected()}") from None

    async def replaced(self, uids: set[str]) -> None:
        """Return when there are decisions, and none of these."""

        def find() -> bool | None:
            found = {one["metadata"]["uid"] for one in self.decisions()}
            return True if found and not found & uids else None

        await self._followers.decisions.until(f"the decisions of {self.name} are others", find, self.patience)

    async def numbers(self, clusters: int, decisions: int) -> None:
        """Return when so many clusters are selected, in so many PlacementDecisions, which the placement owns."""

        def find() -> bool | None:
            found = self.decisions()
            same = len(found) == decisions and len(self.selected()) == clusters
            return True if same and all(self._owned(one) for one in found) else None

        expected = f"{self.name} selects {clusters} clusters in {decisions} decisions"
        await self._followers.decisions.until(expected, find, self.patience)

    async def condition(self, type_: str, status: str, reason: str = "") -> None:
        """Return when the placement has a condition."""

        def find() -> bool | None:
            for one in self._status().get("conditions", ()):
                if one["type"] == type_ and one["status"] == status and reason in {"", one["reason"]}:
                    return True
            return None

        await self._followers.placements.until(f"{self.name} has {type_}={status} {reason}", find, self.patience)

    async def satisfied(self, clusters: int, *, all_: bool) -> None:
        """Return when the status says how many clusters are selected, and whether these are all that were asked for."""
        reason = "AllDecisionsScheduled" if all_ else "NotAllDecisionsScheduled"
        await self.condition("PlacementSatisfied", "True" if all_ else "False", reason)
        await self._followers.placements.until(
            f"{self.name} says that {clusters} clusters are selected",
            lambda: True if self._status().get("numberOfSelectedClusters", 0) == clusters else None,
            self.patience,
        )

    async def groups(self, *groups: tuple[str, Sequence[int], int]) -> None:
        """Return when the status has these decision groups: names, numbers of their decisions, numbers of clusters."""
        wanted = [
            (index, name, [f"{self.name}-decision-{number}" for number in numbers], count)
            for index, (name, numbers, count) in enumerate(groups)
        ]

        def find() -> bool | None:
            shown = [
                (
                    one.get("decisionGroupIndex", 0),
                    one.get("decisionGroupName", ""),
                    one.get("decisions", []),
                    one.get("clusterCount", 0),
                )
                for one in self._status().get("decisionGroups", ())
            ]
            return True if shown == wanted else None

        await self._followers.placements.until(f"{self.name} has the decision groups {wanted}", find, self.patience)

    async def told(self, kind: str, name: str, type_: str, reason: str, *, namespace: str = "default") -> None:
        """Return when there is an event about an object."""
        await event_told(self._followers.events, namespace, (kind, name, type_, reason), self.patience)

    def _status(self) -> Document:
        found = self._followers.placements.get(self.name, self.name)
        return dict((found or {}).get("status", {}))

    def _owned(self, decision: Document) -> bool:
        placement = self._followers.placements.get(self.name, self.name)
        owners = decision["metadata"].get("ownerReferences", ())
        uid = placement["metadata"]["uid"] if placement else None
        return any(one["uid"] == uid and one.get("controller") for one in owners)

    @property
    def _placements(self) -> str:
        return self._in("v1beta1/{}/placements")

    @property
    def _bindings(self) -> str:
        return self._in("v1beta2/{}/managedclustersetbindings")

    def _in(self, path: str) -> str:
        return f"{_API}/{path.format(f'namespaces/{self.name}')}"

    async def _namespace(self, name: str) -> None:
        self._namespaces.append(name)
        await self.cluster.create(_NAMESPACES, {"metadata": {"name": name}})

    @staticmethod
    def _object(kind: str, version: str, name: str, **spec: Any) -> Document:
        found: Document = {"apiVersion": f"{_GROUP}/{version}", "kind": kind, "metadata": {"name": name}}
        return found | ({"spec": spec} if spec or kind == "Placement" else {})
