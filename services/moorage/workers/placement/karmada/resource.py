"""Declared resources that policies can claim, and the mirrored bindings of a real Karmada control plane.

A mirrored binding contains its placement, so Moorage matches no policy for it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moorage.decide.kubernetes.hashes import document_hash
from moorage.decide.kubernetes.quantities import QuantityError, whole_amounts
from moorage.decide.scheduling.karmada.mirrored_bindings import TAINT_MANAGER, placed_elsewhere
from moorage.decide.scheduling.karmada.policy_match import CLUSTER_WIDE, NAMESPACED, Claimable, Policy
from moorage.decide.scheduling.nodes.workloads import text_labels
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resource import ResourceDeclared, resource_key
from moorage_schemas.resources.bindings import GracefulEvictionTask, ResourceBinding, ResourceBindingSpec
from moorage_schemas.resources.policies import ClusterPlacement, PropagationSpec
from moorage_schemas.resources.workload_kinds import BINDING_KINDS, PROPAGATED


@dataclass(frozen=True, slots=True)
class Demand:
    """The number and the requests of a resource's replicas."""

    replicas: int = 0
    """0 for a resource without replicas, and for one that is scaled to 0: each cluster gets it as a whole."""

    requests: tuple[tuple[str, int], ...] = ()
    """The requests of one replica."""

    error: str = ""
    """Why the resource cannot be read."""


@dataclass(frozen=True, slots=True, eq=False)
class MirroredBinding:
    """The placement that a mirrored binding requests, and its present clusters."""

    bridge: str
    """The bridge that mirrors it. It is the deployer of its work."""

    policy: Policy
    """Its own placement, in the form of a policy."""

    demand: Demand
    claimable: Claimable
    """The resource that it places."""

    clusters: Mapping[str, int]
    """The replicas on each cluster where it is now."""

    tasks: tuple[GracefulEvictionTask, ...]
    """The clusters that it has to leave because of their taints, and has not left."""

    affinity_name: str
    """The group of clusters that was tried last."""

    elsewhere: str
    """Why another scheduler, or none, places it, so that it is only followed. Empty if Moorage places it."""


def mirrored_binding(event: ResourceDeclared) -> MirroredBinding | None:
    """Return the mirrored binding of a record; None for any other record.

    Raises:
        ValidationError: it cannot be read.
    """
    if event.mirrored is None:
        return None
    found = ResourceBinding.model_validate(event.object)
    spec, metadata = found.spec, found.metadata
    about = spec.resource
    return MirroredBinding(
        bridge=event.mirrored.source,
        policy=_policy(found),
        demand=_demand(spec),
        claimable=Claimable(about.api_version, about.kind, about.namespace, about.name, text_labels(metadata.labels)),
        clusters={one.name: one.replicas for one in spec.clusters or ()},
        tasks=tuple(one for one in spec.graceful_eviction_tasks or () if one.producer == TAINT_MANAGER),
        affinity_name=found.status.scheduler_observing_affinity_name,
        elsewhere=placed_elsewhere(found),
    )


def _policy(found: ResourceBinding) -> Policy:
    placement = found.spec.placement or ClusterPlacement()
    annotations = found.metadata.annotations or {}
    namespace = annotations.get("propagationpolicy.karmada.io/namespace", "")
    name = annotations.get("propagationpolicy.karmada.io/name", "")
    wide = annotations.get("clusterpropagationpolicy.karmada.io/name", "")
    key = resource_key(NAMESPACED, namespace, name) if name else resource_key(CLUSTER_WIDE, "", wide) if wide else ""
    return Policy(
        key=key,
        namespace=namespace,
        name=name or wide,
        spec=PropagationSpec(
            placement=placement,
            failover=found.spec.failover,
            suspension=found.spec.suspension,
            preserve_resources_on_deletion=found.spec.preserve_resources_on_deletion,
        ),
        annotations=annotations,
        deleted=False,
        placement_key=document_hash(placement.model_dump(mode="json", exclude_none=True)),
    )


def _demand(spec: ResourceBindingSpec) -> Demand:
    wanted = spec.replica_requirements.resource_request if spec.replica_requirements is not None else None
    try:
        requests = whole_amounts(wanted, "spec.replicaRequirements.resourceRequest")
    except QuantityError as error:
        return Demand(error=str(error))
    return Demand(spec.replicas, tuple(sorted(requests.items())) if spec.replicas else ())


CLAIMABLE: Final = tuple(f"{kind}/" for kind in PROPAGATED)
PLACED: Final = tuple(f"{kind}/" for kind in BINDING_KINDS)
"""The prefixes of the keys of the workloads that claimed resources become."""


@dataclass(slots=True, eq=False)
class ClaimedResource:
    """A declared resource of a kind that policies can claim, or a mirrored binding."""

    ref: WorkloadRef
    uid: str
    version: int
    claimable: Claimable
    mirrored: MirroredBinding | None = None
    created: str = ""
    """When it was declared, as its metadata has it."""


def is_part(event: ResourceDeclared) -> bool:
    """Return whether a resource is a replica set that keeps a template of a deployment. The deployment is placed."""
    if event.kind != "ReplicaSet":
        return False
    owners = (event.object.get("metadata") or {}).get("ownerReferences") or ()
    return any(one.get("controller") and one.get("kind") == "Deployment" for one in owners)


def resource_of(event: ResourceDeclared) -> ClaimedResource:
    """Return the fields of a resource that the state keeps.

    Raises:
        ValidationError: it is a mirrored binding that cannot be read. The gateway refuses those.
    """
    if event.kind in BINDING_KINDS and (found := mirrored_binding(event)) is not None:
        ref = WorkloadRef(kind=event.kind, namespace=event.namespace, name=event.name)
        return ClaimedResource(ref, event.uid, event.version, found.claimable, found)
    metadata = event.object.get("metadata") or {}
    api_version, kind = sys.intern(str(event.object.get("apiVersion", ""))), sys.intern(event.kind)
    namespace, name = sys.intern(event.namespace), event.name
    return ClaimedResource(
        ref=WorkloadRef(kind=kind, namespace=namespace, name=name),
        uid=event.uid,
        version=event.version,
        claimable=Claimable(api_version, kind, namespace, name, text_labels(metadata.get("labels"))),
        created=sys.intern(str(metadata.get("creationTimestamp") or "")),
    )
