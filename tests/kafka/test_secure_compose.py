"""The broker of compose.secure.yaml, and what its container `kafka-setup` does, without containers."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.commands import moorage

from moorage.cli.contract import kafka_roles
from moorage.cli.local.stack import free_ports
from moorage.runtime.embedded import EmbeddedKafka
from moorage.runtime.embedded.broker_users import BrokerUsers
from moorage.runtime.identities import kafka_identities
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
_PREFIX = "KAFKA_"
_OF_THE_PROGRAM = {"KAFKA_OPTS", "KAFKA_HEAP_OPTS"}


class _Administrator(BrokerUsers):
    """The broker has all its settings from compose. Only the administrator's password is known."""

    def __init__(self, password: str) -> None:
        super().__init__({})
        self._admin = password

    def properties(self, port: int, controller_port: int) -> dict[str, str]:  # noqa: ARG002 - compose names the ports
        return {}

    def client(self) -> dict[str, Any]:
        return {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": kafka_identities.USERS + kafka_identities.ADMIN,
            "sasl_plain_password": self._admin,
        }


def _service(name: str) -> dict[str, Any]:
    files = [yaml.safe_load((ROOT / name).read_text("utf-8")) for name in ("compose.yaml", "compose.secure.yaml")]
    found = [file["services"].get(name, {}) for file in files]
    environment = {**found[0].get("environment", {}), **found[1]["environment"]}
    return {**found[0], **found[1], "environment": environment}


async def test_the_setup_lets_each_container_in_as_its_own_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "secrets"
    made = await moorage("kafka", "passwords", "--for-containers", str(folder), env={})
    users = len(kafka_roles.roles()) + 2  # and the brokers, and their administrator
    assert (made.code, made.out) == (0, f"{users} passwords in {folder}\n")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o644}
    before = {file.name: file.read_text() for file in folder.iterdir()}
    assert (await moorage("kafka", "passwords", "--for-containers", str(folder), env={})).code == 0
    assert before == {file.name: file.read_text() for file in folder.iterdir()}

    internal, host, setup, controller = free_ports(4)

    def here(text: str) -> str:
        """Put addresses on this machine in place of those in containers."""
        places = {"kafka:19092": internal, ":19092": internal, ":9092": host, ":19093": setup, ":9093": controller}
        for place, port in places.items():
            text = text.replace(place, f"127.0.0.1:{port}" if place.startswith("kafka") else f":{port}")
        return text.replace("//:", "//127.0.0.1:").replace("/run/secrets/kafka-password", "PASSWORD")

    compose = _service("kafka")["environment"]
    properties = {
        name.removeprefix(_PREFIX).lower().replace("_", "."): here(str(value))
        for name, value in compose.items()
        if name not in _OF_THE_PROGRAM
    } | {"log.dirs": "data"}
    options = compose["KAFKA_OPTS"].replace("/run/secrets", str(folder))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", options)
    password = (folder / "admin.password").read_text().strip()
    async with EmbeddedKafka(tmp_path / "kafka", setup, settings=properties, users=_Administrator(password)):
        given = _service("kafka-setup")
        environment = {name: here(value) for name, value in given["environment"].items()}
        environment |= {"MOORAGE_KAFKA_PASSWORD_FILE": str(folder / "admin.password"), "MOORAGE_PARTITIONS": "2"}
        commands = [line for line in given["command"][0].splitlines() if line.startswith("moorage ")]
        assert len(commands) == 3
        for command in commands:
            words = shlex.split(command.replace("/run/secrets/kafka", str(folder)))[1:]
            done = await moorage(*words, env=environment)
            assert done.code == 0, f"{command}: {done.out}{done.err}"
        assert (await moorage("topics", "acls", "--check", env=environment)).code == 0
        for name in ("targets", "gateway"):
            container = {key: here(str(value)) for key, value in _service(name)["environment"].items() if value}
            fields: dict[str, Any] = {key.removeprefix("MOORAGE_").lower(): value for key, value in container.items()}
            fields |= {"kafka_password_file": str(folder / f"{name}.password"), "partitions": "2"}
            assert len(await ensure_topics(Settings(**fields))) == len(TOPICS)
    assert os.environ["JAVA_TOOL_OPTIONS"] == options
