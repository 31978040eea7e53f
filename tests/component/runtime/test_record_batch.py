"""Batches that are joined from bytes have what aiokafka's own batches have, byte for byte but for the timestamps."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.runtime.kafka.clients.record_batch import RecordBatch, batches_of
from moorage.runtime.wire.codec import Outgoing

NOW = 1_767_225_600_123
STATE = (7, 3, 11)
ROOMY = 1_000_000

names = st.text(min_size=1, max_size=200)
headers = st.lists(st.tuples(names, st.binary(max_size=300)), max_size=70)
rows = st.lists(st.tuples(st.binary(max_size=300), st.none() | st.binary(max_size=20_000), headers), min_size=1)


def outgoing(row: tuple[bytes, bytes | None, list[tuple[str, bytes]]]) -> Outgoing:
    key, value, given_headers = row
    return Outgoing.of("topic", 0, key, value, given_headers)


def theirs(given_rows: list[Any], limit: int = ROOMY) -> bytes:
    """Return the batch that aiokafka makes of these rows."""
    builder = BatchBuilder(limit, 0, is_transactional=1)
    for key, value, given_headers in given_rows:
        assert builder.append(timestamp=NOW, key=key, value=value, headers=given_headers) is not None
    builder._set_producer_state(*STATE)
    return bytes(builder._build())


def built(batch: RecordBatch) -> bytes:
    batch._set_producer_state(*STATE)
    return bytes(batch._build())


@settings(deadline=None)
@given(rows, st.sampled_from([100, 2_000, ROOMY]))
def test_the_bytes_are_those_of_aiokafka(given_rows: list[Any], limit: int) -> None:
    batches = list(batches_of([outgoing(row) for row in given_rows], NOW, limit))
    left = list(given_rows)
    for batch in batches:
        count = batch.record_count()
        assert len(batch.records) == count
        assert built(batch) == theirs(left[:count])
        assert count == 1 or batch.size() <= limit
        if left[count:]:
            assert len(theirs(left[: count + 1])) > limit, "a batch is as full as it may be"
        left = left[count:]
    assert left == []


@settings(deadline=None)
@given(rows)
def test_headers_are_read_again(given_rows: list[Any]) -> None:
    for row in given_rows:
        assert outgoing(row).headers == row[2]


def test_thousands_of_records_are_read_by_a_consumer() -> None:
    records = [
        Outgoing.of("topic", 0, b"key %d" % number, b"v" * number, [("name", b"%d" % number)])
        for number in range(3_000)
    ]
    batches = list(batches_of(records, NOW, ROOMY))
    assert len(batches) > 1
    found = []
    for batch in batches:
        memory = MemoryRecords(built(batch))
        one = memory.next_batch()
        assert one is not None
        assert one.validate_crc()
        assert one.is_transactional
        found += [(row.key, row.value, row.headers, row.timestamp) for row in one]
    assert found == [(one.key, one.value, one.headers, NOW) for one in records]


def test_a_batch_that_is_sent_again_has_the_new_producers_state() -> None:
    (batch,) = batches_of([Outgoing.of("topic", 0, b"k", None, [])], NOW, ROOMY)
    first = built(batch)
    assert batch.closed()
    assert batch.size() == len(first)
    batch._set_producer_state(8, 0, 0)
    assert bytes(batch._build()) != first


@pytest.mark.parametrize("number", [0, 63, 64, 8_191, 8_192, 70_000, 1_048_576, 2**31 - 1])
def test_numbers_of_every_length(number: int) -> None:
    value = b"x" * min(number, ROOMY)
    (batch,) = batches_of([Outgoing.of("topic", 0, b"k", value, [])], NOW, 2 * ROOMY)
    assert built(batch) == theirs([(b"k", value, [])], 2 * ROOMY)
