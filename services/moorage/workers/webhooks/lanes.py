"""The order of deliveries: sequential for one workload, parallel for different ones.

A failed delivery is retried, later each time. The next one of its workload waits until it has been delivered or
abandoned.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from moorage.runtime.process.clock import Clock
from moorage.workers.webhooks.deliveries import Delivery
from moorage.workers.webhooks.sender import Outcome
from moorage.workers.webhooks.status import ReceiverGoneError

AT_ONCE: Final = 8
"""Attempts of one webhook that are made at the same time."""

LEAST_ATTEMPTS: Final = 3
"""Attempts before an event is given up, however old it is. After an outage of Moorage all of them are old."""

_FIRST, _LONGEST = 1.0, 300.0  # seconds until the next attempt; they double
_MAX_DOUBLINGS: Final = 16


class Lanes:
    """Delivers to one webhook.

    Args:
        give_up: takes a delivery that has failed for good, with the last outcome. It returns when that is durable.
        retry_seconds: how long after an event was written it is retried.
        jitter: returns a number from 0 to 1.
    """

    def __init__(
        self,
        *,
        send: Callable[[Delivery], Awaitable[Outcome]],
        give_up: Callable[[Delivery, Outcome, int], Awaitable[None]],
        done: Callable[[Delivery], None],
        retry_seconds: float,
        clock: Clock,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._send, self._give_up, self._done = send, give_up, done
        self._retry = timedelta(seconds=retry_seconds)
        self._clock = clock
        self._jitter = jitter
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._queues: dict[str, deque[Delivery]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.waiting = 0
        """Deliveries that are not completed."""

        self.failure: BaseException | None = None
        """Why it no longer delivers. A receiver that has answered 410 Gone gets nothing more (`ReceiverGoneError`), and
        its waiting deliveries stay open.
        """

    def add(self, delivery: Delivery) -> None:
        """Deliver an event after those of its workload that were added before."""
        self.waiting += 1
        if (queue := self._queues.get(delivery.lane)) is not None:
            queue.append(delivery)
            return
        self._queues[delivery.lane] = queue = deque([delivery])
        task = asyncio.create_task(self._drain(queue), name=f"webhook-lane-{delivery.lane}")
        self._tasks[delivery.lane] = task
        task.add_done_callback(lambda ended: self._ended(delivery.lane, ended))

    async def close(self) -> None:
        """Stop, and drop all open deliveries."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._queues.clear()
        self._tasks.clear()
        self.waiting = 0

    def _ended(self, lane: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(lane) is task:
            del self._tasks[lane]
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failure = self.failure or error

    async def _drain(self, queue: deque[Delivery]) -> None:
        lane = queue[0].lane
        while queue:
            await self._deliver(queue[0])
            self._done(queue.popleft())
            self.waiting -= 1
        del self._queues[lane]

    async def _deliver(self, delivery: Delivery) -> None:
        attempt = 0
        while True:
            attempt += 1
            async with self._slots:
                outcome = await self._send(delivery)
            if outcome.delivered:
                return
            if outcome.gone:
                raise ReceiverGoneError(outcome.message)
            is_late = self._clock.now() >= delivery.written + self._retry
            if is_late and attempt >= LEAST_ATTEMPTS:
                await self._give_up(delivery, outcome, attempt)
                return
            pause = max(self._pause(attempt), outcome.retry_after)
            await self._clock.sleep_until(self._clock.now() + timedelta(seconds=pause))

    def _pause(self, attempt: int) -> float:
        """Return the seconds until the next attempt, from half of a doubling time to all of it."""
        longest = min(_FIRST * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS), _LONGEST)
        return longest * (1 + self._jitter()) / 2
