"""The rules of clusters, policies, budgets and machine sets: each error names field, value and rule."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.tables import table

from moorage.apiserver.rules.validation.core import validate_duration
from moorage.apiserver.rules.validation.fields import CheckedField
from moorage.apiserver.rules.validation.karmada import (
    validate_cluster,
    validate_cluster_taint_policy,
    validate_propagation,
)
from moorage.apiserver.rules.validation.moorage import (
    validate_disruption_budget,
    validate_eviction_budget,
    validate_eviction_pause,
    validate_machine_set,
    validate_maintenance,
    validate_taint_policy,
)
from moorage.decide.kubernetes.field_errors import FieldError
from moorage_schemas.resources.budgets import EvictionBudgetSpec, EvictionPauseSpec, PodDisruptionBudgetSpec
from moorage_schemas.resources.cluster import Cluster
from moorage_schemas.resources.machines import MachineSet
from moorage_schemas.resources.maintenances import MaintenanceSpec
from moorage_schemas.resources.policies import ClusterTaintPolicy, PropagationSpec
from moorage_schemas.resources.taint_policies import TaintPolicy

Json = dict[str, Any]
DEPLOYMENTS = [{"apiVersion": "apps/v1", "kind": "Deployment"}]
READY = {"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}
COLD = {"key": "cold", "effect": "NoSchedule"}


def lines(errors: list[FieldError]) -> list[str]:
    return [str(error) for error in errors]


def one(errors: list[FieldError]) -> str:
    (error,) = errors
    return str(error)


@pytest.mark.parametrize("value", ["0", "30s", "1m30s", "0s", "1.5h", "250ms", "2d"])
def test_durations(value: str) -> None:
    assert validate_duration(value, "x") == []


@pytest.mark.parametrize("value", ["", "30", "-1s", "s", "1m 30s", "half a minute"])
def test_no_durations(value: str) -> None:
    assert one(validate_duration(value, "x")).startswith(f'x: Invalid value: "{value}": must be a duration such as 30s')


def label_selector_errors(selector: Json | None) -> list[FieldError]:
    field = CheckedField(selector, "s")
    field.check_label_selector()
    return field.errors


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "s.matchExpressions[0].values: Required value"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            "s.matchExpressions[0].values: Forbidden",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]},
            's.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator',
        ),
        (
            {"matchExpressions": [{"key": "a b", "operator": "Exists"}]},
            's.matchExpressions[0].key: Invalid value: "a b"',
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b", "c d"]}]},
            's.matchExpressions[0].values[1]: Invalid value: "c d"',
        ),
        ({"matchLabels": {"a": "b c"}}, 's.matchLabels: Invalid value: "b c"'),
    ],
)
def test_label_selectors(selector: Json, message: str) -> None:
    assert one(label_selector_errors(selector)).startswith(message)


def test_good_label_selectors() -> None:
    assert label_selector_errors(None) == []
    good = {"matchLabels": {"a": ""}, "matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}
    assert label_selector_errors(good) == []


def cluster(name: str = "member1", **spec: Any) -> Cluster:
    found = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
    return Cluster.model_validate(found)


def test_good_clusters() -> None:
    full = cluster(syncMode="Pull", provider="x", region="eu", zones=["eu-1", "eu-2"], taints=[COLD])
    assert validate_cluster(full) == []
    assert validate_cluster(cluster()) == []


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (cluster(syncMode="Both"), 'spec.syncMode: Unsupported value: "Both": supported values: "Pull", "Push"'),
        (cluster("m" * 49), f'metadata.name: Invalid value: "{"m" * 49}": must be no more than 48 characters'),
        (cluster("a.b"), 'metadata.name: Invalid value: "a.b": must not contain dots'),
        (cluster(region="e u"), 'spec.region: Invalid value: "e u"'),
        (cluster(zones=["a", "b c"]), 'spec.zones[1]: Invalid value: "b c"'),
        (cluster(zone="a", zones=["b"]), 'spec.zones: Invalid value: ["b"]: zone and zones cannot co-exist'),
        (
            cluster(taints=[{"key": "a", "effect": "PreferNoSchedule"}]),
            'spec.taints[0].effect: Unsupported value: "PreferNoSchedule": supported values: "NoSchedule", "NoExecute"',
        ),
    ],
)
def test_bad_clusters(found: Cluster, message: str) -> None:
    assert one(validate_cluster(found)).startswith(message)


def taint_policy(annotations: dict[str, str] | None = None, **spec: Any) -> ClusterTaintPolicy:
    return ClusterTaintPolicy.model_validate(
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "ClusterTaintPolicy",
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {"taints": [COLD], **spec},
        }
    )


def test_good_taint_policies() -> None:
    found = taint_policy(
        {"moorage.io/taint-add-hold": "30s", "moorage.io/taint-remove-hold": "5m"},
        targetClusters={
            "clusterNames": ["a"],
            "fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]},
        },
        addOnConditions=[READY],
        removeOnConditions=[{**READY, "operator": "NotIn"}],
        taints=[COLD, {"key": "cold", "effect": "NoExecute"}],
    )
    assert validate_cluster_taint_policy(found, allow_no_execute=True) == []
    assert validate_cluster_taint_policy(taint_policy(), allow_no_execute=False) == []


@table(
    ("found", "message"),
    [
        (taint_policy(taints=[]), "spec.taints: Required value: must have at least one item"),
        (
            taint_policy(taints=[COLD, {**COLD, "value": "x"}]),
            'spec.taints[1]: Duplicate value: {"key":"cold","value":"x","effect":"NoSchedule"}',
        ),
        (taint_policy(taints=[{"key": "a b", "effect": "NoSchedule"}]), 'spec.taints[0].key: Invalid value: "a b"'),
        (taint_policy(taints=[{**COLD, "value": "a b"}]), 'spec.taints[0].value: Invalid value: "a b"'),
        (taint_policy(taints=[{"key": "cold"}]), "spec.taints[0].effect: Required value"),
        (
            taint_policy(taints=[{"key": "cold", "effect": "PreferNoSchedule"}]),
            'spec.taints[0].effect: Unsupported value: "PreferNoSchedule"',
        ),
        (
            taint_policy(taints=[COLD, {"key": "hot", "effect": "NoExecute"}]),
            (
                "spec.taints[1].effect: Forbidden: a policy may not contain a taint with effect NoExecute unless "
                "spec.allowNoExecuteTaintPolicy of moorageconfiguration/cluster is true"
            ),
        ),
        (
            taint_policy(addOnConditions=[READY, {**READY, "operator": "Exists"}]),
            'spec.addOnConditions[1].operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
        ),
        (
            taint_policy(removeOnConditions=[{**READY, "statusValues": []}]),
            "spec.removeOnConditions[0].statusValues: Required value",
        ),
        (
            taint_policy(addOnConditions=[{**READY, "statusValues": ["True", "yes"]}]),
            (
                'spec.addOnConditions[0].statusValues[1]: Unsupported value: "yes": '
                'supported values: "True", "False", "Unknown"'
            ),
        ),
        (
            taint_policy(addOnConditions=[{**READY, "conditionType": ""}]),
            "spec.addOnConditions[0].conditionType: Required value",
        ),
        (
            taint_policy(targetClusters={"fieldSelector": {"matchExpressions": [{"key": "city", "operator": "In"}]}}),
            (
                "spec.targetClusters.fieldSelector.matchExpressions[0].key: Unsupported value: "
                '"city": supported values: "provider", "region", "zone"'
            ),
        ),
        (
            taint_policy(targetClusters={"fieldSelector": {"matchExpressions": [{"key": "zone", "operator": "Gt"}]}}),
            'spec.targetClusters.fieldSelector.matchExpressions[0].operator: Unsupported value: "Gt"',
        ),
        (
            taint_policy(targetClusters={"labelSelector": {"matchLabels": {"a b": "c"}}}),
            'spec.targetClusters.labelSelector.matchLabels: Invalid value: "a b"',
        ),
        (
            taint_policy({"moorage.io/taint-add-hold": "soon"}),
            'metadata.annotations[moorage.io/taint-add-hold]: Invalid value: "soon": must be a duration',
        ),
    ],
)
def test_bad_taint_policies(found: ClusterTaintPolicy, message: str) -> None:
    assert one(validate_cluster_taint_policy(found, allow_no_execute=False)).startswith(message)


def any_taint_policy(targets: dict[str, Any] | None = None, **spec: Any) -> list[FieldError]:
    chosen = {"kind": "Node"} if targets is None else targets
    return validate_taint_policy(
        TaintPolicy.model_validate(
            {
                "apiVersion": "moorage.io/v1alpha1",
                "kind": "TaintPolicy",
                "metadata": {"name": "p"},
                "spec": {"targets": chosen, "taints": [COLD], **spec},
            }
        )
    )


def test_good_taint_policies_of_any_target() -> None:
    assert any_taint_policy({"kind": "Node", "names": ["n1"], "exclude": ["n2"], "cluster": "*"}) == []
    assert any_taint_policy({"kind": "Cluster", "cluster": "east"}, addOnConditions=[READY], addHold="30s") == []
    assert any_taint_policy({"kind": "ManagedCluster"}, taints=[{"key": "a", "effect": "NoSelect"}]) == []
    assert any_taint_policy(taints=[{"key": "a", "effect": "NoExecute"}]) == []


@table(
    ("found", "message"),
    [
        (
            any_taint_policy({}),
            'spec.targets.kind: Unsupported value: "": supported values: "Node", "Cluster", "ManagedCluster"',
        ),
        (any_taint_policy({"kind": "Node", "names": []}), "spec.targets.names: Invalid value: "),
        (any_taint_policy({"kind": "Node", "names": ["A b"]}), 'spec.targets.names[0]: Invalid value: "A b"'),
        (any_taint_policy({"kind": "Node", "exclude": ["-"]}), 'spec.targets.exclude[0]: Invalid value: "-"'),
        (any_taint_policy({"kind": "Node", "cluster": "a/b"}), 'spec.targets.cluster: Invalid value: "a/b"'),
        (
            any_taint_policy({"kind": "Node", "selector": {"matchLabels": {"a b": "c"}}}),
            'spec.targets.selector.matchLabels: Invalid value: "a b"',
        ),
        (
            any_taint_policy({"kind": "ManagedCluster"}),
            'spec.taints[0].effect: Unsupported value: "NoSchedule": supported values: "NoSelect", ',
        ),
        (any_taint_policy(taints=[]), "spec.taints: Required value: must have at least one item"),
        (any_taint_policy(addHold="soon"), 'spec.addHold: Invalid value: "soon": must be a duration'),
        (any_taint_policy(removeHold="-1s"), 'spec.removeHold: Invalid value: "-1s"'),
        (
            any_taint_policy(addOnConditions=[{**READY, "statusValues": []}]),
            "spec.addOnConditions[0].statusValues: Required value",
        ),
    ],
)
def test_bad_taint_policies_of_any_target(found: list[FieldError], message: str) -> None:
    assert one(found).startswith(message)


def propagation(annotations: dict[str, str] | None = None, **spec: Any) -> list[FieldError]:
    full = {"resourceSelectors": DEPLOYMENTS, **spec}
    served = {"Deployment": ("apps/v1",), "Pod": ("v1",)}
    return validate_propagation(PropagationSpec.model_validate(full), annotations or {}, served)


def test_good_propagation_policies() -> None:
    assert propagation() == []
    placement = {
        "clusterAffinities": [
            {"affinityName": "first", "clusterNames": ["a"]},
            {"affinityName": "second", "clusterNames": ["b"]},
        ],
        "clusterTolerations": [{"key": "cold", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}],
        "spreadConstraints": [
            {"spreadByField": "region", "minGroups": 1, "maxGroups": 2},
            {"minGroups": 2},
        ],
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": [{"targetCluster": {"clusterNames": ["a"]}, "weight": 2}]},
        },
    }
    failover = {"cluster": {"purgeMode": "Gracefully", "gracePeriodSeconds": 60}}
    assert propagation(placement=placement, failover=failover, preemption="Never") == []
    assert propagation({"moorage.io/evict-without-replacement": "true"}) == []


@table(
    ("spec", "message"),
    [
        ({"resourceSelectors": []}, "spec.resourceSelectors: Required value: must have at least one item"),
        (
            {"resourceSelectors": [{"apiVersion": "apps/v2", "kind": "Deployment"}]},
            'spec.resourceSelectors[0].apiVersion: Unsupported value: "apps/v2": supported values: "apps/v1"',
        ),
        (
            {"resourceSelectors": [{"apiVersion": "v1", "kind": "Unicorn"}]},
            'spec.resourceSelectors[0].kind: Unsupported value: "Unicorn": supported values: "Pod", "Deployment"',
        ),
        (
            {"resourceSelectors": [{"apiVersion": "v1", "kind": "Node"}]},
            'spec.resourceSelectors[0].kind: Unsupported value: "Node": supported values: "Pod", "Deployment"',
        ),
        ({"resourceSelectors": [{"apiVersion": "", "kind": "Pod"}]}, "spec.resourceSelectors[0].apiVersion: Required"),
        ({"resourceSelectors": [{"apiVersion": "v1", "kind": ""}]}, "spec.resourceSelectors[0].kind: Required value"),
        (
            {"preemption": "Always"},
            'spec.resourceSelectors[0].name: Invalid value: "": must not be empty if preemption',
        ),
        ({"preemption": "Often"}, 'spec.preemption: Unsupported value: "Often": supported values: "Always", "Never"'),
        (
            {"placement": {"clusterAffinity": {}, "clusterAffinities": []}},
            "spec.placement.clusterAffinities: Forbidden: clusterAffinities cannot co-exist with clusterAffinity",
        ),
        (
            {"placement": {"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}]}},
            'spec.placement.clusterAffinities[1].affinityName: Duplicate value: "a": each affinity term in a policy',
        ),
        (
            {"placement": {"clusterAffinities": [{"affinityName": "a b"}]}},
            'spec.placement.clusterAffinities[0].affinityName: Invalid value: "a b"',
        ),
        (
            {"placement": {"clusterTolerations": [{"key": "a", "operator": "Exists", "effect": "PreferNoSchedule"}]}},
            (
                'spec.placement.clusterTolerations[0].effect: Unsupported value: "PreferNoSchedule": '
                'supported values: "NoSchedule", "NoExecute"'
            ),
        ),
        (
            {"placement": {"spreadConstraints": [{"spreadByField": "city"}, {}]}},
            (
                'spec.placement.spreadConstraints[0].spreadByField: Unsupported value: "city": supported values: '
                '"cluster", "region", "zone", "provider"'
            ),
        ),
        (
            {"placement": {"spreadConstraints": [{"spreadByField": "region"}]}},
            "spec.placement.spreadConstraints: Required value: a constraint with spreadByField 'cluster'",
        ),
        (
            {"placement": {"spreadConstraints": [{"spreadByField": "cluster"}, {}, {"spreadByField": "cluster"}]}},
            'spec.placement.spreadConstraints[2].spreadByField: Duplicate value: "cluster": multiple cluster spread',
        ),
        (
            {"placement": {"spreadConstraints": [{"minGroups": 3, "maxGroups": 2}]}},
            "spec.placement.spreadConstraints[0].maxGroups: Invalid value: 2: maxGroups lower than minGroups (3)",
        ),
        (
            {"placement": {"spreadConstraints": [{"minGroups": -1}]}},
            "spec.placement.spreadConstraints[0].minGroups: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            {"placement": {"spreadConstraints": [{"spreadByField": "cluster", "spreadByLabel": "rack"}]}},
            'spec.placement.spreadConstraints[0].spreadByLabel: Invalid value: "rack": spreadByLabel should not',
        ),
        (
            {"placement": {"spreadConstraints": [{"spreadByField": "cluster"}, {"spreadByLabel": "rack"}]}},
            (
                'spec.placement.spreadConstraints[1].spreadByLabel: Invalid value: "rack": spreading by label is not '
                "supported, use spreadByField: cluster, region, zone, provider"
            ),
        ),
        (
            {"placement": {"spreadConstraints": [{"spreadByField": "cluster"}, {"spreadByField": "rack"}]}},
            'spec.placement.spreadConstraints[1].spreadByField: Unsupported value: "rack": supported values: "cluster"',
        ),
        (
            {"placement": {"replicaScheduling": {"replicaSchedulingType": "Shared"}}},
            'spec.placement.replicaScheduling.replicaSchedulingType: Unsupported value: "Shared"',
        ),
        (
            {"placement": {"replicaScheduling": {"replicaDivisionPreference": "Fair"}}},
            'spec.placement.replicaScheduling.replicaDivisionPreference: Unsupported value: "Fair"',
        ),
        (
            {"placement": {"replicaScheduling": {"weightPreference": {"dynamicWeight": "Mood"}}}},
            'spec.placement.replicaScheduling.weightPreference.dynamicWeight: Unsupported value: "Mood"',
        ),
        (
            {"placement": {"replicaScheduling": {"weightPreference": {"staticWeightList": [{"weight": 0}]}}}},
            "spec.placement.replicaScheduling.weightPreference.staticWeightList[0].weight: Invalid value: 0",
        ),
        (
            {"failover": {"cluster": {"purgeMode": "Immediately"}}},
            (
                'spec.failover.cluster.purgeMode: Unsupported value: "Immediately": supported values: '
                '"Directly", "Gracefully"'
            ),
        ),
        (
            {"failover": {"cluster": {"gracePeriodSeconds": 0}}},
            "spec.failover.cluster.gracePeriodSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            {"failover": {"cluster": {"purgeMode": "Directly", "gracePeriodSeconds": 5}}},
            "spec.failover.cluster.gracePeriodSeconds: Invalid value: 5: only takes effect when purgeMode is",
        ),
        (
            {"failover": {"application": {"purgeMode": "Soon"}}},
            (
                'spec.failover.application.purgeMode: Unsupported value: "Soon": supported values: "Directly", '
                '"Gracefully", "Never", "Immediately", "Graciously"'
            ),
        ),
        (
            {"suspension": {"dispatching": True, "dispatchingOnClusters": {"clusterNames": ["a"]}}},
            "spec.suspension.dispatchingOnClusters.clusterNames: Forbidden: suspension dispatching cannot co-exist",
        ),
    ],
)
def test_bad_propagation_policies(spec: Json, message: str) -> None:
    assert one(propagation(**spec)).startswith(message)


def test_an_annotation_that_says_neither_true_nor_false() -> None:
    assert one(propagation({"moorage.io/evict-without-replacement": "yes"})) == (
        'metadata.annotations[moorage.io/evict-without-replacement]: Unsupported value: "yes": '
        'supported values: "true", "false"'
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"minAvailable": 2},
        {"maxUnavailable": "100%", "selector": {}},
        {"maxUnavailable": 0},
        {"minAvailable": "0%", "unhealthyPodEvictionPolicy": "AlwaysAllow"},
    ],
)
def test_good_disruption_budgets(spec: Json) -> None:
    assert validate_disruption_budget(PodDisruptionBudgetSpec.model_validate(spec)) == []


@table(
    ("spec", "message"),
    [
        (
            {"minAvailable": 1, "maxUnavailable": 1},
            'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":1,',
        ),
        ({"minAvailable": -1}, "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"),
        ({"minAvailable": "101%"}, 'spec.minAvailable: Invalid value: "101%": must not be greater than 100%'),
        ({"maxUnavailable": "9" * 9999 + "%"}, "spec.maxUnavailable: Invalid value:"),
        ({"maxUnavailable": "some"}, 'spec.maxUnavailable: Invalid value: "some": a valid percent string must be'),
        ({"maxUnavailable": "-1%"}, 'spec.maxUnavailable: Invalid value: "-1%": a valid percent string must be'),
        (
            {"maxUnavailable": 1, "selector": {"matchLabels": {"a b": "c"}}},
            'spec.selector.matchLabels: Invalid value: "a b"',
        ),
        (
            {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "Maybe"},
            'spec.unhealthyPodEvictionPolicy: Unsupported value: "Maybe"',
        ),
    ],
)
def test_bad_disruption_budgets(spec: Json, message: str) -> None:
    assert one(validate_disruption_budget(PodDisruptionBudgetSpec.model_validate(spec))).startswith(message)


def test_good_eviction_budgets() -> None:
    scope = {
        "namespaces": ["shop"],
        "zones": ["eu/eu-1", "/", "eu/", "east:eu/eu-1", "east:/"],
        "targets": ["Node/n1", "Cluster/member1", "east:Node/n1"],
        "workloads": ["Deployment/shop/web", "Pod/shop/web-0", "east:Pod/shop/web-0"],
        "selector": {"matchLabels": {"a": "b"}},
    }
    spec = {"per": "Zone", "scope": scope, "maxConcurrent": "10%", "maxInWindow": 5, "windowSeconds": 60}
    assert validate_eviction_budget(EvictionBudgetSpec.model_validate(spec)) == []
    assert validate_eviction_pause(EvictionPauseSpec.model_validate({"scope": scope})) == []
    assert validate_eviction_pause(EvictionPauseSpec()) == []


@table(
    ("scope", "message"),
    [
        ({"namespaces": []}, "spec.scope.namespaces: Invalid value: []: must have at least one item; leave it out to"),
        ({"workloads": []}, "spec.scope.workloads: Invalid value: []: must have at least one item"),
        ({"namespaces": ["Shop"]}, 'spec.scope.namespaces[0]: Invalid value: "Shop"'),
        ({"zones": ["eu-1"]}, 'spec.scope.zones[0]: Invalid value: "eu-1": must be region/zone, such as eu/eu-1'),
        ({"zones": ["a/b c"]}, 'spec.scope.zones[0]: Invalid value: "a/b c"'),
        ({"targets": ["n1"]}, 'spec.scope.targets[0]: Invalid value: "n1": must be Kind/name, such as Node/n1'),
        ({"targets": ["Pod/n1"]}, 'spec.scope.targets[0]: Invalid value: "Pod/n1": must be Kind/name with one of'),
        ({"targets": ["Node/N1"]}, 'spec.scope.targets[0]: Invalid value: "Node/N1"'),
        ({"targets": ["East:Node/n1"]}, 'spec.scope.targets[0]: Invalid value: "East:Node/n1"'),
        ({"zones": ["e_t:eu/eu-1"]}, 'spec.scope.zones[0]: Invalid value: "e_t:eu/eu-1"'),
        ({"workloads": ["-:Pod/a/b"]}, 'spec.scope.workloads[0]: Invalid value: "-:Pod/a/b"'),
        ({"workloads": ["shop/web"]}, 'spec.scope.workloads[0]: Invalid value: "shop/web": must be Kind/namespace/'),
        ({"workloads": ["Pod/Shop/web"]}, 'spec.scope.workloads[0]: Invalid value: "Pod/Shop/web"'),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "spec.scope.selector.matchExpressions[0].values: Required value",
        ),
    ],
)
def test_bad_scopes(scope: Json, message: str) -> None:
    budget = EvictionBudgetSpec.model_validate({"scope": scope, "maxConcurrent": 1})
    assert one(validate_eviction_budget(budget)).startswith(message)
    assert one(validate_eviction_pause(EvictionPauseSpec.model_validate({"scope": scope}))).startswith(message)


FRIDAY = {"cron": "0 22 * * 5", "timeZone": "Europe/Berlin", "duration": "8h"}


def test_good_schedules_and_reasons() -> None:
    for limits in (
        {"schedule": FRIDAY, "reasons": ["Drain", "Failure"]},
        {"schedule": {"cron": "@daily", "duration": "1h"}},
    ):
        assert validate_eviction_pause(EvictionPauseSpec.model_validate(limits)) == []
        assert validate_eviction_budget(EvictionBudgetSpec.model_validate({**limits, "maxInWindow": 1})) == []


@table(
    ("limits", "message"),
    [
        (
            {"schedule": {**FRIDAY, "cron": "0 25 * * 5"}},
            'spec.schedule.cron: Invalid value: "0 25 * * 5": must be a cron',
        ),
        ({"schedule": {**FRIDAY, "cron": ""}}, "spec.schedule.cron: Required value"),
        (
            {"schedule": {**FRIDAY, "timeZone": "Berlin"}},
            'spec.schedule.timeZone: Invalid value: "Berlin": must be an IANA',
        ),
        ({"schedule": {**FRIDAY, "duration": "8"}}, 'spec.schedule.duration: Invalid value: "8": must be a duration'),
        (
            {"schedule": {**FRIDAY, "duration": "0s"}},
            'spec.schedule.duration: Invalid value: "0s": must be at least 1s',
        ),
        ({"reasons": []}, "spec.reasons: Invalid value: []: must have at least one item"),
        ({"reasons": ["Drain", "Drain"]}, 'spec.reasons[1]: Duplicate value: "Drain"'),
    ],
)
def test_bad_schedules_and_reasons(limits: Json, message: str) -> None:
    assert one(validate_eviction_pause(EvictionPauseSpec.model_validate(limits))).startswith(message)
    budget = EvictionBudgetSpec.model_validate({**limits, "maxConcurrent": 1})
    assert one(validate_eviction_budget(budget)).startswith(message)


def test_a_budget_without_an_amount_and_one_with_bad_amounts() -> None:
    assert lines(validate_eviction_budget(EvictionBudgetSpec())) == [
        "spec.maxConcurrent: Required value: at least one of maxConcurrent and maxInWindow must be set"
    ]
    bad = EvictionBudgetSpec.model_validate({"maxConcurrent": -1, "maxInWindow": "200%"})
    assert lines(validate_eviction_budget(bad)) == [
        "spec.maxConcurrent: Invalid value: -1: must be greater than or equal to 0",
        'spec.maxInWindow: Invalid value: "200%": must not be greater than 100%',
    ]


def machine_set(annotations: dict[str, str] | None = None, **spec: Any) -> MachineSet:
    return MachineSet.model_validate(
        {
            "apiVersion": "machine.openshift.io/v1beta1",
            "kind": "MachineSet",
            "metadata": {"name": "m", "namespace": "pool", "annotations": annotations},
            "spec": spec,
        }
    )


def test_good_machine_sets() -> None:
    assert validate_machine_set(machine_set()) == []
    taints = [{"key": "a", "effect": "PreferNoSchedule"}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"taints": taints, "metadata": {"labels": {"c": "d"}}}}
    full = machine_set(
        {"machine.openshift.io/vCPU": "8"}, replicas=0, selector={"matchLabels": {"a": "b"}}, template=template
    )
    assert validate_machine_set(full) == []


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (machine_set(replicas=-1), "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            machine_set(selector={"matchLabels": {"a": "b"}}),
            "spec.template.metadata.labels: Invalid value: {}: `selector` does not match template `labels`",
        ),
        (
            machine_set(template={"spec": {"taints": [{"key": "a", "effect": "Never"}]}}),
            'spec.template.spec.taints[0].effect: Unsupported value: "Never"',
        ),
        (
            machine_set(template={"spec": {"metadata": {"labels": {"a": "b c"}}}}),
            'spec.template.spec.metadata.labels: Invalid value: "b c"',
        ),
        (
            machine_set({"machine.openshift.io/memoryMb": "much"}),
            'metadata.annotations[machine.openshift.io/memoryMb]: Invalid value: "much": must be a whole number',
        ),
    ],
)
def test_bad_machine_sets(found: MachineSet, message: str) -> None:
    assert one(validate_machine_set(found)).startswith(message)


WINDOW = {"cron": "0 1 * * 6", "timeZone": "Europe/Berlin", "duration": "4h"}


def test_good_maintenances() -> None:
    whole = {
        "targets": {"names": ["n1"], "zones": ["eu/eu-1"], "selector": {"matchLabels": {"pool": "gpu"}}},
        "window": WINDOW,
        "drainDeadline": "3h",
        "releaseAfter": "10m",
        "order": "Zone",
        "maxAtOnce": "10%",
        "minHealthy": 3,
        "whenNotDrained": "Fail",
    }
    for spec in (whole, {"window": {"start": "2026-12-05T01:00:00Z", "duration": "2h"}}):
        assert validate_maintenance(MaintenanceSpec.model_validate(spec)) == []


@table(
    ("spec", "message"),
    [
        ({"window": {"duration": "2h"}}, "spec.window: Invalid value:"),
        ({"window": {**WINDOW, "start": "2026-12-05T01:00:00Z"}}, "spec.window: Invalid value:"),
        ({"window": {**WINDOW, "cron": "x"}}, 'spec.window.cron: Invalid value: "x"'),
        ({"window": {"start": "2026-12-05T01:00:00Z", "duration": "x"}}, "spec.window.duration: Invalid value"),
        ({"drainDeadline": "soon"}, "spec.drainDeadline: Invalid value"),
        ({"releaseAfter": "soon"}, "spec.releaseAfter: Invalid value"),
        ({"maxAtOnce": "two"}, "spec.maxAtOnce: Invalid value"),
        ({"minHealthy": "120%"}, "spec.minHealthy: Invalid value"),
        ({"targets": {"names": []}}, "spec.targets.names: Invalid value: []: must have at least one item"),
        ({"targets": {"names": ["N1"]}}, 'spec.targets.names[0]: Invalid value: "N1"'),
        ({"targets": {"zones": ["eu-1"]}}, 'spec.targets.zones[0]: Invalid value: "eu-1"'),
        ({"targets": {"kind": "Cluster"}}, 'spec.targets.kind: Unsupported value: "Cluster"'),
    ],
)
def test_bad_maintenances(spec: Json, message: str) -> None:
    found = validate_maintenance(MaintenanceSpec.model_validate({"window": WINDOW, **spec}))
    assert one(found).startswith(message)
