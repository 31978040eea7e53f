"""compose.ha.yaml runs nothing alone: three brokers in one quorum, and two of everything else."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from tests.architecture.files import ROOT
from tests.support.processes import COMMANDS

from moorage.cli.local.services import GATEWAY, QUERY
from moorage.runtime.settings.process_settings import Settings

BROKERS = {"kafka": "1", "kafka-2": "2", "kafka-3": "3"}
OURS = sorted(COMMANDS)


class _Loader(yaml.SafeLoader):
    """Reads compose's `!override` as the value after it."""


def _override(loader: yaml.SafeLoader, node: yaml.Node) -> list[Any]:
    assert isinstance(node, yaml.SequenceNode)
    return list(loader.construct_sequence(node))


_Loader.add_constructor("!override", _override)


@pytest.fixture(scope="module")
def ha() -> dict[str, Any]:
    document: dict[str, Any] = yaml.load((ROOT / "compose.ha.yaml").read_text("utf-8"), _Loader)  # noqa: S506 - ours
    return document


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    return document


def test_there_are_three_brokers_and_two_of_every_other_container(ha: dict[str, Any]) -> None:
    seconds = {f"{service}-2" for service in OURS}
    assert set(ha["services"]) == {*BROKERS, *OURS, *seconds, "identities"}
    for name in (*seconds, "kafka-2", "kafka-3"):
        extended = ha["services"][name]["extends"]
        assert extended == {"file": "compose.yaml", "service": name.rpartition("-")[0]}


def test_the_brokers_are_one_quorum_that_survives_the_loss_of_one(ha: dict[str, Any], plain: dict[str, Any]) -> None:
    voters = ",".join(f"{number}@{name}:9093" for name, number in BROKERS.items())
    for name, number in BROKERS.items():
        found = {**plain["services"]["kafka"]["environment"], **ha["services"][name]["environment"]}
        assert (found["KAFKA_NODE_ID"], found["KAFKA_CONTROLLER_QUORUM_VOTERS"]) == (number, voters)
        assert f"INTERNAL://{name}:19092" in found["KAFKA_ADVERTISED_LISTENERS"]
        for setting in (
            "KAFKA_DEFAULT_REPLICATION_FACTOR",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR",
        ):
            assert found[setting] == "3"
        assert found["KAFKA_MIN_INSYNC_REPLICAS"] == found["KAFKA_TRANSACTION_STATE_LOG_MIN_ISR"] == "2"


def test_every_process_finds_all_brokers_and_waits_for_them(ha: dict[str, Any]) -> None:
    for service in (*OURS, *(f"{service}-2" for service in OURS)):
        found = ha["services"][service]
        environment = found["environment"]
        assert environment["MOORAGE_BOOTSTRAP_SERVERS"] == ",".join(f"{name}:19092" for name in BROKERS)
        assert environment["MOORAGE_REPLICATION_FACTOR"] == "3"
        Settings(**{name.removeprefix("MOORAGE_").lower(): value for name, value in environment.items()})
        assert all(found["depends_on"][name] == {"condition": "service_healthy"} for name in BROKERS)


def test_the_gateways_find_each_other_and_have_their_names_in_the_certificate(
    ha: dict[str, Any], plain: dict[str, Any]
) -> None:
    second = ha["services"][f"{GATEWAY}-2"]["environment"]
    assert second["MOORAGE_GATEWAY_ADDRESS"] == f"https://{GATEWAY}-2:8080"
    assert second["MOORAGE_QUERY_SERVER"] == f"http://{QUERY}-2:8081"
    (command,) = ha["services"]["identities"]["command"]
    assert re.findall(r"--name (\S+)", command) == [GATEWAY, f"{GATEWAY}-2"]
    assert [command.replace(f" --name {GATEWAY}-2", "")] == plain["services"]["identities"]["command"]


def test_ports_are_on_loopback_and_no_two_containers_share_one_or_a_volume(
    ha: dict[str, Any], plain: dict[str, Any]
) -> None:
    services = {**plain["services"], **ha["services"]}
    ports = [port for one in services.values() for port in one.get("ports", ())]
    ports += [port for name in ("kafka", GATEWAY) for port in plain["services"][name]["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)
    assert ha["services"]["kafka-2"]["volumes"] == ["kafka-2-data:/var/lib/kafka/data"]
    assert ha["services"]["kafka-3"]["volumes"] == ["kafka-3-data:/var/lib/kafka/data"]
    assert set(ha["volumes"]) == {"kafka-2-data", "kafka-3-data"}
