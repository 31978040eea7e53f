"""Placements and bindings: where workloads belong."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.taint import Toleration


class PlacementState(StrEnum):
    """Where a workload stands."""

    PENDING = "Pending"
    """No target fits now; decided again when something changes."""
    PLACED = "Placed"
    EVICTED = "Evicted"
    """It had to leave and is not placed again: a bare pod, as in Kubernetes."""


class FilterResult(Model):
    """How many targets one filter ruled out for one reason."""

    filter: str
    reason: str
    count: int = Field(ge=1)
    targets: tuple[str, ...] = ()
    """Names of the first of them, at most ten."""


class TargetScore(Model):
    """The scores of one target that passed every filter."""

    target: str
    total: int
    scores: dict[str, int] = Field(default_factory=dict)
    """By prioritizer, weighted."""


class PlacedTarget(Model):
    """One of several targets of a workload, and its part of the replicas."""

    target: TargetRef
    replicas: int = 0
    binding_generation: int = Field(ge=1)


class LeavingTarget(Model):
    """A target that a workload is leaving gracefully: its binding stands until the replacement is healthy."""

    target: TargetRef
    replicas: int = 0
    binding_generation: int = Field(ge=1)
    since: Timestamp
    until: Timestamp
    """When the grace period ends."""

    purge_mode: str
    """Directly or Gracefully."""

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
    """Names of its `PlacementDecision`s."""

    clusters: int = 0
    """How many clusters it has."""


class WorkloadPlaced(Model):
    """The decision on one workload, with its grounds. Topic `placements`, keyed by the workload."""

    event_type: ClassVar[str] = "io.moorage.workload.placed.v1"

    workload: WorkloadRef
    uid: str
    owner: WorkloadRef
    """The resource that makes it: a Deployment and so on; itself for a bare pod. Decides the partition."""

    owner_uid: str
    template_hash: str = ""
    """Of the pod template it was made from, so that a changed template makes new pods; of a ResourceBinding, of the
    policy's placement."""

    index: int = 0
    """Its place among the replicas of its owner."""

    generation: int = Field(ge=1)
    """Grows by one with each decision on this workload."""

    state: PlacementState
    target: TargetRef | None = None
    previous_target: TargetRef | None = None
    """Where it was before, when it was moved or replaces one that was evicted."""

    binding_generation: int = 0
    """The generation of its binding; 0 when it has none."""

    reason: str = ""
    """One word: Scheduled, Unschedulable, NodeNameSet, TaintEviction, TargetGone …"""

    message: str = ""
    """The reason in words, as kube-scheduler's: `0/3 nodes are available: …`."""

    targets_considered: int = 0
    filters: tuple[FilterResult, ...] = ()
    scores: tuple[TargetScore, ...] = ()
    """The best targets, at most ten, best first."""

    replaces: str = ""
    """The workload key of the evicted replica that it stands in for."""

    decided_time: Timestamp
    report_time: Timestamp | None = None
    """When the report that led here was made; for latency only."""

    targets: tuple[PlacedTarget, ...] = ()
    """Of a workload that can be on several targets (a ResourceBinding): all of them, by name. `target` is empty."""

    leaving: tuple[LeavingTarget, ...] = ()
    """Those that it is about to leave."""

    policy: str = ""
    """The key of the policy that placed it, such as `PropagationPolicy/shop/web`."""

    affinity_name: str = ""
    """The group of clusters that it is in, where the policy has several (`clusterAffinities`)."""

    clusters: tuple[str, ...] = ()
    """Of a `PlacementDecision`: the managed clusters in it by name, at most 100, sorted."""

    added: tuple[str, ...] = ()
    """Of a `PlacementDecision`: those of `clusters` that this generation of the placement selects and the one before
    did not. Over all records of a placement in their order each cluster is added once when it is selected."""

    removed: tuple[str, ...] = ()
    """Of a `PlacementDecision`: clusters that it listed and that the placement selects no more. One that moved to
    another `PlacementDecision` of the placement is neither added nor removed."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Of a `PlacementDecision`: its labels (placement, group name, group index)."""

    selected: int = 0
    """Of a `Placement`: how many clusters it has selected."""

    decision_groups: tuple[DecisionGroupStatus, ...] = ()
    """Of a `Placement`."""

    conditions: tuple[PlacementCondition, ...] = ()
    """Of a `Placement`."""

    decide_again: Timestamp | None = None
    """When it is to be decided again, for a toleration or a score expires then; durable, so that a restart keeps it."""


class WorkloadBound(Model):
    """A workload is to run on a target. Topic `bindings`, keyed by both, partitioned by the target.

    It carries what eviction needs to know of the workload. A tombstone ends it.
    """

    event_type: ClassVar[str] = "io.moorage.workload.bound.v1"

    workload: WorkloadRef
    uid: str
    owner: WorkloadRef
    target: TargetRef
    generation: int = Field(ge=1)
    """A workload that comes back to a target later has a higher one."""

    revision: int = Field(default=1, ge=1)
    """Grows when the tolerations of a bound workload change."""

    tolerations: tuple[Toleration, ...] = ()
    requests: dict[str, int] = Field(default_factory=dict)
    """What it takes of the target: cpu in millicores, everything else in its own unit."""

    bypassed: bool = False
    """The person named the target (`spec.nodeName`), so no filter was asked."""

    bound_time: Timestamp
    labels: dict[str, str] = Field(default_factory=dict)
    """The workload's own, for selectors of budgets."""

    replicas: int = 0
    """How many replicas of the workload belong on the target, where a policy divides them; else 0."""

    purge_mode: str = ""
    """How it leaves when a taint evicts it: `Directly` or `Gracefully` (its binding stands until the replacement is
    healthy or the grace period ends). Empty where the dialect has no such thing."""
