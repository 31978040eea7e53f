"""All clients agree on partitions, because ours is Kafka's default partitioner."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.partitioner import murmur2 as kafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from moorage_schemas.topics import PARTITIONS, murmur2, partition_of


@given(data=st.binary(max_size=64))
def test_hash_is_kafkas(data: bytes) -> None:
    assert murmur2(data) == kafka_murmur2(data) & 0xFFFFFFFF


@given(key=st.text(max_size=64), partitions=st.integers(1, 1000))
def test_partition_is_that_of_kafkas_default_partitioner(key: str, partitions: int) -> None:
    everyone = list(range(partitions))
    assert partition_of(key, partitions) == DefaultPartitioner()(key.encode(), everyone, everyone)


# From the tests of Kafka's own Java client (UtilsTest), as unsigned numbers.
@pytest.mark.parametrize(
    ("text", "signed"),
    [("21", -973932308), ("foobar", -790332482), ("a-little-bit-long-string", -985981536), ("abc", 479470107)],
)
def test_hash_is_the_java_clients(text: str, signed: int) -> None:
    assert murmur2(text.encode()) == signed & 0xFFFFFFFF


def test_targets_spread_over_all_partitions() -> None:
    assert {partition_of(f"Node/n{number}") for number in range(500)} == set(range(PARTITIONS))
