"""Stray records in every topic of a real Kafka: each worker goes on, and the way of an event is whole afterwards."""

from __future__ import annotations

import random
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import pytest
import structlog
from aiokafka import AIOKafkaProducer
from tests.scenario.flow.test_stray_records import StrayWorld, known_of, lived
from tests.support.brokers import Broker
from tests.support.stray_records import Strays
from tests.support.toys import read_all, settings_for, worker_for
from tests.support.waiting import until
from tests.support.worlds.world import every_service, lifted

from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.service import Input
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import decode
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.eviction import EvictionState
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, resource_partition_key
from moorage_schemas.topics import (
    CONDITION_REPORTS,
    DEAD_LETTERS,
    EVICTIONS,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    Topic,
    partition_of,
)

pytestmark = pytest.mark.kafka

PARTITIONS = 3
NODE = TargetRef(kind=TargetKind.NODE, name="lost")
NOT_READY = "node.kubernetes.io/not-ready"


class Fleet:
    """Writes objects and reports, and reads what the services have written."""

    def __init__(self, producer: AIOKafkaProducer, settings: Settings) -> None:
        self._producer, self._settings = producer, settings
        self._number = 0

    async def write(self, topic: Topic, key: str, place: str, event: Model) -> None:
        self._number += 1
        meta = Meta(id=f"sound-{self._number}", source="probe", type=topic.event_type, time=datetime.now(UTC))
        await self._producer.send_and_wait(
            topic.name(self._settings.topic_prefix),
            event.model_dump_json().encode(),
            key=key.encode(),
            partition=partition_of(place, PARTITIONS),
            headers=to_headers(meta),
        )

    async def declare(self, kind: str, name: str, spec: object, **metadata: object) -> None:
        whole = {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
        event = ResourceDeclared(
            object={"apiVersion": "v1", "kind": kind, "metadata": whole, "spec": spec}, version=self._number + 1
        )
        await self.write(RESOURCES, event.key, resource_partition_key(event.key), event)

    async def report(self, target: TargetRef, status: ConditionStatus) -> None:
        event = ConditionReported(
            target=target, type="Ready", status=status, observed_time=datetime.now(UTC), source="probe"
        )
        await self.write(CONDITION_REPORTS, target.key, target.key, event)

    async def table(self, topic: Topic) -> dict[str, Model]:
        found: dict[str, Model] = {}
        for record in await read_all(self._settings, topic):
            read = decode(topic, record)
            if isinstance(read, Input) and read.event is not None:
                found[read.key] = read.event
        return found

    async def is_placed(self, pod: str) -> bool:
        event = (await self.table(PLACEMENTS)).get(f"Pod/default/{pod}")
        return getattr(event, "target", None) is not None

    async def is_tainted(self) -> bool:
        event = (await self.table(TAINTS)).get(NODE.key)
        return any(one.key == NOT_READY and one.effect == "NoExecute" for one in getattr(event, "taints", ()))

    async def is_evicted(self, pod: str) -> bool:
        found = {EvictionState.REQUESTED, EvictionState.COMPLETED}
        tasks = await self.table(EVICTIONS)
        return any(
            key.startswith(f"Pod/default/{pod}|") and getattr(one, "state", None) in found for key, one in tasks.items()
        )

    async def has_letters(self) -> bool:
        return len(await self.table(DEAD_LETTERS)) > 0


def spec(pool: str) -> dict[str, object]:
    return {"containers": [{"name": "c"}], "nodeSelector": {"pool": pool}}


async def test_the_way_of_an_event_is_whole_whatever_is_in_the_topics(broker: Broker, topic_prefix: str) -> None:
    world = StrayWorld()
    lived(world)
    strays = Strays(random.Random(36), known_of(world), PARTITIONS).some(600)  # noqa: S311 - must be repeatable
    options = lifted(partitions=PARTITIONS).model_dump(exclude_unset=True)
    options.pop("partitions")
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=PARTITIONS, **options)
    await ensure_topics(settings)
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer, AsyncExitStack() as workers:
        workers.enter_context(structlog.testing.capture_logs())  # the tracebacks of what is skipped take long
        sent = []
        for topic, partition, key, value, headers in strays:
            name = topic.name(settings.topic_prefix)
            odd = key or b""  # Kafka takes no record without a key for a compacted topic
            sent.append(await producer.send(name, value, key=odd, partition=partition, headers=list(headers)))
        for one in sent:
            await one
        for service in every_service(settings):
            await workers.enter_async_context(worker_for(service, settings))
        fleet = Fleet(producer, settings)
        await until(fleet.has_letters)
        for name in ("lost", "safe"):
            await fleet.declare("Node", name, {}, labels={"pool": name, "topology.kubernetes.io/zone": "z"})
            await fleet.report(TargetRef(kind=TargetKind.NODE, name=name), ConditionStatus.TRUE)
        await fleet.declare("Pod", "here", spec("lost"), namespace="default")
        await until(lambda: fleet.is_placed("here"))
        await fleet.report(NODE, ConditionStatus.FALSE)
        await until(fleet.is_tainted)
        await until(lambda: fleet.is_evicted("here"))
        await fleet.declare("Pod", "new", spec("safe"), namespace="default")
        await until(lambda: fleet.is_placed("new"))
