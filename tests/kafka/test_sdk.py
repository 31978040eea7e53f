"""The SDK on a real Kafka: kills, restarts of the broker, refusals."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from tests.support.brokers import Broker, EmbeddedBroker
from tests.support.deploying import decisions_of
from tests.support.forks import ROOT
from tests.support.histories import fleet_of_nodes
from tests.support.toys import read_all, settings_for, worker_for
from tests.support.waiting import until
from tests.support.worlds.flow import Record

from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest
from moorage_schemas.condition import ConditionReported, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.keys import binding_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import (
    BINDINGS,
    CONDITION_REPORTS,
    DEAD_LETTERS,
    RESOURCES,
    WORKLOAD_CONDITIONS,
    partition_of,
)
from moorage_sdk import Connection, Deployer, Probe, Refusal, Remove, Running, SdkError

pytestmark = pytest.mark.kafka

NODE = TargetRef.parse("Node/n1")
POD = WorkloadRef.parse("Pod/shop/web-0")
PARTITIONS = 3


def connection(settings: Settings) -> Connection:
    return Connection(
        transport="kafka", bootstrap_servers=settings.bootstrap_servers, topic_prefix=settings.topic_prefix
    )


async def prepare(bootstrap: str, prefix: str) -> Settings:
    settings = settings_for(bootstrap, prefix, partitions=PARTITIONS)
    await ensure_topics(settings)
    return settings


class Writer:
    """Writes records to the topics."""

    def __init__(self, settings: Settings, producer: AIOKafkaProducer) -> None:
        self._settings = settings
        self._producer = producer

    async def copy(self, records: Sequence[Record]) -> None:
        """Write recorded records again."""
        for record in records:
            await self._producer.send_and_wait(
                record.topic.name(self._settings.topic_prefix),
                record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
            )

    async def bind(self, generation: int, *, gone: bool = False) -> None:
        """Write a binding, or its tombstone."""
        event = WorkloadBound(
            workload=POD, uid="u", owner=POD, target=NODE, generation=generation, bound_time=datetime.now(UTC)
        )
        await self._producer.send_and_wait(
            BINDINGS.name(self._settings.topic_prefix),
            None if gone else event.model_dump_json().encode(),
            key=binding_key(POD, NODE).encode(),
            partition=partition_of(NODE.key, PARTITIONS),
            headers=to_headers(Meta(f"bound-{generation}", "test", BINDINGS.event_type)),
        )

    async def declare_node(self) -> None:
        """Declare the node `n1`."""
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u1"}}
        declared = ResourceDeclared(object=node, version=1)
        await self._producer.send_and_wait(
            RESOURCES.name(self._settings.topic_prefix),
            declared.model_dump_json().encode(),
            key=declared.key.encode(),
            partition=partition_of(NODE.key, PARTITIONS),
            headers=to_headers(Meta("declared", "test", RESOURCES.event_type)),
        )


@asynccontextmanager
async def writing(settings: Settings) -> AsyncIterator[Writer]:
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        yield Writer(settings, producer)


@asynccontextmanager
async def deploying(settings: Settings, runs: dict[str, Running]) -> AsyncIterator[Deployer]:
    """A deployer whose platform is a dictionary."""
    deployer = Deployer("deployer/test", connection(settings), heartbeat=1.0)

    @deployer.inventory
    async def inventory() -> list[Running]:
        return list(runs.values())

    @deployer.on_placement
    async def place(bound: WorkloadBound) -> None:
        runs[f"{bound.workload}|{bound.target}"] = Running.of(bound)

    @deployer.on_eviction
    async def remove(removal: Remove) -> None:
        del runs[removal.running.key]

    task = asyncio.create_task(deployer.run())
    try:
        yield deployer
    finally:
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(result, asyncio.CancelledError), result


def on_disk(folder: Path) -> dict[str, tuple[str, int, int]]:
    """What the example deployer runs."""
    found = {}
    for path in folder.glob("*.json"):
        one = json.loads(path.read_text())
        key = f"{one['workload']}|{one['target']}"
        assert key not in found, "two lives of one name"
        found[key] = (one["uid"], one["generation"], one["revision"])
    return found


def is_on_disk(folder: Path, wanted: dict[str, tuple[str, int, int]]) -> bool:
    return on_disk(folder) == wanted


def wanted(records: Sequence[Record]) -> dict[str, tuple[str, int, int]]:
    decisions = decisions_of(records)
    found = ((key, decisions.wanted(key)) for key in decisions.keys)
    return {key: (one.uid, one.generation, one.revision) for key, one in found if one is not None}


async def start_example(settings: Settings, folder: Path) -> asyncio.subprocess.Process:
    environment = {
        **os.environ,
        "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
        "MOORAGE_TRANSPORT": "kafka",
    }
    words = (sys.executable, "examples/deployer.py", "--folder", str(folder))
    return await asyncio.create_subprocess_exec(*words, env=environment, cwd=ROOT, stdout=asyncio.subprocess.DEVNULL)


async def test_a_deployer_that_is_killed_again_and_again_ends_with_what_is_to_run(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    settings, folder = await prepare(broker.bootstrap, topic_prefix), tmp_path / "running"
    records = fleet_of_nodes(3)
    rng = random.Random(11)  # noqa: S311 - the choices must be repeatable
    cuts = sorted(rng.sample(range(1, len(records)), 4))
    async with writing(settings) as writer:
        for began, cut in zip([0, *cuts], [*cuts, len(records)], strict=True):
            process = await start_example(settings, folder)
            try:
                await writer.copy(records[began:cut])
                if cut == len(records) or rng.random() < 0.5:
                    now = wanted(records[:cut])
                    await until(partial(is_on_disk, folder, now))
            finally:
                process.send_signal(signal.SIGKILL)
                await process.wait()
    assert wanted(records), "something is to run at the end"


async def test_a_deployer_goes_on_when_the_broker_comes_back(own_broker: EmbeddedBroker, topic_prefix: str) -> None:
    settings = await prepare(own_broker.bootstrap, topic_prefix)
    runs: dict[str, Running] = {}
    async with deploying(settings, runs):
        async with writing(settings) as writer:
            await writer.bind(1)
            await until(lambda: len(runs) == 1)
        await own_broker.kill()
        await own_broker.start()
        async with writing(settings) as writer:
            await writer.bind(2)
            await until(lambda: [one.generation for one in runs.values()] == [2])
            await writer.bind(2, gone=True)
            await until(lambda: runs == {})


async def test_a_probe_loses_nothing_that_it_was_told_while_the_broker_is_away(
    own_broker: EmbeddedBroker, topic_prefix: str
) -> None:
    settings = await prepare(own_broker.bootstrap, topic_prefix)
    statuses = ["True", "False"] * 5
    async with Probe("probe/test", connection(settings), heartbeat=0) as probe:
        await probe.report(NODE, "Ready", "Unknown")
        await probe.flush()
        await own_broker.kill()
        for status in statuses:
            await probe.report(NODE, "Ready", status)
        await own_broker.start()
        await probe.flush()
    found = [ConditionReported.model_validate_json(one.value) for one in await read_all(settings, CONDITION_REPORTS)]
    by_time = {one.observed_time: one.status.value for one in found}
    assert [by_time[time] for time in sorted(by_time)] == ["Unknown", *statuses]


async def test_what_runs_is_reported_healthy(broker: Broker, topic_prefix: str) -> None:
    settings = await prepare(broker.bootstrap, topic_prefix)
    async with writing(settings) as writer:
        await writer.declare_node()
        await writer.bind(1)

    async def there() -> bool:
        return bool(await read_all(settings, WORKLOAD_CONDITIONS))

    async with worker_for(condition_ingest.service(settings), settings), deploying(settings, {}):
        await until(there, message="nothing was taken up")
    record = (await read_all(settings, WORKLOAD_CONDITIONS))[0]
    found = WorkloadConditionChanged.model_validate_json(record.value)
    assert record.key == b"Pod/shop/web-0|Node/n1|Healthy"
    assert (found.workload, found.target, found.status) == (POD, NODE, ConditionStatus.TRUE)
    assert found.source == "deployer/test"
    assert await read_all(settings, DEAD_LETTERS) == []


async def test_a_probe_is_told_what_condition_ingest_refuses(broker: Broker, topic_prefix: str) -> None:
    settings = await prepare(broker.bootstrap, topic_prefix)
    told: list[Refusal] = []
    async with (
        worker_for(condition_ingest.service(settings), settings),
        Probe("probe/test", connection(settings), heartbeat=0, on_refusal=told.append) as probe,
        Probe("probe/other", connection(settings), heartbeat=0) as other,
    ):
        await other.report("Node/nobody", "Ready", "True")
        identity = await probe.report("Node/nobody", "Ready", "True")
        await until(lambda: bool(told))
    assert [(one.id, one.reason, one.subject) for one in told] == [(identity, "UnknownTarget", "Node/nobody")]
    assert "must be a declared target" in told[0].message


async def test_topics_that_do_not_exist_are_an_error(broker: Broker, topic_prefix: str) -> None:
    given: dict[str, Any] = {"bootstrap_servers": broker.bootstrap, "topic_prefix": f"{topic_prefix}-none"}
    deployer = Deployer("deployer/test", Connection(**given))
    for handler in (deployer.inventory, deployer.on_placement, deployer.on_eviction):
        handler(test_topics_that_do_not_exist_are_an_error)
    with pytest.raises(SdkError, match="does not exist: check MOORAGE_TOPIC_PREFIX"):
        async with asyncio.timeout(120):
            await deployer.run()
