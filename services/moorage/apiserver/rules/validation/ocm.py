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

from moorage.apiserver.rules.validation.core import validate_name, validate_taints, validate_tolerations
from moorage.apiserver.rules.validation.fields import CheckedField, read
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.cel.expressions import ExpressionError, compiled
from moorage.decide.kubernetes.field_errors import FieldError, invalid
from moorage.decide.kubernetes.quantities import QuantityError, parse_quantity
from moorage.decide.taints.desired.addons import LABEL_PREFIX
from moorage.decide.taints.dialects.ocm import OCM
from moorage_schemas.resources.managed import (
    EXCLUSIVE,
    LABEL_SELECTOR,
    LEGACY,
    AddOnPlacementScore,
    Lease,
    ManagedCluster,
    ManagedClusterAddOn,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    Placement,
)
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


def validate_managed_cluster(cluster: ManagedCluster) -> list[FieldError]:
    """Validate a managed cluster: name (its namespace has the same), taints, lease, addresses, quantities, claims."""
    found = read(cluster)
    spec, status = found["spec"], found["status"]
    _check_short_name(found["metadata"]["name"], "the cluster's namespace has the same name")
    found.check(validate_taints(cluster.spec.taints or [], "spec.taints", OCM))
    spec["leaseDurationSeconds"].check_not_negative()
    for url in (config["url"] for config in spec["managedClusterClientConfigs"].each()):
        if not _HTTPS.fullmatch(url.text):
            url.invalid("must be a valid HTTPS address")
    for amounts in (status["capacity"], status["allocatable"]):
        for name, amount in amounts.fields.items():
            try:
                parse_quantity(amount)
            except QuantityError as error:
                amounts.at(name, amount).invalid(error.rule)
    for claim in status["clusterClaims"].each():
        claim["name"].check_set()
        if not 0 < len(claim["value"].text) <= _LONGEST_CLAIM:
            claim["value"].invalid(f"must have 1 to {_LONGEST_CLAIM} characters")
    return found.errors


def validate_cluster_set(group: ManagedClusterSet) -> list[FieldError]:
    """Validate a set: its selector type must exist in its API version."""
    found = read(group)
    selector = found["spec"]["clusterSelector"]
    selector["selectorType"].check_known(
        (EXCLUSIVE, LABEL_SELECTOR, *(() if group.api_version.endswith("/v1beta2") else (LEGACY,)))
    )
    if not found.errors:
        selector["labelSelector"].check_label_selector()
        if selector["selectorType"].value != LABEL_SELECTOR:
            _check_label_name(found["metadata"]["name"], "clusters name the set in a label")
    return found.errors


def validate_set_binding(binding: ManagedClusterSetBinding) -> list[FieldError]:
    """Validate the binding of a set to a namespace. It must have the name of the set."""
    name, own = read(binding)["spec"]["clusterSet"], binding.metadata.name
    if name.check_set("must name the ManagedClusterSet") and name.value != own:
        name.invalid(f"must be the name of the ManagedClusterSetBinding, {own}")
    return name.errors


def validate_placement(placement: Placement, prioritizers: Collection[str]) -> list[FieldError]:
    """Validate a placement: sets, number of clusters, predicates, prioritizers, tolerations, groups."""
    found = read(placement)
    spec = found["spec"]
    policy, strategy = spec["prioritizerPolicy"], spec["decisionStrategy"]["groupStrategy"]
    _check_label_name(found["metadata"]["name"], "its PlacementDecisions have it in a label")
    for name in spec["clusterSets"].each():
        found.check(validate_name(name.value, name.path))
    spec["numberOfClusters"].check_within(0, _INT32, "must be from {} to {}")
    for predicate in spec["predicates"].each():
        _check_selector(predicate["requiredClusterSelector"])
    policy["mode"].check_known(_MODES)
    for config in policy["configurations"].each():
        _check_prioritizer(config, prioritizers)
    tolerations = [_as_it_could_be(one) for one in placement.spec.tolerations or ()]
    found.check(validate_tolerations(tolerations, "spec.tolerations", OCM, comparison=False))
    for group in strategy["decisionGroups"].each():
        name = group["groupName"]
        if name.check_set() and not _GROUP_NAME.fullmatch(name.text):
            name.invalid(
                "must have 2 to 63 characters: letters, digits, '-', '_', '.', a letter or digit first and last"
            )
        _check_selector(group["groupClusterSelector"])
    length = strategy["clustersPerDecisionGroup"]
    if isinstance(length.value, str) and not _GROUP_LENGTH.fullmatch(length.value):
        length.invalid("must be a number from 1, or a percentage from 1% to 100%")
    return found.errors


def misconfigured_tolerations(tolerations: Sequence[Toleration]) -> list[FieldError]:
    """Return tolerations that make a placement `Misconfigured`: no key and no `Exists`, or `Exists` with a value.

    As in upstream's API, such a placement is accepted and selects nothing.
    """
    at = "spec.tolerations"
    found = validate_tolerations(tolerations, at, OCM, comparison=False)
    formal = validate_tolerations([_as_it_could_be(one) for one in tolerations], at, OCM, comparison=False)
    return [error for error in found if error not in formal]


def misconfigured_expressions(spec: Mapping[str, Any]) -> list[FieldError]:
    """Return the CEL expressions in a placement's `spec` that do not compile. They also make it `Misconfigured`."""
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
    """Yield all selectors in a placement's `spec`, with their paths."""
    for i, predicate in enumerate(spec.get("predicates") or ()):
        yield f"spec.predicates[{i}].requiredClusterSelector", predicate.get("requiredClusterSelector") or {}
    strategy = (spec.get("decisionStrategy") or {}).get("groupStrategy") or {}
    for i, group in enumerate(strategy.get("decisionGroups") or ()):
        path = f"spec.decisionStrategy.groupStrategy.decisionGroups[{i}].groupClusterSelector"
        yield path, group.get("groupClusterSelector") or {}


def _as_it_could_be(toleration: Toleration) -> Toleration:
    """Return the toleration without the parts that make a placement misconfigured, to validate its other fields."""
    exists = TolerationOperator.EXISTS.value
    if (toleration.key or toleration.operator == exists) and not (toleration.operator == exists and toleration.value):
        return toleration
    return toleration.model_copy(update={"operator": exists, "value": ""})


def _check_selector(selector: CheckedField) -> None:
    selector["labelSelector"].check_label_selector()
    # Upstream validates claims with the rules of labels: keys, operators and values alike.
    selector["claimSelector"].check_label_selector()


def _check_prioritizer(config: CheckedField, known: Collection[str]) -> None:
    config["weight"].check_within(-_HEAVIEST, _HEAVIEST, "must be from {} to {}")
    name, coordinate = config["name"], config["scoreCoordinate"]
    if not coordinate.is_object:
        if not name.value:
            coordinate.required()
        else:
            _check_built_in(name, known)
        return
    add_on, kind = coordinate["addOn"], coordinate["type"]
    if kind.value not in {"", _BUILT_IN, _ADD_ON}:
        kind.not_supported((_BUILT_IN, _ADD_ON))
    elif kind.value != _ADD_ON:
        _check_built_in(coordinate["builtIn"], known)
    elif not add_on.is_object:
        add_on.required(f"must be set when type is {_ADD_ON}")
    else:
        add_on["resourceName"].check_set()
        add_on["scoreName"].check_set()


def _check_built_in(name: CheckedField, known: Collection[str]) -> None:
    if name.check_set(f"must be set when type is {_BUILT_IN}"):
        name.check_supported(known)


def validate_add_on_score(score: AddOnPlacementScore) -> list[FieldError]:
    """Validate the scores of a cluster: each name once, each value within bounds."""
    scores = read(score)["status"]["scores"]
    seen: set[str] = set()
    for item in scores.each():
        if item["name"].check_set():
            item["name"].check_unique(seen)
        item["value"].check_within(-_BEST, _BEST, "must be from {} to {}")
    return scores.errors


def validate_add_on(add_on: ManagedClusterAddOn) -> list[FieldError]:
    """Validate an add-on: its name, and the namespace in which its agent is installed, if there is one."""
    found = read(add_on)
    name, namespace = found["metadata"]["name"], found["spec"]["installNamespace"]
    _check_short_name(name, "a label of its cluster contains it")
    if not found.errors and len(name.text) > _LONGEST_ADD_ON:
        name.invalid(f"must be no more than {_LONGEST_ADD_ON} characters, because a label of its cluster contains it")
    if namespace.value:
        found.check(validate_name(str(namespace.value), namespace.path, dns_label=True))
    return found.errors


def validate_lease(lease: Lease) -> list[FieldError]:
    """Validate the duration of a lease."""
    seconds = lease.spec.lease_duration_seconds
    if seconds is None or seconds > 0:
        return []
    return [invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")]


def _check_short_name(name: CheckedField, why: str) -> None:
    """Check that a name is a DNS label."""
    if not names.check_dns_subdomain(name.text):  # the validation of metadata reports this rule
        name.broken(f"{rule} ({why})" for rule in names.check_dns_label(name.text))


def _check_label_name(name: CheckedField, why: str) -> None:
    """Check that a name fits into the value of a label."""
    if len(name.text) > names.MAX_LABEL:
        name.invalid(f"must be no more than {names.MAX_LABEL} characters, because {why}")
