"""The objects of a Kubernetes cluster in memory, as a kube-apiserver keeps them: versions, deletion, managed fields.

Patches and managed fields are those of `moorage.apiserver.machinery.patching`, which is held to upstream's.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, NamedTuple

from moorage.apiserver.machinery.openapi import registry
from moorage.apiserver.machinery.patching import managed_fields, merge_patch, strategic_merge
from moorage.apiserver.machinery.patching.server_side_apply import FieldManagement, reset_fields

Json = dict[str, Any]
Name = tuple[str, str]
"""Namespace and name."""

NOW: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class Resource(NamedTuple):
    """A kind, as the API server serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


RESOURCES: Final = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False),
    Resource("", "v1", "nodes", "Node", namespaced=False),
    Resource("", "v1", "pods", "Pod"),
    Resource("", "v1", "events", "Event"),
    Resource("apps", "v1", "deployments", "Deployment"),
    Resource("apps", "v1", "replicasets", "ReplicaSet"),
    Resource("apps", "v1", "daemonsets", "DaemonSet"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("batch", "v1", "jobs", "Job"),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("cluster.open-cluster-management.io", "v1", "managedclusters", "ManagedCluster", namespaced=False),
    Resource(
        "cluster.open-cluster-management.io", "v1beta2", "managedclustersets", "ManagedClusterSet", namespaced=False
    ),
    Resource("cluster.open-cluster-management.io", "v1beta2", "managedclustersetbindings", "ManagedClusterSetBinding"),
    Resource("cluster.open-cluster-management.io", "v1alpha1", "addonplacementscores", "AddOnPlacementScore"),
    Resource("addon.open-cluster-management.io", "v1alpha1", "managedclusteraddons", "ManagedClusterAddOn"),
    Resource("cluster.open-cluster-management.io", "v1beta1", "placements", "Placement"),
    Resource("cluster.open-cluster-management.io", "v1beta1", "placementdecisions", "PlacementDecision"),
    Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False),
    Resource("policy.karmada.io", "v1alpha1", "clustertaintpolicies", "ClusterTaintPolicy", namespaced=False),
    Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy"),
    Resource(
        "policy.karmada.io", "v1alpha1", "clusterpropagationpolicies", "ClusterPropagationPolicy", namespaced=False
    ),
    Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding"),
    Resource("work.karmada.io", "v1alpha2", "clusterresourcebindings", "ClusterResourceBinding", namespaced=False),
)
OF_KIND: Final = {one.kind: one for one in RESOURCES}


class KubeError(Exception):
    """A refusal, as a `Status`."""

    def __init__(self, code: int, reason: str, message: str, causes: Sequence[Json] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
            **({"details": {"causes": list(causes)}} if causes else {}),
        }


class Change(NamedTuple):
    """A change, as a watch shows it."""

    version: int
    resource: Resource
    type: str
    object: Json


class KubeStore:
    """The objects. Methods without `request` in their names are what others than the client under test do."""

    def __init__(self) -> None:
        self._version = 100
        self._objects: dict[Resource, dict[Name, Json]] = {one: {} for one in RESOURCES}
        self._changes: list[Change] = []
        self._since = self._version
        """Changes up to this version are not known any more."""

        self.told: list[Callable[[Change], None]] = []
        """Called with each change: the watches."""

    @property
    def version(self) -> int:
        """The present version of everything."""
        return self._version

    # What is there.

    def get(self, kind: str, name: str, namespace: str = "") -> Json:
        """Return an object.

        Raises:
            KubeError: 404.
        """
        resource = OF_KIND[kind]
        found = self._objects[resource].get((namespace, name))
        if found is None:
            raise KubeError(404, "NotFound", f'{resource.plural} "{name}" not found')
        return copy.deepcopy(found)

    def has(self, kind: str, name: str, namespace: str = "") -> bool:
        """Whether there is such an object."""
        return (namespace, name) in self._objects[OF_KIND[kind]]

    def listed(self, resource: Resource, namespace: str = "") -> list[Json]:
        """Return the objects of a resource in the order of their names, without kind and version, as lists are."""
        return [
            {field: copy.deepcopy(value) for field, value in one.items() if field not in {"kind", "apiVersion"}}
            for (where, _), one in sorted(self._objects[resource].items())
            if namespace in {"", where}
        ]

    def all(self, kind: str) -> Iterator[Json]:
        """The objects of a kind."""
        yield from copy.deepcopy(list(self._objects[OF_KIND[kind]].values()))

    def changes_since(self, resource: Resource, version: int, namespace: str = "") -> list[Change]:
        """Return what has changed after a version.

        Raises:
            KubeError: 410, if that is not known any more.
        """
        if version < self._since:
            raise KubeError(410, "Expired", f"too old resource version: {version} ({self._since})")
        return [
            one
            for one in self._changes
            if one.version > version
            and one.resource is resource
            and namespace in {"", one.object["metadata"].get("namespace", "")}
        ]

    def compact(self) -> None:
        """Forget the past, as etcd does after five minutes."""
        self._changes.clear()
        self._since = self._version + 1
        self._version += 1

    # What is done.

    def create(self, kind: str, document: Mapping[str, Any], manager: str = "kubectl") -> Json:
        """Create an object.

        Raises:
            KubeError: 409, if there is one of this name.
        """
        resource, found = OF_KIND[kind], copy.deepcopy(dict(document))
        metadata = found.setdefault("metadata", {})
        name = (metadata.get("namespace", "") if resource.namespaced else "", metadata["name"])
        if name in self._objects[resource]:
            raise KubeError(409, "AlreadyExists", f'{resource.plural} "{name[1]}" already exists')
        found |= {"kind": kind, "apiVersion": resource.api_version}
        metadata["uid"] = metadata.get("uid") or str(uuid.uuid4())
        metadata.setdefault("creationTimestamp", managed_fields.rfc3339(NOW))
        found = _management(resource, "").updated(None, found, manager, NOW)
        return self._put(resource, name, "ADDED", found)

    def change(
        self,
        kind: str,
        name: str,
        namespace: str = "",
        *,
        patch: Mapping[str, Any],
        subresource: str = "",
        manager: str = "kubectl",
        strategic: bool = True,
    ) -> Json:
        """Patch an object.

        Raises:
            KubeError: 404, or 409 if the patch names another uid or version.
        """
        live = self.get(kind, name, namespace)
        resource = OF_KIND[kind]
        schema = registry.schema_of(resource.group, resource.version, kind)
        _check(patch.get("metadata") or {}, live)
        new = strategic_merge.applied(live, patch, schema) if strategic else merge_patch.applied(live, patch)
        return self.replace(kind, name, namespace, new=new, subresource=subresource, manager=manager)

    def replace(
        self, kind: str, name: str, namespace: str = "", *, new: Json, subresource: str = "", manager: str = "kubectl"
    ) -> Json:
        """Write an object whole. A status is written through its subresource alone, and nothing else is.

        Raises:
            KubeError: 404, or 409 if it names another uid or version.
        """
        live, resource = self.get(kind, name, namespace), OF_KIND[kind]
        _check(new.get("metadata") or {}, live)
        kept = live if subresource == "status" else new
        found = {**kept, "metadata": {**kept["metadata"], **_fixed(live)}}
        whose = new if subresource == "status" else live
        found.pop("status", None)
        if "status" in whose:
            found["status"] = whose["status"]
        found = _management(resource, subresource).updated(live, found, manager, NOW)
        return self._put(resource, (namespace, name), "MODIFIED", found, live)

    def apply(self, kind: str, name: str, *, config: Json, subresource: str, manager: str, force: bool) -> Json:
        """Apply a configuration on the server's side to an object without a namespace.

        Raises:
            KubeError: 404 or 409.
            PatchError: 409, if fields of others would change.
        """
        live, resource = self.get(kind, name), OF_KIND[kind]
        _check(config.get("metadata") or {}, live)
        bare = {**config, "metadata": {"name": name}}
        found = _management(resource, subresource).applied(live, bare, manager, NOW, force=force)
        if subresource == "status":
            entries = found["metadata"].get("managedFields")
            found = {**live, "status": found.get("status", {})}
            found["metadata"] = {**live["metadata"], "managedFields": entries}
        return self._put(resource, ("", name), "MODIFIED", found, live)

    def request_deletion(self, kind: str, name: str, namespace: str = "", options: Mapping[str, Any] = {}) -> Json:
        """Delete an object as a client asks. A pod that runs goes when `delete` is called, as its kubelet would do.

        Raises:
            KubeError: 404, or 409 if it is another one.
        """
        live = self.get(kind, name, namespace)
        _check(options.get("preconditions") or {}, live)
        status, spec, metadata = live.get("status") or {}, live.get("spec") or {}, live["metadata"]
        grace = options.get("gracePeriodSeconds", spec.get("terminationGracePeriodSeconds", 30))
        runs = kind == "Pod" and spec.get("nodeName") and status.get("phase") not in _FINISHED and grace
        if not runs and not metadata.get("finalizers"):
            self.delete(kind, name, namespace)
            return live
        if metadata.get("deletionTimestamp"):
            return live
        metadata |= {"deletionTimestamp": managed_fields.rfc3339(NOW), "deletionGracePeriodSeconds": grace}
        return self._put(OF_KIND[kind], (namespace, name), "MODIFIED", live)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Let an object be gone.

        Raises:
            KubeError: 404.
        """
        found, resource = self.get(kind, name, namespace), OF_KIND[kind]
        del self._objects[resource][(namespace, name)]
        self._note(resource, "DELETED", found)

    def bind(self, name: str, namespace: str, binding: Mapping[str, Any]) -> None:
        """Bind a pod.

        Raises:
            KubeError: 404, or 409 if it is another one, bound already or being deleted.
        """
        pod = self.get("Pod", name, namespace)
        _check(binding.get("metadata") or {}, pod)
        if pod["metadata"].get("deletionTimestamp"):
            raise KubeError(409, "Conflict", f"pod {name} is being deleted, cannot be assigned to a host")
        if node := (pod.get("spec") or {}).get("nodeName"):
            raise KubeError(409, "Conflict", f"pod {name} is already assigned to node {node!r}")
        pod.setdefault("spec", {})["nodeName"] = binding["target"]["name"]
        scheduled = {"type": "PodScheduled", "status": "True"}
        others = [one for one in (pod.get("status") or {}).get("conditions") or () if one["type"] != "PodScheduled"]
        pod.setdefault("status", {})["conditions"] = [*others, scheduled]
        self._put(OF_KIND["Pod"], (namespace, name), "MODIFIED", pod)

    def _put(self, resource: Resource, name: Name, kind: str, found: Json, live: Json | None = None) -> Json:
        if live is not None and _without_version(found) == _without_version(live):
            return copy.deepcopy(live)  # nothing changes, so there is no new version
        self._objects[resource][name] = found
        self._note(resource, kind, found)
        return copy.deepcopy(found)

    def _note(self, resource: Resource, kind: str, found: Json) -> None:
        self._version += 1
        found["metadata"]["resourceVersion"] = str(self._version)
        change = Change(self._version, resource, kind, copy.deepcopy(found))
        self._changes.append(change)
        for told in tuple(self.told):
            told(change)


def _fixed(live: Mapping[str, Any]) -> Json:
    """The metadata that no client sets."""
    names = ("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "managedFields")
    return {name: live["metadata"][name] for name in names if name in live["metadata"]}


def _check(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> None:
    metadata = live["metadata"]
    if wanted.get("uid") not in {None, metadata["uid"]}:
        text = f"Precondition failed: UID in precondition: {wanted['uid']}, UID in object meta: {metadata['uid']}"
        raise KubeError(409, "Conflict", text)
    if wanted.get("resourceVersion") not in {None, "", metadata["resourceVersion"]}:
        raise KubeError(
            409, "Conflict", "the object has been modified; please apply your changes to the latest version"
        )


def _without_version(found: Mapping[str, Any]) -> Json:
    metadata = {name: value for name, value in found["metadata"].items() if name != "resourceVersion"}
    return {**found, "metadata": metadata}


@cache
def _management(resource: Resource, subresource: str) -> FieldManagement:
    schema = registry.schema_of(resource.group, resource.version, resource.kind)
    has_status = "status" in schema.fields
    reset = reset_fields(resource.group, resource.kind, subresource, has_status=has_status)
    if not subresource:
        reset = ()  # a test creates objects with their status
    return FieldManagement(schema, resource.api_version, resource.kind, subresource=subresource, reset=reset)
