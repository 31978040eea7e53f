"""Views of one process share a reader: each record is fetched and decoded once, and no view holds up another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition
from tests.support.waiting import until

from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.shared_reader import SharedReader, ViewReading
from moorage.runtime.process.failures import StartAfresh
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire import codec
from moorage_schemas.topics import RESOURCES

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


class Record:
    """A record as the readers look at it."""

    def __init__(self, offset: int) -> None:
        self.offset = offset


class Kafka:
    """Two partitions, and the consumers that read them."""

    def __init__(self) -> None:
        self.ends = {ONE: 0, TWO: 0}
        self.written = asyncio.Event()
        self.consumers: list[Consumer] = []
        self.held: set[str] = set()
        """The clients that get nothing."""

    def write(self, tp: TopicPartition, count: int) -> None:
        """Write some records."""
        self.ends[tp] += count
        self.wake()

    def release(self, client_id: str) -> None:
        """Give a client records again."""
        self.held.discard(client_id)
        self.wake()

    def wake(self) -> None:
        self.written.set()
        self.written = asyncio.Event()

    def fetched(self, client_id: str = "") -> int:
        """The number of records that were fetched, by one client or all."""
        return sum(one.fetched for one in self.consumers if client_id in {"", one.client_id})


class Consumer:
    """A consumer of these partitions."""

    def __init__(self, kafka: Kafka, client_id: str) -> None:
        self._kafka = kafka
        self.client_id = client_id
        self._fetcher = self
        self.error_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._at: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self.fetched = 0
        self.stopped = False

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        self.stopped = True

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self._at, self._paused = dict.fromkeys(partitions, 0), set()

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self._at[tp] = offset

    def pause(self, tp: TopicPartition) -> None:
        self._paused.add(tp)

    def resume(self, tp: TopicPartition) -> None:
        self._paused.discard(tp)

    async def position(self, tp: TopicPartition) -> int:
        return self._at[tp]

    async def getmany(self, **_: Any) -> dict[TopicPartition, list[Record]]:
        """Return at most three records of each partition. Positions and records change at the same moment."""
        await asyncio.sleep(0)
        while True:
            found = {}
            for tp, at in self._at.items():
                end = min(at + 3, self._kafka.ends[tp])
                if at < end and tp not in self._paused and self.client_id not in self._kafka.held:
                    found[tp] = [Record(offset) for offset in range(at, end)]
                    self._at[tp] = end
                    self.fetched += end - at
            if found:
                return found
            await self._kafka.written.wait()


class View:
    """What a view has taken."""

    def __init__(self) -> None:
        self.taken: dict[TopicPartition, list[int]] = {ONE: [], TWO: []}
        self.errors: list[Exception] = []
        self.breaks_at = -1
        self.on_record: Callable[[Record], None] = lambda _: None

    def sink(self, tp: TopicPartition) -> Callable[[Sequence[Any]], None]:
        def take(records: Sequence[Any]) -> None:
            for record in records:
                if record.offset == self.breaks_at:
                    raise ZeroDivisionError
                self.taken[tp].append(record.offset)
                self.on_record(record)

        return take

    def reading(self, shared: SharedReader, *places: TopicPartition) -> ViewReading:
        return shared.subscribe(dict.fromkeys(places, 0), self.sink, on_failure=self.errors.append)

    def has(self, tp: TopicPartition, count: int) -> bool:
        return self.taken[tp] == list(range(count))


@pytest.fixture
async def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    kafka = Kafka()

    def make(_: Settings, *, client_id: str, **__: Any) -> Consumer:
        kafka.consumers.append(Consumer(kafka, client_id))
        return kafka.consumers[-1]

    monkeypatch.setattr(clients, "table_consumer", make)
    return kafka


@pytest.fixture
async def shared(kafka: Kafka) -> SharedReader:
    assert kafka.consumers == []
    shared = SharedReader(Settings(), client_id="shared")
    shared.start()
    return shared


@contextmanager
def noting_decoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    decoded: list[int] = []

    def decode(_: object, record: Record) -> Any:
        decoded.append(record.offset)
        return record

    with monkeypatch.context() as patch:
        patch.setattr(codec, "decode", decode)
        yield decoded


async def test_a_record_is_fetched_and_decoded_once_for_all_views(
    kafka: Kafka, shared: SharedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [View() for _ in range(3)]
    same: list[object] = []
    with noting_decoded(monkeypatch) as decoded:
        for view in views[:2]:
            view.on_record = lambda record: same.append(shared.decode(RESOURCES, record))
        readings = [view.reading(shared, ONE, TWO) for view in views]
        kafka.write(ONE, 10)
        await asyncio.gather(*(reading.reached_all({ONE: 10}) for reading in readings))
        assert all(view.has(ONE, 10) for view in views)
        assert decoded == list(range(10))
        assert len(same) == 20
        assert len(set(map(id, same))) == 10
        await readings[0].stop()
        await readings[2].stop()
        kafka.write(ONE, 1)
        await readings[1].reached_all({ONE: 11})
        assert decoded == list(range(11)), "it is decoded for a lone view as well"
    assert kafka.fetched() == 11
    assert len(kafka.consumers) == 1
    await readings[1].stop()
    await shared.stop()
    assert kafka.consumers[0].stopped


async def test_a_view_that_begins_later_does_not_hold_up_a_complete_one(kafka: Kafka, shared: SharedReader) -> None:
    first, second = View(), View()
    kafka.write(ONE, 10)
    complete = first.reading(shared, ONE, TWO)
    await complete.reached_all({ONE: 10})
    complete.is_complete = True
    kafka.held.add("shared-beginning")
    later = second.reading(shared, ONE, TWO)
    kafka.write(ONE, 5)
    kafka.write(TWO, 2)
    await complete.reached_all({ONE: 15, TWO: 2})
    assert (first.has(ONE, 15), second.taken[ONE], second.has(TWO, 2)) == (True, [], True)
    assert await later.behind({ONE: 15, TWO: 2}) == {ONE: 0}
    waiting = asyncio.create_task(later.reached_all({ONE: 15}))
    await asyncio.sleep(0)
    assert not waiting.done()
    kafka.release("shared-beginning")
    await waiting
    assert second.has(ONE, 15)
    assert await later.behind({ONE: 15, TWO: 2}) == {}
    assert (kafka.fetched("shared"), kafka.fetched("shared-beginning")) == (17, 12), (
        "three at a time, two of them in vain"
    )
    await until(lambda: kafka.consumers[1].stopped)
    kafka.write(ONE, 1)
    await asyncio.gather(complete.reached_all({ONE: 16}), later.reached_all({ONE: 16}))
    assert (first.has(ONE, 16), second.has(ONE, 16)) == (True, True)
    await shared.stop()


async def test_views_that_begin_one_after_the_other_read_together(kafka: Kafka, shared: SharedReader) -> None:
    """No decision rests on an incomplete view, so it may wait for another one."""
    first, second = View(), View()
    kafka.write(ONE, 4)
    early = first.reading(shared, ONE)
    await until(lambda: first.has(ONE, 4))
    whole = asyncio.create_task(early.reached_all({ONE: 6}))
    await asyncio.sleep(0)
    later = second.reading(shared, ONE)
    await later.reached_all({ONE: 4})
    assert not whole.done()
    kafka.write(ONE, 2)
    await asyncio.gather(whole, later.reached_all({ONE: 6}))
    assert (first.has(ONE, 6), second.has(ONE, 6)) == (True, True)
    assert {one.client_id for one in kafka.consumers} == {"shared"}
    await shared.stop()


@pytest.mark.parametrize("begins_later", [False, True], ids=["together", "later"])
async def test_a_view_that_fails_leaves_the_others_as_they_are(
    kafka: Kafka, shared: SharedReader, *, begins_later: bool
) -> None:
    sound, broken = View(), View()
    broken.breaks_at = 5
    kafka.write(ONE, 10 if begins_later else 0)
    other = sound.reading(shared, ONE)
    if begins_later:
        await other.reached_all({ONE: 10})
        other.is_complete = True
    failing = broken.reading(shared, ONE)
    waiting = asyncio.create_task(failing.reached_all({ONE: 12}))
    await asyncio.sleep(0)
    kafka.write(ONE, 12 - kafka.ends[ONE])
    await other.reached_all({ONE: 12})
    with pytest.raises(StartAfresh):
        await waiting
    assert sound.has(ONE, 12)
    assert broken.has(ONE, 5)
    assert [type(error) for error in broken.errors] == [ZeroDivisionError]
    assert (await failing.behind({ONE: 12}), await other.behind({ONE: 12})) == ({ONE: -1}, {})
    with pytest.raises(StartAfresh):
        await failing.reached_all({ONE: 12})
    assert sound.errors == []
    await failing.stop()
    again = View()
    await again.reading(shared, ONE).reached_all({ONE: 12})
    assert again.has(ONE, 12), "it may begin again"
    await shared.stop()


async def test_each_view_finds_out_for_itself_what_stands_still(kafka: Kafka, shared: SharedReader) -> None:
    one, two = View().reading(shared, ONE), View().reading(shared, ONE, TWO)
    kafka.write(ONE, 3)
    await one.reached_all({ONE: 3})
    await one.behind({ONE: 4})
    await two.behind({TWO: 1})
    await one.behind({ONE: 4})
    assert one.standing == {ONE}
    assert not two.standing
    await two.behind({TWO: 1})
    assert two.standing == {TWO}
    await one.stop()
    await two.stop()
    assert not shared._feeds, "nobody needs them any more"
    await shared.stop()


async def test_a_reader_that_has_ended_is_noticed_by_all_views(kafka: Kafka, shared: SharedReader) -> None:
    kafka.write(ONE, 3)
    readings = [View().reading(shared, ONE) for _ in range(2)]
    await asyncio.gather(*(reading.reached_all({ONE: 3}) for reading in readings))
    assert all(reading.alive for reading in readings)
    task = shared._reader._task
    assert task is not None
    task.cancel()
    await asyncio.wait({task})
    assert not any(reading.alive for reading in readings)


@pytest.mark.parametrize("turns", range(6))
async def test_it_stops_at_any_moment_after_its_last_view(kafka: Kafka, shared: SharedReader, turns: int) -> None:
    view = View()
    reading = view.reading(shared, ONE)
    kafka.write(ONE, 1)
    await until(lambda: view.has(ONE, 1))
    await reading.stop()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await shared.stop()
    assert all(one.stopped for one in kafka.consumers)
