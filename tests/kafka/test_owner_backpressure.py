"""A slow service: fetching is paused while much waits, resumed later, and nothing is lost by it."""

from __future__ import annotations

import pytest
from tests.support.brokers import Broker
from tests.support.toys import (
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

from moorage.runtime.kafka.partition.source_feed import SourceFeed

pytestmark = pytest.mark.kafka


async def test_much_that_waits_pauses_the_fetching_and_is_all_processed(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: set[bool] = set()
    throttle = SourceFeed.throttle

    def noting(feed: SourceFeed) -> None:
        throttle(feed)
        paused.add(feed.throttled)

    monkeypatch.setattr(SourceFeed, "throttle", noting)
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1, batch_max_records=5)
    await make_toys(settings)
    work = [Number(key=f"k{i % 3}", n=i) for i in range(600)]
    await write_numbers(settings, work)
    service = Counter()
    async with worker_for(service, settings) as worker:

        async def done() -> bool:
            return sum(map(len, (await counted(settings)).values())) >= 600

        await until(done, message="not all was processed")
        assert not worker.tasks[0]._feed.throttled
    assert True in paused
    assert_exactly_once(await counted(settings), work)


async def test_partitions_are_worked_side_by_side(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=12, batch_max_records=50)
    await make_toys(settings)
    work = [Number(key=f"key-{i % 60}", n=i) for i in range(3000)]
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready()
        await write_numbers(settings, work)

        async def done() -> bool:
            return sum(map(len, (await counted(settings)).values())) >= 3000

        await until(done, message="not all was processed")
    assert_exactly_once(await counted(settings), work)
