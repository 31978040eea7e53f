"""Validation of pods and the controllers that create them, of rules for dedicated nodes, and of changes to these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moorage.core.admission.validation.core import validate_taints, validate_tolerations
from moorage.core.apimachinery.field_errors import FieldError, forbidden, invalid, required
from moorage.core.apimachinery.selectors import matches_labels
from moorage.core.taints.dialects.kubernetes import KUBERNETES
from moorage_schemas.resources.dedicated import DedicatedNodesSpec
from moorage_schemas.resources.meta import LabelSelector
from moorage_schemas.resources.pod import PodTemplate
from moorage_schemas.resources.workloads import WorkloadSpec
from moorage_schemas.taint import Taint

_POD_UPDATES: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds`"
)
_KEPT_TOLERATION: Final = "existing toleration can not be modified except its tolerationSeconds"
_FREE_POD_FIELDS: Final = frozenset({"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"})


def validate_controller(kind: str, spec: WorkloadSpec) -> list[FieldError]:
    """Validate a controller of the group apps: its replicas, its selector, and a template that the selector selects."""
    found = []
    if spec.replicas is not None and spec.replicas < 0:
        found.append(invalid("spec.replicas", spec.replicas, "must be greater than or equal to 0"))
    selector = spec.selector
    if selector is None:
        found.append(required("spec.selector"))
    elif _empty(selector):
        found.append(invalid("spec.selector", {}, f"empty selector is invalid for {kind.lower()}"))
    else:
        labels = spec.template.metadata.labels or {}
        if not matches_labels(selector, labels):
            path = "spec.template.metadata.labels"
            found.append(invalid(path, labels, "`selector` does not match template `labels`"))
    return found + validate_template(spec.template)


def validate_template(template: PodTemplate) -> list[FieldError]:
    """Validate the template of a controller's pods: its tolerations."""
    return validate_tolerations(template.spec.tolerations or [], "spec.template.spec.tolerations")


def validate_dedicated_nodes(spec: DedicatedNodesSpec) -> list[FieldError]:
    """Validate a rule for dedicated nodes. Its key, value and effect must be valid for a taint."""
    taint = Taint(key=spec.key, value=spec.value, effect=spec.effect)
    found = validate_taints([taint], "spec", KUBERNETES)
    return [FieldError(error.path.replace("spec[0]", "spec"), error.kind, error.value, error.detail) for error in found]


def validate_same(
    before: Mapping[str, Any], after: Mapping[str, Any], field: str, *, shown: bool = True
) -> list[FieldError]:
    """Validate that a field of `spec` does not change.

    Args:
        before: the present object.
        after: the requested object.
        field: the field's name.
        shown: whether the message contains the requested value.
    """
    old, new = (before.get("spec") or {}).get(field), (after.get("spec") or {}).get(field)
    return [] if old == new else [invalid(f"spec.{field}", new if shown else "", "field is immutable")]


def validate_pod_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a pod. Only images and deadlines may change, and tolerations may be added."""
    old, new = before.get("spec") or {}, after.get("spec") or {}
    found = []
    wanted = [_timeless(toleration) for toleration in new.get("tolerations") or ()]
    if any(_timeless(toleration) not in wanted for toleration in old.get("tolerations") or ()):
        found.append(forbidden("spec.tolerations", _KEPT_TOLERATION))
    if _fixed(old) != _fixed(new):
        changed = sorted(key for key in {*_fixed(old), *_fixed(new)} if _fixed(old).get(key) != _fixed(new).get(key))
        found.append(forbidden("spec", f"{_POD_UPDATES} (changed: {', '.join(changed)})"))
    return found


def _empty(selector: LabelSelector) -> bool:
    return not selector.match_labels and not selector.match_expressions


def _timeless(toleration: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {"operator": "Equal"}
    said = {key: value for key, value in toleration.items() if value not in ("", None) and key != "tolerationSeconds"}
    return {**defaults, **said}


def _fixed(spec: Mapping[str, Any]) -> dict[str, Any]:
    fixed = {key: value for key, value in spec.items() if key not in _FREE_POD_FIELDS and value not in ("", None)}
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [_without_image(container) for container in fixed[field]]
    return fixed


def _without_image(container: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    return sorted((key, value) for key, value in container.items() if key != "image")
