"""`Deployment` (apps/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.families.controllers import ControllerKind
from moorage.apiserver.kinds.printing.columns import AGE, TableColumn
from moorage.apiserver.kinds.printing.kubernetes import CONTAINERS, IMAGES, SELECTOR, number, ready_of

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.controllers import Counts
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared


class DeploymentKind(ControllerKind[Any]):
    """A deployment: pods of one template, which may run anywhere."""

    kind = "Deployment"
    plural = "deployments"
    model_module = "workloads"
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

    @override
    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        from moorage.apiserver.rules.validation.workloads import validate_deployment

        return validate_deployment(document)

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.rollouts import with_revision

        resource, found = records.resources.get(object_id.key), super().shown(object_id, records)
        if found is None or resource is None or resource.mirrored is not None:
            return found
        return with_revision(found, records)

    def without_decided(self, document: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
        """See `Kind`. The number of the present template is not kept in the deployment."""
        from moorage.apiserver.kinds.status.rollouts import without_revision

        return without_revision(document, stored)

    @override
    def counted(self, counts: Counts, resource: ResourceDeclared, records: Records) -> Document:
        from moorage.apiserver.kinds.status.rollouts import deployment_conditions, updated

        new = updated(resource, records)
        return {
            **super().counted(counts, resource, records),
            "updatedReplicas": new.replicas,
            "unavailableReplicas": counts.replicas - counts.ready,
            "conditions": deployment_conditions(resource, counts, new),
        }


KIND = DeploymentKind()
