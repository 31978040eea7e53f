"""Questions about a workload.

This module imports almost nothing, because the command line creates a question before it knows who will answer it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moorage_schemas.resources.workload_kinds import PROPAGATED

BINDING: Final = "ResourceBinding"
PLACEMENT: Final = "Placement"
PLACEMENT_DECISION: Final = "PlacementDecision"

EXPLAINED: Final = (PLACEMENT, PLACEMENT_DECISION, BINDING, *PROPAGATED)
"""The kinds that can be explained. A PlacementDecision is explained as its placement."""


class QuestionError(ValueError):
    """A question that is invalid.

    Args:
        field: the field that is invalid.
        value: the field's value.
        rule: the rule that it breaks.
    """

    def __init__(self, field: str, value: str, rule: str) -> None:
        super().__init__(f"{field}: invalid value {value!r}: {rule}")
        self.field, self.value, self.rule = field, value, rule


@dataclass(frozen=True, slots=True)
class Question:
    """The parameters of an explanation.

    Raises:
        QuestionError: a field is invalid, or two exclude each other.
    """

    kind: str
    """One of `EXPLAINED`."""

    namespace: str
    name: str
    node: str = ""
    """The only node to show. Empty for the default choice."""

    cluster: str = ""
    """The only cluster to show. Empty for the default choice."""

    every: bool = False
    """Whether to show all nodes or clusters."""

    def __post_init__(self) -> None:
        if self.kind not in EXPLAINED:
            raise QuestionError("kind", self.kind, f"must be one of {', '.join(EXPLAINED)}")
        for field in ("namespace", "name"):
            value = getattr(self, field)
            if not value or "/" in value:
                raise QuestionError(field, value, "must be a name")
        if self.node and self.cluster:
            rule = "cannot be used together with node: a workload is placed on nodes or on clusters"
            raise QuestionError("cluster", self.cluster, rule)
        if self.every and (self.node or self.cluster):
            raise QuestionError("all", "true", "cannot be used together with node or cluster")
