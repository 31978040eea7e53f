"""Checks the commits of one partition: that Kafka has their markers, and that they are frequent enough."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog
from aiokafka.errors import KafkaError

from moorage.runtime.kafka.clients.fenced_producer import KeepAlive
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.dangling_transactions import markers_lost_since, mind_a_slow_commit
from moorage.runtime.process.failures import StartAfresh

log = structlog.get_logger(__name__)

_MARKERS_AFTER: Final = 10.0
"""Seconds after a commit until its markers are checked."""


class CommitWatch:
    """Watches the commits of a task's producer.

    Args:
        contexts: the contexts of the services for which it commits.
        wake: called when the task has to call `check`, or to write because `is_quiet`.
    """

    def __init__(self, contexts: Sequence[WorkerContext[Any]], partition: int, wake: Callable[[], None]) -> None:
        self.is_quiet = False
        """Whether something must be written so that Kafka does not forget the producer."""

        self._contexts = contexts
        self._partition = partition
        self._wake = wake
        self._minding: asyncio.Task[None] | None = None
        self._lost: list[str] = []
        self._keep_alive = KeepAlive(
            contexts[0].times.ids_kept_ms,
            transactional_id=contexts[0].transactional_id(partition),
            due=self._note_quiet,
        )

    def wrote(self) -> None:
        """Note that the producer was started, or has committed a transaction."""
        self.is_quiet = False
        self._keep_alive.wrote()

    async def committed(self, seconds: float) -> None:
        """Check the markers of a transaction: at once if it was slow, and some time later in any case.

        Raises:
            StartAfresh: a transaction is still open on the task's changelog partitions.
            KafkaError: Kafka does not answer.
        """
        for context in self._contexts:
            await mind_a_slow_commit(context, self._partition, seconds)
        if self._minding is None:
            self._minding = asyncio.create_task(self._mind_markers())

    def check(self) -> None:
        """Check that no commit has lost its markers. Raises StartAfresh if one has."""
        if self._lost:
            raise StartAfresh(f"the broker has lost markers of a committed transaction: {self._lost}")

    def close(self) -> None:
        """Stop, because the producer is given up."""
        self._keep_alive.close()
        self.is_quiet = False
        if self._minding is not None:
            self._minding.cancel()
            self._minding = None
        self._lost = []

    def _note_quiet(self) -> None:
        self.is_quiet = True
        self._wake()

    async def _mind_markers(self) -> None:
        """Check the markers of a commit some time after it. The check includes later commits."""
        try:
            await asyncio.sleep(_MARKERS_AFTER)
            self._lost = [
                place for context in self._contexts for place in await markers_lost_since(context, self._partition)
            ]
        except (KafkaError, OSError, RuntimeError) as error:
            log.debug("partition.markers_unknown", partition=self._partition, error=repr(error))
            self._lost = []
        except Exception:
            names = [context.service.name for context in self._contexts]
            log.exception("partition.markers_unknown", services=names, partition=self._partition)
            self._lost = []
        self._minding = None
        if self._lost:
            self._wake()
