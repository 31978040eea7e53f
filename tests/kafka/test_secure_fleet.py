"""A whole fleet on a Kafka that asks who somebody is: every process is its own user, and nothing is refused to it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support import forks
from tests.support.commands import moorage
from tests.support.waiting import until

from moorage.cli.commands.up import secured
from moorage.cli.local.stack import SecureKafka, Stack
from moorage.runtime.identities import kafka_identities
from moorage.runtime.kafka.admin import acls
from moorage.runtime.kafka.clients import clients
from moorage.runtime.settings.environment import variable
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.refs import TargetRef
from moorage_schemas.topics import CONDITION_REPORTS

pytestmark = pytest.mark.kafka

_FLEET = """
{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}}
---
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  nodeName: n1
  containers: [{name: main, image: "job:1"}]
  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 1}]
"""


def _as(kafka: SecureKafka, role: str, stack: Stack) -> Settings:
    identity: dict[str, Any] = kafka_identities.settings_of(kafka.folder, role)
    return Settings(bootstrap_servers=stack.bootstrap, **identity)


async def _report_by_kafka(settings: Settings, node: str) -> None:
    """Report as a probe that is a Kafka client, as the contract describes it."""
    now = datetime.now(UTC)
    target = TargetRef.parse(f"Node/{node}")
    report = ConditionReported(target=target, type="Ready", status="False", reason="Down", observed_time=now)
    meta = Meta(id=event_id("probe/mine", target, now), source="probe/mine", type=report.event_type, time=now)
    producer = clients.reports_producer(settings, client_id="probe", timeout_ms=15_000)
    await producer.start()
    try:
        value = report.model_dump_json().encode()
        await producer.send_and_wait(
            CONDITION_REPORTS.name(), key=target.key.encode(), value=value, headers=to_headers(meta)
        )
    finally:
        await producer.stop()


async def test_the_way_of_an_event_with_a_user_for_each_process(tmp_path: Path) -> None:
    kafka, told = secured(tmp_path), list[str]()
    settings = Settings(partitions=2, gateway_port=0, node_monitor_period=0.5)
    async with Stack(settings, tmp_path, told.append, launch=forks.launch, secure_kafka=kafka) as stack:
        operator = kafka.environment("operator") | {
            "MOORAGE_SERVER": stack.server,
            "MOORAGE_BOOTSTRAP_SERVERS": stack.bootstrap,
        }
        assert (await moorage("apply", "-f", "-", env=operator, text=_FLEET)).code == 0
        told_outcome = await moorage("report", "node/n2", "Ready=True", "--wait", env=operator)
        assert told_outcome.code == 0, told_outcome.err
        await _report_by_kafka(_as(kafka, "probe", stack), "n1")
        async with httpx.AsyncClient(base_url=stack.server, timeout=120) as http:

            async def is_evicted() -> bool:
                found = (await http.get("/apis/moorage.io/v1alpha1/evictions")).json()["items"]
                return any(one["status"].get("state") in {"Requested", "Completed"} for one in found)

            await until(is_evicted, message="the pod was not evicted")
        watched = await moorage("watch", "evictions", "--since", "10m", "--count", "1", "-o", "json", env=operator)
        assert json.loads(watched.out.splitlines()[0])["topic"] == "evictions"
        refused = await moorage("watch", "resources", "--count", "1", env=operator | kafka.environment("viewer"))
        assert refused.code == 1
        assert "User:moorage-viewer may not Describe topic moorage.resources.v1: " in refused.err
        admin = operator | kafka.environment(kafka_identities.ADMIN)
        checked = await moorage("topics", "acls", "--check", env=admin)
        assert (checked.code, checked.out) == (0, "Kafka allows exactly the needed permissions\n")
        await _changed_by_hand(_as(kafka, kafka_identities.ADMIN, stack), admin)
    logs = {file.name: file.read_text() for file in (tmp_path / "logs").iterdir()}
    assert {"timer.log", "gateway.log", "query.log", "eviction.log"} <= logs.keys()
    assert not [line for text in logs.values() for line in text.splitlines() if "refused" in line or "uthoriz" in line]
    passwords = [file.read_text().strip() for file in kafka.folder.iterdir()]
    assert not [name for name, text in logs.items() for password in passwords if password in text]


async def _changed_by_hand(settings: Settings, admin: dict[str, str]) -> None:
    """Take one permission away and add another one. The command finds both, and puts them right."""
    wanted = acls.AclEntry(
        "User:moorage-probe",
        acls.AclResource.TOPIC,
        CONDITION_REPORTS.name(),
        acls.AclPattern.LITERAL,
        acls.AclOperation.WRITE,
    )
    beyond = acls.AclEntry(
        "User:moorage-probe", acls.AclResource.TOPIC, "moorage.", acls.AclPattern.PREFIXED, acls.AclOperation.READ
    )
    await acls.created(settings, {beyond})
    await acls.deleted(settings, {wanted})
    missing = "missing: User:moorage-probe: Write Topic moorage.condition-reports.v1\n"
    told = f"{missing}beyond what is needed: User:moorage-probe: Read Topic moorage.*\n"

    async def found(code: int, out: str) -> bool:
        checked = await moorage("topics", "acls", "--check", env=admin)
        return (checked.code, checked.out) == (code, out)

    await until(lambda: found(1, told))
    done = await moorage("topics", "acls", "--apply", "--prune", env=admin)
    assert done.out.splitlines() == [
        "User:moorage-probe: Write Topic moorage.condition-reports.v1 added",
        "User:moorage-probe: Read Topic moorage.* removed",
    ]
    await until(lambda: found(0, "Kafka allows exactly the needed permissions\n"))
    assert (await moorage("topics", "acls", "--apply", env=admin)).out == "nothing to change\n"
    assert variable("kafka_username") in admin
