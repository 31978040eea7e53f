"""`Deployment` (apps/v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.families.controllers import ControllerKind

if TYPE_CHECKING:
    from moorage.kinds.status.controllers import Counts
    from moorage.kinds.status.records import Document
    from moorage_schemas.resources.workloads import Deployment


class DeploymentKind(ControllerKind["Deployment"]):
    """A deployment: pods of one template, which may run anywhere."""

    kind = "Deployment"
    plural = "deployments"
    singular = "deployment"
    short_names = ("deploy",)
    order = 40
    scaled = True

    @property
    def model(self) -> type[Deployment]:
        """See `Kind`."""
        from moorage_schemas.resources.workloads import Deployment

        return Deployment

    def counted(self, counts: Counts, generation: int) -> Document:
        """See `ControllerKind`."""
        unavailable = counts.replicas - counts.ready
        status = super().counted(counts, generation)
        return {**status, "updatedReplicas": counts.replicas, "unavailableReplicas": unavailable}


KIND = DeploymentKind()
