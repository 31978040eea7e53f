"""Whether an object may be written: its types, names, labels, taints, tolerations, and what may not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from moorage.core.admission.validation.budgets import (
    validate_disruption_budget,
    validate_eviction_budget,
    validate_eviction_pause,
    validate_machine_set,
)
from moorage.core.admission.validation.core import (
    validate_metadata,
    validate_name,
    validate_taints,
    validate_tolerations,
)
from moorage.core.admission.validation.karmada import (
    validate_cluster,
    validate_cluster_taint_policy,
    validate_propagation,
)
from moorage.core.admission.validation.ocm import validate_ocm
from moorage.core.admission.validation.rbac import NAMED_BY_PATH, validate_path_name, validate_roles
from moorage.core.apimachinery.field_errors import ErrorKind, FieldError, forbidden, invalid, required
from moorage.core.apimachinery.quantities import QuantityError
from moorage.core.apimachinery.selectors import matches_labels
from moorage.core.scheduling.ocm.plugin import Plugins
from moorage.core.taints.dialects.kubernetes import KUBERNETES
from moorage.gateway import errors
from moorage.gateway.admission.feature_gates import FeatureGates
from moorage.gateway.admission.unknown_fields import unknown_fields
from moorage.gateway.errors import Cause
from moorage.gateway.kinds import VIEW_GROUP, ServedKind
from moorage_schemas.resources.budgets import EvictionBudget, EvictionPause, PodDisruptionBudget
from moorage_schemas.resources.cluster import Cluster
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.resources.machines import MachineSet
from moorage_schemas.resources.meta import LabelSelector, Resource
from moorage_schemas.resources.node import Node
from moorage_schemas.resources.pod import Pod, PodTemplate
from moorage_schemas.resources.policies import ClusterPropagationPolicy, ClusterTaintPolicy, PropagationPolicy
from moorage_schemas.resources.workloads import Job, WorkloadSpec

Document = dict[str, Any]

_POD_UPDATES = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds`"
)
_KEPT_TOLERATION = "existing toleration can not be modified except its tolerationSeconds"
_FREE_POD_FIELDS = frozenset({"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"})


def typed(document: Mapping[str, Any], kind: ServedKind) -> Resource:
    """The typed view of an object.

    Raises:
        StatusError: 400 when a field has a wrong type, 422 when one is missing or has a value that cannot be.
    """
    model = kind.declared.model if kind.declared is not None else Resource
    try:
        return model.model_validate(document)
    except ValidationError as error:
        found = errors.field_errors(error)
        if any(item.kind is ErrorKind.TYPE_INVALID for item in found):
            shown = "; ".join(map(str, found))
            causes = [Cause(item.kind.value, item.body, item.path) for item in found]
            raise errors.bad_request(
                f"{kind.kind} in version {kind.version!r} cannot be handled as a {kind.kind}: {shown}", causes
            ) from None
        name = str(document.get("metadata", {}).get("name", ""))
        raise errors.invalid(kind.group, kind.kind, name, found) from None


def check(resource: Resource, kind: ServedKind, switches: FeatureGates) -> None:
    """Hold an object to the rules of its kind, and to what is switched on.

    Raises:
        StatusError: 422 with a cause for each rule that is broken.
    """
    metadata = resource.metadata
    found = validate_metadata(
        # The names of roles have rules of their own; here a name stands in for them.
        "role" if kind.kind in NAMED_BY_PATH else metadata.name,
        metadata.namespace,
        metadata.labels or {},
        namespaced=kind.namespaced,
    )
    if kind.kind in NAMED_BY_PATH:
        found = validate_path_name(metadata.name) + found
    if kind.kind == "Namespace" and not found:
        found += validate_name(metadata.name, dns_label=True)
    if kind.group == VIEW_GROUP:
        found += unknown_fields(resource)
    found += _by_kind(resource) + _by_policy(resource, switches)
    found += validate_ocm(resource, Plugins.discovered().built_in_names) + validate_roles(resource)
    if found:
        raise errors.invalid(kind.group, kind.kind, metadata.name, found)


def quantity_error(error: QuantityError, kind: ServedKind, name: str) -> errors.StatusError:
    """422 for a quantity that cannot be read."""
    return errors.invalid(kind.group, kind.kind, name, [invalid(error.field, error.value, error.rule)])


def check_update(before: Mapping[str, Any], after: Mapping[str, Any], kind: ServedKind) -> None:
    """Hold a change to the rules on what may not change.

    Args:
        before: the object as it is shown.
        after: the object as it is wanted, with what admission adds.
        kind: their kind.

    Raises:
        StatusError: 422 when a field changes that may not.
    """
    old, new = before.get("spec") or {}, after.get("spec") or {}
    found: list[FieldError] = []
    if kind.kind == "Pod":
        found += _pod_update(old, new)
    elif kind.group == "apps" or kind.kind == "Job":
        if old.get("selector") != new.get("selector"):
            found.append(invalid("spec.selector", new.get("selector"), "field is immutable"))
        if kind.kind == "Job" and old.get("template") != new.get("template"):
            found.append(invalid("spec.template", "", "field is immutable"))
    if found:
        raise errors.invalid(kind.group, kind.kind, str(after["metadata"]["name"]), found)


def _by_kind(resource: Resource) -> list[FieldError]:
    if isinstance(resource, Node):
        return validate_taints(resource.spec.taints or [])
    if isinstance(resource, Pod):
        return validate_tolerations(resource.spec.tolerations or [])
    if isinstance(resource, Job):
        return _template(resource.spec.template)
    if isinstance(resource, DedicatedNodes):
        return _dedicated(resource)
    if isinstance(resource, MachineSet):
        return validate_machine_set(resource)
    spec = getattr(resource, "spec", None)
    return _controller(resource.kind, spec) if isinstance(spec, WorkloadSpec) else []


def _by_policy(resource: Resource, switches: FeatureGates) -> list[FieldError]:
    """Clusters, what places work on them, and what holds it there."""
    if isinstance(resource, Cluster):
        return validate_cluster(resource)
    if isinstance(resource, ClusterTaintPolicy):
        return validate_cluster_taint_policy(resource, allow_no_execute=switches.allow_no_execute_taint_policy)
    if isinstance(resource, PropagationPolicy | ClusterPropagationPolicy):
        return validate_propagation(resource.spec, resource.metadata.annotations or {})
    if isinstance(resource, PodDisruptionBudget):
        return validate_disruption_budget(resource.spec)
    if isinstance(resource, EvictionBudget):
        return validate_eviction_budget(resource.spec)
    return validate_eviction_pause(resource.spec) if isinstance(resource, EvictionPause) else []


def _controller(kind: str, spec: WorkloadSpec) -> list[FieldError]:
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
    return found + _template(spec.template)


def _empty(selector: LabelSelector) -> bool:
    return not selector.match_labels and not selector.match_expressions


def _template(template: PodTemplate) -> list[FieldError]:
    return validate_tolerations(template.spec.tolerations or [], "spec.template.spec.tolerations")


def _dedicated(rule: DedicatedNodes) -> list[FieldError]:
    """A rule's key, value and effect are those of a taint, whose rules hold for them too."""
    from moorage_schemas.taint import Taint  # noqa: PLC0415 - used here alone

    taint = Taint(key=rule.spec.key, value=rule.spec.value, effect=rule.spec.effect)
    found = validate_taints([taint], "spec", KUBERNETES)
    return [FieldError(error.path.replace("spec[0]", "spec"), error.kind, error.value, error.detail) for error in found]


def _pod_update(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldError]:
    found = []
    wanted = [_timeless(toleration) for toleration in new.get("tolerations") or ()]
    if any(_timeless(toleration) not in wanted for toleration in old.get("tolerations") or ()):
        found.append(forbidden("spec.tolerations", _KEPT_TOLERATION))
    if _fixed(old) != _fixed(new):
        changed = sorted(key for key in {*_fixed(old), *_fixed(new)} if _fixed(old).get(key) != _fixed(new).get(key))
        found.append(forbidden("spec", f"{_POD_UPDATES} (changed: {', '.join(changed)})"))
    return found


def _timeless(toleration: Mapping[str, Any]) -> Document:
    defaults = {"operator": "Equal"}
    said = {key: value for key, value in toleration.items() if value not in ("", None) and key != "tolerationSeconds"}
    return {**defaults, **said}


def _fixed(spec: Mapping[str, Any]) -> Document:
    fixed = {key: value for key, value in spec.items() if key not in _FREE_POD_FIELDS and value not in ("", None)}
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [_without_image(container) for container in fixed[field]]
    return fixed


def _without_image(container: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    return sorted((key, value) for key, value in container.items() if key != "image")
