"""What can be asked about a workload.

Imports next to nothing, for the command line puts a question before it knows who answers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moorage_schemas.resources.workload_kinds import PROPAGATED

BINDING: Final = "ResourceBinding"
PLACEMENT: Final = "Placement"
PLACEMENT_DECISION: Final = "PlacementDecision"

EXPLAINED: Final = (PLACEMENT, PLACEMENT_DECISION, BINDING, *PROPAGATED)
"""Kinds that can be explained; a PlacementDecision is, as its placement. They are what placement places."""


class QuestionError(ValueError):
    """A question that has no answer, for it is put wrongly.

    Args:
        field: what of it is wrong.
        value: the field's value.
        rule: what holds instead.
    """

    def __init__(self, field: str, value: str, rule: str) -> None:
        super().__init__(f"{field}: invalid value {value!r}: {rule}")
        self.field, self.value, self.rule = field, value, rule


@dataclass(frozen=True, slots=True)
class Question:
    """What an explanation is asked for.

    Raises:
        QuestionError: the fields do not fit together.
    """

    kind: str
    """One of `EXPLAINED`."""

    namespace: str
    name: str
    node: str = ""
    """The only node that is to be shown; empty for the usual choice."""

    cluster: str = ""
    """The same of clusters."""

    every: bool = False
    """Whether all nodes or clusters are to be shown."""

    def __post_init__(self) -> None:
        if self.kind not in EXPLAINED:
            raise QuestionError("kind", self.kind, f"must be one of {', '.join(EXPLAINED)}")
        for field in ("namespace", "name"):
            value = getattr(self, field)
            if not value or "/" in value:
                raise QuestionError(field, value, "must be a name")
        if self.node and self.cluster:
            rule = "cannot be used together with node: a workload has nodes or clusters, not both"
            raise QuestionError("cluster", self.cluster, rule)
        if self.every and (self.node or self.cluster):
            raise QuestionError("all", "true", "cannot be used together with node or cluster")
