"""Pods that controllers make: they can be deleted, evicted as far as budgets allow, and bound by another scheduler."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.component.gateway.double import Fixture, deployment, node_ref, pod, pod_ref

from moorage_schemas.condition import ConditionStatus
from moorage_schemas.keys import binding_key
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.topics import BINDINGS, PLACEMENTS

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
WEB = WorkloadRef(kind="Deployment", namespace="default", name="web")
LABELS = {"app": "web"}


def place(gateway: Fixture, name: str, owner_uid: str = "", *, node: str = "n1", owner: WorkloadRef = WEB) -> None:
    """Write placement's records of a pod: its decision, and its binding if it has a node."""
    ref = pod_ref(name)
    owner = owner if owner_uid else ref
    uid = f"uid-of-{name}" if owner_uid else declared_uid(gateway, name)
    placed = WorkloadPlaced(
        workload=ref,
        uid=uid,
        owner=owner,
        owner_uid=owner_uid or uid,
        generation=1,
        state=PlacementState.PLACED if node else PlacementState.PENDING,
        target=node_ref(node) if node else None,
        binding_generation=1 if node else 0,
        decided_time=gateway.clock.now(),
    )
    gateway.log.append(PLACEMENTS, ref.key, owner.key, placed)
    if node:
        bound = WorkloadBound(
            workload=ref,
            uid=uid,
            owner=owner,
            target=node_ref(node),
            generation=1,
            bound_time=gateway.clock.now(),
            labels=LABELS,
        )
        gateway.log.append(BINDINGS, binding_key(ref, node_ref(node)), node_ref(node).key, bound)


def end(gateway: Fixture, name: str, *, node: str = "n1") -> None:
    """Write that placement has ended a pod."""
    ref = pod_ref(name)
    gateway.log.append(PLACEMENTS, ref.key, WEB.key, None)
    gateway.log.append(BINDINGS, binding_key(ref, node_ref(node)), node_ref(node).key, None)


def declared_uid(gateway: Fixture, name: str) -> str:
    return gateway.store.tables.resources[pod_ref(name).key].uid


def orders(gateway: Fixture) -> list[tuple[str, str]]:
    """The pods that the record of the deployment has orders about, and their nodes."""
    return [(order.pod.rpartition("/")[2], order.node) for order in gateway.store.tables.resources[WEB.key].pods]


async def serving(*names: str, node: str = "n1", replicas: int = 3) -> Fixture:
    """A gateway with a deployment, and the pods that placement has made for it."""
    gateway = Fixture()
    made = await gateway.ok("POST", DEPLOYMENTS, deployment(replicas=replicas))
    for name in names:
        place(gateway, name, made["metadata"]["uid"], node=node)
    return gateway


async def budget(gateway: Fixture, name: str = "keep", labels: dict[str, str] | None = None, **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels or LABELS}, **spec}}
    await gateway.ok("POST", BUDGETS, body)


async def evict(gateway: Fixture, name: str, query: str = "", **options: Any) -> Any:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    body |= {"deleteOptions": options} if options else {}
    return await gateway.call("POST", f"{PODS}/{name}/eviction{query}", body)


async def test_a_deleted_pod_is_terminating_until_placement_has_ended_it() -> None:
    gateway = await serving("a", "b")
    shown = await gateway.ok("DELETE", f"{PODS}/a")
    assert (shown["kind"], shown["metadata"]["deletionTimestamp"]) == ("Pod", "2026-01-01T12:00:00Z")
    assert orders(gateway) == [("a", "")]
    assert [write.key for write in gateway.declared] == [WEB.key, WEB.key], "it is in the record of its controller"
    written = len(gateway.log.written)
    await gateway.ok("DELETE", f"{PODS}/a")
    assert len(gateway.log.written) == written, "once is enough"
    counted = (await gateway.ok("GET", f"{DEPLOYMENTS}/web"))["status"]
    assert counted["replicas"] == 1, "what is ended does not count"
    end(gateway, "a")
    assert await gateway.status(f"{PODS}/a") == 404
    await gateway.ok("DELETE", f"{PODS}/b")
    assert orders(gateway) == [("b", "")], "an order that was carried out is left out"


async def test_a_watch_sees_that_it_is_ended() -> None:
    gateway = await serving("a", "b")
    since = (await gateway.ok("GET", PODS))["metadata"]["resourceVersion"]
    await gateway.ok("DELETE", f"{PODS}/a")
    end(gateway, "a")
    answer = await gateway.call("GET", f"{PODS}?watch=1&timeoutSeconds=1&resourceVersion={since}")
    assert [line.split('"')[3] for line in answer.text.splitlines()] == ["MODIFIED", "DELETED"]


async def test_a_change_of_the_controller_keeps_the_order() -> None:
    gateway = await serving("a")
    await gateway.ok("DELETE", f"{PODS}/a")
    await gateway.ok("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 5}})
    assert orders(gateway) == [("a", "")]


async def test_preconditions_and_dry_runs_hold() -> None:
    gateway = await serving("a")
    wrong = await gateway.call("DELETE", f"{PODS}/a", {"preconditions": {"uid": "another"}})
    assert wrong.status_code == 409
    await gateway.ok("DELETE", f"{PODS}/a?dryRun=All")
    assert orders(gateway) == []


async def test_its_labels_and_annotations_can_be_changed() -> None:
    gateway = await serving("a", "b")
    before = {name: await gateway.ok("GET", f"{PODS}/{name}") for name in "ab"}
    written = await gateway.ok("GET", f"{DEPLOYMENTS}/web")
    tier = {"metadata": {"labels": {"tier": "front"}, "annotations": {"why": "tried"}}}
    changed = await gateway.ok("PATCH", f"{PODS}/a", tier)
    assert changed["metadata"]["labels"] == {**before["a"]["metadata"]["labels"], "tier": "front"}
    assert changed["metadata"]["annotations"] == {"why": "tried"}
    assert int(changed["metadata"]["resourceVersion"]) > int(before["a"]["metadata"]["resourceVersion"])
    assert (changed["spec"], changed["status"]) == (before["a"]["spec"], before["a"]["status"])
    selected = await gateway.ok("GET", f"{PODS}?labelSelector=tier%3Dfront")
    assert selected["items"] == [changed]
    assert await gateway.ok("GET", f"{PODS}/b") == before["b"], "no other pod is another one by it"
    after = await gateway.ok("GET", f"{DEPLOYMENTS}/web")
    assert after["metadata"] == written["metadata"]

    await gateway.ok("PATCH", f"{PODS}/a", {"metadata": {"labels": {"tier": None}, "annotations": {"why": None}}})
    back = await gateway.ok("GET", f"{PODS}/a")
    assert (back["metadata"]["labels"], "annotations" in back["metadata"]) == (before["a"]["metadata"]["labels"], False)


async def test_a_watch_tells_of_its_labels() -> None:
    gateway = await serving("a")
    since = (await gateway.ok("GET", PODS))["metadata"]["resourceVersion"]
    await gateway.ok("PATCH", f"{PODS}/a", {"metadata": {"labels": {"tier": "front"}}})
    answer = await gateway.call("GET", f"{PODS}?watch=1&timeoutSeconds=1&resourceVersion={since}")
    assert [line.split('"')[3] for line in answer.text.splitlines()] == ["MODIFIED"]


async def test_its_metadata_is_its_own() -> None:
    """It is kept through changes of the controller and orders, and ends with the pod."""
    gateway = await serving("a", "b")
    await gateway.ok("PATCH", f"{PODS}/a", {"metadata": {"labels": {"tier": "front"}}})
    await gateway.ok("PATCH", f"{PODS}/b", {"metadata": {"labels": {"tier": "back"}}})
    await gateway.ok("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 5}})
    await gateway.ok("DELETE", f"{PODS}/a")
    assert (await gateway.ok("GET", f"{PODS}/a"))["metadata"]["labels"]["tier"] == "front"
    end(gateway, "a")
    await gateway.ok("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 4}})
    assert [one.uid for one in gateway.store.tables.resources[WEB.key].pod_metadata] == ["uid-of-b"]


async def test_the_same_metadata_is_not_written_again() -> None:
    gateway = await serving("a")
    tier = {"metadata": {"labels": {"tier": "front"}}}
    first = await gateway.ok("PATCH", f"{PODS}/a", tier)
    assert await gateway.ok("PATCH", f"{PODS}/a", tier) == first
    assert gateway.store.tables.resources[WEB.key].version == 2


async def test_a_dry_run_shows_its_metadata() -> None:
    gateway = await serving("a")
    before = await gateway.ok("GET", f"{PODS}/a")
    shown = await gateway.ok("PATCH", f"{PODS}/a?dryRun=All", {"metadata": {"labels": {"tier": "front"}}})
    assert shown["metadata"]["labels"] == {**before["metadata"]["labels"], "tier": "front"}
    assert shown["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert await gateway.ok("GET", f"{PODS}/a") == before


async def test_an_apply_owns_its_label() -> None:
    gateway = await serving("a")
    tier = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"tier": "front"}}}
    options = {"headers": {"content-type": "application/apply-patch+yaml"}}
    applied = await gateway.ok("PATCH", f"{PODS}/a?fieldManager=ann", tier, **options)
    assert applied["metadata"]["labels"]["tier"] == "front"
    owned = {one["manager"]: one["fieldsV1"] for one in applied["metadata"]["managedFields"]}
    assert owned["ann"] == {"f:metadata": {"f:labels": {"f:tier": {}}}}
    del tier["metadata"]["labels"]  # type: ignore[attr-defined]  # the literal's type is that of all its values
    again = await gateway.ok("PATCH", f"{PODS}/a?fieldManager=ann", tier, **options)
    assert "tier" not in again["metadata"]["labels"]


async def test_a_replaced_pod_has_its_labels() -> None:
    gateway = await serving("a")
    pod = await gateway.ok("GET", f"{PODS}/a")
    stale = {**pod, "metadata": {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "tier": "front"}}}
    assert (await gateway.ok("PUT", f"{PODS}/a", stale))["metadata"]["labels"]["tier"] == "front"
    assert (await gateway.call("PUT", f"{PODS}/a", stale)).status_code == 409


async def test_the_rest_of_it_cannot_be_changed() -> None:
    gateway = await serving("a")
    for patch in ({"metadata": {"finalizers": ["a/b"]}}, {"spec": {"activeDeadlineSeconds": 5}}):
        answer = await gateway.call("PATCH", f"{PODS}/a", patch)
        assert answer.status_code == 405
        assert answer.json()["message"] == (
            'pods "a" is made from the template of Deployment/default/web: change that instead. '
            "Only its labels and annotations may differ"
        )


@pytest.mark.parametrize("label", ["app", "pod-template-hash"])
async def test_its_controller_does_not_release_it(label: str) -> None:
    gateway = await serving("a")
    answer = await gateway.call("PATCH", f"{PODS}/a", {"metadata": {"labels": {label: "another"}}})
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][0]["field"] == "metadata.labels"
    assert "cannot release one of them" in answer.json()["message"]


async def test_its_labels_are_validated() -> None:
    gateway = await serving("a")
    answer = await gateway.call("PATCH", f"{PODS}/a", {"metadata": {"labels": {"a": "-b"}}})
    assert (answer.status_code, answer.json()["details"]["causes"][0]["field"]) == (422, "metadata.labels")


async def test_a_pod_without_a_budget_is_evicted() -> None:
    gateway = await serving("a")
    await gateway.ok("POST", PODS, pod("bare"))
    for name in ("a", "bare"):
        answer = await evict(gateway, name)
        assert (answer.status_code, answer.json()["status"]) == (201, "Success")
    assert orders(gateway) == [("a", "")]
    assert await gateway.status(f"{PODS}/bare") == 404


async def test_a_budget_refuses_with_its_cause() -> None:
    gateway = await serving("a", "b")
    await budget(gateway, minAvailable=2)
    answer = await evict(gateway, "a")
    status = answer.json()
    assert (answer.status_code, status["reason"]) == (429, "TooManyRequests")
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert status["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget keep needs 2 healthy pods and has 2 currently",
        }
    ]
    assert orders(gateway) == []


@pytest.mark.parametrize("spec", [{"minAvailable": 2}, {"maxUnavailable": 1}, {"maxUnavailable": "34%"}])
async def test_several_at_once_do_not_pass_one_budget(spec: dict[str, Any]) -> None:
    names = ["a", "b", "c"]
    gateway = await serving(*names)
    await budget(gateway, **spec)
    gateway.log.open.clear()
    asked = [asyncio.create_task(evict(gateway, name)) for name in names]
    await asyncio.sleep(0)
    gateway.log.open.set()
    codes = sorted([(await one).status_code for one in asked])
    expected = [201, 201, 429] if spec == {"maxUnavailable": "34%"} else [201, 429, 429]
    assert codes == expected


async def test_what_is_under_way_counts_until_the_next_pod_is_bound() -> None:
    gateway = await serving("a", "b", "c")
    await budget(gateway, minAvailable=2)
    assert (await evict(gateway, "a")).status_code == 201
    assert (await evict(gateway, "b")).status_code == 429
    end(gateway, "a")
    assert (await evict(gateway, "b")).status_code == 429
    place(gateway, "d", gateway.store.tables.resources[WEB.key].uid)
    assert (await evict(gateway, "b")).status_code == 201


async def test_deletions_and_bare_pods_count_too() -> None:
    gateway = await serving("a", replicas=1)
    for name in ("one", "two"):
        body = pod(name)
        await gateway.ok("POST", PODS, {**body, "metadata": {"name": name, "labels": LABELS}})
        place(gateway, name)
    await budget(gateway, minAvailable=2)
    assert (await evict(gateway, "one")).status_code == 201
    assert (await evict(gateway, "two")).status_code == 429, "its binding has not ended, but the pod is gone"
    await gateway.ok("DELETE", f"{PODS}/a")
    answer = await evict(gateway, "two")
    assert "needs 2 healthy pods and has 1 currently" in answer.text


async def test_a_gateway_that_starts_again_counts_what_is_under_way() -> None:
    before = await serving("a", "b", "c")
    await budget(before, minAvailable=2)
    assert (await evict(before, "a")).status_code == 201
    after = Fixture(ready=False, namespaces=())
    for write in before.declared:
        after.log.append(write.topic, write.key, write.partition_key, write.event, write.meta)
    for name in ("a", "b", "c"):
        place(after, name, before.store.tables.resources[WEB.key].uid)
    after.begin()
    assert (await evict(after, "b")).status_code == 429
    assert (await after.ok("GET", f"{PODS}/a"))["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("healthy", "spec", "code"),
    [
        (2, {"minAvailable": 2}, 201),
        (1, {"minAvailable": 2}, 429),
        (1, {"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"}, 201),
    ],
)
async def test_an_unhealthy_pod_may_go_when_it_does_not_count(healthy: int, spec: dict[str, Any], code: int) -> None:
    names = ["a", "b", "c"]
    gateway = await serving(*names)
    await budget(gateway, **spec)
    for name in names[healthy:]:
        gateway.reported(pod_ref(name), node_ref("n1"), ConditionStatus.FALSE)
    assert (await evict(gateway, "c")).status_code == code


async def test_a_pod_that_disrupts_nothing_is_evicted_against_any_budget() -> None:
    gateway = await serving("a", node="")
    await budget(gateway, minAvailable=5)
    assert (await evict(gateway, "a")).status_code == 201


async def test_two_budgets_of_one_pod_are_an_error() -> None:
    gateway = await serving("a", "b")
    await budget(gateway, minAvailable=0)
    await budget(gateway, "other", minAvailable=0)
    answer = await evict(gateway, "a")
    assert (answer.status_code, "more than one PodDisruptionBudget" in answer.json()["message"]) == (500, True)


async def test_a_budget_of_other_pods_does_not_matter() -> None:
    gateway = await serving("a")
    await budget(gateway, labels={"app": "other"}, minAvailable=5)
    assert (await evict(gateway, "a")).status_code == 201


@pytest.mark.parametrize("how", [("?dryRun=All", {}), ("", {"dryRun": ["All"]})])
async def test_an_eviction_can_be_tried(how: tuple[str, dict[str, Any]]) -> None:
    gateway = await serving("a")
    assert (await evict(gateway, "a", how[0], **how[1])).status_code == 201
    assert orders(gateway) == []


async def test_an_eviction_names_its_pod() -> None:
    gateway = await serving("a")
    assert (await evict(gateway, "none")).status_code == 404
    body = {"metadata": {"name": "b"}}
    assert (await gateway.call("POST", f"{PODS}/a/eviction", body)).status_code == 400
    assert (await gateway.call("GET", f"{PODS}/a/eviction")).status_code == 405
    wrong = await evict(gateway, "a", preconditions={"uid": "another"})
    assert wrong.status_code == 409


async def test_discovery_tells_drain_that_pods_can_be_evicted() -> None:
    found = (await Fixture().ok("GET", "/api/v1"))["resources"]
    listed = {one["name"]: one for one in found}
    assert {key: listed["pods/eviction"][key] for key in ("group", "version", "kind", "verbs")} == {
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert listed["pods/binding"]["kind"] == "Binding"


def binding(name: str, node: str = "n2") -> dict[str, Any]:
    return {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}


async def test_a_bare_pod_is_bound_once() -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod("p1", schedulerName="mine"))
    answer = await gateway.call("POST", f"{PODS}/p1/binding", binding("p1"))
    assert (answer.status_code, answer.json()["status"]) == (201, "Success")
    assert (await gateway.ok("GET", f"{PODS}/p1"))["spec"]["nodeName"] == "n2"
    again = await gateway.call("POST", f"{PODS}/p1/binding", binding("p1"))
    assert again.status_code == 409
    assert again.json()["message"] == (
        'Operation cannot be fulfilled on pods/binding "p1": pod p1 is already assigned to node "n2"'
    )


async def test_a_pod_that_was_bound_a_moment_ago_cannot_be_bound_again() -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod("p1", schedulerName="mine"))
    place(gateway, "p1", node="")
    assert (await gateway.call("POST", f"{PODS}/p1/binding", binding("p1"))).status_code == 201
    assert "nodeName" not in (await gateway.ok("GET", f"{PODS}/p1"))["spec"], "placement has not confirmed it yet"
    assert (await gateway.call("POST", f"{PODS}/p1/binding", binding("p1"))).status_code == 409


async def test_a_gated_pod_cannot_be_bound() -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod("p1", schedulingGates=[{"name": "a"}]))
    answer = await gateway.call("POST", f"{PODS}/p1/binding", binding("p1"))
    assert answer.status_code == 409
    assert "pod p1 has non-empty .spec.schedulingGates" in answer.json()["message"]


@pytest.mark.parametrize("subresource", ["binding", "eviction"])
async def test_an_order_names_its_pod(subresource: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod("p1", schedulerName="mine"))
    answer = await gateway.call("POST", f"{PODS}/p1/{subresource}", {})
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        f"name in URL does not match name in {subresource.capitalize()} object",
    )


async def test_a_controllers_pod_is_bound_by_an_order() -> None:
    gateway = await serving("a", "b", node="")
    await gateway.call("POST", f"{PODS}/a/binding", binding("a"))
    assert orders(gateway) == [("a", "n2")]
    place(gateway, "a", gateway.store.tables.resources[WEB.key].uid, node="n2")
    assert (await gateway.call("POST", f"{PODS}/a/binding", binding("a"))).status_code == 409
    await gateway.call("POST", f"{PODS}/b/binding", binding("b"))
    assert orders(gateway) == [("b", "n2")]


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ({"metadata": {"name": "p1"}, "target": {"kind": "Pod", "name": "n"}}, 422, "target.kind"),
        ({"metadata": {"name": "p1"}, "target": {}}, 422, "target.name: Required value"),
        ({"metadata": {"name": "p2"}, "target": {"name": "n"}}, 400, "name in URL does not match"),
        ({"metadata": {"name": "p1", "uid": "another"}, "target": {"name": "n"}}, 409, "UID in precondition"),
    ],
)
async def test_wrong_bindings_are_refused(body: dict[str, Any], code: int, text: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod("p1"))
    answer = await gateway.call("POST", f"{PODS}/p1/binding", body)
    assert (answer.status_code, text in answer.json()["message"]) == (code, True), answer.text
    assert "nodeName" not in (await gateway.ok("GET", f"{PODS}/p1"))["spec"]


@pytest.mark.parametrize(
    ("sent", "code", "message"),
    [
        ({"kind": "Pod"}, 400, 'no kind "Pod" is registered for version "policy/v1"'),
        ({"metadata": {"name": "a", "namespace": "b"}}, 400, "the namespace of the provided object does not match"),
        ({"deleteOptions": {"preconditions": {"uid": "x"}}}, 409, "the UID in the precondition (x) does not match"),
        (
            {"deleteOptions": {"preconditions": {"resourceVersion": "0"}}},
            409,
            "the ResourceVersion in the precondition (0) does not match",
        ),
    ],
)
async def test_an_order_that_is_not_meant_for_the_pod_evicts_nothing(
    sent: dict[str, Any], code: int, message: str
) -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod("a"))
    order = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}, **sent}
    answer = await gateway.call("POST", f"{PODS}/a/eviction", order)
    assert (answer.status_code, message in answer.json()["message"]) == (code, True), answer.text
    assert (await gateway.ok("GET", f"{PODS}/a"))["metadata"]["name"] == "a"


@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
async def test_both_versions_of_an_eviction_evict(version: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod("a"))
    order = {"apiVersion": version, "kind": "Eviction", "metadata": {"name": "a"}}
    assert (await gateway.call("POST", f"{PODS}/a/eviction", order)).status_code == 201
    assert (await gateway.call("GET", f"{PODS}/a")).status_code == 404


async def test_a_mirrored_pod_counts_as_healthy_when_its_bridge_has_said_so() -> None:
    """As for the governor, which decides evictions by taints."""
    gateway = await serving(replicas=0)
    await gateway.ok("POST", PODS, {**pod("mine"), "metadata": {"name": "mine", "labels": LABELS}})
    place(gateway, "mine")
    await budget(gateway, minAvailable=1)
    seen = pod("theirs", nodeName="n1")
    seen["metadata"] = {"name": "theirs", "namespace": "default", "uid": "u", "labels": LABELS}
    await gateway.ok("POST", "/v1/mirror", {"source": "bridge/home", "objects": [seen]})
    gateway.bound(pod_ref("theirs"), node_ref("n1"), deployer="bridge/home", labels=LABELS)
    assert (await evict(gateway, "mine")).status_code == 429
    gateway.reported(pod_ref("theirs"), node_ref("n1"), ConditionStatus.TRUE, source="probe/mine")
    assert (await evict(gateway, "mine")).status_code == 429
    gateway.reported(pod_ref("theirs"), node_ref("n1"), ConditionStatus.TRUE, source="bridge/home")
    assert (await evict(gateway, "mine")).status_code == 201
