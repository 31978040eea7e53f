"""The state of a control plane as its bridge has seen it: mirrored objects, and the objects that it acts on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from typing_extensions import override

from moorage.bridges.engine.cluster_events import Regarding
from moorage.bridges.engine.plan import FollowedKind
from moorage.bridges.engine.seen_state import LEASE, JsonObject, Seen, SeenState, fields_of, is_older, reduced_object
from moorage.bridges.engine.seen_target import (
    TAINTS_ANNOTATION,
    SeenTarget,
    conditions_of,
    mirrored_taints,
    target_fields,
)
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.scheduling.karmada.mirrored_bindings import KARMADA_SCHEDULER, SCHEDULER, placed_elsewhere
from moorage_schemas.keys import ResourceKey
from moorage_schemas.resources.bindings import ObjectReference, ResourceBinding
from moorage_schemas.resources.workload_kinds import BINDING_KINDS, CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING

APPLIED_PLACEMENT: Final = "policy.karmada.io/applied-placement"
"""The annotation in which a scheduler notes the placement that it has applied. Karmada's taint manager reads it."""

_DIRECTLY: Final = frozenset({"Directly", "Immediately"})

CLUSTER: Final = "Cluster"

_POLICIES: Final = "/apis/policy.karmada.io/v1alpha1"

CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"
_WORK: Final = "/apis/work.karmada.io/v1alpha2"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases"
"""The Leases that the agents in clusters renew, by the clusters' names."""

FOLLOWED: Final = (
    FollowedKind(CLUSTER, CLUSTERS),
    FollowedKind("ClusterTaintPolicy", f"{_POLICIES}/clustertaintpolicies"),
    FollowedKind("PropagationPolicy", f"{_POLICIES}/propagationpolicies"),
    FollowedKind("ClusterPropagationPolicy", f"{_POLICIES}/clusterpropagationpolicies"),
    FollowedKind(LEASE, LEASES),
    FollowedKind(RESOURCE_BINDING, f"{_WORK}/resourcebindings"),
    FollowedKind(CLUSTER_RESOURCE_BINDING, f"{_WORK}/clusterresourcebindings"),
)
MIRRORED: Final = frozenset(one.kind for one in FOLLOWED) - {LEASE}

_DROPPED: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", APPLIED_PLACEMENT, TAINTS_ANNOTATION})
_CLUSTER_SPEC: Final = ("syncMode", "id", "provider", "region", "zone", "zones", "resourceModels")
_CLUSTER_STATUS: Final = ("kubernetesVersion", "apiEnablements", "nodeSummary", "resourceSummary")
_HEALTH: Final = ("clusterName", "applied", "health")
READY: Final = "Ready"
_PULL: Final = "Pull"


@dataclass(frozen=True, slots=True)
class SeenMember(SeenTarget):
    """A Cluster as it was last seen.

    Its heartbeat changes when its agent, or the control plane for it, reports a change of its readiness.

    Attributes:
        is_pulling: whether an agent in it renews a Lease, and falls silent with it. For others the control plane looks.
    """

    is_pulling: bool

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> SeenMember:
        """Read a Cluster."""
        ready: Mapping[str, Any] = next((one for one in conditions_of(found) if one.get("type") == READY), {})
        heartbeat = "|".join(str(ready.get(part) or "") for part in ("status", "reason", "lastTransitionTime"))
        fields = {**target_fields(found), "heartbeat": heartbeat}
        return cls(**fields, is_pulling=(found.get("spec") or {}).get("syncMode") == _PULL)

    @property
    @override
    def about(self) -> Regarding:
        return Regarding("cluster.karmada.io/v1alpha1", "Cluster", "", self.name, self.uid)

    def grace(self, seconds: float) -> float:
        """Return the seconds without a sign of life after which it is silent, as Karmada's cluster controller has it.

        Only an agent in the cluster can fall silent.
        """
        return seconds if self.is_pulling and READY in self.conditions else math.inf


@dataclass(frozen=True, slots=True)
class SeenBinding:
    """A ResourceBinding or ClusterResourceBinding as it was last seen.

    Attributes:
        namespace: its namespace. Empty for a ClusterResourceBinding.
        generation: the number of its desired state.
        clusters: the replicas on each cluster that it is on.
        tasks: its graceful eviction tasks.
        applied: what is noted as the placement that was applied last.
        leaving: whether it is being deleted.
        is_placed: whether Moorage places it. Otherwise another scheduler does.
        preserved: the rules that state which of its status on a cluster is kept when that cluster fails: the
            `aliasLabelName` and the `jsonPath` of each.
        about: what events name: itself, and the resource that it places.
    """

    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    clusters: Mapping[str, int]
    tasks: Sequence[Mapping[str, Any]]
    placement: Mapping[str, Any]
    applied: str
    status: Mapping[str, Any]
    leaving: bool
    is_placed: bool
    preserved: Sequence[Mapping[str, Any]]
    about: tuple[Regarding, ...]

    @classmethod
    def of(cls, found: Mapping[str, Any], mirrored: Mapping[str, Any]) -> SeenBinding:
        """Read a binding.

        Args:
            found: as it is on the control plane.
            mirrored: as it is mirrored, with the scheduler that places it.

        Raises:
            ValidationError: it cannot be read.
        """
        metadata, spec = found["metadata"], found.get("spec") or {}
        model = ResourceBinding.model_validate(mirrored)
        return cls(
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata["name"]),
            uid=str(metadata.get("uid") or ""),
            version=str(metadata.get("resourceVersion") or ""),
            generation=int(metadata.get("generation") or 0),
            clusters={one.name: one.replicas for one in model.spec.clusters or ()},
            tasks=spec.get("gracefulEvictionTasks") or (),
            placement=spec.get("placement") or {},
            applied=str((metadata.get("annotations") or {}).get(APPLIED_PLACEMENT) or ""),
            status=found.get("status") or {},
            leaving=model.metadata.deletion_timestamp is not None,
            is_placed=not placed_elsewhere(model),
            preserved=at(spec, "failover", "cluster", "statePreservation", "rules") or (),
            about=(Regarding.of(found), *_resource(model.spec.resource)),
        )

    def health(self, cluster: str) -> str:
        """Return the health on a cluster by its status. Empty if it states none."""
        items = self.status.get("aggregatedStatus") or ()
        return next((str(one.get("health") or "") for one in items if one.get("clusterName") == cluster), "")

    def status_on(self, cluster: str) -> Mapping[str, Any]:
        """Return the status of the resource on a cluster. Empty if none was collected there."""
        items = self.status.get("aggregatedStatus") or ()
        return next((one.get("status") or {} for one in items if one.get("clusterName") == cluster), {})

    def task(self, cluster: str) -> Mapping[str, Any] | None:
        """Return the task that lets it leave a cluster. None if there is none."""
        return next((one for one in self.tasks if one.get("fromCluster") == cluster), None)

    def has_left(self, cluster: str) -> bool:
        """Return whether the control plane no longer keeps the work on a cluster.

        A task that purges directly only keeps a scheduler from going back.
        """
        task = self.task(cluster)
        return cluster not in self.clusters and (task is None or task.get("purgeMode") in _DIRECTLY)


def _resource(found: ObjectReference) -> Iterator[Regarding]:
    if found.kind and found.name:
        yield Regarding(found.api_version, found.kind, found.namespace, found.name, found.uid)


class PlaneState(SeenState[SeenMember]):
    """The objects of one control plane.

    Args:
        scheduler: the `spec.schedulerName` of the bindings that Moorage places, beside those that name it.
    """

    def __init__(self, scheduler: str, seen: Seen) -> None:
        super().__init__(seen)
        self._scheduler = scheduler
        self.bindings: dict[str, SeenBinding] = {}
        """By key. One that cannot be read is not among them."""

    @override
    def leased(self, kind: str, key: str) -> str:
        return ResourceKey.parse(key).name if kind == LEASE else ""

    @override
    def put(self, kind: str, found: JsonObject) -> None:
        key, metadata = self.key_of(kind, found), found["metadata"]
        if kind == LEASE:
            self.renewals[metadata["name"]] = str((found.get("spec") or {}).get("renewTime") or "")
            self._seen(kind, key)
            return
        if is_older(found, self._objects.get(key)):
            return
        found = {**found, "kind": kind}
        mirrored = self._objects[key] = reduced(found, self._scheduler, keeps_taints=self.keeps_taints)
        if kind == CLUSTER:
            self.targets[metadata["name"]] = SeenMember.of(found)
        elif kind in BINDING_KINDS:
            try:
                self.bindings[key] = SeenBinding.of(found, mirrored)
            except ValidationError:  # the gateway also refuses it, with the reason
                self.bindings.pop(key, None)
        self._seen(kind, key)

    @override
    def drop(self, kind: str, key: str) -> None:
        # A Lease stays known: one that is gone is not renewed, either.
        if kind == LEASE or self._objects.pop(key, None) is None:
            return
        if kind == CLUSTER:
            self.targets.pop(ResourceKey.parse(key).name, None)
        elif kind in BINDING_KINDS:
            self.bindings.pop(key, None)
        self._seen(kind, key)


def binding_path(namespace: str, name: str) -> str:
    """Return the path of a binding. One without a namespace is a ClusterResourceBinding."""
    if namespace:
        return f"{_WORK}/namespaces/{namespace}/resourcebindings/{name}"
    return f"{_WORK}/clusterresourcebindings/{name}"


def reduced(found: Mapping[str, Any], scheduler: str, *, keeps_taints: bool = False) -> JsonObject:
    """Return an object as it is mirrored, with its `metadata.resourceVersion`.

    Args:
        found: the object.
        scheduler: the `spec.schedulerName` of the bindings that Moorage places, beside those that name it.
        keeps_taints: whether the control plane decides on the taints of its clusters.
    """
    kind = str(found["kind"])
    body = (
        _cluster(found, keeps_taints=keeps_taints)
        if kind == CLUSTER
        else _binding(found, scheduler)
        if kind in BINDING_KINDS
        else None
    )
    return reduced_object(found, {"spec": found.get("spec") or {}} if body is None else body, _DROPPED)


def _cluster(found: Mapping[str, Any], *, keeps_taints: bool) -> JsonObject:
    kept = fields_of(found.get("spec") or {}, _CLUSTER_SPEC) | mirrored_taints(found, keeps=keeps_taints)
    return {"spec": kept, "status": fields_of(found.get("status") or {}, _CLUSTER_STATUS)}


def _binding(found: Mapping[str, Any], scheduler: str) -> JsonObject:
    """Return a binding. Its scheduler's name states whether Moorage places it."""
    spec, status = dict(found.get("spec") or {}), found.get("status") or {}
    named = str(spec.get("schedulerName") or KARMADA_SCHEDULER)
    spec["schedulerName"] = SCHEDULER if named == scheduler else named
    health = [fields_of(one, _HEALTH) for one in status.get("aggregatedStatus") or ()]
    kept = fields_of(status, ("schedulerObservingAffinityName", "lastScheduledTime", "conditions"))
    return {"spec": spec, "status": {**kept, "aggregatedStatus": health} if health else kept}
