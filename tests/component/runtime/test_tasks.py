"""Tasks in the background never end silently."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from structlog.testing import capture_logs
from tests.support.toys import TALLIES, Counter, CounterState

from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.standbys import Standbys, StandbyTask
from moorage.runtime.kafka.partition.watchdog import Watchdog
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.process import failures
from moorage.runtime.process.failures import log_failure, restarted
from moorage.runtime.settings.process_settings import Settings


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_BACKOFF_FIRST", 0.0)


def failing(times: int, then: asyncio.Event) -> Any:
    """Work that fails so many times, and then goes on."""
    left = [ValueError(f"no {number}") for number in range(times)]

    async def work(*_: object) -> None:
        if left:
            raise left.pop(0)
        then.set()
        await asyncio.Event().wait()

    return work


def told(logged: list[Any]) -> list[str]:
    return [one["task"] for one in logged if one["event"] == "task.failed"]


async def test_work_that_fails_is_logged_and_begins_again_until_it_is_cancelled() -> None:
    going = asyncio.Event()
    with capture_logs() as logged:
        task = asyncio.create_task(restarted("work", failing(3, going)))
        await going.wait()
    assert told(logged) == ["work"] * 3
    assert [one["again_in"] for one in logged] == [0.0] * 3
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_pause_grows_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(failures, "_BACKOFF_FIRST", 1.0)
    monkeypatch.setattr("moorage.runtime.process.failures.asyncio.sleep", sleep)
    left = list(range(9))

    async def work() -> None:
        if left:
            raise ValueError(left.pop())

    await restarted("work", work)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


async def test_the_error_of_a_task_that_nobody_waits_for_is_logged() -> None:
    async def fails() -> None:
        raise ValueError("no")

    with capture_logs() as logged:
        task = asyncio.create_task(fails(), name="lonely")
        task.add_done_callback(log_failure)
        await asyncio.wait([task])
    assert told(logged) == ["lonely"]


async def test_a_worker_goes_on_minding_its_standbys_and_its_age_after_any_error() -> None:
    minded, aged, forever = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def nothing(*_: object, **__: object) -> None:
        return

    context = SimpleNamespace(
        offsets=SimpleNamespace(start=nothing),
        consumer=SimpleNamespace(start=nothing, subscribe=lambda **_: None, getmany=lambda **_: forever.wait()),
        reader=SimpleNamespace(start=lambda: None),
        age=SimpleNamespace(mind=failing(2, aged), check=lambda: None),
    )
    standbys = SimpleNamespace(mind=failing(1, minded))
    worker = Worker(Counter(), Settings(), partitions=1)
    consuming = worker._consume((cast("WorkerContext[Any]", context),), [cast("Standbys", standbys)])
    with capture_logs() as logged:
        session = asyncio.create_task(consuming)
        await asyncio.gather(minded.wait(), aged.wait())
        session.cancel()
        await asyncio.gather(session, return_exceptions=True)
    assert sorted(told(logged)) == ["counter-age", "counter-age", "counter-standbys"]


def standby(committed: Any) -> StandbyTask:
    async def at_once() -> None:
        return

    context = SimpleNamespace(
        service=Counter(),
        partitions=1,
        settings=Settings(),
        group="group",
        reader=None,
        offsets=SimpleNamespace(committed=committed),
        standing_by=asyncio.Semaphore(1),
        globals_ready=at_once,
        tp=lambda topic, partition: TopicPartition(topic.short, partition),
    )
    return StandbyTask(cast("WorkerContext[CounterState]", context), 0)


async def test_a_standby_begins_again_after_any_error() -> None:
    asked = asyncio.Event()
    task = standby(failing(1, asked))
    with capture_logs() as logged:
        task.start()
        await asked.wait()
        await task.stop()
    assert told(logged) == ["counter-0-standby"]


async def test_a_standby_that_fails_on_a_record_hands_nothing_over_and_reads_anew() -> None:
    asked = asyncio.Event()
    task = standby(failing(0, asked))
    task.start()
    await asked.wait()
    task.warm = True
    with pytest.raises(AttributeError):
        task._take(TALLIES, [object()])
    assert task._worn.is_set()
    assert not task.warm
    tables = task.hand_over()
    assert tables is not None
    assert not tables.folded


async def test_the_watchdog_goes_on_after_any_error() -> None:
    looked = asyncio.Event()
    left = [ValueError("no")]

    class Member:
        name, lacks, moves, idle, owners = "worker", "is not there", 0, True, ()

        async def behind(self) -> Any:
            if left:
                raise left.pop()
            looked.set()
            await asyncio.Event().wait()

    async def answers() -> bool:
        return True

    dog = Watchdog([cast("Any", Member())], limit=0.01, kafka_answers=answers, end=lambda _: None)
    with capture_logs() as logged:
        dog.start()
        await looked.wait()
        await dog.stop()
    assert told(logged) == ["watchdog"]
