"""`Pod` (v1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moorage.kinds.kind import Kind

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.dedicated import DedicatedNodes
    from moorage_schemas.resources.pod import Pod


class PodKind(Kind["Pod"]):
    """A bare pod, which no controller makes."""

    kind = "Pod"
    plural = "pods"
    singular = "pod"
    short_names = ("po",)
    namespaced = True
    order = 30
    in_all = True

    @property
    def model(self) -> type[Pod]:
        """See `Kind`."""
        from moorage_schemas.resources.pod import Pod

        return Pod

    def validate(self, resource: Pod, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.core import validate_tolerations

        return validate_tolerations(resource.spec.tolerations or [])

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.workloads import validate_pod_update

        return validate_pod_update(before, after)

    def admitted(self, document: dict[str, Any], rules: Iterable[DedicatedNodes]) -> dict[str, Any]:
        """See `Kind`."""
        from moorage.core.admission.defaults import admit_pod

        return admit_pod(document, list(rules))

    def without_decided(self, document: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
        """Of the node, only what the person named is kept: the one that is shown may be placement's choice."""
        spec = {key: value for key, value in (document.get("spec") or {}).items() if key != "nodeName"}
        named = (stored.get("spec") or {}).get("nodeName")
        return {**document, "spec": {**spec, **({"nodeName": named} if named else {})}}


KIND = PodKind()
