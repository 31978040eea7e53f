"""Validation of Karmada's kinds: `Cluster`, `ClusterTaintPolicy`, `PropagationPolicy`, `ClusterPropagationPolicy`.

The rules are those of upstream's webhooks and API schema. Errors name the exact field, even where upstream names only
the part of the object that contains it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moorage.apiserver.rules.feature_gates import CONFIGURATION
from moorage.apiserver.rules.validation.core import validate_duration, validate_taints, validate_tolerations
from moorage.apiserver.rules.validation.fields import CheckedField, read
from moorage.apiserver.rules.validation.match_conditions import check_match_conditions
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import FieldError
from moorage.decide.taints.desired.taint_policies import ADD_HOLD, REMOVE_HOLD
from moorage.decide.taints.dialects.karmada import KARMADA
from moorage_schemas.resources.cluster import Cluster
from moorage_schemas.resources.policies import ClusterPlacement, ClusterTaintPolicy, PropagationSpec
from moorage_schemas.resources.workload_kinds import PROPAGATED
from moorage_schemas.taint import TaintEffect

EVICT_WITHOUT_REPLACEMENT: Final = "moorage.io/evict-without-replacement"
"""Annotation of a propagation policy. `true` lets work leave a cluster even if no other cluster takes it."""

_AT_LEAST_ONE: Final = "must have at least one item"
_LONGEST_CLUSTER_NAME: Final = 48  # upstream derives a namespace's name from it
_LONGEST_AFFINITY_NAME: Final = 32
_FIELDS: Final = ("provider", "region", "zone")
_SPREAD_FIELDS: Final = ("cluster", "region", "zone", "provider")
_OPERATORS: Final = ("In", "NotIn")
_SYNC_MODES: Final = ("Pull", "Push")
_PURGE_MODES: Final = ("Directly", "Gracefully")
_APPLICATION_PURGE_MODES: Final = ("Directly", "Gracefully", "Never", "Immediately", "Graciously")
_GRACEFUL: Final = frozenset({"", "Gracefully", "Graciously"})


def validate_cluster(cluster: Cluster) -> list[FieldError]:
    """Validate a member cluster: its name, sync mode, location and taints."""
    found = read(cluster)
    name, spec = found["metadata"]["name"], found["spec"]
    if len(name.text) > _LONGEST_CLUSTER_NAME:
        name.invalid(f"must be no more than {_LONGEST_CLUSTER_NAME} characters")
    else:
        name.broken(names.check_dns_label(name.text))
    spec["syncMode"].check_known(_SYNC_MODES)
    for place in (spec["provider"], spec["region"], spec["zone"], *spec["zones"].each()):
        place.broken(names.check_label_value(place.text))
    if spec["zone"].value and spec["zones"].items:
        spec["zones"].invalid("zone and zones cannot co-exist")
    found.check(validate_taints(cluster.spec.taints or [], "spec.taints", KARMADA))
    return found.errors


def validate_cluster_taint_policy(policy: ClusterTaintPolicy, *, allow_no_execute: bool) -> list[FieldError]:
    """Validate a ClusterTaintPolicy."""
    found = read(policy)
    annotations, spec = found["metadata"]["annotations"], found["spec"]
    for name in (ADD_HOLD, REMOVE_HOLD):
        if name in annotations.fields:
            hold = annotations.at(name, annotations.fields[name])
            hold.check(validate_duration(hold.value, hold.path))
    _check_affinity(spec["targetClusters"])
    check_match_conditions(spec)
    found.check(validate_taints(policy.spec.taints, "spec.taints", KARMADA))
    for effect in (taint["effect"] for taint in spec["taints"].each()):
        if effect.value == TaintEffect.NO_EXECUTE and not allow_no_execute:
            effect.forbidden(
                "a policy may not contain a taint with effect NoExecute unless spec.allowNoExecuteTaintPolicy of "
                f"{CONFIGURATION} is true"
            )
    return found.errors


def _check_affinity(affinity: CheckedField) -> None:
    """Check a label selector, and requirements on provider, region and zone. None is valid."""
    affinity["labelSelector"].check_label_selector()
    for requirement in affinity["fieldSelector"]["matchExpressions"].each():
        requirement["key"].check_supported(_FIELDS)
        requirement["operator"].check_supported(_OPERATORS)


def validate_propagation(
    spec: PropagationSpec, annotations: Mapping[str, str], served: Mapping[str, Sequence[str]]
) -> list[FieldError]:
    """Validate the spec of a propagation policy, of a namespace or of the cluster."""
    found = read(spec, "spec")
    selectors, preemption, placement = found["resourceSelectors"], found["preemption"], found["placement"]
    if EVICT_WITHOUT_REPLACEMENT in annotations:
        word = CheckedField(annotations, "metadata.annotations", found.errors).at(
            EVICT_WITHOUT_REPLACEMENT, annotations[EVICT_WITHOUT_REPLACEMENT]
        )
        word.check_supported(("true", "false"))
    selectors.check_set(_AT_LEAST_ONE)
    for selector in selectors.each():
        _check_selected_kind(selector["apiVersion"], selector["kind"], served)
        selector["labelSelector"].check_label_selector()
        if preemption.value == "Always" and not selector["name"].value:
            selector["name"].invalid(
                "must not be empty if preemption is Always, because resources may be taken over unexpectedly"
            )
    preemption.check_supported(("Always", "Never"))
    _check_placement(placement, spec.placement)
    _check_purge(found["failover"]["cluster"], _PURGE_MODES)
    # Moorage does not act on the failure of single applications, but validates these fields.
    _check_purge(found["failover"]["application"], _APPLICATION_PURGE_MODES)
    suspension = found["suspension"]
    clusters = suspension["dispatchingOnClusters"]["clusterNames"]
    if suspension["dispatching"].value is True and clusters.value:
        clusters.forbidden("suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames")
    return found.errors


def _check_selected_kind(api_version: CheckedField, kind: CheckedField, served: Mapping[str, Sequence[str]]) -> None:
    is_whole = [field.check_set() for field in (api_version, kind)]
    if not all(is_whole):
        return
    if kind.value not in PROPAGATED:
        kind.not_supported(PROPAGATED)
    else:
        api_version.check_supported(served.get(kind.text, ()))


def _check_placement(placement: CheckedField, typed: ClusterPlacement) -> None:
    one, several, scheduling = (
        placement[field] for field in ("clusterAffinity", "clusterAffinities", "replicaScheduling")
    )
    if one.value is not None and several.value is not None:
        several.forbidden("clusterAffinities cannot co-exist with clusterAffinity")
    _check_affinity(one)
    seen: set[str] = set()
    for affinity in several.each():
        name = affinity["affinityName"]
        name.check_qualified_name()
        if len(name.text) > _LONGEST_AFFINITY_NAME:
            name.invalid(f"must be no more than {_LONGEST_AFFINITY_NAME} characters")
        if name.value in seen:
            name.duplicate(rule="each affinity term in a policy must have a unique name")
        seen.add(name.value)
        _check_affinity(affinity)
    placement.check(
        validate_tolerations(typed.cluster_tolerations or [], f"{placement.path}.clusterTolerations", KARMADA)
    )
    _check_spread(placement["spreadConstraints"])
    if scheduling.is_object:
        _check_replicas(scheduling)


def _check_spread(constraints: CheckedField) -> None:
    fields: set[str] = set()
    for constraint in constraints.each():
        field, label = constraint["spreadByField"], constraint["spreadByLabel"]
        least, most = constraint["minGroups"], constraint["maxGroups"]
        if field.value and label.value:
            label.invalid("spreadByLabel should not co-exist with spreadByField")
        elif label.value:
            label.invalid(f"spreading by label is not supported, use spreadByField: {', '.join(_SPREAD_FIELDS)}")
        field.check_known(_SPREAD_FIELDS)
        constraint.check_not_negative("minGroups", "maxGroups")
        if 0 < most.value < least.value:
            most.invalid(f"maxGroups lower than minGroups ({least.value}) is not allowed")
        if field.value and field.value in fields:
            field.duplicate(rule=f"multiple {field.value} spread constraints are not allowed")
        # A constraint without field and label spreads by cluster, which is the default that admission sets.
        fields.add(field.value or ("" if label.value else "cluster"))
    if fields - {""} and "cluster" not in fields:
        constraints.required("a constraint with spreadByField 'cluster' is needed when another field is spread by")


def _check_replicas(strategy: CheckedField) -> None:
    weights = strategy["weightPreference"]
    strategy["replicaSchedulingType"].check_supported(("Duplicated", "Divided"))
    strategy["replicaDivisionPreference"].check_known(("Aggregated", "Weighted"))
    weights["dynamicWeight"].check_known(("AvailableReplicas",))
    for weight in weights["staticWeightList"].each():
        _check_affinity(weight["targetCluster"])
        if weight["weight"].value < 1:
            weight["weight"].invalid("must be greater than or equal to 1")


def _check_purge(behavior: CheckedField, modes: Sequence[str]) -> None:
    mode, grace = behavior["purgeMode"], behavior["gracePeriodSeconds"]
    mode.check_known(modes)
    if grace.value is None:
        return
    if grace.number is None or grace.number <= 0:
        grace.invalid("must be greater than 0")
    if mode.value in modes and mode.value not in _GRACEFUL:
        grace.invalid("only takes effect when purgeMode is gracefully")
