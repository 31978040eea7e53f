"""The parts of a partition's owner: what it fetches, and its watch over commits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError
from tests.support.virtual_time import virtual_time

from moorage.runtime.kafka.admin.broker_times import BrokerTimes
from moorage.runtime.kafka.partition import commit_watch
from moorage.runtime.kafka.partition.commit_watch import CommitWatch
from moorage.runtime.kafka.partition.partition_task import _Alarm
from moorage.runtime.kafka.partition.source_feed import SourceFeed
from moorage.runtime.process.failures import StartAfresh
from moorage_schemas.topics import BINDINGS, TAINTS, Topic

BATCH = 10
START = datetime(2026, 1, 1, tzinfo=UTC)


class Consumer:
    """Notes what it fetches."""

    _fetcher = None  # so that nothing rests

    def __init__(self) -> None:
        self.fetches: set[str] = set()
        self.positions: dict[str, int] = {}

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self.positions[tp.topic] = offset

    def resume(self, *tps: TopicPartition) -> None:
        self.fetches.update(tp.topic for tp in tps)

    def pause(self, *tps: TopicPartition) -> None:
        self.fetches.difference_update(tp.topic for tp in tps)


def feed_of(wanted: tuple[Topic, ...]) -> tuple[SourceFeed, Consumer, Any]:
    consumer = Consumer()
    engine = SimpleNamespace(waiting=0, wanted=wanted, sources=(TAINTS, BINDINGS), positions={TAINTS: 3, BINDINGS: 4})
    context = SimpleNamespace(
        settings=SimpleNamespace(batch_max_records=BATCH),
        consumer=consumer,
        tp=lambda topic, partition: TopicPartition(topic.short, partition),
    )
    return SourceFeed(cast("Any", context), 0, cast("Any", engine)), consumer, engine


def test_it_fetches_what_is_wanted_from_where_the_state_is() -> None:
    feed, consumer, engine = feed_of((TAINTS,))
    feed.seek()
    assert consumer.positions == {TAINTS.short: 3, BINDINGS.short: 4}
    assert consumer.fetches == {TAINTS.short}
    engine.wanted = (TAINTS, BINDINGS)
    feed.ease()
    assert consumer.fetches == {TAINTS.short, BINDINGS.short}


def test_it_fetches_nothing_while_too_many_wait() -> None:
    feed, consumer, engine = feed_of((TAINTS, BINDINGS))
    feed.seek()
    engine.waiting = 16 * BATCH
    feed.throttle()
    assert consumer.fetches == {TAINTS.short, BINDINGS.short}
    engine.waiting += 1
    feed.throttle()
    assert (feed.throttled, consumer.fetches) == (True, set())
    with feed.fetching((BINDINGS,)):
        assert consumer.fetches == {BINDINGS.short}
    assert consumer.fetches == set()
    engine.waiting = 8 * BATCH
    feed.ease()
    assert consumer.fetches == set()
    engine.waiting -= 1
    feed.ease()
    assert (feed.throttled, consumer.fetches) == (False, {TAINTS.short, BINDINGS.short})
    with feed.fetching((BINDINGS,)):
        pass
    assert consumer.fetches == {TAINTS.short, BINDINGS.short}


def watch_of(wake: asyncio.Event, kept_ms: int = 10**9) -> CommitWatch:
    context = SimpleNamespace(
        service=SimpleNamespace(name="test"),
        times=BrokerTimes(ids_kept_ms=kept_ms),
        transactional_id=lambda partition: f"test.{partition}",
    )
    return CommitWatch([cast("Any", context)], 0, wake.set)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is found when markers are looked for, in turn: names, or an error."""
    found: list[Any] = []

    async def lost(_context: Any, _partition: int) -> list[str]:
        answer = found.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return cast("list[str]", answer)

    async def mind(*_given: Any) -> None:
        return None

    monkeypatch.setattr(commit_watch, "_MARKERS_AFTER", 0)
    monkeypatch.setattr(commit_watch, "markers_lost_since", lost)
    monkeypatch.setattr(commit_watch, "mind_a_slow_commit", mind)
    return found


async def test_lost_markers_of_a_commit_are_found_some_time_later(answers: list[Any]) -> None:
    wake = asyncio.Event()
    watch = watch_of(wake)
    answers.append(["timers/0"])
    await watch.committed(0.0)
    watch.check()
    await wake.wait()
    with pytest.raises(StartAfresh, match="lost markers of a committed transaction: \\['timers/0'\\]"):
        watch.check()
    watch.close()
    watch.check()


@pytest.mark.parametrize("answer", [[], KafkaConnectionError(), ValueError("unforeseen")])
async def test_a_check_without_a_finding_is_made_again_after_the_next_commit(answers: list[Any], answer: Any) -> None:
    wake = asyncio.Event()
    watch = watch_of(wake)
    answers += [answer, ["timers/0"]]
    await watch.committed(0.0)
    assert watch._minding is not None
    await watch._minding
    watch.check()
    assert not wake.is_set()
    await watch.committed(0.0)
    await wake.wait()
    with pytest.raises(StartAfresh):
        watch.check()
    watch.close()


async def test_a_producer_that_was_quiet_for_long_has_to_write() -> None:
    wake = asyncio.Event()
    watch = watch_of(wake, kept_ms=3)
    watch.wrote()
    seen = [watch.is_quiet]
    await wake.wait()
    seen.append(watch.is_quiet)
    watch.wrote()
    seen.append(watch.is_quiet)
    watch.close()
    assert seen == [False, True, False]


class SetClock:
    """A clock that the test sets. Like a machine's, it notices only after seconds that it was set."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time() + self.ahead)

    async def sleep_until(self, when: datetime) -> None:
        while (left := (when - self.now()).total_seconds()) > 0:  # noqa: ASYNC110 - as the machine's clock does
            await asyncio.sleep(min(left, 10))


@virtual_time
async def test_an_alarm_rings_although_the_clock_was_set_back() -> None:
    clock, rings, loop = SetClock(), asyncio.Queue[float](), asyncio.get_running_loop()
    alarm = _Alarm(clock, lambda: rings.put_nowait(loop.time()))
    left = timedelta(seconds=30)
    alarm.set(clock.now() + left, left)
    assert await rings.get() == 30
    alarm.set(clock.now() + left, left)
    await asyncio.sleep(5)
    clock.ahead = -3600
    assert await rings.get() == 61, "a second late; then the engine decides for how long it waits"


@virtual_time
async def test_an_alarm_rings_although_the_clock_was_set_back_while_it_was_decided_for_how_long() -> None:
    clock, rings, loop = SetClock(), asyncio.Queue[float](), asyncio.get_running_loop()
    alarm, left = _Alarm(clock, lambda: rings.put_nowait(loop.time())), timedelta(seconds=0.2)
    when = clock.now() + left
    clock.ahead = -3600
    alarm.set(when, left)
    assert await rings.get() == pytest.approx(1.2)
