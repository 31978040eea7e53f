"""`moorage status` and `moorage doctor` with a real Kafka: a fleet that runs, one that is stopped, and none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.brokers import Broker
from tests.support.commands import Done, moorage
from tests.support.up import started
from tests.support.waiting import until

from moorage.runtime.settings.environment import PREFIX

pytestmark = pytest.mark.kafka

SERVICES = {"condition-ingest", "taint-manager", "governor", "placement", "eviction", "timer", "gateway"}
FLEET = """
{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: job, namespace: default}, spec: {containers: [{name: main, image: "j:1"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: big, namespace: default}, spec: {nodeName: "", nodeSelector: {disk: ssd},
  containers: [{name: main, image: "j:1"}]}}
"""


def levels(done: Done) -> dict[str, set[str]]:
    """The levels of the findings by check."""
    found: dict[str, set[str]] = {}
    for one in done.json["findings"]:
        found.setdefault(one["check"], set()).add(one["level"])
    return found


async def test_a_fleet_that_runs_and_then_is_stopped(broker: Broker, topic_prefix: str, tmp_path: Path) -> None:
    alone = {"MOORAGE_STATE_DIR": str(tmp_path), "MOORAGE_BOOTSTRAP_SERVERS": "", "MOORAGE_SERVER": ""}
    async with started(broker, topic_prefix, tmp_path):
        assert (await moorage("apply", "-f", "-", env=alone, text=FLEET)).code == 0
        assert (await moorage("report", "node/n1", "Ready=False", env=alone)).code == 0
        waited = await moorage("wait", "node/n1", "--for=condition=Ready=False", "--timeout=60s", env=alone)
        assert waited.code == 0, waited.err
        pause = await moorage("pause", "evictions", "--reason", "a test", env=alone)
        assert pause.code == 0, pause.err
        done = await moorage("status", "-o", "json", env=alone)
        found = done.json
        assert done.code == 0, done.out
        assert {one["name"]: (one["state"], one["processes"]) for one in found["services"]} == dict.fromkeys(
            SERVICES, ("Running", 1)
        )
        assert {one["chain"] for one in found["services"]} == {"", "targets"}
        assert found["gateway"]["state"].startswith("ready, version ")
        assert found["query"]["state"] == "answers"
        fleet = found["fleet"]
        assert fleet["targets"]["nodes"] == {"Ready": 0, "NotReady": 1, "Unknown": 0, "Unreported": 0, "Cordoned": 0}
        assert sum(fleet["unscheduled"].values()) == 1
        assert fleet["sources"] == 1
        assert fleet["pauses"] == ["the whole fleet (a test)"]
        assert fleet["deadLetters"] == {}
        assert levels(done)["pauses"] == {"warning"}
        strict = await moorage("status", "--strict", env=alone)
        assert strict.code == 1
        assert "WARNING  pauses: evictions are paused: the whole fleet (a test)" in strict.out

        doctor = await moorage("doctor", "-o", "json", env=alone)
        assert doctor.code == 0, doctor.out
        found_by = levels(doctor)
        for check in ("settings", "gateway", "versions", "topics"):
            assert found_by[check] == {"ok"}, doctor.out
        assert found_by["clocks"] <= {"ok", "unknown"}, doctor.out  # unknown in the first half minute
    named = {**alone, "MOORAGE_BOOTSTRAP_SERVERS": broker.bootstrap, "MOORAGE_TOPIC_PREFIX": topic_prefix}

    async def stopped() -> bool:
        """Whether the members of all groups are gone: they were killed, so their sessions have to end."""
        done = await moorage("status", "-o", "json", env={**named, "MOORAGE_SERVER": "http://127.0.0.1:9"})
        assert (done.code, done.json["fleet"]) == (1, None)
        assert levels(done)["gateway"] == {"error"}
        return {one["state"] for one in done.json["services"]} == {"Stopped"}

    await until(stopped)


async def test_a_kafka_without_a_fleet_and_no_kafka(broker: Broker, topic_prefix: str, tmp_path: Path) -> None:
    env = {
        "MOORAGE_STATE_DIR": str(tmp_path),
        "MOORAGE_BOOTSTRAP_SERVERS": broker.bootstrap,
        "MOORAGE_TOPIC_PREFIX": topic_prefix,
        "MOORAGE_SERVER": "http://127.0.0.1:9",
        f"{PREFIX}PARTITION": "3",
    }
    done = await moorage("doctor", env=env)
    assert done.code == 1
    assert f"no topic of the prefix '{topic_prefix}' exists" in done.out
    assert f"{PREFIX}PARTITION has no effect" in done.out
    assert "-> did you mean MOORAGE_PARTITIONS?" in done.out
    assert "-> moorage topics apply" in done.out
    assert "no process has measured its clock" in done.out
    assert "not checked" not in done.out
    status = await moorage("status", env=env)
    assert status.code == 1
    assert "topics do not exist" in status.out
    nowhere = await moorage("doctor", env={**env, "MOORAGE_BOOTSTRAP_SERVERS": "127.0.0.1:9"})
    assert nowhere.code == 1
    assert "ERROR    brokers: 127.0.0.1:9" in nowhere.out
    assert "Traceback" not in nowhere.err + nowhere.out
