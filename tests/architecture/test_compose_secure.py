"""compose.secure.yaml agrees with the roles: each container is its own user, and has no password but its own."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml
from tests.architecture.files import ROOT
from tests.support.processes import COMMANDS

from moorage.cli.contract.kafka_roles import roles
from moorage.runtime.identities import kafka_identities
from moorage.runtime.settings.process_settings import Settings

ROLES = [role.name for role in roles()]
SERVICES = sorted(COMMANDS)
SETUP = "kafka-setup"


@pytest.fixture(scope="module")
def secure() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "compose.secure.yaml").read_text("utf-8"))
    return document


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    return document


def _secrets(service: dict[str, Any]) -> dict[str, str]:
    return {one["target"]: one["source"] for one in service["secrets"]}


def test_each_container_is_its_own_user_with_its_own_password_alone(secure: dict[str, Any]) -> None:
    assert sorted(secure["services"]) == sorted([*SERVICES, "kafka", SETUP])
    for name in SERVICES:
        one = secure["services"][name]
        assert one["environment"] == {
            "MOORAGE_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "MOORAGE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
            "MOORAGE_KAFKA_USERNAME": f"{kafka_identities.USERS}{name}",
            "MOORAGE_KAFKA_PASSWORD_FILE": "/run/secrets/kafka-password",
        }
        assert _secrets(one) == {"kafka-password": f"kafka-{name}"}
        assert one["depends_on"] == {SETUP: {"condition": "service_healthy"}}


def test_every_user_gets_a_password(secure: dict[str, Any]) -> None:
    given = {f"/run/secrets/kafka/{role}.password": f"kafka-{role}" for role in ROLES}
    assert _secrets(secure["services"][SETUP]) == {"kafka-password": f"kafka-{kafka_identities.ADMIN}", **given}
    files = {f"kafka-{role}": {"file": f"secrets/kafka/{role}.password"} for role in [*ROLES, kafka_identities.ADMIN]}
    assert secure["secrets"] == {"kafka.jaas": {"file": "secrets/kafka/kafka.jaas"}, **files}


def test_the_passwords_are_not_committed() -> None:
    done = subprocess.run(
        ["git", "check-ignore", "secrets/kafka/admin.password"], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0


def test_passwords_as_they_are_stay_in_one_container(secure: dict[str, Any], plain: dict[str, Any]) -> None:
    kafka = {**plain["services"]["kafka"]["environment"], **secure["services"]["kafka"]["environment"]}
    listening = dict(one.split("://") for one in kafka["KAFKA_LISTENERS"].split(","))
    protocols = dict(one.split(":") for one in kafka["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    assert set(protocols.values()) == {"SASL_PLAINTEXT"}, "each listener asks who somebody is"
    with_plain = {
        name
        for name in listening
        if kafka.get(f"KAFKA_LISTENER_NAME_{name}_SASL_ENABLED_MECHANISMS", kafka["KAFKA_SASL_ENABLED_MECHANISMS"])
        != "SCRAM-SHA-512"
    }
    assert with_plain == {"SETUP", "CONTROLLER"}
    assert {listening[name].rpartition(":")[0] for name in with_plain} == {"127.0.0.1"}
    setup = secure["services"][SETUP]
    assert setup["network_mode"] == "service:kafka"
    assert setup["environment"]["MOORAGE_BOOTSTRAP_SERVERS"] == listening["SETUP"]
    assert kafka["KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND"] == "false"
    assert kafka["KAFKA_SUPER_USERS"] == "User:moorage-broker;User:moorage-admin"


def test_the_settings_are_valid(secure: dict[str, Any], tmp_path: Any, plain: dict[str, Any]) -> None:
    (tmp_path / "password").write_text("x")
    for name in [*SERVICES, SETUP]:
        before = plain["services"].get(name, {"environment": {}})["environment"]
        given = {**before, **secure["services"][name]["environment"]}
        fields = {key.removeprefix("MOORAGE_").lower(): value for key, value in given.items() if value is not None}
        Settings(**{**fields, "kafka_password_file": str(tmp_path / "password")})


def test_the_setup_is_bounded_and_comes_back(secure: dict[str, Any], plain: dict[str, Any]) -> None:
    setup = secure["services"][SETUP]
    assert setup["image"] == plain["services"]["governor"]["image"]
    assert setup["restart"] == "unless-stopped"
    assert setup["mem_limit"]
    assert setup["read_only"]
    assert setup["healthcheck"]["test"] == ["CMD", "test", "-f", "/ready/done"]
