"""The queue of acts: each key once, not twice at a time, again after a failure."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.engine.acts import ActQueue
from moorage.bridges.kube.api_error import ApiError


class Work:
    """Notes what is worked on, and fails or waits as a test wants."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.times: list[float] = []
        self.failures: dict[str, list[Exception]] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.busy: Counter[str] = Counter()
        self.most_of_one = 0
        self.most = 0
        self.ended = asyncio.Event()

    async def __call__(self, key: str) -> None:
        self.busy[key] += 1
        self.most_of_one = max(self.most_of_one, self.busy[key])
        self.most = max(self.most, self.busy.total())
        self.times.append(asyncio.get_running_loop().time())
        try:
            if key in self.gates:
                await self.gates[key].wait()
            if self.failures.get(key):
                raise self.failures[key].pop(0)
        finally:
            self.busy[key] -= 1
        self.done.append(key)
        self.ended.set()


@asynccontextmanager
async def running(work: Work, at_a_time: int = 4) -> AsyncIterator[ActQueue]:
    queue = ActQueue("test", lambda: at_a_time)
    task = asyncio.create_task(queue.run(work))
    try:
        yield queue
    finally:
        if task.done():
            await task
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@virtual_time
async def test_keys_that_are_added_often_are_worked_on_once() -> None:
    work = Work()
    async with running(work, at_a_time=1) as queue:
        queue.add("a", "b", "a")
        queue.add("a")
        await until(lambda: len(work.done) == 2)
        await asyncio.sleep(60)
        assert work.done == ["a", "b"]


@virtual_time
async def test_a_key_that_changes_while_it_is_worked_on_is_worked_on_again_and_not_meanwhile() -> None:
    work = Work()
    work.gates["a"] = asyncio.Event()
    async with running(work) as queue:
        queue.add("a")
        await until(lambda: work.busy["a"] == 1)
        queue.add("a")
        queue.add("a", "b")
        await until(lambda: work.done == ["b"])
        work.gates["a"].set()
        await until(lambda: work.done == ["b", "a", "a"])
        assert work.most_of_one == 1


@virtual_time
async def test_so_many_at_a_time() -> None:
    work = Work()
    gate = asyncio.Event()
    keys = [f"k{number}" for number in range(10)]
    work.gates = dict.fromkeys(keys, gate)
    async with running(work, at_a_time=4) as queue:
        queue.add(*keys)
        await until(lambda: work.busy.total() == 4)
        gate.set()
        await until(lambda: len(work.done) == 10)
        assert work.most == 4


@virtual_time
@pytest.mark.parametrize("error", [OSError("cut"), ApiError(500), ApiError(422)])
async def test_a_key_that_fails_is_tried_again_after_a_pause_that_grows(error: Exception) -> None:
    work = Work()
    work.failures["a"] = [error] * 12
    async with running(work) as queue:
        queue.add("a", "b")
        await until(lambda: "b" in work.done)
        await until(lambda: "a" in work.done, seconds=1000)
        pauses = [later - earlier for earlier, later in zip(work.times[1:], work.times[2:], strict=False)]
        assert pauses[1:] == pytest.approx([0.2 * 2**n for n in range(8)] + [30.0] * (len(pauses) - 9))


@virtual_time
async def test_the_server_s_pause_counts_if_it_is_longer() -> None:
    work = Work()
    work.failures["a"] = [ApiError(429, retry_after=10.0, causes=("DisruptionBudget",))]
    async with running(work) as queue:
        queue.add("a")
        await until(lambda: work.done == ["a"])
        assert work.times[1] - work.times[0] == pytest.approx(10.0)


@virtual_time
async def test_an_act_may_be_refused_for_days() -> None:
    """As by a budget of the cluster that allows nothing."""
    work = Work()
    work.failures["a"] = [ApiError(429, causes=("DisruptionBudget",)) for _ in range(1100)]
    queue = ActQueue("test")

    async def wait_until_it_ends() -> None:
        async with asyncio.timeout(40_000):
            await work.ended.wait()

    queue.add("a")
    async with asyncio.TaskGroup() as group:
        running_queue = group.create_task(queue.run(work))
        await group.create_task(wait_until_it_ends())
        running_queue.cancel()
    assert len(work.times) == 1101


@virtual_time
async def test_a_success_forgets_the_failures() -> None:
    work = Work()
    work.failures["a"] = [OSError()] * 6
    async with running(work) as queue:
        queue.add("a")
        await until(lambda: work.done == ["a"])
        work.failures["a"] = [OSError()]
        work.times.clear()
        queue.add("a")
        await until(lambda: work.done == ["a", "a"])
        assert work.times[1] - work.times[0] == pytest.approx(0.1)
