"""Machine sets: the gateway keeps the number of nodes that each requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from tests.component.gateway.double import NOW, Fixture, Json, node, node_ref

from moorage.apiserver.machinery.api_errors import unavailable
from moorage.apiserver.storage.durable_log import Write
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.keys import condition_key
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import CONDITIONS, RESOURCES

NODES = "/api/v1/nodes"
SETS = "/apis/machine.openshift.io/v1beta1/namespaces/pool/machinesets"
COLD = {"key": "cold", "value": "a", "effect": "NoSchedule"}
HOT = {"key": "hot", "effect": "NoExecute"}


def machine_set(replicas: int | None = 2, **template: Any) -> Json:
    spec: Json = {"template": {"spec": template}}
    return {"metadata": {"name": "workers"}, "spec": {**spec, **({} if replicas is None else {"replicas": replicas})}}


@contextlib.asynccontextmanager
async def keeping(gateway: Fixture) -> AsyncIterator[Fixture]:
    """The gateway with its background tasks."""
    async with gateway.app.router.lifespan_context(gateway.app):
        yield gateway


async def until(gateway: Fixture, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await gateway.store.history.wait()


def names(gateway: Fixture) -> list[str]:
    return sorted(shown.document["metadata"]["name"] for shown in gateway.store.all("Node"))


def number(gateway: Fixture, count: int) -> Callable[[], bool]:
    return lambda: len(names(gateway)) == count


def ready(gateway: Fixture, name: str, status: ConditionStatus) -> None:
    event = ConditionChanged(
        target=node_ref(name),
        type="Ready",
        status=status,
        last_transition_time=NOW,
        last_heartbeat_time=NOW,
        generation=1,
    )
    gateway.log.append(CONDITIONS, condition_key(f"Node/{name}", "Ready"), f"Node/{name}", event)


async def test_a_machine_set_makes_its_nodes_from_the_template() -> None:
    async with keeping(Fixture()) as gateway:
        body = machine_set(2, taints=[COLD, HOT], metadata={"labels": {"disk": "ssd"}})
        body["metadata"]["annotations"] = {"machine.openshift.io/vCPU": "4", "machine.openshift.io/memoryMb": "1024"}
        made = await gateway.ok("POST", SETS, body)
        await until(gateway, number(gateway, 2))
        for name in names(gateway):
            assert name.startswith("workers-")
            found = await gateway.ok("GET", f"{NODES}/{name}")
            assert found["metadata"]["labels"] == {"disk": "ssd"}
            assert found["metadata"]["annotations"] == {"machine.openshift.io/machine": f"pool/{name}"}
            (owner,) = found["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["uid"], owner["controller"]) == ("MachineSet", made["metadata"]["uid"], True)
            assert [(taint["key"], taint["effect"]) for taint in found["spec"]["taints"]] == [
                ("cold", "NoSchedule"),
                ("hot", "NoExecute"),
            ]
            assert found["status"]["capacity"] == {"cpu": "4", "memory": "1Gi"}
        wishes = gateway.declared[-1].event
        assert isinstance(wishes, ResourceDeclared)
        assert {wish.actor for wish in wishes.wishes} == {"moorage/machines"}


async def test_without_a_number_there_is_one_node() -> None:
    async with keeping(Fixture()) as gateway:
        await gateway.ok("POST", SETS, machine_set(None))
        await until(gateway, number(gateway, 1))


async def test_a_changed_template_leaves_nodes_alone_and_new_ones_get_it() -> None:
    async with keeping(Fixture()) as gateway:
        await gateway.ok("POST", SETS, machine_set(1))
        await until(gateway, number(gateway, 1))
        (old,) = names(gateway)
        before = await gateway.ok("GET", f"{NODES}/{old}")
        await gateway.ok("PATCH", f"{SETS}/workers", {"spec": {"template": {"spec": {"taints": [HOT]}}}})
        await gateway.ok("PATCH", f"{SETS}/workers/scale", {"spec": {"replicas": 2}})
        await until(gateway, number(gateway, 2))
        assert await gateway.ok("GET", f"{NODES}/{old}") == before
        (new,) = set(names(gateway)) - {old}
        assert (await gateway.ok("GET", f"{NODES}/{new}"))["spec"]["taints"][0]["key"] == "hot"
        # Scaled to zero and back: then all nodes are made from the new template, with new names.
        await gateway.ok("PATCH", f"{SETS}/workers/scale", {"spec": {"replicas": 0}})
        await until(gateway, number(gateway, 0))
        await gateway.ok("PATCH", f"{SETS}/workers/scale", {"spec": {"replicas": 2}})
        await until(gateway, number(gateway, 2))
        assert not {old, new} & set(names(gateway))
        for name in names(gateway):
            assert (await gateway.ok("GET", f"{NODES}/{name}"))["spec"]["taints"][0]["key"] == "hot"


async def test_marked_nodes_go_first_then_those_that_are_not_ready() -> None:
    async with keeping(Fixture()) as gateway:
        await gateway.ok("POST", SETS, machine_set(4))
        await until(gateway, number(gateway, 4))
        marked, lost, one, two = names(gateway)
        mark = {"metadata": {"annotations": {"machine.openshift.io/delete-machine": "true"}}}
        await gateway.ok("PATCH", f"{NODES}/{marked}", mark)
        ready(gateway, lost, ConditionStatus.UNKNOWN)
        await gateway.ok("PATCH", f"{SETS}/workers/scale", {"spec": {"replicas": 3}})
        await until(gateway, number(gateway, 3))
        assert names(gateway) == [lost, one, two]
        await gateway.ok("PATCH", f"{SETS}/workers/scale", {"spec": {"replicas": 2}})
        await until(gateway, number(gateway, 2))
        assert names(gateway) == [one, two]


async def test_a_node_that_is_deleted_is_followed_by_one_of_another_name() -> None:
    async with keeping(Fixture()) as gateway:
        await gateway.ok("POST", SETS, machine_set(1))
        await until(gateway, number(gateway, 1))
        (old,) = names(gateway)
        await gateway.ok("DELETE", f"{NODES}/{old}")
        await until(gateway, lambda: bool(names(gateway)) and names(gateway) != [old])
        assert len(names(gateway)) == 1


async def test_a_deleted_machine_set_takes_its_nodes_with_it_and_no_others() -> None:
    async with keeping(Fixture()) as gateway:
        await gateway.ok("POST", NODES, node("workers-mine"))
        await gateway.ok("POST", SETS, machine_set(3))
        await until(gateway, number(gateway, 4))
        await gateway.ok("DELETE", f"{SETS}/workers")
        await until(gateway, number(gateway, 1))
        assert names(gateway) == ["workers-mine"]


async def test_a_machine_set_that_finalizers_hold_makes_and_removes_no_nodes() -> None:
    async with keeping(Fixture()) as gateway:
        held = machine_set(2)
        held["metadata"]["finalizers"] = ["example.com/held"]
        await gateway.ok("POST", SETS, held)
        await until(gateway, number(gateway, 2))
        await gateway.ok("DELETE", f"{SETS}/workers")
        await gateway.ok("DELETE", f"{NODES}/{names(gateway)[0]}")
        await gateway.ok("PATCH", f"{SETS}/workers", {"spec": {"replicas": 5}})
        await gateway.ok("POST", SETS, {**machine_set(1), "metadata": {"name": "others"}})
        await until(gateway, lambda: any(name.startswith("others") for name in names(gateway)))
        assert len([name for name in names(gateway) if name.startswith("workers")]) == 1


async def test_a_deleted_namespace_takes_machine_sets_and_their_nodes_with_it() -> None:
    async with keeping(Fixture()) as gateway:
        await gateway.ok("POST", SETS, machine_set(2))
        await until(gateway, number(gateway, 2))
        await gateway.ok("DELETE", "/api/v1/namespaces/pool")
        await until(gateway, number(gateway, 0))


async def test_its_status_counts_nodes_and_ready_ones() -> None:
    async with keeping(Fixture()) as gateway:
        await gateway.ok("POST", SETS, machine_set(2))
        await until(gateway, number(gateway, 2))
        one, two = names(gateway)
        ready(gateway, one, ConditionStatus.TRUE)
        ready(gateway, two, ConditionStatus.FALSE)
        status = (await gateway.ok("GET", f"{SETS}/workers"))["status"]
        assert (status["replicas"], status["readyReplicas"], status["observedGeneration"]) == (2, 1, 1)
        scale = await gateway.ok("GET", f"{SETS}/workers/scale")
        assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)


async def test_only_the_number_applied_keeps_the_template() -> None:
    async with keeping(Fixture()) as gateway:
        await gateway.ok("POST", SETS, machine_set(0, taints=[COLD]))
        # Like `apply` with a file that contains only the number. Applied fields that are absent now are removed.
        patched = await gateway.ok("PATCH", f"{SETS}/workers", {"spec": {"replicas": 1, "template": None}})
        assert patched["spec"]["template"] == {"spec": {"taints": [COLD]}}
        put = await gateway.ok("PUT", f"{SETS}/workers", {"metadata": {"name": "workers"}, "spec": {"replicas": 2}})
        assert put["spec"] == {"replicas": 2, "template": {"spec": {"taints": [COLD]}}}
        await until(gateway, number(gateway, 2))


async def test_a_start_finishes_what_a_crash_left_half_done() -> None:
    first = Fixture()
    await first.ok("POST", SETS, machine_set(3, taints=[COLD]))
    # It ended after creating one node, and there is a node of a deleted machine set.
    async with keeping(first):
        await until(first, number(first, 3))
    one = names(first)[0]
    again = Fixture(ready=False)
    records = {write.key: write for write in first.declared}
    for key in ("MachineSet/pool/workers", f"Node//{one}"):
        write = records[key]
        again.log.append(RESOURCES, key, write.partition_key, write.event)
    orphan = node("orphan")
    orphan["metadata"] |= {
        "uid": "o1",
        "ownerReferences": [
            {
                "apiVersion": "machine.openshift.io/v1beta1",
                "kind": "MachineSet",
                "name": "gone",
                "uid": "was-there-once",
                "controller": True,
            }
        ],
    }
    again.log.append(RESOURCES, "Node//orphan", "Node/orphan", ResourceDeclared(object=orphan, version=1))
    again.begin()
    async with keeping(again):
        await until(again, lambda: number(again, 3)() and "orphan" not in names(again))
        assert one in names(again)


async def test_what_cannot_be_written_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Fixture()
    await gateway.ok("POST", SETS, machine_set(2))
    refused = asyncio.Event()

    async def refuse(_: Sequence[Write]) -> int:
        refused.set()
        raise unavailable("not now")

    with monkeypatch.context() as patch:
        patch.setattr(gateway.log, "commit", refuse)
        async with keeping(gateway):
            async with asyncio.timeout(60):
                await refused.wait()
            patch.undo()
            await until(gateway, number(gateway, 2))


@pytest.mark.parametrize("failure", [unavailable("not this one"), RuntimeError("a fault")])
async def test_one_that_cannot_be_settled_does_not_stand_in_the_way_of_others(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    gateway = Fixture()
    await gateway.ok("POST", SETS, machine_set(1))
    commit = gateway.log.commit

    async def refuse(writes: Sequence[Write]) -> int:
        if writes[0].key.startswith("Node//workers-"):
            raise failure
        return await commit(writes)

    monkeypatch.setattr(gateway.log, "commit", refuse)
    async with keeping(gateway):
        other = machine_set(2)
        other["metadata"]["name"] = "others"
        await gateway.ok("POST", SETS, other)
        await until(gateway, number(gateway, 2))
        assert all(name.startswith("others-") for name in names(gateway))


async def test_a_name_that_somebody_else_has_is_passed_over() -> None:
    first, second = Fixture(), Fixture()
    await first.ok("POST", SETS, machine_set(1))
    async with keeping(first):
        await until(first, number(first, 1))
    (name,) = names(first)
    # The same machine set, but a person's node has the name that its own node would have had.
    (made,) = [write for write in first.declared if write.key == "MachineSet/pool/workers"]
    await second.ok("POST", NODES, node(name))
    second.log.append(RESOURCES, made.key, made.partition_key, made.event)
    async with keeping(second):
        await until(second, number(second, 2))
    assert "ownerReferences" not in (await second.ok("GET", f"{NODES}/{name}"))["metadata"]
    (other,) = set(names(second)) - {name}
    assert other.startswith("workers-")
