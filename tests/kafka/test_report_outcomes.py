"""What becomes of reports, for callers who wait for it: a real gateway, condition-ingest and Kafka."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaProducer
from tests.support.brokers import Broker
from tests.support.gateways import running_gateway
from tests.support.toys import settings_for, worker_for

from moorage.apiserver.storage.durable_log import RefusedLater, Write
from moorage.apiserver.storage.kafka import report_outcomes
from moorage.apiserver.storage.kafka.report_outcomes import KafkaReportOutcomes
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.topics import CONDITION_REPORTS, partition_of

pytestmark = pytest.mark.kafka

BATCH = {"content-type": "application/cloudevents-batch+json"}
NOW = datetime.now(UTC)


def event(identity: str, status: str, seconds: float, *, source: str = "probe/test", name: str = "n1") -> Any:
    return {
        "specversion": "1.0",
        "id": identity,
        "source": source,
        "type": CONDITION_REPORTS.event_type,
        "data": {
            "target": {"kind": "Node", "name": name},
            "type": "Ready",
            "status": status,
            "observedTime": (NOW + timedelta(seconds=seconds)).isoformat(),
        },
    }


async def sent(client: httpx.AsyncClient, *events: Any, wait: float = 30) -> list[tuple[str, str]]:
    answer = await client.post(f"/v1/conditions?waitSeconds={wait}", content=json.dumps(events), headers=BATCH)
    return [(item["outcome"], item.get("message", "")) for item in answer.json()["items"]]


async def declared(client: httpx.AsyncClient) -> None:
    answer = await client.post("/api/v1/nodes", json={"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    assert answer.status_code == 201, answer.text


async def test_what_becomes_of_reports_is_told_to_who_waits(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2, gateway_port=0)
    async with running_gateway(settings) as client, worker_for(condition_ingest.service(settings), settings):
        await declared(client)
        # None of these is known before: only condition-ingest decides which of them count.
        assert await sent(client, event("a", "False", 0), event("b", "True", -1), event("a", "False", 0)) == [
            ("Counted", ""),
            ("Ignored", f"older than {NOW.isoformat().replace('+00:00', 'Z')}, when the condition was last observed"),
            ("Ignored", "a report of this source with the id 'a' has already counted"),
        ]
        assert await sent(client, event("c", "True", 0)) == [("Counted", "")], "it came later"
        # A heartbeat, which is not recorded; and a report that is older than the heartbeat.
        assert await sent(client, event("d", "True", 5)) == [("Unchanged", "it repeats what is known")]
        ((outcome, why),) = await sent(client, event("e", "False", 4, source="cli/ada"))
        assert (outcome, why) == (
            "Ignored",
            "older than a later report of the condition, of which the time alone is not recorded",
        )


async def test_a_later_refusal_is_told_to_who_waits(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway checks the same first, so this goes past it."""
    monkeypatch.setattr(report_outcomes, "_CONNECT", 60.0)  # on a busy machine Kafka answers late
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2, gateway_port=0)
    async with running_gateway(settings), worker_for(condition_ingest.service(settings), settings):
        outcomes = KafkaReportOutcomes(settings)
        outcomes.partitions = settings.partitions
        write = written("nobody")
        async with outcomes.follow([write]) as following:
            assert following is not None
            (decided,) = await following.decided([await produced(settings, write)], 30)
    assert isinstance(decided, RefusedLater)
    assert (decided.letter.reason, decided.letter.value) == (RefusalReason.UNKNOWN_TARGET, "Node/nobody")


async def test_nothing_is_told_while_condition_ingest_is_down_or_too_many_wait(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2, gateway_port=0)
    async with running_gateway(settings) as client:
        await declared(client)
        assert await sent(client, event("a", "False", 0), wait=0.5) == [("Accepted", "")]
        monkeypatch.setattr(report_outcomes, "AT_ONCE", 0)
        assert await sent(client, event("b", "False", 1)) == [("Accepted", "")], "at once"


def written(name: str) -> Write:
    target = TargetRef(kind=TargetKind.NODE, name=name)
    report = ConditionReported(target=target, type="Ready", status=ConditionStatus.TRUE, observed_time=NOW)
    meta = Meta(id="r", source="probe/test", type=report.event_type)
    return Write(CONDITION_REPORTS, target.key, target.key, report, meta)


async def produced(settings: Settings, write: Write) -> int:
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        record = await producer.send_and_wait(
            write.topic.name(settings.topic_prefix),
            write.value,
            key=write.key.encode(),
            partition=partition_of(write.partition_key, settings.partitions),
            headers=to_headers(write.meta),
        )
    offset: int = record.offset
    return offset
