"""`ReplicaSet` (apps/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.kinds.families.controllers import ControllerKind
from moorage.kinds.printing.kubernetes import REPLICA_COLUMNS

if TYPE_CHECKING:
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage.kinds.status.records import Document, ObjectId, Records
    from moorage_schemas.resources.workloads import ReplicaSet


class ReplicaSetKind(ControllerKind["ReplicaSet"]):
    """A replica set: a number of pods of one template."""

    kind = "ReplicaSet"
    plural = "replicasets"
    singular = "replicaset"
    short_names = ("rs",)
    order = 50
    scaled = True
    shown_zeros = frozenset({"replicas"})
    api_columns = REPLICA_COLUMNS

    @property
    def model(self) -> type[ReplicaSet]:
        """See `Kind`."""
        from moorage_schemas.resources.workloads import ReplicaSet

        return ReplicaSet

    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.workloads import validate_replica_set

        return validate_replica_set(document)

    def changed(self, wanted: dict[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
        """See `Kind`. While a deployment has the set, its spec is the deployment's. Without one it is on its own."""
        from moorage.kinds.status.rollouts import made_by_deployment

        if made_by_deployment(wanted):
            return {**wanted, "spec": {**shown["spec"], "replicas": 0}}
        return wanted

    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        """See `Kind`."""
        from moorage.kinds.status.rollouts import made_by_deployment, shown_replica_set

        resource, found = records.resources.get(object_id.key), super().shown(object_id, records)
        if found is None or not made_by_deployment(found) or (resource is not None and resource.mirrored is not None):
            return found
        made = shown_replica_set(found, records)
        return {**made, "status": self.without_zeros(made["status"])}


KIND = ReplicaSetKind()
