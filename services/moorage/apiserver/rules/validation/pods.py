"""Validation of pods and of the templates that pods are made from, as Kubernetes 1.37 has it.

The errors have Kubernetes' paths and messages, and are in its order. What only a kubelet, a network or a storage driver
uses has no rules beside its structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from moorage.apiserver.rules.field_defaults import with_template_defaults
from moorage.apiserver.rules.validation.core import validate_annotations, validate_labels, validate_tolerations
from moorage.apiserver.rules.validation.fields import (
    Fields,
    dns_label,
    dns_subdomain,
    inner,
    label_selector,
    label_values,
    labels,
    listed,
    not_negative,
    number,
    object_in,
    objects,
    one_of,
    port_number,
    qualified_name,
    text,
    unknown_operator,
    values_by_operator,
)
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from moorage.decide.kubernetes.quantities import CPU, MEMORY, PODS, QuantityError, canonical_text, parse_quantity
from moorage.decide.kubernetes.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN
from moorage_schemas.resources.pod import OpenToleration

_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_LONGEST_DEADLINE: Final = 2**31 - 1


def validate_pod(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a pod, with the defaults of its fields.

    Args:
        document: the pod, as the API shows it.
    """
    spec = inner(document, "spec")
    return [
        *_spec_errors(spec, "spec", of_pod=True),
        *not_negative(spec, "spec", "terminationGracePeriodSeconds"),
        *images_without_spaces(spec, "spec"),
    ]


def validate_new_pod(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate what only a new pod may not have.

    Args:
        document: the pod, as the API shows it.
    """
    spec = inner(document, "spec")
    found = []
    if listed(spec, "ephemeralContainers"):
        found.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if text(spec, "nodeName") and listed(spec, "schedulingGates"):
        rule = "cannot be set until all schedulingGates have been cleared"
        found.append(forbidden("spec.nodeName", rule))
    return found


def validate_pod_template(template: Mapping[str, Any], path: str) -> list[FieldError]:
    """Validate the template that pods are made from: its labels, its annotations and its spec.

    Args:
        template: with the defaults of its fields.
        path: of the template.
    """
    metadata, spec = inner(template, "metadata"), inner(template, "spec") or with_template_defaults({})
    found = [
        *validate_labels(inner(metadata, "labels"), f"{path}.labels"),
        *validate_annotations(inner(metadata, "annotations"), f"{path}.annotations"),
        *_spec_errors(spec, f"{path}.spec", of_pod=False),
    ]
    if listed(spec, "ephemeralContainers"):
        found.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return found


def _spec_errors(spec: Fields, path: str, *, of_pod: bool) -> Iterator[FieldError]:
    yield from containers(spec, path)
    yield from pod_resources(spec, path)
    yield from _host_network(spec, path, of_pod=of_pod)
    yield from one_of(text(spec, "restartPolicy"), f"{path}.restartPolicy", RESTART_POLICIES)
    yield from labels(inner(spec, "nodeSelector"), f"{path}.nodeSelector")
    yield from affinity(spec, f"{path}.affinity")
    yield from gates(spec, path)
    yield from spread_constraints(spec, f"{path}.topologySpreadConstraints")
    yield from _names(spec, path)
    tolerations = [OpenToleration.model_validate(one) for one, _ in objects(spec, "tolerations", path)]
    yield from validate_tolerations(tolerations, f"{path}.tolerations")
    if name := text(spec, "priorityClassName"):
        yield from dns_subdomain(name, f"{path}.priorityClassName")
    if spec.get("preemptionPolicy") is not None:
        yield from one_of(text(spec, "preemptionPolicy"), f"{path}.preemptionPolicy", _PREEMPTION_POLICIES)


def _names(spec: Fields, path: str) -> Iterator[FieldError]:
    if name := text(spec, "serviceAccountName"):
        yield from dns_subdomain(name, f"{path}.serviceAccountName")
    if name := text(spec, "nodeName"):
        yield from dns_subdomain(name, f"{path}.nodeName")
    deadline = number(spec, "activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LONGEST_DEADLINE:
        yield invalid(
            f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {_LONGEST_DEADLINE}, inclusive"
        )


def _host_network(spec: Fields, path: str, *, of_pod: bool) -> Iterator[FieldError]:
    if spec.get("hostNetwork") is not True:
        return
    for container, container_path in objects(spec, "containers", f"{path}.containers"):
        for port, at in objects(container, "ports", f"{container_path}.ports"):
            outside, inside = number(port, "hostPort") or 0, number(port, "containerPort") or 0
            if (of_pod or outside) and outside != inside:
                yield invalid(f"{at}.hostPort", outside, "must match `containerPort` when `hostNetwork` is true")


RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_CONTAINER_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")


def containers(spec: Fields, path: str) -> Iterator[FieldError]:
    """Yield the errors of a pod's containers and init containers.

    Args:
        spec: of the pod.
        path: of the spec.
    """
    regular, before = f"{path}.containers", f"{path}.initContainers"
    if not listed(spec, "containers"):
        yield required(regular)
    seen = set[str]()
    for container, at in objects(spec, "containers", regular):
        yield from _container(container, at, seen)
    yield from _host_ports(objects(spec, "containers", regular))
    for container, at in objects(spec, "initContainers", before):
        yield from _container(container, at, seen)
        # As in Kubernetes, the path names the first container: each is looked at alone.
        yield from _host_ports(iter([(container, f"{before}[0]")]))


def images_without_spaces(spec: Fields, path: str) -> Iterator[FieldError]:
    """The errors of images with spaces around them, which are refused in pods but not in templates."""
    for field in ("containers", "initContainers"):
        for container, at in objects(spec, field, f"{path}.{field}"):
            image = text(container, "image")
            if image != image.strip():
                yield invalid(f"{at}.image", image, "must not have leading or trailing whitespace")


def _container(container: Fields, path: str, seen: set[str]) -> Iterator[FieldError]:
    name = text(container, "name")
    if name:
        yield from dns_label(name, f"{path}.name")
    else:
        yield required(f"{path}.name")
    if not text(container, "image"):
        yield required(f"{path}.image")
    for one, at in objects(container, "ports", f"{path}.ports"):
        if outside := number(one, "hostPort"):
            yield from port_number(outside, f"{at}.hostPort")
    yield from container_resources(inner(container, "resources"), f"{path}.resources")
    if name in seen:
        yield duplicate(f"{path}.name", name)
    seen.add(name)
    found = container.get("restartPolicy")
    if found is not None and found not in _CONTAINER_RESTART_POLICIES:
        yield not_supported(f"{path}.restartPolicy", found, _CONTAINER_RESTART_POLICIES)


def _host_ports(containers: Iterator[tuple[Fields, str]]) -> Iterator[FieldError]:
    """The errors of ports of the node that containers use twice. `containers` has each with its path."""
    seen = set()
    for container, path in containers:
        for one, at in objects(container, "ports", f"{path}.ports"):
            outside = number(one, "hostPort")
            identity = f"{text(one, 'protocol')}/{text(one, 'hostIP')}/{outside}"
            if outside and identity in seen:
                yield duplicate(f"{at}.hostPort", identity)
            seen.add(identity)


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_COMPARISONS: Final = ("Gt", "Lt")
_HEAVIEST: Final = 100
_DO_NOT_SCHEDULE: Final = "DoNotSchedule"
_ACTIONS: Final = (_DO_NOT_SCHEDULE, "ScheduleAnyway")
_INCLUSIONS: Final = ("Honor", "Ignore")


def affinity(spec: Fields, path: str) -> Iterator[FieldError]:
    """The errors of a pod's affinity to nodes and to other pods. `path` is that of the affinity."""
    found = inner(spec, "affinity")
    nodes = inner(found, "nodeAffinity")
    at = f"{path}.nodeAffinity"
    if (selector := object_in(nodes, _REQUIRED)) is not None:
        yield from node_selector(selector, f"{at}.{_REQUIRED}")
    for term, term_path in objects(nodes, _PREFERRED, f"{at}.{_PREFERRED}"):
        yield from _weight(term, term_path)
        yield from _node_term(inner(term, "preference"), f"{term_path}.preference", strict=False)
    for field in ("podAffinity", "podAntiAffinity"):
        yield from _pods(inner(found, field), f"{path}.{field}")


def node_selector(selector: Fields, path: str) -> Iterator[FieldError]:
    """The errors of a selector of nodes."""
    where = f"{path}.nodeSelectorTerms"
    if not listed(selector, "nodeSelectorTerms"):
        yield required(where, "must have at least one node selector term")
    for term, term_path in objects(selector, "nodeSelectorTerms", where):
        yield from _node_term(term, term_path, strict=True)


def _weight(term: Fields, path: str) -> Iterator[FieldError]:
    weight = number(term, "weight") or 0
    if not 1 <= weight <= _HEAVIEST:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _node_term(term: Fields, path: str, *, strict: bool) -> Iterator[FieldError]:
    for requirement, at in objects(term, "matchExpressions", f"{path}.matchExpressions"):
        yield from _node_label(requirement, at, strict=strict)
    for requirement, at in objects(term, "matchFields", f"{path}.matchFields"):
        yield from _node_field(requirement, at)


def _node_label(requirement: Fields, path: str, *, strict: bool) -> Iterator[FieldError]:
    operator, values = text(requirement, "operator"), listed(requirement, "values")
    yield from values_by_operator(operator, values, path)
    if operator in _COMPARISONS:
        if len(values) != 1:
            yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    elif operator not in {IN, NOT_IN, EXISTS, DOES_NOT_EXIST}:
        yield unknown_operator(operator, path)
    yield from qualified_name(text(requirement, "key"), f"{path}.key")
    if strict:
        yield from label_values(values, path)


def _node_field(requirement: Fields, path: str) -> Iterator[FieldError]:
    operator, values = text(requirement, "operator"), listed(requirement, "values")
    if operator not in {IN, NOT_IN}:
        yield unknown_operator(operator, path)
    elif len(values) != 1:
        rule = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", rule)
    if text(requirement, "key") != "metadata.name":
        yield invalid(f"{path}.key", text(requirement, "key"), "not a valid field selector key")
    else:
        for index, value in enumerate(values):
            yield from dns_subdomain(value, f"{path}.values[{index}]")


def _pods(terms: Fields, path: str) -> Iterator[FieldError]:
    for term, at in objects(terms, _REQUIRED, f"{path}.{_REQUIRED}"):
        yield from _pod_term(term, at)
    for term, at in objects(terms, _PREFERRED, f"{path}.{_PREFERRED}"):
        yield from _weight(term, at)
        yield from _pod_term(inner(term, "podAffinityTerm"), f"{at}.podAffinityTerm")


def _pod_term(term: Fields, path: str) -> Iterator[FieldError]:
    for field in ("labelSelector", "namespaceSelector"):
        yield from label_selector(object_in(term, field), f"{path}.{field}")
    for namespace in listed(term, "namespaces"):
        yield from dns_label(namespace, f"{path}.namespace")
    yield from _label_keys(term, path, "matchLabelKeys", "mismatchLabelKeys")
    key = text(term, "topologyKey")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from qualified_name(key, f"{path}.topologyKey")


def _label_keys(term: Fields, path: str, *fields: str) -> Iterator[FieldError]:
    selector = object_in(term, "labelSelector")
    for field in fields:
        keys = listed(term, field)
        if keys and selector is None:
            yield forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
        elif keys:
            for index, key in enumerate(keys):
                yield from qualified_name(key, f"{path}.{field}[{index}]")
    matched, mismatched = listed(term, "matchLabelKeys"), listed(term, "mismatchLabelKeys")
    used = set(inner(selector or {}, "matchLabels"))
    for requirement, _ in objects(selector or {}, "matchExpressions", path):
        key = text(requirement, "key")
        if key in matched and key in used:
            yield invalid(f"{path}[{matched.index(key)}]", key, "exists in both matchLabelKeys and labelSelector")
        used.add(key)
    for index, key in enumerate(matched):
        if key in mismatched:
            rule = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{path}.matchLabelKeys[{index}]", key, rule)


def spread_constraints(spec: Fields, path: str) -> Iterator[FieldError]:
    """The errors of a pod's `topologySpreadConstraints`. `path` is that of the list."""
    found = list(objects(spec, "topologySpreadConstraints", path))
    for index, (constraint, at) in enumerate(found):
        skew, key, action = number(constraint, "maxSkew") or 0, text(constraint, "topologyKey"), _action(constraint)
        if skew < 1:
            yield invalid(f"{at}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield required(f"{at}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            yield not_supported(f"{at}.whenUnsatisfiable", action, _ACTIONS)
        if any((text(other, "topologyKey"), _action(other)) == (key, action) for other, _ in found[index + 1 :]):
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        yield from _domains(constraint, at)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy: Any = constraint.get(field)
            if policy is not None and policy not in _INCLUSIONS:
                yield not_supported(f"{at}.{field}", policy, _INCLUSIONS)
        yield from _label_keys(constraint, at, "matchLabelKeys")
        yield from label_selector(object_in(constraint, "labelSelector"), f"{at}.labelSelector")


def _action(constraint: Fields) -> str:
    return text(constraint, "whenUnsatisfiable")


def _domains(constraint: Fields, path: str) -> Iterator[FieldError]:
    least = number(constraint, "minDomains")
    if least is None:
        return
    if least < 1:
        yield invalid(f"{path}.minDomains", least, "must be greater than zero")
    if _action(constraint) != _DO_NOT_SCHEDULE:
        rule = f"can only use minDomains if whenUnsatisfiable={_DO_NOT_SCHEDULE}, not {_action(constraint)}"
        yield invalid(f"{path}.minDomains", least, rule)


def gates(spec: Fields, path: str) -> Iterator[FieldError]:
    """The errors of a pod's readiness gates and scheduling gates. `path` is that of the spec."""
    for gate, at in objects(spec, "readinessGates", f"{path}.readinessGates"):
        yield from qualified_name(text(gate, "conditionType"), f"{at}.conditionType")
    seen = set()
    for gate, at in objects(spec, "schedulingGates", f"{path}.schedulingGates"):
        name = text(gate, "name")
        yield from qualified_name(name, at)
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)


_STORAGE: Final = "ephemeral-storage"
_HUGE: Final = "hugepages-"
_QUOTA: Final = "requests."
_NATIVE: Final = "kubernetes.io/"
_CONTAINER: Final = frozenset({CPU, MEMORY, _STORAGE})
_COUNTED: Final = frozenset(
    {
        PODS,
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
"""Resources of which there are only whole ones."""

_OF_QUOTAS: Final = (
    _CONTAINER
    | _COUNTED
    | {"requests.storage"}
    | {f"{kind}.{name}" for kind in ("limits", "requests") for name in _CONTAINER}
)
_STANDARD: Final = _OF_QUOTAS | {"storage"}
_LIMITS: Final = "limits"
_REQUESTS: Final = "requests"


def container_resources(resources: Fields, path: str) -> Iterator[FieldError]:
    """The errors of a container's requests and limits.

    Args:
        resources: `resources` of the container.
        path: of them.
    """
    yield from _requirements(resources, path, of_pod=False)


def pod_resources(spec: Fields, path: str) -> Iterator[FieldError]:
    """The errors of the requests and limits of a pod as a whole, if it has any."""
    if isinstance(spec.get("resources"), Mapping):
        yield from _requirements(inner(spec, "resources"), f"{path}.resources", of_pod=True)


def amounts(values: Fields, path: str) -> Iterator[FieldError]:
    """The errors of amounts of resources, such as a node's capacity. Each is at `path.<its name>`."""
    for name, value in sorted(values.items()):
        yield from amount(name, value, f"{path}.{name}")


def _requirements(resources: Fields, path: str, *, of_pod: bool) -> Iterator[FieldError]:
    limits, requests = inner(resources, _LIMITS), inner(resources, _REQUESTS)
    for name, value in sorted(limits.items()):
        yield from _named(name, value, f"{path}.{_LIMITS}[{name}]", of_pod=of_pod)
        yield from _whole_pages(name, value, f"{path}.{_LIMITS}[{name}]")
    for name, value in sorted(requests.items()):
        yield from _named(name, value, f"{path}.{_REQUESTS}[{name}]", of_pod=of_pod)
        yield from _within_limit(name, value, limits, path)
        yield from _whole_pages(name, value, f"{path}.{_REQUESTS}[{name}]")
    named = {*limits, *requests}
    if not named & {CPU, MEMORY} and any(name.startswith(_HUGE) for name in named):
        yield forbidden(path, "HugePages require cpu or memory")


def _named(name: str, value: Any, path: str, *, of_pod: bool) -> Iterator[FieldError]:
    wrong = list(resource_name(name, path))
    yield from wrong
    if of_pod:
        if not wrong and name not in {CPU, MEMORY} and not name.startswith(_HUGE):
            yield not_supported(path, name, sorted((CPU, _HUGE, MEMORY)))
    else:
        yield from _of_containers(name, path)
    yield from amount(name, value, path)


def _of_containers(name: str, path: str) -> Iterator[FieldError]:
    if "/" not in name:
        if name not in _CONTAINER and not name.startswith(_HUGE):
            yield invalid(path, name, "must be a standard resource for containers")
    elif _NATIVE not in name and not _is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def resource_name(name: str, path: str) -> Iterator[FieldError]:
    """The errors of the name of a resource."""
    wrong = list(qualified_name(name, path))
    yield from wrong
    if not wrong and "/" not in name and name not in _STANDARD and not name.removeprefix(_QUOTA).startswith(_HUGE):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def _is_extended(name: str) -> bool:
    return not name.startswith(_QUOTA) and not names.check_qualified_name(f"{_QUOTA}{name}")


def is_overcommitted(name: str) -> bool:
    """Whether a limit may be higher than the request."""
    return ("/" not in name or _NATIVE in name) and not name.startswith(_HUGE)


def quantity(value: Any) -> Fraction | None:
    """A quantity. None if it is none, or absent."""
    try:
        return parse_quantity(value)
    except QuantityError:  # decoding refuses it
        return None


def amount(name: str, value: Any, path: str) -> Iterator[FieldError]:
    """The errors of an amount of a resource."""
    found = quantity(value)
    if found is None:
        return
    if found < 0:
        yield invalid(path, canonical_text(value), "must be greater than or equal to 0")
    if (name in _COUNTED or _is_extended_resource(name)) and found.denominator != 1:
        yield invalid(path, canonical_text(value), "must be an integer")


def _is_extended_resource(name: str) -> bool:
    return "/" in name and _NATIVE not in name and _is_extended(name)


def _within_limit(name: str, value: Any, limits: Fields, path: str) -> Iterator[FieldError]:
    request, limit = quantity(value), quantity(limits.get(name))
    if limit is None:
        if not is_overcommitted(name):
            yield required(f"{path}.{_LIMITS}", "Limit must be set for non overcommitable resources")
    elif request is None:
        return
    elif request != limit and not is_overcommitted(name):
        rule = f"must be equal to {name} limit of {canonical_text(limits[name])}"
        yield invalid(f"{path}.{_REQUESTS}", canonical_text(value), rule)
    elif request > limit:
        rule = f"must be less than or equal to {name} limit of {canonical_text(limits[name])}"
        yield invalid(f"{path}.{_REQUESTS}", canonical_text(value), rule)


def _whole_pages(name: str, value: Any, path: str) -> Iterator[FieldError]:
    if not name.startswith(_HUGE):
        return
    size, found = quantity(name.removeprefix(_HUGE)), quantity(value)
    if found is not None and (size is None or size <= 0 or found % size):
        shown = canonical_text(value)
        yield invalid(path, shown, f"{shown} is not positive integer multiple of {name}")
