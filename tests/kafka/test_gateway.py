"""The gateway on a real broker: durable before the answer, one writer, nothing lost by a restart."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.support.brokers import Broker, EmbeddedBroker
from tests.support.gateways import running_gateway
from tests.support.waiting import until

from moorage.apiserver import server
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.storage.derivation import Derivation
from moorage.apiserver.storage.kafka import log_reader, object_reader
from moorage.apiserver.storage.kafka.log_reader import LogReader, SourceReader
from moorage.apiserver.storage.store import Store
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.process.failures import first_of
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.envelope import Meta, from_headers, to_headers
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import (
    AUDIT,
    CONDITION_REPORTS,
    FLEET,
    OBJECTS,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    Topic,
    partition_of,
)

pytestmark = pytest.mark.kafka

NODES = "/api/v1/nodes"
PARTITIONS = 3
Json = dict[str, Any]


def settings_of(broker: Broker, topic_prefix: str) -> Settings:
    return Settings(
        bootstrap_servers=broker.bootstrap, topic_prefix=topic_prefix, partitions=PARTITIONS, gateway_port=0
    )


def node(name: str = "n1", **spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


async def ok(answer: httpx.Response) -> Json:
    assert answer.status_code in {200, 201, 202}, answer.text
    document: Json = answer.json()
    return document


async def committed(settings: Settings, topic: Topic, key: str) -> list[Any]:
    """The committed records of a key, by a reader that has nothing to do with the gateway."""
    consumer = clients.table_consumer(settings, client_id="test-reader")
    await consumer.start()
    try:
        tp = TopicPartition(topic.name(settings.topic_prefix), partition_of(key, PARTITIONS))
        consumer.assign([tp])
        await consumer.seek_to_beginning(tp)
        return [record for record in await _to_end(consumer, tp) if record.key == key.encode()]
    finally:
        await consumer.stop()


async def _to_end(consumer: AIOKafkaConsumer, tp: TopicPartition) -> list[Any]:
    end = (await consumer.end_offsets([tp]))[tp]
    records: list[Any] = []
    async with asyncio.timeout(120):
        while await consumer.position(tp) < end:
            records += (await consumer.getmany(tp, timeout_ms=50)).get(tp, [])
    return records


async def test_what_was_answered_is_committed(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings) as client:
        path = "/api/v1/namespaces/default/pods"
        body = {"metadata": {"name": "p1"}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}}
        made = await ok(await client.post(f"{path}?fieldManager=ann", json=body))
        key = "Pod/default/p1"
        (record,) = await committed(settings, RESOURCES, key)
        declared = ResourceDeclared.model_validate_json(record.value)
        assert declared.uid == made["metadata"]["uid"]
        assert from_headers(record.headers).type == RESOURCES.event_type
        (audited,) = await committed(settings, AUDIT, key)
        assert json.loads(audited.value)["actor"] == "ann"
        assert await ok(await client.get(f"{path}/p1")) == made
        await ok(await client.delete(f"{path}/p1"))
        assert (await client.get(f"{path}/p1")).status_code == 404
        assert [record.value is None for record in await committed(settings, RESOURCES, key)] == [False, True]


async def test_a_restart_keeps_everything_and_watches_resume(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    taint = {"key": "cold", "value": "a", "effect": "NoSchedule"}
    async with running_gateway(settings) as client:
        since = (await ok(await client.get(NODES)))["metadata"]["resourceVersion"]
        for number in range(5):
            await ok(await client.post(NODES, json=node(f"n{number}", taints=[taint])))
        await ok(await client.delete(f"{NODES}/n3"))
        before = await ok(await client.get(NODES))
    async with running_gateway(settings) as client:
        after = await ok(await client.get(NODES))
        assert after["items"] == before["items"], "an informer is told of no change that did not happen"
        assert after["items"][0]["spec"]["taints"][0]["key"] == "cold"
        assert int(after["metadata"]["resourceVersion"]) >= int(before["metadata"]["resourceVersion"])
        changed = await ok(
            await client.patch(
                f"{NODES}/n0", content=b'{"spec":{"unschedulable":true}}', headers={"content-type": MERGE}
            )
        )
        seen = await watched(client, since, 7)
        assert [(event["type"], event["object"]["metadata"]["name"]) for event in seen] == [
            *(("ADDED", f"n{number}") for number in range(5)),
            ("DELETED", "n3"),
            ("MODIFIED", "n0"),
        ]
        assert [event["object"] for event in seen[:3]] == before["items"][:3]
        assert seen[-1]["object"] == changed
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
        assert versions == sorted(set(versions))
        (last,) = await watched(client, before["metadata"]["resourceVersion"], 1)
        assert last == seen[-1]
        far = await client.get(f"{NODES}?watch=true&resourceVersion=917000000")
        assert far.status_code == 410, "it is from before there was an object log"
        stale = await client.put(f"{NODES}/n0", json=before["items"][0] | {"spec": {"unschedulable": False}})
        assert stale.status_code == 409


async def watched(client: httpx.AsyncClient, since: str, count: int) -> list[Json]:
    """The first events of a watch of nodes."""
    found: list[Json] = []
    query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": "20"}
    async with client.stream("GET", NODES, params=query) as answer:
        async for line in answer.aiter_lines():
            found.append(json.loads(line))
            if len(found) == count:
                break
    return found


MERGE = "application/merge-patch+json"


async def test_of_concurrent_updates_of_one_version_exactly_one_wins(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings) as client:
        made = await ok(await client.post(NODES, json=node()))
        attempts = [
            client.put(f"{NODES}/n1", json=made | {"metadata": {**made["metadata"], "labels": {"by": str(number)}}})
            for number in range(20)
        ]
        answers = await asyncio.gather(*attempts)
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 19
        (winner,) = [answer.json() for answer in answers if answer.status_code == 200]
        assert await ok(await client.get(f"{NODES}/n1")) == winner
        assert len(await committed_of_node(settings, "n1")) == 2


async def committed_of_node(settings: Settings, name: str) -> list[Any]:
    consumer = clients.table_consumer(settings, client_id="test-reader")
    await consumer.start()
    try:
        tp = TopicPartition(RESOURCES.name(settings.topic_prefix), partition_of(f"Node/{name}", PARTITIONS))
        consumer.assign([tp])
        await consumer.seek_to_beginning(tp)
        return [record for record in await _to_end(consumer, tp) if record.key == f"Node//{name}".encode()]
    finally:
        await consumer.stop()


async def test_concurrent_writes_share_transactions(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings) as client:
        answers = await asyncio.gather(*(client.post(NODES, json=node(f"n{number}")) for number in range(60)))
        assert {answer.status_code for answer in answers} == {201}
        versions = [answer.json()["metadata"]["resourceVersion"] for answer in answers]
        assert len(set(versions)) == 60
        metrics = (await client.get("/metrics")).text
        (line,) = [line for line in metrics.splitlines() if line.startswith("moorage_gateway_commit_seconds_count ")]
        assert float(line.split()[1]) < 60


@contextlib.asynccontextmanager
async def reading(settings: Settings) -> AsyncIterator[tuple[LogReader, asyncio.Task[None]]]:
    """What reads the tables of a gateway, by itself; it has come to the end."""
    await ensure_topics(settings)
    derivation = Derivation(Store())
    reader = SourceReader(
        settings, PARTITIONS, derivation, Metrics(), folded=lambda: None, progress=lambda _, __: None
    ).reader
    try:
        await reader.start()
        task = asyncio.create_task(reader.run())
        await reader.catch_up()
        yield reader, task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    finally:
        await reader.close()


async def write(settings: Settings, tp: TopicPartition) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers)
    await producer.start()
    try:
        await producer.send_and_wait(tp.topic, b"{}", key=b"Node/n1", partition=tp.partition)
    finally:
        await producer.stop()


async def test_a_gateway_says_that_it_does_not_get_on_with_reading(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with reading(settings) as (reader, _):
        offsets, tp = Offsets(settings, name="test"), TopicPartition(TAINTS.name(topic_prefix), 1)
        await offsets.start()
        try:
            await reader.look(offsets)
            reader.consumer.pause(tp)  # behind its reader's back
            await write(settings, tp)
            await reader.look(offsets)
            assert reader.obstacle() == "", "it may be on its way"
            await reader.look(offsets)
            assert reader.obstacle() == f"makes no progress in reading {tp.topic}/1"
            reader.consumer.resume(tp)
            await reader.catch_up()
            await reader.look(offsets)
            assert reader.obstacle() == ""
        finally:
            await offsets.stop()


async def test_a_gateway_that_does_not_get_on_for_long_begins_anew(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix).model_copy(update={"watchdog_timeout": 1.0})
    async with reading(settings) as (reader, task):
        tp = TopicPartition(TAINTS.name(topic_prefix), 1)
        reader.consumer.pause(tp)
        await write(settings, tp)
        with pytest.raises(ExceptionGroup) as raised:
            await asyncio.wait_for(task, 120)
    assert str(first_of(raised.value)) == f"makes no progress in reading {tp.topic}/1"


async def test_a_gateway_whose_reading_has_ended_without_a_word_begins_anew(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, made = settings_of(broker, topic_prefix), list[LogReader]()

    class Kept(LogReader):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

    monkeypatch.setattr(object_reader, "LogReader", Kept)
    ready: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.create_task(server.serve(settings, ready=ready.put_nowait))
    try:
        async with asyncio.timeout(120):
            first = await ready.get()
            made[0].consumer._fetcher._fetch_task.cancel()
            async with httpx.AsyncClient(base_url=await ready.get(), timeout=120) as client:
                await ok(await client.post(NODES, json=node()))
                assert (await client.get("/readyz")).status_code == 200
        assert first
        assert len(made) == 2
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_leader_whose_reading_of_its_tables_has_ended_begins_another_term(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, made = settings_of(broker, topic_prefix), list[LogReader]()

    class Kept(LogReader):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

    monkeypatch.setattr(log_reader, "LogReader", Kept)
    async with running_gateway(settings) as client:
        made[0].consumer._fetcher._fetch_task.cancel()
        await until(lambda: len(made) > 1, message="no other term began")
        await answers_ready(client)
        await ok(await client.post(NODES, json=node()))


async def test_a_writer_that_kafka_has_given_up_begins_anew(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings) as client:
        await ok(await client.post(NODES, json=node()))
        # As after a pause that was longer than a transaction may last: the epoch has gone on, nobody has taken over.
        other = clients.transactional_producer(settings, transactional_id=f"{settings.topic_prefix}.gateway")
        await other.start()
        await other.stop()
        refused = await client.post(NODES, json=node("n2"))
        assert refused.status_code == 503, refused.text
        await answers_ready(client)
        await ok(await client.post(NODES, json=node("n2")))


async def answers_ready(client: httpx.AsyncClient, code: int = 200) -> None:
    """Return when `/readyz` answers so."""

    async def asked() -> bool:
        return (await client.get("/readyz")).status_code == code

    await until(asked, message=f"/readyz did not come to answer {code}")


async def test_a_watch_sees_what_is_written(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings) as client:
        since = (await ok(await client.get(NODES)))["metadata"]["resourceVersion"]
        query = f"{NODES}?watch=true&resourceVersion={since}&timeoutSeconds=20"
        async with client.stream("GET", query) as answer:
            await ok(await client.post(NODES, json=node()))
            await ok(await client.delete(f"{NODES}/n1"))
            lines = answer.aiter_lines()
            seen = [json.loads(await anext(lines))["type"] for _ in range(2)]
        assert seen == ["ADDED", "DELETED"]


async def test_reports_are_durable_before_the_answer(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings) as client:
        await ok(await client.post(NODES, json=node()))
        now = datetime.now(UTC).isoformat()
        event = {
            "specversion": "1.0",
            "id": "r1",
            "source": "probe",
            "type": CONDITION_REPORTS.event_type,
            "data": {
                "target": {"kind": "Node", "name": "n1"},
                "type": "Ready",
                "status": "False",
                "observedTime": now,
            },
        }
        headers = {"content-type": "application/cloudevents+json"}
        answer = await client.post("/v1/conditions", content=json.dumps(event), headers=headers)
        assert answer.status_code == 202, answer.text
        (record,) = await committed(settings, CONDITION_REPORTS, "Node/n1")
        assert from_headers(record.headers).id == "r1"


SERVE = """
import asyncio
from moorage.apiserver.server import serve
from moorage.runtime.settings.process_settings import Settings
asyncio.run(serve(Settings(log_format="json"), ready=lambda address: print("READY", address, flush=True)))
"""


@contextlib.asynccontextmanager
async def process(settings: Settings) -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx.AsyncClient]]:
    """A gateway in a process of its own, killed at the end if it still lives."""
    given = {
        "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
        "MOORAGE_PARTITIONS": str(PARTITIONS),
        "MOORAGE_GATEWAY_PORT": "0",
    }
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, env={**os.environ, **given}, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert started.stdout is not None
        async with asyncio.timeout(120):
            while (line := (await started.stdout.readline()).decode())[:6] != "READY ":
                assert line, "the gateway has ended"
        async with httpx.AsyncClient(base_url=line.split()[1], timeout=120) as client:
            yield started, client
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.wait()


async def test_a_gateway_that_is_killed_has_kept_all_that_it_answered(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    answered: set[str] = set()
    enough = asyncio.Event()

    async def write_on(client: httpx.AsyncClient, writer: int) -> None:
        with contextlib.suppress(httpx.TransportError):
            for number in itertools.count():
                name = f"n{writer}-{number}"
                await ok(await client.post(NODES, json=node(name)))
                answered.add(name)
                if len(answered) >= 60:
                    enough.set()

    async with process(settings) as (started, client):
        writers = [asyncio.create_task(write_on(client, writer)) for writer in range(8)]
        async with asyncio.timeout(120):
            await enough.wait()
        started.kill()
        await asyncio.gather(*writers)
    async with process(settings) as (_, client):
        found = {item["metadata"]["name"] for item in (await ok(await client.get(NODES)))["items"]}
        assert answered <= found
        assert len(found - answered) <= 8, "more than what was under way"
        await ok(await client.post(NODES, json=node("after")))


async def test_writes_are_refused_while_the_broker_is_away_and_go_on_after(
    own_broker: EmbeddedBroker, topic_prefix: str
) -> None:
    settings = settings_of(own_broker, topic_prefix).model_copy(update={"transaction_timeout_ms": 2000})
    async with running_gateway(settings) as client:
        made = await ok(await client.post(NODES, json=node()))
        await own_broker.kill()
        refused = await client.post(NODES, json=node("n2"))
        assert refused.status_code in {503, 504}, refused.text
        assert (await client.get("/readyz")).status_code == 503
        assert await ok(await client.get(f"{NODES}/n1")) == made
        await own_broker.start()
        await answers_ready(client, 200)
        after = await ok(await client.post(NODES, json=node("n3")))
        names = {item["metadata"]["name"] for item in (await ok(await client.get(NODES)))["items"]}
        assert {"n1", "n3"} <= names <= {"n1", "n2", "n3"}
    async with running_gateway(settings) as client:
        assert names == {item["metadata"]["name"] for item in (await ok(await client.get(NODES)))["items"]}
        again = await ok(await client.get(f"{NODES}/n3"))
        assert again["metadata"]["uid"] == after["metadata"]["uid"]


async def test_a_large_body_gets_its_answer_and_the_gateway_goes_on(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings) as client:
        large = node() | {"metadata": {"name": "n1", "annotations": {"a": "x" * 2_000_000}}}
        answer = await client.post(NODES, json=large)
        assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
        # The whole of a near-limit body reaches the log.
        fits = {"metadata": {"name": "c1"}, "data": {"a": "x" * 900_000}}
        made = await ok(await client.post("/api/v1/namespaces/default/configmaps", json=fits))
        assert len(made["data"]["a"]) == 900_000


async def test_events_are_kept_over_a_restart_and_expire(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    path = "/api/v1/namespaces/default/events"
    body = {"involvedObject": {"kind": "Node", "name": "n1"}, "reason": "Seen", "metadata": {"name": "seen"}}
    async with running_gateway(settings) as client:
        await decided(settings, "p1")
        await until(lambda: told(client, path, 1))
        await ok(await client.post(path, json=body))
        before = await ok(await client.get(path))
        assert [one["reason"] for one in before["items"]] == ["Scheduled", "Seen"]
    async with running_gateway(settings) as client:
        await decided(settings, "p2")
        await until(lambda: told(client, path, 3))
        after = await ok(await client.get(path))
        known = [one for one in after["items"] if one["involvedObject"]["name"] != "p2"]
        assert known == before["items"], "nothing is told twice"
        assert await events_written(settings) == 3
    async with running_gateway(settings.model_copy(update={"event_ttl": 0.001})) as client:
        await until(lambda: told(client, path, 0))


async def decided(settings: Settings, name: str) -> None:
    """Write placement's decision on a pod."""
    ref = WorkloadRef(kind="Pod", namespace="default", name=name)
    event = WorkloadPlaced(
        workload=ref,
        uid=f"uid-of-{name}",
        owner=ref,
        owner_uid=f"uid-of-{name}",
        generation=1,
        state=PlacementState.PLACED,
        target=TargetRef(kind=TargetKind.NODE, name="n1"),
        reason="Scheduled",
        decided_time=datetime.now(UTC),
    )
    meta = Meta(id=f"decision-{name}", source="test", type=PLACEMENTS.event_type, time=event.decided_time)
    producer = AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers)
    await producer.start()
    try:
        await producer.send_and_wait(
            PLACEMENTS.name(settings.topic_prefix),
            key=ref.key.encode(),
            value=event.model_dump_json().encode(),
            partition=partition_of(ref.key, PARTITIONS),
            headers=to_headers(meta),
        )
    finally:
        await producer.stop()


async def told(client: httpx.AsyncClient, path: str, count: int) -> bool:
    """Whether there are as many events."""
    return len((await ok(await client.get(path)))["items"]) == count


async def events_written(settings: Settings) -> int:
    """The number of records of events in the object log."""
    consumer = clients.table_consumer(settings, client_id="test-reader")
    await consumer.start()
    try:
        tp = TopicPartition(OBJECTS.name(settings.topic_prefix), partition_of(FLEET, PARTITIONS))
        consumer.assign([tp])
        await consumer.seek_to_beginning(tp)
        return len([record for record in await _to_end(consumer, tp) if record.key.startswith(b"Event/")])
    finally:
        await consumer.stop()
