"""People's edits of a node's taints, and what is shown before and after the taint-manager has applied them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import NOW, Fixture, later, node, node_ref

from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.keys import condition_key
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.topics import CONDITIONS

NODES = "/api/v1/nodes"
COLD = {"key": "cold", "value": "a", "effect": "NoSchedule"}
HOT = {"key": "hot", "effect": "NoExecute"}


def wishes(gateway: Fixture) -> tuple[TaintWish, ...]:
    event = gateway.declared[-1].event
    assert isinstance(event, ResourceDeclared)
    assert "taints" not in (event.object.get("spec") or {})
    return event.wishes


def brief(gateway: Fixture) -> list[tuple[str, str, bool, int]]:
    return [(wish.key, wish.value, wish.present, wish.generation) for wish in wishes(gateway)]


def shown(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(taint["key"], taint.get("value", ""), taint["effect"]) for taint in document["spec"].get("taints", [])]


async def test_taints_of_a_new_node_are_wishes_and_shown_at_once() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", NODES + "?fieldManager=ann", node(taints=[COLD, HOT]))
    assert brief(gateway) == [("cold", "a", True, 1), ("hot", "", True, 2)]
    assert {wish.actor for wish in wishes(gateway)} == {"ann"}
    assert {wish.time for wish in wishes(gateway)} == {NOW}
    assert shown(made) == [("cold", "a", "NoSchedule"), ("hot", "", "NoExecute")]
    assert made["spec"]["taints"][0]["timeAdded"] == "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("2026-01-01T12:00:01Z", "2026-01-01T12:00:00Z"),
        ("2999-12-31T00:00:00+02:00", "2026-01-01T12:00:00Z"),
        ("2026-01-01T12:00:00Z", "2026-01-01T12:00:00Z"),
        ("2025-12-31T00:00:00Z", "2025-12-31T00:00:00Z"),
    ],
)
async def test_a_taint_was_added_now_or_before(sent: str, shown: str) -> None:
    gateway = Fixture()
    for name, method, path in (("n1", "POST", NODES), ("n2", "PUT", f"{NODES}/n2")):
        if method == "PUT":
            await gateway.ok("POST", NODES, node(name))
        answer = await gateway.call(method, path, node(name, taints=[{**HOT, "timeAdded": sent}]))
        (taint,) = answer.json()["spec"]["taints"]
        assert taint["timeAdded"] == shown
        assert ("is in the future" in answer.headers.get("warning", "")) is (sent != shown)


async def test_only_differences_are_wished() -> None:
    gateway = Fixture()
    uid = (await gateway.ok("POST", NODES, node(taints=[COLD])))["metadata"]["uid"]
    gateway.tainted("n1", [("cold", "a", "NoSchedule"), ("sick", "", "NoExecute")], uid=uid, generation=1, applied=1)
    now = await gateway.ok("GET", f"{NODES}/n1")
    gateway.clock.time = later(5)
    edited = [taint for taint in now["spec"]["taints"] if taint["key"] != "cold"] + [HOT]
    after = await gateway.ok("PATCH", f"{NODES}/n1", {"spec": {"taints": edited}})
    assert brief(gateway) == [("cold", "", False, 2), ("hot", "", True, 3)]
    assert wishes(gateway)[1].time == later(5)
    assert after["metadata"]["generation"] == 2
    # The applied removal has no meaning any more. The next edit leaves it out and continues the count.
    gateway.tainted("n1", [("sick", "", "NoExecute"), ("hot", "", "NoExecute")], uid=uid, generation=2, applied=3)
    await gateway.ok("PATCH", f"{NODES}/n1", {"spec": {"taints": None}})
    assert brief(gateway) == [("sick", "", False, 4), ("hot", "", False, 5)]


async def test_a_changed_value_is_a_new_wish_with_a_new_time() -> None:
    gateway = Fixture()
    uid = (await gateway.ok("POST", NODES, node(taints=[COLD])))["metadata"]["uid"]
    gateway.tainted("n1", [("cold", "a", "NoSchedule")], uid=uid, generation=1, applied=1)
    now = await gateway.ok("GET", f"{NODES}/n1")
    gateway.clock.time = later(60)
    now["spec"]["taints"][0]["value"] = "b"
    after = await gateway.ok("PUT", f"{NODES}/n1", now)
    assert brief(gateway) == [("cold", "b", True, 2)]
    assert after["spec"]["taints"] == [{**COLD, "value": "b", "timeAdded": "2026-01-01T12:01:00Z"}]


async def test_a_given_time_is_kept() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node(taints=[{**HOT, "timeAdded": "2025-12-31T00:00:00Z"}]))
    assert wishes(gateway)[0].time.isoformat() == "2025-12-31T00:00:00+00:00"


async def test_other_edits_keep_the_wishes_and_make_none() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node(taints=[COLD]))
    after = await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"labels": {"a": "b"}}})
    assert brief(gateway) == [("cold", "a", True, 1)]
    assert shown(after) == [("cold", "a", "NoSchedule")]


async def test_a_stale_edit_of_taints_conflicts_when_the_taint_manager_was_faster() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", NODES, node())
    gateway.tainted("n1", [("sick", "", "NoExecute")], uid=made["metadata"]["uid"], generation=1)
    answer = await gateway.call("PUT", f"{NODES}/n1", {**made, "spec": {"taints": [COLD]}})
    assert answer.status_code == 409


async def test_a_node_made_again_begins_without_the_taints_of_the_one_before() -> None:
    gateway = Fixture()
    old = (await gateway.ok("POST", NODES, node(taints=[COLD])))["metadata"]["uid"]
    gateway.tainted("n1", [("cold", "a", "NoSchedule")], uid=old, generation=1, applied=1)
    await gateway.ok("DELETE", f"{NODES}/n1")
    made = await gateway.ok("POST", NODES, node(taints=[HOT]))
    assert shown(made) == [("hot", "", "NoExecute")]


async def test_conditions_are_shown_on_the_node_and_by_themselves() -> None:
    gateway = Fixture()
    offered = node() | {"status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Mine", "status": "True"}]}}
    uid = (await gateway.ok("POST", NODES, offered))["metadata"]["uid"]
    event = ConditionChanged(
        target=node_ref("n1"),
        target_uid=uid,
        type="example.com/Ready",
        status=ConditionStatus.FALSE,
        reason="Down",
        last_transition_time=NOW,
        last_heartbeat_time=NOW,
        generation=1,
    )
    key = condition_key("Node/n1", "example.com/Ready")
    gateway.log.append(CONDITIONS, key, "Node/n1", event)
    status = (await gateway.ok("GET", f"{NODES}/n1"))["status"]
    assert status["capacity"] == {"cpu": "4"}
    assert [(found["type"], found["status"], found["reason"]) for found in status["conditions"]] == [
        ("example.com/Ready", "False", "Down")
    ]
    own = await gateway.ok("GET", "/apis/moorage.io/v1alpha1/conditions/node.n1:example.com~Ready")
    assert own["status"]["status"] == "False"
    gateway.log.append(CONDITIONS, key, "Node/n1", None)
    assert (await gateway.ok("GET", "/apis/moorage.io/v1alpha1/conditions"))["items"] == []
    assert "conditions" not in (await gateway.ok("GET", f"{NODES}/n1"))["status"]


async def test_taints_are_listed_by_themselves() -> None:
    gateway = Fixture()
    uid = (await gateway.ok("POST", NODES, node()))["metadata"]["uid"]
    gateway.tainted("n1", [("a/b", "", "NoExecute"), ("c", "", "NoSchedule")], uid=uid, generation=1)
    path = "/apis/moorage.io/v1alpha1/taints"
    names = [item["metadata"]["name"] for item in (await gateway.ok("GET", path))["items"]]
    assert names == ["node.n1:NoExecute:a~b", "node.n1:NoSchedule:c"]
    gateway.tainted("n1", [("c", "", "NoSchedule")], uid=uid, generation=2)
    names = [item["metadata"]["name"] for item in (await gateway.ok("GET", path))["items"]]
    assert names == ["node.n1:NoSchedule:c"]


READY = "node.kubernetes.io/not-ready"
STALE = [
    {"key": READY, "effect": effect, "timeAdded": "2025-12-31T00:00:00Z"} for effect in ("NoSchedule", "NoExecute")
]


async def test_what_is_built_in_is_nobodys_wish() -> None:
    gateway = Fixture()
    uid = (await gateway.ok("POST", NODES, node(taints=[*STALE, COLD])))["metadata"]["uid"]
    assert brief(gateway) == [("cold", "a", True, 1)]
    gateway.tainted("n1", [(READY, "", "NoSchedule")], uid=uid, generation=1)
    now = await gateway.ok("GET", f"{NODES}/n1")
    stale = [{**STALE[0], "value": "mine"}, STALE[1], COLD, HOT]
    after = await gateway.ok("PUT", f"{NODES}/n1", {**now, "spec": {"taints": stale}})
    assert brief(gateway) == [("cold", "a", True, 1), ("hot", "", True, 2)], "neither a value nor an effect of it"
    assert shown(after) == [(READY, "", "NoSchedule"), ("cold", "a", "NoSchedule"), ("hot", "", "NoExecute")]
    gateway.tainted("n1", [("cold", "a", "NoSchedule"), ("hot", "", "NoExecute")], uid=uid, generation=2, applied=2)
    ready = await gateway.ok("GET", f"{NODES}/n1")
    again = await gateway.ok("PUT", f"{NODES}/n1", {**ready, "spec": {"taints": stale}})
    assert again == ready, "the file of a time when it was not ready changes nothing"


async def test_who_sends_a_built_in_taint_is_told() -> None:
    gateway = Fixture()
    told = (await gateway.call("POST", NODES, node(taints=[*STALE, COLD]))).headers["warning"]
    for number, taint in enumerate(STALE):
        what = f"spec.taints[{number}]: {READY}:{taint['effect']} is determined by the state of the Node"
        assert f"{what}, and was not applied" in told
    assert "cold" not in told


async def test_who_removes_a_built_in_taint_is_told() -> None:
    gateway = Fixture()
    uid = (await gateway.ok("POST", NODES, node(taints=[COLD])))["metadata"]["uid"]
    down = ConditionChanged(
        target=node_ref("n1"),
        target_uid=uid,
        type="Ready",
        status=ConditionStatus.FALSE,
        last_transition_time=NOW,
        last_heartbeat_time=NOW,
        generation=1,
    )
    gateway.log.append(CONDITIONS, condition_key("Node/n1", "Ready"), "Node/n1", down)
    gateway.tainted("n1", [(READY, "", "NoSchedule"), ("cold", "a", "NoSchedule")], uid=uid, generation=1)
    told = f"spec.taints: {READY}:NoSchedule is determined by the state of the Node or by a policy, and was not removed"
    now = await gateway.ok("GET", f"{NODES}/n1")
    without = {**now, "spec": {"taints": [one for one in now["spec"]["taints"] if one["key"] != READY]}}
    answers = [
        await gateway.call("PUT", f"{NODES}/n1", without),
        await gateway.call("PATCH", f"{NODES}/n1", {"spec": {"taints": None}}),
        await gateway.call("PATCH", f"{NODES}/n1", {"spec": {"taints": [COLD]}}),
    ]
    assert [answer.headers.get("warning") for answer in answers] == [f'299 - "{told}"'] * 3
    same = await gateway.call("PATCH", f"{NODES}/n1", {"metadata": {"labels": {"a": "b"}}})
    assert "warning" not in same.headers
