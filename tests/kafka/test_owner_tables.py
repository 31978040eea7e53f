"""What reads tables fails, is cut off from its consumer, or stands still: it goes on, or it is noticed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from tests.support.brokers import Broker
from tests.support.toys import (
    KNOWN,
    Counter,
    CounterState,
    make_toys,
    settings_for,
    worker_for,
    write_raw,
)
from tests.support.waiting import until

from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.partition.watchdog import Watchdog
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.kafka.tables.table_reader import TableReader
from moorage.runtime.process.failures import RuntimeFailure, StartAfresh
from moorage.runtime.service import GlobalView, Input
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.envelope import Meta, to_headers

HEADERS = to_headers(Meta(id="k", source="t", type=KNOWN.event_type))


class Names(GlobalView):
    """Every known name; `changed` raises once it knows the name `broken`."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def apply(self, record: Input) -> None:
        self.names.add(record.key)

    def changed(self) -> Iterable[int] | None:
        if "broken" in self.names:
            raise ZeroDivisionError("the view is half changed")
        return None


class Global(Counter):
    """Keeps the names of all partitions in one view."""

    name = "global"
    follows = ()
    globals = (KNOWN,)

    def __init__(self) -> None:
        super().__init__()
        self.view = Names()

    def new_globals(self) -> GlobalView:
        return self.view

    def use_globals(self, state: CounterState, view: GlobalView) -> None:
        assert view is self.view
        state.known = self.view.names


async def name(settings: Settings, text: str) -> None:
    await write_raw(settings, KNOWN, text.encode(), b'{"name": "%b"}' % text.encode(), HEADERS, partition=0)


def known(worker: Worker) -> set[str]:
    """What the owner of partition 0 knows of names, from its table or from the global view."""
    return set(worker.tasks[0].engines[0].state.known)


def reader_of(worker: Worker) -> TableReader:
    """What reads the names."""
    for view in worker._views:
        return view._shared._reader
    (context,) = worker._contexts
    return context.reader


BOTH = pytest.mark.parametrize("service", [Counter, Global], ids=["followed", "global"])


@pytest.mark.kafka
async def test_a_global_view_that_fails_ends_its_worker(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2)
    await make_toys(settings)
    async with worker_for(Global(), settings) as worker:
        await worker.wait_ready()
        await name(settings, "broken")
        await until(lambda: not worker.ready, message="it is still ready")
        with pytest.raises(RuntimeFailure, match=r"global view of global failed: ZeroDivisionError"):
            await asyncio.wait_for(worker.join(), 120)


@pytest.mark.kafka
@BOTH
async def test_a_consumer_that_has_ceased_to_fetch_is_replaced(
    broker: Broker, topic_prefix: str, service: type[Counter]
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2)
    await make_toys(settings)
    async with worker_for(service(), settings) as worker:
        await worker.wait_ready()
        await name(settings, "first")
        await until(lambda: known(worker) == {"first"}, message="it is not read")
        reader = reader_of(worker)
        before = reader._consumer
        assert before is not None
        before._fetcher._fetch_task.cancel()
        await name(settings, "second")
        await until(lambda: known(worker) == {"first", "second"}, message="the table stands still")
        assert reader._consumer is not before
        assert worker.ready


@pytest.mark.kafka
@BOTH
async def test_a_reader_whose_task_has_ended_ends_its_worker(
    broker: Broker, topic_prefix: str, service: type[Counter]
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2)
    await make_toys(settings)
    async with worker_for(service(), settings) as worker:
        await worker.wait_ready()
        await until(lambda: reader_of(worker)._consumer is not None)  # what is ended must have started
        task = reader_of(worker)._task
        assert task is not None
        task.cancel()
        await asyncio.wait({task})
        assert not worker.ready
        await worker.behind()
        with pytest.raises(RuntimeFailure, match="has ended"):
            await asyncio.wait_for(worker.join(), 120)


@pytest.mark.kafka
@BOTH
async def test_a_table_that_stands_still_though_kafka_has_more_ends_the_process(
    broker: Broker, topic_prefix: str, service: type[Counter]
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2)
    await make_toys(settings)
    ended: list[str] = []

    async def answers() -> bool:
        return True

    async with worker_for(service(), settings) as worker:
        await worker.wait_ready()
        watchdog = Watchdog([worker], limit=10, hidden=20, kafka_answers=answers, end=ended.append)
        table = TopicPartition(KNOWN.name(settings.topic_prefix), 0)
        # A worker whose tables are empty may be ready before their reader has started.
        await until(lambda: reader_of(worker)._consumer is not None)
        consumer = reader_of(worker)._consumer
        assert consumer is not None

        async def is_behind(*tables: TopicPartition) -> bool:
            return (await worker.behind()).tables.keys() == set(tables)

        await until(is_behind, message="nobody has written anything")
        assert worker.report()["standing"] == []
        consumer.pause(table)  # behind its reader's back
        await name(settings, "unread")
        await until(lambda: is_behind(table), message="it does not know what it has not read")
        await watchdog.check(1)
        assert not worker.ready
        assert worker.report()["standing"] == [f"{table.topic}/0"]
        for _ in range(9):
            await watchdog.check(1)
        assert ended == []
        await watchdog.check(1)
        what = f"{worker.name}, whose table {table.topic} partition 0 does not advance although Kafka has more,"
        assert ended == [f"{what} made no progress for 10 s; Kafka answers"]
        consumer.resume(table)
        await until(is_behind, message="it does not go on")
        assert worker.ready


# Without a broker.


class Fetching:
    """The part of a fetcher that tells whether it still fetches."""

    def __init__(self) -> None:
        self.error_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Double:
    """A consumer of one partition; its records are numbers."""

    def __init__(self, upset: Callable[[Double], None]) -> None:
        self._fetcher = Fetching()
        self._at: dict[TopicPartition, int] = {}
        self._upset = upset
        self.stopped = False

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        self.stopped = True

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self._at = dict.fromkeys(partitions, 0)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self._at[tp] = offset

    def pause(self, tp: TopicPartition) -> None:
        pass

    def resume(self, tp: TopicPartition) -> None:
        pass

    async def position(self, tp: TopicPartition) -> int:
        return self._at[tp]

    async def getmany(self, **_: Any) -> dict[TopicPartition, list[Any]]:
        await asyncio.sleep(0)
        self._upset(self)
        found = {}
        for tp, at in self._at.items():
            if at < 10:
                found[tp] = [Record(at)]
                self._at[tp] = at + 1
        if not found:
            await asyncio.get_running_loop().create_future()
        return found


class Record:
    """A record as the reader looks at it."""

    def __init__(self, offset: int) -> None:
        self.offset = offset


class Doubles:
    """Makes consumers; each of the first few is upset in the same way at its third read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, how: Callable[[Double], None], *, times: int = 2) -> None:
        self.made: list[Double] = []
        self._reads: dict[int, int] = {}

        def upset(double: Double) -> None:
            self._reads[id(double)] = self._reads.get(id(double), 0) + 1
            if self._reads[id(double)] == 3 and len(self.made) <= times:
                how(double)

        def make(*_: Any, **__: Any) -> Double:
            self.made.append(Double(upset))
            return self.made[-1]

        monkeypatch.setattr(clients, "table_consumer", make)
        monkeypatch.setattr("moorage.runtime.kafka.tables.table_reader._BACKOFF", 0.0)


def raising(error: BaseException) -> Callable[[Double], None]:
    def upset(_: Double) -> None:
        raise error

    return upset


PLACES = [TopicPartition("t", number) for number in range(2)]


@pytest.mark.parametrize(
    "how",
    [
        raising(KafkaError("gone")),
        raising(ValueError("nobody has thought of it")),
        raising(asyncio.CancelledError()),
        lambda double: double._fetcher.error_future.cancel(),
        lambda double: double._fetcher.error_future.set_result(None),
    ],
    ids=["KafkaError", "any error", "cancelled by the client", "fetching cancelled", "fetching ended"],
)
async def test_a_reader_outlives_its_consumers_and_reads_everything_once(
    monkeypatch: pytest.MonkeyPatch, how: Callable[[Double], None]
) -> None:
    doubles = Doubles(monkeypatch, how)
    reader = TableReader(Settings(), client_id="test")
    seen: list[int] = []
    tail = reader.add(PLACES[0], 0, lambda records: seen.extend(record.offset for record in records))
    reader.start()
    async with asyncio.timeout(120):
        await reader.reached(tail, 10)
    assert seen == list(range(10))
    assert len(doubles.made) == 3
    assert [double.stopped for double in doubles.made] == [True, True, False]
    assert reader.alive
    await reader.stop()
    assert doubles.made[-1].stopped


async def test_a_sink_that_raises_gets_no_more_and_the_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    doubles = Doubles(monkeypatch, raising(AssertionError()), times=0)
    reader = TableReader(Settings(), client_id="test")
    told: list[Exception] = []
    took: list[int] = []
    other: list[int] = []

    def sink(records: Sequence[Record]) -> None:
        took.extend(record.offset for record in records)
        if took[-1] == 3:
            raise ZeroDivisionError("half of it is taken in")

    failing = reader.add(PLACES[0], 0, sink, on_failure=told.append)
    sound = reader.add(PLACES[1], 0, lambda records: other.extend(record.offset for record in records))
    reader.start()
    async with asyncio.timeout(120):
        with pytest.raises(StartAfresh, match="ZeroDivisionError"):
            await reader.reached(failing, 10)
        await reader.reached(sound, 10)
        with pytest.raises(StartAfresh):
            await reader.reached(failing, 10)
    assert (took, other) == ([0, 1, 2, 3], list(range(10)))
    assert [type(error) for error in told] == [ZeroDivisionError]
    assert len(doubles.made) == 1
    assert await reader.behind(dict.fromkeys(PLACES, 10)) == {PLACES[0]: -1}, "what is not read is behind"
    await reader.stop()


async def test_what_stands_still_is_what_was_there_already_when_it_was_last_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Doubles(monkeypatch, raising(AssertionError()), times=0)
    reader = TableReader(Settings(), client_id="test")
    tail = reader.add(PLACES[0], 0, lambda _: None)
    reader.start()
    async with asyncio.timeout(120):
        await reader.reached(tail, 10)
    assert await reader.behind({PLACES[0]: 10}) == {}
    assert await reader.behind({PLACES[0]: 11}) == {PLACES[0]: 10}
    assert reader.standing == frozenset(), "it may be on its way"
    await reader.behind({PLACES[0]: 12})
    assert reader.standing == {PLACES[0]}
    await reader.behind({PLACES[0]: 10})
    assert reader.standing == frozenset()
    task = reader._task
    assert task is not None
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert not reader.alive, "who cancels the reader itself means it"
