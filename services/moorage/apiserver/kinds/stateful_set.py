"""`StatefulSet` (apps/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.families.controllers import ControllerKind
from moorage.apiserver.kinds.printing.columns import AGE, TableColumn
from moorage.apiserver.kinds.printing.kubernetes import CONTAINERS, IMAGES, ready_of

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.controllers import Counts
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared


_FIXED: Final = ("volumeClaimTemplates", "serviceName", "podManagementPolicy")
"""Fields of `spec` that never change."""


class StatefulSetKind(ControllerKind[Any]):
    """A stateful set: its pods keep their names."""

    kind = "StatefulSet"
    plural = "statefulsets"
    model_module = "workloads"
    short_names = ("sts",)
    order = 60
    scaled = True
    shown_zeros = frozenset({"availableReplicas", "collisionCount", "replicas"})
    label_names = True
    api_columns = (TableColumn("Ready", ready_of("readyReplicas", "replicas")), AGE, CONTAINERS, IMAGES)

    @override
    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        from moorage.apiserver.rules.validation.workloads import validate_stateful_set

        return validate_stateful_set(document)

    @override
    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        from moorage.apiserver.rules.validation.workloads import validate_same

        found = super().validate_update(before, after)
        return [*found, *(error for one in _FIXED for error in validate_same(before, after, one))]

    @override
    def counted(self, counts: Counts, resource: ResourceDeclared, records: Records) -> Document:
        from moorage.apiserver.kinds.status.rollouts import revisions, updated

        current, update = revisions(resource, records)
        new = updated(resource, records).replicas
        return {
            **super().counted(counts, resource, records),
            "updatedReplicas": new,
            "currentReplicas": new if current == update else counts.replicas - new,
            "collisionCount": 0,
            "currentRevision": current,
            "updateRevision": update,
        }


KIND = StatefulSetKind()
