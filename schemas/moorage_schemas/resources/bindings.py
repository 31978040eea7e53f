"""Karmada's bindings (work.karmada.io/v1alpha2), as a real control plane has them and a bridge mirrors them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from moorage_schemas.base import OpenModel, Timestamp
from moorage_schemas.resources.meta import Resource
from moorage_schemas.resources.policies import ClusterPlacement, Failover, Suspension


class ObjectReference(OpenModel):
    """The resource that a binding places."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class TargetCluster(OpenModel):
    """A cluster of a binding."""

    name: str
    replicas: int = 0


class ReplicaRequirements(OpenModel):
    """What each replica needs."""

    resource_request: dict[str, Any] | None = None
    """Quantities by resource."""


class GracefulEvictionTask(OpenModel):
    """A cluster that a binding is leaving."""

    from_cluster: str
    purge_mode: str = ""
    replicas: int | None = None
    reason: str = ""
    message: str = ""
    producer: str = ""
    grace_period_seconds: int | None = None
    suppress_deletion: bool | None = None
    creation_timestamp: Timestamp | None = None


class BindingSuspension(Suspension):
    """What is not to happen to a binding for now."""

    scheduling: bool | None = None


class ResourceBindingSpec(OpenModel):
    """What a binding places, where it may go, and where it is."""

    resource: ObjectReference = Field(default_factory=ObjectReference)
    replicas: int = 0
    replica_requirements: ReplicaRequirements | None = None
    clusters: list[TargetCluster] | None = None
    graceful_eviction_tasks: list[GracefulEvictionTask] | None = None
    placement: ClusterPlacement | None = None
    failover: Failover | None = None
    scheduler_name: str = ""
    suspension: BindingSuspension | None = None
    preserve_resources_on_deletion: bool | None = None


class ResourceBindingStatus(OpenModel):
    """What a scheduler remembers of a binding."""

    scheduler_observing_affinity_name: str = ""


class ResourceBinding(Resource):
    """Where a resource belongs that a propagation policy has claimed."""

    spec: ResourceBindingSpec = Field(default_factory=ResourceBindingSpec)
    status: ResourceBindingStatus = Field(default_factory=ResourceBindingStatus)


class ClusterResourceBinding(ResourceBinding):
    """Where a resource without a namespace belongs that a propagation policy has claimed."""
