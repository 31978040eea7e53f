"""`Pod` (v1) and the pod template of the controllers."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import LabelSelector, ObjectMeta, Resource, SelectorRequirement
from moorage_schemas.taint import Toleration

Quantities = dict[str, str | int | float]


class OpenToleration(Toleration, OpenModel):
    """A toleration as a person writes it."""


class ResourceRequirements(OpenModel):
    """The resources that a container requests, and the maximum that it may use."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(OpenModel):
    """A port of a container. Only the port of the node is used."""

    container_port: int | None = None
    host_port: int | None = None
    host_ip: str | None = Field(default=None, alias="hostIP")
    protocol: str | None = None


class Container(OpenModel):
    """A container of a pod. Only its resource requirements and the ports that it takes of its node are used."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)
    ports: list[ContainerPort] | None = None
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


class PodAffinityTerm(OpenModel):
    """The pods that a pod wants near it, or far from it, and what counts as near: an equal label of the nodes."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(OpenModel):
    """A term that adds its weight (1 to 100) to the score of near nodes, or subtracts it."""

    weight: int = 1
    pod_affinity_term: PodAffinityTerm = Field(default_factory=PodAffinityTerm)


class PodAffinity(OpenModel):
    """Which pods a pod requires near it, or far from it, and which it prefers there."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(OpenModel):
    """`affinity` of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(OpenModel):
    """How evenly pods are to be spread over the values of a label of the nodes."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class ClaimSource(OpenModel):
    """`persistentVolumeClaim` of a volume."""

    claim_name: str = ""


class Volume(OpenModel):
    """A volume of a pod. Only a claim can tie a pod to some nodes."""

    persistent_volume_claim: ClaimSource | None = None


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
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    volumes: list[Volume] | None = None
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
