"""`MachineSet` (machine.openshift.io/v1beta1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.kinds.kind import Kind

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.machines import MachineSet


class MachineSetKind(Kind["MachineSet"]):
    """A number of nodes made alike."""

    group = "machine.openshift.io"
    versions = ("v1beta1",)
    kind = "MachineSet"
    plural = "machinesets"
    singular = "machineset"
    cli_names = ("ms",)
    namespaced = True
    order = 130
    apply_order = 90
    scaled = True

    @property
    def model(self) -> type[MachineSet]:
        """See `Kind`."""
        from moorage_schemas.resources.machines import MachineSet

        return MachineSet

    def validate(self, resource: MachineSet, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.budgets import validate_machine_set

        return validate_machine_set(resource)

    def changed(self, wanted: dict[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
        """See `Kind`."""
        from moorage.core.admission.machine_sets import with_template

        return with_template(wanted, shown)


KIND = MachineSetKind()
