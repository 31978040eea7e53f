"""The controllers that make pods from a template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from moorage.kinds.kind import Kind, ResourceT

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError


class ControllerKind(Kind[ResourceT]):
    """A controller of the group apps: replicas, a selector, a template."""

    group: ClassVar[str] = "apps"
    namespaced: ClassVar[bool] = True
    in_all: ClassVar[bool] = True

    def validate(self, resource: ResourceT, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.workloads import validate_controller

        return validate_controller(self.kind, getattr(resource, "spec"))  # noqa: B009 - all of them have one

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.workloads import validate_same

        return validate_same(before, after, "selector")
