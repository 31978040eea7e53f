"""The topics of a real Kafka become a history."""

from __future__ import annotations

import pytest
from aiokafka import AIOKafkaProducer
from tests.chaos.seeded.from_kafka import in_order, read_history
from tests.chaos.seeded.history import Entry
from tests.support.brokers import Broker
from tests.support.toys import settings_for

from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage_schemas.topics import CONDITION_REPORTS, TAINTS


@pytest.mark.kafka
async def test_what_is_committed_is_read_from_the_beginning(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await ensure_topics(settings)
    taints, reports = TAINTS.name(settings.topic_prefix), CONDITION_REPORTS.name(settings.topic_prefix)
    ours = [("ce_source", b"moorage/taint-manager"), ("moorage-sources", b"conditions=3")]
    async with AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap, transactional_id=f"{topic_prefix}writer"
    ) as producer:
        async with producer.transaction():
            await producer.send(taints, b"{}", key=b"Node/n1", partition=0, headers=ours, timestamp_ms=2_000)
            # Of another key: records of 1970 may be compacted at once, and then the first one would be gone.
            await producer.send(taints, None, key=b"Node/n3", partition=0, headers=ours, timestamp_ms=3_000)
        await producer.begin_transaction()
        await producer.send_and_wait(taints, b"never", key=b"Node/n2", partition=1)
        await producer.abort_transaction()
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as probe:
        await probe.send_and_wait(reports, b"{}", key=b"Node/n1", partition=0, timestamp_ms=1_000)
    history = await read_history(broker.bootstrap, settings.topic_prefix, skew=0.5)
    found = [(one.topic, one.partition, one.offset, one.key, one.value) for one in history.entries]
    assert found == [
        ("taints", 0, 0, "Node/n1", b"{}"),
        ("taints", 0, 1, "Node/n3", None),
        ("condition-reports", 0, 0, "Node/n1", b"{}"),
    ]
    *earlier, ended = [one.committed for one in history.entries]
    assert earlier == [2.0, 3.0]
    assert ended > 1_000_000_000, "the broker's time: what a probe says of the time does not count"
    assert history.entries[0].headers == {"ce_source": "moorage/taint-manager", "moorage-sources": "conditions=3"}
    assert [(one.topic, one.time) for one in history.acknowledged] == [("condition-reports", ended)]
    assert (history.exact, history.began, history.ended, history.skew) == (False, 2.0, ended, 0.5)
    assert history.partitions == settings.partitions


@pytest.mark.kafka
async def test_a_fleet_that_is_not_there_is_told_of(broker: Broker, topic_prefix: str) -> None:
    with pytest.raises(LookupError, match="is missing"):
        await read_history(broker.bootstrap, f"{topic_prefix}nobody")


def test_records_are_in_order_by_time_and_in_their_partition() -> None:
    def entry(topic: str, offset: int, time: float) -> Entry:
        return Entry(topic, 0, offset, "", b"", {}, time, time, 0)

    slow = [entry("a", 0, 5.0), entry("a", 1, 4.0), entry("a", 2, 7.0)]
    quick = [entry("b", 0, 1.0), entry("b", 1, 6.0)]
    found = list(in_order([slow, quick]))
    assert [(one.topic, one.offset, one.committed, one.order) for one in found] == [
        ("b", 0, 1.0, 0),
        ("a", 0, 5.0, 1),
        ("a", 1, 5.0, 2),
        ("b", 1, 6.0, 3),
        ("a", 2, 7.0, 4),
    ]
    assert [one.appended for one in found if one.topic == "a"] == [5.0, 4.0, 7.0]
