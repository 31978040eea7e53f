"""The part of Karmada's control plane that one scenario has for itself: clusters, and what is to run on them."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from tests.planes.cluster import MERGE, Cluster, Document, Follower, event_told, following
from tests.planes.engines import Engine

CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"
TAINT_POLICIES: Final = "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies"
BINDINGS: Final = "/apis/work.karmada.io/v1alpha2/resourcebindings"
CLUSTER_BINDINGS: Final = "/apis/work.karmada.io/v1alpha2/clusterresourcebindings"
WORKS: Final = "/apis/work.karmada.io/v1alpha1/works"
EVENTS: Final = "/api/v1/events"
_NAMESPACES: Final = "/api/v1/namespaces"
_POLICIES: Final = "/apis/policy.karmada.io/v1alpha1"
_RBAC: Final = "rbac.authorization.k8s.io/v1"

_DEPLOYMENT: Final = "nginx"
_REPLICAS: Final = 3
_ENABLED: Final = [
    {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]},
    {"groupVersion": _RBAC, "resources": [{"name": "clusterroles", "kind": "ClusterRole"}]},
]

Taint = dict[str, str]


@dataclass(frozen=True)
class Followers:
    """What the scenarios of an engine read."""

    clusters: Follower
    bindings: Follower
    cluster_bindings: Follower
    works: Follower
    events: Follower


@asynccontextmanager
async def followed(cluster: Cluster) -> AsyncIterator[Followers]:
    """Followers of Clusters, bindings with and without a namespace, Works and events."""
    async with following(cluster, CLUSTERS, BINDINGS, CLUSTER_BINDINGS, WORKS, EVENTS) as followers:
        yield Followers(*followers)


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """The clusters and the namespace of one scenario."""

    def __init__(self, name: str, cluster: Cluster, followers: Followers, engine: Engine) -> None:
        """Describe the part.

        Args:
            name: of the namespace, and the beginning of the names of the clusters.
            cluster: Karmada's API server.
            followers: of what it holds.
            engine: what decides.
        """
        self.name, self.cluster, self.engine = name, cluster, engine
        self.patience = engine.patience
        self._followers = followers
        self._clusters: list[str] = []
        self._cluster_wide: list[str] = []
        """The paths of all else that is in no namespace."""

        self._bindings, self._binding = followers.bindings, (f"{_DEPLOYMENT}-deployment", name)
        self._claimed = ("Deployment", name, _DEPLOYMENT)
        """The kind, the namespace and the name of what the policy of the scenario has claimed."""

    async def open(self) -> None:
        """Create the namespace."""
        await self.cluster.create(_NAMESPACES, {"metadata": {"name": self.name}})

    async def close(self) -> None:
        """Delete everything."""
        for path in self._cluster_wide:
            await self.cluster.delete(path)
        await self.cluster.delete(f"{_NAMESPACES}/{self.name}")
        for one in self._clusters:
            await self.cluster.delete(f"{CLUSTERS}/{one}")

    # What the scenario sets up.

    async def member(self, name: str, *taints: Taint) -> str:
        """Create a cluster that is ready, and return its name."""
        full = f"{self.name}-{name}"
        self._clusters.append(full)
        spec = {"syncMode": "Pull", "id": full, "taints": list(taints)}
        described = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": full}}
        await self.cluster.create(CLUSTERS, {**described, "spec": spec})
        await self.condition(full, "Ready", "True", kubernetesVersion="v1.37.0", apiEnablements=_ENABLED)
        await self.condition(full, "CompleteAPIEnablements", "True")
        return full

    async def condition(self, cluster: str, type_: str, status: str, **fields: Any) -> None:
        """Report a condition of a cluster, as its agent would, and more fields of its status."""
        condition = {"type": type_, "status": status, "reason": "Scenario", "message": "", "lastTransitionTime": _now()}

        def change(found: Document) -> None:
            shown = found.setdefault("status", {})
            others = [one for one in shown.get("conditions", ()) if one["type"] != type_]
            shown.update(fields, conditions=[*others, condition])

        path = f"{CLUSTERS}/{cluster}"
        await self.cluster.update(path, change, part="status")

    async def taint_policy(self, name: str, **spec: Any) -> None:
        """Create a ClusterTaintPolicy."""
        full = f"{self.name}-{name}"
        kind = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy"}
        await self._create(TAINT_POLICIES, {**kind, "metadata": {"name": full}, "spec": spec})

    async def taint(self, cluster: str, taint: Taint) -> dt.datetime:
        """Add a taint to a cluster as of now, and return when tolerated times begin."""
        now = dt.datetime.now(dt.UTC).replace(microsecond=0)

        def add(found: Document) -> None:
            added = {**taint, "timeAdded": now.strftime("%Y-%m-%dT%H:%M:%SZ")}
            found["spec"]["taints"] = [*found["spec"].get("taints", ()), added]

        await self.cluster.update(f"{CLUSTERS}/{cluster}", add)
        return now

    async def untaint(self, cluster: str, taint: Taint) -> None:
        """Remove a taint from a cluster."""

        def remove(found: Document) -> None:
            same = (taint["key"], taint["effect"])
            kept = [one for one in found["spec"].get("taints", ()) if (one["key"], one["effect"]) != same]
            found["spec"]["taints"] = kept

        await self.cluster.update(f"{CLUSTERS}/{cluster}", remove)

    async def deploy(self, placement: Document, failover: Document | None = None) -> None:
        """Create a deployment, and a PropagationPolicy that selects it."""
        resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": _DEPLOYMENT}
        spec = {"resourceSelectors": [resource], "placement": placement} | ({"failover": failover} if failover else {})
        kind = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy"}
        policies = f"{_POLICIES}/namespaces/{self.name}/propagationpolicies"
        await self.cluster.create(policies, {**kind, "metadata": {"name": _DEPLOYMENT}, "spec": spec})
        labels = {"app": _DEPLOYMENT}
        containers = [{"name": "nginx", "image": "nginx:1.19.0"}]
        await self.cluster.create(
            f"/apis/apps/v1/namespaces/{self.name}/deployments",
            {
                "metadata": {"name": _DEPLOYMENT, "labels": labels},
                "spec": {
                    "replicas": _REPLICAS,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
                },
            },
        )

    async def propagate_role(self, placement: Document, failover: Document | None = None) -> None:
        """Create a ClusterRole, and a ClusterPropagationPolicy that selects it. The scenario is about it."""
        kind = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy"}
        resource = {"apiVersion": _RBAC, "kind": "ClusterRole", "name": self.name}
        spec = {"resourceSelectors": [resource], "placement": placement} | ({"failover": failover} if failover else {})
        metadata = {"metadata": {"name": self.name}}
        self._bindings, self._binding = self._followers.cluster_bindings, (f"{self.name}-clusterrole", "")
        self._claimed = ("ClusterRole", "", self.name)
        await self._create(f"{_POLICIES}/clusterpropagationpolicies", {**kind, **metadata, "spec": spec})
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        role = {"apiVersion": _RBAC, "kind": "ClusterRole", **metadata, "rules": rules}
        await self._create(f"/apis/{_RBAC}/clusterroles", role)

    async def delete_role(self) -> None:
        """Delete the ClusterRole."""
        await self.cluster.delete(f"/apis/{_RBAC}/clusterroles/{self.name}")

    async def _create(self, path: str, document: Document) -> None:
        """Create something in no namespace, which goes with the scenario."""
        self._cluster_wide.insert(0, f"{path}/{document['metadata']['name']}")
        await self.cluster.create(path, document)

    async def healthy(self, cluster: str) -> None:
        """Report that the deployment is healthy on a cluster, as its agent would, when it is to run there."""
        work = await self._followers.works.until(
            f"the deployment is handed to {cluster}", lambda: self.work(cluster), self.patience
        )
        group = {"group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments"}
        identifier = {"ordinal": 0, **group, "namespace": self.name, "name": _DEPLOYMENT}
        counts = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
        shown = {**dict.fromkeys(counts, _REPLICAS), "observedGeneration": 1}
        applied = {"type": "Applied", "status": "True", "reason": "AppliedSuccessful", "message": ""}
        status = {
            "conditions": [{**applied, "lastTransitionTime": _now()}],
            "manifestStatuses": [{"identifier": identifier, "status": shown, "health": "Healthy"}],
        }
        metadata = work["metadata"]
        place = f"/apis/work.karmada.io/v1alpha1/namespaces/{metadata['namespace']}/works/{metadata['name']}/status"
        await self.cluster.patch(place, {"status": status}, MERGE)

    # What the API server shows.

    def taints(self, cluster: str) -> set[tuple[str, str]]:
        """Keys and effects of the taints that a cluster has now."""
        return _taints_of(self._followers.clusters.get(cluster) or {"spec": {}})

    def ever_tainted(self, cluster: str) -> set[tuple[str, str]]:
        """Keys and effects of all taints that a cluster has had."""
        return set[tuple[str, str]]().union(
            *(_taints_of(one.object) for one in self._followers.clusters.versions(cluster))
        )

    async def tainted(self, cluster: str, *taints: tuple[str, str]) -> None:
        """Return when a cluster has these taints, and no others."""
        wanted = set(taints)
        await self._followers.clusters.until(
            f"{cluster} has the taints {sorted(wanted)}",
            lambda: True if self.taints(cluster) == wanted else None,
            self.patience,
        )

    def binding(self) -> Document:
        """The binding of what was claimed, as it is now."""
        return self._bindings.get(*self._binding) or {"spec": {}}

    def targets(self) -> set[str]:
        """The clusters of the binding as it is now."""
        return {one["name"] for one in self.binding()["spec"].get("clusters") or ()}

    async def placed(self, wanted: Callable[[set[str]], bool], expected: str) -> set[str]:
        """Return the clusters of the binding as soon as they are as wanted."""

        def find() -> set[str] | None:
            found = self.targets()
            return found if wanted(found) else None

        return await self._bindings.until(f"{self.name} is placed {expected}", find, self.patience)

    async def scheduled(self) -> None:
        """Return when the binding says that it is placed."""

        def find() -> bool | None:
            conditions = self.binding().get("status", {}).get("conditions") or ()
            return True if any((one["type"], one["status"]) == ("Scheduled", "True") for one in conditions) else None

        await self._bindings.until(f"{self.name} is scheduled", find, self.patience)

    def work(self, cluster: str) -> Document | None:
        """What a cluster is to have of what was claimed. None if it is nothing."""
        for one in self._followers.works.all(f"karmada-es-{cluster}"):
            manifests = one["spec"]["workload"]["manifests"]
            if any(self._is_ours(manifest) for manifest in manifests) and not _is_leaving(one):
                return one
        return None

    async def presented(self, clusters: Iterable[str]) -> None:
        """Return when each of these clusters is to have what was claimed."""
        wanted = list(clusters)
        await self._followers.works.until(
            f"{self.name} is on {wanted}",
            lambda: True if all(self.work(one) for one in wanted) else None,
            self.patience,
        )

    async def disappears(self, clusters: Iterable[str]) -> None:
        """Return when none of these clusters is to have what was claimed."""
        gone = list(clusters)
        await self._followers.works.until(
            f"{self.name} is on none of {gone}",
            lambda: True if not any(self.work(one) for one in gone) else None,
            self.patience,
        )

    async def told(self, kind: str, name: str, type_: str, reason: str, *, namespace: str = "default") -> None:
        """Return when there is an event about an object."""
        await event_told(self._followers.events, namespace, (kind, name, type_, reason), self.patience)

    def _is_ours(self, manifest: Document) -> bool:
        metadata = manifest["metadata"]
        return (manifest["kind"], metadata.get("namespace", ""), metadata["name"]) == self._claimed


def _is_leaving(document: Document) -> bool:
    return "deletionTimestamp" in document["metadata"]


def _taints_of(cluster: Document) -> set[tuple[str, str]]:
    return {(one["key"], one["effect"]) for one in cluster["spec"].get("taints") or ()}
