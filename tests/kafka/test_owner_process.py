"""A process of services: signals, health, metrics, failures, and the topics it makes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

import httpx
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from tests.support.brokers import Broker
from tests.support.toys import (
    COUNTED,
    NUMBERS,
    Counter,
    Number,
    assert_exactly_once,
    counted,
    make_toys,
    settings_for,
    worker_for,
    write_numbers,
)
from tests.support.waiting import until

from moorage.runtime import app
from moorage.runtime.app import ServiceRun, run_services
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.process.failures import EXIT_FAILED, EXIT_STUCK, TopicsError
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import CLOCKS, CONDITION_REPORTS, CONDITIONS, JOURNAL, TOPICS, Topic

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]

SCRIPT = """
import asyncio, sys, time
from tests.support.toys import Counter
from moorage.runtime.app import run_async, run_services
from moorage.runtime.process.logs import configure_logs
from moorage.runtime.settings.process_settings import Settings

class Blocking(Counter):
    name = "blocking"
    def process(self, state, batch, now, *, fresh=False):
        if any(getattr(record.event, "n", 0) == -99 for record in batch):
            while True:  # what a watchdog is for
                time.sleep(0.1)
        return super().process(state, batch, now, fresh=fresh)

settings = Settings.model_validate_json(sys.argv[1])
configure_logs(settings)
def ready(running):
    print(running.http_port, flush=True)
sys.exit(run_async(run_services([Blocking()], settings, ready=ready)))
"""


async def start(settings: Settings) -> tuple[asyncio.subprocess.Process, int]:
    """A process that is ready, and its HTTP port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SCRIPT,
        settings.model_dump_json(),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(120):
        line = await process.stdout.readline()
    assert line.strip(), (await process.communicate())[1].decode()
    return process, int(line)


async def test_a_process_serves_its_health_and_stops_in_order_on_sigterm(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, log_format="json", batch_max_records=10)
    await make_toys(settings)
    process, port = await start(settings)
    work = [Number(key=f"k{i % 5}", n=i) for i in range(400)]
    await write_numbers(settings, work)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:

        async def emitted() -> bool:
            return (
                'moorage_events_emitted_total{service="blocking",topic="toy-counted"}'
                in (await client.get("/metrics")).text
            )

        await until(emitted, message="nothing was emitted")
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        ready = await client.get("/readyz")
        assert ready.status_code == 200
        partitions = ready.json()["services"]["blocking"]["partitions"]
        assert partitions == {str(p): {"phase": "Running", "restored": 1.0} for p in range(4)}
        metrics = (await client.get("/metrics")).text
    for name in (
        "lag_records",
        "batch_seconds",
        "restore_progress",
        "transactions_committed_total",
        "rebalances_total",
    ):
        assert f"moorage_{name}" in metrics
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(120):
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    lines = [json.loads(line) for line in errors.decode().splitlines()]
    assert lines[-1]["event"] == "process.stopped"
    # It left the group: another one takes over at once, not after the session's timeout.
    async with worker_for(_named(Counter(), "blocking"), settings) as worker:
        await worker.wait_ready(5)

        async def done() -> bool:
            return sum(map(len, (await counted(settings)).values())) >= 400

        await until(done, message="not processed")
    assert_exactly_once(await counted(settings), work)


def _named(service: Counter, name: str) -> Counter:
    service.name = name  # type: ignore[misc]  # one class under the name of the other process's service
    return service


async def test_the_watchdog_ends_a_process_whose_service_never_returns(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, watchdog_timeout=2.0, log_format="json")
    await make_toys(settings)
    process, _ = await start(settings)
    await write_numbers(settings, [Number(key="k", n=-99)])
    async with asyncio.timeout(120):
        _, errors = await process.communicate()
    assert process.returncode == EXIT_STUCK
    last = json.loads(errors.decode().splitlines()[-1])
    assert (last["event"], last["exit_code"]) == ("watchdog.ends_process", EXIT_STUCK)
    assert "the event loop has been blocked" in last["why"]


async def test_services_given_by_their_maker_get_the_fleets_own_partition_count(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=3)
    await make_toys(settings)
    monkeypatch.setattr(app, "ensure_topics", _toys_only)
    wrong = settings.model_copy(update={"partitions": 24})
    seen: list[int] = []
    running: list[ServiceRun] = []
    stop = asyncio.Event()

    def make(given: Settings) -> Counter:
        seen.append(given.partitions)
        return Counter()

    def ready(what: ServiceRun) -> None:
        running.append(what)
        stop.set()

    assert await run_services([make], wrong, ready=ready, stop=stop, http=False) == 0
    assert seen == [3]
    assert running == [ServiceRun(services=("counter",), http_host="127.0.0.1", http_port=0)]
    async with asyncio.timeout(120):  # without `stop`, which is set: it must fail by itself
        assert await run_services([Counter()], wrong, http=False) == EXIT_FAILED


async def _toys_only(settings: Settings) -> dict[str, int]:
    return await ensure_topics(settings, (NUMBERS, COUNTED, JOURNAL, CLOCKS))


async def test_a_rebalance_that_fails_ends_the_process_and_writes_nothing(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await make_toys(settings)
    await write_numbers(settings, [Number(key="k", n=1)])
    monkeypatch.setattr(app, "ensure_topics", _toys_only)

    async def fail(*_: object) -> None:
        raise LookupError("a listener's bug")

    monkeypatch.setattr(Worker, "assigned", fail)
    async with asyncio.timeout(120):
        assert await run_services([Counter()], settings, http=False) == EXIT_FAILED
    assert await counted(settings) == {}


async def test_the_topics_of_the_table_are_made_once_and_alike(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=3)
    first, again = await asyncio.gather(ensure_topics(settings), ensure_topics(settings))
    assert first == again == {topic.short: 3 for topic in TOPICS}
    # An existing fleet's number wins over the settings'.
    assert set((await ensure_topics(settings.model_copy(update={"partitions": 7}))).values()) == {3}
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    try:
        for topic, wanted in ((CONDITIONS, "compact"), (CONDITION_REPORTS, "delete")):
            resource = ConfigResource(ConfigResourceType.TOPIC, topic.name(settings.topic_prefix))
            (response,) = await admin.describe_configs([resource])
            configs = {name: value for _, _, _, _, all_ in response.resources for name, value, *_ in all_}
            assert configs["cleanup.policy"] == wanted
            assert configs["max.message.bytes"] == str(topic.max_message_bytes)
    finally:
        await admin.close()


async def test_topics_that_do_not_line_up_are_refused(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=3)
    await ensure_topics(settings, (NUMBERS,))
    other: Topic = dataclasses.replace(COUNTED)
    await ensure_topics(settings.model_copy(update={"partitions": 2}), (other,))
    with pytest.raises(
        TopicsError, match=r"must have the same number of partitions.*toy-counted.v1: 2.*toy-numbers.v1: 3"
    ):
        await ensure_topics(settings, (NUMBERS, COUNTED))
