"""Clusters, policies, budgets, the taints of new nodes, subresources, and views of the services' decisions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest
from tests.component.gateway.double import NOW, Fixture, Json, deployment, later, node, node_ref, pod_ref
from tests.support.tables import table

from moorage.apiserver.admission.validation import feature_gates
from moorage.apiserver.http.messages.selectors import selector
from moorage.apiserver.http.verbs import watch
from moorage.apiserver.kinds import kind as kinds
from moorage.apiserver.kinds.status.guards import PauseIndex
from moorage.apiserver.machinery.served_kinds import served
from moorage.apiserver.rules.feature_gates import FeatureGates
from moorage.decide.taints.desired.taint_reconciliation import next_taints
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.budget import BudgetCounted
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import condition_key, eviction_key
from moorage_schemas.maintenance import MaintenanceProgressed
from moorage_schemas.placement import LeavingTarget, PlacedTarget, PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.resources.workload_kinds import PROPAGATED, WORKLOAD_KINDS
from moorage_schemas.taint import HeldTaint, TargetTainted
from moorage_schemas.topics import (
    BUDGETS,
    CONDITIONS,
    EVICTIONS,
    FLEET,
    MAINTENANCES,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    WEBHOOK_STATUSES,
    ZONES,
)
from moorage_schemas.webhook_status import WebhookStatusChanged
from moorage_schemas.zone import ZoneChanged, ZoneState, ZoneWaiting

NODES = "/api/v1/nodes"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
TAINT_POLICIES = "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies"
PROPAGATION = "/apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies"
DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"
PDBS = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets"
BUDGETS_PATH = "/apis/moorage.io/v1alpha1/evictionbudgets"
PAUSES = "/apis/moorage.io/v1alpha1/evictionpauses"
SETS = "/apis/machine.openshift.io/v1beta1/namespaces/pool/machinesets"
BINDINGS = "/apis/work.karmada.io/v1alpha2"
VIEWS = "/apis/moorage.io/v1alpha1"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
MASTER = "node-role.kubernetes.io/master"
COLD = {"key": "cold", "effect": "NoSchedule"}
HOT = {"key": "hot", "effect": "NoExecute"}


def named(name: str = "x", **parts: Any) -> Json:
    return {"metadata": {"name": name}, **parts}


def cluster(name: str = "member1", **spec: Any) -> Json:
    return named(name, spec={"syncMode": "Pull", **spec})


def cluster_ref(name: str = "member1") -> TargetRef:
    return TargetRef(kind=TargetKind.CLUSTER, name=name)


def taint_policy(*taints: Json) -> Json:
    ready = {"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}
    return named("p", spec={"addOnConditions": [ready], "taints": list(taints)})


def propagation(**spec: Any) -> Json:
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]
    return named("web", spec={"resourceSelectors": selectors, **spec})


def taint_keys(document: Json) -> list[str]:
    return [taint["key"] for taint in document["spec"].get("taints", [])]


def declared(gateway: Fixture) -> ResourceDeclared:
    event = gateway.declared[-1].event
    assert isinstance(event, ResourceDeclared)
    return event


@table(
    ("path", "body", "field", "message"),
    [
        (CLUSTERS, named(spec={"syncMode": "Both"}), "spec.syncMode", 'Unsupported value: "Both"'),
        (CLUSTERS, named("UPPER"), "metadata.name", 'Invalid value: "UPPER": a lowercase RFC 1123 label'),
        (CLUSTERS, named("a.b"), "metadata.name", 'Invalid value: "a.b": must not contain dots'),
        (
            CLUSTERS,
            cluster(taints=[{"key": "a", "effect": "PreferNoSchedule"}]),
            "spec.taints[0].effect",
            'supported values: "NoSchedule", "NoExecute"',
        ),
        (TAINT_POLICIES, taint_policy(), "spec.taints", "should have at least 1 items"),
        (TAINT_POLICIES, taint_policy(COLD, COLD), "spec.taints[1]", "Duplicate value"),
        (TAINT_POLICIES, taint_policy(HOT), "spec.taints[0].effect", "spec.allowNoExecuteTaintPolicy"),
        (PROPAGATION, named(spec={}), "spec.resourceSelectors", "Required value"),
        (PROPAGATION, propagation(preemption="Maybe"), "spec.preemption", 'Unsupported value: "Maybe"'),
        (PDBS, named(spec={"minAvailable": "5"}), "spec.minAvailable", "a valid percent string"),
        (BUDGETS_PATH, named(spec={}), "spec.maxConcurrent", "Required value"),
        (BUDGETS_PATH, named(spec={"maxConcurrent": 1, "per": "Street"}), "spec.per", "Unsupported value"),
        (BUDGETS_PATH, named(spec={"maxInWindow": 1, "windowSeconds": 0}), "spec.windowSeconds", "Invalid value: 0"),
        (PAUSES, named(spec={"scope": {"zones": ["a"]}}), "spec.scope.zones[0]", "must be region/zone"),
        (
            BUDGETS_PATH,
            named(spec={"maxInWindow": 1, "window": "20s"}),
            "spec.window",
            "unknown field; known fields: per",
        ),
        (
            PAUSES,
            named(spec={"scope": {"zone": ["a/b"]}}),
            "spec.scope.zone",
            "unknown field; known fields: namespaces",
        ),
        (PAUSES, {**named(spec={}), "scope": {"zones": ["a/b"]}}, "scope", "unknown field; known fields: apiVersion"),
        (SETS, named(spec={"replicas": -1}), "spec.replicas", "Invalid value: -1"),
    ],
)
async def test_invalid_objects_name_field_value_and_rule(path: str, body: Json, field: str, message: str) -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", path, body)
    assert answer.status_code == 422, answer.text
    (cause,) = answer.json()["details"]["causes"]
    assert cause["field"] == field
    assert message in cause["message"]
    assert not gateway.declared


@table(
    ("path", "body"),
    [
        ("/api/v1/namespaces/shop/configmaps", named(data={"a": "b"})),
        ("/api/v1/namespaces/shop/services", named(spec={"ports": [{"port": 80}]})),
        ("/api/v1/namespaces/shop/serviceaccounts", named(automountServiceAccountToken=False)),
        (CLUSTERS, cluster("x")),
        (TAINT_POLICIES, {**taint_policy(COLD), "metadata": {"name": "x"}}),
        (PROPAGATION, {**propagation(), "metadata": {"name": "x"}}),
        (
            "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies",
            {**propagation(), "metadata": {"name": "x"}},
        ),
        (PDBS, named(spec={"minAvailable": 1, "selector": {}})),
        (BUDGETS_PATH, named(spec={"maxConcurrent": "10%"})),
        (PAUSES, named(spec={"reason": "night"})),
        (SETS, named(spec={"replicas": 0})),
    ],
)
async def test_every_kind_can_be_written_conflicts_and_is_watched(path: str, body: Json) -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", path, body)
    label = {"metadata": {"labels": {"a": "b"}}}
    after = await gateway.ok("PATCH", f"{path}/x", label)
    assert (await gateway.call("PUT", f"{path}/x", made)).status_code == 409
    assert (await gateway.ok("PUT", f"{path}/x", after))["metadata"] == after["metadata"]
    names = [item["metadata"]["name"] for item in (await gateway.ok("GET", path))["items"]]
    assert [name for name in names if name != "default"] == ["x"], "every namespace has a service account default"
    await gateway.ok("DELETE", f"{path}/x")
    kind = next(kind for kind in served() if kind.kind == made["kind"])
    version = int(made["metadata"]["resourceVersion"])
    asked = watch.Watch(kind=kind, namespace="", selected=selector("", ""), version=version, timeout=0.0)
    events = watch.events(gateway.store, asked, watch.start(gateway.store, asked))
    lines = [line async for chunk in events for line in chunk.splitlines()]
    assert [orjson.loads(line)["type"] for line in lines] == ["MODIFIED", "DELETED"]
    assert (await gateway.call("GET", f"{path}/x")).status_code == 404


async def test_a_policy_that_has_no_effect_yet_says_so() -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", TAINT_POLICIES, taint_policy(COLD))
    assert answer.status_code == 201
    (warning,) = answer.headers.get_list("warning")
    assert warning.startswith('299 - "')
    assert "spec.featureGates.Failover" in warning
    changed = await gateway.call("PATCH", f"{TAINT_POLICIES}/p", {"metadata": {"labels": {"a": "b"}}})
    assert "spec.featureGates.Failover" in changed.headers["warning"]


async def test_switches_allow_what_they_are_named_for() -> None:
    settings = Settings(feature_gates="Failover=true", allow_no_execute_taint_policy=True, cloud_provider="external")
    assert feature_gates(settings) == FeatureGates(
        failover=True, allow_no_execute_taint_policy=True, external_cloud=True
    )
    gateway = Fixture(settings=settings)
    answer = await gateway.call("POST", TAINT_POLICIES, taint_policy(HOT))
    assert answer.status_code == 201
    assert "spec.enableNoExecuteTaintEviction" in answer.headers["warning"]
    quiet = Fixture(settings=Settings(feature_gates="Failover=true"))
    assert "warning" not in (await quiet.call("POST", TAINT_POLICIES, taint_policy(COLD))).headers


async def test_taints_of_clusters_that_evict_nothing_yet_are_told_of() -> None:
    gateway = Fixture()
    (warning,) = (await gateway.call("POST", CLUSTERS, cluster(taints=[HOT]))).headers.get_list("warning")
    assert "spec.featureGates.Failover" in warning
    assert "spec.enableNoExecuteTaintEviction" in warning
    assert "warning" not in (await gateway.call("POST", CLUSTERS, cluster("member2", taints=[COLD]))).headers
    assert "warning" not in (await gateway.call("POST", NODES, node(taints=[HOT]))).headers
    everything = Fixture(settings=Settings(feature_gates="Failover=true", enable_no_execute_taint_eviction=True))
    assert "warning" not in (await everything.call("POST", CLUSTERS, cluster(taints=[HOT]))).headers


async def test_failover_of_a_policy_that_is_switched_off_is_told_of() -> None:
    body = propagation(
        failover={"cluster": {"purgeMode": "Directly"}, "application": {"purgeMode": "Never", "decisionConditions": {}}}
    )
    told = (await Fixture().call("POST", PROPAGATION, body)).headers.get_list("warning")
    assert len(told) == 2
    assert "spec.failover.cluster has no effect" in told[0]


async def test_a_failing_application_is_nobodys_business_here() -> None:
    gateway = Fixture()
    body = propagation(failover={"application": {"decisionConditions": {"tolerationSeconds": 5}}})
    answer = await gateway.call("POST", PROPAGATION, body)
    assert "spec.failover.application has no effect" in answer.headers["warning"]


async def test_fields_of_a_policy_that_nothing_reads_are_named_to_their_writer() -> None:
    body = propagation(
        propagateDeps=True,
        conflictResolution="Overwrite",
        schedulePriority={"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"},
        failover={"cluster": {"statePreservation": {"rules": [{"aliasLabelName": "a", "jsonPath": "{.b}"}]}}},
    )
    told = (await Fixture(settings=Settings(feature_gates="Failover=true")).call("POST", PROPAGATION, body)).headers
    named = [text.split('"')[1].partition(" has no effect")[0] for text in told.get_list("warning")]
    assert sorted(named) == [
        "spec.conflictResolution",
        "spec.failover.cluster.statePreservation",
        "spec.propagateDeps",
        "spec.schedulePriority",
    ]
    quiet = propagation(conflictResolution="Abort", schedulerName="default-scheduler", suspension={"dispatching": True})
    answer = await Fixture().call("POST", PROPAGATION, quiet)
    assert "warning" not in answer.headers


async def test_policies_get_upstreams_defaults() -> None:
    gateway = Fixture()
    body = propagation(
        placement={
            "spreadConstraints": [{"maxGroups": 2}, {"spreadByField": "region", "minGroups": 2}],
            "replicaScheduling": {},
        },
        failover={"cluster": {"gracePeriodSeconds": 5}},
    )
    spec = (await gateway.ok("POST", PROPAGATION, body))["spec"]
    assert (spec["priority"], spec["preemption"], spec["conflictResolution"]) == (0, "Never", "Abort")
    assert spec["resourceSelectors"][0]["namespace"] == "shop"
    assert spec["placement"]["spreadConstraints"] == [
        {"maxGroups": 2, "minGroups": 1, "spreadByField": "cluster"},
        {"spreadByField": "region", "minGroups": 2},
    ]
    assert spec["placement"]["replicaScheduling"] == {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
    }
    assert spec["failover"]["cluster"] == {"gracePeriodSeconds": 5, "purgeMode": "Gracefully"}
    count = len(gateway.declared)
    await gateway.ok("PUT", f"{PROPAGATION}/web", body)
    assert len(gateway.declared) == count, "what says the same changes nothing"
    wide = "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies"
    selectors = (await gateway.ok("POST", wide, propagation()))["spec"]["resourceSelectors"]
    assert "namespace" not in selectors[0]


async def test_taints_of_a_cluster_are_wishes_and_its_conditions_come_from_reports() -> None:
    gateway = Fixture()
    body = named("member1", spec={"taints": [COLD]}, status={"kubernetesVersion": "v1.34.0", "conditions": [{}]})
    made = await gateway.ok("POST", CLUSTERS, body)
    assert made["spec"]["syncMode"] == "Push"
    assert taint_keys(made) == ["cold"]
    assert made["status"] == {"kubernetesVersion": "v1.34.0"}
    event = declared(gateway)
    assert "taints" not in event.object["spec"]
    assert [(wish.key, wish.present) for wish in event.wishes] == [("cold", True)]
    condition = ConditionChanged(
        target=cluster_ref(),
        type="SchedulerDown",
        status=ConditionStatus.TRUE,
        last_transition_time=NOW,
        last_heartbeat_time=NOW,
        generation=1,
    )
    key = "Cluster/member1"
    gateway.log.append(CONDITIONS, condition_key(key, "SchedulerDown"), key, condition)
    shown = await gateway.ok("GET", f"{CLUSTERS}/member1")
    assert [(found["type"], found["status"]) for found in shown["status"]["conditions"]] == [("SchedulerDown", "True")]
    patched = await gateway.ok("PATCH", f"{CLUSTERS}/member1", {"spec": {"taints": [COLD, HOT]}})
    assert taint_keys(patched) == ["cold", "hot"]
    emptied = await gateway.ok("PATCH", f"{CLUSTERS}/member1", {"spec": {"taints": None}})
    assert taint_keys(emptied) == []


def control_plane(label: str = CONTROL_PLANE, *taints: Json) -> Json:
    body = node("cp", taints=taints)
    body["metadata"]["labels"] = {label: ""}
    return body


@pytest.mark.parametrize("label", [CONTROL_PLANE, MASTER])
async def test_a_control_plane_node_gets_its_taints_at_creation_and_only_then(label: str) -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", NODES, control_plane(label))
    assert taint_keys(made) == [CONTROL_PLANE, MASTER]
    assert {wish.actor for wish in declared(gateway).wishes} == {"system:admission"}
    after = await gateway.ok("PATCH", f"{NODES}/cp", {"spec": {"taints": [made["spec"]["taints"][1]]}})
    assert taint_keys(after) == [MASTER]
    again = await gateway.ok("PATCH", f"{NODES}/cp", {"metadata": {"labels": {"more": "1"}}})
    assert taint_keys(again) == [MASTER]


async def test_a_control_plane_node_that_names_one_of_the_taints_has_both_once() -> None:
    gateway = Fixture()
    own = {"key": MASTER, "effect": "NoSchedule"}
    made = await gateway.ok("POST", f"{NODES}?fieldManager=ann", control_plane(MASTER, COLD, own))
    assert taint_keys(made) == ["cold", MASTER, CONTROL_PLANE]
    wishes: tuple[TaintWish, ...] = declared(gateway).wishes
    assert [(wish.generation, wish.actor) for wish in wishes] == [(1, "ann"), (2, "ann"), (3, "system:admission")]


async def test_other_nodes_get_no_taints_of_a_role() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    after = await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"labels": {CONTROL_PLANE: ""}}})
    assert taint_keys(after) == []


async def test_a_node_of_an_external_cloud_is_uninitialized_until_it_has_a_provider_id() -> None:
    gateway = Fixture(settings=Settings(cloud_provider="external"))
    made = await gateway.ok("POST", NODES, node())
    assert made["metadata"]["annotations"] == {"moorage.io/cloud-provider": "external"}
    born = next_taints(None, declared(gateway), {}, NOW)
    assert born is not None
    assert [(taint.key, taint.value, taint.effect) for taint in born.taints] == [
        ("node.cloudprovider.kubernetes.io/uninitialized", "true", "NoSchedule")
    ]
    gateway.log.append(TAINTS, "Node/n1", "Node/n1", born)
    assert taint_keys(await gateway.ok("GET", f"{NODES}/n1")) == ["node.cloudprovider.kubernetes.io/uninitialized"]
    await gateway.ok("PATCH", f"{NODES}/n1", {"spec": {"providerID": "cloud://n1"}})
    initialised = next_taints(born, declared(gateway), {}, later(5))
    assert initialised is not None
    assert initialised.taints == ()
    gateway.log.append(TAINTS, "Node/n1", "Node/n1", initialised)
    after = await gateway.ok("GET", f"{NODES}/n1")
    assert (taint_keys(after), after["spec"]["providerID"]) == ([], "cloud://n1")


async def test_a_node_with_a_provider_id_or_a_word_of_its_own_is_left_alone() -> None:
    gateway = Fixture(settings=Settings(cloud_provider="external"))
    assert "annotations" not in (await gateway.ok("POST", NODES, node("n1", providerID="cloud://n1")))["metadata"]
    own = node("n2")
    own["metadata"]["annotations"] = {"moorage.io/cloud-provider": "none"}
    made = await gateway.ok("POST", NODES, own)
    assert made["metadata"]["annotations"] == {"moorage.io/cloud-provider": "none"}
    plain = await Fixture().ok("POST", NODES, node())
    assert "annotations" not in plain["metadata"]


async def test_scale_reads_and_changes_the_number_alone() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", DEPLOYMENTS, deployment(replicas=2))
    path = f"{DEPLOYMENTS}/web/scale"
    scale = await gateway.ok("GET", path)
    assert scale == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": made["metadata"]["uid"],
            "resourceVersion": made["metadata"]["resourceVersion"],
            "creationTimestamp": "2026-01-01T12:00:00Z",
        },
        "spec": {"replicas": 2},
        "status": {"replicas": 0, "selector": "app=web"},
    }
    after = await gateway.ok("PUT", path, {**scale, "spec": {"replicas": 5}})
    assert after["spec"] == {"replicas": 5}
    stale = await gateway.call("PUT", path, {**scale, "spec": {"replicas": 6}})
    assert (stale.status_code, stale.json()["reason"]) == (409, "Conflict")
    assert (await gateway.ok("PATCH", path, {"spec": {"replicas": 1}}))["spec"] == {"replicas": 1}
    # Go clients leave a zero out.
    assert (await gateway.ok("PUT", path, {"metadata": {"name": "web"}, "spec": {}}))["spec"] == {}
    now = await gateway.ok("GET", f"{DEPLOYMENTS}/web")
    assert now["spec"] == {**made["spec"], "replicas": 0}
    assert now["metadata"]["generation"] == 4


@table(
    ("method", "path", "body", "code", "message"),
    [
        ("PATCH", "web/scale", {"spec": {"replicas": -1}}, 422, 'Scale.autoscaling "web" is invalid: spec.replicas'),
        ("PATCH", "web/scale", {"spec": {"replicas": "many"}}, 422, "cannot unmarshal"),
        ("PATCH", "web/scale", {"spec": {"replicas": 2**31}}, 422, "cannot unmarshal"),
        (
            "PATCH",
            "web/scale",
            {"kind": "Deployment"},
            422,
            'no kind "Deployment" is registered for version "autoscaling/v1"',
        ),
        ("PATCH", "web/scale", {"metadata": 7}, 422, "cannot unmarshal number"),
        ("PATCH", "web/scale", {"metadata": {"name": "other"}}, 400, "the name of the object (other) does not match"),
        (
            "PUT",
            "web/scale",
            {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}},
            400,
            "converting (v1.Deployment) to (autoscaling.Scale): unknown conversion",
        ),
        ("PATCH", "none/scale", {"spec": {"replicas": 1}}, 404, "not found"),
        ("GET", "none/scale", None, 404, "not found"),
        ("DELETE", "web/scale", None, 405, "does not allow"),
        ("GET", "web/nothing", None, 404, "could not find"),
        ("PATCH", "web/scale?dryRun=Some", {"spec": {"replicas": 1}}, 422, "dryRun"),
    ],
)
async def test_bad_scales(method: str, path: str, body: Any, code: int, message: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", DEPLOYMENTS, deployment())
    answer = await gateway.call(method, f"{DEPLOYMENTS}/{path}", body)
    assert answer.status_code == code, answer.text
    assert message in answer.json()["message"]
    assert len(gateway.declared) == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "/apis/cluster.open-cluster-management.io/v1/managedclusters/c1/scale",
            'managedclusters.cluster.open-cluster-management.io "c1" not found',
        ),
        ("/api/v1/nodes/n1/scale", "the server could not find the requested resource"),
    ],
)
async def test_a_kind_without_a_scale_is_told_as_upstream_tells_it(path: str, message: str) -> None:
    answer = await Fixture().call("GET", path)
    assert (answer.status_code, answer.json()["message"]) == (404, message)


async def test_discovery_lists_subresources_and_views() -> None:
    gateway = Fixture()
    apps = {item["name"]: item for item in (await gateway.ok("GET", "/apis/apps/v1"))["resources"]}
    assert apps["deployments/scale"] == {
        "name": "deployments/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }
    assert "daemonsets/scale" not in apps
    core = {item["name"]: item for item in (await gateway.ok("GET", "/api/v1"))["resources"]}
    assert core["nodes/status"]["kind"] == "Node"
    # A real kube-apiserver shows these.
    assert core["pods"]["storageVersionHash"] == "xPOwRZ+Yhw8="
    newer = (await gateway.ok("GET", "/apis/events.k8s.io/v1"))["resources"]
    assert [item["storageVersionHash"] for item in newer] == [core["events"]["storageVersionHash"]] == ["r2yiGXH7wu8="]
    work = (await gateway.ok("GET", "/apis/work.karmada.io/v1alpha2"))["resources"]
    assert [(item["name"], item["shortNames"], item["verbs"]) for item in work] == [
        ("clusterresourcebindings", ["crb"], ["get", "list", "watch"]),
        ("resourcebindings", ["rb"], ["get", "list", "watch"]),
    ]


async def test_the_status_of_a_node_is_changed_by_itself() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", NODES, node(unschedulable=True))
    body = {"status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Mine"}]}, "spec": {"unschedulable": False}}
    after = await gateway.ok("PATCH", f"{NODES}/n1/status", body)
    assert after["status"] == {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}
    assert after["spec"]["unschedulable"] is True
    assert after["metadata"]["generation"] == 1
    assert (await gateway.ok("GET", f"{NODES}/n1/status")) == after
    stale = await gateway.call("PUT", f"{NODES}/n1/status", {**made, "status": {}})
    assert stale.status_code == 409
    emptied = await gateway.ok("PUT", f"{NODES}/n1/status", {**after, "status": {}})
    assert "status" not in emptied


async def test_held_taints_are_shown_and_not_taken_back_in() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", NODES, node())
    lost = "node.kubernetes.io/not-ready"
    held = HeldTaint(key=lost, effect="NoExecute", since=NOW, reason="waits for zone eu/eu-1")
    event = TargetTainted(target=node_ref("n1"), target_uid=made["metadata"]["uid"], generation=1, held=(held,))
    gateway.log.append(TAINTS, "Node/n1", "Node/n1", event)
    shown = await gateway.ok("GET", f"{NODES}/n1")
    assert shown["status"]["heldTaints"] == [
        {"key": lost, "effect": "NoExecute", "since": "2026-01-01T12:00:00Z", "reason": "waits for zone eu/eu-1"}
    ]
    await gateway.ok("PUT", f"{NODES}/n1", {**shown, "metadata": {**shown["metadata"], "labels": {"a": "b"}}})
    assert "status" not in declared(gateway).object
    (taint,) = (await gateway.ok("GET", f"{VIEWS}/taints"))["items"]
    assert taint["metadata"]["name"] == "node.n1:NoExecute:node.kubernetes.io~not-ready"
    assert (taint["status"]["held"], taint["status"]["reason"]) == (True, "waits for zone eu/eu-1")
    gateway.tainted("n1", [(lost, "", "NoExecute")], uid=made["metadata"]["uid"], generation=2)
    (taint,) = (await gateway.ok("GET", f"{VIEWS}/taints"))["items"]
    assert taint["status"]["held"] is False
    gateway.tainted("n1", [], uid=made["metadata"]["uid"], generation=3)
    assert (await gateway.ok("GET", f"{VIEWS}/taints"))["items"] == []
    assert "heldTaints" not in (await gateway.ok("GET", f"{NODES}/n1")).get("status", {})


WORKLOAD = WorkloadRef(kind="ResourceBinding", namespace="shop", name="web-deployment")


def spread(uid: str, state: PlacementState = PlacementState.PLACED, **more: Any) -> WorkloadPlaced:
    return WorkloadPlaced.model_validate(
        {
            "workload": WORKLOAD,
            "uid": "rb-uid",
            "owner": {"kind": "Deployment", "namespace": "shop", "name": "web"},
            "ownerUid": uid,
            "generation": 2,
            "state": state,
            "decidedTime": NOW,
            "policy": "PropagationPolicy/shop/web",
            **more,
        }
    )


async def test_a_resource_binding_shows_where_a_resource_belongs_and_how_it_fares() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", DEPLOYMENTS, deployment(replicas=3))
    uid = made["metadata"]["uid"]
    policy = await gateway.ok("POST", PROPAGATION, propagation(placement={"clusterAffinity": {}}))
    placed = spread(
        uid,
        targets=[
            PlacedTarget(target=cluster_ref("b"), replicas=2, binding_generation=1),
            PlacedTarget(target=cluster_ref("a"), replicas=1, binding_generation=2),
        ],
        leaving=[
            LeavingTarget(
                target=cluster_ref("c"),
                replicas=1,
                binding_generation=1,
                since=NOW,
                until=later(60),
                purge_mode="Gracefully",
                reason="taint hot:NoExecute",
            )
        ],
    )
    gateway.log.append(PLACEMENTS, WORKLOAD.key, "Deployment/shop/web", placed)
    for name in "abc":
        gateway.bound(WORKLOAD, cluster_ref(name))
    gateway.reported(WORKLOAD, cluster_ref("b"), ConditionStatus.TRUE)
    gateway.reported(WORKLOAD, cluster_ref("c"), ConditionStatus.FALSE)
    path = f"{BINDINGS}/namespaces/shop/resourcebindings/web-deployment"
    found = await gateway.ok("GET", path)
    assert (found["apiVersion"], found["kind"]) == ("work.karmada.io/v1alpha2", "ResourceBinding")
    assert found["metadata"]["annotations"] == {
        "propagationpolicy.karmada.io/namespace": "shop",
        "propagationpolicy.karmada.io/name": "web",
    }
    assert found["metadata"]["ownerReferences"][0]["uid"] == uid
    assert found["spec"] == {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": uid},
        "conflictResolution": "Abort",
        "schedulerName": "default-scheduler",
        "replicas": 3,
        "clusters": [{"name": "b", "replicas": 2}, {"name": "a", "replicas": 1}],
        "gracefulEvictionTasks": [
            {
                "fromCluster": "c",
                "purgeMode": "Gracefully",
                "replicas": 1,
                "reason": "TaintUntolerated",
                "message": "taint hot:NoExecute",
                "producer": "TaintManager",
                "gracePeriodSeconds": 60,
                "creationTimestamp": "2026-01-01T12:00:00Z",
            }
        ],
        "placement": policy["spec"]["placement"],
    }
    status = found["status"]
    assert [(item["type"], item["status"], item["reason"]) for item in status["conditions"]] == [
        ("Scheduled", "True", "Success")
    ]
    assert [(item["clusterName"], item["health"]) for item in status["aggregatedStatus"]] == [
        ("a", "Unknown"),
        ("b", "Healthy"),
        ("c", "Unhealthy"),
    ]
    assert (await gateway.ok("GET", f"{BINDINGS}/resourcebindings"))["items"] == [found]
    shown = (await gateway.ok("GET", f"{DEPLOYMENTS}/web"))["status"]
    assert (shown["replicas"], shown["scheduledReplicas"], shown["readyReplicas"]) == (3, 3, 2)
    await gateway.ok("PATCH", f"{PROPAGATION}/web", {"spec": {"placement": {"clusterAffinity": {"exclude": ["c"]}}}})
    assert (await gateway.ok("GET", path))["spec"]["placement"] == {"clusterAffinity": {"exclude": ["c"]}}
    gateway.reported(WORKLOAD, cluster_ref("b"), ConditionStatus.FALSE)
    assert "readyReplicas" not in (await gateway.ok("GET", f"{DEPLOYMENTS}/web"))["status"]
    assert (await gateway.call("POST", f"{BINDINGS}/namespaces/shop/resourcebindings", {})).status_code == 405
    await gateway.ok("DELETE", f"{DEPLOYMENTS}/web")
    gateway.log.append(PLACEMENTS, WORKLOAD.key, "Deployment/shop/web", None)
    assert (await gateway.call("GET", path)).status_code == 404


async def test_a_resource_binding_that_fits_nowhere_says_why() -> None:
    gateway = Fixture()
    data = {"metadata": {"name": "web"}, "data": {"a": "b"}}
    made = await gateway.ok("POST", "/api/v1/namespaces/shop/configmaps", data)
    placed = spread(
        made["metadata"]["uid"],
        PlacementState.PENDING,
        owner={"kind": "ConfigMap", "namespace": "shop", "name": "web"},
        reason="NoClusterFit",
        message="0/3 clusters are available: 3 cluster(s) had untolerated taint {hot: }.",
    )
    gateway.log.append(PLACEMENTS, WORKLOAD.key, "ConfigMap/shop/web", placed)
    found = await gateway.ok("GET", f"{BINDINGS}/namespaces/shop/resourcebindings/web-deployment")
    assert found["spec"]["clusters"] == []
    assert "replicas" not in found["spec"]
    (condition,) = found["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "NoClusterFit")
    assert condition["message"].startswith("0/3 clusters")
    assert "aggregatedStatus" not in found["status"]


async def test_a_resource_that_has_to_leave_and_cannot_is_not_scheduled_though_it_is_somewhere() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", DEPLOYMENTS, deployment())
    target = PlacedTarget(target=cluster_ref("b"), replicas=2, binding_generation=1)
    placed = spread(
        made["metadata"]["uid"],
        targets=[target],
        reason="NoReplacement",
        message="no other cluster fits",
        affinity_name="second",
    )
    gateway.log.append(PLACEMENTS, WORKLOAD.key, "Deployment/shop/web", placed)
    found = await gateway.ok("GET", f"{BINDINGS}/namespaces/shop/resourcebindings/web-deployment")
    assert found["spec"]["clusters"] == [{"name": "b", "replicas": 2}]
    (condition,) = found["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "NoReplacement")
    assert found["status"]["schedulerObservingAffinityName"] == "second"
    assert "lastScheduledTime" not in found["status"]


@pytest.mark.parametrize(
    ("key", "name", "spec"),
    [
        ("eu/eu-1", "eu.eu-1", {"region": "eu", "zone": "eu-1"}),
        ("/", "none", {"region": "", "zone": ""}),
        ("/a", "none.a", {"region": "", "zone": "a"}),
        ("eu/", "eu.none", {"region": "eu", "zone": ""}),
        ("a.b/c", "a.b:c", {"region": "a.b", "zone": "c"}),
        ("none/c", "none:c", {"region": "none", "zone": "c"}),
    ],
)
async def test_zones_show_their_state_and_their_queue(key: str, name: str, spec: Json) -> None:
    gateway = Fixture()
    zone = ZoneChanged(
        zone=key,
        generation=1,
        state=ZoneState.PARTIAL_DISRUPTION,
        nodes=10,
        not_ready=6,
        rate=float("inf"),
        tokens=0.5,
        tokens_time=NOW,
        waiting=1,
        queue=(ZoneWaiting(target="Node/n1", incident=3, since=NOW),),
    )
    gateway.log.append(ZONES, key, FLEET, ZoneChanged.model_validate_json(zone.model_dump_json()))
    found = await gateway.ok("GET", f"{VIEWS}/zones/{name}")
    assert found["spec"] == spec
    status = found["status"]
    assert (status["state"], status["nodes"], status["notReady"]) == ("PartialDisruption", 10, 6)
    assert (status["rate"], status["tokens"], status["waiting"], status["stopped"]) == ("inf", 0.5, 1, False)
    assert [(found["target"], found["incident"], found["since"]) for found in status["queue"]] == [
        ("Node/n1", 3, "2026-01-01T12:00:00Z")
    ]
    gateway.log.append(ZONES, key, FLEET, None)
    assert (await gateway.ok("GET", f"{VIEWS}/zones"))["items"] == []


def counted(budget: str, **more: int) -> BudgetCounted:
    return BudgetCounted.model_validate({"budget": budget, "generation": 1, "countedTime": NOW, "allowed": 0, **more})


@pytest.mark.parametrize(
    ("spec", "desired"),
    [
        ({"minAvailable": 3}, 3),
        ({"minAvailable": "25%"}, 3),
        ({"maxUnavailable": 2}, 7),
        ({"maxUnavailable": "25%"}, 6),
        ({"maxUnavailable": 20}, 0),
    ],
)
async def test_a_disruption_budget_shows_what_is_counted_of_it(spec: Json, desired: int) -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", PDBS, named("web", spec=spec))
    assert made["status"]["disruptionsAllowed"] == 0
    key = "PodDisruptionBudget/shop/web"
    gateway.log.append(BUDGETS, key, FLEET, counted(key, allowed=-1, expected=9, healthy=5, held=2))
    assert (await gateway.ok("GET", f"{PDBS}/web"))["status"] == {
        "observedGeneration": 1,
        "currentHealthy": 5,
        "desiredHealthy": desired,
        "disruptionsAllowed": 0,
        "expectedPods": 9,
        "held": 2,
        "conditions": [
            {
                "type": "DisruptionAllowed",
                "status": "False",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T12:00:00Z",
                "reason": "InsufficientPods",
                "message": "",
            }
        ],
    }
    own = await gateway.ok("GET", f"{VIEWS}/budgets/poddisruptionbudget.shop.web")
    assert (own["status"]["budget"], own["status"]["healthy"]) == (key, 5)


@pytest.mark.parametrize(
    ("kind", "condition", "expected"),
    [("DaemonSet", ("False", "SyncFailed"), 0), ("ReplicaSet", ("False", "InsufficientPods"), 4)],
)
async def test_the_first_pod_of_a_disruption_budget_counts_before_the_governor_has_counted_again(
    kind: str, condition: tuple[str, str], expected: int
) -> None:
    gateway = Fixture()
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await gateway.ok("POST", PDBS, named("web", spec=spec))
    key = "PodDisruptionBudget/shop/web"

    async def shown() -> tuple[tuple[str, str], int]:
        status = (await gateway.ok("GET", f"{PDBS}/web"))["status"]
        (found,) = status["conditions"]
        return (found["status"], found["reason"]), status["expectedPods"]

    gateway.log.append(BUDGETS, key, FLEET, counted(key))
    assert await shown() == (("False", "InsufficientPods"), 0)
    owner = WorkloadRef(kind=kind, namespace="shop", name="web")
    declared = {"kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 4}}
    gateway.log.append(RESOURCES, f"{kind}/shop/web", "", ResourceDeclared(object=declared, version=1))
    for number in range(4):
        pod = WorkloadRef(kind="Pod", namespace="shop", name=f"web-{number}")
        gateway.bound(pod, node_ref("n1"), owner=owner, labels={"app": "web"})
    assert await shown() == (condition, expected)
    gateway.log.append(BUDGETS, key, FLEET, counted(key, generation=2, expected=4, healthy=3))
    assert (await shown())[1] == 4
    assert (await shown())[0] == ("False", "InsufficientPods"), "the governor also counts what it has granted"


async def test_eviction_budgets_and_rates_show_what_is_counted_of_them() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", BUDGETS_PATH, named("slow", spec={"maxConcurrent": 1}))
    assert "status" not in made
    key = "EvictionBudget//slow"
    gateway.log.append(BUDGETS, key, FLEET, counted(key, allowed=1, inProgress=2, inWindow=3, held=4))
    gateway.log.append(BUDGETS, "resource-eviction-rate", FLEET, counted("resource-eviction-rate"))
    assert (await gateway.ok("GET", f"{BUDGETS_PATH}/slow"))["status"] == {
        "allowed": 1,
        "inProgress": 2,
        "inWindow": 3,
        "held": 4,
        "countedTime": "2026-01-01T12:00:00Z",
    }
    names = [item["metadata"]["name"] for item in (await gateway.ok("GET", f"{VIEWS}/budgets"))["items"]]
    assert names == ["evictionbudget.slow", "resource-eviction-rate"]


FRIDAY = {"cron": "0 22 * * 5", "timeZone": "Europe/Berlin", "duration": "8h"}
GROUP = "/apis/moorage.io/v1alpha1"


async def test_guards_with_a_schedule_show_whether_they_hold() -> None:
    gateway = Fixture()
    await gateway.ok("POST", BUDGETS_PATH, named("slow", spec={"maxConcurrent": 1, "schedule": FRIDAY}))
    pauses = f"{GROUP}/evictionpauses"
    await gateway.ok("POST", pauses, named("friday", spec={"schedule": FRIDAY, "reasons": ["Drain"]}))
    for key in ("EvictionBudget//slow", "EvictionPause//friday"):
        found = {**counted(key, allowed=9).model_dump(mode="json", by_alias=True), "active": False, "changesTime": NOW}
        gateway.log.append(BUDGETS, key, FLEET, BudgetCounted.model_validate(found))
    shown = (await gateway.ok("GET", f"{BUDGETS_PATH}/slow"))["status"]
    assert "allowed" not in shown
    assert (shown["active"], shown["changesTime"]) == (False, "2026-01-01T12:00:00Z")
    found = (await gateway.ok("GET", f"{pauses}/friday"))["status"]
    assert found == {"held": 0, "active": False, "changesTime": "2026-01-01T12:00:00Z"}


async def test_a_maintenance_shows_its_targets_and_what_holds_them() -> None:
    gateway = Fixture()
    path = f"{GROUP}/maintenances"
    window = {"start": "2026-01-01T12:00:00Z", "duration": "2h"}
    made = await gateway.ok("POST", path, named("kernel", spec={"window": window, "maxAtOnce": 2}))
    targets = [
        {"name": "n1", "stage": "Done", "since": NOW},
        {"name": "n2", "stage": "Draining", "since": NOW, "heldBy": ["Pod/shop/db-0 (PodDisruptionBudget/shop/db)"]},
    ]
    event = MaintenanceProgressed.model_validate(
        {
            "name": "kernel",
            "uid": made["metadata"]["uid"],
            "generation": 1,
            "kind": "Node",
            "phase": "Running",
            "beginTime": NOW,
            "targets": targets,
        }
    )
    gateway.log.append(MAINTENANCES, "kernel", FLEET, event)
    status = (await gateway.ok("GET", f"{path}/kernel"))["status"]
    assert (status["phase"], status["counts"]) == ("Running", {"Done": 1, "Draining": 1})
    assert status["targets"][1]["heldBy"] == ["Pod/shop/db-0 (PodDisruptionBudget/shop/db)"]


async def test_webhooks_show_how_they_fare() -> None:
    gateway = Fixture()
    path, key = "/apis/moorage.io/v1alpha1/webhooks", "Webhook//ops"
    made = await gateway.ok("POST", path, named("ops", spec={"url": "https://example.com", "secretFile": "ops"}))
    uid = made["metadata"]["uid"]

    async def shown(**parts: Any) -> tuple[dict[str, Any], dict[str, tuple[str, str]]]:
        status = WebhookStatusChanged.model_validate({"uid": uid, "generation": 1, "writtenTime": NOW} | parts)
        gateway.log.append(WEBHOOK_STATUSES, key, FLEET, status)
        found = (await gateway.ok("GET", f"{path}/ops")).get("status", {})
        return found, {one["type"]: (one["status"], one["reason"]) for one in found.get("conditions", ())}

    assert (await shown())[1] == {"Delivering": ("Unknown", "NothingSent"), "Disabled": ("False", "ReceiverThere")}
    found, conditions = await shown(
        lastSuccessTime=NOW,
        lastFailureTime=NOW + timedelta(seconds=1),
        failingSince=NOW + timedelta(seconds=1),
        failure="the receiver answered 500",
        backlog=7,
    )
    assert conditions["Delivering"] == ("False", "AttemptsFail")
    assert found["conditions"][0]["message"] == "the receiver answered 500"
    assert found["conditions"][0]["lastTransitionTime"] == "2026-01-01T12:00:01Z"
    assert (found["backlog"], found["lastSuccessTime"]) == (7, "2026-01-01T12:00:00Z")
    assert (found["lastFailureTime"], found["observedGeneration"]) == ("2026-01-01T12:00:01Z", 1)
    assert (await shown(deliveringSince=NOW, lastSuccessTime=NOW))[1]["Delivering"] == ("True", "Taken")
    _, conditions = await shown(disabledTime=NOW)
    assert conditions == {"Delivering": ("False", "Disabled"), "Disabled": ("True", "ReceiverGone")}
    assert (await shown(missedSince=NOW))[1]["DeletionsMissed"] == ("True", "StoodStill")
    assert await shown(uid="of an earlier one") == ({}, {})


async def test_a_held_eviction_says_what_holds_it() -> None:
    gateway = Fixture()
    workload, target = pod_ref("web-0"), node_ref("n1")
    event = EvictionDecided(
        workload=workload,
        owner=workload,
        target=target,
        generation=3,
        revision=2,
        state=EvictionState.HELD,
        held_by=("EvictionBudget/slow", "EvictionPause/all"),
        purge_mode="Gracefully",
        message="held by EvictionBudget/slow",
        decided_time=NOW,
    )
    await gateway.ok("POST", PAUSES, named("all"))
    key = eviction_key(workload, target, 3)
    gateway.log.append(EVICTIONS, key, target.key, event)
    assert (await gateway.ok("GET", f"{PAUSES}/all"))["status"] == {"held": 1}
    found = await gateway.ok("GET", f"{VIEWS}/namespaces/default/evictions/web-0:node.n1:3")
    status = found["status"]
    assert (status["state"], status["heldBy"]) == ("Held", ["EvictionBudget/slow", "EvictionPause/all"])
    assert (status["message"], status["purgeMode"]) == ("held by EvictionBudget/slow", "Gracefully")
    changed = event.model_copy(update={"held_by": ("EvictionBudget/slow",), "revision": 3})
    gateway.log.append(EVICTIONS, key, target.key, changed)
    assert (await gateway.ok("GET", f"{PAUSES}/all"))["status"] == {"held": 0}
    gateway.log.append(EVICTIONS, key, target.key, None)
    assert gateway.store.tables.index(PauseIndex).held == {}


async def test_a_webhook_is_written_changed_and_refused_with_field_value_and_rule() -> None:
    gateway, path = Fixture(), "/apis/moorage.io/v1alpha1/webhooks"
    spec = {"url": "https://hooks.example.com/a", "secretFile": "ops", "targets": ["Node/*"]}
    made = await gateway.ok("POST", path, named("ops", spec=spec))
    assert made["spec"] == spec
    times = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}
    merge = {"content-type": "application/merge-patch+json"}
    answer = await gateway.call("PATCH", f"{path}/ops", {"spec": {"replay": times}}, headers=merge)
    assert answer.json()["spec"] == spec | {"replay": times}
    for fields, message in (
        ({"url": "http://hooks.example.com"}, 'spec.url: Invalid value: "http://hooks.example.com": must be https'),
        ({"events": ["pods"]}, "spec.events[0]"),
        ({"timeoutSeconds": 61}, "spec.timeoutSeconds"),
        ({"secret": "x"}, "secret"),
    ):
        refused = await gateway.call("POST", path, named("bad", spec=spec | fields))
        assert refused.status_code in {400, 422}, refused.text
        assert message in refused.json()["message"]


def test_the_kinds_of_workloads_are_those_that_are_served() -> None:
    served_kinds = {kind.kind: kind for kind in kinds.declared()}
    assert set(PROPAGATED) <= set(served_kinds)
    for one in WORKLOAD_KINDS:
        assert served_kinds[one.kind].scaled == one.scaled, one.kind
        assert served_kinds[one.kind].in_all == (one.makes_pods or one.kind == "Pod"), one.kind


async def test_the_number_of_replicas_is_written_out() -> None:
    gateway = Fixture()
    body = deployment()
    del body["spec"]["replicas"]
    assert (await gateway.ok("POST", DEPLOYMENTS, body))["spec"]["replicas"] == 1
