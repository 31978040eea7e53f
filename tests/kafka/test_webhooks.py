"""The webhook worker on a broker: order, failures, kills, dead letters and replays."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from tests.support.brokers import Broker
from tests.support.receivers import HANG, SECRET, Received, receiving
from tests.support.toys import read_all
from tests.support.waiting import until
from tests.support.worlds.world import lifted

from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.webhooks import status_writer, subscription
from moorage.workers.webhooks.deliveries import UNBOUND
from moorage.workers.webhooks.subscription import WAITING
from moorage.workers.webhooks.worker import WebhookWorker
from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared, resource_key
from moorage_schemas.times import format_time
from moorage_schemas.topics import BINDINGS, DEAD_LETTERS, RESOURCES, WEBHOOK_STATUSES, Topic, partition_of
from moorage_schemas.webhook_status import WebhookStatusChanged

pytestmark = pytest.mark.kafka


class Fleet:
    """Writes what the gateway and placement would write."""

    def __init__(self, settings: Settings, producer: AIOKafkaProducer) -> None:
        self.settings = settings
        self._producer = producer
        self._version = 0

    async def declare(self, name: str, url: str, created: datetime | None = None, **fields: Any) -> None:
        """Write a Webhook."""
        self._version += 1
        generation = fields.pop("generation", 1)
        given = {"url": url, "secretFile": "ops", "allowPrivate": True, "events": ["bindings"], "timeoutSeconds": 1}
        found = ResourceDeclared(
            object={
                "apiVersion": "moorage.io/v1alpha1",
                "kind": "Webhook",
                "metadata": {
                    "name": name,
                    "uid": f"uid-{name}",
                    "generation": generation,
                    "creationTimestamp": format_time(created or datetime(2026, 1, 1, tzinfo=UTC)),
                },
                "spec": given | fields,
            },
            version=self._version,
        )
        await self._write(RESOURCES, resource_key("Webhook", "", name), found.key, found)

    async def remove(self, name: str) -> None:
        """Delete a Webhook."""
        key = resource_key("Webhook", "", name)
        await self._write(RESOURCES, key, key, None)

    async def bind(self, name: str, revision: int = 1, target: str = "Node/n1") -> None:
        """Write a binding."""
        workload, on = WorkloadRef.parse(f"Pod/shop/{name}"), TargetRef.parse(target)
        bound = WorkloadBound(
            workload=workload,
            uid=f"uid-{name}",
            owner=workload,
            target=on,
            generation=1,
            revision=revision,
            bound_time=datetime.now(UTC),
        )
        await self._write(BINDINGS, f"{workload}|{on}", target, bound, step=revision)

    async def unbind(self, name: str, target: str = "Node/n1") -> None:
        """End a binding."""
        await self._write(BINDINGS, f"Pod/shop/{name}|{target}", target, None)

    async def _write(self, topic: Topic, key: str, by: str, event: Any, step: int = 0) -> None:
        meta = Meta(event_id(key, step), "moorage/test", topic.event_type, datetime.now(UTC), key)
        await self._producer.send_and_wait(
            topic.name(self.settings.topic_prefix),
            None if event is None else event.model_dump_json().encode(),
            key=key.encode(),
            partition=partition_of(by, self.settings.partitions),
            headers=to_headers(meta),
        )

    async def dead_letters(self) -> list[DeadLettered]:
        """Read all dead letters."""
        consumer = AIOKafkaConsumer(
            DEAD_LETTERS.name(self.settings.topic_prefix),
            bootstrap_servers=self.settings.bootstrap_servers,
            auto_offset_reset="earliest",
        )
        async with consumer:
            ends = await consumer.end_offsets(consumer.assignment())
            found: list[DeadLettered] = []
            while len(found) < sum(ends.values()):
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found += [DeadLettered.model_validate_json(record.value) for record in records]
            return found


@pytest.fixture
async def fleet(broker: Broker, topic_prefix: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    (tmp_path / "ops").write_text(SECRET)
    settings = lifted(
        partitions=3,
        bootstrap_servers=broker.bootstrap,
        topic_prefix=topic_prefix,
        webhook_secrets_dir=str(tmp_path),
        session_timeout_ms=6000,
    )
    await ensure_topics(settings)
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        yield Fleet(settings, producer)


@asynccontextmanager
async def working(fleet: Fleet) -> AsyncIterator[WebhookWorker]:
    worker = WebhookWorker(fleet.settings)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


def by_workload(taken: list[Received]) -> dict[str, list[int]]:
    """The revisions in the order in which they were first taken."""
    found: dict[str, list[int]] = defaultdict(list)
    seen: set[str] = set()
    for one in taken:
        if one.id not in seen:
            seen.add(one.id)
            found[one.workload].append(int(one.event["data"]["revision"]))
    return found


async def test_each_workload_has_its_order_through_failures_and_ends(fleet: Fleet) -> None:
    async with receiving() as receiver, working(fleet):
        failures = {"web": 2, "db": 1}

        def answer(received: Received) -> int:
            left = failures.get(received.workload, 0)
            failures[received.workload] = left - 1
            if left > 0:
                return HANG if received.workload == "db" else 500
            return 204

        receiver.answer = answer
        await fleet.declare("ops", receiver.url)
        for revision in (1, 2, 3):
            for name in ("web", "db", "cache"):
                await fleet.bind(name, revision)
        await until(lambda: len(receiver.taken) == 9)
        assert by_workload(receiver.taken) == {name: [1, 2, 3] for name in ("web", "db", "cache")}
        assert [one.workload for one in receiver.taken[:3]] == ["cache"] * 3, "the others have waited"
        assert all(one.is_signed() for one in receiver.taken)
        await fleet.unbind("web")
        await until(lambda: len(receiver.taken) == 10)
        assert receiver.taken[-1].event["type"] == UNBOUND
        assert receiver.taken[-1].workload == "web"


async def test_a_webhook_gets_what_was_written_since_it_was_created(fleet: Fleet) -> None:
    async with receiving() as receiver:
        await fleet.bind("before")
        await asyncio.sleep(0.01)  # the times of records are in milliseconds
        await fleet.declare("ops", receiver.url, datetime.now(UTC))
        await fleet.bind("after")
        async with working(fleet):
            await until(lambda: len(receiver.taken) == 1)
            assert receiver.taken[0].workload == "after"


async def test_a_webhook_that_hangs_does_not_hold_up_another(fleet: Fleet) -> None:
    async with receiving() as hanging, receiving() as receiver, working(fleet):
        hanging.answer = lambda _: HANG
        await fleet.declare("stuck", hanging.url)
        await fleet.declare("ops", receiver.url)
        for number in range(50):
            await fleet.bind(f"w{number}")
        # Either webhook may be the first of which its worker reads.
        await until(lambda: len(receiver.taken) == 50 and bool(hanging.requests))
        assert hanging.taken == []


async def test_a_receiver_that_was_away_gets_what_it_has_missed(fleet: Fleet) -> None:
    async with working(fleet):
        async with receiving() as receiver:
            port = receiver.port
            await fleet.declare("ops", receiver.url)
            await fleet.bind("web", 1)
            await until(lambda: len(receiver.taken) == 1)
        for revision in (2, 3):
            await fleet.bind("web", revision)
        async with receiving(port) as receiver:
            await until(lambda: len(receiver.taken) == 2)
            assert by_workload(receiver.taken) == {"web": [2, 3]}


async def test_what_waits_in_memory_is_limited(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "_MOST_WAITING", 10)
    monkeypatch.setattr(subscription, "_BATCH", 5)
    async with receiving() as receiver:
        receiver.answer = lambda _: 500
        await fleet.declare("ops", receiver.url, created=datetime(2026, 1, 1, tzinfo=UTC))
        for number in range(60):
            await fleet.bind(f"w{number}")
        async with working(fleet):
            waiting = WAITING.labels("ops")._value
            # Retries of the first ones go on, and no more are read.
            await until(lambda: len(receiver.requests) >= 40)
            assert waiting.get() <= 15
            assert len({one.id for one in receiver.requests}) <= 15
            receiver.answer = lambda _: 204
            await until(lambda: len({one.id for one in receiver.taken}) == 60)


async def test_what_is_not_taken_is_a_dead_letter_and_is_sent_again_when_asked_for(fleet: Fleet) -> None:
    began = datetime.now(UTC)
    async with receiving() as receiver:
        receiver.answer = lambda received: 500 if received.workload == "bad" else 204
        async with working(fleet):
            await fleet.declare("ops", receiver.url, retrySeconds=0)
            await fleet.bind("bad")
            await fleet.bind("good")

            async def buried() -> bool:
                return bool(await fleet.dead_letters())

            await until(buried)
            (letter,) = await fleet.dead_letters()
            assert (letter.service, letter.reason, letter.value) == ("webhooks", "Undelivered", "ops")
            assert letter.message == "Webhook ops did not accept it: the receiver answered 500 (3 attempts)"
            assert letter.topic == "bindings"
            refused = next(one for one in receiver.requests if one.workload == "bad")
            receiver.answer = lambda _: 204
            times = {"since": format_time(began), "until": format_time(datetime.now(UTC))}
            await fleet.declare("ops", receiver.url, retrySeconds=0, replay=times)
            await until(lambda: len(receiver.taken) == 2)
            assert (receiver.taken[-1].id, receiver.taken[-1].body) == (refused.id, refused.body)
        # A worker that starts again does not begin with that replay anew.
        async with working(fleet):
            await fleet.bind("last")
            await until(lambda: receiver.taken[-1].workload == "last")
            assert [one.workload for one in receiver.taken].count("bad") == 1


async def status_of(fleet: Fleet, name: str) -> WebhookStatusChanged | None:
    """The status that was written last."""
    found = [
        record
        for record in await read_all(fleet.settings, WEBHOOK_STATUSES)
        if record.key == f"Webhook//{name}".encode()
    ]
    value = found[-1].value if found else None
    return None if value is None else WebhookStatusChanged.model_validate_json(value)


async def test_a_receiver_that_is_gone_disables_the_webhook_until_its_spec_changes(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_writer, "EVERY", 0.1)
    async with receiving() as receiver:
        receiver.answer = lambda received: 410 if received.workload == "two" else 204

        async def disabled() -> bool:
            status = await status_of(fleet, "ops")
            return status is not None and status.disabled_time is not None

        async with working(fleet):
            await fleet.declare("ops", receiver.url)
            await fleet.bind("one")
            await until(lambda: len(receiver.taken) == 1)
            await fleet.bind("two")
            await until(disabled)
            receiver.answer = lambda _: 204
            asked = len(receiver.requests)
            await fleet.bind("three")

            async def waits() -> bool:
                status = await status_of(fleet, "ops")
                return status is not None and status.backlog >= 2

            await until(waits)
        # A worker that starts later knows it, too.
        async with working(fleet) as worker:
            await until(lambda: worker.ready)
            await fleet.declare("other", receiver.url)
            await until(lambda: {one.workload for one in receiver.taken} == {"one", "two", "three"})
            assert await disabled()
            assert len(receiver.requests) == asked + 3
            assert [event.value for event in await fleet.dead_letters()] == []

            await fleet.declare("ops", receiver.url, generation=2)
            await until(lambda: len(receiver.requests) == asked + 5)
            assert {one.workload for one in receiver.taken[-2:]} == {"two", "three"}

            async def delivers() -> bool:
                status = await status_of(fleet, "ops")
                return status is not None and status.generation == 2 and status.backlog == 0 and not await disabled()

            await until(delivers)
            await fleet.remove("ops")

            async def forgotten() -> bool:
                return await status_of(fleet, "ops") is None

            await until(forgotten)


async def test_a_worker_that_is_killed_loses_nothing_and_keeps_the_order(fleet: Fleet) -> None:
    async with receiving() as receiver:
        await fleet.declare("ops", receiver.url)
        names = [f"w{number}" for number in range(5)]

        async def write(first: int, last: int) -> None:
            for revision in range(first, last + 1):
                for name in names:
                    await fleet.bind(name, revision)

        process = await run(fleet)
        try:
            await write(1, 10)
            await until(lambda: len(receiver.taken) >= 12)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
        await write(11, 20)
        process = await run(fleet)
        try:
            await until(lambda: len({one.id for one in receiver.taken}) == 100)
        finally:
            process.terminate()
            assert await process.wait() == 0
        assert by_workload(receiver.taken) == {name: list(range(1, 21)) for name in names}
        # A worker that was stopped in order has noted all that it has sent.
        count = len(receiver.taken)
        async with working(fleet):
            await fleet.bind("last")
            await until(lambda: receiver.taken[-1].workload == "last")
            assert len(receiver.taken) == count + 1


async def run(fleet: Fleet) -> asyncio.subprocess.Process:
    """Start the worker as a process of its own."""
    settings = fleet.settings
    environment = os.environ | {
        "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
        "MOORAGE_PARTITIONS": str(settings.partitions),
        "MOORAGE_WEBHOOK_SECRETS_DIR": settings.webhook_secrets_dir,
        "MOORAGE_HTTP_PORT": "0",
    }
    words = (sys.executable, "-m", "moorage.cli", "run", "webhooks")
    return await asyncio.create_subprocess_exec(*words, env=environment)
