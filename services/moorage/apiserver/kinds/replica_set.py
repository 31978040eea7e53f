"""`ReplicaSet` (apps/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.families.controllers import ControllerKind
from moorage.apiserver.kinds.printing.kubernetes import REPLICA_COLUMNS

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.decide.kubernetes.field_errors import FieldError


class ReplicaSetKind(ControllerKind[Any]):
    """A replica set: a number of pods of one template."""

    kind = "ReplicaSet"
    plural = "replicasets"
    model_module = "workloads"
    short_names = ("rs",)
    order = 50
    scaled = True
    shown_zeros = frozenset({"replicas"})
    api_columns = REPLICA_COLUMNS

    @override
    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        from moorage.apiserver.rules.validation.workloads import validate_replica_set

        return validate_replica_set(document)

    def changed(self, wanted: dict[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
        """See `Kind`. While a deployment has the set, its spec is the deployment's. Without one it is on its own."""
        from moorage.apiserver.kinds.status.rollouts import made_by_deployment

        if made_by_deployment(wanted):
            return {**wanted, "spec": {**shown["spec"], "replicas": 0}}
        return wanted

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.rollouts import made_by_deployment, shown_replica_set

        resource, found = records.resources.get(object_id.key), super().shown(object_id, records)
        if found is None or not made_by_deployment(found) or (resource is not None and resource.mirrored is not None):
            return found
        made = shown_replica_set(found, records)
        return {**made, "status": self.without_zeros(made["status"])}


KIND = ReplicaSetKind()
