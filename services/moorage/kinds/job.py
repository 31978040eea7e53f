"""`Job` (batch/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.kinds.kind import Kind

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.workloads import Job


class JobKind(Kind["Job"]):
    """A job: pods that run to their end."""

    group = "batch"
    kind = "Job"
    plural = "jobs"
    singular = "job"
    namespaced = True
    order = 80
    in_all = True

    @property
    def model(self) -> type[Job]:
        """See `Kind`."""
        from moorage_schemas.resources.workloads import Job

        return Job

    def validate(self, resource: Job, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.workloads import validate_template

        return validate_template(resource.spec.template)

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.workloads import validate_same

        selector = validate_same(before, after, "selector")
        return selector + validate_same(before, after, "template", shown=False)


KIND = JobKind()
