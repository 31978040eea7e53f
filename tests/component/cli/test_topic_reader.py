"""The order in which `watch` shows records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from moorage.cli.api.topics import TopicReader
from moorage_schemas.topics import CONDITIONS, EVICTIONS, TAINTS, Topic


class Consumer:
    """Returns what is given, poll by poll."""

    def __init__(self, *polls: list[Any]) -> None:
        self._polls = list(polls)

    async def getmany(self, *, timeout_ms: int) -> dict[Any, list[Any]]:
        assert timeout_ms > 0
        found: dict[Any, list[Any]] = {}
        for record in self._polls.pop(0):
            found.setdefault(record.topic, []).append(record)
        return found


def record(topic: Topic, offset: int, timestamp: int) -> Any:
    return SimpleNamespace(
        topic=topic.name("moorage"), partition=0, offset=offset, timestamp=timestamp, key=b"k", value=b"{}", headers=()
    )


async def test_one_transaction_is_shown_in_the_order_of_its_topics_however_it_arrives() -> None:
    reader = TopicReader("", "moorage", [CONDITIONS, TAINTS, EVICTIONS])
    first, later = [record(TAINTS, 3, 7), record(EVICTIONS, 1, 7), record(TAINTS, 4, 7)], [record(CONDITIONS, 9, 7)]
    reader._consumer = Consumer(first, later, [record(TAINTS, 5, 9)], [record(CONDITIONS, 10, 8)], [])
    batches = reader.batches()
    shown = [[(one.topic, one.offset) for one in await anext(batches)] for _ in range(3)]
    assert shown == [
        [(CONDITIONS, 9), (TAINTS, 3), (TAINTS, 4), (EVICTIONS, 1)],
        [(CONDITIONS, 10), (TAINTS, 5)],
        [],
    ]
