"""Validation of Karmada's kinds: `Cluster`, `ClusterTaintPolicy`, `PropagationPolicy`, `ClusterPropagationPolicy`.

The rules are those of upstream's webhooks and API schema. Errors name the exact field, even where upstream names only
the part of the object that contains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from moorage.apiserver.rules.feature_gates import CONFIGURATION
from moorage.apiserver.rules.validation.core import (
    validate_duration,
    validate_label_selector,
    validate_taints,
    validate_tolerations,
)
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from moorage.decide.taints.desired.cluster_taint_policy import ADD_HOLD, REMOVE_HOLD
from moorage.decide.taints.dialects.karmada import KARMADA
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.resources.cluster import Cluster
from moorage_schemas.resources.policies import (
    ClusterAffinity,
    ClusterPlacement,
    ClusterTaintPolicy,
    MatchCondition,
    NamedClusterAffinity,
    PropagationSpec,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
)
from moorage_schemas.resources.workload_kinds import PROPAGATED
from moorage_schemas.taint import TaintEffect

EVICT_WITHOUT_REPLACEMENT: Final = "moorage.io/evict-without-replacement"
"""Annotation of a propagation policy. `true` lets work leave a cluster even if no other cluster takes it."""

_LONGEST_CLUSTER_NAME: Final = 48  # upstream derives a namespace's name from it
_LONGEST_AFFINITY_NAME: Final = 32
_FIELDS: Final = ("provider", "region", "zone")
_SPREAD_FIELDS: Final = ("cluster", "region", "zone", "provider")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = tuple(status.value for status in ConditionStatus)
_SYNC_MODES: Final = ("Pull", "Push")
_PURGE_MODES: Final = ("Directly", "Gracefully")
_APPLICATION_PURGE_MODES: Final = ("Directly", "Gracefully", "Never", "Immediately", "Graciously")
_GRACEFUL: Final = frozenset({"", "Gracefully", "Graciously"})


def validate_cluster(cluster: Cluster) -> list[FieldError]:
    """Validate a member cluster: its name, sync mode, location and taints."""
    name, spec = cluster.metadata.name, cluster.spec
    errors: list[FieldError] = []
    if len(name) > _LONGEST_CLUSTER_NAME:
        errors.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_CLUSTER_NAME} characters"))
    else:
        errors.extend(invalid("metadata.name", name, message) for message in names.check_dns_label(name))
    if spec.sync_mode and spec.sync_mode not in _SYNC_MODES:
        errors.append(not_supported("spec.syncMode", spec.sync_mode, _SYNC_MODES))
    for field, value in (("provider", spec.provider), ("region", spec.region), ("zone", spec.zone)):
        errors.extend(invalid(f"spec.{field}", value, message) for message in names.check_label_value(value))
    for i, zone in enumerate(spec.zones or ()):
        errors.extend(invalid(f"spec.zones[{i}]", zone, message) for message in names.check_label_value(zone))
    if spec.zone and spec.zones:
        errors.append(invalid("spec.zones", spec.zones, "zone and zones cannot co-exist"))
    return errors + validate_taints(spec.taints or [], "spec.taints", KARMADA)


def validate_cluster_taint_policy(policy: ClusterTaintPolicy, *, allow_no_execute: bool) -> list[FieldError]:
    """Validate a ClusterTaintPolicy.

    Args:
        policy: the policy.
        allow_no_execute: whether a policy may contain taints that evict.
    """
    spec = policy.spec
    errors = _holds(policy.metadata.annotations or {})
    errors += validate_affinity(spec.target_clusters, "spec.targetClusters")
    for field, conditions in (
        ("addOnConditions", spec.add_on_conditions),
        ("removeOnConditions", spec.remove_on_conditions),
    ):
        for i, condition in enumerate(conditions or ()):
            errors += _match_condition(condition, f"spec.{field}[{i}]")
    if not spec.taints:
        errors.append(required("spec.taints", "must have at least one item"))
    errors += validate_taints(spec.taints, "spec.taints", KARMADA)
    if not allow_no_execute:
        errors += [
            forbidden(
                f"spec.taints[{i}].effect",
                "a policy may not contain a taint with effect NoExecute unless spec.allowNoExecuteTaintPolicy of "
                f"{CONFIGURATION} is true",
            )
            for i, taint in enumerate(spec.taints)
            if taint.effect == TaintEffect.NO_EXECUTE
        ]
    return errors


def _holds(annotations: Mapping[str, str]) -> list[FieldError]:
    return [
        error
        for name in (ADD_HOLD, REMOVE_HOLD)
        if name in annotations
        for error in validate_duration(annotations[name], f"metadata.annotations[{name}]")
    ]


def _match_condition(condition: MatchCondition, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not condition.condition_type:
        errors.append(required(f"{at}.conditionType"))
    if condition.operator not in _OPERATORS:
        errors.append(not_supported(f"{at}.operator", condition.operator, _OPERATORS))
    if not condition.status_values:
        errors.append(required(f"{at}.statusValues", "must have at least one item"))
    for i, status in enumerate(condition.status_values):
        if status not in _STATUSES:
            errors.append(not_supported(f"{at}.statusValues[{i}]", status, _STATUSES))
    return errors


def validate_affinity(affinity: ClusterAffinity | None, path: str) -> list[FieldError]:
    """Validate a ClusterAffinity: a label selector, and requirements on provider, region and zone."""
    if affinity is None:
        return []
    errors = validate_label_selector(affinity.label_selector, f"{path}.labelSelector")
    fields = affinity.field_selector
    for i, wish in enumerate(fields.match_expressions or () if fields is not None else ()):
        at = f"{path}.fieldSelector.matchExpressions[{i}]"
        if wish.key not in _FIELDS:
            errors.append(not_supported(f"{at}.key", wish.key, _FIELDS))
        if wish.operator not in _OPERATORS:
            errors.append(not_supported(f"{at}.operator", wish.operator, _OPERATORS))
    return errors


def validate_propagation(
    spec: PropagationSpec, annotations: Mapping[str, str], served: Mapping[str, Sequence[str]]
) -> list[FieldError]:
    """Validate the spec of a propagation policy, of a namespace or of the cluster."""
    errors: list[FieldError] = []
    word = annotations.get(EVICT_WITHOUT_REPLACEMENT, "true")
    if word not in {"true", "false"}:
        errors.append(not_supported(f"metadata.annotations[{EVICT_WITHOUT_REPLACEMENT}]", word, ("true", "false")))
    if not spec.resource_selectors:
        errors.append(required("spec.resourceSelectors", "must have at least one item"))
    for i, selector in enumerate(spec.resource_selectors):
        at = f"spec.resourceSelectors[{i}]"
        errors += _selected_kind(selector.api_version, selector.kind, at, served)
        errors += validate_label_selector(selector.label_selector, f"{at}.labelSelector")
        if spec.preemption == "Always" and not selector.name:
            rule = "must not be empty if preemption is Always, because resources may be taken over unexpectedly"
            errors.append(invalid(f"{at}.name", selector.name, rule))
    if spec.preemption not in {"Always", "Never"}:
        errors.append(not_supported("spec.preemption", spec.preemption, ("Always", "Never")))
    errors += _placement(spec.placement, "spec.placement")
    errors += _failover(spec, "spec.failover")
    return errors + _suspension(spec.suspension or {}, "spec.suspension")


def _selected_kind(api_version: str, kind: str, at: str, served: Mapping[str, Sequence[str]]) -> list[FieldError]:
    errors = [] if api_version else [required(f"{at}.apiVersion")]
    if not kind:
        errors.append(required(f"{at}.kind"))
    if errors:
        return errors
    if kind not in PROPAGATED:
        return [not_supported(f"{at}.kind", kind, PROPAGATED)]
    versions = served.get(kind, ())
    return [] if api_version in versions else [not_supported(f"{at}.apiVersion", api_version, versions)]


def _placement(placement: ClusterPlacement, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if placement.cluster_affinity is not None and placement.cluster_affinities is not None:
        errors.append(forbidden(f"{path}.clusterAffinities", "clusterAffinities cannot co-exist with clusterAffinity"))
    errors += validate_affinity(placement.cluster_affinity, f"{path}.clusterAffinity")
    errors += _affinities(placement.cluster_affinities or (), f"{path}.clusterAffinities")
    errors += validate_tolerations(placement.cluster_tolerations or [], f"{path}.clusterTolerations", KARMADA)
    errors += _spread(placement.spread_constraints or (), f"{path}.spreadConstraints")
    return errors + _replicas(placement.replica_scheduling, f"{path}.replicaScheduling")


def _affinities(affinities: Sequence[NamedClusterAffinity], path: str) -> Iterable[FieldError]:
    seen: set[str] = set()
    for i, affinity in enumerate(affinities):
        name, at = affinity.affinity_name, f"{path}[{i}]"
        for message in names.check_qualified_name(name):
            yield invalid(f"{at}.affinityName", name, message)
        if len(name) > _LONGEST_AFFINITY_NAME:
            yield invalid(f"{at}.affinityName", name, f"must be no more than {_LONGEST_AFFINITY_NAME} characters")
        if name in seen:
            yield duplicate(f"{at}.affinityName", name, "each affinity term in a policy must have a unique name")
        seen.add(name)
        yield from validate_affinity(affinity, at)


def _spread(constraints: Sequence[SpreadConstraint], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    fields: set[str] = set()
    for i, constraint in enumerate(constraints):
        at, field = f"{path}[{i}]", constraint.spread_by_field
        if field and constraint.spread_by_label:
            rule = "spreadByLabel should not co-exist with spreadByField"
            errors.append(invalid(f"{at}.spreadByLabel", constraint.spread_by_label, rule))
        elif constraint.spread_by_label:
            rule = f"spreading by label is not supported, use spreadByField: {', '.join(_SPREAD_FIELDS)}"
            errors.append(invalid(f"{at}.spreadByLabel", constraint.spread_by_label, rule))
        if field and field not in _SPREAD_FIELDS:
            errors.append(not_supported(f"{at}.spreadByField", field, _SPREAD_FIELDS))
        for name, groups in (("minGroups", constraint.min_groups), ("maxGroups", constraint.max_groups)):
            if groups < 0:
                errors.append(invalid(f"{at}.{name}", groups, "must be greater than or equal to 0"))
        if 0 < constraint.max_groups < constraint.min_groups:
            rule = f"maxGroups lower than minGroups ({constraint.min_groups}) is not allowed"
            errors.append(invalid(f"{at}.maxGroups", constraint.max_groups, rule))
        if field and field in fields:
            rule = f"multiple {field} spread constraints are not allowed"
            errors.append(duplicate(f"{at}.spreadByField", field, rule))
        # A constraint without field and label spreads by cluster, which is the default that admission sets.
        fields.add(field or ("" if constraint.spread_by_label else "cluster"))
    if fields - {""} and "cluster" not in fields:
        rule = "a constraint with spreadByField 'cluster' is needed when another field is spread by"
        errors.append(required(path, rule))
    return errors


def _replicas(strategy: ReplicaSchedulingStrategy | None, path: str) -> list[FieldError]:
    if strategy is None:
        return []
    errors: list[FieldError] = []
    scheduling, preference = strategy.replica_scheduling_type, strategy.replica_division_preference
    if scheduling not in {"Duplicated", "Divided"}:
        errors.append(not_supported(f"{path}.replicaSchedulingType", scheduling, ("Duplicated", "Divided")))
    if preference and preference not in {"Aggregated", "Weighted"}:
        errors.append(not_supported(f"{path}.replicaDivisionPreference", preference, ("Aggregated", "Weighted")))
    weights = strategy.weight_preference
    if weights is None:
        return errors
    at = f"{path}.weightPreference"
    if weights.dynamic_weight not in {"", "AvailableReplicas"}:
        errors.append(not_supported(f"{at}.dynamicWeight", weights.dynamic_weight, ("AvailableReplicas",)))
    for i, weight in enumerate(weights.static_weight_list or ()):
        errors += validate_affinity(weight.target_cluster, f"{at}.staticWeightList[{i}].targetCluster")
        if weight.weight < 1:
            rule = "must be greater than or equal to 1"
            errors.append(invalid(f"{at}.staticWeightList[{i}].weight", weight.weight, rule))
    return errors


def _failover(spec: PropagationSpec, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    cluster = spec.failover.cluster if spec.failover is not None else None
    if cluster is not None:
        grace = {} if cluster.grace_period_seconds is None else {"gracePeriodSeconds": cluster.grace_period_seconds}
        errors += _purge({"purgeMode": cluster.purge_mode, **grace}, f"{path}.cluster", _PURGE_MODES)
    # Moorage does not act on the failure of single applications, but these fields are validated nevertheless.
    application = (spec.failover.model_extra or {}).get("application") if spec.failover is not None else None
    if isinstance(application, Mapping):
        errors += _purge(application, f"{path}.application", _APPLICATION_PURGE_MODES)
    return errors


def _purge(behavior: Mapping[str, Any], path: str, modes: Sequence[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    mode, grace = behavior.get("purgeMode") or "", behavior.get("gracePeriodSeconds")
    if mode and mode not in modes:
        errors.append(not_supported(f"{path}.purgeMode", mode, modes))
    if grace is None:
        return errors
    if isinstance(grace, bool) or not isinstance(grace, int) or grace <= 0:
        errors.append(invalid(f"{path}.gracePeriodSeconds", grace, "must be greater than 0"))
    if mode in modes and mode not in _GRACEFUL:
        errors.append(invalid(f"{path}.gracePeriodSeconds", grace, "only takes effect when purgeMode is gracefully"))
    return errors


def _suspension(suspension: Mapping[str, object], path: str) -> list[FieldError]:
    clusters = suspension.get("dispatchingOnClusters")
    named = clusters.get("clusterNames") if isinstance(clusters, Mapping) else None
    if suspension.get("dispatching") is True and named:
        rule = "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames"
        return [forbidden(f"{path}.dispatchingOnClusters.clusterNames", rule)]
    return []
