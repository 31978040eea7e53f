"""Open Cluster Management: managed clusters, sets of them, and placements that choose from the sets."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from moorage_schemas.base import OpenModel, Timestamp
from moorage_schemas.resources import names
from moorage_schemas.resources.meta import LabelSelector, Resource, SelectorRequirement
from moorage_schemas.resources.node import OpenTaint
from moorage_schemas.resources.pod import OpenToleration

SET_LABEL: Final = names.SET_LABEL
"""The label by which a cluster names its exclusive set."""

DEFAULT_SET: Final = "default"
GLOBAL_SET: Final = names.GLOBAL_SET
BUILT_IN_SETS: Final = frozenset({DEFAULT_SET, GLOBAL_SET})
"""The sets that always exist. They can be neither changed nor deleted."""

EXCLUSIVE: Final = "ExclusiveClusterSetLabel"
LEGACY: Final = "LegacyClusterSetLabel"
"""The name of the exclusive selector type in older versions of the API."""
LABEL_SELECTOR: Final = "LabelSelector"
SELECTOR_TYPES: Final = (EXCLUSIVE, LABEL_SELECTOR, LEGACY)

Amounts = dict[str, str | int | float]


class ManagedClusterSpec(OpenModel):
    """`spec` of a managed cluster."""

    hub_accepts_client: bool = False
    lease_duration_seconds: int | None = None
    taints: list[OpenTaint] | None = None


class ClusterClaim(OpenModel):
    """A claim of a cluster about itself: a name and a value."""

    name: str
    value: str = ""


class ManagedClusterStatus(OpenModel):
    """`status` of a managed cluster, as far as it is declared. Its conditions also come from reports."""

    capacity: Amounts | None = None
    allocatable: Amounts | None = None
    cluster_claims: list[ClusterClaim] | None = None


class ManagedCluster(Resource):
    """A cluster that placements choose (cluster.open-cluster-management.io/v1)."""

    spec: ManagedClusterSpec = Field(default_factory=ManagedClusterSpec)
    status: ManagedClusterStatus = Field(default_factory=ManagedClusterStatus)


class ClusterSetSelector(OpenModel):
    """How a set selects its clusters."""

    selector_type: str = ""
    """`ExclusiveClusterSetLabel` (the default when empty) or `LabelSelector`. Older versions have
    `LegacyClusterSetLabel`."""

    label_selector: LabelSelector | None = None


class ManagedClusterSetSpec(OpenModel):
    """`spec` of a set."""

    cluster_selector: ClusterSetSelector = Field(default_factory=ClusterSetSelector)


class ManagedClusterSet(Resource):
    """A set of managed clusters."""

    spec: ManagedClusterSetSpec = Field(default_factory=ManagedClusterSetSpec)


class ManagedClusterSetBindingSpec(OpenModel):
    """`spec` of a binding of a set to a namespace."""

    cluster_set: str = ""
    """The name of the set. The binding must have the same name."""


class ManagedClusterSetBinding(Resource):
    """A set that placements of a namespace may choose from."""

    spec: ManagedClusterSetBindingSpec = Field(default_factory=ManagedClusterSetBindingSpec)


class ClaimSelector(OpenModel):
    """Requirements on a cluster's claims, ANDed."""

    match_expressions: list[SelectorRequirement] | None = None


class CelSelector(OpenModel):
    """CEL expressions on `managedCluster`, ANDed."""

    cel_expressions: list[str] | None = None


class RequiredClusterSelector(OpenModel):
    """Selectors that a cluster must match, ANDed."""

    label_selector: LabelSelector | None = None
    claim_selector: ClaimSelector | None = None
    cel_selector: CelSelector | None = None


class ClusterPredicate(OpenModel):
    """One predicate; a placement's predicates are ORed."""

    required_cluster_selector: RequiredClusterSelector = Field(default_factory=RequiredClusterSelector)


class AddOnCoordinate(OpenModel):
    """Identifies one score of one `AddOnPlacementScore`."""

    resource_name: str = ""
    score_name: str = ""


class ScoreCoordinate(OpenModel):
    """Where a score comes from."""

    type: str = ""
    """`BuiltIn` (the default when empty) or `AddOn`."""

    built_in: str = ""
    add_on: AddOnCoordinate | None = None


class PrioritizerConfig(OpenModel):
    """A prioritizer and its weight."""

    name: str = ""
    """The deprecated way to name a built-in prioritizer. `scoreCoordinate` takes precedence."""

    score_coordinate: ScoreCoordinate | None = None
    weight: int = 1


class PrioritizerPolicy(OpenModel):
    """Which prioritizers count, and with which weight."""

    mode: str = ""
    """`Additive` (the default when empty) or `Exact`."""

    configurations: list[PrioritizerConfig] | None = None


class GroupClusterSelector(OpenModel):
    """Which selected clusters make up a named group."""

    label_selector: LabelSelector | None = None
    claim_selector: ClaimSelector | None = None
    cel_selector: CelSelector | None = None


class DecisionGroup(OpenModel):
    """A named group of decisions."""

    group_name: str = ""
    group_cluster_selector: GroupClusterSelector = Field(default_factory=GroupClusterSelector)


class GroupStrategy(OpenModel):
    """How the decisions are divided into groups."""

    decision_groups: list[DecisionGroup] | None = None
    clusters_per_decision_group: int | str | None = None
    """A number, or a percentage of the selected clusters such as `25%`. If absent, all clusters are in one group."""


class DecisionStrategy(OpenModel):
    """How the decisions are grouped."""

    group_strategy: GroupStrategy = Field(default_factory=GroupStrategy)


class PlacementSpec(OpenModel):
    """`spec` of a placement."""

    cluster_sets: list[str] | None = None
    number_of_clusters: int | None = None
    """If absent, all clusters that fit."""

    predicates: list[ClusterPredicate] | None = None
    prioritizer_policy: PrioritizerPolicy = Field(default_factory=PrioritizerPolicy)
    tolerations: list[OpenToleration] | None = None
    decision_strategy: DecisionStrategy = Field(default_factory=DecisionStrategy)


class Placement(Resource):
    """A rule that chooses clusters. Other programs read its decisions."""

    spec: PlacementSpec = Field(default_factory=PlacementSpec)


class SelectedCluster(OpenModel):
    """A cluster that a placement has selected."""

    cluster_name: str
    reason: str = ""


class PlacementDecisionStatus(OpenModel):
    """`status` of a page of decisions."""

    decisions: list[SelectedCluster] | None = None


class PlacementDecision(Resource):
    """A page of the clusters that a placement has selected, as somebody else has written it on a real hub."""

    status: PlacementDecisionStatus = Field(default_factory=PlacementDecisionStatus)


class AddOnScoreItem(OpenModel):
    """A score by name, -100 to 100."""

    name: str
    value: int = 0


class AddOnPlacementScoreStatus(OpenModel):
    """`status` of the scores of a cluster."""

    scores: list[AddOnScoreItem] | None = None
    valid_until: Timestamp | None = None


class AddOnPlacementScore(Resource):
    """Scores that an add-on gives to the cluster of its namespace."""

    status: AddOnPlacementScoreStatus = Field(default_factory=AddOnPlacementScoreStatus)


class ManagedClusterAddOn(Resource):
    """An add-on that is enabled on the cluster of its namespace (addon.open-cluster-management.io)."""


class LeaseSpec(OpenModel):
    """`spec` of a lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: Timestamp | None = None


class Lease(Resource):
    """The heartbeat of an add-on: named after the add-on, in the namespace of its cluster (coordination.k8s.io/v1)."""

    spec: LeaseSpec = Field(default_factory=LeaseSpec)
