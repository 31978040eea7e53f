"""One configuration for workers whose own settings differ, through a real gateway and a real Kafka."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from tests.support.brokers import Broker
from tests.support.gateways import running_gateway
from tests.support.toys import read_all, settings_for, worker_for
from tests.support.waiting import until

from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, timer
from moorage_schemas.condition import ConditionChanged, ConditionReported, ConditionStatus
from moorage_schemas.envelope import from_headers
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.topics import CONDITIONS, CONFIGURATION, partition_of

pytestmark = pytest.mark.kafka

PARTITIONS = 2
CONFIGURATIONS = "/apis/moorage.io/v1alpha1/moorageconfigurations/cluster"
NODES = [next(f"n{n}" for n in range(99) if partition_of(f"Node/n{n}", PARTITIONS) == p) for p in range(PARTITIONS)]
"""A node in each partition."""


async def report(client: httpx.AsyncClient, name: str) -> None:
    now = datetime.now(UTC)
    said = ConditionReported(
        target=TargetRef(kind=TargetKind.NODE, name=name),
        type="Ready",
        status=ConditionStatus.TRUE,
        observed_time=now,
    )
    headers = {
        "ce-specversion": "1.0",
        "ce-type": ConditionReported.event_type,
        "ce-source": "probe/test",
        "ce-id": f"{name}-{now.timestamp()}",
        "content-type": "application/json",
    }
    answer = await client.post("/v1/conditions", content=said.model_dump_json(), headers=headers)
    assert answer.status_code == 202, answer.text


async def conditions(settings: Settings) -> dict[str, list[tuple[ConditionChanged, int]]]:
    """By node, its conditions in order, each with the generation of the configuration that its record names."""
    found: dict[str, list[tuple[ConditionChanged, int]]] = {name: [] for name in NODES}
    for record in await read_all(settings, CONDITIONS):
        event = ConditionChanged.model_validate_json(record.value)
        found[event.target.name].append((event, from_headers(record.headers).configuration))
    return found


async def test_two_workers_whose_own_settings_differ_decide_alike(broker: Broker, topic_prefix: str) -> None:
    def own(grace: float) -> Settings:
        return settings_for(
            broker.bootstrap, topic_prefix, partitions=PARTITIONS, node_monitor_grace_period=grace, gateway_port=0
        )

    hasty, patient = own(0.5), own(86_400)
    async with running_gateway(own(30)) as client:
        first = (await client.get(CONFIGURATIONS)).json()
        assert (first["metadata"]["generation"], first["spec"]["nodeMonitorGracePeriod"]) == (1, "30s")
        (written,) = await read_all(hasty, CONFIGURATION)
        assert written.key == b"cluster"
        async with (
            worker_for(timer.service(hasty), hasty),
            worker_for(condition_ingest.service(hasty), hasty) as one,
            worker_for(condition_ingest.service(patient), patient) as other,
        ):
            await until(lambda: len(one.tasks) == len(other.tasks) == 1 and one.ready and other.ready)
            for name in NODES:
                node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
                assert (await client.post("/api/v1/nodes", json=node)).status_code == 201
                await report(client, name)

            async def known(wanted: list[str]) -> bool:
                found = await conditions(hasty)
                return all([event.status.value for event, _ in some] == wanted for some in found.values())

            await until(lambda: known(["True"]))
            change = {"spec": {"nodeMonitorGracePeriod": "2s"}}
            headers = {"content-type": "application/merge-patch+json"}
            answer = await client.patch(CONFIGURATIONS, json=change, headers=headers)
            assert answer.json()["metadata"]["generation"] == 2
            await until(lambda: known(["True", "Unknown"]))
        for (spoken, before), (silent, after) in (await conditions(hasty)).values():
            assert (before, after) == (1, 2)
            assert spoken.accepted_time is not None
            # A partition that moved in between does not know of heartbeats within half of the former grace period.
            later = silent.last_transition_time - spoken.accepted_time
            assert timedelta(seconds=2) <= later <= timedelta(seconds=2 + 15)
    async with running_gateway(own(1)) as client:
        again = (await client.get(CONFIGURATIONS)).json()
        assert (again["metadata"]["generation"], again["spec"]["nodeMonitorGracePeriod"]) == (2, "2s")
