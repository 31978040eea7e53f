"""Placements and bindings: where workloads belong."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.taint import Toleration


class PlacementState(StrEnum):
    """The state of a workload's placement."""

    PENDING = "Pending"
    """No target fits now. The decision is made again when something changes."""
    PLACED = "Placed"
    EVICTED = "Evicted"
    """The workload had to leave and is not placed again. This applies to bare pods, as in Kubernetes."""


class FilterResult(Model):
    """How many targets one filter ruled out for one reason."""

    filter: str
    reason: str
    count: int = Field(ge=1)
    targets: tuple[str, ...] = ()
    """The names of the first targets, at most ten."""


class TargetScore(Model):
    """The scores of one target that passed every filter."""

    target: str
    total: int
    scores: dict[str, int] = Field(default_factory=dict)
    """The weighted score of each prioritizer."""


class PlacedTarget(Model):
    """One of several targets of a workload, and its share of the replicas."""

    target: TargetRef
    replicas: int = 0
    binding_generation: int = Field(ge=1)


class LeavingTarget(Model):
    """A target that a workload is leaving gracefully. Its binding stays until the replacement is healthy."""

    target: TargetRef
    replicas: int = 0
    binding_generation: int = Field(ge=1)
    since: Timestamp
    until: Timestamp
    """When the grace period ends."""

    purge_mode: str
    """`Directly` or `Gracefully`."""

    reason: str = ""


class PlacementCondition(Model):
    """A condition of an OCM placement: `PlacementSatisfied` or `PlacementMisconfigured`."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp


class DecisionGroupStatus(Model):
    """One group of an OCM placement's decisions."""

    index: int = Field(ge=0)
    name: str = ""
    decisions: tuple[str, ...] = ()
    """The names of the group's `PlacementDecision`s."""

    clusters: int = 0
    """The number of clusters in the group."""


class RolledOutCluster(Model):
    """A cluster that has a version of a rollout's workload."""

    name: str
    generation: int = Field(ge=1)
    """The generation of its binding. From `RolloutProgressed.version_generation` on, it has the present version."""

    since: Timestamp
    """When the version was released to it."""


class RolloutGroupStatus(Model):
    """The progress of one decision group."""

    index: int = Field(ge=0)
    name: str = ""
    clusters: int = 0
    released: int = 0
    """How many have the present version. The following numbers are parts of it, and the rest is progressing."""

    succeeded: int = 0
    failed: int = 0
    timed_out: int = 0


class RolloutProgressed(Model):
    """The progress of a rollout."""

    version: str
    version_generation: int = Field(ge=1)
    """The generation of the decision with which the version began."""

    clusters: tuple[RolledOutCluster, ...] = ()
    """All clusters that have a version, sorted by name."""

    groups: tuple[RolloutGroupStatus, ...] = ()
    failing: tuple[str, ...] = ()
    """The first clusters that failed or timed out, at most ten, sorted by name."""

    stopped: bool = False
    """Whether more clusters failed than may, so that no other cluster gets the version."""


class WorkloadPlaced(Model):
    """The decision on one workload, with its reasons. Topic `placements`, keyed by the workload."""

    event_type: ClassVar[str] = "io.moorage.workload.placed.v1"

    workload: WorkloadRef
    uid: str
    owner: WorkloadRef
    """The resource that created the workload, such as a Deployment. A bare pod is its own owner. The owner determines
    the partition."""

    owner_uid: str
    template_hash: str = ""
    """The hash of the pod template from which the workload was created, so that pods of a changed template are
    replaced. For a ResourceBinding: the hash of the policy's placement."""

    owner_version: Annotated[int, Field(exclude_if=lambda version: not version)] = 0
    """The version of the owner to which a lazy policy was applied. 0 for other policies."""

    index: int = 0
    """The index of the workload among the replicas of its owner."""

    generation: int = Field(ge=1)
    """Increases by one with each decision on this workload."""

    state: PlacementState
    target: TargetRef | None = None
    previous_target: TargetRef | None = None
    """The previous target, if the workload was moved or replaces one that was evicted."""

    binding_generation: int = 0
    """The generation of the workload's binding. 0 if it has none."""

    reason: str = ""
    """The reason as one word: Scheduled, Unschedulable, NodeNameSet, TaintEviction, TargetGone …"""

    message: str = ""
    """The reason as text, in the format of kube-scheduler: `0/3 nodes are available: …`."""

    targets_considered: int = 0
    filters: tuple[FilterResult, ...] = ()
    scores: tuple[TargetScore, ...] = ()
    """The best targets, at most ten, best first."""

    replaces: str = ""
    """The workload key of the evicted replica that this one replaces."""

    decided_time: Timestamp
    report_time: Timestamp | None = None
    """When the report behind this decision was made. Used only to measure latency."""

    targets: tuple[PlacedTarget, ...] = ()
    """For a workload that can be on several targets (a ResourceBinding): all of them, sorted by name. `target` is
    empty."""

    leaving: tuple[LeavingTarget, ...] = ()
    """The targets that the workload is leaving."""

    policy: str = ""
    """The key of the policy that placed the workload, such as `PropagationPolicy/shop/web`."""

    affinity_name: str = ""
    """The group of clusters that was chosen, if the policy has several (`clusterAffinities`)."""

    clusters: tuple[str, ...] = ()
    """For a `PlacementDecision`: the names of the managed clusters in it, at most 100, sorted."""

    added: tuple[str, ...] = ()
    """For a `PlacementDecision`: the part of `clusters` that this generation of the placement selects and the previous
    one did not. In the records of a placement, each cluster appears here once each time it is selected."""

    removed: tuple[str, ...] = ()
    """For a `PlacementDecision`: clusters that it listed and that the placement no longer selects. A cluster that moved
    to another `PlacementDecision` of the same placement is neither added nor removed."""

    labels: dict[str, str] = Field(default_factory=dict)
    """For a `PlacementDecision`: its labels (placement, group name, group index)."""

    selected: int = 0
    """For a `Placement`: the number of clusters that it has selected."""

    decision_groups: tuple[DecisionGroupStatus, ...] = ()
    """For a `Placement`: the status of each decision group."""

    conditions: tuple[PlacementCondition, ...] = ()
    """For a `Placement`: its conditions."""

    rollout: Annotated[RolloutProgressed | None, Field(exclude_if=lambda rollout: rollout is None)] = None
    """For a `Rollout`: its progress."""

    decide_again: Timestamp | None = None
    """When the decision must be made again because a toleration or a score expires. It is stored so that it survives a
    restart."""


class LabelRequirement(Model):
    """One requirement of a label selector, in a form that can be compared: `In`, `NotIn`, `Exists`, `DoesNotExist`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class HostPort(Model):
    """A port of the node that a pod takes."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"  # noqa: S104 - Kubernetes' name for all addresses of the node


class PodTerm(Model):
    """The pods that a pod wants near it, or far from it. It is complete: nothing depends on the pod's own labels."""

    anti: bool = False
    """Whether the pods are to be far."""

    weight: int = 0
    """The weight of a preference. 0 for what is required."""

    topology_key: str
    """Nodes with an equal value of this label are near each other."""

    namespaces: tuple[str, ...] = ()
    namespace_selector: tuple[LabelRequirement, ...] | None = None
    """Further namespaces of the pods. None selects none of them, an empty one all."""

    labels: tuple[LabelRequirement, ...] | None = None
    """The pods' labels. None selects no pod, an empty one all."""


class PodConstraints(Model):
    """The demands of a pod on other pods. They also hold for pods that are placed later."""

    host_ports: tuple[HostPort, ...] = ()
    terms: tuple[PodTerm, ...] = ()


class WorkloadBound(Model):
    """The order that a workload is to run on a target. Topic `bindings`, keyed by both, partitioned by the target.

    The record contains the properties of the workload that eviction needs. A tombstone ends the binding.
    """

    event_type: ClassVar[str] = "io.moorage.workload.bound.v1"

    workload: WorkloadRef
    uid: str
    owner: WorkloadRef
    target: TargetRef
    generation: int = Field(ge=1)
    """Increases each time the workload returns to the target."""

    revision: int = Field(default=1, ge=1)
    """Increases when the tolerations of a bound workload change."""

    tolerations: tuple[Toleration, ...] = ()
    requests: dict[str, int] = Field(default_factory=dict)
    """The resources that the workload takes on the target: cpu in millicores, every other resource in its own unit."""

    bypassed: bool = False
    """Whether a person named the target (`spec.nodeName`), so that no filter was applied."""

    bound_time: Timestamp
    labels: dict[str, str] = Field(default_factory=dict)
    """The workload's labels, for the selectors of budgets."""

    replicas: int = 0
    """The number of replicas of the workload on the target, if a policy divides them. Otherwise 0."""

    purge_mode: str = ""
    """How the workload leaves when a taint evicts it: `Directly` or `Gracefully`. With `Gracefully` its binding stays
    until the replacement is healthy or the grace period ends. Empty if the dialect has no purge modes."""

    suspended: Annotated[bool, Field(exclude_if=lambda suspended: not suspended)] = False
    """Whether nothing is to be started or changed on the target for now. What runs there goes on running."""

    preserved: Annotated[bool, Field(exclude_if=lambda preserved: not preserved)] = False
    """Whether the work stays on the target when its binding ends, unless it was evicted."""

    kept_time: Annotated[Timestamp | None, Field(exclude_if=lambda time: time is None)] = None
    """When the last eviction was requested that placement has not carried out: the workload had no other place, and its
    taints no longer require it to leave. That eviction is withdrawn. None if there was none."""

    deployer: Annotated[str, Field(exclude_if=lambda deployer: not deployer)] = ""
    """The deployer that has to acknowledge evictions of this binding, because the workload lives in a real cluster
    that a bridge mirrors: the bridge's source. Empty if it follows from reports."""

    version: Annotated[str, Field(exclude_if=lambda version: not version)] = ""
    """For a `Rollout`: the version of the workload that is to run on the target. A new one has a new generation."""

    constraints: Annotated[PodConstraints | None, Field(exclude_if=lambda constraints: constraints is None)] = None
    """The demands of the workload on other pods. None if it has none."""

    terminating: Annotated[bool, Field(exclude_if=lambda terminating: not terminating)] = False
    """Whether the workload is being deleted in the real cluster in which it lives. It still takes its room."""
