"""`Cluster` (cluster.karmada.io/v1alpha1): a member cluster, which is a target for whole workloads."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import Resource
from moorage_schemas.resources.node import OpenTaint

Amounts = dict[str, str | int | float]


class ResourceRange(OpenModel):
    """The amounts of a resource that the nodes of a grade have: from `min` to below `max`."""

    name: str = ""
    min: str | int | float = 0


class ResourceModel(OpenModel):
    """A grade of nodes, by their free resources."""

    grade: int = 0
    ranges: list[ResourceRange] | None = None


class ClusterSpec(OpenModel):
    """`spec` of a cluster."""

    sync_mode: str = ""
    provider: str = ""
    region: str = ""
    zone: str = ""
    """The older field, for a single zone."""

    zones: list[str] | None = None
    taints: list[OpenTaint] | None = None
    resource_models: list[ResourceModel] | None = None
    """The grades that `status.resourceSummary.allocatableModelings` counts. If absent, Karmada's default grades."""


class AllocatableModeling(OpenModel):
    """The number of nodes of a grade."""

    grade: int = 0
    count: int = 0


class ResourceSummary(OpenModel):
    """The resources of a cluster, and how much of them is in use."""

    allocatable: Amounts | None = None
    allocating: Amounts | None = None
    allocated: Amounts | None = None
    allocatable_modelings: list[AllocatableModeling] | None = None


class ApiResource(OpenModel):
    """A kind of an API group that the cluster serves."""

    name: str = ""
    kind: str = ""


class ApiEnablement(OpenModel):
    """An API group and version that the cluster serves."""

    group_version: str = ""
    resources: list[ApiResource] | None = None


class ClusterStatus(OpenModel):
    """`status` of a cluster, as far as it is declared. Its conditions come from reports."""

    resource_summary: ResourceSummary | None = None
    api_enablements: list[ApiEnablement] | None = None
    """If absent, every kind counts as served."""


class Cluster(Resource):
    """A member cluster."""

    spec: ClusterSpec = Field(default_factory=ClusterSpec)
    status: ClusterStatus = Field(default_factory=ClusterStatus)
