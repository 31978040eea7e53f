"""Workers come and go: partitions move, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest
from tests.support.brokers import Broker
from tests.support.toys import (
    NUMBERS,
    TABLE,
    Counter,
    Number,
    assert_exactly_once,
    counted,
    make_toys,
    settings_for,
    worker_for,
    write_numbers,
)
from tests.support.waiting import until

from moorage.runtime.kafka.partition.partition_task import Phase
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import Topic

pytestmark = pytest.mark.kafka


async def all_counted(settings: Settings, wanted: int) -> None:
    async def there() -> bool:
        return sum(map(len, (await counted(settings)).values())) >= wanted

    await until(there, message=f"{wanted} records were not processed")


def shares(*workers: Worker) -> list[int]:
    return sorted(len(worker.tasks) for worker in workers)


async def test_three_workers_coming_and_going_lose_and_double_nothing(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, batch_max_records=10, partitions=6)
    await make_toys(settings)
    work: list[Number] = []
    stop = asyncio.Event()

    async def produce() -> None:
        while not stop.is_set():
            part = [Number(key=f"k{i % 11}", n=i) for i in range(len(work), len(work) + 40)]
            await write_numbers(settings, part)
            work.extend(part)

    one, two, three = (worker_for(Counter(), settings) for _ in range(3))
    writing = asyncio.create_task(produce())
    await one.start()
    await one.wait_ready()
    assert shares(one) == [6]
    await two.start()
    await until(lambda: one.ready and two.ready and shares(one, two) == [3, 3], message="two do not share")
    await three.start()
    await until(
        lambda: one.ready and two.ready and three.ready and shares(one, two, three) == [2, 2, 2],
        message="three do not share",
    )
    held = [set(worker.tasks) for worker in (one, two, three)]
    assert set.union(*held) == set(range(6))
    await two.stop()
    await until(lambda: one.ready and three.ready and shares(one, three) == [3, 3], message="nobody took over")
    await one.stop()
    await until(lambda: three.ready and shares(three) == [6], message="nobody took over")
    stop.set()
    await writing
    await all_counted(settings, len(work))
    await three.stop()
    assert_exactly_once(await counted(settings), work)


async def test_a_partition_that_stays_keeps_its_state(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await make_toys(settings)
    first, second = Counter(), Counter()
    async with worker_for(first, settings) as one:
        await one.wait_ready()
        owners = dict(one.tasks)
        async with worker_for(second, settings) as two:
            await until(lambda: one.ready and two.ready and shares(one, two) == [2, 2], message="not shared")
            kept = {partition: owner for partition, owner in one.tasks.items() if owners[partition] is owner}
            assert len(kept) == 2
            assert all(owner.phase is Phase.RUNNING for owner in kept.values())
            await until(lambda: first.dropped == 2, message="the given-up states were not dropped")
            work = [Number(key=f"k{i}", n=i) for i in range(40)]
            await write_numbers(settings, work)
            await all_counted(settings, 40)
    assert_exactly_once(await counted(settings), work)


async def test_a_standby_takes_over_and_reads_only_the_rest(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await make_toys(settings)
    table = [Number(key=f"k{i}", n=1000 * i) for i in range(100)]
    await write_numbers(settings, table, topic=TABLE)
    work = [Number(key=f"k{i % 100}", n=i) for i in range(400)]
    one, two = worker_for(Counter(), settings), worker_for(Counter(), settings)
    async with two:
        async with one:
            await until(lambda: one.ready and two.ready and shares(one, two) == [2, 2], message="not shared")
            await write_numbers(settings, work)
            await all_counted(settings, 400)
            await until(
                lambda: (
                    [worker.report()["standbys"] for worker in (one, two)]
                    == [dict.fromkeys(map(str, other.tasks), "Warm") for other in (two, one)]
                ),
                message="the standbys are not warm",
            )
            owners = dict(two.tasks)
            later = [Number(key=f"k{i % 100}", n=i) for i in range(400, 440)]
            await write_numbers(settings, later)
            await all_counted(settings, 440)
        await until(lambda: two.ready and shares(two) == [4], message="nobody took over")
        taken = [owner for partition, owner in two.tasks.items() if partition not in owners]
        assert len(taken) == 2
        assert sum(owner.progress.wanted for owner in taken) <= 200, "cold, they read about 1,000 offsets"
        states = [owner.engines[0].state for owner in two.tasks.values()]
        assert sum(len(state.table) for state in states) == 100
        last = [Number(key=f"k{i % 100}", n=i) for i in range(440, 480)]
        await write_numbers(settings, last)
        await all_counted(settings, 480)
    found = await counted(settings)
    assert [one.total for one in found["k7"]][-1] == sum(n.n for n in [*work, *later, *last] if n.key == "k7") + 7000
    assert {key: [one.seq for one in values] for key, values in found.items()} == {
        key: list(range(1, len(values) + 1)) for key, values in found.items()
    }


async def test_standbys_are_turned_off(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, standbys=0)
    await make_toys(settings)
    async with worker_for(Counter(), settings) as one, worker_for(Counter(), settings) as two:
        await until(lambda: one.ready and two.ready and shares(one, two) == [2, 2], message="not shared")
        assert [worker.report()["standbys"] for worker in (one, two)] == [{}, {}]


async def test_a_worker_without_partitions_is_ready(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    async with worker_for(Counter(), settings) as one, worker_for(Counter(), settings) as two:
        await until(lambda: one.ready and two.ready and shares(one, two) == [0, 1], message="not ready")
        empty = next(worker for worker in (one, two) if not worker.tasks)
        report = empty.report()
        assert report.pop("standbys").keys() <= {"0"}
        assert report.pop("services") == ["counter"]
        assert report == {"ready": True, "assigned": True, "globals": None, "partitions": {}, "standing": []}


async def test_an_owner_that_another_one_fenced_stays_away_until_it_is_the_owner(
    broker: Broker, topic_prefix: str
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready()
        usurper = worker.tasks[0]._context.producer(0)
        await usurper.start()
        work = [Number(key="k", n=i) for i in range(20)]
        await write_numbers(settings, work)
        # The coordinator says that the worker holds the partition, so it takes it back, with a fresh state.
        await all_counted(settings, 20)
        tp = worker.tasks[0]._feed.tps[Counter.sources[0]]
        with pytest.raises(Exception, match=r"(?i)fenced|epoch|producer"):
            await usurper.write([], {worker.group: {tp: 0}})
        await usurper.close()
    assert_exactly_once(await counted(settings), work)


class EarlierCounter(Counter):
    """As an earlier version had it: with one source fewer."""

    sources: ClassVar[tuple[Topic, ...]] = (NUMBERS,)
    source_tables: ClassVar[frozenset[Topic]] = frozenset()


async def test_a_partition_has_one_owner_while_an_earlier_version_with_fewer_sources_is_in_the_group(
    broker: Broker, topic_prefix: str
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=6)
    await make_toys(settings)
    work = [Number(key=f"k{i % 11}", n=i) for i in range(300)]
    earlier, later = worker_for(EarlierCounter(), settings), worker_for(Counter(), settings)
    await earlier.start()
    await earlier.wait_ready()
    await later.start()
    await until(lambda: earlier.ready and later.ready and shares(earlier, later) == [3, 3], message="they do not share")
    assert sorted([*earlier.tasks, *later.tasks]) == list(range(6))
    await write_numbers(settings, work[:200])
    await all_counted(settings, 200)
    await earlier.stop()
    await until(lambda: later.ready and shares(later) == [6], message="not all came to the later one")
    await write_numbers(settings, work[200:])
    await all_counted(settings, 300)
    await later.stop()
    assert_exactly_once(await counted(settings), work)
