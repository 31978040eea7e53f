"""Consumers of Moorage get records with the fields that it uses; other consumers get those of aiokafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from moorage.runtime.kafka.clients import clients
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import LightRecord, light

PLACE = TopicPartition("moorage.bindings.v1", 3)
HEADERS = [("ce_id", b"1"), ("empty", b""), ("none", None)]


def read(deserializer: Callable[[Any], Any] | None) -> list[Any]:
    """Three records of a batch, as a consumer with this deserializer reads them."""
    batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, 0, 100_000)
    for offset, (key, value) in enumerate([(b"a", b"1"), (b"b", None), (None, b"")]):
        batch.append(offset, 1_700_000_000_000 + offset, key, value, HEADERS)
    found = MemoryRecords(bytes(batch.build()))
    return list(PartitionRecords(PLACE, found, None, 0, None, deserializer, check_crcs=True, isolation_level=0))


def test_a_light_record_has_the_values_of_a_whole_one() -> None:
    assert clients.FETCH_MAX_WAIT_MS, "the clients' module makes records light"
    ours, theirs = read(light), read(None)
    assert {type(one) for one in ours} == {LightRecord}
    assert {type(one) for one in theirs} == {ConsumerRecord}
    for name in LightRecord.__struct_fields__:
        assert [getattr(one, name) for one in ours] == [getattr(one, name) for one in theirs]


def test_another_deserializer_is_called_as_before() -> None:
    assert [one.value for one in read(lambda value: (value or b"").decode())] == ["1", "", ""]


@pytest.mark.asyncio
async def test_the_consumers_of_moorage_ask_for_light_records() -> None:
    consumer = clients.table_consumer(Settings(bootstrap_servers="127.0.0.1:1"), client_id="test")
    assert consumer._value_deserializer is light
