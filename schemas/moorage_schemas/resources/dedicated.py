"""`DedicatedNodes` (moorage.io/v1alpha1): nodes reserved for a group (docs/domain.md, "Dedicated nodes")."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import LabelSelector, Resource


class DedicatedNodesSpec(OpenModel):
    """The selected pods get a toleration for the taint and a required node affinity for the label.

    The nodes carry `key=value` as a label and `key=value:effect` as a taint.
    """

    key: str = "dedicated"
    value: str
    effect: str = "NoSchedule"
    namespaces: list[str] | None = None
    """The namespaces of the pods. If absent, every namespace."""

    pod_selector: LabelSelector = Field(default_factory=LabelSelector)
    """Selects pods in those namespaces. If empty, all of them."""


class DedicatedNodes(Resource):
    """A rule for dedicated nodes. Cluster-scoped."""

    spec: DedicatedNodesSpec
