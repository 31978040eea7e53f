"""The configuration of a fleet: its first content, its defaults, who may do what with it, and what it switches on."""

from __future__ import annotations

import asyncio

import pytest
from tests.component.gateway.double import Fixture, node

from moorage.apiserver.machinery.api_errors import unavailable
from moorage.apiserver.writing.object_records import SOURCE
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.configuration import ConfigurationChanged
from moorage_schemas.dead_letter import Audited
from moorage_schemas.resources.configuration import MoorageConfigurationSpec
from moorage_schemas.topics import AUDIT, CONFIGURATION, FLEET, RESOURCES

PATH = "/apis/moorage.io/v1alpha1/moorageconfigurations"
ONE = f"{PATH}/cluster"
POLICIES = "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies"
REPORTS = "/v1/conditions"
HOT_POLICY = {
    "metadata": {"name": "p"},
    "spec": {
        "addOnConditions": [{"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}],
        "taints": [{"key": "hot", "effect": "NoExecute"}],
    },
}


def configuration(name: str = "cluster", **spec: object) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": spec}


def records(gateway: Fixture) -> list[ConfigurationChanged]:
    return [write.event for write in gateway.log.written if isinstance(write.event, ConfigurationChanged)]


async def test_the_first_content_is_that_of_the_gateways_settings() -> None:
    gateway = Fixture(settings=Settings(node_eviction_rate=float("inf"), feature_gates="Failover=true"))
    await gateway.app.state.first_content.run()
    found = await gateway.ok("GET", ONE)
    assert found["metadata"]["generation"] == 1
    assert found["spec"]["nodeEvictionRate"] == "inf"
    assert found["spec"]["featureGates"] == {"Failover": True}
    assert found["spec"]["nodeMonitorGracePeriod"] == "40s"
    (audited,) = [
        one.event for one in gateway.log.written if one.key == "MoorageConfiguration//cluster" and one.topic is AUDIT
    ]
    assert isinstance(audited, Audited)
    assert (audited.actor, audited.verb, audited.resource) == (SOURCE, "create", "MoorageConfiguration//cluster")
    written = len(gateway.log.written)
    await gateway.app.state.first_content.run()
    assert len(gateway.log.written) == written


async def test_the_first_content_waits_until_it_can_be_written() -> None:
    gateway = Fixture()
    gateway.log.obstacle = "Kafka does not accept writes"
    with pytest.raises(type(unavailable("")), match="Kafka does not accept writes"):
        await gateway.log.commit([])
    begun = asyncio.create_task(gateway.app.state.first_content.run())
    await asyncio.sleep(0)
    assert not begun.done()
    gateway.log.obstacle = ""
    async with asyncio.timeout(120):
        await begun
    assert (await gateway.ok("GET", ONE))["spec"]["nodeEvictionRate"] == 0.1


async def test_defaults_are_filled_in_so_that_the_object_shows_the_whole() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", PATH, configuration(taintAddHold="10s", featureGates={}))
    plain = MoorageConfigurationSpec().model_dump(mode="json")
    assert made["spec"] == {**plain, "taintAddHold": "10s"}
    assert set(made["spec"]) == set(plain)


async def test_services_get_a_record_with_each_change_in_the_same_transaction() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", PATH, configuration())
    await gateway.ok("PATCH", ONE, {"spec": {"nodeEvictionRate": 2}})
    first, second = records(gateway)
    assert (first.generation, first.spec) == (1, MoorageConfigurationSpec())
    assert (second.generation, second.spec.node_eviction_rate, second.uid) == (2, 2.0, made["metadata"]["uid"])
    write = next(write for write in gateway.log.written if write.event is second)
    assert (write.topic, write.key, write.partition_key) == (CONFIGURATION, "cluster", FLEET)
    cause = [write.meta.id for write in gateway.log.written if write.topic is RESOURCES][-1]
    assert write.meta.causation_id == cause


async def test_labels_do_not_make_a_new_generation() -> None:
    gateway = Fixture()
    await gateway.ok("POST", PATH, configuration())
    await gateway.ok("PATCH", ONE, {"metadata": {"labels": {"team": "a"}}})
    assert [record.generation for record in records(gateway)] == [1, 1]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (configuration("other"), 422, 'metadata.name: Invalid value: "other": must be "cluster"'),
        ({"metadata": {"generateName": "c-"}}, 422, 'must be "cluster"'),
        (configuration(nodeEvictionRatte=1), 422, "spec.nodeEvictionRatte: Forbidden: unknown field"),
        (configuration(taintAddHold="soon"), 422, 'spec.taintAddHold: Invalid value: "soon": must be a duration'),
        (configuration(taintAddHold=10), 400, "spec.taintAddHold: Invalid value: 10: must be a valid string"),
        (configuration(unhealthyZoneThreshold="half"), 400, "spec.unhealthyZoneThreshold"),
    ],
)
async def test_bad_content_is_refused(body: dict[str, object], code: int, message: str) -> None:
    answer = await Fixture().call("POST", PATH, body)
    assert (answer.status_code, message in answer.json()["message"]) == (code, True), answer.text


async def test_it_cannot_be_deleted() -> None:
    gateway = Fixture()
    await gateway.ok("POST", PATH, configuration())
    answer = await gateway.call("DELETE", ONE)
    assert answer.status_code == 403
    assert "the services decide by it; change it instead" in answer.json()["message"]
    assert (await gateway.ok("GET", ONE))["metadata"]["generation"] == 1


async def test_admission_follows_it_and_not_the_gateways_settings() -> None:
    gateway = Fixture(settings=Settings(allow_no_execute_taint_policy=True, cloud_provider="external"))
    await gateway.ok("POST", PATH, configuration())
    assert (await gateway.call("POST", POLICIES, HOT_POLICY)).status_code == 422
    assert "annotations" not in (await gateway.ok("POST", "/api/v1/nodes", node()))["metadata"]
    await gateway.ok("PATCH", ONE, {"spec": {"allowNoExecuteTaintPolicy": True, "cloudProvider": "external"}})
    assert (await gateway.call("POST", POLICIES, HOT_POLICY)).status_code == 201
    made = await gateway.ok("POST", "/api/v1/nodes", node("n2"))
    assert made["metadata"]["annotations"] == {"moorage.io/cloud-provider": "external"}


async def test_the_limits_of_reports_follow_it() -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/nodes", node())
    await gateway.ok("POST", PATH, configuration(reportMaxBytes=1024))
    headers = {"ce-specversion": "1.0", "ce-type": "io.moorage.condition.reported.v1", "ce-source": "t", "ce-id": "1"}
    report = {
        "target": {"kind": "Node", "name": "n1"},
        "type": "Ready",
        "status": "True",
        "observedTime": "2026-01-01T12:00:00Z",
        "message": "x" * 2000,
    }
    assert (await gateway.call("POST", REPORTS, report, headers=headers)).status_code == 413
    await gateway.ok("PATCH", ONE, {"spec": {"reportMaxBytes": 4096}})
    assert (await gateway.call("POST", REPORTS, report, headers=headers)).status_code == 202
