"""`Lease` (coordination.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.kinds.printing.columns import AGE, TableColumn, since, text

if TYPE_CHECKING:
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.managed import Lease


class LeaseKind(Kind["Lease"]):
    """The heartbeat of the add-on with the same name, in the namespace of its cluster."""

    group = "coordination.k8s.io"
    kind = "Lease"
    plural = "leases"
    model_module = "managed"
    mirrorable = True
    namespaced = True
    created_by_update = True
    order = 260
    apply_order = 160
    has_generation = False
    columns = (
        TableColumn("HOLDER", text("spec", "holderIdentity")),
        AGE,
        TableColumn("RENEWED", since("spec", "renewTime"), wide=True),
        TableColumn("SECONDS", text("spec", "leaseDurationSeconds"), wide=True),
    )
    api_columns = (TableColumn("Holder", text("spec", "holderIdentity", default="")), AGE)

    @override
    def validate(self, resource: Lease, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.ocm import validate_lease

        return validate_lease(resource)

    def is_heartbeat(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """A renewal: only `spec.renewTime`, and with it the generation, has changed. See `Kind`."""
        return _without_renewal(before) == _without_renewal(after)


def _without_renewal(lease: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in lease["metadata"].items() if key != "generation"}
    spec = {key: value for key, value in (lease.get("spec") or {}).items() if key != "renewTime"}
    return {**lease, "metadata": metadata, "spec": spec}


KIND = LeaseKind()
