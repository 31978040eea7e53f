"""Partitions are read once, to their ends. A partition that brings nothing is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from tests.chaos.seeded.kafka.loop import VirtualLoop

from moorage.runtime.kafka.tables.read_to_end import STALLED_SECONDS, read_to

A, B, C = (TopicPartition("topic", number) for number in range(3))


class Partitions:
    """A consumer of some partitions that returns two records at a time. A gap stands for compacted records.

    Args:
        logs: the offsets of each partition's records.
        ends: the present end of each partition, which positions can reach.
        stalled: the partition that brings nothing.
    """

    def __init__(
        self, logs: Mapping[TopicPartition, list[int]], ends: Mapping[TopicPartition, int], stalled: Any = None
    ) -> None:
        self.logs, self.ends, self.stalled = logs, ends, stalled
        self.positions: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()

    def assign(self, tps: list[TopicPartition]) -> None:
        self.positions = dict.fromkeys(tps, 0)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self.positions[tp] = offset

    def pause(self, *tps: TopicPartition) -> None:
        self.paused.update(tps)

    async def position(self, tp: TopicPartition) -> int:
        return self.positions[tp]

    async def getmany(self, *, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
        assert max_records > 0
        for tp in self.positions.keys() - self.paused - {self.stalled}:
            left = [offset for offset in self.logs[tp] if offset >= self.positions[tp]]
            self.positions[tp] = left[1] + 1 if len(left) > 1 else self.ends[tp]
            if left:
                return {tp: [SimpleNamespace(offset=offset) for offset in left[:2]]}
        await asyncio.sleep(timeout_ms / 1000)
        return {}


def test_each_partition_comes_in_its_order_and_no_further_than_its_end() -> None:
    there = Partitions({A: [0, 1, 2, 7, 9, 11], B: [3, 4], C: []}, {A: 12, B: 6, C: 0})
    seen: dict[TopicPartition, list[int]] = {A: [], B: [], C: []}
    told: list[tuple[int, int]] = []

    async def main() -> None:
        ends = {A: 10, B: 6, C: 0}
        async for tp, records in read_to(there, {A: 1, B: 0, C: 0}, ends, lambda *one: told.append(one)):
            seen[tp] += [record.offset for record in records]

    VirtualLoop().play(main())
    assert seen == {A: [1, 2, 7, 9], B: [3, 4], C: []}
    assert told == sorted(told)
    assert told[-1] == (15, 15)
    assert set(there.positions) == {A, B}, "of an empty one there is nothing to read"


def test_what_brings_nothing_is_given_up() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        logs = {A: list(range(6)), B: [0, 1]}
        async for _ in read_to(Partitions(logs, {A: 6, B: 2}, stalled=B), {A: 0, B: 0}, {A: 6, B: 2}):
            await asyncio.sleep(STALLED_SECONDS - 1)  # a slow partition is not stalled

    with pytest.raises(TimeoutError, match="no records for 30 s, 2 positions before the end"):
        loop.play(main())
    assert loop.time() > 3 * (STALLED_SECONDS - 1) + STALLED_SECONDS
