"""What the simulated Kafka does that no test can make a broker do at will."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError, ProducerFenced
from tests.chaos.seeded.kafka.cluster import Cluster, Faults
from tests.chaos.seeded.kafka.consumer import SimConsumer
from tests.chaos.seeded.kafka.log import Log, Outcome, Record
from tests.chaos.seeded.kafka.loop import Process, VirtualLoop
from tests.chaos.seeded.kafka.producer import SimProducer

TOPIC, GROUP = "t", "g"
TP = TopicPartition(TOPIC, 0)
DAY_MS = 86_400_000


class Bench:
    """A cluster with one topic, and clients in processes of their own."""

    def __init__(self, faults: Faults | None = None, seed: int = 1) -> None:
        self.loop = VirtualLoop(max_steps=200_000)
        self.cluster = Cluster(self.loop, Random(seed), faults=faults)  # noqa: S311 - drawn to be repeated
        self.cluster.create(TOPIC, 1)

    def process(self, name: str = "p") -> Process:
        process = Process(self.loop, name)
        self.cluster.watch(process)
        return process

    async def producer(self, process: Process, id_: str | None = "id", **options: Any) -> SimProducer:
        producer = SimProducer(self.cluster, process, transactional_id=id_, **options)
        await producer.start()
        return producer

    async def end(self, *, committed: bool) -> int:
        level = "read_committed" if committed else "read_uncommitted"
        asking = SimConsumer(self.cluster, self.process("asking"), isolation_level=level)
        await asking.start()
        return (await asking.end_offsets([TP]))[TP]

    def seen(self) -> list[str]:
        return [entry.key for entry in self.cluster.entries]


def play(story: Callable[[Bench], Awaitable[None]], faults: Faults | None = None, seed: int = 1) -> Bench:
    bench = Bench(faults, seed)

    async def main() -> None:
        await story(bench)

    bench.loop.play(main())
    assert not bench.loop.unhandled
    return bench


async def write(producer: SimProducer, *keys: bytes) -> None:
    for key in keys:
        await (await producer.send(TOPIC, b"v", key=key, partition=0))


async def transaction(producer: SimProducer, *keys: bytes) -> None:
    await producer.begin_transaction()
    await write(producer, *keys)
    await producer.commit_transaction()


def test_a_killed_producer_leaves_its_transaction_open_until_the_next_one_of_its_id() -> None:
    async def story(bench: Bench) -> None:
        process = bench.process()

        async def work() -> None:
            producer = await bench.producer(process)
            try:
                await producer.begin_transaction()
                await write(producer, b"open")
                await asyncio.Event().wait()
            finally:
                await producer.abort_transaction()

        process.spawn(work())
        await asyncio.sleep(1)
        process.crash()
        await asyncio.sleep(5)
        assert (await bench.end(committed=True), await bench.end(committed=False)) == (0, 1)
        await bench.producer(bench.process("next"))
        assert await bench.end(committed=True) == 2
        assert bench.seen() == []

    play(story)


def test_lost_markers_leave_a_committed_transaction_open_until_its_id_ends_another() -> None:
    async def story(bench: Bench) -> None:
        producer = await bench.producer(bench.process())
        bench.cluster.transactions.losing = {TP}
        await transaction(producer, b"lost")
        await asyncio.sleep(30)
        assert bench.cluster.transactions.lost == [("id", TP)]
        bench.cluster.transactions.losing = None
        later = await bench.producer(bench.process("later"))
        assert (await bench.end(committed=True), bench.seen()) == (0, []), "a start does not see it"
        await later.begin_transaction()
        await write(later, b"sweep")
        await later.abort_transaction()
        await asyncio.sleep(1)
        assert await bench.end(committed=True) == 3
        assert bench.seen() == [], "the abort's marker ended both"

    play(story)


def test_a_commit_after_lost_markers_makes_visible_what_was_aborted() -> None:
    async def story(bench: Bench) -> None:
        producer = await bench.producer(bench.process())
        await producer.begin_transaction()
        await write(producer, b"aborted")
        bench.cluster.transactions.losing = {TP}
        await producer.abort_transaction()
        await asyncio.sleep(1)
        bench.cluster.transactions.losing = None
        await transaction(producer, b"later")
        await asyncio.sleep(1)
        assert bench.seen() == ["aborted", "later"]

    play(story)


def test_what_is_cut_off_hangs_and_goes_on_when_it_is_joined_again() -> None:
    async def story(bench: Bench) -> None:
        process, loop = bench.process(), bench.loop
        producer = await bench.producer(process)
        reader = SimConsumer(bench.cluster, process, auto_offset_reset="earliest")
        await reader.start()
        reader.assign([TP])
        bench.cluster.cut(process)
        committing = asyncio.ensure_future(transaction(producer, b"k"))
        began = loop.time()
        with pytest.raises(KafkaTimeoutError):
            await reader.end_offsets([TP])
        assert loop.time() - began == pytest.approx(15.0, abs=0.01)
        with pytest.raises(KafkaConnectionError):
            await SimProducer(bench.cluster, process).start()
        assert not committing.done()
        assert await reader.getmany(timeout_ms=1000) == {}
        bench.cluster.heal(process)
        await committing
        await asyncio.sleep(1)
        assert bench.seen() == ["k"]
        assert [record.key for record in (await reader.getmany(timeout_ms=5000))[TP]] == [b"k"]

    play(story)


def test_a_stopped_process_is_fenced_when_its_transaction_has_taken_too_long() -> None:
    async def story(bench: Bench) -> None:
        process = bench.process()
        told: list[BaseException] = []

        async def work() -> None:
            producer = await bench.producer(process, transaction_timeout_ms=5000)
            await producer.begin_transaction()
            await write(producer, b"k")
            await asyncio.sleep(1)
            try:
                await producer.commit_transaction()
            except ProducerFenced as error:
                told.append(error)

        task = process.spawn(work())
        await asyncio.sleep(0.5)
        process.pause()
        await asyncio.sleep(10)
        assert await bench.end(committed=True) == 2
        process.resume()
        await task
        assert told
        assert bench.seen() == []

    play(story)


def test_a_commit_whose_answer_is_lost_is_done() -> None:
    async def story(bench: Bench) -> None:
        producer = await bench.producer(bench.process())
        await producer.begin_transaction()
        await write(producer, b"k")
        bench.cluster.faults = Faults(answer_lost=1.0, slow_seconds=(5.0, 5.0))
        committing = asyncio.ensure_future(producer.commit_transaction())
        await asyncio.sleep(1)
        assert not committing.done()
        assert bench.seen() == ["k"]
        await committing

    play(story)


@pytest.mark.parametrize("arrives", [0.0, 1.0])
def test_a_request_on_its_way_outlives_its_process_or_does_not(arrives: float) -> None:
    faults = Faults(in_flight_arrives=arrives, latency=(1.0, 1.0), straggling=0.0)

    async def story(bench: Bench) -> None:
        process = bench.process()

        async def work() -> None:
            producer = await bench.producer(process)
            await transaction(producer, b"k")

        process.spawn(work())
        await asyncio.sleep(2.5)  # the start took one second, the record another, and the commit is on its way
        process.crash()
        await asyncio.sleep(10)
        assert bench.seen() == (["k"] if arrives else [])

    play(story, faults)


def test_a_record_of_a_plain_producer_may_come_twice() -> None:
    async def story(bench: Bench) -> None:
        plain = await bench.producer(bench.process(), None)
        careful = await bench.producer(bench.process(), None, enable_idempotence=True)
        await write(plain, b"plain")
        await write(careful, b"careful")
        assert bench.seen() == ["plain", "plain", "careful"]

    play(story, Faults(duplicated=1.0))


def test_partitions_come_in_any_order() -> None:
    firsts = set()

    async def story(bench: Bench) -> None:
        bench.cluster.create("two", 2)
        plain = await bench.producer(bench.process(), None)
        for partition in range(2):
            await (await plain.send("two", b"v", key=b"k", partition=partition))
        reader = SimConsumer(bench.cluster, bench.process(), auto_offset_reset="earliest")
        await reader.start()
        reader.assign([TopicPartition("two", 0), TopicPartition("two", 1)])
        found: dict[TopicPartition, list[Record]] = {}
        while not found:
            found = await reader.getmany(timeout_ms=1000)
        firsts.add(next(iter(found)).partition)

    for seed in range(10):
        play(story, seed=seed)
    assert firsts == {0, 1}


# One partition by itself.


def made(policy: str, **config: str) -> Log:
    return Log(TP, {"cleanup.policy": policy, **config}, lambda _: None)


def put(log: Log, key: str, value: str | None, at: int) -> None:
    log.append(key.encode(), None if value is None else value.encode(), (), at, now=at / 1000)
    log.settle()


def left(log: Log) -> list[tuple[int, str]]:
    records, _ = log.read(0, committed_only=True)
    return [(record.offset, (record.key or b"").decode()) for record in records]


def test_what_is_younger_than_the_lag_stays_and_drives_nothing_out() -> None:
    log = made("compact", **{"min.compaction.lag.ms": "1000"})
    put(log, "a", "1", 0)
    put(log, "a", "2", 100)
    put(log, "a", "3", 2000)
    put(log, "b", "1", 2000)
    assert log.clean(2500) == 1
    assert left(log) == [(1, "a"), (2, "a"), (3, "b")]
    log.clean(3500)
    assert left(log) == [(2, "a"), (3, "b")], "the last record of a partition is never looked at"


def test_a_tombstone_goes_some_time_after_the_cleaner_has_seen_it() -> None:
    log = made("compact", **{"delete.retention.ms": "1000"})
    for at, (key, value) in enumerate([("a", "1"), ("a", None), ("b", "1")]):
        put(log, key, value, at)
    log.clean(DAY_MS)
    assert left(log) == [(1, "a"), (2, "b")]
    log.clean(DAY_MS + 500)
    assert left(log) == [(1, "a"), (2, "b")]
    log.clean(DAY_MS + 1500)
    assert left(log) == [(2, "b")]
    assert log.read(0, committed_only=True)[1] == 3


def test_nothing_open_is_compacted_and_what_was_aborted_goes() -> None:
    log = made("compact")
    put(log, "a", "1", 0)
    log.append(b"a", b"2", (), 1, now=0.0, pid=7, transactional=True)
    log.settle()
    put(log, "b", "1", 2)
    assert log.clean(DAY_MS) == 0
    log.mark(7, Outcome.ABORTED, 3, 0.0)
    put(log, "c", "1", 4)
    log.clean(DAY_MS)
    assert left(log) == [(0, "a"), (2, "b"), (4, "c")]
    assert log.read(5, committed_only=True) == ([], 5)


def test_what_is_too_old_is_deleted_and_the_beginning_moves() -> None:
    log = made("delete", **{"retention.ms": "1000"})
    for at in (0, 500, 2000):
        put(log, "a", "1", at)
    assert log.clean(2400) == 2
    assert (log.start, log.end, left(log)) == (2, 3, [(2, "a")])
    assert log.clean(9000) == 1
    assert (log.start, log.end) == (3, 3)


def test_records_become_readable_in_order_when_nothing_before_them_is_open() -> None:
    told: list[Record] = []
    log = Log(TP, {}, told.append)
    log.append(b"1", b"", (), 0, now=0.0, pid=1, transactional=True)
    log.append(b"2", b"", (), 0, now=0.0, pid=2, transactional=True)
    log.settle()
    log.mark(2, Outcome.COMMITTED, 0, 0.0)
    assert (told, log.stable) == ([], 0)
    log.mark(1, Outcome.COMMITTED, 0, 0.0)
    assert [record.key for record in told] == [b"1", b"2"]
    assert (log.stable, log.open) == (4, {})
