"""`TaintPolicy` (moorage.io/v1alpha1): which taints targets of any kind get by their conditions."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import LabelSelector, Resource
from moorage_schemas.resources.node import OpenTaint
from moorage_schemas.resources.policies import MatchCondition


class PolicyTargets(OpenModel):
    """Targets of one kind. All parts are ANDed; an absent part selects all."""

    kind: str = ""
    """`Node`, `Cluster` or `ManagedCluster`."""

    selector: LabelSelector | None = None
    """Selects by the target's labels."""

    names: list[str] | None = None
    """The names of the targets."""

    exclude: list[str] | None = None
    """The names of targets that are not selected."""

    cluster: str = ""
    """The real cluster that they are in, or `*` for the home fleet and every cluster. If absent, the home fleet."""


class TaintPolicySpec(OpenModel):
    """Taints to add or to remove while conditions match. Each list is ANDed, and an empty list never matches."""

    targets: PolicyTargets = Field(default_factory=PolicyTargets)
    add_on_conditions: list[MatchCondition] | None = None
    remove_on_conditions: list[MatchCondition] | None = None
    taints: list[OpenTaint] = Field(default_factory=list)
    add_hold: str | None = None
    """How long `addOnConditions` must match before the taints are added, such as `30s`. If absent, `taintAddHold`
    counts."""

    remove_hold: str | None = None
    """The same for `removeOnConditions` and `taintRemoveHold`."""


class TaintPolicy(Resource):
    """A rule that adds taints to targets of one kind by their conditions, and removes them. Cluster-scoped."""

    spec: TaintPolicySpec = Field(default_factory=TaintPolicySpec)
