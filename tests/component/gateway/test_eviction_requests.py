"""EvictionRequests at the gateway: validation as in Kubernetes 1.37, the records that follow, and their status."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import NOW, Fixture, Json, node_ref, pod_ref
from tests.component.gateway.test_machines import keeping

from moorage.apiserver.kinds.eviction_request import status_text
from moorage_schemas.eviction import Escalation, EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key, eviction_key
from moorage_schemas.leave_request import LeaveRequested, Requester, RequesterKind
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.topics import BINDINGS, EVICTION_REQUESTS, EVICTIONS, PLACEMENTS, RESOURCES

REQUESTS = "/apis/lifecycle.k8s.io/v1alpha1/namespaces/default/evictionrequests"
UID = "5477c2ff-f59f-4eb9-a0be-e54232323faa"
KEY = "Pod/default/p1|Node/n1|EvictionRequest/bar"
DRAIN = Requester(kind=RequesterKind.EVICTION_REQUEST, name="bar", program="foo.example.com/bar")


def request(*, pod: Any = None, requester: str = "foo.example.com/bar", intent: str = "Eviction") -> Json:
    target = {"pod": {"name": "p1", "uid": UID}} if pod is None else pod
    return {"metadata": {"name": "bar"}, "spec": {"target": target, "requester": requester, "intent": intent}}


def placed(gateway: Fixture, uid: str = UID, *, target: bool = True, generation: int = 1) -> None:
    """Placement has placed the pod, and bound it."""
    event = WorkloadPlaced(
        workload=pod_ref("p1"),
        uid=uid,
        owner=pod_ref("p1"),
        owner_uid=uid,
        generation=generation,
        state=PlacementState.PLACED if target else PlacementState.PENDING,
        target=node_ref("n1") if target else None,
        binding_generation=generation if target else 0,
        decided_time=NOW,
    )
    gateway.log.append(PLACEMENTS, pod_ref("p1").key, pod_ref("p1").key, event)
    if target:
        gateway.bound(pod_ref("p1"), node_ref("n1"))
        bound = gateway.store.tables.bindings[binding_key(pod_ref("p1"), node_ref("n1"))]
        whole = bound.model_copy(update={"uid": uid, "generation": generation})
        gateway.log.append(BINDINGS, binding_key(pod_ref("p1"), node_ref("n1")), "Node/n1", whole)


def decided(gateway: Fixture, state: EvictionState, reason: str = "RequestedByEvictionRequest", **more: Any) -> None:
    """What eviction has written."""
    event = EvictionDecided(
        workload=pod_ref("p1"),
        workload_uid=UID,
        owner=pod_ref("p1"),
        target=node_ref("n1"),
        generation=1,
        revision=1,
        state=state,
        reason=reason,
        decided_time=NOW,
        **more,
    )
    gateway.log.append(EVICTIONS, eviction_key(pod_ref("p1"), node_ref("n1"), 1), "Node/n1", event)


def leaves(gateway: Fixture) -> list[LeaveRequested | None]:
    """The requests to leave that the gateway has written; None for a withdrawal."""
    written = [write for write in gateway.log.written if write.topic is EVICTION_REQUESTS]
    assert {(write.key, write.partition_key) for write in written} <= {(KEY, "Node/n1")}
    assert len({write.meta.id for write in written}) == len(written)
    return [write.event for write in written]  # type: ignore[misc]  # the topic has these


async def shown(gateway: Fixture) -> Json:
    return await gateway.ok("GET", f"{REQUESTS}/bar")


async def test_a_request_is_written_with_its_object() -> None:
    gateway = Fixture()
    placed(gateway)
    await gateway.ok("POST", REQUESTS, request())
    (event,) = leaves(gateway)
    assert event is not None
    assert (event.workload_uid, event.generation, event.requester, event.deadline) == (UID, 1, DRAIN, None)
    number = next(n for n, write in enumerate(gateway.log.written) if write.topic is EVICTION_REQUESTS)
    assert RESOURCES in {write.topic for write in gateway.log.written[number - 2 : number]}


@pytest.mark.parametrize("how", ["withdrawn", "deleted"])
async def test_a_withdrawal_is_in_the_same_transaction(how: str) -> None:
    gateway = Fixture()
    placed(gateway)
    await gateway.ok("POST", REQUESTS, request())
    if how == "deleted":
        await gateway.ok("DELETE", f"{REQUESTS}/bar")
    else:
        await gateway.ok("PATCH", f"{REQUESTS}/bar", {"spec": {"intent": "Withdrawn"}})
    assert leaves(gateway)[1:] == [None]


async def test_a_request_for_another_pod_with_the_name_has_no_record() -> None:
    gateway = Fixture()
    placed(gateway, "another")
    await gateway.ok("POST", REQUESTS, request())
    assert leaves(gateway) == []
    assert status_text(await shown(gateway)) == "Failed (EvictionInvalid)"


async def test_a_pod_that_is_bound_later_gets_its_request_then() -> None:
    gateway = Fixture()
    placed(gateway, target=False)
    async with keeping(gateway):
        await gateway.ok("POST", REQUESTS, request())
        assert leaves(gateway) == []
        placed(gateway)
        await gateway.settled()
        assert [event is not None for event in leaves(gateway)] == [True]
        gateway.log.append(BINDINGS, binding_key(pod_ref("p1"), node_ref("n1")), "Node/n1", None)
        await gateway.settled()
        assert leaves(gateway)[1:] == [None], "its binding has ended"


async def test_a_status_follows_the_eviction() -> None:
    gateway = Fixture()
    placed(gateway)
    await gateway.ok("POST", REQUESTS, request())
    found = await shown(gateway)
    assert status_text(found) == "Progressing"
    assert found["status"]["observedGeneration"] == 1
    decided(gateway, EvictionState.HELD, held_by=("EvictionPause/all",))
    conditions = (await shown(gateway))["status"]["conditions"]
    assert {(one["type"], one["status"], one["reason"], one["message"]) for one in conditions} == {
        ("TargetEvicted", "False", "AwaitingEviction", "Held by EvictionPause/all."),
        ("Failed", "False", "AwaitingEviction", "Held by EvictionPause/all."),
    }
    why = Escalation(reason="Refused", message="not now", time=NOW, source="deployer")
    decided(gateway, EvictionState.REQUESTED, deployer="deployer", escalated=why)
    (message, _) = (one["message"] for one in (await shown(gateway))["status"]["conditions"])
    assert message == "Requested; deployer reports Refused: not now"
    decided(gateway, EvictionState.COMPLETED, "BindingEnded")
    assert status_text(await shown(gateway)) == "TargetEvicted (PodDeleted)"


async def test_a_withdrawn_request_is_cancelled_when_nobody_else_requests_it() -> None:
    gateway = Fixture()
    placed(gateway)
    await gateway.ok("POST", REQUESTS, request())
    await gateway.ok("PATCH", f"{REQUESTS}/bar", {"spec": {"intent": "Withdrawn"}})
    decided(gateway, EvictionState.HELD, held_by=("EvictionPause/all",))
    assert status_text(await shown(gateway)) == "Progressing"
    decided(gateway, EvictionState.CANCELLED, "RequestWithdrawn")
    assert status_text(await shown(gateway)) == "Failed (CanceledDueToNoRequesters)"


INVALID: dict[str, tuple[Json, list[str]]] = {
    "missing target": (request(pod={}), ['spec.target: Invalid value: "": must specify one of: `pod`']),
    "missing target name": (request(pod={"pod": {"uid": UID}}), ["spec.target.pod.name: Required value"]),
    "invalid target name": (
        request(pod={"pod": {"name": "_test", "uid": UID}}),
        ['spec.target.pod.name: Invalid value: "_test": a lowercase RFC 1123 subdomain must consist of'],
    ),
    "missing target uid": (request(pod={"pod": {"name": "bar"}}), ["spec.target.pod.uid: Required value"]),
    "invalid target uid": (
        request(pod={"pod": {"name": "bar", "uid": "invalid-uid"}}),
        ['spec.target.pod.uid: Invalid value: "invalid-uid": must be a lowercase UUID in 8-4-4-4-12 format'],
    ),
    "missing requester name": (request(requester=""), ["spec.requester: Required value"]),
    "invalid requester name": (
        request(requester="foo"),
        ["spec.requester: Invalid value: \"foo\": must include a prefix (e.g. 'example.com/key')"],
    ),
    "invalid requester name - reserved k8s.io domain": (
        request(requester="k8s.io/key"),
        ['spec.requester: Invalid value: "k8s.io/key": domain names *.k8s.io, *.kubernetes.io are reserved'],
    ),
    "invalid requester name - reserved kubernetes.io domain": (
        request(requester="dev.kubernetes.io/key"),
        ['spec.requester: Invalid value: "dev.kubernetes.io/key": domain names *.k8s.io, *.kubernetes.io are reserved'],
    ),
    "requester without an intent": (request(intent=""), ["spec.intent: Required value"]),
    "requester with invalid intent": (
        request(intent="Invalid"),
        ['spec.intent: Unsupported value: "Invalid": supported values: "Eviction", "Withdrawn"'],
    ),
}
"""The cases of upstream's TestDeclarativeValidate, by their names."""


@pytest.mark.parametrize("name", INVALID)
async def test_a_request_is_validated_as_upstream(name: str) -> None:
    body, expected = INVALID[name]
    answer = await Fixture().call("POST", REQUESTS, body)
    assert answer.status_code == 422
    causes = [f"{one['field']}: {one['message']}" for one in answer.json()["details"]["causes"]]
    assert len(causes) == len(expected)
    for found, wanted in zip(causes, expected, strict=True):
        assert found.startswith(wanted)


CHANGES: dict[str, tuple[Json, list[str]]] = {
    "valid": ({"intent": "Withdrawn"}, []),
    "change target name": ({"target": {"pod": {"name": "change"}}}, ["spec.target"]),
    "change target uid": ({"target": {"pod": {"uid": ""}}}, ["spec.target"]),
    "clear target": ({"target": {"pod": None}}, ["spec.target"]),
    "change requester name": ({"requester": "foo.example.com/baz"}, ["spec.requester"]),
    "change to a requester without an intent": ({"intent": ""}, ["spec.intent"]),
    "change to a requester with invalid intent": ({"intent": "Invalid"}, ["spec.intent"]),
}
"""The cases of upstream's TestDeclarativeValidateUpdate, by their names, and the fields that are refused."""


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_is_validated_as_upstream(name: str) -> None:
    change, expected = CHANGES[name]
    gateway = Fixture()
    await gateway.ok("POST", REQUESTS, request())
    answer = await gateway.call("PATCH", f"{REQUESTS}/bar", {"spec": change})
    assert [one["field"] for one in answer.json().get("details", {}).get("causes", ())] == expected
    if expected[:1] in (["spec.target"], ["spec.requester"]):
        assert "Invalid value: null: field is immutable" in answer.json()["message"]


async def test_a_table_has_upstreams_columns() -> None:
    gateway = Fixture()
    placed(gateway)
    await gateway.ok("POST", REQUESTS, request())
    table = await gateway.ok("GET", REQUESTS, headers={"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
    names = [one["name"] for one in table["columnDefinitions"]]
    assert names == ["Name", "Target", "Target Type", "Status", "Requester", "Intent", "Age"]
    assert table["rows"][0]["cells"][:6] == ["bar", "p1", "Pod", "Progressing", "foo.example.com/bar", "Eviction"]
