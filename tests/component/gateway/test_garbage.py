"""Owners: what they own goes with them, before them, or stays behind."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, deployment, node_ref

from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.topics import PLACEMENTS

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def owner(found: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = found["metadata"]
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        **more,
    }


async def config_map(
    gateway: Fixture, name: str, *owners: dict[str, Any], path: str = MAPS, **metadata: Any
) -> dict[str, Any]:
    body = {"metadata": {"name": name, **({"ownerReferences": list(owners)} if owners else {}), **metadata}}
    return await gateway.ok("POST", path, body)


async def names(gateway: Fixture) -> list[str]:
    return [item["metadata"]["name"] for item in (await gateway.ok("GET", MAPS))["items"]]


@pytest.mark.parametrize("options", [None, {"propagationPolicy": "Background"}, {"orphanDependents": False}])
async def test_what_an_owner_has_goes_with_it(options: Any) -> None:
    async with Fixture().running() as gateway:
        top = await config_map(gateway, "top")
        middle = await config_map(gateway, "middle", owner(top))
        await config_map(gateway, "below", owner(middle))
        await config_map(gateway, "other")
        gone = await gateway.ok("DELETE", f"{MAPS}/top", options)
        assert gone["status"] == "Success"
        await gateway.settled()
        assert await names(gateway) == ["other"]


async def test_one_owner_that_is_left_keeps_it_and_is_the_only_one_named() -> None:
    async with Fixture().running() as gateway:
        one, two = await config_map(gateway, "one"), await config_map(gateway, "two")
        await config_map(gateway, "both", owner(one), owner(two))
        await gateway.ok("DELETE", f"{MAPS}/one")
        await gateway.settled()
        left = await gateway.ok("GET", f"{MAPS}/both")
        assert [each["name"] for each in left["metadata"]["ownerReferences"]] == ["two"]


async def test_an_absent_owner_and_a_newer_one_of_the_name_do_not_count() -> None:
    async with Fixture().running() as gateway:
        first = await config_map(gateway, "top")
        await config_map(gateway, "never", {"apiVersion": "v1", "kind": "Pod", "name": "none", "uid": "u"})
        await gateway.ok("DELETE", f"{MAPS}/top")
        await config_map(gateway, "top")
        await config_map(gateway, "late", owner(first))
        await gateway.settled()
        assert await names(gateway) == ["top"]


async def test_an_owner_of_a_kind_that_is_not_served_counts_as_there() -> None:
    async with Fixture().running() as gateway:
        await config_map(gateway, "a", {"apiVersion": "example.com/v1", "kind": "Boat", "name": "b", "uid": "u"})
        await config_map(gateway, "b", {"apiVersion": "example.com/v1", "kind": "Pod", "name": "b", "uid": "u"})
        await gateway.settled()
        assert await names(gateway) == ["a", "b"]


async def test_an_owner_in_another_namespace_is_not_there() -> None:
    async with Fixture().running() as gateway:
        there = await config_map(gateway, "top", path="/api/v1/namespaces/shop/configmaps")
        await config_map(gateway, "here", owner(there))
        await gateway.settled()
        assert await names(gateway) == []


async def test_an_object_without_a_namespace_has_no_owner_in_one() -> None:
    async with Fixture().running() as gateway:
        top = await config_map(gateway, "top")
        body = {"metadata": {"name": "n1", "ownerReferences": [owner(top)]}}
        await gateway.ok("POST", "/api/v1/nodes", body)
        await gateway.ok("DELETE", f"{MAPS}/top")
        await gateway.settled()
        assert await gateway.status("/api/v1/nodes/n1") == 200


async def test_a_cluster_scoped_owner_takes_what_is_in_namespaces_with_it() -> None:
    async with Fixture().running() as gateway:
        made = await gateway.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
        await config_map(gateway, "mine", owner(made))
        await gateway.ok("DELETE", "/api/v1/nodes/n1")
        await gateway.settled()
        assert await names(gateway) == []


async def test_with_foreground_the_owner_goes_last() -> None:
    async with Fixture().running() as gateway:
        top = await config_map(gateway, "top")
        await config_map(gateway, "held", owner(top, blockOwnerDeletion=True), finalizers=["example.com/a"])
        await config_map(gateway, "free", owner(top, blockOwnerDeletion=True))
        shown = await gateway.ok("DELETE", f"{MAPS}/top", {"propagationPolicy": "Foreground"})
        assert shown["metadata"]["finalizers"] == ["foregroundDeletion"]
        await gateway.settled()
        assert await names(gateway) == ["held", "top"]
        assert (await gateway.ok("GET", f"{MAPS}/held"))["metadata"]["deletionTimestamp"]
        await gateway.ok("PATCH", f"{MAPS}/held", {"metadata": {"finalizers": None}})
        await gateway.settled()
        assert await names(gateway) == []


async def test_what_does_not_block_its_owner_is_deleted_and_not_waited_for() -> None:
    async with Fixture().running() as gateway:
        top = await config_map(gateway, "top")
        await config_map(gateway, "held", owner(top), finalizers=["example.com/a"])
        await gateway.ok("DELETE", f"{MAPS}/top", {"propagationPolicy": "Foreground"})
        await gateway.settled()
        assert await names(gateway) == ["held"]
        assert (await gateway.ok("GET", f"{MAPS}/held"))["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("options", [{"propagationPolicy": "Orphan"}, {"orphanDependents": True}])
async def test_orphans_stay_without_their_owner(options: Any) -> None:
    async with Fixture().running() as gateway:
        top, other = await config_map(gateway, "top"), await config_map(gateway, "other")
        await config_map(gateway, "one", owner(top))
        await config_map(gateway, "two", owner(top), owner(other))
        shown = await gateway.ok("DELETE", f"{MAPS}/top", options)
        assert shown["metadata"]["finalizers"] == ["orphan"]
        await gateway.settled()
        assert await names(gateway) == ["one", "other", "two"]
        assert "ownerReferences" not in (await gateway.ok("GET", f"{MAPS}/one"))["metadata"]
        left = (await gateway.ok("GET", f"{MAPS}/two"))["metadata"]["ownerReferences"]
        assert [each["name"] for each in left] == ["other"]


async def test_a_controller_waits_for_its_pods_in_the_foreground() -> None:
    async with Fixture().running() as gateway:
        made = await gateway.ok("POST", DEPLOYMENTS, deployment())
        workload = WorkloadRef(kind="Pod", namespace="default", name="web-1")
        placed = WorkloadPlaced(
            workload=workload,
            uid="u1",
            owner=WorkloadRef(kind="Deployment", namespace="default", name="web"),
            owner_uid=made["metadata"]["uid"],
            generation=1,
            state=PlacementState.PLACED,
            target=node_ref("n1"),
            binding_generation=1,
            decided_time=gateway.clock.now(),
        )
        gateway.log.append(PLACEMENTS, workload.key, placed.owner.key, placed)
        await gateway.ok("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Foreground"})
        await gateway.settled()
        assert (await gateway.ok("GET", f"{DEPLOYMENTS}/web"))["metadata"]["deletionTimestamp"]
        gateway.log.append(PLACEMENTS, workload.key, placed.owner.key, None)
        await gateway.settled()
        assert await gateway.status(f"{DEPLOYMENTS}/web") == 404


async def test_nothing_is_collected_before_all_tables_are_read() -> None:
    before = Fixture()
    top = await config_map(before, "top")
    await config_map(before, "below", owner(top))
    await config_map(before, "lost", owner({**top, "metadata": {**top["metadata"], "uid": "another"}}))
    after = Fixture(ready=False, namespaces=())
    async with after.running():
        for write in reversed(before.declared):  # what is owned is read before its owner
            after.log.append(write.topic, write.key, write.partition_key, write.event, write.meta)
        assert {"ConfigMap/default/lost", "ConfigMap/default/below"} <= set(after.store.tables.resources)
        after.begin()
        await after.settled()
        assert await names(after) == ["below", "top"]
