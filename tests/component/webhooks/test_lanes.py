"""Order, retries and dead letters of a webhook's deliveries, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from aiokafka import TopicPartition

from moorage.workers.webhooks.deliveries import Delivery
from moorage.workers.webhooks.lanes import AT_ONCE, Lanes
from moorage.workers.webhooks.sender import Outcome
from moorage.workers.webhooks.status import ReceiverGoneError
from moorage_schemas.topics import BINDINGS

T0 = datetime(2026, 1, 1, tzinfo=UTC)
OK = Outcome(delivered=True)
FAILED = Outcome(delivered=False, message="the receiver answered 500")


class VirtualClock:
    """Its time passes only while everything waits for it."""

    def __init__(self) -> None:
        self.time = T0
        self._sleepers: list[tuple[datetime, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self.time

    async def sleep_until(self, when: datetime) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._sleepers.append((when, waiter))
        await waiter

    async def run(self) -> None:
        """Let everything happen that follows, until nobody sleeps any more."""
        while True:
            for _ in range(50):
                await asyncio.sleep(0)
            if not self._sleepers:
                return
            self._sleepers.sort(key=lambda sleeper: sleeper[0])
            when, waiter = self._sleepers.pop(0)
            self.time = max(self.time, when)
            if not waiter.done():
                waiter.set_result(None)


class Run:
    """Lanes with a receiver that answers as told."""

    def __init__(self, answer: Callable[[Delivery, int], Outcome], retry_seconds: float = 60) -> None:
        self.clock = VirtualClock()
        self.attempts: list[tuple[str, float]] = []
        self.dead: list[tuple[str, str, int]] = []
        self.over: list[str] = []
        self._answer = answer
        self.lanes = Lanes(
            send=self._send,
            give_up=self._give_up,
            done=lambda delivery: self.over.append(delivery.id),
            retry_seconds=retry_seconds,
            clock=self.clock,
            jitter=lambda: 1.0,
        )

    def add(self, *names: str, age: float = 0) -> None:
        """Add deliveries: the letter is the workload, the number the place in its order."""
        for name in names:
            self.lanes.add(
                Delivery(name, name[0], TopicPartition("t", 0), 0, T0 - timedelta(seconds=age), BINDINGS, None, b"{}")
            )

    async def _send(self, delivery: Delivery) -> Outcome:
        self.attempts.append((delivery.id, (self.clock.now() - T0).total_seconds()))
        return self._answer(delivery, sum(1 for name, _ in self.attempts if name == delivery.id))

    async def _give_up(self, delivery: Delivery, outcome: Outcome, attempts: int) -> None:
        self.dead.append((delivery.id, outcome.message, attempts))


@asynccontextmanager
async def running(answer: Callable[[Delivery, int], Outcome], retry_seconds: float = 60) -> AsyncIterator[Run]:
    run = Run(answer, retry_seconds)
    try:
        yield run
    finally:
        await run.lanes.close()


async def test_the_next_event_of_a_workload_waits_and_others_do_not() -> None:
    async with running(lambda delivery, count: OK if delivery.id != "a1" or count == 4 else FAILED) as run:
        run.add("a1", "a2", "b1", "b2")
        await run.clock.run()
        assert run.over == ["b1", "b2", "a1", "a2"]
        assert [time for name, time in run.attempts if name == "a1"] == [0, 1, 3, 7], "the pauses double"
        assert run.lanes.waiting == 0
        assert run.lanes.failure is None


async def test_an_event_is_given_up_when_its_time_is_over_and_the_next_one_follows() -> None:
    async with running(lambda delivery, _: FAILED if delivery.id == "a1" else OK, retry_seconds=10) as run:
        run.add("a1", "a2")
        await run.clock.run()
        assert [time for name, time in run.attempts if name == "a1"] == [0, 1, 3, 7, 15]
        assert run.dead == [("a1", FAILED.message, 5)]
        assert run.over == ["a1", "a2"]


async def test_an_event_that_is_old_already_gets_three_attempts() -> None:
    async with running(lambda *_: FAILED, retry_seconds=10) as run:
        run.add("a1", age=86400)
        await run.clock.run()
        assert run.dead == [("a1", FAILED.message, 3)]


async def test_a_receiver_that_is_gone_is_not_asked_again_and_nothing_is_given_up() -> None:
    async with running(lambda *_: Outcome(delivered=False, message="410", gone=True)) as run:
        run.add("a1", "a2", age=86400)
        await run.clock.run()
        assert isinstance(run.lanes.failure, ReceiverGoneError)
        assert len(run.attempts) == 1
        assert (run.dead, run.over) == ([], [])


async def test_a_receiver_that_asks_to_wait_is_waited_for() -> None:
    def answer(_delivery: Delivery, count: int) -> Outcome:
        return Outcome(delivered=False, message="429", retry_after=30) if count == 1 else OK

    async with running(answer) as run:
        run.add("a1")
        await run.clock.run()
        assert [time for _, time in run.attempts] == [0, 30]


async def test_pauses_grow_to_five_minutes_at_most() -> None:
    async with running(lambda _, count: OK if count == 20 else FAILED, retry_seconds=86400) as run:
        run.add("a1")
        await run.clock.run()
        times = [time for _, time in run.attempts]
        pauses = [after - before for before, after in pairwise(times)]
        assert pauses[:4] == [1, 2, 4, 8]
        assert max(pauses) == pauses[-1] == 300


async def test_attempts_at_the_same_time_are_limited() -> None:
    released, under_way, most = asyncio.Event(), 0, 0

    async def send(_delivery: Delivery) -> Outcome:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await released.wait()
        under_way -= 1
        return OK

    async def give_up(_delivery: Delivery, _outcome: Outcome, _attempts: int) -> None:
        raise AssertionError("nothing is given up")

    over: list[str] = []
    clock = VirtualClock()
    lanes = Lanes(send=send, give_up=give_up, done=lambda one: over.append(one.id), retry_seconds=1, clock=clock)
    for number in range(3 * AT_ONCE):
        lanes.add(Delivery(str(number), str(number), TopicPartition("t", 0), 0, T0, BINDINGS, None, b""))
    await clock.run()
    assert most == AT_ONCE
    released.set()
    await clock.run()
    assert len(over) == 3 * AT_ONCE
    assert most == AT_ONCE


async def test_what_fails_inside_is_kept_for_the_reader() -> None:
    def answer(_delivery: Delivery, _count: int) -> Outcome:
        raise RuntimeError("broken")

    async with running(answer) as run:
        run.add("a1")
        await run.clock.run()
        assert str(run.lanes.failure) == "broken"
        assert run.over == []
