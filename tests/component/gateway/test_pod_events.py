"""Events about the pods that controllers make and end, in the words of Kubernetes' controllers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from tests.component.gateway.double import NOW, Fixture, Json, later, node_ref, pod_ref

from moorage.apiserver.http.app import create_app
from moorage.decide.scheduling.nodes.workloads import template_hash
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.topics import PLACEMENTS

EVENTS = "/api/v1/namespaces/default/events"
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
    "DaemonSet": "/apis/apps/v1/namespaces/default/daemonsets",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "ReplicationController": "/api/v1/namespaces/default/replicationcontrollers",
}


async def controller(gateway: Fixture, kind: str, **spec: Any) -> Json:
    selector: Json = {"app": "x"} if kind == "ReplicationController" else {"matchLabels": {"app": "x"}}
    whole: Json = {"selector": selector, "template": TEMPLATE, **spec}
    if kind == "Job":
        once = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        whole = {"template": {"spec": once}, **spec}
    made = await gateway.ok("POST", PATHS[kind], {"metadata": {"name": "web"}, "spec": whole})
    await gateway.settled()  # from now on each record is seen, not the latest alone
    return made


def place(
    gateway: Fixture,
    owner: Json,
    pod: str,
    *,
    index: int = 0,
    at: datetime = NOW,
    uid: str = "",
    generation: int = 1,
) -> None:
    """Write that placement has made a pod for a controller."""
    ref = pod_ref(pod)
    of = WorkloadRef(kind=owner["kind"], namespace="default", name=owner["metadata"]["name"])
    placed = WorkloadPlaced(
        workload=ref,
        uid=uid or f"uid-of-{pod}",
        owner=of,
        owner_uid=owner["metadata"]["uid"],
        template_hash=template_hash(TEMPLATE),
        index=index,
        generation=generation,
        state=PlacementState.PLACED,
        target=node_ref("n1"),
        binding_generation=1,
        reason="Scheduled",
        decided_time=at,
    )
    gateway.log.append(PLACEMENTS, ref.key, of.key, placed)


def end(gateway: Fixture, owner: Json, pod: str) -> None:
    """Write that placement has ended a pod."""
    gateway.log.append(PLACEMENTS, pod_ref(pod).key, f"{owner['kind']}/default/{owner['metadata']['name']}", None)


async def told(gateway: Fixture, reason: str = "SuccessfulCreate") -> list[tuple[str, str, str, str, int]]:
    """The kind and the name that each event is about, who tells it, its message, and how often."""
    await gateway.settled()
    found = (await gateway.ok("GET", f"{EVENTS}?fieldSelector=reason%3D{reason}"))["items"]
    return sorted(
        (
            one["involvedObject"]["kind"],
            one["involvedObject"]["name"],
            one["source"]["component"],
            one["message"],
            one["count"],
        )
        for one in found
    )


@pytest.mark.parametrize(
    ("kind", "component"),
    [
        ("ReplicaSet", "replicaset-controller"),
        ("DaemonSet", "daemonset-controller"),
        ("Job", "job-controller"),
        ("ReplicationController", "replication-controller"),
    ],
)
async def test_a_controller_tells_of_the_pods_that_it_makes(kind: str, component: str) -> None:
    async with Fixture().running() as gateway:
        owner = await controller(gateway, kind)
        place(gateway, owner, "web-a")
        place(gateway, owner, "web-a", generation=2, at=later(1))
        assert await told(gateway) == [(kind, "web", component, "Created pod: web-a", 1)]
        (event,) = (await gateway.ok("GET", f"{EVENTS}?fieldSelector=reason%3DSuccessfulCreate"))["items"]
        assert (event["type"], event["involvedObject"]["uid"]) == ("Normal", owner["metadata"]["uid"])


async def test_a_stateful_set_has_words_of_its_own() -> None:
    async with Fixture().running() as gateway:
        owner = await controller(gateway, "StatefulSet", replicas=2)
        gateway.clock.time = later(60)
        place(gateway, owner, "web-0")
        place(gateway, owner, "web-1", index=1)
        place(gateway, owner, "web-0", uid="another", generation=2, at=later(5))
        place(gateway, owner, "web-0", uid="another", generation=3, at=later(6))
        maker = ("StatefulSet", "web", "statefulset-controller")
        assert await told(gateway) == [
            (*maker, "Create Pod web-0 in StatefulSet web successful", 2),
            (*maker, "Create Pod web-1 in StatefulSet web successful", 1),
        ]
        assert await told(gateway, "SuccessfulDelete") == []
        await gateway.ok("PATCH", f"{PATHS['StatefulSet']}/web", {"spec": {"replicas": 1}})
        end(gateway, owner, "web-1")
        assert await told(gateway, "SuccessfulDelete") == [
            (*maker, "Delete Pod web-1 in StatefulSet web successful", 1)
        ]


async def test_the_replica_set_of_a_deployment_tells_when_it_is_there() -> None:
    async with Fixture().running() as gateway:
        owner = await controller(gateway, "Deployment")
        assert (await gateway.ok("GET", PATHS["ReplicaSet"]))["items"] == [], "it is made after the first pod"
        place(gateway, owner, "web-a")
        found = await told(gateway)
        (kept,) = (await gateway.ok("GET", PATHS["ReplicaSet"]))["items"]
        maker = ("ReplicaSet", kept["metadata"]["name"], "replicaset-controller")
        assert found == [(*maker, "Created pod: web-a", 1)]
        place(gateway, owner, "web-b")
        assert await told(gateway) == [*found, (*maker, "Created pod: web-b", 1)]
        await gateway.ok("PATCH", f"{PATHS['Deployment']}/web/scale", {"spec": {"replicas": 0}})
        end(gateway, owner, "web-b")
        assert await told(gateway, "SuccessfulDelete") == [(*maker, "Deleted pod: web-b", 1)]
        await gateway.ok("DELETE", f"{PATHS['Deployment']}/web")
        end(gateway, owner, "web-a")
        assert len(await told(gateway, "SuccessfulDelete")) == 1, "nobody is there to end it"


async def test_what_a_controller_has_not_ended_it_does_not_tell_of() -> None:
    async with Fixture().running() as gateway:
        owner = await controller(gateway, "ReplicaSet", replicas=3)
        for index in range(3):
            place(gateway, owner, f"web-{index}", index=index)
        await gateway.ok("DELETE", "/api/v1/namespaces/default/pods/web-0")
        end(gateway, owner, "web-0")
        assert await told(gateway, "SuccessfulDelete") == []
        await gateway.ok("PATCH", f"{PATHS['ReplicaSet']}/web", {"spec": {"replicas": 1}})
        for index in (1, 2):
            end(gateway, owner, f"web-{index}")
        maker = ("ReplicaSet", "web", "replicaset-controller")
        assert await told(gateway, "SuccessfulDelete") == [
            (*maker, "Deleted pod: web-1", 1),
            (*maker, "Deleted pod: web-2", 1),
        ]


async def test_many_pods_have_one_event_after_the_first_ten() -> None:
    async with Fixture().running() as gateway:
        owner = await controller(gateway, "ReplicaSet", replicas=500)
        for index in range(500):
            place(gateway, owner, f"web-{index:03}", index=index)
        found = await told(gateway)
        assert len(found) == 11
        assert found[0][3:] == ("(combined from similar events): Created pod: web-499", 490)
        assert [one[3] for one in found[1:]] == [f"Created pod: web-{index:03}" for index in range(10)]


async def test_a_leader_that_takes_over_tells_nothing_again() -> None:
    gateway = Fixture()
    async with gateway.running():
        owner = await controller(gateway, "ReplicaSet", replicas=20)
        for index in range(15):
            place(gateway, owner, f"web-{index:03}", index=index)
        before = await told(gateway)
    for index in range(15, 17):
        place(gateway, owner, f"web-{index:03}", index=index, at=later(1))
    gateway.clock.time = later(2)
    gateway.app = create_app(gateway.gateway)
    async with gateway.running():
        after = await told(gateway)
    assert [one for one in after if one not in before] == [
        ("ReplicaSet", "web", "replicaset-controller", after[0][3], 7),
    ]
    assert len(after) == len(before) == 11
