"""Validation of pods and of the templates that pods are made from, as Kubernetes 1.37 has it.

The errors have Kubernetes' paths and messages, and are in its order. Fields that only a kubelet, a network or a storage
driver uses have no rules beside their structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from moorage.apiserver.rules.validation.core import validate_annotations, validate_tolerations
from moorage.apiserver.rules.validation.fields import CheckedField
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import FieldError
from moorage.decide.kubernetes.quantities import CPU, MEMORY, PODS, QuantityError, canonical_text, parse_quantity
from moorage.decide.kubernetes.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN
from moorage_schemas.resources.pod import OpenToleration

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_CONTAINER_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_LONGEST_DEADLINE: Final = 2**31 - 1


def validate_pod(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a pod, with the defaults of its fields."""
    spec = CheckedField(document)["spec"]
    _check_spec(spec, of_pod=True)
    spec.check_not_negative("terminationGracePeriodSeconds")
    for container in (*spec["containers"].objects(), *spec["initContainers"].objects()):
        image = container["image"]
        if image.text != image.text.strip():
            image.invalid("must not have leading or trailing whitespace")
    return spec.errors


def validate_new_pod(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate what only a new pod may not have."""
    spec = CheckedField(document)["spec"]
    if spec["ephemeralContainers"].items:
        spec["ephemeralContainers"].forbidden("cannot be set on create")
    if spec["nodeName"].text and spec["schedulingGates"].items:
        spec["nodeName"].forbidden("cannot be set until all schedulingGates have been cleared")
    return spec.errors


def check_pod_template(template: CheckedField) -> None:
    """Check the template that pods are made from: its labels, its annotations and its spec."""
    metadata, spec = template["metadata"], template["spec"]
    if not spec.fields:
        spec = CheckedField({"restartPolicy": RESTART_POLICIES[0]}, spec.path, spec.errors)
    CheckedField(metadata["labels"].value, f"{template.path}.labels", template.errors).check_labels()
    template.check(validate_annotations(metadata["annotations"].fields, f"{template.path}.annotations"))
    _check_spec(spec, of_pod=False)
    if spec["ephemeralContainers"].items:
        spec["ephemeralContainers"].forbidden("ephemeral containers not allowed in pod template")


def _check_spec(spec: CheckedField, *, of_pod: bool) -> None:
    _check_containers(spec)
    if spec["resources"].is_object:
        _check_requirements(spec["resources"], of_pod=True)
    if spec["hostNetwork"].value is True:
        _check_host_network(spec["containers"].objects(), of_pod=of_pod)
    spec["restartPolicy"].check_one_of(RESTART_POLICIES)
    spec["nodeSelector"].check_labels()
    _check_affinity(spec["affinity"])
    _check_gates(spec)
    _check_spread_constraints(list(spec["topologySpreadConstraints"].objects()))
    for field in ("serviceAccountName", "nodeName"):
        if spec[field].text:
            spec[field].check_dns_subdomain()
    spec["activeDeadlineSeconds"].check_within(1, _LONGEST_DEADLINE)
    tolerations = spec["tolerations"]
    found = [OpenToleration.model_validate(one.value) for one in tolerations.objects()]
    spec.check(validate_tolerations(found, tolerations.path))
    if spec["priorityClassName"].text:
        spec["priorityClassName"].check_dns_subdomain()
    if spec["preemptionPolicy"].value is not None:
        spec["preemptionPolicy"].check_one_of(_PREEMPTION_POLICIES)


def _check_host_network(containers: Iterable[CheckedField], *, of_pod: bool) -> None:
    for port in (port for container in containers for port in container["ports"].objects()):
        outside = port["hostPort"].number or 0
        if (of_pod or outside) and outside != (port["containerPort"].number or 0):
            port["hostPort"].invalid("must match `containerPort` when `hostNetwork` is true", outside)


def _check_containers(spec: CheckedField) -> None:
    regular, before = spec["containers"], spec["initContainers"]
    if not regular.items:
        regular.required()
    seen = set[str]()
    for container in regular.objects():
        _check_container(container, seen)
    _check_host_ports(regular.objects())
    for container in before.objects():
        _check_container(container, seen)
        # As in Kubernetes, the path names the first container: each is checked alone.
        _check_host_ports([before.at(0, container.value)])


def _check_container(container: CheckedField, seen: set[str]) -> None:
    name = container["name"]
    if name.check_set():
        name.check_dns_label()
    container["image"].check_set()
    for port in container["ports"].objects():
        if port["hostPort"].number:
            port["hostPort"].check_port()
    _check_requirements(container["resources"], of_pod=False)
    name.check_unique(seen, name.text)
    if container["restartPolicy"].value is not None:
        container["restartPolicy"].check_supported(_CONTAINER_RESTART_POLICIES)


def _check_host_ports(containers: Iterable[CheckedField]) -> None:
    """Check that containers use no port of the node twice."""
    seen = set[str]()
    for port in (port for container in containers for port in container["ports"].objects()):
        if outside := port["hostPort"].number:
            port["hostPort"].check_unique(seen, f"{port['protocol'].text}/{port['hostIP'].text}/{outside}")


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_COMPARISONS: Final = ("Gt", "Lt")
_NODE_OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, *_COMPARISONS)
_HEAVIEST: Final = 100


def _check_affinity(affinity: CheckedField) -> None:
    nodes = affinity["nodeAffinity"]
    if nodes[_REQUIRED].is_object:
        terms = nodes[_REQUIRED]["nodeSelectorTerms"]
        if not terms.items:
            terms.required("must have at least one node selector term")
        for term in terms.objects():
            _check_node_term(term, strict=True)
    for term in nodes[_PREFERRED].objects():
        _check_weight(term["weight"])
        _check_node_term(term["preference"], strict=False)
    for pods in (affinity["podAffinity"], affinity["podAntiAffinity"]):
        for term in pods[_REQUIRED].objects():
            _check_pod_term(term)
        for term in pods[_PREFERRED].objects():
            _check_weight(term["weight"])
            _check_pod_term(term["podAffinityTerm"])


def _check_weight(weight: CheckedField) -> None:
    if not 1 <= (weight.number or 0) <= _HEAVIEST:
        weight.invalid("must be in the range 1-100", weight.number or 0)


def _check_node_term(term: CheckedField, *, strict: bool) -> None:
    for requirement in term["matchExpressions"].objects():
        requirement.check_operator(_NODE_OPERATORS)
        if requirement["operator"].text in _COMPARISONS and len(requirement["values"].items) != 1:
            requirement["values"].required("must be specified single value when `operator` is 'Lt' or 'Gt'")
        requirement["key"].check_qualified_name()
        if strict:
            requirement["values"].check_label_values()
    for requirement in term["matchFields"].objects():
        _check_node_field(requirement["key"], requirement["operator"], requirement["values"])


def _check_node_field(key: CheckedField, operator: CheckedField, values: CheckedField) -> None:
    if operator.text not in {IN, NOT_IN}:
        operator.invalid("not a valid selector operator", operator.text)
    elif len(values.items) != 1:
        values.required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
    if key.text != "metadata.name":
        key.invalid("not a valid field selector key", key.text)
        return
    for value in values.each():
        value.check_dns_subdomain()


def _check_pod_term(term: CheckedField) -> None:
    term["labelSelector"].check_label_selector()
    term["namespaceSelector"].check_label_selector()
    for namespace in term["namespaces"].items:
        CheckedField(namespace, f"{term.path}.namespace", term.errors).check_dns_label()
    _check_label_keys(term, "matchLabelKeys", "mismatchLabelKeys")
    key = term["topologyKey"]
    key.check_set("can not be empty")
    key.check_qualified_name()


def _check_label_keys(term: CheckedField, *fields: str) -> None:
    selector = term["labelSelector"]
    for field in (term[name] for name in fields):
        if field.items and not selector.is_object:
            field.forbidden("must not be specified when labelSelector is not set")
        elif field.items:
            for key in field.each():
                key.check_qualified_name()
    matched, mismatched = term["matchLabelKeys"], term["mismatchLabelKeys"].items
    used = set(selector["matchLabels"].fields)
    for requirement in selector["matchExpressions"].objects():
        name = requirement["key"].text
        if name in matched.items and name in used:
            term.at(matched.items.index(name), name).invalid("exists in both matchLabelKeys and labelSelector")
        used.add(name)
    for key in matched.each():
        if key.value in mismatched:
            key.invalid("exists in both matchLabelKeys and mismatchLabelKeys")


_DO_NOT_SCHEDULE: Final = "DoNotSchedule"
_ACTIONS: Final = (_DO_NOT_SCHEDULE, "ScheduleAnyway")
_INCLUSIONS: Final = ("Honor", "Ignore")


def _check_spread_constraints(constraints: list[CheckedField]) -> None:
    identities = [(one["topologyKey"].text, one["whenUnsatisfiable"].text) for one in constraints]
    for index, constraint in enumerate(constraints):
        key, action = identities[index]
        skew = constraint["maxSkew"].number or 0
        if skew < 1:
            constraint["maxSkew"].invalid("must be greater than zero", skew)
        constraint["topologyKey"].check_set("can not be empty")
        if action not in _ACTIONS:
            constraint["whenUnsatisfiable"].not_supported(_ACTIONS, action)
        if (key, action) in identities[index + 1 :]:
            constraint["{topologyKey, whenUnsatisfiable}"].duplicate(f"{{{key}, {action}}}")
        _check_domains(constraint["minDomains"], action)
        for policy in (constraint["nodeAffinityPolicy"], constraint["nodeTaintsPolicy"]):
            if policy.value is not None:
                policy.check_supported(_INCLUSIONS)
        _check_label_keys(constraint, "matchLabelKeys")
        constraint["labelSelector"].check_label_selector()


def _check_domains(least: CheckedField, action: str) -> None:
    if least.number is not None and least.number < 1:
        least.invalid("must be greater than zero")
    if least.number is not None and action != _DO_NOT_SCHEDULE:
        least.invalid(f"can only use minDomains if whenUnsatisfiable={_DO_NOT_SCHEDULE}, not {action}")


def _check_gates(spec: CheckedField) -> None:
    for gate in spec["readinessGates"].objects():
        gate["conditionType"].check_qualified_name()
    seen = set[str]()
    for gate in spec["schedulingGates"].objects():
        name = CheckedField(gate["name"].text, gate.path, gate.errors)
        name.check_qualified_name()
        name.check_unique(seen)


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

_STANDARD: Final = (
    _CONTAINER
    | _COUNTED
    | {"requests.storage", "storage"}
    | {f"{kind}.{name}" for kind in ("limits", "requests") for name in _CONTAINER}
)


def check_amounts(amounts: CheckedField) -> None:
    """Check amounts of resources, such as a node's capacity."""
    for name in sorted(amounts.fields):
        _check_amount(name, amounts[name])


def _check_requirements(resources: CheckedField, *, of_pod: bool) -> None:
    limits, requests = resources["limits"], resources["requests"]
    for name, value in sorted(limits.fields.items()):
        limit = limits.at(name, value)
        _check_named(name, limit, of_pod=of_pod)
        _check_whole_pages(name, limit)
    for name, value in sorted(requests.fields.items()):
        request = requests.at(name, value)
        _check_named(name, request, of_pod=of_pod)
        _check_within_limit(name, value, requests, limits)
        _check_whole_pages(name, request)
    named = {*limits.fields, *requests.fields}
    if not named & {CPU, MEMORY} and any(name.startswith(_HUGE) for name in named):
        resources.forbidden("HugePages require cpu or memory")


def _check_named(name: str, resource: CheckedField, *, of_pod: bool) -> None:
    rules = names.check_qualified_name(name)
    resource.broken(rules, name)
    is_huge, has_domain = name.startswith(_HUGE), "/" in name
    if not rules and not has_domain and name not in _STANDARD and not name.removeprefix(_QUOTA).startswith(_HUGE):
        rules = ["must be a standard resource type or fully qualified"]
        resource.broken(rules, name)
    if of_pod:
        if not rules and name not in {CPU, MEMORY} and not is_huge:
            resource.not_supported(sorted((CPU, _HUGE, MEMORY)), name)
    elif not has_domain:
        if name not in _CONTAINER and not is_huge:
            resource.invalid("must be a standard resource for containers", name)
    elif _NATIVE not in name and not _is_extended(name):
        resource.invalid("doesn't follow extended resource name standard", name)
    _check_amount(name, resource)


def _is_extended(name: str) -> bool:
    is_foreign = "/" in name and _NATIVE not in name
    return is_foreign and not name.startswith(_QUOTA) and not names.check_qualified_name(f"{_QUOTA}{name}")


def _quantity(value: Any) -> Fraction | None:
    try:
        return parse_quantity(value)
    except QuantityError:  # decoding refuses it
        return None


def _check_amount(name: str, amount: CheckedField) -> None:
    found = _quantity(amount.value)
    if found is None:
        return
    if found < 0:
        amount.invalid("must be greater than or equal to 0", canonical_text(amount.value))
    if (name in _COUNTED or _is_extended(name)) and found.denominator != 1:
        amount.invalid("must be an integer", canonical_text(amount.value))


def _check_within_limit(name: str, value: Any, requests: CheckedField, limits: CheckedField) -> None:
    request, limit = _quantity(value), _quantity(limits.fields.get(name))
    may_overcommit = ("/" not in name or _NATIVE in name) and not name.startswith(_HUGE)
    if limit is None:
        if not may_overcommit:
            limits.required("Limit must be set for non overcommitable resources")
    elif request is not None and (request > limit or (request != limit and not may_overcommit)):
        relation = "less than or equal to" if may_overcommit else "equal to"
        rule = f"must be {relation} {name} limit of {canonical_text(limits.fields[name])}"
        requests.invalid(rule, canonical_text(value))


def _check_whole_pages(name: str, pages: CheckedField) -> None:
    found = _quantity(pages.value) if name.startswith(_HUGE) else None
    size = _quantity(name.removeprefix(_HUGE))
    if found is not None and (size is None or size <= 0 or found % size):
        shown = canonical_text(pages.value)
        pages.invalid(f"{shown} is not positive integer multiple of {name}", shown)
