"""Questions about a workload or a target.

This module imports almost nothing, because the command line creates a question before it chooses the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moorage_schemas.resources.workload_kinds import BINDING_KINDS, CLUSTER_RESOURCE_BINDING, PROPAGATED

PLACEMENT: Final = "Placement"
PLACEMENT_DECISION: Final = "PlacementDecision"
ROLLOUT: Final = "Rollout"

TARGETS: Final = ("Node", "Cluster", "ManagedCluster")
"""The kinds of targets: the values of `TargetKind`, which would take long to import."""

WITHOUT_NAMESPACE: Final = (*TARGETS, CLUSTER_RESOURCE_BINDING)
"""The kinds whose objects have no namespace."""

EXPLAINED: Final = (PLACEMENT, PLACEMENT_DECISION, ROLLOUT, *BINDING_KINDS, *TARGETS, *PROPAGATED)
"""The kinds that can be explained. A PlacementDecision is explained as its placement."""


_AT_HOME: Final = (PLACEMENT, PLACEMENT_DECISION, ROLLOUT, *BINDING_KINDS)
"""The kinds that are decided on only in the home fleet."""


class QuestionError(ValueError):
    """A question that is invalid."""

    def __init__(self, field: str, value: str, rule: str) -> None:
        super().__init__(f"{field}: invalid value {value!r}: {rule}")
        self.field, self.value, self.rule = field, value, rule


@dataclass(frozen=True, slots=True)
class Question:
    """The parameters of an explanation. Raises QuestionError if a field is invalid, or two exclude each other."""

    kind: str
    """One of `EXPLAINED`."""

    namespace: str
    """Empty for a kind that has none."""

    name: str
    node: str = ""
    """The only node to show. Empty for the default choice."""

    cluster: str = ""
    """The only cluster to show. Empty for the default choice."""

    every: bool = False
    """Whether to show all nodes or clusters; of a target all evictions, each with its chain."""

    within: str = ""
    """The cluster that the object is in, if a bridge mirrors it under a name. Empty for the home fleet."""

    def __post_init__(self) -> None:
        if self.kind not in EXPLAINED:
            raise QuestionError("kind", self.kind, f"must be one of {', '.join(EXPLAINED)}")
        has_none = self.kind in WITHOUT_NAMESPACE
        if has_none and self.namespace:
            raise QuestionError("namespace", self.namespace, f"must be empty, because a {self.kind} has no namespace")
        for field in ("name",) if has_none else ("namespace", "name"):
            value = getattr(self, field)
            if not value or "/" in value:
                raise QuestionError(field, value, "must be a name")
        if self.is_about_target:
            self._check_target()
        if self.within and self.kind in _AT_HOME:
            raise QuestionError("within", self.within, f"a {self.kind} is decided on in the home fleet only")
        if self.within and self.cluster:
            raise QuestionError("cluster", self.cluster, f"no policy places what is in cluster {self.within}")
        if self.node and self.cluster:
            rule = "cannot be used together with node: a workload is placed on nodes or on clusters"
            raise QuestionError("cluster", self.cluster, rule)
        if self.every and (self.node or self.cluster):
            raise QuestionError("all", "true", "cannot be used together with node or cluster")

    @property
    def is_about_target(self) -> bool:
        """Whether the question is about a target, and not a workload."""
        return self.kind in TARGETS

    def _check_target(self) -> None:
        for field in ("node", "cluster"):
            if value := getattr(self, field):
                raise QuestionError(field, value, f"{self.kind.lower()} {self.name} is a target itself")
