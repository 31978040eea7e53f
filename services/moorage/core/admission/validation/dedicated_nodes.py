"""Validation of rules for dedicated nodes."""

from __future__ import annotations

from moorage.core.admission.validation.core import validate_taints
from moorage.core.apimachinery.field_errors import FieldError
from moorage.core.taints.dialects.kubernetes import KUBERNETES
from moorage_schemas.resources.dedicated import DedicatedNodesSpec
from moorage_schemas.taint import Taint


def validate_dedicated_nodes(spec: DedicatedNodesSpec) -> list[FieldError]:
    """Validate a rule for dedicated nodes. Its key, value and effect must be valid for a taint."""
    taint = Taint(key=spec.key, value=spec.value, effect=spec.effect)
    found = validate_taints([taint], "spec", KUBERNETES)
    return [FieldError(error.path.replace("spec[0]", "spec"), error.kind, error.value, error.detail) for error in found]
