"""Conditions that are written into the status of targets and pods become reports of the writer."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import MERGE, NOW, Fixture, deployment, node, node_ref, pod, pod_ref
from tests.support.waiting import until

from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.topics import CONDITION_REPORTS, PLACEMENTS

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


def place(gateway: Fixture, name: str, uid: str, owner: WorkloadRef | None = None) -> None:
    ref = pod_ref(name)
    placed = WorkloadPlaced(
        workload=ref,
        uid=uid,
        owner=owner or ref,
        owner_uid=uid,
        generation=1,
        state=PlacementState.PLACED,
        target=node_ref("n1"),
        binding_generation=1,
        decided_time=NOW,
    )
    gateway.log.append(PLACEMENTS, ref.key, (owner or ref).key, placed)
    gateway.bound(ref, node_ref("n1"), owner=owner)


def reported(gateway: Fixture) -> list[tuple[str, str, str, str]]:
    """What was reported: the workload, the type, the status and the source."""
    found = []
    for write in gateway.log.reported:
        assert isinstance(write.event, ConditionReported)
        assert (write.topic, write.key, write.event.target.key) == (CONDITION_REPORTS, "Node/n1", "Node/n1")
        one = write.event
        found.append((one.workload.name if one.workload else "", one.type, one.status.value, one.source))
    return found


def status(name: str, *conditions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"conditions": list(conditions), **more}}


async def write(gateway: Fixture, path: str, body: Any, query: str = "") -> Any:
    return await gateway.call(
        "PATCH", f"{path}/status{query}", body, headers={"user-agent": "kubelet/v1", "content-type": MERGE}
    )


async def test_a_pods_readiness_is_what_its_deployer_writes() -> None:
    gateway = Fixture()
    place(gateway, "p1", (await gateway.ok("POST", PODS, pod()))["metadata"]["uid"])
    scheduled = {"type": "PodScheduled", "status": "False"}
    written = gateway.start("PATCH", f"{PODS}/p1/status", status("p1", READY, scheduled, phase="Running"))
    await until(lambda: bool(gateway.log.reported))
    gateway.reported(pod_ref("p1"), node_ref("n1"), ConditionStatus.TRUE)
    gateway.reported(pod_ref("p1"), node_ref("n1"), ConditionStatus.TRUE, condition="Ready")
    shown = (await written).json()["status"]
    assert (shown["phase"], shown["containerStatuses"][0]["ready"]) == ("Running", True)
    assert [one[:3] for one in reported(gateway)] == [("p1", "Ready", "True"), ("p1", "Healthy", "True")]


async def test_a_controllers_pod_is_reported_in_the_same_way() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", "/apis/apps/v1/namespaces/default/deployments", deployment())
    owner = WorkloadRef(kind="Deployment", namespace="default", name="web")
    place(gateway, "web-1", made["metadata"]["uid"], owner)
    answer = await write(gateway, f"{PODS}/web-1", status("web-1", READY))
    assert answer.status_code == 200
    assert reported(gateway) == [("web-1", "Ready", "True", "kubelet"), ("web-1", "Healthy", "True", "kubelet")]


async def test_a_nodes_conditions_are_reports_and_its_resources_are_declared() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    answer = await write(gateway, f"{NODES}/n1", status("n1", READY, capacity={"cpu": "4"}))
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"]["capacity"] == {"cpu": "4"}
    assert reported(gateway) == [("", "Ready", "True", "kubelet")]
    assert "conditions" not in gateway.store.tables.resources["Node//n1"].object["status"]


async def test_what_is_shown_already_is_not_reported_again() -> None:
    gateway = Fixture()
    place(gateway, "p1", (await gateway.ok("POST", PODS, pod()))["metadata"]["uid"])
    gateway.reported(pod_ref("p1"), node_ref("n1"), ConditionStatus.TRUE)
    shown = await gateway.ok("GET", f"{PODS}/p1")
    await gateway.ok("PUT", f"{PODS}/p1/status", shown)
    assert gateway.log.reported == []


@pytest.mark.parametrize(
    ("body", "query", "code"),
    [
        (status("p1", READY), "?dryRun=All", 200),
        (status("p1", READY) | {"metadata": {"name": "p1", "resourceVersion": "1"}}, "", 409),
        (status("p1", {"type": "Ready", "status": "Perhaps"}), "", 200),
    ],
)
async def test_what_is_tried_stale_or_odd_reports_nothing(body: Any, query: str, code: int) -> None:
    gateway = Fixture()
    place(gateway, "p1", (await gateway.ok("POST", PODS, pod()))["metadata"]["uid"])
    assert (await write(gateway, f"{PODS}/p1", body, query)).status_code == code
    assert gateway.log.reported == []


async def test_a_pod_without_a_node_is_not_reported() -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod())
    assert (await write(gateway, f"{PODS}/p1", status("p1", READY))).status_code == 200
    assert gateway.log.reported == []
