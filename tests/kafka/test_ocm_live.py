"""OCM placements through real workers and a real Kafka: a toleration ends while nobody is there to see it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from tests.support.brokers import Broker
from tests.support.toys import read_all, settings_for, worker_for
from tests.support.waiting import until

from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import placement
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, resource_partition_key
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import BINDINGS, DEAD_LETTERS, PLACEMENTS, RESOURCES, TAINTS, Topic, partition_of

pytestmark = pytest.mark.kafka

GROUP = "cluster.open-cluster-management.io"
_IDS = itertools.count()


async def write(settings: Settings, topic: Topic, key: str, partition_key: str, event: Model) -> None:
    meta = Meta(id=f"e{next(_IDS)}", source="test", type=topic.event_type, time=datetime.now(UTC))
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        await producer.send_and_wait(
            topic.name(settings.topic_prefix),
            event.model_dump_json().encode(),
            key=key.encode(),
            partition=partition_of(partition_key, settings.partitions),
            headers=to_headers(meta),
        )


async def declare(settings: Settings, kind: str, name: str, spec: dict[str, Any], version: str = "v1") -> None:
    namespace = {} if kind == "ManagedCluster" else {"namespace": "default"}
    body = {
        "apiVersion": f"{GROUP}/{version}",
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{name}", **namespace},
        "spec": spec,
    }
    event = ResourceDeclared(object=body, version=1)
    await write(settings, RESOURCES, event.key, resource_partition_key(event.key), event)


async def taint(settings: Settings, name: str, generation: int, *keys: str) -> None:
    target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name=name)
    now = datetime.now(UTC)
    taints = tuple(
        TaintRecord(key=key, effect="NoSelect", time_added=now, origins=(TaintOrigin.EXPLICIT,)) for key in keys
    )
    event = TargetTainted(target=target, generation=generation, taints=taints)
    await write(settings, TAINTS, target.key, target.key, event)


async def decided(settings: Settings) -> list[WorkloadPlaced]:
    records = await read_all(settings, PLACEMENTS)
    found = [WorkloadPlaced.model_validate_json(record.value) for record in records if record.value is not None]
    return [event for event in found if event.workload.kind == "PlacementDecision"]


def told(settings: Settings, *wanted: Sequence[str]) -> Callable[[], Any]:
    async def there() -> bool:
        return [list(event.clusters) for event in await decided(settings)] == list(wanted)

    return there


async def test_a_tolerated_time_that_ends_between_two_workers(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2)
    await ensure_topics(settings)
    await declare(settings, "ManagedClusterSetBinding", "default", {"clusterSet": "default"}, "v1beta2")
    for name in ("c1", "c2"):
        await declare(settings, "ManagedCluster", name, {"hubAcceptsClient": True})
        await taint(settings, name, 1)
    patient = {"tolerations": [{"key": "bad", "operator": "Exists", "tolerationSeconds": 5}]}
    await declare(settings, "Placement", "p", patient, "v1beta1")
    async with worker_for(placement.service(settings), settings):
        await until(told(settings, ["c1", "c2"]))
        await taint(settings, "c1", 2, "bad")

        async def noted() -> bool:
            last = [WorkloadPlaced.model_validate_json(one.value) for one in await read_all(settings, PLACEMENTS)][-1]
            return last.decide_again is not None

        await until(noted, message="the end of the tolerated time is not in the record")
    async with worker_for(placement.service(settings), settings):
        await until(told(settings, ["c1", "c2"], ["c2"]))
        await taint(settings, "c1", 3)
        await until(told(settings, ["c1", "c2"], ["c2"], ["c1", "c2"]))
    changes = [(event.added, event.removed) for event in await decided(settings)]
    assert changes == [(("c1", "c2"), ()), ((), ("c1",)), (("c1",), ())]
    assert await read_all(settings, BINDINGS) == []
    assert await read_all(settings, DEAD_LETTERS) == []
