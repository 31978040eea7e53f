# ruff: noqa: ARG002 - toy services take what the interface gives them, and use what they need
"""What records an owner takes: bad, poisonous, structured, tombstones, and ones that need fresh tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaProducer
from tests.support.brokers import Broker
from tests.support.toys import (
    COUNTED,
    KNOWN,
    NUMBERS,
    TABLE,
    TALLIES,
    Counted,
    Counter,
    CounterState,
    Known,
    Number,
    assert_exactly_once,
    counted,
    dead_letters,
    make_toys,
    number_record,
    read_all,
    settings_for,
    worker_for,
    write_numbers,
    write_raw,
)
from tests.support.waiting import until

from moorage.runtime.service import Emit, GlobalView, Input, Malformed
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.record_format import dead_letter
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id, from_headers, to_structured
from moorage_schemas.topics import DEAD_LETTERS, partition_of

pytestmark = pytest.mark.kafka


class Refusing(Counter):
    """The counter on a topic that third parties write."""

    name = "refusing"
    refuses = frozenset({NUMBERS})

    def refuse(self, state: CounterState, bad: Malformed, now: datetime) -> list[Emit]:
        return [dead_letter(self.name, bad, now)]


async def refused(settings: Settings, wanted: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        found[:] = dead_letters(await read_all(settings, DEAD_LETTERS))
        return len(found) >= wanted

    await until(there, message=f"{wanted} dead letters did not come")
    assert len(found) == wanted
    return found


async def all_counted(settings: Settings, wanted: int) -> None:
    async def there() -> bool:
        return sum(map(len, (await counted(settings)).values())) >= wanted

    await until(there, message=f"{wanted} records were not processed")


@pytest.mark.parametrize("service", [Refusing(), Counter()], ids=["refused by the service", "by the runtime"])
async def test_malformed_records_become_dead_letters_and_the_rest_goes_on(
    broker: Broker, topic_prefix: str, service: Counter
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1, report_max_bytes=2000)
    await make_toys(settings)
    good, headers = number_record(NUMBERS, Number(key="k", n=1))
    wrong_type = [(name, b"io.moorage.other.v1" if name == "ce_type" else value) for name, value in headers]
    await write_raw(settings, NUMBERS, b"k", good, headers)
    await write_raw(settings, NUMBERS, b"a", b"{not json", headers)
    await write_raw(settings, NUMBERS, b"b", b'{"key": "k", "n": "many"}', headers)
    # An unknown field is a slip of a third party's, but a newer version's when Moorage wrote it.
    strange = b'{"key": "k", "n": 1, "extra": true}' if service.refuses else b'{"key": "k", "n": 1, "needs": []}'
    await write_raw(settings, NUMBERS, b"c", strange, headers)
    await write_raw(settings, NUMBERS, b"d", good)
    await write_raw(settings, NUMBERS, b"e", good, wrong_type)
    await write_raw(settings, NUMBERS, b"\xff\xfe", good, headers)
    await write_raw(settings, NUMBERS, b"g", None, headers)
    await write_raw(settings, NUMBERS, b"h", b"\x00\xff\x01", headers)
    await write_raw(settings, NUMBERS, b"i", good, [*headers, ("ce_subject", None)])  # type: ignore[list-item]  # Kafka allows it
    await write_numbers(settings, [Number(key="k", n=2)])
    async with worker_for(service, settings):
        letters = await refused(settings, 9)
        await all_counted(settings, 2)
    assert_exactly_once(await counted(settings), [Number(key="k", n=1), Number(key="k", n=2)])
    by_offset = {letter["offset"]: letter for letter in letters}
    assert {offset: letter["reason"] for offset, letter in by_offset.items()} == {
        1: "NotJSON",
        2: "InvalidEvent",
        3: "InvalidEvent",
        4: "InvalidEnvelope",
        5: "InvalidEnvelope",
        6: "WrongKey",
        7: "InvalidEvent",
        8: "NotJSON",
        9: "InvalidEnvelope",
    }
    assert by_offset[2]["field"] == "n"
    assert by_offset[2]["value"] == "many"
    assert by_offset[3]["field"] == ("extra" if service.refuses else "needs")
    assert by_offset[1]["original"] == "{not json"
    assert by_offset[1]["headers"]["ce_type"] == NUMBERS.event_type
    assert by_offset[8]["originalEncoding"] == "base64"
    assert by_offset[5]["message"] == (
        "type: invalid value 'io.moorage.other.v1': must be io.moorage.test.number.v1 in topic toy-numbers"
    )
    assert {letter["service"] for letter in letters} == {service.name}


async def test_a_third_partys_record_that_is_too_large_is_refused_unread(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1, report_max_bytes=2000)
    await make_toys(settings)
    _, headers = number_record(NUMBERS, Number(key="k", n=1))
    await write_raw(settings, NUMBERS, b"k", b"x" * 900_000, headers)
    async with worker_for(Refusing(), settings):
        (letter,) = await refused(settings, 1)
    assert letter["reason"] == "TooLarge"
    assert letter["originalSize"] == 900_000
    assert letter["message"] == "value: invalid value '900000 bytes': must have at most 2000 bytes"


async def test_a_poisonous_record_is_found_and_everything_around_it_is_processed(
    broker: Broker, topic_prefix: str
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    work = [Number(key=f"k{i % 3}", n=i) for i in range(60)]
    poisoned = [*work[:20], Number(key="k0", n=-13), *work[20:40], Number(key="k1", n=-13), *work[40:]]
    await write_numbers(settings, poisoned)
    async with worker_for(Counter(), settings) as worker:
        letters = await refused(settings, 2)
        await all_counted(settings, 60)
        await write_numbers(settings, [Number(key="k0", n=60)])
        await all_counted(settings, 61)
        assert worker.ready
    assert_exactly_once(await counted(settings), [*work, Number(key="k0", n=60)])
    assert [letter["offset"] for letter in letters] == [20, 41]
    for letter in letters:
        assert letter["reason"] == "InvalidEvent"
        assert letter["message"] == (
            "the service failed on it: ZeroDivisionError: the state is half changed, and the record is poison"
        )
        assert orjson.loads(letter["original"])["n"] == -13


async def test_a_decision_that_cannot_be_written_is_poison_too(broker: Broker, topic_prefix: str) -> None:
    class Overflowing(Counter):
        name = "overflowing"

        def _one(self, state: CounterState, record: Any) -> list[Emit]:
            emits = super()._one(state, record)
            if record.event.n == 3:
                huge = Counted(key="k" * 2_000_000, seq=1, n=3, total=0)
                return [*emits, Emit(COUNTED, "k", "k", huge, record.meta)]
            return emits

    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    work = [Number(key="k", n=n) for n in range(6)]
    await write_numbers(settings, work)
    async with worker_for(Overflowing(), settings):
        (letter,) = await refused(settings, 1)
        await all_counted(settings, 5)
    assert letter["offset"] == 3
    assert "must have at most 1048588 bytes" in letter["message"]
    assert_exactly_once(await counted(settings), [number for number in work if number.n != 3])


async def test_state_for_another_partition_is_refused_before_it_is_written(broker: Broker, topic_prefix: str) -> None:
    class Straying(Counter):
        name = "straying"

        def _one(self, state: CounterState, record: Any) -> list[Emit]:
            (tally, *rest) = super()._one(state, record)
            return [Emit(TALLIES, tally.key, "elsewhere!", tally.event, tally.cause), *rest]

    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2)
    await make_toys(settings)
    key = next(f"k{i}" for i in range(9) if partition_of(f"k{i}", 2) != partition_of("elsewhere!", 2))
    await write_numbers(settings, [Number(key=key, n=1)])
    async with worker_for(Straying(), settings):
        (letter,) = await refused(settings, 1)
    assert "state must stay in its task's partition" in letter["message"]
    assert await read_all(settings, TALLIES) == []


async def test_structured_mode_is_read_and_the_trace_goes_on(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    event = Number(key="k", n=5)
    meta = Meta(id="e1", source="test", type=NUMBERS.event_type, correlation_id="c1", traceparent=trace)
    body = orjson.dumps(to_structured(meta, event))
    await write_raw(settings, NUMBERS, b"k", body, [("content-type", b"application/cloudevents+json; charset=utf-8")])
    await write_numbers(settings, [Number(key="k", n=6)])
    async with worker_for(Refusing(), settings):
        await all_counted(settings, 2)
    first, second = (from_headers(record.headers) for record in await read_all(settings, COUNTED))
    own = f"{trace[:36]}{first.id[:16]}{trace[52:]}"
    assert (first.causation_id, first.correlation_id, first.traceparent) == ("e1", "c1", own)
    assert first.id == event_id("e1", COUNTED.short, "k", 0)
    # A third party's event without a trace begins one that follows from its id.
    assert second.traceparent.startswith("00-")
    assert second.traceparent != trace
    assert second.source == "moorage/refusing"


async def test_a_forwarded_event_keeps_its_attributes_and_twins_are_told_apart(
    broker: Broker, topic_prefix: str
) -> None:
    class Twins(Counter):
        name = "twins"

        def _one(self, state: CounterState, record: Any) -> list[Emit]:
            out = Counted(key="k", seq=1, n=1, total=1)
            emit = Emit(COUNTED, "k", "k", out, record.meta)
            return [emit, emit, Emit(COUNTED, "k", "k", out, record.meta, meta=record.meta)]

    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    await write_numbers(settings, [Number(key="k", n=1)])
    async with worker_for(Twins(), settings):
        await all_counted(settings, 3)
    ids = [from_headers(record.headers).id for record in await read_all(settings, COUNTED)]
    cause = event_id("k", 1)
    assert ids == [event_id(cause, COUNTED.short, "k", 0), event_id(cause, COUNTED.short, "k", 1), cause]


async def test_tombstones_reach_the_state_live_and_in_a_restore(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    await write_numbers(settings, [Number(key="k", n=1000), Number(key="other", n=7)], topic=TABLE)
    await write_raw(settings, TABLE, b"k", None)
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready()
        await until(lambda: worker.tasks[0].engines[0].state.table == {"other": 7}, message="not deleted")
        # Batches without output commit their offsets too, a little later.
        table = worker.tasks[0]._feed.tps[TABLE]
        await until(
            lambda: worker.tasks[0].engines[0]._committed[TABLE] == 3, message="the table's offsets were not committed"
        )
        assert await worker.tasks[0]._context.consumer.committed(table) == 3
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready()
        assert worker.tasks[0].engines[0].state.table == {"other": 7}
        await write_numbers(settings, [Number(key="k", n=1)])
        await all_counted(settings, 1)
    assert (await counted(settings))["k"][0].total == 1


async def test_what_must_be_fresh_waits_until_kafka_has_brought_it(broker: Broker, topic_prefix: str) -> None:
    """Kafka hangs for a moment: deciding on what is known, and writing it once Kafka is back, would be too early."""
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    service, brought = Counter(), [False, False, True]
    asked: list[int] = []

    async def freshen(_topics: object) -> bool:
        asked.append(service.fresh_calls)
        return brought[len(asked) - 1]

    async with worker_for(service, settings) as worker:
        await worker.wait_ready()
        owner = worker.tasks[0]
        (link,) = owner._links
        link.context = replace(link.context, freshen=freshen)
        await write_numbers(settings, [Number(key="k", n=1, needs="nobody")])
        await all_counted(settings, 1)
    assert asked == [0, 0, 0]
    assert service.fresh_calls == 1


async def test_a_decision_can_ask_for_tables_as_fresh_as_its_input(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await make_toys(settings)
    service = Counter()
    async with worker_for(service, settings) as worker:
        await worker.wait_ready()
        for n in range(10):
            key = f"k{n}"
            partition = partition_of(key, settings.partitions)
            value, headers = known_record(f"name{n}")
            await write_raw(settings, KNOWN, f"name{n}".encode(), value, headers, partition)
            await write_numbers(settings, [Number(key=key, n=n, needs=f"name{n}")])
        await write_numbers(settings, [Number(key="k0", n=1, needs="nobody")])
        await all_counted(settings, 11)
    found = await counted(settings)
    assert [found[f"k{n}"][0].total for n in range(10)] == list(range(10))
    assert found["k0"][1].total == 1_000_001  # fresh tables do not have it either: the service is asked again, once
    assert service.fresh_calls >= 1


class Names(GlobalView):
    """Every known name of the fleet."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def apply(self, record: Input) -> None:
        self.names.add(record.key)


class Global(Counter):
    """Knows the names of all partitions."""

    name = "global"
    follows = ()
    globals = (KNOWN,)
    fresh_globals = frozenset({KNOWN})

    def new_globals(self) -> GlobalView:
        return Names()

    def use_globals(self, state: CounterState, view: GlobalView) -> None:
        assert isinstance(view, Names)
        state.known = view.names


async def test_a_decision_can_ask_for_a_global_view_as_fresh_as_its_input(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await make_toys(settings)
    service = Global()
    async with worker_for(service, settings) as worker:
        await worker.wait_ready()
        async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
            for n in range(5):
                key = f"k{n}"
                elsewhere = (partition_of(key, settings.partitions) + 1) % settings.partitions
                for one in range(4_000):  # so many that the number is there long before the last of them is read
                    value, headers = known_record(f"name{n}-{one}")
                    place = {"key": f"name{n}-{one}".encode(), "partition": elsewhere, "headers": list(headers)}
                    await producer.send(KNOWN.name(settings.topic_prefix), value, **place)
                await producer.flush()
                value, headers = number_record(NUMBERS, Number(key=key, n=n, needs=f"name{n}-3999"))
                place = {"partition": partition_of(key, settings.partitions), "headers": list(headers)}
                await producer.send_and_wait(NUMBERS.name(settings.topic_prefix), value, key=key.encode(), **place)
        await write_numbers(settings, [Number(key="k0", n=1, needs="nobody")])
        await all_counted(settings, 6)
    found = await counted(settings)
    assert [found[f"k{n}"][0].total for n in range(5)] == list(range(5))
    assert found["k0"][1].total == 1_000_001
    assert service.fresh_calls >= 1


def known_record(name: str) -> tuple[bytes, Sequence[tuple[str, bytes]]]:
    event: Model = Known(name=name)
    _, headers = number_record(KNOWN, Number(key=name, n=0))
    return event.model_dump_json().encode(), headers
