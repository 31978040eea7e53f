"""Dead letters on a real Kafka: condition-ingest refuses, the gateway shows, and sends again what then counts."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaProducer
from tests.support.brokers import Broker
from tests.support.gateways import running_gateway
from tests.support.toys import read_all, settings_for, worker_for
from tests.support.waiting import until

from moorage.apiserver.storage.kafka import topic_records
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest
from moorage_schemas.condition import ConditionChanged, ConditionReported, ConditionStatus
from moorage_schemas.dead_letter import REPLAY_HEADER, DeadLettered, RefusalReason
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, DEAD_LETTERS, partition_of

pytestmark = pytest.mark.kafka

LETTERS = "/apis/moorage.io/v1alpha1/deadletters"
NOW = datetime.now(UTC)


async def produced(settings: Settings, *identities: str, name: str = "n1") -> None:
    """Write reports as a probe does that writes to Kafka."""
    target = TargetRef(kind=TargetKind.NODE, name=name)
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        for seconds, identity in enumerate(identities):
            observed = NOW + timedelta(milliseconds=seconds)
            report = ConditionReported(target=target, type="Fan", status=ConditionStatus.TRUE, observed_time=observed)
            await producer.send_and_wait(
                CONDITION_REPORTS.name(settings.topic_prefix),
                report.model_dump_json().encode(),
                key=target.key.encode(),
                partition=partition_of(target.key, settings.partitions),
                headers=to_headers(Meta(id=identity, source="probe/fan", type=CONDITION_REPORTS.event_type)),
            )


async def flooded(settings: Settings, count: int, *, size: int = 10) -> None:
    """Write letters that a service has written long ago."""
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers, max_request_size=2_000_000) as producer:
        for number in range(count):
            letter = DeadLettered(
                service="placement",
                reason=RefusalReason.INVALID_EVENT,
                message="failed",
                topic="resources",
                partition=0,
                offset=number,
                original="x" * size,
                original_size=size,
                refused_time=NOW,
            )
            await producer.send(
                DEAD_LETTERS.name(settings.topic_prefix),
                letter.model_dump_json().encode(),
                partition=number % settings.partitions,
            )
        await producer.flush()


async def listed(client: httpx.AsyncClient, query: str = "") -> list[dict[str, Any]]:
    """All letters of a list, whatever the number of its parts."""
    found: list[dict[str, Any]] = []
    token = ""
    while True:
        answer = await client.get(f"{LETTERS}?continue={token}{query}")
        assert answer.status_code == 200, answer.text
        part = answer.json()
        found += part["items"]
        if not (token := part["metadata"].get("continue", "")):
            return found


async def test_a_report_that_was_refused_counts_when_it_is_sent_again(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2, gateway_port=0)
    async with running_gateway(settings) as client, worker_for(condition_ingest.service(settings), settings) as worker:
        await until(lambda: worker.ready)
        await produced(settings, "a", "b")

        async def refused() -> bool:
            return len(await listed(client)) == 2

        await until(refused)
        newest, oldest = await listed(client, "&fieldSelector=reason=UnknownTarget,source=probe/fan")
        assert [one["status"]["headers"]["ce_id"] for one in (newest, oldest)] == ["b", "a"]
        name = newest["metadata"]["name"]
        assert (await client.get(f"{LETTERS}/{name}")).json()["status"] == newest["status"]
        early = await client.post(f"{LETTERS}/{name}/replay")
        assert (early.status_code, early.json()["reason"]) == (404, "UnknownTarget")

        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        assert (await client.post("/api/v1/nodes", json=node)).status_code == 201
        outcomes = []
        for one in (name, name, oldest["metadata"]["name"]):
            answer = await client.post(f"{LETTERS}/{one}/replay?waitSeconds=30")
            assert answer.status_code == 201, answer.text
            replay = answer.json()["status"]["replay"]
            outcomes.append((replay["outcome"], replay["id"]))
        assert outcomes == [("Counted", "b"), ("Ignored", "b"), ("Ignored", "a")]
    (condition,) = [ConditionChanged.model_validate_json(one.value) for one in await read_all(settings, CONDITIONS)]
    assert (condition.report_id, condition.source, condition.status) == ("b", "probe/fan", ConditionStatus.TRUE)
    again = [dict(one.headers).get(REPLAY_HEADER) for one in await read_all(settings, CONDITION_REPORTS)]
    assert [value for value in again if value] == [name.encode()]
    assert len(await read_all(settings, DEAD_LETTERS)) == 2, "nothing new"


async def test_a_flood_is_read_in_parts_and_from_the_end(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_records, "_KEPT_BYTES", 300_000)
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2, gateway_port=0)
    async with running_gateway(settings) as client:
        await flooded(settings, 3_000)
        await flooded(settings, 20, size=100_000)
        answer = await client.get(f"{LETTERS}?limit=2")
        # Letters of one millisecond are in the order of their partitions.
        assert sorted(one["status"]["offset"] for one in answer.json()["items"]) in ([18, 19], [17, 19], [16, 18])
        every = await listed(client)
        places = [(one["metadata"]["name"].split("-")[0], one["status"]["offset"]) for one in every]
        assert len(places) == 3_020
        for partition in ("0", "1"):
            offsets = [
                int(one["metadata"]["name"].split("-")[1]) for one in every if one["metadata"]["name"][0] == partition
            ]
            assert offsets == sorted(offsets, reverse=True)
            assert len(set(offsets)) == 1_510


async def test_requests_that_read_at_the_same_time_wait_or_are_asked_to_come_again(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_records, "_WAITING", 4)
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2, gateway_port=0)
    async with running_gateway(settings) as client:
        await flooded(settings, 10)
        answers = await asyncio.gather(*(client.get(LETTERS) for _ in range(12)))
        codes = [one.status_code for one in answers]
        assert set(codes) == {200, 503}
        assert codes.count(200) >= 4
        refused = next(one for one in answers if one.status_code == 503)
        assert "requests are waiting" in json.dumps(refused.json())
        assert len(await listed(client)) == 10


async def test_the_audit_is_read_from_its_topic(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2, gateway_port=0)
    path = "/apis/moorage.io/v1alpha1/auditevents"
    async with running_gateway(settings) as client:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        for method, own in (("POST", "/api/v1/nodes"), ("DELETE", "/api/v1/nodes/n1")):
            answer = await client.request(method, own, json=node if method == "POST" else None)
            assert answer.is_success, answer.text
        answer = await client.get(f"{path}?fieldSelector=kind=Node,name=n1")
        assert answer.status_code == 200, answer.text
        deleted, created = answer.json()["items"]
        assert [one["verb"] for one in (deleted, created)] == ["delete", "create"]
        assert deleted["objectRef"]["uid"] == created["objectRef"]["uid"]
        assert (await client.get(f"{path}/{deleted['metadata']['name']}")).json() == deleted
