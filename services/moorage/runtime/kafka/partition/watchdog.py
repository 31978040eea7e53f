"""Ends the process when it has work and makes no progress.

A task in the event loop checks the progress of each partition task, of each consumer, and of the tables that a worker
follows. A thread checks the event loop itself. While Kafka does not answer, a much longer limit applies, because a
restart would not help.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from aiokafka import TopicPartition

from moorage.runtime.process.failures import EXIT_STUCK, end_task, restarted
from moorage.runtime.process.member import Member

log = structlog.get_logger(__name__)

OUTAGE_FACTOR = 10
"""The factor by which the limit is longer while Kafka does not answer."""

_CHECKS = 12  # checks within the limit


@dataclass
class _Seen:
    """The observations of one task, of a table, or of a worker that has no partitions assigned yet."""

    item: Any
    moves: int
    answered: float = 0.0
    """Seconds without progress while Kafka answered."""

    silent: float = 0.0
    """Seconds without progress while Kafka did not answer."""


class Watchdog:
    """Watches workers.

    Args:
        limit: the number of seconds of work without progress that is too long.
        hidden: the number of seconds for which an open transaction may hide records from a consumer.
        kafka_answers: returns, within a few seconds, whether Kafka answers.
        end: ends the process; called with the reason.
    """

    def __init__(
        self,
        workers: Sequence[Member],
        *,
        limit: float,
        hidden: float = 0.0,
        kafka_answers: Callable[[], Awaitable[bool]],
        end: Callable[[str], None] | None = None,
    ) -> None:
        self._workers = workers
        self._limit = limit
        self._hidden = hidden
        self._answers = kafka_answers
        self._end = end or end_process
        self._seen: dict[tuple[str, int | TopicPartition], _Seen] = {}
        self._task: asyncio.Task[None] | None = None
        self._stop = threading.Event()
        self._beat = time.monotonic()

    def start(self) -> None:
        """Start watching."""
        self._task = asyncio.create_task(restarted("watchdog", self._watch), name="watchdog")
        threading.Thread(target=self._watch_loop, name="moorage-watchdog", daemon=True).start()

    async def stop(self) -> None:
        """Stop watching."""
        self._stop.set()
        await end_task(self._task)

    async def _watch(self) -> None:
        pause = self._limit / _CHECKS
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(pause)
            self._beat = time.monotonic()
            await self.check(pause)

    async def check(self, seconds: float) -> None:
        """Check every worker and task once."""
        stuck: list[tuple[str, _Seen, float]] = []
        for worker in self._workers:
            name = worker.name
            behind = await worker.behind()
            stuck += self._tables(worker, behind.tables)
            items: list[tuple[str, Any, int]] = [(f"{name}, which {worker.lacks},", worker, 0)]
            items += [
                (
                    f"{name} partition {partition} ({task.phase.value}, {task.waiting} records waiting)",
                    task,
                    partition,
                )
                for partition, task in worker.tasks.items()
            ]
            for number, (what, item, partition) in enumerate(items):
                place = (name, partition if number else -1)
                # Tasks wait for the global view, so the progress of its first read counts as theirs.
                moves = item.moves + (worker.moves if number else 0)
                seen = self._seen.get(place)
                unread = bool(number) and item.idle and partition in behind.partitions
                idle = item.idle and not unread
                if seen is None or seen.item is not item or seen.moves != moves or idle:
                    self._seen[place] = _Seen(item, moves)
                elif unread:
                    stuck.append((f"{what} does not receive what Kafka has and", seen, max(self._limit, self._hidden)))
                else:
                    stuck.append((what, seen, self._limit))
        if not stuck:
            return
        answers = await self._answers()
        for what, seen, limit in stuck:
            if answers:
                seen.answered += seconds
            else:
                seen.silent += seconds
            if seen.answered >= limit or seen.answered + seen.silent >= OUTAGE_FACTOR * limit:
                self._end(
                    f"{what} made no progress for {seen.answered + seen.silent:.0f} s; "
                    f"Kafka {'answers' if answers else 'does not answer'}"
                )
                return

    def _tables(self, worker: Member, tables: Mapping[TopicPartition, int]) -> list[tuple[str, _Seen, float]]:
        """Return the tables of a worker that do not advance although Kafka has more. Other progress does not count."""
        name, stuck = worker.name, []
        for place in [place for place in self._seen if place[0] == name and not isinstance(place[1], int)]:
            if place[1] not in tables:
                del self._seen[place]
        for tp, position in tables.items():
            seen = self._seen.get((name, tp))
            if seen is None or seen.item is not worker or seen.moves != position:
                self._seen[name, tp] = _Seen(worker, position)
            else:
                table = f"{tp.topic} partition {tp.partition}"
                what = f"{name}, whose table {table} does not advance although Kafka has more,"
                stuck.append((what, seen, self._limit))
        return stuck

    def _watch_loop(self) -> None:
        """Watch the event loop: a service that never returns would block it, and with it the checks above."""
        while not self._stop.wait(min(1.0, self._limit / _CHECKS)):
            still = time.monotonic() - self._beat - self._limit / _CHECKS
            if still > self._limit + 10:  # a request to Kafka takes some seconds of a check
                self._end(f"the event loop has been blocked for {still:.0f} s")
                return


def end_process(why: str) -> None:
    """Log the reason and end the process at once, because a stuck process would not stop in order."""
    log.critical("watchdog.ends_process", why=why, exit_code=EXIT_STUCK)
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(EXIT_STUCK)
