"""Exactly once through stops, kills, lost offsets and zombies; the checker reads what committed readers see."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Sequence

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import PolicyViolationError
from tests.support.brokers import Broker
from tests.support.toy_process import counting
from tests.support.toys import (
    COUNTED,
    NUMBERS,
    TABLE,
    TALLIES,
    Counter,
    CounterState,
    Number,
    assert_exactly_once,
    counted,
    make_toys,
    read_all,
    settings_for,
    worker_for,
    write_numbers,
)
from tests.support.waiting import until

from moorage.runtime.service import Emit, Input
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import Topic

pytestmark = pytest.mark.kafka


def numbers(count: int, *, keys: int = 7, start: int = 0) -> list[Number]:
    return [Number(key=f"k{i % keys}", n=i) for i in range(start, start + count)]


async def all_counted(settings: Settings, wanted: int, seconds: float = 180.0) -> None:
    async def there() -> bool:
        return sum(map(len, (await counted(settings)).values())) >= wanted

    await until(there, seconds, f"{wanted} records were not processed")


async def test_a_restarted_worker_goes_on_where_the_one_before_it_stopped(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, batch_max_records=50)
    await make_toys(settings)
    first, second = numbers(700), numbers(300, start=700)
    await write_numbers(settings, first)
    service = Counter()
    async with worker_for(service, settings) as worker:
        await worker.wait_ready()
        await all_counted(settings, 700)
    assert 1 < max(service.batches) <= 50
    assert service.dropped == settings.partitions
    await write_numbers(settings, second)
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready()
        await all_counted(settings, 1000)
    assert_exactly_once(await counted(settings), [*first, *second])


async def test_a_stop_in_the_middle_of_the_work_loses_and_doubles_nothing(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, batch_max_records=10)
    await make_toys(settings)
    work = numbers(4000)
    await write_numbers(settings, work)
    stops = 0
    for _ in range(4):
        service = Counter()
        async with worker_for(service, settings):
            await until(lambda service=service: len(service.batches) >= 8, message="no batches")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        stops += 1
        more = numbers(800, start=len(work))  # a busy machine may process all of the rest before a service stops
        await write_numbers(settings, more)
        work += more
    async with worker_for(Counter(), settings):
        await all_counted(settings, len(work), 180.0)
    assert stops == 4
    assert_exactly_once(await counted(settings), work)


async def test_the_source_offsets_in_state_records_win_over_lost_committed_ones(
    broker: Broker, topic_prefix: str
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await make_toys(settings)
    work = numbers(300)
    await write_numbers(settings, [Number(key=f"k{i}", n=1000) for i in range(7)], topic=TABLE)
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready()
        group = worker.group

        def table_was_read() -> bool:
            return sum(len(owner.engines[0].state.table) for owner in worker.tasks.values()) == 7

        await until(table_was_read)
        await write_numbers(settings, work)
        await all_counted(settings, 300)
    before = await counted(settings)

    await _rewind(settings, group)
    more = [Number(key=f"k{i % 7}", n=5) for i in range(70)]
    await write_numbers(settings, more)
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready()
        await all_counted(settings, 370)
    found = await counted(settings)
    assert sum(map(len, found.values())) == 370
    for key, events in found.items():
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert events[: len(before[key])] == before[key]
        # The table was restored past the rewound offset, up to where the state stands.
        assert events[-1].total == sum(event.n for event in events) + 1000
    changelog = await read_all(settings, TALLIES)
    assert all(dict(record.headers)["moorage-sources"].startswith(b"toy-numbers=") for record in changelog)


async def test_offsets_follow_the_state_that_carries_them(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await make_toys(settings)
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready()
        await write_numbers(settings, numbers(70))
        await all_counted(settings, 70)
        # Whoever comes now rests on the state records; soon the offsets say the same.
        await until(lambda: _committed_sum(settings, worker.group, 70), message="the offsets did not follow")


async def _committed_sum(settings: Settings, group: str, wanted: int) -> bool:
    places = [TopicPartition(NUMBERS.name(settings.topic_prefix), part) for part in range(settings.partitions)]
    consumer = AIOKafkaConsumer(bootstrap_servers=settings.bootstrap_servers, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign(places)
        return sum([await consumer.committed(place) or 0 for place in places]) == wanted
    finally:
        await consumer.stop()


async def _rewind(settings: Settings, group: str) -> None:
    """Set every committed offset of the group to zero, as an operator's mistake would."""
    places = [
        TopicPartition(topic.name(settings.topic_prefix), partition)
        for topic in (NUMBERS, TABLE)
        for partition in range(settings.partitions)
    ]
    consumer = AIOKafkaConsumer(bootstrap_servers=settings.bootstrap_servers, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign(places)
        await consumer.commit(dict.fromkeys(places, 0))
    finally:
        await consumer.stop()


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_process_killed_at_any_moment_loses_and_doubles_nothing(
    broker: Broker, topic_prefix: str, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - chooses moments, repeatably
    settings = settings_for(
        broker.bootstrap, topic_prefix, batch_max_records=20, transaction_timeout_ms=2000, session_timeout_ms=2000
    )
    await make_toys(settings)
    work: list[Number] = []
    for round_ in range(4):
        part = numbers(250, start=250 * round_)
        async with counting(settings) as process:
            writing = asyncio.create_task(write_numbers(settings, part))
            target = chance.randint(1, 200) + 250 * round_
            await _written_past(settings, target)
            process.kill()
            await writing
        work += part
    async with counting(settings):
        await all_counted(settings, len(work))
    assert_exactly_once(await counted(settings), work)


async def _written_past(settings: Settings, wanted: int) -> None:
    """Wait until about so many results were written, committed or not: the moment falls anywhere in a transaction."""
    places = [TopicPartition(COUNTED.name(settings.topic_prefix), p) for p in range(settings.partitions)]
    consumer = AIOKafkaConsumer(bootstrap_servers=settings.bootstrap_servers)
    await consumer.start()
    try:

        async def there() -> bool:
            return int(sum((await consumer.end_offsets(places)).values())) >= wanted

        await until(there, message=f"{wanted} results were not written")
    finally:
        await consumer.stop()


async def test_a_paused_process_writes_nothing_after_its_partitions_have_moved(
    broker: Broker, topic_prefix: str
) -> None:
    settings = settings_for(
        broker.bootstrap, topic_prefix, batch_max_records=20, transaction_timeout_ms=2000, session_timeout_ms=2000
    )
    await make_toys(settings)
    first, second, third = numbers(200), numbers(300, start=200), numbers(100, start=500)
    async with counting(settings) as zombie:
        await write_numbers(settings, first)
        await _written_past(settings, 50)
        zombie.send_signal(signal.SIGSTOP)
        await write_numbers(settings, second)
        async with worker_for(Counter(), settings) as worker:
            await worker.wait_ready()  # after the zombie's session has timed out
            await all_counted(settings, 500)
            zombie.send_signal(signal.SIGCONT)
            await write_numbers(settings, third)
            await all_counted(settings, 600)
            # Both are members again in the end: the work goes on, and nothing of the zombie's old batch came in.
            await until(lambda: worker.ready and len(worker.tasks) == 2, message="the two do not share")
        more = numbers(100, start=600)
        await write_numbers(settings, more)
        await all_counted(settings, 700)
    assert_exactly_once(await counted(settings), [*first, *second, *third, *more])


class Erasing(Counter):
    """The counter, but what the table says of a key erases its tally."""

    name = "erasing"

    def _one(self, state: CounterState, record: Input) -> list[Emit]:
        if record.topic is not TABLE:
            return super()._one(state, record)
        self.apply(state, TALLIES, record.key, None)
        return [Emit(TALLIES, record.key, record.key, None, record.meta)]


async def test_restored_positions_are_committed_before_the_record_that_carries_them_goes(
    broker: Broker, topic_prefix: str
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    five = [Number(key="k", n=n) for n in range(5)]
    await write_numbers(settings, five)
    async with worker_for(Erasing(), settings) as worker:
        await worker.wait_ready()
        await all_counted(settings, 5)
        group = worker.group
    await _rewind(settings, group)  # only the tally carries the position now
    async with worker_for(Erasing(), settings) as worker:
        await worker.wait_ready()
        await write_numbers(settings, [Number(key="k", n=0)], topic=TABLE)

        async def erased() -> bool:
            return any(record.value is None for record in await read_all(settings, TALLIES))

        await until(erased)
    await _compact_away(settings, TALLIES)
    await write_numbers(settings, [Number(key="k", n=7)])
    async with worker_for(Erasing(), settings) as worker:
        await worker.wait_ready()
        await all_counted(settings, 6)
    assert [event.n for event in (await counted(settings))["k"]] == [0, 1, 2, 3, 4, 7]


async def _deleted(admin: AIOKafkaAdminClient, parts: Sequence[TopicPartition]) -> bool:
    """Delete all records of partitions; return False while the broker has not applied the policy that allows it."""
    try:
        await admin.delete_records({part: RecordsToDelete(before_offset=-1) for part in parts})
    except PolicyViolationError:
        return False
    return True


async def _compact_away(settings: Settings, topic: Topic) -> None:
    """Let a topic be as compaction leaves it when every key has a tombstone, and these are old: empty."""
    name = topic.name(settings.topic_prefix)
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    try:
        # Records of a topic that is only compacted cannot be deleted.
        configs = {"cleanup.policy": "compact,delete"}
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs)])
        parts = [TopicPartition(name, partition) for partition in range(settings.partitions)]
        async with asyncio.timeout(60):
            while not await _deleted(admin, parts):
                pass
    finally:
        await admin.close()
    assert not await read_all(settings, topic)
