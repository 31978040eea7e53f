"""The status of workloads depends only on what deployers have reported since they were bound."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson
import pytest
from tests.component.gateway.double import NOW, Fixture, Json, deployment, later, node, node_ref, pod, pod_ref

from moorage.apiserver.kinds.status.disruption import allowed_now
from moorage.apiserver.kinds.status.records import _Packed
from moorage.decide.disruption.budgets import disruption_of
from moorage.decide.scheduling.nodes.workloads import template_hash
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.keys import binding_key, condition_key, eviction_key
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import BINDINGS, CONDITIONS, EVICTIONS, PLACEMENTS

PODS = "/api/v1/namespaces/default/pods"
APPS = "/apis/apps/v1/namespaces/default"
P1, N1 = pod_ref("p1"), node_ref("n1")
BOUND = {"PodScheduled": "True", "Initialized": "True"}
TEMPLATE = template_hash(deployment()["spec"]["template"])


@pytest.fixture(params=["as written", "read again"], autouse=True)
def records(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest records are kept as models. All others are read again, as rows."""
    if request.param == "read again":
        monkeypatch.setattr(_Packed, "_remember", lambda *_: None)


def place(
    gateway: Fixture, workload: WorkloadRef, uid: str, *, node: str = "n1", owner: WorkloadRef | None = None
) -> None:
    event = WorkloadPlaced(
        workload=workload,
        uid=uid,
        owner=owner or workload,
        owner_uid=uid,
        generation=1,
        state=PlacementState.PLACED,
        target=node_ref(node),
        template_hash=TEMPLATE,
        decided_time=NOW,
    )
    gateway.log.append(PLACEMENTS, workload.key, (owner or workload).key, event)


async def one_pod() -> Fixture:
    """A gateway with a pod that is placed on a node and bound there."""
    gateway = Fixture()
    uid = (await gateway.ok("POST", PODS, pod()))["metadata"]["uid"]
    place(gateway, P1, uid)
    gateway.bound(P1, N1)
    return gateway


async def shown(gateway: Fixture) -> tuple[str, dict[str, str]]:
    """The phase and the conditions of the pod."""
    status = (await gateway.ok("GET", f"{PODS}/p1"))["status"]
    return status["phase"], {one["type"]: one["status"] for one in status["conditions"]}


async def test_a_bound_pod_that_nobody_has_reported_is_pending() -> None:
    unready = {"ContainersReady": "False", "Ready": "False"}
    assert await shown(await one_pod()) == ("Pending", {**BOUND, **unready})


async def test_the_status_of_a_pod_is_that_of_kubernetes() -> None:
    gateway = await one_pod()
    status = (await gateway.ok("GET", f"{PODS}/p1"))["status"]
    assert status["qosClass"] == "BestEffort"
    assert not {"startTime", "containerStatuses", "hostIP", "podIP"} & status.keys()
    assert [one.get("reason") for one in status["conditions"] if one["type"] == "Ready"] == ["NotReported"]
    gateway.reported(P1, N1, ConditionStatus.TRUE, at=later(5))
    status = (await gateway.ok("GET", f"{PODS}/p1"))["status"]
    assert status["startTime"] == "2026-01-01T12:00:00Z"
    assert status["containerStatuses"] == [
        {
            "name": "main",
            "image": "app:1",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "started": True,
            "state": {"running": {"startedAt": "2026-01-01T12:00:05Z"}},
        }
    ]
    assert [one["type"] for one in status["conditions"]] == [
        "PodScheduled",
        "Initialized",
        "ContainersReady",
        "Ready",
        "Healthy",
    ]


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        (ConditionStatus.TRUE, "Running"),
        (ConditionStatus.FALSE, "Running"),
        (ConditionStatus.UNKNOWN, "Unknown"),
    ],
)
async def test_a_reported_pod_runs_and_is_as_ready_as_it_is_healthy(status: ConditionStatus, phase: str) -> None:
    gateway = await one_pod()
    gateway.reported(P1, N1, status)
    assert await shown(gateway) == (
        phase,
        {**BOUND, "Healthy": status.value, "Ready": status.value, "ContainersReady": status.value},
    )
    listed = await gateway.ok("GET", f"{PODS}?fieldSelector=status.phase={phase}")
    assert [one["metadata"]["name"] for one in listed["items"]] == ["p1"]


async def test_what_a_deployer_says_of_readiness_itself_stands() -> None:
    gateway = await one_pod()
    gateway.reported(P1, N1, ConditionStatus.FALSE, condition="Ready")
    unready = {"ContainersReady": "False", "Ready": "False"}
    assert await shown(gateway) == ("Pending", {**BOUND, **unready})
    gateway.reported(P1, N1, ConditionStatus.TRUE)
    assert await shown(gateway) == ("Running", {**BOUND, "Healthy": "True", **unready})


@pytest.mark.parametrize(("accepted", "counts"), [(later(-1), False), (NOW, True), (later(1), True)])
async def test_a_report_from_before_the_pod_was_bound_is_not_about_it(accepted: datetime, *, counts: bool) -> None:
    gateway = await one_pod()
    gateway.reported(P1, N1, ConditionStatus.TRUE, at=accepted)
    assert (await shown(gateway))[0] == ("Running" if counts else "Pending")


def evicted(gateway: Fixture, *, uid: str = "u", deployer: str = "deployer/mine", **fields: Any) -> None:
    """Write that the pod's eviction is requested."""
    given = {"workload": P1, "owner": P1, "target": N1, "generation": 1, "revision": 1, "decided_time": later(9)}
    event = EvictionDecided.model_validate(
        {**given, "workload_uid": uid, "state": "Requested", "deployer": deployer, **fields}
    )
    gateway.log.append(EVICTIONS, eviction_key(P1, N1, 1), N1.key, event)


async def test_a_pod_that_its_deployer_is_stopping_is_terminating() -> None:
    gateway = await one_pod()
    gateway.reported(P1, N1, ConditionStatus.TRUE)
    evicted(gateway)
    found = await gateway.ok("GET", f"{PODS}/p1")
    assert found["metadata"]["deletionTimestamp"] == "2026-01-01T12:00:09Z"
    assert found["status"]["phase"] == "Running"
    said = {"source": "deployer/mine", "time": later(10)}
    evicted(gateway, revision=2, acknowledged=said)
    assert "deletionTimestamp" in (await gateway.ok("GET", f"{PODS}/p1"))["metadata"], "until its binding has ended"


async def test_the_time_of_deletion_stays_while_an_eviction_is_escalated() -> None:
    gateway = await one_pod()
    evicted(gateway, requested_time=later(9))
    said = {"reason": "Failed", "source": "deployer/mine", "time": later(20)}
    evicted(gateway, revision=2, decided_time=later(20), requested_time=later(9), escalated=said)
    assert (await gateway.ok("GET", f"{PODS}/p1"))["metadata"]["deletionTimestamp"] == "2026-01-01T12:00:09Z"


@pytest.mark.parametrize("fields", [{"uid": "another"}, {"deployer": ""}, {"state": "Scheduled"}])
async def test_only_a_pod_that_waits_for_its_deployer_is_terminating(fields: dict[str, str]) -> None:
    gateway = await one_pod()
    evicted(gateway, **fields)
    assert "deletionTimestamp" not in (await gateway.ok("GET", f"{PODS}/p1"))["metadata"]


async def test_a_bare_pod_that_is_terminating_can_be_deleted() -> None:
    gateway = await one_pod()
    evicted(gateway)
    await gateway.ok("DELETE", f"{PODS}/p1")
    last = gateway.declared[-1]
    assert (last.key, last.event) == (P1.key, None)


async def test_a_controllers_pod_that_is_terminating_can_be_deleted() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", f"{APPS}/deployments", deployment())
    owner = WorkloadRef(kind="Deployment", namespace="default", name="web")
    place(gateway, P1, made["metadata"]["uid"], owner=owner)
    gateway.bound(P1, N1, owner=owner)
    evicted(gateway, owner=owner)
    assert "deletionTimestamp" in (await gateway.ok("GET", f"{PODS}/p1"))["metadata"]
    await gateway.ok("DELETE", f"{PODS}/p1")
    ordered = gateway.declared[-1].event
    assert isinstance(ordered, ResourceDeclared)
    assert [order.pod for order in ordered.pods] == [P1.key]


async def test_a_report_about_another_node_is_not_about_it() -> None:
    gateway = await one_pod()
    gateway.bound(P1, node_ref("n2"))
    gateway.reported(P1, node_ref("n2"), ConditionStatus.TRUE)
    assert (await shown(gateway))[0] == "Pending"


async def test_a_report_ends_with_the_binding_and_a_later_binding_begins_without() -> None:
    gateway = await one_pod()
    gateway.reported(P1, N1, ConditionStatus.TRUE)
    gateway.log.append(BINDINGS, binding_key(P1, N1), N1.key, None)
    assert (await shown(gateway))[0] == "Pending"
    gateway.bound(P1, N1, at=later(5))
    assert (await shown(gateway))[0] == "Pending"
    gateway.reported(P1, N1, ConditionStatus.TRUE, at=later(6))
    assert (await shown(gateway))[0] == "Running"


NOT_COUNTED = {"observedGeneration", "conditions"}


def counts(status: Json) -> dict[str, int]:
    return {name: value for name, value in status.items() if name not in NOT_COUNTED}


@pytest.mark.parametrize(
    ("plural", "kind", "status"),
    [
        (
            "deployments",
            "Deployment",
            {
                "replicas": 3,
                "scheduledReplicas": 3,
                "readyReplicas": 1,
                "availableReplicas": 1,
                "updatedReplicas": 3,
                "unavailableReplicas": 2,
            },
        ),
        (
            "replicasets",
            "ReplicaSet",
            {"replicas": 3, "scheduledReplicas": 3, "readyReplicas": 1, "availableReplicas": 1},
        ),
    ],
)
async def test_a_controller_counts_what_is_bound_and_what_is_reported_healthy(
    plural: str, kind: str, status: dict[str, int]
) -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", f"{APPS}/{plural}", {**deployment(replicas=3), "kind": kind})
    owner = WorkloadRef(kind=kind, namespace="default", name="web")
    for index, health in enumerate((ConditionStatus.TRUE, ConditionStatus.FALSE, None)):
        one = pod_ref(f"web-{index}")
        place(gateway, one, made["metadata"]["uid"], owner=owner)
        gateway.bound(one, N1, owner=owner)
        if health is not None:
            gateway.reported(one, N1, health)
    path = f"{APPS}/{plural}/web"
    assert counts((await gateway.ok("GET", path))["status"]) == status
    gateway.log.append(BINDINGS, binding_key(pod_ref("web-0"), N1), N1.key, None)
    assert (await gateway.ok("GET", path))["status"].get("readyReplicas", 0) == 0


async def test_what_moorage_adds_may_be_sent_back_strictly() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", f"{APPS}/deployments", deployment())
    owner, one = WorkloadRef(kind="Deployment", namespace="default", name="web"), pod_ref("web-0")
    place(gateway, one, made["metadata"]["uid"], owner=owner)
    gateway.bound(one, N1, owner=owner)
    path = f"{APPS}/deployments/web"
    shown = await gateway.ok("GET", path)
    assert shown["status"]["scheduledReplicas"] == 1
    again = await gateway.call("PUT", f"{path}?fieldValidation=Strict", shown)
    assert again.status_code == 200, again.text
    headers = {"content-type": "application/strategic-merge-patch+json"}
    labels = {"metadata": {"labels": {"a": "b"}}}
    patched = await gateway.call("PATCH", f"{path}?fieldValidation=Strict", labels, headers=headers)
    assert patched.status_code == 200, patched.text


async def test_odd_conditions_in_a_written_status_keep_back_no_others() -> None:
    """As Kubernetes' API server, it validates neither the types nor the statuses of a node's conditions."""
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/nodes", node())
    odd = [{"type": kind, "status": "True"} for kind in ("Kernel Deadlock", "Custom.io/Thing", "x" * 400)]
    sent = [*odd, {"type": "Battery", "status": "Low"}, {"type": "Ready", "status": "False", "reason": "R" * 2000}]
    answer = await gateway.call("PATCH", "/api/v1/nodes/n1/status", {"status": {"conditions": sent}})
    assert answer.status_code == 200, answer.text
    warnings = answer.headers.get_list("warning", split_commas=False)
    told = "its type or status cannot be reported, and it was ignored"
    assert sum(told in one for one in warnings) or warnings[0].count(told) == 4
    reports = [orjson.loads(write.value or b"") for write in gateway.log.reported]
    assert [(one["type"], one["status"], len(one["reason"])) for one in reports] == [("Ready", "False", 1024)]


def node_reports(gateway: Fixture, status: str, *, uid: str, generation: int, at: datetime = NOW) -> None:
    """Write the condition Ready of the node n1."""
    event = ConditionChanged(
        target=N1,
        target_uid=uid,
        type="Ready",
        status=ConditionStatus(status),
        last_transition_time=at,
        last_heartbeat_time=at,
        generation=generation,
    )
    gateway.log.append(CONDITIONS, condition_key(N1.key, "Ready"), N1.key, event)


@pytest.mark.parametrize("status", ["Unknown", "False"])
async def test_no_pod_is_ready_on_a_node_that_is_not(status: str) -> None:
    gateway = Fixture()
    uid = (await gateway.ok("POST", "/api/v1/nodes", node()))["metadata"]["uid"]
    pod_uid = (await gateway.ok("POST", PODS, pod()))["metadata"]["uid"]
    place(gateway, P1, pod_uid)
    gateway.bound(P1, N1)
    gateway.reported(P1, N1, ConditionStatus.TRUE, at=later(1))

    async def seen() -> tuple[str, str, bool]:
        phase, conditions = await shown(gateway)
        containers = (await gateway.ok("GET", f"{PODS}/p1"))["status"]["containerStatuses"]
        return phase, conditions["Ready"], containers[0]["ready"]

    assert await seen() == ("Running", "True", True)
    version = (await gateway.ok("GET", f"{PODS}/p1"))["metadata"]["resourceVersion"]
    node_reports(gateway, status, uid=uid, generation=1, at=later(2))
    assert await seen() == ("Running", "False", False)
    found = await gateway.ok("GET", f"{PODS}/p1")
    assert found["metadata"]["resourceVersion"] != version, "watches see it"
    ready = next(one for one in found["status"]["conditions"] if one["type"] == "Ready")
    assert (ready["reason"], ready["message"]) == ("NodeNotReady", "Node is not ready")
    gateway.reported(P1, N1, ConditionStatus.UNKNOWN, at=later(2.5))
    assert (await seen())[1] == "False", "what nobody knows of a pod is not better"
    gateway.reported(P1, N1, ConditionStatus.TRUE, at=later(2.6))
    node_reports(gateway, "True", uid=uid, generation=2, at=later(3))
    assert await seen() == ("Running", "True", True)
    node_reports(gateway, status, uid="another", generation=3, at=later(4))
    assert await seen() == ("Running", "True", True), "of an earlier node of this name"


async def test_a_controller_counts_no_ready_pods_on_a_node_that_is_not() -> None:
    gateway = Fixture()
    uid = (await gateway.ok("POST", "/api/v1/nodes", node()))["metadata"]["uid"]
    made = await gateway.ok("POST", f"{APPS}/deployments", deployment())
    owner = WorkloadRef(kind="Deployment", namespace="default", name=made["metadata"]["name"])
    replica = pod_ref("web-1")
    event = WorkloadPlaced(
        workload=replica,
        uid="u",
        owner=owner,
        owner_uid=made["metadata"]["uid"],
        generation=1,
        state=PlacementState.PLACED,
        target=N1,
        template_hash=TEMPLATE,
        decided_time=NOW,
    )
    gateway.log.append(PLACEMENTS, replica.key, owner.key, event)
    gateway.bound(replica, N1, owner=owner, labels={"app": "web"})
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    guard = disruption_of(await gateway.ok("POST", budgets, budget))
    gateway.reported(replica, N1, ConditionStatus.TRUE, at=later(1))

    async def ready() -> tuple[int, int]:
        found = await gateway.ok("GET", f"{APPS}/deployments/{owner.name}")
        return int(found["status"].get("readyReplicas") or 0), allowed_now(guard, gateway.store.tables).healthy

    assert await ready() == (1, 1)
    node_reports(gateway, "Unknown", uid=uid, generation=1, at=later(2))
    assert await ready() == (0, 0)
    node_reports(gateway, "True", uid=uid, generation=2, at=later(3))
    assert await ready() == (1, 1)
