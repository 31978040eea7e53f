"""`moorage topics acls` without a Kafka, and `moorage up --secure-kafka` as it is set up."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import yaml
from tests.component.cli.fake_gateway import Run, said

from moorage.cli.api import endpoints
from moorage.cli.commands.up import secured
from moorage.cli.errors import CliError
from moorage.cli.local import services
from moorage.cli.local.stack import Stack
from moorage.runtime.chains import CHAINS
from moorage.runtime.identities import kafka_identities
from moorage.runtime.settings.process_settings import Settings


def test_the_permissions_of_a_role_are_shown(run: Run) -> None:
    code, out, err = said(run("topics", "acls", "probe"))
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["PRINCIPAL", "RESOURCE", "NAME", "OPERATION"],
        ["User:moorage-probe", "Topic", "moorage.condition-reports.v1", "Write"],
    ]


def test_the_same_as_documents_and_as_commands_of_kafkas_tool(run: Run) -> None:
    words = ("topics", "acls", "timer", "--principal-prefix", "User:CN=")
    as_json = json.loads(said(run(*words, "-o", "json"))[1])
    assert yaml.safe_load(said(run(*words, "-o", "yaml"))[1]) == as_json
    ids = {"principal": "User:CN=timer", "resource": "TransactionalId", "name": "moorage.timer.*", "operation": "Write"}
    assert ids in as_json["items"]
    commands = said(run(*words, "-o", "commands"))[1].splitlines()
    tool = "kafka-acls --bootstrap-server localhost:9092 --command-config admin.properties --add"
    assert all(command.startswith(f"{tool} --allow-principal 'User:CN=timer' --operation ") for command in commands)
    assert f"{tool} --allow-principal 'User:CN=timer' --operation DescribeConfigs --cluster" in commands
    assert any(one.endswith("--transactional-id 'moorage.timer.' --resource-pattern-type prefixed") for one in commands)
    assert any("--operation Read --operation Write --topic 'moorage.timer-fired.v1'" in one for one in commands)


def test_the_same_as_users_of_strimzi(run: Run) -> None:
    words = ("topics", "acls", "timer", "probe", "-o", "strimzi", "--strimzi-cluster", "main")
    probe, timer = yaml.safe_load_all(said(run(*words))[1])
    assert probe == {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaUser",
        "metadata": {"name": "moorage-probe", "labels": {"strimzi.io/cluster": "main"}},
        "spec": {
            "authentication": {"type": "tls"},
            "authorization": {
                "type": "simple",
                "acls": [
                    {
                        "resource": {
                            "type": "topic",
                            "name": "moorage.condition-reports.v1",
                            "patternType": "literal",
                        },
                        "operations": ["Write"],
                    }
                ],
            },
        },
    }
    rules = timer["spec"]["authorization"]["acls"]
    assert {"resource": {"type": "cluster"}, "operations": ["DescribeConfigs"]} in rules
    every = {"type": "topic", "name": "moorage.", "patternType": "prefix"}
    assert {"resource": every, "operations": ["Describe", "DescribeConfigs"]} in rules
    ids = {"type": "transactionalId", "name": "moorage.timer.", "patternType": "prefix"}
    assert {"resource": ids, "operations": ["Write"]} in rules


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-o", "strimzi", "--check"), "-o strimzi: not with --check or --apply"),
        (("nobody",), "role 'nobody' does not exist: expected one of condition-ingest, "),
        (("--prune",), "--prune: only with --apply"),
        (("--apply", "--check"), "--apply: only one of it and --check"),
        (
            ("--principal-prefix", "moorage-"),
            "--principal-prefix: invalid value 'moorage-': must be like",
        ),
    ],
)
def test_what_is_wrong_is_told(run: Run, words: tuple[str, ...], told: str) -> None:
    code, _, err = said(run("topics", "acls", *words))
    assert code == 2
    assert told in err


def test_each_process_of_up_is_a_user_of_its_own(tmp_path: Path) -> None:
    kafka = secured(tmp_path)
    users_of_broker = kafka.broker_users()
    specs = Stack(Settings(), tmp_path, print, together=True, secure_kafka=kafka)._specs(Settings(), 1)
    users = {spec.name: spec.environment["MOORAGE_KAFKA_USERNAME"] for spec in specs}
    assert users == {spec.name: f"moorage-{spec.name}" for spec in specs}
    assert sorted(users) == ["gateway", "governor", "placement", "query", "targets", "webhooks"]
    arguments = next(spec.arguments for spec in specs if spec.name == "targets")
    assert arguments[-4:] == ("condition-ingest", "taint-manager", "eviction", "timer")
    apart = Stack(Settings(), tmp_path, print, secure_kafka=kafka)._specs(Settings(), 1)
    named = {spec.name: spec.environment["MOORAGE_KAFKA_USERNAME"] for spec in apart}
    assert named == {name: f"moorage-{name}" for name in (*services.names(), "webhooks", "query", "gateway")}
    passwords = {Path(spec.environment["MOORAGE_KAFKA_PASSWORD_FILE"]).read_text().strip() for spec in specs}
    assert len(passwords) == len(specs), "each has a password of its own"
    assert not [name for spec in specs for name, value in spec.environment.items() if value in passwords]
    folder = kafka_identities.folder_in(tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    properties = "\n".join(f"{name}={value}" for name, value in users_of_broker.properties(1, 2).items())
    assert not [password for password in passwords if password in properties]
    assert "allow.everyone.if.no.acl.found=false" in properties
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    secured(tmp_path).broker_users()
    assert before == {file.name: file.read_bytes() for file in folder.iterdir()}, "a restart keeps the passwords"


def test_it_is_only_for_the_embedded_kafka(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_BOOTSTRAP_SERVERS", "elsewhere:9092")
    code, _, err = said(run("up", "--secure-kafka"))
    assert code == 2
    assert "--secure-kafka: only for the embedded Kafka" in err


def test_a_process_is_the_user_of_its_chain_or_of_its_first_service(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []

    def noted(_: object, *, kafka_role: str) -> Settings:
        chosen.append(kafka_role)
        raise CliError("no Kafka is needed")

    monkeypatch.setattr(endpoints, "kafka_settings", noted)
    for chain, members in CHAINS.items():
        assert run("run", *members).exit_code == 1
        assert run("run", *reversed(members)).exit_code == 1
        assert run("run", *members[1:]).exit_code == 1
        assert chosen == [chain, chain, members[1]]
        *others, last = members
        shown = " ".join(said(run("run", "--help"))[1].split()).replace("- ", "-")
        assert f"{', '.join(others)} and {last} together run as a chain" in shown
