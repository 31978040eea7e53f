"""Validation of Open Cluster Management's kinds and of leases.

The rules are those of upstream's API schema and webhooks. Some objects that upstream would accept and then mark as
misconfigured (because of label or claim selectors or prioritizers) are refused before they are written, with the wrong
field. The two kinds of toleration that make a placement misconfigured (docs/domain.md, "Placement conditions") and CEL
expressions that do not compile are accepted with a warning. A set that selects clusters by labels and has no selector
contains no clusters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from moorage.apiserver.rules.validation.core import (
    validate_label_selector,
    validate_name,
    validate_taints,
    validate_tolerations,
)
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.cel import ExpressionError, compiled
from moorage.decide.kubernetes.field_errors import FieldError, duplicate, invalid, not_supported, required
from moorage.decide.kubernetes.quantities import QuantityError, parse_quantity
from moorage.decide.taints.desired.addons import LABEL_PREFIX
from moorage.decide.taints.dialects.ocm import OCM
from moorage_schemas.resources.managed import (
    EXCLUSIVE,
    LABEL_SELECTOR,
    LEGACY,
    AddOnPlacementScore,
    GroupClusterSelector,
    GroupStrategy,
    Lease,
    ManagedCluster,
    ManagedClusterAddOn,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    Placement,
    PrioritizerConfig,
    PrioritizerPolicy,
    RequiredClusterSelector,
)
from moorage_schemas.resources.meta import LabelSelector, Resource
from moorage_schemas.taint import Toleration, TolerationOperator

_BUILT_IN: Final = "BuiltIn"
_ADD_ON: Final = "AddOn"
_MODES: Final = ("Additive", "Exact")
_HEAVIEST: Final = 10  # the largest weight, in both directions
_BEST: Final = 100  # the largest score, in both directions
_LONGEST_CLAIM: Final = 1024
_INT32: Final = 2**31 - 1
_GROUP_NAME: Final = re.compile(r"[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]")
_GROUP_LENGTH: Final = re.compile(r"(100|[1-9][0-9]?)%|[1-9][0-9]*")
_LONGEST_ADD_ON: Final = names.MAX_LABEL - len(LABEL_PREFIX.partition("/")[2])
_HTTPS: Final = re.compile(r"https://[^\s/?#]+([/?#]\S*)?")
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def validate_managed_cluster(cluster: ManagedCluster) -> list[FieldError]:
    """Validate a managed cluster: name (its namespace has the same), taints, lease, addresses, quantities, claims."""
    errors = _short_name(cluster, "the cluster's namespace has the same name")
    errors += validate_taints(cluster.spec.taints or [], "spec.taints", OCM)
    lease = cluster.spec.lease_duration_seconds
    if lease is not None and lease < 0:
        errors.append(invalid("spec.leaseDurationSeconds", lease, _NOT_NEGATIVE))
    configs = (cluster.spec.model_extra or {}).get("managedClusterClientConfigs")
    for i, config in enumerate(configs if isinstance(configs, list) else ()):
        url = config.get("url") if isinstance(config, Mapping) else None
        if not isinstance(url, str) or not _HTTPS.fullmatch(url):
            errors.append(invalid(f"spec.managedClusterClientConfigs[{i}].url", url, "must be a valid HTTPS address"))
    for field, amounts in (("capacity", cluster.status.capacity), ("allocatable", cluster.status.allocatable)):
        for name, amount in (amounts or {}).items():
            try:
                parse_quantity(amount)
            except QuantityError as error:
                errors.append(invalid(f"status.{field}[{name}]", amount, error.rule))
    for i, claim in enumerate(cluster.status.cluster_claims or ()):
        at = f"status.clusterClaims[{i}]"
        if not claim.name:
            errors.append(required(f"{at}.name"))
        if not 0 < len(claim.value) <= _LONGEST_CLAIM:
            errors.append(invalid(f"{at}.value", claim.value, f"must have 1 to {_LONGEST_CLAIM} characters"))
    return errors


def validate_cluster_set(group: ManagedClusterSet) -> list[FieldError]:
    """Validate a set: its selector type must exist in its API version."""
    selector = group.spec.cluster_selector
    older = () if group.api_version.endswith("/v1beta2") else (LEGACY,)
    known = (EXCLUSIVE, LABEL_SELECTOR, *older)
    path, kind = "spec.clusterSelector", selector.selector_type
    if kind and kind not in known:
        return [not_supported(f"{path}.selectorType", kind, known)]
    errors = validate_label_selector(selector.label_selector, f"{path}.labelSelector")
    if kind != LABEL_SELECTOR:
        errors += _label_name(group, "clusters name the set in a label")
    return errors


def validate_set_binding(binding: ManagedClusterSetBinding) -> list[FieldError]:
    """Validate the binding of a set to a namespace. It must have the name of the set."""
    name = binding.spec.cluster_set
    if not name:
        return [required("spec.clusterSet", "must name the ManagedClusterSet")]
    if name != binding.metadata.name:
        rule = f"must be the name of the ManagedClusterSetBinding, {binding.metadata.name}"
        return [invalid("spec.clusterSet", name, rule)]
    return []


def validate_placement(placement: Placement, prioritizers: Collection[str]) -> list[FieldError]:
    """Validate a placement: sets, number of clusters, predicates, prioritizers, tolerations, groups."""
    spec = placement.spec
    errors = _label_name(placement, "its PlacementDecisions have it in a label")
    for i, name in enumerate(spec.cluster_sets or ()):
        errors += validate_name(name, f"spec.clusterSets[{i}]")
    number = spec.number_of_clusters
    if number is not None and not 0 <= number <= _INT32:
        errors.append(invalid("spec.numberOfClusters", number, f"must be from 0 to {_INT32}"))
    for i, predicate in enumerate(spec.predicates or ()):
        selector = predicate.required_cluster_selector
        errors += _selector(selector, f"spec.predicates[{i}].requiredClusterSelector")
    errors += _policy(spec.prioritizer_policy, "spec.prioritizerPolicy", prioritizers)
    errors += validate_tolerations(
        [_as_it_could_be(one) for one in spec.tolerations or ()], "spec.tolerations", OCM, comparison=False
    )
    return errors + _groups(spec.decision_strategy.group_strategy, "spec.decisionStrategy.groupStrategy")


def misconfigured_tolerations(tolerations: Sequence[Toleration]) -> list[FieldError]:
    """Tolerations that make a placement `Misconfigured`: an empty key without `Exists`, or `Exists` with a value.

    As in upstream's API, such a placement is accepted and selects nothing.
    """
    at = "spec.tolerations"
    found = validate_tolerations(tolerations, at, OCM, comparison=False)
    formal = validate_tolerations([_as_it_could_be(one) for one in tolerations], at, OCM, comparison=False)
    return [error for error in found if error not in formal]


def misconfigured_expressions(spec: Mapping[str, Any]) -> list[FieldError]:
    """The CEL expressions of a placement's `spec` that do not compile. They also make the placement `Misconfigured`."""
    errors: list[FieldError] = []
    for path, selector in _selectors(spec):
        said = (selector.get("celSelector") or {}).get("celExpressions")
        for i, text in enumerate(said or ()):
            try:
                compiled(text)
            except ExpressionError as error:
                rule = f"must be a CEL expression: {error}"
                errors.append(invalid(f"{path}.celSelector.celExpressions[{i}]", text, rule))
    return errors


def _selectors(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All selectors in a placement's `spec`, with their paths."""
    for i, predicate in enumerate(spec.get("predicates") or ()):
        yield f"spec.predicates[{i}].requiredClusterSelector", predicate.get("requiredClusterSelector") or {}
    strategy = (spec.get("decisionStrategy") or {}).get("groupStrategy") or {}
    for i, group in enumerate(strategy.get("decisionGroups") or ()):
        path = f"spec.decisionStrategy.groupStrategy.decisionGroups[{i}].groupClusterSelector"
        yield path, group.get("groupClusterSelector") or {}


def _as_it_could_be(toleration: Toleration) -> Toleration:
    """The toleration without the parts that make a placement misconfigured, so that its other fields are validated."""
    exists = TolerationOperator.EXISTS.value
    if (toleration.key or toleration.operator == exists) and not (toleration.operator == exists and toleration.value):
        return toleration
    return toleration.model_copy(update={"operator": exists, "value": ""})


def _selector(selector: RequiredClusterSelector | GroupClusterSelector, path: str) -> list[FieldError]:
    errors = validate_label_selector(selector.label_selector, f"{path}.labelSelector")
    if selector.claim_selector is not None:
        # Upstream validates claims with the rules of labels: keys, operators and values alike.
        claims = LabelSelector(match_expressions=selector.claim_selector.match_expressions)
        errors += validate_label_selector(claims, f"{path}.claimSelector")
    return errors


def _policy(policy: PrioritizerPolicy, path: str, known: Collection[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    if policy.mode and policy.mode not in _MODES:
        errors.append(not_supported(f"{path}.mode", policy.mode, _MODES))
    for i, config in enumerate(policy.configurations or ()):
        errors += _prioritizer(config, f"{path}.configurations[{i}]", known)
    return errors


def _prioritizer(config: PrioritizerConfig, at: str, known: Collection[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    if not -_HEAVIEST <= config.weight <= _HEAVIEST:
        errors.append(invalid(f"{at}.weight", config.weight, f"must be from -{_HEAVIEST} to {_HEAVIEST}"))
    coordinate = config.score_coordinate
    if coordinate is None:
        if not config.name:
            return [*errors, required(f"{at}.scoreCoordinate")]
        return errors + _built_in(config.name, f"{at}.name", known)
    path = f"{at}.scoreCoordinate"
    if coordinate.type not in {"", _BUILT_IN, _ADD_ON}:
        return [*errors, not_supported(f"{path}.type", coordinate.type, (_BUILT_IN, _ADD_ON))]
    if coordinate.type != _ADD_ON:
        return errors + _built_in(coordinate.built_in, f"{path}.builtIn", known)
    add_on = coordinate.add_on
    if add_on is None:
        return [*errors, required(f"{path}.addOn", f"must be set when type is {_ADD_ON}")]
    if not add_on.resource_name:
        errors.append(required(f"{path}.addOn.resourceName"))
    if not add_on.score_name:
        errors.append(required(f"{path}.addOn.scoreName"))
    return errors


def _built_in(name: str, path: str, known: Collection[str]) -> list[FieldError]:
    if not name:
        return [required(path, f"must be set when type is {_BUILT_IN}")]
    return [] if name in known else [not_supported(path, name, known)]


def _groups(strategy: GroupStrategy, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for i, group in enumerate(strategy.decision_groups or ()):
        at = f"{path}.decisionGroups[{i}]"
        if not group.group_name:
            errors.append(required(f"{at}.groupName"))
        elif not _GROUP_NAME.fullmatch(group.group_name):
            rule = "must have 2 to 63 characters: letters, digits, '-', '_', '.', a letter or digit first and last"
            errors.append(invalid(f"{at}.groupName", group.group_name, rule))
        errors += _selector(group.group_cluster_selector, f"{at}.groupClusterSelector")
    length = strategy.clusters_per_decision_group
    if length is not None and not _GROUP_LENGTH.fullmatch(str(length)):
        rule = "must be a number from 1, or a percentage from 1% to 100%"
        errors.append(invalid(f"{path}.clustersPerDecisionGroup", length, rule))
    return errors


def validate_add_on_score(score: AddOnPlacementScore) -> list[FieldError]:
    """Validate the scores of a cluster: each name once, each value within bounds."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, item in enumerate(score.status.scores or ()):
        at = f"status.scores[{i}]"
        if not item.name:
            errors.append(required(f"{at}.name"))
        elif item.name in seen:
            errors.append(duplicate(f"{at}.name", item.name))
        seen.add(item.name)
        if not -_BEST <= item.value <= _BEST:
            errors.append(invalid(f"{at}.value", item.value, f"must be from -{_BEST} to {_BEST}"))
    return errors


def validate_add_on(add_on: ManagedClusterAddOn) -> list[FieldError]:
    """Validate an add-on: its name, and the namespace in which its agent is installed, if there is one."""
    errors = _short_name(add_on, "a label of its cluster contains it")
    name = add_on.metadata.name
    if not errors and len(name) > _LONGEST_ADD_ON:
        rule = f"must be no more than {_LONGEST_ADD_ON} characters, because a label of its cluster contains it"
        errors.append(invalid("metadata.name", name, rule))
    spec = (add_on.model_extra or {}).get("spec")
    namespace = spec.get("installNamespace") if isinstance(spec, Mapping) else None
    if namespace:
        errors += validate_name(str(namespace), "spec.installNamespace", dns_label=True)
    return errors


def validate_lease(lease: Lease) -> list[FieldError]:
    """Validate a lease: its duration."""
    seconds = lease.spec.lease_duration_seconds
    if seconds is None or seconds > 0:
        return []
    return [invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")]


def _short_name(resource: Resource, why: str) -> list[FieldError]:
    """Validate that a name is a DNS label."""
    name = resource.metadata.name
    if names.check_dns_subdomain(name):  # the validation of metadata reports this rule
        return []
    return [invalid("metadata.name", name, f"{rule} ({why})") for rule in names.check_dns_label(name)]


def _label_name(resource: Resource, why: str) -> list[FieldError]:
    """Validate that a name fits into the value of a label."""
    name = resource.metadata.name
    if len(name) <= names.MAX_LABEL:
        return []
    return [invalid("metadata.name", name, f"must be no more than {names.MAX_LABEL} characters, because {why}")]
