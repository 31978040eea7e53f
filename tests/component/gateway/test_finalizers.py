"""Deletion in two steps: what finalizers hold is marked first, and goes with the last of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, deployment, node, node_ref, pod, pod_ref

from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared, resource_key
from moorage_schemas.topics import PLACEMENTS, RESOURCES

MAPS = "/api/v1/namespaces/default/configmaps"
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
HELD = {"finalizers": ["example.com/a", "example.com/b"]}


def config_map(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c", **metadata}, "data": {"a": "1"}}


async def test_it_is_marked_once_and_stays() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", MAPS, config_map(**HELD))
    shown = await gateway.ok("DELETE", f"{MAPS}/c")
    assert (shown["kind"], shown["data"]) == ("ConfigMap", {"a": "1"})
    metadata = shown["metadata"]
    assert metadata["deletionTimestamp"] == "2026-01-01T12:00:00Z"
    assert (metadata["deletionGracePeriodSeconds"], metadata["finalizers"]) == (0, HELD["finalizers"])
    assert "generation" not in metadata, "a config map has no desired state"
    assert metadata["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert await gateway.ok("GET", f"{MAPS}/c") == shown
    written = len(gateway.log.written)
    assert await gateway.ok("DELETE", f"{MAPS}/c") == shown
    assert len(gateway.log.written) == written


@pytest.mark.parametrize("verb", ["PUT", "PATCH"])
async def test_it_goes_with_its_last_finalizer(verb: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", MAPS, config_map(**HELD))
    await gateway.ok("DELETE", f"{MAPS}/c")
    first = config_map(finalizers=["example.com/b"])
    shown = await gateway.ok(verb, f"{MAPS}/c", first)
    assert shown["metadata"]["deletionTimestamp"], "a change keeps the mark"
    last = await gateway.ok(verb, f"{MAPS}/c", config_map(finalizers=[]))
    assert last["metadata"].get("finalizers", []) == []
    assert last["metadata"]["deletionTimestamp"]
    assert await gateway.status(f"{MAPS}/c") == 404
    assert gateway.declared[-1].event is None


async def test_a_watch_sees_the_mark_and_the_end() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", MAPS, config_map(**HELD))
    await gateway.ok("DELETE", f"{MAPS}/c")
    await gateway.ok("PATCH", f"{MAPS}/c", {"metadata": {"finalizers": None}})
    since = made["metadata"]["resourceVersion"]
    answer = await gateway.call("GET", f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={since}")
    assert [line.split('"')[3] for line in answer.text.splitlines()] == ["MODIFIED", "DELETED"]


async def test_finalizers_alone_do_nothing() -> None:
    gateway = Fixture()
    await gateway.ok("POST", MAPS, config_map(**HELD))
    await gateway.ok("PATCH", f"{MAPS}/c", {"metadata": {"finalizers": None}})
    assert await gateway.status(f"{MAPS}/c") == 200
    gone = await gateway.ok("DELETE", f"{MAPS}/c")
    assert (gone["kind"], gone["status"]) == ("Status", "Success")
    assert await gateway.status(f"{MAPS}/c") == 404


async def test_none_can_be_added_while_it_is_being_deleted() -> None:
    gateway = Fixture()
    await gateway.ok("POST", MAPS, config_map(finalizers=["example.com/a"]))
    await gateway.ok("DELETE", f"{MAPS}/c")
    more = {"metadata": {"finalizers": ["example.com/a", "example.com/late"]}}
    answer = await gateway.call("PATCH", f"{MAPS}/c", more)
    assert answer.status_code == 422
    assert answer.json()["message"] == (
        'ConfigMap "c" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is '
        'being deleted, found new finalizers []string{"example.com/late"}'
    )
    changed = await gateway.ok("PATCH", f"{MAPS}/c", {"data": {"a": "2"}})
    assert changed["data"] == {"a": "2"}, "the rest may change"


@pytest.mark.parametrize(
    ("metadata", "field", "rule"),
    [
        ({"finalizers": ["not valid/a"]}, "metadata.finalizers", "prefix part a lowercase RFC 1123 subdomain"),
        ({"finalizers": ["hold"]}, "metadata.finalizers[0]", "neither a standard finalizer name nor"),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, "metadata.finalizers", "cannot be both set"),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}]},
            "metadata.ownerReferences[0].uid",
            "must not be empty",
        ),
        (
            {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
                    for name in ("a", "b")
                ]
            },
            "metadata.ownerReferences",
            "Only one reference can have Controller set to true",
        ),
    ],
)
async def test_ties_are_validated(metadata: dict[str, Any], field: str, rule: str) -> None:
    answer = await Fixture().call("POST", MAPS, config_map(**metadata))
    assert answer.status_code == 422
    (cause,) = answer.json()["details"]["causes"]
    assert cause["field"] == field
    assert rule in cause["message"]


async def test_a_kind_of_the_fleet_is_warned_of_a_finalizer_without_a_domain() -> None:
    gateway = Fixture()
    cluster = {"metadata": {"name": "c1", "finalizers": ["hold", "a.b/c"]}, "spec": {"hubAcceptsClient": True}}
    answer = await gateway.call("POST", "/apis/cluster.open-cluster-management.io/v1/managedclusters", cluster)
    assert answer.status_code == 201, answer.text
    (warning,) = [one for one in answer.headers.get_list("warning") if "finalizers" in one]
    assert 'metadata.finalizers: \\"hold\\": prefer a domain-qualified finalizer name' in warning


async def test_a_finalizer_that_was_accepted_once_may_stay() -> None:
    gateway = Fixture()
    key = resource_key("ConfigMap", "default", "c")
    old = {"apiVersion": "v1", "kind": "ConfigMap", **config_map(finalizers=["hold"])}
    old["metadata"] = {**old["metadata"], "namespace": "default", "uid": "u1"}
    gateway.log.append(RESOURCES, key, key, ResourceDeclared(object=old, version=1))
    assert (await gateway.ok("PATCH", f"{MAPS}/c", {"data": {"a": "2"}}))["data"] == {"a": "2"}
    more = {"metadata": {"finalizers": ["hold", "more"]}}
    (cause,) = (await gateway.call("PATCH", f"{MAPS}/c", more)).json()["details"]["causes"]
    assert cause["field"] == "metadata.finalizers[1]"


async def test_an_owner_that_is_named_twice_is_kept_once_and_warned_of() -> None:
    gateway = Fixture()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    answer = await gateway.call("POST", MAPS, config_map(ownerReferences=[owner, owner]))
    assert answer.status_code == 201, answer.text
    assert answer.json()["metadata"]["ownerReferences"] == [owner]
    assert "duplicate UID(s) observed: u" in answer.headers["warning"]


async def test_nobody_marks_an_object_by_writing_the_time() -> None:
    gateway = Fixture()
    mark = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    made = await gateway.ok("POST", MAPS, config_map(**mark))
    assert not mark.keys() & made["metadata"].keys()


async def test_a_dry_run_marks_nothing() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", MAPS, config_map(**HELD))
    shown = await gateway.ok("DELETE", f"{MAPS}/c?dryRun=All")
    assert shown["metadata"]["deletionTimestamp"]
    assert await gateway.ok("GET", f"{MAPS}/c") == made


async def test_a_target_that_finalizers_hold_keeps_its_taints() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node() | {"metadata": {"name": "n1", "finalizers": ["example.com/a"]}})
    shown = await gateway.ok("DELETE", f"{NODES}/n1")
    gateway.tainted("n1", [("a", "1", "NoSchedule")], uid=shown["metadata"]["uid"], generation=1)
    await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"labels": {"a": "b"}}})
    assert (await gateway.ok("GET", f"{NODES}/n1"))["spec"]["taints"][0]["key"] == "a"


async def test_an_evicted_pod_that_finalizers_hold_is_marked() -> None:
    gateway = Fixture()
    body = pod() | {"metadata": {"name": "p1", "finalizers": ["example.com/a"]}}
    made = await gateway.ok("POST", PODS, body)
    placed = WorkloadPlaced(
        workload=pod_ref("p1"),
        uid=made["metadata"]["uid"],
        owner=pod_ref("p1"),
        owner_uid=made["metadata"]["uid"],
        generation=2,
        state=PlacementState.EVICTED,
        previous_target=node_ref("n1"),
        decided_time=gateway.clock.now(),
    )
    async with gateway.running():
        gateway.log.append(PLACEMENTS, pod_ref("p1").key, pod_ref("p1").key, placed)
        await gateway.settled()
        assert (await gateway.ok("GET", f"{PODS}/p1"))["metadata"]["deletionTimestamp"]
        await gateway.ok("PATCH", f"{PODS}/p1", {"metadata": {"finalizers": None}})
    assert await gateway.status(f"{PODS}/p1") == 404


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"propagationPolicy": "Later"}, 422, 'propagationPolicy: Unsupported value: "Later"'),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "cannot be both set"),
        ({"gracePeriodSeconds": "soon"}, 400, "gracePeriodSeconds"),
    ],
)
async def test_wrong_options_are_refused(options: dict[str, Any], code: int, message: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/apis/apps/v1/namespaces/default/deployments", deployment())
    answer = await gateway.call("DELETE", "/apis/apps/v1/namespaces/default/deployments/web", options)
    assert (answer.status_code, message in answer.json()["message"]) == (code, True), answer.text
