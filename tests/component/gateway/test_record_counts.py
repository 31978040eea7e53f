"""The records that an object costs: each change of what the API shows is one record of the object log."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.component.gateway.double import NOW, Fixture, node_ref, pod, pod_ref
from tests.component.gateway.test_mirror import mirrored, seen_pod
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.apiserver.controllers import events
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.runtime.service import Input
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import binding_key
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.topics import BINDINGS, PLACEMENTS, Topic

PODS = "/api/v1/namespaces/default/pods"


def decided(name: str, uid: str) -> list[Input]:
    """The records with which placement binds a pod, as they arrive: in one transaction."""
    ref, target = pod_ref(name), node_ref("n1")
    placed = WorkloadPlaced(
        workload=ref,
        uid=uid,
        owner=ref,
        owner_uid=uid,
        generation=1,
        state=PlacementState.PLACED,
        target=target,
        reason="Scheduled",
        decided_time=NOW,
    )
    bound = WorkloadBound(workload=ref, uid=uid, owner=ref, target=target, generation=1, bound_time=NOW)
    return [record(PLACEMENTS, ref.key, placed), record(BINDINGS, binding_key(ref, target), bound)]


def record(topic: Topic, key: str, event: Model) -> Input:
    return Input(topic, 0, 0, key, event, Meta(id=key, source="test", type=topic.event_type))


def written(gateway: Fixture, since: int) -> Counter[str]:
    """The number of records of the object log from an offset on, by kind."""
    return Counter(ObjectId.of(one.key).kind for one in gateway.log.objects[since:])


def topics(gateway: Fixture, since: int) -> Counter[str]:
    """The number of records of the other topics that the gateway has written, from a number on."""
    return Counter(one.topic.short for one in gateway.log.written[since:])


async def test_a_pod_is_written_when_it_is_created_and_when_it_is_bound() -> None:
    async with Fixture().running() as gateway:
        await gateway.settled()
        objects, others = len(gateway.log.objects), len(gateway.log.written)
        uid = (await gateway.ok("POST", PODS, pod()))["metadata"]["uid"]
        assert written(gateway, objects) == {"Pod": 1}
        assert topics(gateway, others) == {"resources": 1, "audit": 1}
        objects = len(gateway.log.objects)
        gateway.log.fold(decided("p1", uid))
        await gateway.settled()
        assert written(gateway, objects) == {"Pod": 1, "WorkloadPlacement": 1, "Binding": 1, "Event": 1}


async def test_a_mirrored_pod_is_one_record_of_each_topic() -> None:
    async with Fixture().running() as gateway:
        await gateway.settled()
        objects, others = len(gateway.log.objects), len(gateway.log.written)
        await mirrored(gateway, seen_pod("a"), seen_pod("b", uid="u2"))
        assert written(gateway, objects) == {"Pod": 2}
        assert topics(gateway, others) == {"resources": 2}
        await mirrored(gateway, seen_pod("a", version=8), seen_pod("b", uid="u2", version=8))
        assert topics(gateway, others) == {"resources": 2}, "their content is the same"


@pytest.mark.parametrize(("count", "waits"), [(1, False), (events._FEW, False), (events._FEW + 1, True)])
@virtual_time
async def test_many_events_wait_for_the_objects_that_they_are_about(count: int, waits: bool) -> None:  # noqa: FBT001 - a table's column
    clock = asyncio.get_running_loop().time
    async with Fixture().running() as gateway:
        names = [f"p{number}" for number in range(count)]
        uids = {name: (await gateway.ok("POST", PODS, pod(name)))["metadata"]["uid"] for name in names}
        await gateway.settled()
        objects, began = len(gateway.log.objects), clock()
        gateway.log.fold([one for name in names for one in decided(name, uids[name])])
        await until(lambda: written(gateway, objects)["Event"] == count)
        assert (clock() - began >= events._PAUSE) is waits
