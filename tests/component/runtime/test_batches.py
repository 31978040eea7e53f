"""How many records the engine takes into one decision, and into one slice of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from moorage.runtime.engine import batch
from moorage.runtime.engine.batch import BatchDecision, BatchProcessor
from moorage.runtime.engine.engine import EngineRules, PartitionEngine
from moorage.runtime.engine.journal import Book
from moorage.runtime.engine.requests import Bounded, Bounds, CatchUp, Turn
from moorage.runtime.service import Emit, Input, NeedFresh, Service
from moorage.runtime.wire.record_format import KafkaFormat
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.topics import Cleanup, Topic

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Asked(Model):
    event_type: ClassVar[str] = "io.moorage.test.asked.v1"

    events: int


ASKED = Topic("asked", "key", "key", Asked, Cleanup.DELETE, 3_600_000)
ANSWERED = Topic("answered", "key", "key", Asked, Cleanup.DELETE, 3_600_000)


class Fan(Service[list[int]]):
    """Each record states how many events it leads to."""

    name = "fan"
    sources: ClassVar[tuple[Topic, ...]] = (ASKED,)

    def __init__(self, cost: float = 0.0) -> None:
        self.slices: list[int] = []
        self.cost = cost
        self.time = 0.0

    def new_state(self, partition: int) -> list[int]:
        return [partition]

    def apply(self, state: list[int], topic: Topic, key: str, event: Model | None) -> None:
        raise AssertionError(f"{topic.short} {key} {event} {state}: it has no tables")

    def process(self, state: list[int], batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        assert (state, now, fresh) == ([0], NOW, False)
        self.slices.append(len(batch))
        self.time += self.cost * len(batch)
        return [
            Emit(ANSWERED, f"{record.key}-{number}", record.key, record.event, record.meta)
            for record in batch
            if isinstance(record.event, Asked)
            for number in range(record.event.events)
        ]


@dataclass
class Record:
    offset: int
    value: bytes
    partition: int = 0

    @property
    def key(self) -> bytes:
        return f"k{self.offset}".encode()

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        return to_headers(Meta(id=f"id-{self.offset}", source="test", type=ASKED.event_type))


def records(count: int, events: int) -> list[tuple[Topic, Any]]:
    return [(ASKED, Record(offset, Asked(events=events).model_dump_json().encode())) for offset in range(count)]


def processor(service: Fan) -> BatchProcessor[list[int]]:
    return BatchProcessor(
        service,
        0,
        partitions=1,
        report_max_bytes=65_536,
        form=KafkaFormat(),
        seconds=lambda: service.time,
        book=Book(),
    )


async def decide(
    made: BatchProcessor[list[int]], given: Sequence[tuple[Topic, Any]], turns: asyncio.Lock | None = None
) -> BatchDecision:
    """Run the steps like the owner: each request for a turn waits until it is granted."""
    decision = BatchDecision(NOW)
    for request in made.process([0], given, decision):
        assert isinstance(request, Turn), "nothing is followed"
        async with turns or asyncio.Lock():
            await asyncio.sleep(0)
    return decision


async def everything(service: Fan, given: Sequence[tuple[Topic, Any]]) -> list[BatchDecision]:
    """Decide on all records like the owner: those that are left are given again, together with new ones."""
    made = processor(service)
    decisions = []
    while given:
        decision = await decide(made, given)
        decisions.append(decision)
        taken = len(given) - len(decision.left)
        assert taken > 0
        assert decision.records == taken
        assert decision.positions == {ASKED: given[taken - 1][1].offset + 1}
        assert list(decision.left) == list(given[taken:])
        given = decision.left
    assert made.steps == len(service.slices)
    return decisions


async def test_few_events_make_one_decision() -> None:
    service = Fan()
    (decision,) = await everything(service, records(500, 1))
    assert len(decision.emits) == 500
    assert service.slices == [25, *[50] * 9, 25]


@pytest.mark.parametrize(("cost", "left"), [(0.0, (60, 20, 0)), (0.1, (60, 50, 40))], ids=["quick", "slow"])
def test_a_batch_grows_with_the_backlog_as_long_as_records_are_quick(cost: float, left: tuple[int, ...]) -> None:
    service = Fan(cost)
    rules = EngineRules(partitions=1, batch_max_records=10, backlog_growth=4, reconcile_interval=None)
    engine = PartitionEngine(service, 0, rules=rules, form=KafkaFormat(), seconds=lambda: service.time)
    steps, answer = engine.restore({ASKED: None}, None), None
    with contextlib.suppress(StopIteration):
        while True:
            request = steps.send(answer)
            answer = None
            if isinstance(request, Bounds):
                answer = Bounded(dict.fromkeys(request.begin, 0), dict.fromkeys(request.committed, 0))
    engine.offer(ASKED, [record for _, record in records(100, 0)])
    found = []
    for _ in left:
        list(engine.decide(NOW))
        found.append(engine.waiting)
    assert tuple(found) == left


async def test_many_events_make_several_decisions() -> None:
    service = Fan()
    decisions = await everything(service, records(500, 60))
    keys = [emit.key for decision in decisions for emit, _ in decision.emits]
    assert keys == [f"k{offset}-{number}" for offset in range(500) for number in range(60)]
    sizes = [len(decision.emits) for decision in decisions]
    assert max(sizes) < batch.DECISION_EVENTS + 50 * 60
    assert min(sizes[:-1]) >= batch.DECISION_EVENTS


async def test_one_record_is_always_taken() -> None:
    service = Fan(cost=1.0)
    decisions = await everything(service, records(40, 5000))
    assert sum(len(decision.emits) for decision in decisions) == 200_000
    assert service.slices == [25, *[1] * 15]
    assert len(decisions) == 16


class Careful(Fan):
    """Requires all upstream records before it decides."""

    def process(self, state: list[int], batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        assert (state, now) == ([0], NOW)
        self.slices.append(len(batch) if fresh else 0)
        if not fresh:
            raise NeedFresh
        return []


def test_what_is_read_for_one_record_is_new_enough_for_all_that_were_taken_with_it() -> None:
    """There is one read for records that are taken together, not one for each slice. Later records may be newer."""
    service = Careful()
    made = processor(service)
    for _ in range(2):
        asked = [request for request in made.process([0], records(60, 0), BatchDecision(NOW)) if request != Turn()]
        assert asked == [CatchUp(frozenset())]
    assert service.slices == [0, 25, 35, 0, 50, 10]


async def test_slices_follow_what_records_cost() -> None:
    service = Fan(cost=0.002)
    made = processor(service)
    await decide(made, records(100, 1))
    assert service.slices[0] == 25
    assert set(service.slices[1:-1]) <= {4, 5}, "ten milliseconds each"
    service.cost = 0.0
    service.slices.clear()
    await decide(made, records(250, 1))
    assert service.slices[0] <= 10, "the last slice was a short one"
    assert service.slices[1] == 2 * service.slices[0]
    assert service.slices[4:6] == [50, 50]


async def test_the_event_loop_goes_round_between_slices_of_several_partitions() -> None:
    order: list[str] = []

    class Told(Fan):
        def process(
            self, state: list[int], batch: Sequence[Input], now: datetime, *, fresh: bool = False
        ) -> list[Emit]:
            order.append("slice")
            return super().process(state, batch, now, fresh=fresh)

    async def tick() -> None:
        while True:
            order.append("round")
            await asyncio.sleep(0)

    turns = asyncio.Lock()
    ticking = asyncio.create_task(tick())
    await asyncio.gather(*(decide(processor(Told()), records(100, 1), turns) for _ in range(8)))
    ticking.cancel()
    assert order.count("slice") == 8 * 3
    together = [pair for pair in pairwise(order) if pair == ("slice", "slice")]
    assert together == []
