"""The query worker on a broker: it answers by what is committed, follows, indexes chains, and begins anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from tests.support.brokers import Broker
from tests.support.waiting import until
from tests.support.worlds.flow import Record
from tests.support.worlds.nodes import NodeWorld
from tests.support.worlds.world import TEMPLATE, lifted

from moorage.insight.explain.answer import explain_from_topics
from moorage.insight.explain.document import document_of
from moorage.insight.explain.explanation import NotFoundError
from moorage.insight.explain.grounds import TOPICS as TABLES
from moorage.insight.explain.question import Question
from moorage.insight.query import worker as query
from moorage.insight.query.worker import Answer, NotReadyError, QueryWorker
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.process.clock import WallClock
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS

pytestmark = pytest.mark.kafka


class JumpingClock(WallClock):
    """The machine's clock, set forward by a test."""

    ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class Kafka:
    """A fleet in memory whose records are written to a broker."""

    def __init__(self, settings: Settings, world: NodeWorld) -> None:
        self.settings, self.world = settings, world
        self._written = 0

    async def write(self) -> None:
        """Write what has come since, in its order."""
        fresh = [record for topic in TOPICS for record in self.world.flow.records(topic) if record.seq >= self._written]
        await self._send(sorted(fresh, key=lambda record: record.seq))
        self._written = self.world.flow.topics.written

    async def _send(self, records: Iterable[Record]) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.settings.bootstrap_servers) as producer:
            for record in records:
                await producer.send(
                    record.topic.name(self.settings.topic_prefix),
                    record.value,
                    key=record.key,
                    partition=record.partition,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp,
                )
            await producer.flush()

    async def from_topics(self, asked: Question) -> Any:
        document = document_of(await explain_from_topics(self.settings, asked))
        del document["at"]
        return document


@pytest.fixture
async def kafka(broker: Broker, topic_prefix: str) -> Kafka:
    settings = lifted(partitions=3, bootstrap_servers=broker.bootstrap, topic_prefix=topic_prefix)
    await ensure_topics(settings)
    # Old enough for the index to drop what nobody wants, and not so old that the broker may delete reports.
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
    return Kafka(settings, NodeWorld("n1", "n2", "n3", settings=settings, start=start))


@asynccontextmanager
async def working(settings: Settings, clock: WallClock | None = None) -> AsyncIterator[QueryWorker]:
    """A query worker that is ready."""
    worker = QueryWorker(settings, clock)
    await worker.start()
    try:
        await until_ready(worker)
        yield worker
    finally:
        await worker.stop()


async def until_ready(worker: QueryWorker) -> None:
    async def ready() -> bool:
        return worker.ready

    await until(ready)


def said(answer: Answer) -> Any:
    return {name: value for name, value in answer.document.items() if name != "at"}


def failed_node(world: NodeWorld) -> None:
    """A node fails, and what was on it moves: chains that lead through older records, back to a report."""
    world.declare("Deployment", "web", {"replicas": 4, "template": TEMPLATE})
    for name in ("n1", "n2", "n3"):
        world.report(name, status="True")
    world.run()
    world.report("n1", status="False")
    world.flow.advance(400)


async def test_an_answer_rests_on_all_that_was_committed_before_it_was_asked_for(kafka: Kafka) -> None:
    async with working(kafka.settings) as worker:
        for number in range(5):
            asked = Question("Pod", "default", f"p{number}")
            with pytest.raises(NotFoundError):
                await worker.explain(asked)
            kafka.world.declare("Pod", asked.name, {"containers": [{"name": "c"}]})
            kafka.world.run()
            await kafka.write()
            answer = await worker.explain(asked)
            assert said(answer) == await kafka.from_topics(asked)
            topics = kafka.world.flow.topics
            assert answer.positions == {
                topic.short: tuple(topics.ends[topic.short, partition] for partition in range(3)) for topic in TABLES
            }
        kafka.world.delete("Pod", "p0")
        kafka.world.run()
        await kafka.write()
        with pytest.raises(NotFoundError):
            await worker.explain(Question("Pod", "default", "p0"))


async def test_chains_are_those_of_the_topics_with_and_without_the_index(kafka: Kafka) -> None:
    failed_node(kafka.world)
    await kafka.write()
    asked = [Question("Pod", "default", name) for name in kafka.world.pods()]
    wanted = [await kafka.from_topics(one) for one in asked]
    assert any(step.get("topic") == "condition-reports" for one in wanted for step in one["chains"][0]["steps"])
    async with working(kafka.settings) as worker:
        reading = worker._reading
        assert reading is not None
        await reading.chains_reader.caught_up.wait()
        assert [said(await worker.explain(one)) for one in asked] == wanted
        reading.chains_reader.caught_up.clear()  # as before it has been read to its end
        assert [said(await worker.explain(one)) for one in asked] == wanted


async def test_a_worker_that_has_not_read_its_tables_says_so(kafka: Kafka) -> None:
    worker = QueryWorker(kafka.settings)
    assert (worker.ready, worker.idle, worker.report()["ready"]) == (False, False, False)
    with pytest.raises(NotReadyError, match="its tables are read to 0%"):
        await worker.explain(Question("Pod", "default", "p"))
    async with working(kafka.settings) as other:
        assert (other.idle, other.report()["ready"], other.report()["tables"]) == (True, True, 1.0)
        assert (await other.behind()).tables == {}


async def test_after_standing_still_for_long_everything_is_read_anew(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "_CHECK_EVERY", 0.01)
    kafka.world.declare("Pod", "p", {"containers": [{"name": "c"}]})
    kafka.world.run()
    await kafka.write()
    clock = JumpingClock()
    async with working(kafka.settings, clock) as worker:
        before = worker._reading
        first = await worker.explain(Question("Pod", "default", "p"))
        clock.ahead = timedelta(days=30)

        async def anew() -> bool:
            return worker.ready and worker._reading is not before

        await until(anew)
        assert said(await worker.explain(Question("Pod", "default", "p"))) == said(first)


async def test_what_kafka_does_not_tell_in_time_is_not_waited_for(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(kafka.settings) as worker:
        reading = worker._reading
        assert reading is not None

        async def never(_: object) -> dict[Any, int]:
            await asyncio.get_running_loop().create_future()
            return {}

        monkeypatch.setattr(query, "_FRESH_SECONDS", 0.05)
        monkeypatch.setattr(reading, "freshen", never)
        with pytest.raises(NotReadyError, match=r"what is committed was not read within 0\.05 s"):
            await worker.explain(Question("Pod", "default", "p"))


async def test_tables_that_can_be_used_no_further_end_it(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    async with working(kafka.settings) as worker:
        reading = worker._reading
        assert reading is not None

        def broken(*_: object) -> None:
            raise ZeroDivisionError("of a bug")

        monkeypatch.setattr(reading.tables_reader, "_fold", broken)
        kafka.world.declare("Pod", "p", {"containers": [{"name": "c"}]})
        kafka.world.run()
        await kafka.write()
        with pytest.raises(Exception, match="the global view of query failed"):
            async with asyncio.timeout(120):
                await worker.join()
