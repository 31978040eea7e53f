"""`DedicatedNodes` (moorage.io/v1alpha1): nodes set apart for a group (docs/domain.md, "Dedicated nodes")."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import LabelSelector, Resource


class DedicatedNodesSpec(OpenModel):
    """Pods that the rule selects get a toleration for the taint and a required node affinity on the label.

    The nodes carry both `key=value` as a label and `key=value:effect` as a taint.
    """

    key: str = "dedicated"
    value: str
    effect: str = "NoSchedule"
    namespaces: list[str] | None = None
    """Whose pods; absent means every namespace."""

    pod_selector: LabelSelector = Field(default_factory=LabelSelector)
    """Which of their pods; empty means all."""


class DedicatedNodes(Resource):
    """A rule for dedicated nodes; cluster-scoped."""

    spec: DedicatedNodesSpec
