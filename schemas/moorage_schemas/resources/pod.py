"""`Pod` (v1) and the pod template of the controllers."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import ObjectMeta, Resource, SelectorRequirement
from moorage_schemas.taint import Toleration

Quantities = dict[str, str | int | float]


class OpenToleration(Toleration, OpenModel):
    """A toleration as a person writes it."""


class ResourceRequirements(OpenModel):
    """The resources that a container requests, and the maximum that it may use."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class Container(OpenModel):
    """A container of a pod. Only its resource requirements are used."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)
    restart_policy: str = ""
    """`Always` makes an init container a sidecar. The requests of a sidecar count for as long as the pod runs."""


class NodeSelectorTerm(OpenModel):
    """Requirements that are ANDed. An empty term selects nothing."""

    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(OpenModel):
    """Terms that are ORed."""

    node_selector_terms: list[NodeSelectorTerm] = Field(default_factory=list)


class PreferredSchedulingTerm(OpenModel):
    """A term that adds its weight (1 to 100) to a node's score."""

    weight: int = 1
    preference: NodeSelectorTerm = Field(default_factory=NodeSelectorTerm)


class NodeAffinity(OpenModel):
    """Which nodes a pod requires, and which it prefers."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class Affinity(OpenModel):
    """`affinity` of a pod."""

    node_affinity: NodeAffinity | None = None


class SchedulingGate(OpenModel):
    """Something that has to happen before a pod is placed."""

    name: str = ""


class PodSpec(OpenModel):
    """`spec` of a pod."""

    containers: list[Container] = Field(default_factory=list)
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: ResourceRequirements | None = None
    tolerations: list[OpenToleration] | None = None
    node_selector: dict[str, str] | None = None
    node_name: str = ""
    affinity: Affinity | None = None
    host_network: bool = False
    priority: int | None = None
    scheduler_name: str = ""
    scheduling_gates: list[SchedulingGate] | None = None


class Pod(Resource):
    """A pod."""

    spec: PodSpec = Field(default_factory=PodSpec)


class PodTemplate(OpenModel):
    """The template from which pods are created."""

    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: PodSpec = Field(default_factory=PodSpec)
