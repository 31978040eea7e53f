"""Karmada's policies (policy.karmada.io/v1alpha1): which taints clusters get, and where resources go."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import LabelSelector, Resource, SelectorRequirement
from moorage_schemas.resources.node import OpenTaint
from moorage_schemas.resources.pod import OpenToleration


class FieldSelector(OpenModel):
    """Requirements on a cluster's `provider`, `region` and `zone`, ANDed. The operators are In and NotIn."""

    match_expressions: list[SelectorRequirement] | None = None


class ClusterAffinity(OpenModel):
    """Selects clusters. All parts are ANDed; an empty affinity selects every cluster."""

    cluster_names: list[str] | None = None
    exclude: list[str] | None = None
    label_selector: LabelSelector | None = None
    field_selector: FieldSelector | None = None


class MatchCondition(OpenModel):
    """A requirement on a condition of a cluster. If the cluster lacks the condition, neither operator matches."""

    condition_type: str
    operator: str
    """`In` or `NotIn`."""

    status_values: list[str] = Field(default_factory=list)


class ClusterTaintPolicySpec(OpenModel):
    """Taints to add or to remove while conditions match. Each list is ANDed, and an empty list never matches."""

    target_clusters: ClusterAffinity | None = None
    """If absent, every cluster is selected."""

    add_on_conditions: list[MatchCondition] | None = None
    remove_on_conditions: list[MatchCondition] | None = None
    taints: list[OpenTaint] = Field(default_factory=list)


class ClusterTaintPolicy(Resource):
    """A rule that adds taints to clusters and removes them. Cluster-scoped."""

    spec: ClusterTaintPolicySpec = Field(default_factory=ClusterTaintPolicySpec)


class ResourceSelector(OpenModel):
    """Selects the resources of a policy: by kind, and by name or label selector. With neither, all of the kind."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    label_selector: LabelSelector | None = None


class NamedClusterAffinity(ClusterAffinity):
    """One of several groups of clusters, which are tried in order."""

    affinity_name: str


class SpreadConstraint(OpenModel):
    """The minimum and maximum number of groups of clusters."""

    spread_by_field: str = ""
    """`cluster`, `region`, `zone` or `provider`."""

    spread_by_label: str = ""
    max_groups: int = 0
    """0 means no limit."""

    min_groups: int = 0


class StaticClusterWeight(OpenModel):
    """The weight of the clusters that an affinity selects."""

    target_cluster: ClusterAffinity = Field(default_factory=ClusterAffinity)
    weight: int = 1


class ClusterPreferences(OpenModel):
    """How replicas are divided by weight."""

    static_weight_list: list[StaticClusterWeight] | None = None
    dynamic_weight: str = ""
    """`AvailableReplicas`, or empty."""


class ReplicaSchedulingStrategy(OpenModel):
    """Whether each cluster gets all replicas or a share of them."""

    replica_scheduling_type: str = "Divided"
    """`Duplicated` or `Divided`. As upstream, the default is `Divided`."""

    replica_division_preference: str = ""
    """For `Divided`: `Aggregated` or `Weighted`."""

    weight_preference: ClusterPreferences | None = None


class ClusterPlacement(OpenModel):
    """Where resources may go."""

    cluster_affinity: ClusterAffinity | None = None
    cluster_affinities: list[NamedClusterAffinity] | None = None
    cluster_tolerations: list[OpenToleration] | None = None
    spread_constraints: list[SpreadConstraint] | None = None
    replica_scheduling: ReplicaSchedulingStrategy | None = None
    """If absent, `Duplicated` applies."""


class ClusterFailover(OpenModel):
    """What happens when a cluster fails."""

    purge_mode: str = ""
    """`Directly` or `Gracefully`. Empty means `Gracefully`."""

    grace_period_seconds: int | None = None


class Failover(OpenModel):
    """`failover` of a policy."""

    cluster: ClusterFailover | None = None


class SuspendedClusters(OpenModel):
    """Clusters, by name."""

    cluster_names: list[str] | None = None


class Suspension(OpenModel):
    """Which clusters get nothing new for now. What is there stays as it is."""

    dispatching: bool | None = None
    dispatching_on_clusters: SuspendedClusters | None = None

    def holds(self, cluster: str) -> bool:
        """Return whether a cluster gets nothing new for now."""
        listed = self.dispatching_on_clusters
        return self.dispatching is True or (listed is not None and cluster in (listed.cluster_names or ()))


class PropagationSpec(OpenModel):
    """`spec` of a propagation policy."""

    resource_selectors: list[ResourceSelector] = Field(default_factory=list)
    placement: ClusterPlacement = Field(default_factory=ClusterPlacement)
    priority: int = 0
    preemption: str = "Never"
    """`Always` or `Never`: whether the policy takes over resources that a policy of lower priority has claimed."""

    failover: Failover | None = None
    suspension: Suspension | None = None
    activation_preference: str = ""
    """With `Lazy`, a change of the policy applies to a resource when the resource changes."""

    preserve_resources_on_deletion: bool | None = None
    """Whether the resources stay on the clusters when they, or the policy, are deleted."""

    scheduler_name: str = ""
    """The scheduler that chooses clusters. Moorage leaves the resources of other schedulers where they are."""


class PropagationPolicy(Resource):
    """Where the resources of its namespace go."""

    spec: PropagationSpec = Field(default_factory=PropagationSpec)


class ClusterPropagationPolicy(Resource):
    """Where resources of any namespace go. Cluster-scoped."""

    spec: PropagationSpec = Field(default_factory=PropagationSpec)
