"""Open Cluster Management's kinds in the API: what is refused, how accepted objects are stored, what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from tests.component.gateway.double import NOW, Fixture, Json, later
from tests.support.tables import table

from moorage.apiserver.http.messages.selectors import selector
from moorage.apiserver.http.verbs import watch
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.managed_clusters import CLUSTER_SET
from moorage_schemas.placement import DecisionGroupStatus, PlacementCondition, PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import AUDIT, PLACEMENTS, RESOURCES, TAINTS

GROUP = "/apis/cluster.open-cluster-management.io"
CLUSTERS = f"{GROUP}/v1/managedclusters"
SETS = f"{GROUP}/v1beta2/managedclustersets"
OLDER_SETS = f"{GROUP}/v1beta1/managedclustersets"
BINDINGS = f"{GROUP}/v1beta2/namespaces/shop/managedclustersetbindings"
PLACED = f"{GROUP}/v1beta1/namespaces/shop/placements"
OLDER_PLACED = f"{GROUP}/v1alpha1/namespaces/shop/placements"
DECISIONS = f"{GROUP}/v1beta1/namespaces/shop/placementdecisions"
SCORES = f"{GROUP}/v1alpha1/namespaces/c1/addonplacementscores"
ADD_ONS = "/apis/addon.open-cluster-management.io/v1alpha1/namespaces/c1/managedclusteraddons"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/c1/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SET_LABEL = "cluster.open-cluster-management.io/clusterset"
OF = "cluster.open-cluster-management.io/placement"
FEATURE = "feature.open-cluster-management.io/addon-"


def named(name: str = "x", **parts: Any) -> Json:
    return {"metadata": {"name": name}, **parts}


def placement(**spec: Any) -> Json:
    return named("web", spec=spec)


def predicate(**selector: Any) -> Json:
    return placement(predicates=[{"requiredClusterSelector": selector}])


def policy(**config: Any) -> Json:
    return placement(prioritizerPolicy={"configurations": [config]})


def group(**strategy: Any) -> Json:
    return placement(decisionStrategy={"groupStrategy": strategy})


def cluster(name: str = "c1", labels: Json | None = None, **parts: Any) -> Json:
    return {"metadata": {"name": name, **({"labels": labels} if labels is not None else {})}, **parts}


def declared(gateway: Fixture) -> ResourceDeclared:
    event = gateway.declared[-1].event
    assert isinstance(event, ResourceDeclared)
    return event


def ref(kind: str, name: str) -> WorkloadRef:
    return WorkloadRef(kind=kind, namespace="shop", name=name)


async def names(gateway: Fixture, path: str, **query: str) -> list[str]:
    return [item["metadata"]["name"] for item in (await gateway.ok("GET", path, params=query))["items"]]


def tainted(gateway: Fixture, uid: str, labels: dict[str, str], *, generation: int = 1) -> None:
    """Write the taint-manager's record of the cluster c1."""
    target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name="c1")
    record = TaintRecord(key="u", effect="NoSelect", time_added=NOW, origins=(TaintOrigin.SYSTEM,))
    event = TargetTainted(target=target, target_uid=uid, generation=generation, taints=(record,), labels=labels)
    gateway.log.append(TAINTS, target.key, target.key, event)


def decided(gateway: Fixture, uid: str, pages: Sequence[Sequence[str]]) -> None:
    """Write placement's records of the placement `web`."""
    owner = ref("Placement", "web")
    whose = {"owner": owner, "owner_uid": uid, "generation": 1, "decided_time": NOW, "state": PlacementState.PLACED}
    titles = [f"web-decision-{number}" for number in range(1, len(pages) + 1)]
    for title, page in zip(titles, pages, strict=True):
        workload = ref("PlacementDecision", title)
        labels = {OF: "web", "cluster.open-cluster-management.io/decision-group-index": "0"}
        event = WorkloadPlaced(
            workload=workload, uid=f"uid-{title}", clusters=tuple(page), added=tuple(page), labels=labels, **whose
        )
        gateway.log.append(PLACEMENTS, workload.key, owner.key, event)
    count = sum(map(len, pages))
    event = WorkloadPlaced(
        workload=owner,
        uid=uid,
        selected=count,
        decision_groups=(DecisionGroupStatus(index=0, name="", decisions=tuple(titles), clusters=count),),
        conditions=(
            PlacementCondition(
                type="PlacementSatisfied",
                status="True",
                reason="AllDecisionsScheduled",
                message="all",
                last_transition_time=NOW,
            ),
        ),
        **whose,
    )
    gateway.log.append(PLACEMENTS, owner.key, owner.key, event)


# Admission

EXPRESSION = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
IN_GROUP = "spec.decisionStrategy.groupStrategy.decisionGroups[0].groupClusterSelector"
TAINTED = {"taints": [{"key": "a", "effect": "NoSchedule"}]}


@table(
    ("path", "body", "field", "message"),
    [
        (CLUSTERS, named("a.b"), "metadata.name", 'Invalid value: "a.b": '),
        (CLUSTERS, named("UPPER"), "metadata.name", 'Invalid value: "UPPER": '),
        (CLUSTERS, named(spec=TAINTED), "spec.taints[0].effect", '"NoSelect", "PreferNoSelect", "NoSelectIfNew"'),
        (CLUSTERS, named(spec={"leaseDurationSeconds": -1}), "spec.leaseDurationSeconds", "Invalid value: -1"),
        (
            CLUSTERS,
            named(spec={"managedClusterClientConfigs": [{"url": "http://a"}]}),
            "spec.managedClusterClientConfigs[0].url",
            'Invalid value: "http://a": must be a valid HTTPS address',
        ),
        (CLUSTERS, named(status={"allocatable": {"cpu": "many"}}), "status.allocatable[cpu]", 'Invalid value: "many"'),
        (CLUSTERS, named(status={"clusterClaims": [{"name": ""}]}), "status.clusterClaims[0].name", "Required value"),
        (
            SETS,
            named(spec={"clusterSelector": {"selectorType": "LegacyClusterSetLabel"}}),
            "spec.clusterSelector.selectorType",
            'supported values: "ExclusiveClusterSetLabel", "LabelSelector"',
        ),
        (
            SETS,
            named(spec={"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": EXPRESSION}}),
            "spec.clusterSelector.labelSelector.matchExpressions[0].operator",
            'Invalid value: "Near"',
        ),
        (SETS, named("s" * 64), "metadata.name", "must be no more than 63 characters"),
        (BINDINGS, named(), "spec.clusterSet", "Required value"),
        (BINDINGS, named("a", spec={"clusterSet": "b"}), "spec.clusterSet", 'Invalid value: "b": must be the name of'),
        (PLACED, named("p" * 64, spec={}), "metadata.name", "must be no more than 63 characters"),
        (PLACED, placement(clusterSets=["A"]), "spec.clusterSets[0]", 'Invalid value: "A"'),
        (PLACED, placement(numberOfClusters=-1), "spec.numberOfClusters", "Invalid value: -1: must be from 0 to"),
        (
            PLACED,
            predicate(labelSelector=EXPRESSION),
            "spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0].operator",
            'Invalid value: "Near"',
        ),
        (
            PLACED,
            predicate(claimSelector=EXPRESSION),
            "spec.predicates[0].requiredClusterSelector.claimSelector.matchExpressions[0].operator",
            'Invalid value: "Near"',
        ),
        (PLACED, placement(prioritizerPolicy={"mode": "Some"}), "spec.prioritizerPolicy.mode", '"Additive", "Exact"'),
        (
            PLACED,
            policy(scoreCoordinate={"builtIn": "Steady"}, weight=11),
            "spec.prioritizerPolicy.configurations[0].weight",
            "should be less than or equal to 10",
        ),
        (
            PLACED,
            policy(scoreCoordinate={"builtIn": "Luck"}),
            "spec.prioritizerPolicy.configurations[0].scoreCoordinate.builtIn",
            'Unsupported value: "Luck"',
        ),
        (
            OLDER_PLACED,
            policy(name="Luck"),
            "spec.prioritizerPolicy.configurations[0].name",
            'Unsupported value: "Luck"',
        ),
        (PLACED, policy(), "spec.prioritizerPolicy.configurations[0].scoreCoordinate", "Required value"),
        (
            PLACED,
            policy(scoreCoordinate={"type": "Own"}),
            "spec.prioritizerPolicy.configurations[0].scoreCoordinate.type",
            'supported values: "BuiltIn", "AddOn"',
        ),
        (
            PLACED,
            policy(scoreCoordinate={"type": "AddOn"}),
            "spec.prioritizerPolicy.configurations[0].scoreCoordinate.addOn",
            "Required value",
        ),
        (
            PLACED,
            policy(scoreCoordinate={"type": "AddOn", "addOn": {"resourceName": "r"}}),
            "spec.prioritizerPolicy.configurations[0].scoreCoordinate.addOn.scoreName",
            "Required value",
        ),
        (
            PLACED,
            placement(tolerations=[{"key": "a", "operator": "Gt", "value": "1"}]),
            "spec.tolerations[0].operator",
            'Unsupported value: "Gt"',
        ),
        (
            PLACED,
            placement(tolerations=[{"key": "a", "effect": "NoExecute"}]),
            "spec.tolerations[0].effect",
            'Unsupported value: "NoExecute"',
        ),
        (
            PLACED,
            group(decisionGroups=[{"groupName": "-", "groupClusterSelector": {}}]),
            "spec.decisionStrategy.groupStrategy.decisionGroups[0].groupName",
            'Invalid value: "-"',
        ),
        (
            PLACED,
            group(clustersPerDecisionGroup="101%"),
            "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup",
            'Invalid value: "101%"',
        ),
        (
            PLACED,
            group(decisionGroups=[{"groupName": "ab", "groupClusterSelector": {"labelSelector": EXPRESSION}}]),
            f"{IN_GROUP}.labelSelector.matchExpressions[0].operator",
            'Invalid value: "Near"',
        ),
        (SCORES, named(status={"scores": [{"name": "a", "value": 101}]}), "status.scores[0].value", "-100 to 100"),
        (SCORES, named(status={"scores": [{"name": "a"}, {"name": "a"}]}), "status.scores[1].name", "Duplicate value"),
        (ADD_ONS, named("a.b", spec={}), "metadata.name", 'Invalid value: "a.b"'),
        (ADD_ONS, named("a" * 58, spec={}), "metadata.name", "must be no more than 57 characters"),
        (ADD_ONS, named(spec={"installNamespace": "A"}), "spec.installNamespace", 'Invalid value: "A"'),
        (LEASES, named(spec={"leaseDurationSeconds": 0}), "spec.leaseDurationSeconds", "Invalid value: 0"),
        (f"{RBAC}/clusterroles", named("a/b"), "metadata.name", "may not contain '/'"),
        (f"{RBAC}/clusterroles", named(rules=[{"resources": ["a"]}]), "rules[0].verbs", "Required value"),
        (
            f"{RBAC}/namespaces/shop/roles",
            named(rules=[{"verbs": ["get"], "nonResourceURLs": ["/a"]}]),
            "rules[0].nonResourceURLs",
            "namespaced rules cannot apply",
        ),
        (f"{RBAC}/clusterrolebindings", named(), "roleRef.name", "Required value"),
        (
            f"{RBAC}/namespaces/shop/rolebindings",
            named(roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "Cat", "name": "c"}]),
            "subjects[0].kind",
            'Unsupported value: "Cat"',
        ),
    ],
)
async def test_invalid_objects_name_field_value_and_rule(path: str, body: Json, field: str, message: str) -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", path, body)
    assert answer.status_code == 422, answer.text
    causes = {cause["field"]: cause["message"] for cause in answer.json()["details"]["causes"]}
    assert message in causes[field], causes
    assert not gateway.declared


@table(
    ("path", "body"),
    [
        (CLUSTERS, named(spec={"hubAcceptsClient": True, "managedClusterClientConfigs": [{"url": "https://a:1"}]})),
        (OLDER_SETS, named(spec={"clusterSelector": {"selectorType": "LegacyClusterSetLabel"}})),
        (f"{GROUP}/v1alpha1/managedclustersets", named()),
        (SETS, named(spec={"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}})),
        (BINDINGS, named("s", spec={"clusterSet": "s"})),
        (PLACED, placement()),
        (OLDER_PLACED, policy(name="Balance", weight=-10)),
        (PLACED, policy(scoreCoordinate={"builtIn": "ResourceAllocatableCPU"})),
        (PLACED, predicate(celSelector={"celExpressions": ["managedCluster.metadata.name == 'a'"]})),
        (PLACED, placement(tolerations=[{"operator": "Exists", "tolerationSeconds": 5}])),
        (
            PLACED,
            group(decisionGroups=[{"groupName": "ab", "groupClusterSelector": {}}], clustersPerDecisionGroup="25%"),
        ),
        (PLACED, group(clustersPerDecisionGroup=3)),
        (PLACED, group(clustersPerDecisionGroup=0)),
        (f"{RBAC}/clusterroles", named("system:a", rules=[{"verbs": ["get"], "apiGroups": [""], "resources": ["a"]}])),
    ],
)
async def test_what_is_right_is_taken(path: str, body: Json) -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", path, body)
    assert f"/{made['apiVersion']}/" in path


async def test_all_versions_show_one_object_each_in_its_own_words() -> None:
    gateway = Fixture()
    selector_type = {"clusterSelector": {"selectorType": "LegacyClusterSetLabel"}}
    made = await gateway.ok("POST", OLDER_SETS, named("s", spec=selector_type))
    assert made["apiVersion"].endswith("/v1beta1")
    assert made["spec"] == selector_type
    today = await gateway.ok("GET", f"{SETS}/s")
    assert today["apiVersion"].endswith("/v1beta2")
    assert today["spec"]["clusterSelector"]["selectorType"] == "ExclusiveClusterSetLabel"
    changed = await gateway.ok("PATCH", f"{SETS}/s", {"metadata": {"labels": {"a": "b"}}})
    assert changed["metadata"]["labels"] == {"a": "b"}
    older = await gateway.ok("GET", f"{GROUP}/v1alpha1/managedclustersets")
    assert {item["apiVersion"] for item in older["items"]} == {"cluster.open-cluster-management.io/v1alpha1"}
    await gateway.ok("PUT", f"{OLDER_SETS}/s", {**changed, "apiVersion": made["apiVersion"], "spec": {}})
    assert declared(gateway).object["apiVersion"].endswith("/v1beta2")
    kind = ServedKind(CLUSTER_SET, "v1beta1")
    asked = watch.Watch(kind=kind, namespace="", selected=selector("", "metadata.name=s"), version=0, timeout=0)
    lines = b"".join([line async for line in watch.events(gateway.store, asked, 0)]).splitlines()
    shown = [orjson.loads(line)["object"]["apiVersion"] for line in lines]
    assert shown
    assert set(shown) == {made["apiVersion"]}


# Sets


@pytest.mark.parametrize("name", ["default", "global"])
async def test_built_in_sets_are_always_there_and_stay_as_they_are(name: str) -> None:
    gateway = Fixture()
    found = await gateway.ok("GET", f"{SETS}/{name}")
    assert found["status"]["conditions"][0]["status"] == "True"
    answers = [
        await gateway.call("POST", SETS, named(name)),
        await gateway.call("PUT", f"{SETS}/{name}", found),
        await gateway.call("PATCH", f"{SETS}/{name}", {"spec": {"clusterSelector": {"selectorType": "LabelSelector"}}}),
        await gateway.call("DELETE", f"{SETS}/{name}"),
    ]
    assert [answer.status_code for answer in answers] == [409, 403, 403, 403]
    assert f'"{name}" is forbidden: this set is built in and may not be deleted' in answers[-1].json()["message"]
    assert not gateway.declared


async def test_a_set_says_how_many_clusters_it_has() -> None:
    gateway = Fixture()

    async def counted(name: str) -> str:
        (condition,) = (await gateway.ok("GET", f"{SETS}/{name}"))["status"]["conditions"]
        assert condition["type"] == "ClusterSetEmpty"
        assert (condition["status"] == "True") == (condition["reason"] == "NoClusterMatched")
        message: str = condition["message"]
        return message

    await gateway.ok("POST", CLUSTERS, cluster("c1"))
    await gateway.ok("POST", CLUSTERS, cluster("c2", {SET_LABEL: "s", "tier": "gold"}))
    assert await counted("default") == "1 ManagedClusters selected"
    assert await counted("global") == "2 ManagedClusters selected"
    await gateway.ok("POST", SETS, named("s"))
    gold = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"tier": "gold"}}}
    await gateway.ok("POST", SETS, named("gold", spec={"clusterSelector": gold}))
    assert await counted("s") == await counted("gold") == "1 ManagedClusters selected"
    # Without its label a cluster returns to the default set.
    moved = await gateway.ok("PATCH", f"{CLUSTERS}/c2", {"metadata": {"labels": {SET_LABEL: None}}})
    assert moved["metadata"]["labels"][SET_LABEL] == "default"
    assert await counted("s") == "No ManagedCluster selected"
    assert await counted("default") == "2 ManagedClusters selected"
    await gateway.ok("PATCH", f"{SETS}/gold", {"spec": {"clusterSelector": {"labelSelector": {"matchLabels": None}}}})
    assert await counted("gold") == "2 ManagedClusters selected"
    await gateway.ok("DELETE", f"{CLUSTERS}/c2")
    assert await counted("gold") == await counted("default") == "1 ManagedClusters selected"
    assert await names(gateway, SETS) == ["default", "global", "gold", "s"]
    assert await names(gateway, CLUSTERS, labelSelector=f"{SET_LABEL}=default") == ["c1"]


async def test_a_binding_says_whether_its_set_exists() -> None:
    gateway = Fixture()

    async def bound() -> tuple[str, str]:
        (condition,) = (await gateway.ok("GET", f"{BINDINGS}/s"))["status"]["conditions"]
        return condition["status"], condition["reason"]

    await gateway.ok("POST", BINDINGS, named("s", spec={"clusterSet": "s"}))
    assert await bound() == ("False", "ClusterSetNotFound")
    await gateway.ok("POST", SETS, named("s"))
    assert await bound() == ("True", "ClusterSetBound")
    await gateway.ok("DELETE", f"{SETS}/s")
    assert await bound() == ("False", "ClusterSetNotFound")
    built_in = await gateway.ok("POST", BINDINGS, named("global", spec={"clusterSet": "global"}))
    assert built_in["status"]["conditions"][0]["reason"] == "ClusterSetBound"


async def test_a_gateway_that_starts_again_shows_the_same() -> None:
    gateway = Fixture()
    await gateway.ok("POST", CLUSTERS, cluster("c1", {SET_LABEL: "s"}))
    await gateway.ok("POST", SETS, named("s"))
    await gateway.ok("POST", BINDINGS, named("s", spec={"clusterSet": "s"}))
    again = Fixture(ready=False)
    for write in reversed(gateway.declared):
        again.log.append(write.topic, write.key, write.partition_key, write.event, write.meta)
    again.begin()
    for path in (SETS, BINDINGS, CLUSTERS):
        first, second = [(await one.ok("GET", path))["items"] for one in (gateway, again)]
        shown = [[(item["metadata"]["name"], item.get("status")) for item in items] for items in (first, second)]
        assert shown[0] == shown[1]


# Managed clusters


async def test_a_cluster_that_names_a_set_which_is_not_there_is_told_so() -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", CLUSTERS, cluster("c1", {SET_LABEL: "s"}))
    assert "names 's', and there is no such set" in answer.headers["warning"]
    await gateway.ok("POST", SETS, named("s"))
    assert (
        "warning" not in (await gateway.call("PATCH", f"{CLUSTERS}/c1", {"spec": {"leaseDurationSeconds": 1}})).headers
    )
    assert "warning" not in (await gateway.call("POST", CLUSTERS, cluster("c2"))).headers


async def test_when_a_taint_was_added_is_the_systems_to_say() -> None:
    gateway = Fixture()
    taint = {"key": "gpu", "value": "true", "effect": "NoSelect", "timeAdded": "2020-01-01T00:00:00Z"}
    answer = await gateway.call("POST", CLUSTERS, cluster(spec={"taints": [taint]}))
    shown = next(one for one in answer.json()["spec"]["taints"] if one["key"] == "gpu")
    assert shown["timeAdded"] == "2026-01-01T12:00:00Z"
    assert "spec.taints[0].timeAdded is set by the system" in answer.headers["warning"]
    gateway.clock.time = later(60)
    other = {"key": "b", "effect": "PreferNoSelect", "timeAdded": "2020-01-01T00:00:00Z"}
    answer = await gateway.call("PATCH", f"{CLUSTERS}/c1", {"spec": {"taints": [shown, other]}})
    times = {one["key"]: one["timeAdded"] for one in answer.json()["spec"]["taints"]}
    assert (times["gpu"], times["b"]) == ("2026-01-01T12:00:00Z", "2026-01-01T12:01:00Z")
    assert "spec.taints[1]" in answer.headers["warning"]
    assert "spec.taints[0]" not in answer.headers["warning"]


async def test_labels_that_the_system_keeps_are_shown_and_not_stored() -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", CLUSTERS, cluster(labels={f"{FEATURE}metrics": "available", "a": "b"}))
    assert answer.json()["metadata"]["labels"] == {SET_LABEL: "default", "a": "b"}
    assert f"{FEATURE}metrics is maintained by the system" in answer.headers["warning"]
    uid = answer.json()["metadata"]["uid"]
    tainted(gateway, uid, {f"{FEATURE}metrics": "available"})
    assert await names(gateway, CLUSTERS, labelSelector=f"{FEATURE}metrics=available") == ["c1"]
    found = await gateway.ok("GET", f"{CLUSTERS}/c1")
    assert found["spec"]["taints"][0]["key"] == "u"
    # Labels that are read and written back are not stored and cause no warning.
    answer = await gateway.call("PUT", f"{CLUSTERS}/c1", {**found, "spec": {**found["spec"], "hubAcceptsClient": True}})
    assert "warning" not in answer.headers
    assert f"{FEATURE}metrics" not in declared(gateway).object["metadata"]["labels"]
    # A set that selects by such a label contains the cluster.
    selects = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {f"{FEATURE}metrics": "available"}}}
    made = await gateway.ok("POST", SETS, named("metered", spec={"clusterSelector": selects}))
    assert made["status"]["conditions"][0]["status"] == "False"
    tainted(gateway, uid, {f"{FEATURE}metrics": "unreachable"}, generation=2)
    assert (await gateway.ok("GET", f"{SETS}/metered"))["status"]["conditions"][0]["status"] == "True"


async def test_an_add_on_shows_what_its_lease_says() -> None:
    gateway = Fixture()
    uid = (await gateway.ok("POST", CLUSTERS, cluster()))["metadata"]["uid"]
    made = await gateway.ok("POST", ADD_ONS, named("metrics", spec={}, status={"conditions": []}))
    assert "status" not in made
    for generation, (state, status) in enumerate(
        (("available", "True"), ("unhealthy", "False"), ("unreachable", "Unknown")), start=1
    ):
        tainted(gateway, uid, {f"{FEATURE}metrics": state}, generation=generation)
        (condition,) = (await gateway.ok("GET", f"{ADD_ONS}/metrics"))["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Available", status)


async def test_the_renewal_of_a_lease_is_written_and_not_audited() -> None:
    gateway = Fixture()
    spec = {"holderIdentity": "agent", "leaseDurationSeconds": 60, "renewTime": "2026-01-01T12:00:00.000000Z"}
    await gateway.ok("POST", LEASES, named("metrics", spec=spec))
    renewed = {"spec": {"renewTime": "2026-01-01T12:01:00.000000Z"}}
    shown = await gateway.ok("PATCH", f"{LEASES}/metrics", renewed)
    assert shown["spec"]["renewTime"] == "2026-01-01T12:01:00.000000Z"
    taken = {"spec": {"holderIdentity": "other", "renewTime": "2026-01-01T12:02:00.000000Z"}}
    await gateway.ok("PATCH", f"{LEASES}/metrics", taken)
    await gateway.ok("PATCH", f"{LEASES}/metrics", {"metadata": {"labels": {"a": "b"}}})
    await gateway.ok("DELETE", f"{LEASES}/metrics")
    assert [write.topic for write in gateway.log.written] == [RESOURCES, AUDIT, RESOURCES, *[RESOURCES, AUDIT] * 3]


async def test_scores_are_taken_with_their_status() -> None:
    gateway = Fixture()
    status = {"scores": [{"name": "cpu", "value": -100}], "validUntil": "2026-02-01T00:00:00Z"}
    made = await gateway.ok("POST", SCORES, named("own", status=status))
    assert made["status"] == status
    after = await gateway.ok("PATCH", f"{SCORES}/own/status", {"status": {"scores": [{"name": "cpu", "value": 7}]}})
    assert after["status"]["scores"] == [{"name": "cpu", "value": 7}]
    assert after["status"]["validUntil"] == status["validUntil"]


async def test_roles_are_kept_without_a_warning() -> None:
    gateway = Fixture()
    rules = [{"apiGroups": ["g"], "resources": ["managedclustersets/bind"], "verbs": ["create"]}]
    answer = await gateway.call("POST", f"{RBAC}/clusterroles", named("r", rules=rules))
    assert answer.status_code == 201
    assert "warning" not in answer.headers
    assert (await gateway.ok("GET", f"{RBAC}/clusterroles/r"))["rules"] == rules


# Placements and their decisions


async def test_what_has_no_effect_is_told() -> None:
    gateway = Fixture()
    spread = {"spreadConstraints": [{"topologyKey": "zone", "topologyKeyType": "Label"}]}
    answer = await gateway.call("POST", PLACED, placement(spreadPolicy=spread))
    assert answer.status_code == 201
    assert "spec.spreadPolicy has no effect" in answer.headers["warning"]


@pytest.mark.parametrize(
    ("toleration", "told"),
    [
        ({}, 'spec.tolerations[0].operator: Invalid value: "": operator must be Exists'),
        ({"key": "a", "operator": "Exists", "value": "b"}, "value must be empty when"),
    ],
)
async def test_a_placement_that_is_misconfigured_by_a_toleration_is_taken_with_a_warning(
    toleration: dict[str, str], told: str
) -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", PLACED, placement(tolerations=[toleration]))
    assert answer.status_code == 201, answer.text
    assert "the placement is misconfigured" in answer.headers["warning"]
    assert told.split('"', maxsplit=1)[0] in answer.headers["warning"]
    refused = await gateway.call("POST", PLACED, placement(tolerations=[{**toleration, "effect": "NoExecute"}]))
    assert refused.status_code == 422


WRONG = {"celSelector": {"celExpressions": ["true", "managedCluster.metadata.("]}}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (predicate(**WRONG), "spec.predicates[0].requiredClusterSelector"),
        (group(decisionGroups=[{"groupName": "ab", "groupClusterSelector": WRONG}]), IN_GROUP),
    ],
)
async def test_a_placement_whose_expression_does_not_compile_is_taken_with_a_warning(body: Any, path: str) -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", PLACED, body)
    assert answer.status_code == 201, answer.text
    warning = answer.headers["warning"]
    assert f"the placement is misconfigured: {path}.celSelector.celExpressions[1]: Invalid value: " in warning
    assert "must be a CEL expression: " in warning
    assert "celExpressions[0]" not in warning


async def test_a_set_by_labels_that_says_none_is_taken_and_empty() -> None:
    gateway = Fixture()
    await gateway.ok("POST", CLUSTERS, named("c1"))
    await gateway.ok("POST", SETS, named("s1", spec={"clusterSelector": {"selectorType": "LabelSelector"}}))
    (condition,) = (await gateway.ok("GET", f"{SETS}/s1"))["status"]["conditions"]
    assert condition == {
        "type": "ClusterSetEmpty",
        "status": "True",
        "reason": "NoClusterMatched",
        "message": "No ManagedCluster selected",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }


async def test_conditions_of_sets_and_bindings_have_times_that_follow_from_their_objects() -> None:
    gateway = Fixture()
    at = [f"2026-01-01T12:{minute:02}:00Z" for minute in range(5)]

    async def since(path: str) -> str | None:
        (condition,) = (await gateway.ok("GET", path))["status"]["conditions"]
        found: str | None = condition.get("lastTransitionTime")
        return found

    async def made(minute: int, path: str, body: dict[str, Any]) -> None:
        gateway.clock.time = later(60 * minute)
        await gateway.ok("POST", path, body)

    gateway.namespace("shop")
    binding = {"spec": {"clusterSet": "s1"}}
    await made(1, BINDINGS, named("s1", **binding))
    path = f"{BINDINGS}/s1"
    assert await since(path) == at[1], "there is no such set"
    assert await since(f"{SETS}/global") is None, "it was always empty"
    await made(2, SETS, named("s1", spec={}))
    assert (await since(path), await since(f"{SETS}/s1")) == (at[2], at[2])
    await made(3, CLUSTERS, cluster("c1", {SET_LABEL: "s1"}))
    await made(4, CLUSTERS, cluster("c2", {SET_LABEL: "s1"}))
    assert (await since(path), await since(f"{SETS}/s1"), await since(f"{SETS}/global")) == (at[2], at[3], at[3])


async def test_a_placement_shows_its_decision() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", PLACED, placement(numberOfClusters=3))
    assert "status" not in made
    uid = made["metadata"]["uid"]
    decided(gateway, uid, [["c1", "c2"], ["c3"]])
    status = (await gateway.ok("GET", f"{PLACED}/web"))["status"]
    assert status["numberOfSelectedClusters"] == 3
    (shown,) = status["decisionGroups"]
    assert shown == {
        "decisionGroupIndex": 0,
        "decisionGroupName": "",
        "decisions": ["web-decision-1", "web-decision-2"],
        "clusterCount": 3,
    }
    assert status["conditions"] == [
        {
            "type": "PlacementSatisfied",
            "status": "True",
            "reason": "AllDecisionsScheduled",
            "message": "all",
            "lastTransitionTime": "2026-01-01T12:00:00Z",
        }
    ]
    assert await names(gateway, DECISIONS, labelSelector=f"{OF}=web") == ["web-decision-1", "web-decision-2"]
    page = await gateway.ok("GET", f"{GROUP}/v1alpha1/namespaces/shop/placementdecisions/web-decision-1")
    assert page["apiVersion"] == "cluster.open-cluster-management.io/v1alpha1"
    assert page["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "cluster.open-cluster-management.io/v1beta1",
            "kind": "Placement",
            "name": "web",
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert page["status"] == {
        "decisions": [{"clusterName": "c1", "reason": ""}, {"clusterName": "c2", "reason": ""}],
    }
    # Moorage's own view has the reasons, under a name that upstream does not use.
    own = "/apis/moorage.io/v1alpha1/namespaces/shop/workloadplacements"
    assert await names(gateway, own) == ["placement:web"]
    # A placement that was deleted and created again has nothing of the one before.
    await gateway.ok("DELETE", f"{PLACED}/web")
    assert "status" not in await gateway.ok("POST", PLACED, placement())
    key = ref("PlacementDecision", "web-decision-2").key
    gateway.log.append(PLACEMENTS, key, ref("Placement", "web").key, None)
    assert await names(gateway, DECISIONS) == ["web-decision-1"]


async def test_a_decision_that_is_applied_must_be_the_systems_own() -> None:
    gateway = Fixture()
    uid = (await gateway.ok("POST", PLACED, placement()))["metadata"]["uid"]
    decided(gateway, uid, [["c1", "c2"], ["c3"]])
    since = len(gateway.declared)

    def page(*clusters: str, name: str = "web-x1y2z", of: str | None = "web") -> Json:
        labels = {OF: of} if of is not None else {}
        said = [{"clusterName": one, "reason": ""} for one in clusters]
        return {"metadata": {"name": name, "labels": labels}, "status": {"decisions": said}}

    answer = await gateway.call("POST", DECISIONS, page("c3", "c1", "c2"))
    assert answer.status_code == 200
    assert answer.json()["metadata"]["name"] == "web-decision-1"
    assert "only Moorage writes PlacementDecisions" in answer.headers["warning"]
    assert (await gateway.call("POST", DECISIONS, page("c3", name="web-decision-2"))).status_code == 200
    for body, field, message in (
        (page("c1"), "status.decisions", 'Invalid value: ["c1"]: must be what Moorage has decided'),
        (page("c1", name="web-decision-2"), "status.decisions", "placement selects c3"),
        (page("c1", of="other"), f"metadata.labels[{OF}]", 'Invalid value: "other": there are no decisions'),
        (page("c1", of=None), f"metadata.labels[{OF}]", "Required value: must name the placement"),
    ):
        answer = await gateway.call("POST", DECISIONS, body)
        assert answer.status_code == 422
        (cause,) = answer.json()["details"]["causes"]
        assert cause["field"] == field
        assert message in cause["message"]
    merge, apply = "application/merge-patch+json", "application/apply-patch+yaml"
    one = f"{DECISIONS}/web-decision-1"
    head = {"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "PlacementDecision"}
    whole = {**head, **page("c1", "c2", name="web-decision-1")}
    for patch, media, code in (
        ({"metadata": {"annotations": {"applied": "once"}}}, merge, 200),
        ({"status": {"decisions": []}}, merge, 422),
        (whole, apply, 200),
        ({**whole, "status": {"decisions": []}}, apply, 422),
    ):
        query = "?fieldManager=me" if media == apply else ""
        answer = await gateway.call("PATCH", one + query, patch, headers={"content-type": media})
        assert answer.status_code == code, answer.text
    missing = f"{DECISIONS}/web-decision-9"
    assert (await gateway.call("PATCH", missing, {})).status_code == 404
    for method in ("PUT", "DELETE"):
        refused = await gateway.call(method, f"{DECISIONS}/web-decision-1", page("c1") if method != "DELETE" else None)
        assert (refused.status_code, "can only be read" in refused.json()["message"]) == (405, True)
    assert len(gateway.declared) == since


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (PLACED, placement(numberOfCluster=3), "spec.numberOfCluster"),
        (PLACED, placement(predicates=[{"requiredClusterSelector": {"labelSelektor": {}}}]), None),
        (PLACED, {**placement(), "specs": {}}, "specs"),
        (SETS, named("s", spec={"selector": {}}), "spec.selector"),
    ],
)
async def test_unknown_fields_are_dropped_and_told_of(path: str, body: Json, field: str | None) -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", path, body)
    assert answer.status_code == 201, answer.text
    path = field or "spec.predicates[0].requiredClusterSelector.labelSelektor"
    assert f'unknown field \\"{path}\\"' in answer.headers["warning"]
    assert f'"{path.rpartition(".")[2]}":' not in answer.text


async def test_fields_that_are_known_or_have_no_effect_are_not_called_unknown() -> None:
    gateway = Fixture()
    spec = placement(
        clusterSets=["s"],
        numberOfClusters=1,
        spreadPolicy={"spreadConstraints": []},
        tolerations=[{"key": "a", "operator": "Exists"}],
        decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 1}},
        prioritizerPolicy={"configurations": [{"scoreCoordinate": {"builtIn": "Steady"}, "weight": 1}]},
    )
    answer = await gateway.call("POST", PLACED, {**spec, "status": {"numberOfSelectedClusters": 0}})
    assert answer.status_code == 201, answer.text
    assert "unknown field" not in answer.headers["warning"]


async def test_a_cluster_of_which_nothing_was_decided_yet_is_shown_as_placements_take_it() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", CLUSTERS, cluster("c1", spec={"taints": [{"key": "mine", "effect": "NoSelect"}]}))
    since = made["metadata"]["creationTimestamp"]
    assert [(one["key"], one["timeAdded"]) for one in made["spec"]["taints"]] == [
        ("mine", since),
        ("cluster.open-cluster-management.io/unreachable", since),
    ]
    empty = TargetTainted(
        target=TargetRef(kind=TargetKind.MANAGED_CLUSTER, name="c1"),
        target_uid=made["metadata"]["uid"],
        generation=1,
        wishes_applied=1,
    )
    gateway.log.append(TAINTS, empty.target.key, empty.target.key, empty)
    assert "taints" not in (await gateway.ok("GET", f"{CLUSTERS}/c1"))["spec"]
