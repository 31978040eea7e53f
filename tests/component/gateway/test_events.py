"""Events of the gateway: about decisions, and those that clients write. The clock is the test's own."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from tests.component.gateway.double import NOW, Fixture, Json, later, node_ref, pod_ref
from tests.support.waiting import until

from moorage.apiserver.http.app import create_app
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.eviction import Acknowledgement, Escalation, EvictionDecided, EvictionState
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.topics import CONDITIONS, EVICTIONS, OBJECTS, PLACEMENTS

EVENTS = "/api/v1/namespaces/default/events"
NEWER = "/apis/events.k8s.io/v1/namespaces/default/events"


def placed(gateway: Fixture, name: str = "p1", *, at: datetime = NOW, node: str = "n1", message: str = "") -> None:
    """Write placement's decision on a pod. With a message there is no node for it."""
    ref = pod_ref(name)
    event = WorkloadPlaced(
        workload=ref,
        uid=f"uid-of-{name}",
        owner=ref,
        owner_uid=f"uid-of-{name}",
        generation=1,
        state=PlacementState.PENDING if message else PlacementState.PLACED,
        target=None if message else node_ref(node),
        reason="Unschedulable" if message else "Scheduled",
        message=message,
        decided_time=at,
    )
    gateway.log.append(PLACEMENTS, ref.key, ref.key, event)


def evicted(
    gateway: Fixture,
    state: EvictionState,
    *,
    at: datetime = NOW,
    held_by: tuple[str, ...] = (),
    escalated: Escalation | None = None,
    acknowledged: Acknowledgement | None = None,
) -> None:
    """Write the decision on the eviction of the pod p1."""
    ref = pod_ref("p1")
    event = EvictionDecided(
        workload=ref,
        workload_uid="uid-of-p1",
        owner=ref,
        target=node_ref("n1"),
        generation=1,
        revision=1,
        state=state,
        held_by=held_by,
        escalated=escalated,
        acknowledged=acknowledged,
        decided_time=at,
    )
    gateway.log.append(EVICTIONS, f"{ref.key}|Node/n1|1", ref.key, event)


def condition(
    gateway: Fixture,
    status: ConditionStatus,
    *,
    at: datetime = NOW,
    heard: datetime = NOW,
    kind: str = "Ready",
    message: str = "",
) -> None:
    """Write the state of a condition of n1."""
    event = ConditionChanged(
        target=node_ref("n1"),
        target_uid="uid-of-n1",
        type=kind,
        status=status,
        message=message,
        last_transition_time=at,
        last_heartbeat_time=heard,
        generation=1,
    )
    gateway.log.append(CONDITIONS, f"Node/n1|{kind}", "Node/n1", event)


def sent(name: str = "hello", *, namespace: str = "default", **fields: Any) -> Json:
    """An event of a client."""
    about = {"kind": "Pod", "namespace": namespace, "name": "p1"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "Started", "message": "It runs", **fields}


async def listed(gateway: Fixture, path: str = EVENTS) -> list[Json]:
    """The events, once the recorder has nothing to do."""
    await gateway.settled()
    items: list[Json] = (await gateway.ok("GET", path))["items"]
    return items


async def test_a_placed_pod_has_an_event() -> None:
    async with Fixture().running() as gateway:
        placed(gateway, at=later(0.5))
        gateway.clock.time = later(1)
        (event,) = await listed(gateway)
        assert event["metadata"]["name"].startswith("p1.")
        assert (event["type"], event["reason"]) == ("Normal", "Scheduled")
        assert event["message"] == "Successfully assigned default/p1 to n1"
        assert event["source"] == {"component": "moorage-placement"}
        assert event["involvedObject"] == {
            "kind": "Pod",
            "namespace": "default",
            "name": "p1",
            "uid": "uid-of-p1",
            "apiVersion": "v1",
        }
        assert (event["count"], event["firstTimestamp"]) == (1, "2026-01-01T12:00:00Z")
        assert not [write for write in gateway.log.written if write.topic is not OBJECTS]


async def test_repeats_are_counted_in_one_event() -> None:
    async with Fixture().running() as gateway:
        placed(gateway, message="0/1 nodes are available")
        await gateway.settled()
        for seconds in (60, 120, 120):  # the last one is the same record once more
            gateway.clock.time = later(seconds)
            placed(gateway, at=later(seconds), message="0/2 nodes are available")
        (event,) = await listed(gateway)
        assert (event["type"], event["reason"], event["count"]) == ("Warning", "FailedScheduling", 3)
        assert event["message"] == "0/2 nodes are available"
        assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-01T12:00:00Z", "2026-01-01T12:02:00Z")


async def test_evictions_and_conditions_have_events() -> None:
    async with Fixture().running() as gateway:
        await gateway.settled()  # from now on each record is seen, not the latest alone
        gateway.clock.time = later(10)
        evicted(gateway, EvictionState.SCHEDULED)
        evicted(gateway, EvictionState.HELD, at=later(0.5))
        evicted(gateway, EvictionState.HELD, at=later(1), held_by=("PodDisruptionBudget/default/web",))
        evicted(gateway, EvictionState.REQUESTED, at=later(2))
        escalated = Escalation(reason="Failed", message="the disk hangs", time=later(2), source="deployer/mine")
        evicted(gateway, EvictionState.REQUESTED, at=later(2.3), escalated=escalated)
        gone = Acknowledgement(time=later(2), source="deployer/mine")
        evicted(gateway, EvictionState.REQUESTED, at=later(2.6), escalated=escalated, acknowledged=gone)
        evicted(gateway, EvictionState.COMPLETED, at=later(3), escalated=escalated, acknowledged=gone)
        evicted(gateway, EvictionState.CANCELLED, at=later(4))
        condition(gateway, ConditionStatus.UNKNOWN)
        condition(gateway, ConditionStatus.UNKNOWN, heard=later(5))
        condition(gateway, ConditionStatus.TRUE, at=later(6))
        found = {(one["reason"], one["type"], one["message"], one["count"]) for one in await listed(gateway)}
        assert found == {
            ("TaintManagerEviction", "Normal", "Marking for deletion Pod default/p1", 2),
            ("TaintManagerEviction", "Normal", "Cancelling deletion of Pod default/p1", 1),
            (
                "EvictionHeld",
                "Warning",
                "Eviction of Pod default/p1 from n1 is held by PodDisruptionBudget/default/web",
                2,
            ),
            (
                "EvictionEscalated",
                "Warning",
                "Eviction of Pod default/p1 from n1 was not carried out by deployer/mine: Failed: the disk hangs",
                1,
            ),
            ("EvictionAcknowledged", "Normal", "deployer/mine has acknowledged the eviction from n1", 1),
            ("NodeNotReady", "Normal", "Node n1 status is now: NodeNotReady", 1),
            ("NodeReady", "Normal", "Node n1 status is now: NodeReady", 1),
        }


async def test_an_eviction_that_waits_for_the_governor_names_it() -> None:
    async with Fixture().running() as gateway:
        evicted(gateway, EvictionState.HELD)
        (event,) = await listed(gateway)
        assert event["message"] == "Eviction of Pod default/p1 from n1 waits for the governor"


async def test_silence_has_a_reason_of_its_own_and_names_the_source() -> None:
    silent = "probe/disk has not reported on Node/n1 for its grace period of 40 s"
    async with Fixture().running() as gateway:
        await gateway.settled()
        condition(gateway, ConditionStatus.FALSE, kind="DiskPressure")
        condition(gateway, ConditionStatus.UNKNOWN, at=later(1), kind="DiskPressure", message=silent)
        found = {(one["reason"], one["type"], one["message"]) for one in await listed(gateway)}
        status = "Node n1 status is now"
        assert found == {
            ("NodeHasNoDiskPressure", "Normal", f"{status}: NodeHasNoDiskPressure"),
            ("NodeDiskPressureUnknown", "Warning", f"{status}: NodeDiskPressureUnknown: {silent}"),
        }


async def test_both_groups_show_the_same_events() -> None:
    async with Fixture().running() as gateway:
        placed(gateway)
        (core,), (newer,) = await listed(gateway), await listed(gateway, NEWER)
        assert newer["apiVersion"] == "events.k8s.io/v1"
        assert newer["metadata"] == core["metadata"]
        assert (newer["note"], newer["regarding"]) == (core["message"], core["involvedObject"])
        assert (newer["reportingController"], newer["deprecatedCount"]) == ("moorage-placement", 1)
        assert newer["deprecatedSource"] == core["source"]
        assert newer["deprecatedLastTimestamp"] == core["lastTimestamp"]
        assert not {"message", "involvedObject", "count", "source"} & newer.keys()


@pytest.mark.parametrize(
    ("path", "selector", "count"),
    [
        (EVENTS, "involvedObject.name=p1,reason=Scheduled", 1),
        (EVENTS, "involvedObject.uid=uid-of-p2", 1),
        (EVENTS, "involvedObject.kind=Pod,involvedObject.namespace=default", 2),
        (EVENTS, "source=moorage-placement,type=Normal", 2),
        (EVENTS, "type!=Normal", 0),
        (NEWER, "regarding.name=p2", 1),
        (NEWER, "reportingController=moorage-placement,regarding.kind!=Node", 2),
    ],
)
async def test_field_selectors(path: str, selector: str, count: int) -> None:
    async with Fixture().running() as gateway:
        placed(gateway, "p1")
        placed(gateway, "p2")
        assert len(await listed(gateway, f"{path}?fieldSelector={selector}")) == count


async def test_tables_have_the_columns_of_kubernetes() -> None:
    async with Fixture().running() as gateway:
        placed(gateway)
        gateway.clock.time = later(65)
        await gateway.settled()
        accept = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
        table, newer = [(await gateway.call("GET", path, headers=accept)).json() for path in (EVENTS, NEWER)]
        assert newer["rows"][0]["cells"] == table["rows"][0]["cells"]
        narrow = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
        assert narrow == ["Last Seen", "Type", "Reason", "Object", "Message"]
        shown = table["rows"][0]["cells"]
        assert shown[:4] == ["65s", "Normal", "Scheduled", "pod/p1"]


async def test_a_leader_after_another_one_tells_nothing_twice() -> None:
    gateway = Fixture()
    async with gateway.running():
        placed(gateway, "p1")
        (first,) = await listed(gateway)
    placed(gateway, "p2", at=later(1))  # nobody has told of it before the leader was lost
    gateway.clock.time = later(2)
    before = len(gateway.log.objects)
    gateway.app = create_app(gateway.gateway)
    async with gateway.running():
        assert [one["message"] for one in await listed(gateway)] == [
            "Successfully assigned default/p1 to n1",
            "Successfully assigned default/p2 to n1",
        ]
        assert (await listed(gateway))[0] == first
        assert len([one for one in gateway.log.objects[before:] if one.key.startswith("Event/")]) == 1


async def test_old_decisions_are_not_told_and_old_events_go() -> None:
    gateway = Fixture(settings=Settings(event_ttl=600))
    async with gateway.running():
        placed(gateway, "p1")
        await gateway.ok("POST", EVENTS, sent(lastTimestamp="2099-01-01T00:00:00Z"))
        assert len(await listed(gateway)) == 2
        gateway.clock.time = later(599)
        placed(gateway, "p2", at=later(598))
        assert len(await listed(gateway)) == 3
    gateway.clock.time = later(601)
    gateway.app = create_app(gateway.gateway)
    async with gateway.running():
        assert [one["involvedObject"]["name"] for one in await listed(gateway)] == ["p2"]
        gateway.clock.time = later(1300)
        placed(gateway, "p3", at=later(1))
        assert await listed(gateway) == []


async def test_the_oldest_go_when_there_are_too_many() -> None:
    async with Fixture(settings=Settings(events_kept=3)).running() as gateway:
        for number in range(6):
            gateway.clock.time = later(number)
            placed(gateway, f"p{number}", at=later(number))
            await gateway.settled()
        assert [one["involvedObject"]["name"] for one in await listed(gateway)] == ["p3", "p4", "p5"]


async def test_what_cannot_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moorage.apiserver.controllers.events._AGAIN", 0.01)
    async with Fixture().running() as gateway:
        await gateway.settled()
        gateway.log.obstacle = "Kafka is away"
        placed(gateway, message="no node")
        await until(lambda: gateway.app.state.controllers.busy)
        placed(gateway, at=later(1), message="still no node")
        gateway.log.obstacle = ""
        (event,) = await listed(gateway)
        assert (event["count"], event["message"]) == (2, "still no node")


async def test_clients_write_events() -> None:
    async with Fixture().running() as gateway:
        created = await gateway.ok("POST", EVENTS, sent(count=1))
        assert "generation" not in created["metadata"]
        path = f"{EVENTS}/hello"
        assert (await gateway.ok("GET", path)) == created
        patched = await gateway.ok("PATCH", path, {"count": 2})
        assert (patched["count"], patched["metadata"]["uid"]) == (2, created["metadata"]["uid"])
        assert int(patched["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
        assert (await gateway.call("POST", EVENTS, sent())).status_code == 409
        nowhere = await gateway.call("POST", "/api/v1/namespaces/nowhere/events", sent())
        assert nowhere.status_code == 404
        tried = await gateway.ok("POST", f"{EVENTS}?dryRun=All", sent("tried"))
        assert tried["metadata"]["name"] == "tried"
        assert await gateway.status(f"{EVENTS}/tried") == 404
        await gateway.ok("DELETE", path)
        assert await gateway.status(path) == 404
        assert gateway.declared == []


async def test_the_newer_form_is_stored_as_the_older_one() -> None:
    async with Fixture().running() as gateway:
        about = {"kind": "Pod", "namespace": "default", "name": "p1"}
        body = {
            "metadata": {"name": "new"},
            "regarding": about,
            "note": "It runs",
            "reportingController": "deployer",
            "reportingInstance": "deployer-1",
            "action": "Start",
            "reason": "Started",
            "type": "Normal",
            "eventTime": "2026-01-01T12:00:00.000000Z",
        }
        created = await gateway.ok("POST", NEWER, body)
        assert created["note"] == "It runs"
        core = await gateway.ok("GET", f"{EVENTS}/new")
        assert (core["message"], core["involvedObject"], core["reportingComponent"]) == ("It runs", about, "deployer")
        series = {"count": 2, "lastObservedTime": "2026-01-01T12:00:30.000000Z"}
        assert (await gateway.ok("PATCH", f"{NEWER}/new", {"series": series}))["series"] == series
        for change, field in (({"note": "It ran"}, "message"), ({"series": {"count": 1}}, "series.count")):
            answer = await gateway.call("PATCH", f"{NEWER}/new", change)
            assert [one["field"] for one in answer.json()["details"]["causes"]] == [field]


@pytest.mark.parametrize(
    ("namespace", "about", "code"),
    [
        ("default", {"kind": "Pod", "namespace": "shop", "name": "p"}, 422),
        ("default", {"kind": "Node", "name": "n"}, 201),
        ("shop", {"kind": "Node", "name": "n"}, 422),
        ("shop", {"kind": "Pod", "namespace": "shop", "name": "p"}, 201),
    ],
)
async def test_an_event_is_in_the_namespace_of_its_object(namespace: str, about: Json, code: int) -> None:
    async with Fixture().running() as gateway:
        body = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "Started"}
        assert (await gateway.call("POST", f"/api/v1/namespaces/{namespace}/events", body)).status_code == code


async def test_events_go_with_their_namespace() -> None:
    async with Fixture().running() as gateway:
        await gateway.settled()
        await gateway.ok("POST", "/api/v1/namespaces/shop/events", sent(namespace="shop"))
        await gateway.ok("POST", EVENTS, sent())
        await gateway.ok("DELETE", "/api/v1/namespaces/shop")
        await until(lambda: "Namespace//shop" not in gateway.store.tables.resources)
        assert [one["metadata"]["namespace"] for one in await listed(gateway, "/api/v1/events")] == ["default"]
