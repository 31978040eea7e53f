"""aiokafka's fetcher returns when a position has moved, with or without records."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.errors import KafkaError

from moorage.runtime.kafka.clients.aiokafka_patches import _return_with_positions

LONG = 3600.0


class Buffer:
    """The part of a fetcher that `fetched_records` uses: answers that were received and not given out yet."""

    def __init__(self) -> None:
        self._records: dict[str, list[str]] = {}
        self._closed = False
        self._subscriptions = SimpleNamespace(reassignment_in_progress=False)
        self.waiters: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

    def _create_fetch_waiter(self) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters.put_nowait(waiter)
        return waiter

    async def fetched_records(self, *_: object) -> dict[str, list[str]]:
        taken = {tp: records for tp, records in self._records.items() if records}
        self._records.clear()
        return taken

    def poll(self, seconds: float = LONG) -> asyncio.Task[Any]:
        fetching = _return_with_positions(Buffer.fetched_records)
        return asyncio.create_task(cast("Any", fetching)(self, (), seconds, None))


def test_it_is_the_fetchers_function_that_is_patched() -> None:
    assert "positions" in Fetcher.fetched_records.moorage_patches
    assert "positions" in Fetcher._update_fetch_positions.moorage_patches


async def test_an_answer_with_markers_alone_ends_a_wait() -> None:
    buffer = Buffer()
    polling = buffer.poll()
    waiter = await buffer.waiters.get()
    buffer._records["t"] = []
    waiter.set_result(None)
    assert await polling == {}


async def test_so_does_one_that_came_before_the_wait() -> None:
    buffer = Buffer()
    buffer._records["t"] = []
    assert await buffer.poll() == {}
    assert buffer.waiters.empty()


async def test_records_are_returned_at_once_and_after_a_wait() -> None:
    buffer = Buffer()
    buffer._records["t"] = ["first"]
    assert await buffer.poll() == {"t": ["first"]}
    polling = buffer.poll()
    waiter = await buffer.waiters.get()
    buffer._records["t"] = ["second"]
    waiter.set_result(None)
    assert await polling == {"t": ["second"]}


async def test_a_poll_ends_with_its_time_and_with_the_errors_of_the_group() -> None:
    buffer = Buffer()
    assert await buffer.poll(0.0) == {}
    assert await buffer.poll(0.001) == {}
    polling = buffer.poll()
    (await buffer.waiters.get()).cancelled()
    (await buffer.waiters.get()).set_exception(KafkaError("refused"))
    with pytest.raises(KafkaError, match="refused"):
        await polling
