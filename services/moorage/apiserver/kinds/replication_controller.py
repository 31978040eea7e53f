"""`ReplicationController` (v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from moorage.apiserver.kinds.families.controllers import ControllerKind
from moorage.apiserver.kinds.printing.kubernetes import REPLICA_COLUMNS

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.controllers import Counts
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared


class ReplicationControllerKind(ControllerKind[Any]):
    """A replication controller: the older form of a replica set, whose selector consists of labels alone."""

    group = ""
    kind = "ReplicationController"
    plural = "replicationcontrollers"
    model_module = "workloads"
    short_names = ("rc",)
    order = 35
    scaled = True
    shown_zeros = frozenset({"replicas"})
    field_selectors: ClassVar[Mapping[str, str]] = {"status.replicas": "0"}
    api_columns = REPLICA_COLUMNS

    def created(self, document: dict[str, Any], gates: FeatureGates) -> dict[str, Any]:
        """See `Kind`. What it selects stays, also if the labels of its template change later."""
        from moorage.apiserver.rules.field_defaults import selecting_by_template

        return selecting_by_template(super().created(document, gates))

    @override
    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        from moorage.apiserver.rules.validation.workloads import validate_replication_controller

        return validate_replication_controller(document)

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`. Unlike that of the controllers of the group apps, its selector may change."""
        return []

    @override
    def counted(self, counts: Counts, resource: ResourceDeclared, records: Records) -> Document:
        return {**super().counted(counts, resource, records), "fullyLabeledReplicas": counts.replicas}


KIND = ReplicationControllerKind()
