# ruff: noqa: ARG002 - toy services take what the interface gives them, and use what they need
"""An owner's life: time, wake-ups, the reconciler, global views, and a broker that goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest
from tests.support.brokers import Broker, EmbeddedBroker
from tests.support.toys import (
    COUNTED,
    KNOWN,
    NUMBERS,
    TABLE,
    Counted,
    Counter,
    CounterState,
    Number,
    assert_exactly_once,
    counted,
    make_toys,
    settings_for,
    worker_for,
    write_numbers,
    write_raw,
)
from tests.support.waiting import until

from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.service import Emit, GlobalView, Input, Needs
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import Topic

pytestmark = pytest.mark.kafka


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self._moved = asyncio.Condition()

    def now(self) -> datetime:
        return self._now

    async def sleep_until(self, when: datetime) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self._now >= when)

    async def move(self, seconds: float) -> None:
        async with self._moved:
            self._now += timedelta(seconds=seconds)
            self._moved.notify_all()


class Delaying(Counter):
    """Answers each number as many seconds later as it says."""

    name = "delaying"
    changelogs = ()

    def __init__(self) -> None:
        super().__init__()
        self.due: list[tuple[datetime, Input]] = []
        self.woken: list[datetime] = []
        self.fail_wakes = 0

    def process(self, state: CounterState, batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        for record in batch:
            assert isinstance(record.event, Number)
            self.due.append((now + timedelta(seconds=record.event.n), record))
        return []

    def next_wake(self, state: CounterState) -> datetime | None:
        return min((when for when, _ in self.due), default=None)

    def wake(self, state: CounterState, now: datetime) -> list[Emit]:
        if self.fail_wakes:
            self.fail_wakes -= 1
            raise LookupError("a wake-up that fails")
        ready = [(when, record) for when, record in self.due if when <= now]
        if ready:
            self.woken.append(now)
        self.due = [item for item in self.due if item not in ready]
        emits = []
        for _, record in ready:
            assert isinstance(record.event, Number)
            event = Counted(key=record.key, seq=1, n=record.event.n, total=0)
            emits.append(Emit(COUNTED, record.key, record.key, event, record.meta))
        return emits


async def count_of(settings: Settings) -> int:
    return sum(map(len, (await counted(settings)).values()))


async def all_counted(settings: Settings, wanted: int, seconds: float = 180.0) -> None:
    async def there() -> bool:
        return await count_of(settings) >= wanted

    await until(there, seconds, f"{wanted} records were not processed")


async def test_a_wake_up_comes_at_its_time_by_the_clock_and_never_before(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1, reconcile_interval=10_000)
    await make_toys(settings)
    clock, service = HandClock(), Delaying()
    began = clock.now()
    async with Worker(service, settings, clock=clock, partitions=1) as worker:
        await worker.wait_ready()
        await write_numbers(settings, [Number(key="a", n=300), Number(key="b", n=100)])
        await until(lambda: len(service.due) == 2, message="not read")
        await clock.move(99.999)
        # The owner has looked at the clock again, for it committed the offsets of a batch without output.
        await until(lambda: worker.tasks[0].engines[0]._committed[NUMBERS] == 2, message="not committed")
        assert service.woken == []
        await clock.move(0.001)
        await all_counted(settings, 1)
        await clock.move(500)
        await all_counted(settings, 2)
    assert service.woken == [began + timedelta(seconds=100), began + timedelta(seconds=600)]


async def test_wake_ups_by_the_wall_clock_are_never_early(broker: Broker, topic_prefix: str) -> None:
    # Nothing but the wake-up itself reads the clock within the test's time.
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1, reconcile_interval=10_000)
    await make_toys(settings)
    service = Delaying()
    wanted: list[datetime] = []
    async with worker_for(service, settings) as worker:
        await worker.wait_ready()
        await write_numbers(settings, [Number(key="a", n=1), Number(key="b", n=2)])
        await until(lambda: len(service.due) == 2, message="not read")
        wanted = sorted(when for when, _ in service.due)
        await all_counted(settings, 2)
    for when, woken in zip(wanted, service.woken, strict=True):
        assert woken >= when


async def test_a_wake_up_that_fails_is_tried_again_while_records_go_on(broker: Broker, topic_prefix: str) -> None:
    class Stumbling(Delaying):
        name = "stumbling"

        def new_state(self, partition: int) -> CounterState:
            self.due = []
            return super().new_state(partition)

    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    service = Stumbling()
    service.fail_wakes = 2
    async with worker_for(service, settings) as worker:
        await write_numbers(settings, [Number(key="a", n=0)])
        await all_counted(settings, 1)
        assert service.fail_wakes == 0
        await write_numbers(settings, [Number(key="b", n=0)])
        await all_counted(settings, 2)
        await worker.wait_ready()


async def test_the_reconciler_repairs_what_differs(broker: Broker, topic_prefix: str) -> None:
    class Repairing(Counter):
        name = "repairing"

        def reconcile(self, state: CounterState, now: datetime) -> list[Emit]:
            self.reconciled += 1
            return self.repairs.pop() if self.repairs else []

        repairs: list[list[Emit]]

    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1, reconcile_interval=0.2)
    await make_toys(settings)
    service = Repairing()
    service.repairs = []
    async with worker_for(service, settings) as worker:
        await worker.wait_ready()
        await write_numbers(settings, [Number(key="a", n=5)])
        await all_counted(settings, 1)
        (record,) = [event for events in (await counted(settings)).values() for event in events]
        cause = Meta(id="repair", source="test", type=NUMBERS.event_type)
        service.repairs = [[Emit(COUNTED, "a", "a", record, cause)]]
        await all_counted(settings, 2)
        before = service.reconciled
        await until(lambda: service.reconciled > before + 1, message="it ran once only")
    assert await count_of(settings) == 2


class Names(GlobalView):
    """Every known name of the fleet."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._fresh = False

    def apply(self, record: Input) -> None:
        self.names.add(record.key)
        self._fresh = True

    def changed(self) -> Iterable[int] | None:
        fresh, self._fresh = self._fresh, False
        return None if fresh else ()


class Global(Counter):
    """Says in each partition how many names there are, whenever that changes."""

    name = "global"
    follows = ()
    changelogs = ()
    globals = (KNOWN,)

    def __init__(self) -> None:
        super().__init__()
        self.views: dict[int, Names] = {}
        self.at_first_wake: dict[int, int] = {}
        self.said: dict[int, int] = {}

    def new_globals(self) -> GlobalView:
        return Names()

    def use_globals(self, state: CounterState, view: GlobalView) -> None:
        assert isinstance(view, Names)
        self.views[state.partition] = view

    def apply(self, state: CounterState, topic: Topic, key: str, event: Model | None) -> None:
        assert topic is not KNOWN

    def wake(self, state: CounterState, now: datetime) -> list[Emit]:
        self.at_first_wake.setdefault(state.partition, len(self.views[state.partition].names))
        self.said[state.partition] = len(self.views[state.partition].names)
        return []


async def test_global_views_are_caught_up_before_work_and_wake_every_partition(
    broker: Broker, topic_prefix: str
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await make_toys(settings)
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"x"),
        ("ce_source", b"test"),
        ("ce_type", KNOWN.event_type.encode()),
    ]
    for number in range(8):
        await write_raw(
            settings, KNOWN, b"n%d" % number, b'{"name": "n"}', headers, partition=number % settings.partitions
        )
    service = Global()
    async with worker_for(service, settings) as worker:
        await worker.wait_ready()
        await until(lambda: len(service.said) == settings.partitions, message="not woken")
        assert set(service.at_first_wake.values()) == {8}
        assert len({id(view) for view in service.views.values()}) == 1
        await write_raw(settings, KNOWN, b"later", b'{"name": "n"}', headers)
        await until(lambda: set(service.said.values()) == {9}, message="the change woke nobody")


async def test_a_large_state_is_restored_and_its_progress_told(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2)
    await make_toys(settings)
    await write_numbers(settings, [Number(key=f"k{i}", n=i) for i in range(6000)], topic=TABLE)
    async with worker_for(Counter(), settings) as worker:
        await until(
            lambda: (
                sum(
                    len(owner.engines[0].state.table)
                    for owner in worker.tasks.values()
                    if owner.engines[0]._tables is not None
                )
                == 6000
            ),
            message="the table was not read",
        )
        await until(
            lambda: sum(owner.engines[0]._committed.get(TABLE, 0) for owner in worker.tasks.values()) == 6000,
            message="its offsets were not committed",
        )
    async with worker_for(Counter(), settings) as worker:
        seen: set[float] = set()

        def ready() -> bool:
            seen.update(part["restored"] for part in worker.report()["partitions"].values())
            return worker.ready

        await until(ready, message="not restored")
        assert sum(len(owner.engines[0].state.table) for owner in worker.tasks.values()) == 6000
        assert {part["restored"] for part in worker.report()["partitions"].values()} == {1.0}
        assert all(0 <= fraction <= 1 for fraction in seen)


async def test_a_worker_knows_that_its_consumer_has_fallen_silent(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2)
    await make_toys(settings)
    service = Counter()
    async with worker_for(service, settings) as worker:
        await worker.wait_ready()
        await write_numbers(settings, [Number(key=f"k{i}", n=i) for i in range(20)])

        async def is_behind(*partitions: int) -> bool:
            return (await worker.behind()).partitions == set(partitions)

        await until(is_behind, message="it has not heard of everything, the markers of transactions too")
        (context,) = worker._contexts
        deaf = [context.tp(topic, partition) for topic in (NUMBERS, TABLE) for partition in range(2)]
        context.consumer.pause(*deaf)
        await write_numbers(settings, [Number(key=f"k{i}", n=i) for i in range(20, 40)])
        await until(lambda: is_behind(0, 1), message="it does not know what it has not heard")


async def test_a_broker_that_is_killed_and_started_again_costs_nothing_but_time(own_broker: EmbeddedBroker) -> None:
    settings = settings_for(own_broker.bootstrap, "outage", batch_max_records=20, transaction_timeout_ms=4000)
    await make_toys(settings)
    first = [Number(key=f"k{i % 5}", n=i) for i in range(1500)]
    second = [Number(key=f"k{i % 5}", n=i) for i in range(1500, 1800)]
    service = Counter()
    async with worker_for(service, settings) as worker:
        await worker.wait_ready()
        await write_numbers(settings, first)
        await until(lambda: len(service.batches) > 5, message="nothing happens")
        await own_broker.kill()
        await own_broker.start()
        await write_numbers(settings, second)
        await all_counted(settings, 1800, 90.0)
        await worker.wait_ready()
    assert_exactly_once(await counted(settings), [*first, *second])


async def test_a_broker_that_hangs_longer_than_a_transaction_may_take(patient_broker: EmbeddedBroker) -> None:
    settings = settings_for(patient_broker.bootstrap, "hang", batch_max_records=10, transaction_timeout_ms=2000)
    await make_toys(settings)
    work = [Number(key=f"k{i % 5}", n=i) for i in range(1000)]
    service = Counter()
    async with worker_for(service, settings) as worker:
        await worker.wait_ready()
        await write_numbers(settings, work)
        await until(lambda: len(service.batches) > 3, message="nothing happens")
        await patient_broker.pause()
        began = asyncio.get_running_loop().time()
        await until(lambda: asyncio.get_running_loop().time() - began > 9, message="time stands still")
        await patient_broker.resume()
        await all_counted(settings, 1000, 90.0)
    assert_exactly_once(await counted(settings), work)


class Present(Counter):
    """Decides on the present, in portions."""

    name = "present"
    follows: ClassVar[tuple[Topic, ...]] = ()
    portions = 5

    def __init__(self) -> None:
        super().__init__()
        self.worker: Worker | None = None
        self.deciding: list[tuple[int, list[int]]] = []
        """For each decision, its partition, and the owners that have read the present and not begun to write."""

    def needs(self, state: CounterState, now: datetime) -> Needs | None:
        return Needs(tables=(TABLE,))

    def reconcile(self, state: CounterState, now: datetime) -> list[Emit]:
        assert self.worker is not None
        owners = self.worker.tasks.values()
        self.deciding.append((state.partition, [owner.partition for owner in owners if owner._fresh.held]))
        if (done := len(state.known)) == self.portions:
            return []
        state.known.add(f"portion {done}")
        key = f"portion-{state.partition}-{done}"
        event = Counted(key=key, seq=1, n=1, total=1)
        return [Emit(COUNTED, key, f"{state.partition}", event, Meta(id=key, source="test", type=COUNTED.event_type))]

    def is_reconciling(self, state: CounterState) -> bool:
        return 0 < len(state.known) < self.portions


async def test_owners_that_decide_on_the_present_take_turns_so_that_it_does_not_grow_old(
    broker: Broker, topic_prefix: str
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=8, reconcile_interval=0.2)
    await make_toys(settings)
    service = Present()
    service.worker = worker = worker_for(service, settings)
    async with worker:
        await worker.wait_ready()
        owners = list(worker.tasks.values())
        await until(
            lambda: all(len(owner.engines[0].state.known) == Present.portions for owner in owners),
            message="not all have reconciled",
        )
        await until(lambda: not any(owner._fresh.held for owner in owners), message="one does not let others")
    assert {partition for partition, _ in service.deciding} == set(range(8))
    assert all(holding == [partition] for partition, holding in service.deciding)
