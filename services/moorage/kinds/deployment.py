"""`Deployment` (apps/v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.families.controllers import ControllerKind
from moorage.kinds.printing.columns import AGE, TableColumn
from moorage.kinds.printing.kubernetes import CONTAINERS, IMAGES, SELECTOR, number, ready_of

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
    api_columns = (
        TableColumn("Ready", ready_of("readyReplicas", "replicas")),
        number("Up-to-date", "status", "updatedReplicas")._replace(type="string"),
        number("Available", "status", "availableReplicas")._replace(type="string"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

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
