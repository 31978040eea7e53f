"""Moorage's topics on a broker of FastStream: what handlers get, and what becomes of a record."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRecord
from faststream import AckPolicy, Depends, FastStream
from faststream.kafka import KafkaBroker, KafkaMessage, KafkaRouter
from faststream.kafka.parser import AioKafkaParser
from faststream.specification import AsyncAPI

from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef
from moorage_schemas.topics import AUDIT, BINDINGS, CONDITION_REPORTS, CONDITIONS, EVICTIONS, TAINTS, Topic
from moorage_sdk import Connection, SdkError
from moorage_sdk.errors import RecordError
from moorage_sdk.faststream import EventMeta, MoorageTopics, RecordKey, RecordMessage, RecordTarget
from moorage_sdk.faststream.records import Reading
from moorage_sdk.faststream.testing import playing
from moorage_sdk.targets import Targets, target_of

CONNECTION = Connection(topic_prefix="moorage")
KEY = "Pod/shop/web|Node/n1"


@pytest.fixture
def kafka() -> KafkaBroker:
    return KafkaBroker("localhost:1", logger=None)


@pytest.fixture
def topics(kafka: KafkaBroker) -> MoorageTopics:
    return MoorageTopics(kafka, CONNECTION)


async def test_handlers_get_events_and_none_for_a_tombstone(kafka: KafkaBroker, topics: MoorageTopics) -> None:
    seen: list[Any] = []

    @topics.subscriber(BINDINGS)
    async def on_binding(bound: WorkloadBound | None, key: RecordKey, target: RecordTarget, meta: EventMeta) -> None:
        seen.append((bound, key, target, meta.type, bool(meta.id), meta.time is not None))

    @topics.subscriber(EVICTIONS)
    async def on_eviction(eviction: EvictionDecided | None) -> None:
        seen.append(eviction and (eviction.state, eviction.revision))

    async with playing(kafka, CONNECTION) as decisions:
        bound = await decisions.bind("Pod/shop/web", "Node/n1", replicas=2)
        await decisions.schedule(bound)
        await decisions.hold(bound)
        await decisions.cancel(bound)
        await decisions.evict(bound)
        await decisions.complete(bound)
        await decisions.forget(bound)
        again = await decisions.bind("Pod/shop/web", "Node/n1")
    target = TargetRef.parse("Node/n1")
    states = ["Scheduled", "Held", "Cancelled", "Requested", "Completed"]
    assert seen == [
        (bound, KEY, target, BINDINGS.event_type, True, True),
        *((EvictionState(state), revision) for revision, state in enumerate(states, 1)),
        (None, KEY, target, BINDINGS.event_type, True, True),
        None,
        (again, KEY, target, BINDINGS.event_type, True, True),
    ]
    assert (again.generation, again.uid) == (2, "uid-2")


async def test_filters(kafka: KafkaBroker, topics: MoorageTopics) -> None:
    seen: list[str] = []

    @topics.subscriber(BINDINGS, targets=["Node/n1", "Cluster/*"], tombstones=False)
    async def on_binding(bound: WorkloadBound) -> None:
        seen.append(str(bound.target))

    @topics.subscriber(EVICTIONS, deployer="deployer/mine")
    def on_eviction(eviction: EvictionDecided | None) -> None:
        seen.append(eviction.deployer if eviction is not None else "tombstone")

    async with playing(kafka, CONNECTION) as decisions:
        for target in ("Node/n1", "Node/n10"):
            await decisions.bind("Pod/shop/web", target)
        bound = await decisions.bind("Pod/shop/web", "Cluster/east")
        await decisions.unbind(bound)
        await decisions.evict(bound)
        await decisions.evict(bound, deployer="deployer/other")
        await decisions.evict(bound, deployer="deployer/mine")
        await decisions.forget(bound)
    assert seen == ["Node/n1", "Cluster/east", "deployer/mine", "tombstone"]


async def test_a_router_and_dependencies(kafka: KafkaBroker) -> None:
    router = KafkaRouter()
    topics = MoorageTopics(router, CONNECTION)
    seen: list[str] = []

    def zone(target: RecordTarget) -> str:
        return f"zone of {target.name}"

    @topics.subscriber(BINDINGS)
    async def on_binding(bound: WorkloadBound | None, place: Annotated[str, Depends(zone)]) -> None:
        seen.append(f"{bound is not None} {place}")

    kafka.include_router(router)
    async with playing(kafka, CONNECTION) as decisions:
        await decisions.bind("Pod/shop/web", "Node/n1")
    assert seen == ["True zone of n1"]


async def test_reports_of_a_handler(kafka: KafkaBroker, topics: MoorageTopics) -> None:
    @topics.subscriber(BINDINGS)
    @topics.reports("deployer/mine")
    def on_binding(bound: WorkloadBound | None) -> ConditionReported | None:
        if bound is None:
            return None
        return ConditionReported(
            target=bound.target,
            type="Healthy",
            status=ConditionStatus.TRUE,
            observed_time=datetime.now(UTC),
            workload=bound.workload,
        )

    async with playing(kafka, CONNECTION) as decisions:
        bound = await decisions.bind("Pod/shop/web", "Node/n1")
        await decisions.unbind(bound)
    assert [(str(one.workload), one.status) for one in decisions.reports] == [("Pod/shop/web", "True")]
    assert len(kafka.subscribers) == 1, "the player leaves nothing behind"


def test_reports_above_a_subscriber_would_be_lost(topics: MoorageTopics) -> None:
    @topics.subscriber(BINDINGS)
    async def on_binding(bound: WorkloadBound | None) -> None: ...

    with pytest.raises(SdkError, match="reports: above the subscriber: expected below it"):
        topics.reports("deployer/mine")(on_binding)


def test_the_document_has_the_events(kafka: KafkaBroker, topics: MoorageTopics) -> None:
    @topics.subscriber(EVICTIONS)
    async def on_eviction(eviction: EvictionDecided | None, key: RecordKey) -> None: ...

    topics.reports("probe/x")
    app = FastStream(kafka, specification=AsyncAPI(title="mine", version="1", schema_version="3.0.0"))
    document = json.loads(app.schema.to_specification().to_json())
    assert {one["address"] for one in document["channels"].values()} == {
        "moorage.evictions.v1",
        "moorage.condition-reports.v1",
    }
    assert {"EvictionDecided", "ConditionReported"} <= document["components"]["schemas"].keys()


async def test_an_error_of_a_handler_is_raised_by_the_player(kafka: KafkaBroker, topics: MoorageTopics) -> None:
    @topics.subscriber(BINDINGS)
    async def on_binding(bound: WorkloadBound | None) -> None:
        raise RuntimeError(f"no disk for {bound and bound.workload.name}")

    async with playing(kafka, CONNECTION) as decisions:
        with pytest.raises(RuntimeError, match="no disk for web"):
            await decisions.bind("Pod/shop/web", "Node/n1")


def _of_other_topic(bound: WorkloadBound | None) -> None: ...
def _without_none(eviction: EvictionDecided) -> None: ...


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (
            lambda one: one.subscriber(CONDITION_REPORTS),
            "topic: invalid value 'condition-reports': expected",
        ),
        (lambda one: one.subscriber(AUDIT, targets=["Node/*"]), "targets: not for audit: its keys name no target"),
        (lambda one: one.subscriber(TAINTS, deployer="x"), "deployer: not for taints: its events name none"),
        (lambda one: one.subscriber(TAINTS, targets=["n1"]), "targets: invalid value 'n1': expected Kind/name"),
        (lambda one: one.subscriber(TAINTS, ack_policy=AckPolicy.ACK_FIRST), "ack_policy: invalid value 'ack_first'"),
        (lambda one: one.subscriber(TAINTS, batch=True), "batch: not an option"),
        (
            lambda one: one.subscriber(EVICTIONS)(_of_other_topic),
            r"_of_other_topic\(bound\): invalid value 'WorkloadBound': expected EvictionDecided \| None",
        ),
        (
            lambda one: one.subscriber(EVICTIONS)(_without_none),
            r"_without_none\(eviction\): tombstones have no event: expected EvictionDecided \| None",
        ),
        (lambda one: one.reports("my probe"), "source: invalid value 'my probe': must be 1 to 253 printable ASCII"),
        (lambda _: MoorageTopics(KafkaRouter(prefix="x."), CONNECTION), "prefix: invalid value 'x.'"),
    ],
)
def test_mistakes_are_refused(topics: MoorageTopics, make: Callable[[MoorageTopics], Any], error: str) -> None:
    with pytest.raises(SdkError, match=error):
        make(topics)


def record(topic: Topic, key: str, value: bytes | None, headers: Any = ()) -> ConsumerRecord[Any, Any]:
    return ConsumerRecord(topic.name(), 3, 7, 0, 0, key.encode(), value, None, len(key), len(value or b""), headers)


class Consumer(AIOKafkaConsumer):  # type: ignore[misc]  # aiokafka publishes no types
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self._closed = True

    async def commit(self) -> None:
        self.asked.append("commit")

    def seek(self, partition: Any, offset: int) -> None:
        self.asked.append((partition.topic, partition.partition, offset))


async def message(reading: Reading, one: ConsumerRecord[Any, Any], consumer: Any = None) -> RecordMessage:
    parser = AioKafkaParser(KafkaMessage, None)
    parser._consumer = consumer
    return await reading.parse(one, parser.parse_message)


@pytest.mark.parametrize(("has_group", "asked"), [(True, ["commit"]), (False, [])])
async def test_positions_are_stored_by_a_group_alone(*, has_group: bool, asked: list[Any]) -> None:
    consumer = Consumer()
    reading = Reading({BINDINGS.name(): BINDINGS}, targets=Targets(None), has_group=has_group)
    await (await message(reading, record(BINDINGS, KEY, None), consumer)).ack()
    assert consumer.asked == asked


async def test_a_record_is_read_again_after_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("moorage_sdk.faststream.records.asyncio.sleep", sleep)
    consumer = Consumer()
    reading = Reading({BINDINGS.name(): BINDINGS}, targets=Targets(None))
    for _ in range(8):
        await (await message(reading, record(BINDINGS, KEY, b"{}"), consumer)).nack()
    assert consumer.asked == [(BINDINGS.name(), 3, 7)] * 8
    assert pauses[0] <= 0.2 < pauses[3] <= pauses[7] <= 10.0
    await (await message(reading, record(BINDINGS, KEY, b"{}"), consumer)).ack()
    await (await message(reading, record(BINDINGS, KEY, b"{}"), consumer)).nack()
    assert pauses[8] <= 0.2


async def test_records_that_faststream_cannot_parse() -> None:
    reading = Reading({BINDINGS.name(): BINDINGS}, targets=Targets(None))
    headers = (("ce_id", b"i"), ("empty", None), ("binary", b"\xff"), ("ce_source", b"s"), ("ce_type", b"t"))
    found = await message(reading, record(BINDINGS, KEY, None, headers))
    assert await reading.decode(found) is None
    assert (found.correlation_id, found.message_id) == ("i", "i")
    assert found.meta.id == "moorage.bindings.v1/3/7", "it has no specversion, so it is no CloudEvent"
    with pytest.raises(RecordError, match="a record of bindings: workload: invalid value"):
        await reading.decode(await message(reading, record(BINDINGS, KEY, b'{"new": 1}')))


def test_the_target_is_part_of_keys() -> None:
    node = TargetRef.parse("Node/n1")
    for topic, key in ((BINDINGS, KEY), (EVICTIONS, f"{KEY}|4"), (TAINTS, "Node/n1"), (CONDITIONS, "Node/n1|Ready")):
        assert target_of(topic, key) == node
    assert target_of(AUDIT, "Node/n1") is None
