"""Chains on a real Kafka, which says what offset a record has, and who is fenced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import pytest
from aiokafka import TopicPartition
from tests.support.brokers import Broker
from tests.support.toys import read_all, settings_for, write_raw
from tests.support.waiting import until

from moorage.runtime.chains import CHAINS
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.process.metrics import RESTARTS
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, taint_manager, timer
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.taint import Toleration
from moorage_schemas.topics import (
    BINDINGS,
    CONDITION_REPORTS,
    CONDITIONS,
    EVICTIONS,
    RESOURCES,
    TAINTS,
    TIMER_FIRED,
    TIMERS,
    Topic,
    partition_of,
)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SERVICES = (condition_ingest, taint_manager, eviction, timer)
WRITTEN = (CONDITIONS, TAINTS, EVICTIONS, TIMERS, TIMER_FIRED)
WAIT = 2
"""Seconds for which every pod tolerates its taint."""


def node(name: str) -> TargetRef:
    return TargetRef(kind=TargetKind.NODE, name=name)


async def write(settings: Settings, topic: Topic, key: str, target: TargetRef, event: Model) -> None:
    meta = Meta(id=event_id(topic.short, key, event.model_dump_json()), source="test", type=topic.event_type)
    partition = partition_of(target.key, settings.partitions)
    value = event.model_dump_json().encode()
    await write_raw(settings, topic, key.encode(), value, to_headers(meta), partition=partition)


async def declare(settings: Settings, name: str, *, tainted: bool = False) -> None:
    wish = TaintWish(key="maint", effect="NoExecute", present=True, generation=1, time=datetime.now(UTC))
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": f"uid-{name}"}}
    declared = ResourceDeclared(object=document, version=1 + tainted, wishes=(wish,) if tainted else ())
    await write(settings, RESOURCES, declared.key, node(name), declared)


async def bind(settings: Settings, name: str) -> None:
    pod = WorkloadRef(kind="Pod", namespace="default", name=f"on-{name}")
    tolerates = Toleration(key="maint", operator="Exists", effect="NoExecute", toleration_seconds=WAIT)
    bound = WorkloadBound(
        workload=pod,
        uid=f"uid-{pod.name}",
        owner=pod,
        target=node(name),
        generation=1,
        bound_time=datetime.now(UTC),
        tolerations=(tolerates,),
    )
    await write(settings, BINDINGS, f"{pod.key}|{bound.target.key}", bound.target, bound)


async def report(settings: Settings, name: str) -> None:
    said = ConditionReported(
        target=node(name), type="DiskPressure", status=ConditionStatus.TRUE, observed_time=datetime.now(UTC)
    )
    await write(settings, CONDITION_REPORTS, node(name).key, node(name), said)


async def fleet(broker: Broker, prefix: str, names: Iterable[str]) -> Settings:
    """Topics with nodes that have a pod each."""
    settings = settings_for(broker.bootstrap, prefix, partitions=3, node_monitor_grace_period=0)
    await ensure_topics(settings)
    for name in names:
        await declare(settings, name)
        await bind(settings, name)
    return settings


def workers(settings: Settings, *, chained: bool) -> list[Worker]:
    made = [module.service(settings) for module in SERVICES]
    return [Worker(given, settings, partitions=settings.partitions) for given in ([made] if chained else made)]


async def requested(settings: Settings) -> Counter[str]:
    """How often each node's pod was asked to go."""
    events = [
        EvictionDecided.model_validate_json(one.value) for one in await read_all(settings, EVICTIONS) if one.value
    ]
    return Counter(one.target.name for one in events if one.state is EvictionState.REQUESTED)


async def until_requested(settings: Settings, names: Iterable[str]) -> None:
    wanted = Counter(dict.fromkeys(names, 1))

    async def so() -> bool:
        return await requested(settings) == wanted

    await until(so, message=f"not exactly once: {wanted}")


async def assert_nothing_is_there_twice(settings: Settings) -> None:
    for topic in WRITTEN:
        ids = Counter(dict(one.headers)["ce_id"] for one in await read_all(settings, topic))
        assert ids.total() == len(ids), f"{topic.short}: {ids.most_common(1)}"


def restarts() -> float:
    """How often a task began anew, whatever the reason."""
    return sum(
        sample.value for metric in RESTARTS.collect() for sample in metric.samples if sample.name.endswith("_total")
    )


async def test_a_chain_decides_in_one_transaction_under_the_offsets_that_it_predicts(
    broker: Broker, topic_prefix: str
) -> None:
    settings = await fleet(broker, topic_prefix, names := ["n1", "n2", "n3", "n4"])
    before = restarts()
    (chain,) = workers(settings, chained=True)
    assert chain.name == "targets"
    async with chain:
        await chain.wait_ready()
        for name in names:
            await report(settings, name)
            await declare(settings, name, tainted=True)
        await until_requested(settings, names)
        await until_committed(settings)
        assert chain.report()["services"] == list(CHAINS["targets"])
    assert restarts() == before, "an offset was not as predicted"
    await assert_nothing_is_there_twice(settings)
    steps = [dict(one.headers) for one in await read_all(settings, EVICTIONS)]
    taints = {dict(one.headers)["ce_id"] for one in await read_all(settings, TAINTS)}
    assert {step["ce_causationid"] for step in steps} & taints, "the taint led to it, as it does without a chain"


async def until_committed(settings: Settings) -> None:
    """Wait until the position of each service is in its own group, as it is without a chain."""
    offsets = Offsets(settings, name="test")
    await offsets.start()

    async def so() -> bool:
        for module in SERVICES:
            service = module.service(settings)
            tps = [
                TopicPartition(topic.name(settings.topic_prefix), number)
                for topic in service.sources
                for number in range(settings.partitions)
            ]
            committed = await offsets.committed(f"{settings.topic_prefix}.{service.name}", tps)
            if any(committed.get(tp, 0) < end for tp, end in (await offsets.stable(tps)).items()):
                return False
        return True

    try:
        await until(so, message="not committed")
    finally:
        await offsets.stop()


@pytest.mark.parametrize("chained", [True, False], ids=["from a chain", "to a chain"])
async def test_a_fleet_changes_its_form_and_decides_on_everything_once(
    broker: Broker, topic_prefix: str, *, chained: bool
) -> None:
    names = [f"n{number}" for number in range(9)]
    settings = await fleet(broker, topic_prefix, names)
    async with AsyncExitStack() as stack:
        first, then = workers(settings, chained=chained), workers(settings, chained=not chained)
        for worker in first:
            await worker.start()
            stack.push_async_callback(worker.stop)
        for worker in first:
            await worker.wait_ready()
        for name in names[:3]:
            await declare(settings, name, tainted=True)
        for worker in then:
            await worker.start()
            stack.push_async_callback(worker.stop)
        chain, alone = (first, then) if chained else (then, first)
        await chain[0].wait_ready()
        for name in names[3:6]:
            await declare(settings, name, tainted=True)
        await until_requested(settings, names[:6])
        await until(lambda: not any(worker.ready for worker in alone), message="a service works beside its chain")
        for worker in first:
            await worker.stop()
        for name in names[6:]:
            await report(settings, name)
            await declare(settings, name, tainted=True)
        for worker in then:
            await worker.wait_ready()
        await until_requested(settings, names)
    await assert_nothing_is_there_twice(settings)
