"""What waits to be sent to the gateway: in order, together, and none is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.engine.batches import AT_ONCE, SMALL, BatchSender
from moorage.bridges.engine.gateway_client import GatewayError


class Sender(BatchSender):
    """Notes the batches, and fails or waits as a test wants."""

    def __init__(self, pace: float = 0.0) -> None:
        super().__init__("test", is_urgent=lambda key: key.startswith("!"), pace=pace)
        self.batches: list[list[str]] = []
        self._now: list[frozenset[str]] = []
        self.failures = 0
        self.open = asyncio.Event()
        self.open.set()
        self.begun = 0

    async def _send(self, keys: Sequence[str]) -> None:
        self.begun += 1
        batch = frozenset(keys)
        assert not any(batch & other for other in self._now), "a key is in two batches"
        self._now.append(batch)
        try:
            await self.open.wait()
            if self.failures:
                self.failures -= 1
                raise GatewayError(503, "nobody leads")
            self.batches.append(list(keys))
        finally:
            self._now.remove(batch)


SenderT = TypeVar("SenderT", bound=BatchSender)


@asynccontextmanager
async def running(sender: SenderT) -> AsyncIterator[SenderT]:
    task = asyncio.create_task(sender.run())
    try:
        yield sender
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@virtual_time
async def test_two_batches_are_on_their_way_and_the_rest_goes_with_the_next_one() -> None:
    async with running(Sender()) as sender:
        sender.open.clear()
        sender.mark("a")
        await until(lambda: sender.begun == 1)
        sender.mark("b")
        await until(lambda: sender.begun == 2)
        for _ in range(3):
            sender.mark("c", "d")
        assert sender.begun == 2
        sender.open.set()
        await until(lambda: sender.idle)
        assert sorted(sender.batches) == [["a"], ["b"], ["c", "d"]]


@virtual_time
async def test_what_changes_while_it_is_on_its_way_is_sent_again_afterwards() -> None:
    async with running(Sender()) as sender:
        sender.open.clear()
        sender.mark("a")
        await until(lambda: sender.begun == 1)
        for _ in range(3):
            sender.mark("b", "a")
        await until(lambda: sender.begun == 2)
        sender.open.set()
        await until(lambda: sender.idle)
        assert sorted(sender.batches) == [["a"], ["a"], ["b"]]


@virtual_time
async def test_what_is_urgent_goes_first() -> None:
    async with running(Sender()) as sender:
        sender.open.clear()
        sender.mark(*(f"k{number}" for number in range(AT_ONCE)))
        await until(lambda: sender.begun == 1)
        sender.mark("a", "!b", "c")
        assert sender.is_waiting(["!b"])
        sender.open.set()
        await until(lambda: sender.idle)
        assert sender.batches[1:] == [["!b", "a", "c"]]


@virtual_time
async def test_nothing_is_sent_beside_a_large_batch_so_that_objects_arrive_in_order() -> None:
    async with running(Sender()) as sender:
        sender.open.clear()
        sender.mark(*(f"k{number}" for number in range(SMALL + 1)))
        await until(lambda: sender.begun == 1)
        sender.mark("a")
        await asyncio.sleep(1)
        assert sender.begun == 1
        sender.open.set()
        await until(lambda: sender.idle)


@virtual_time
async def test_what_is_urgent_stays_so_when_it_could_not_be_sent() -> None:
    async with running(Sender()) as sender:
        sender.failures = 1
        sender.mark("a", "!b")
        await until(lambda: bool(sender.batches))
        assert sender.batches == [["!b", "a"]]


@virtual_time
async def test_a_batch_has_an_end() -> None:
    async with running(Sender()) as sender:
        keys = [f"k{number}" for number in range(2 * AT_ONCE + 1)]
        sender.mark(*keys)
        await until(lambda: sender.waiting == 0 and len(sender.batches) == 3)
        assert [len(one) for one in sender.batches] == [AT_ONCE, AT_ONCE, 1]
        assert [key for batch in sender.batches for key in batch] == keys


@virtual_time
async def test_what_could_not_be_sent_stays_first_in_order() -> None:
    async with running(Sender()) as sender:
        sender.failures = 5
        sender.open.clear()
        sender.mark("a", "b")
        await until(lambda: sender.begun == 1)
        sender.mark("a")
        sender.open.set()
        await until(lambda: sender.failures < 5)
        sender.mark("c")
        await until(lambda: sender.idle)
        assert sender.batches == [["a", "b", "c"]]


@virtual_time
async def test_a_gateway_that_is_away_is_asked_more_and_more_seldom() -> None:
    async with running(Sender()) as sender:
        sender.failures = 1_000_000
        sender.mark("a")
        await asyncio.sleep(600)
        assert 120 <= sender.begun <= 130  # every 5 s in the end
        sender.failures = 0
        await until(lambda: sender.batches == [["a"]], seconds=5)


@virtual_time
async def test_a_key_may_be_marked_for_later() -> None:
    async with running(Sender()) as sender:
        sender.mark_later(["a"], 30)
        await asyncio.sleep(29)
        assert not sender.batches
        await until(lambda: sender.batches == [["a"]])


@virtual_time
async def test_what_is_not_urgent_goes_at_once_after_a_pause_and_then_together() -> None:
    async with running(Sender(pace=10)) as sender:
        sender.mark("a")
        await until(lambda: sender.batches == [["a"]])
        sender.mark("b")
        sender.mark("c", "a")
        await asyncio.sleep(9)
        assert sender.batches == [["a"]]
        await until(lambda: sender.batches == [["a"], ["b", "c", "a"]], seconds=2)


@virtual_time
async def test_what_is_urgent_waits_for_no_pause_and_causes_none() -> None:
    async with running(Sender(pace=10)) as sender:
        sender.mark("a")
        await until(lambda: sender.batches == [["a"]])
        sender.mark("b", "!c")
        await until(lambda: sender.batches == [["a"], ["!c"]], seconds=1)
        sender.mark("!d")
        await until(lambda: sender.batches[-1] == ["!d"], seconds=1)
        await until(lambda: sender.batches[-1] == ["b"], seconds=10)


@virtual_time
async def test_what_becomes_urgent_is_sent_once() -> None:
    async with running(Sender()) as sender:
        sender.open.clear()
        sender.mark(*(f"k{number}" for number in range(SMALL + 1)))
        await until(lambda: sender.begun == 1)
        urgent: set[str] = set()
        sender._is_urgent = urgent.__contains__
        sender.mark("a", "b")
        urgent.add("b")
        sender.mark("b")
        urgent.clear()
        sender.mark("b", "a")
        sender.open.set()
        await until(lambda: sender.idle)
        assert sender.batches[1:] == [["b", "a"]]
