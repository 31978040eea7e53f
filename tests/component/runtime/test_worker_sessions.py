"""A worker between two sessions."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from aiokafka import TopicPartition
from tests.support.toys import Counter

from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.settings.process_settings import Settings


def test_what_a_session_that_has_ended_is_given_has_no_owner() -> None:
    """An owner would wait for closed clients, and the next session would treat it as its own."""

    async def story() -> None:
        worker = Worker(Counter(), Settings(), partitions=1)
        ended = cast("WorkerContext[Any]", SimpleNamespace())
        given = [TopicPartition(topic.name("moorage"), 0) for topic in Counter.sources]
        await worker.assigned(ended, given)
        assert not worker.tasks
        assert not worker.idle

    asyncio.run(story())
