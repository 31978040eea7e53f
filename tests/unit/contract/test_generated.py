"""The generated contract matches the models, and is complete and well formed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator
from typer import Typer
from typer.testing import CliRunner

import moorage_schemas
from moorage.apiserver.kinds import kind as kinds
from moorage.cli.commands import schemas as command
from moorage.cli.commands.schemas import contract_folder, differences, generated, parsed, read_schemas
from moorage.cli.contract.kafka_roles import participants, service_classes
from moorage_schemas.topics import CONDITION_REPORTS, PARTITIONS, TOPICS


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return generated()


@pytest.fixture(scope="module")
def asyncapi(made: dict[str, str]) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(made["asyncapi.yaml"])
    return document


def test_committed_files_are_the_generated_ones(made: dict[str, str]) -> None:
    assert differences(contract_folder() / "generated", made) == [], "run `make schemas`"


def test_generating_twice_gives_the_same_text(made: dict[str, str]) -> None:
    assert generated() == made


def test_there_is_a_schema_for_every_event_and_kind(made: dict[str, str]) -> None:
    assert set(made) == {
        "asyncapi.yaml",
        *(f"events/{topic.event_type}.json" for topic in TOPICS),
        *(f"resources/{kind.kind}.json" for kind in kinds.declared()),
    }


def test_every_schema_is_valid_and_its_references_resolve(made: dict[str, str]) -> None:
    for name, schema in parsed(made).items():
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema", name
        _resolve_all(schema)


def test_every_field_of_an_event_that_has_a_docstring_is_described(made: dict[str, str]) -> None:
    tainted = parsed(made)["events/io.moorage.target.tainted.v1.json"]
    assert "ignores what is not newer" in tainted["properties"]["generation"]["description"]
    assert "in the order" in tainted["properties"]["taints"]["description"].lower()


@pytest.mark.parametrize("kind", kinds.declared(), ids=lambda kind: kind.kind)
def test_resource_schema_takes_the_smallest_object_and_no_other_kind(kind: Any, made: dict[str, str]) -> None:
    validator = Draft202012Validator(parsed(made)[f"resources/{kind.kind}.json"])
    smallest: dict[str, Any] = {"apiVersion": kind.api_versions[0], "kind": kind.kind, "metadata": {"name": "a"}}
    if kind.kind == "DedicatedNodes":
        smallest["spec"] = {"value": "groupA"}
    kind.model.model_validate(smallest)
    assert validator.is_valid(smallest)
    assert not validator.is_valid({**smallest, "kind": "Planet"})
    assert not validator.is_valid({**smallest, "apiVersion": "v99"})
    assert not validator.is_valid({**smallest, "metadata": {"name": 7}})


def test_asyncapi_names_every_topic_with_its_settings(asyncapi: dict[str, Any]) -> None:
    assert asyncapi["asyncapi"] == "3.0.0"
    assert list(asyncapi["channels"]) == [topic.short for topic in TOPICS]
    for topic in TOPICS:
        channel = asyncapi["channels"][topic.short]
        binding = channel["bindings"]["kafka"]
        assert channel["address"] == binding["topic"] == topic.name()
        assert binding["partitions"] == PARTITIONS
        assert binding["topicConfiguration"]["cleanup.policy"] == [topic.cleanup.value]
        assert {name: _text(value) for name, value in binding["topicConfiguration"].items()} == topic.config()
        assert channel["x-partitioned-by"] == topic.partition_by


def test_asyncapi_references_resolve(asyncapi: dict[str, Any]) -> None:
    assert _resolve_all(asyncapi) > 100
    for channel in asyncapi["channels"].values():
        (message,) = channel["messages"].values()
        resolved = _lookup(asyncapi, message["$ref"])
        assert resolved["payload"]["$ref"].startswith("#/components/schemas/")
        assert resolved["bindings"]["kafka"]["key"]["type"] == "string"


def test_asyncapi_payloads_are_schemas_of_both_drafts(asyncapi: dict[str, Any]) -> None:
    for schema in asyncapi["components"]["schemas"].values():
        Draft7Validator.check_schema(schema)  # what AsyncAPI 3 reads if no other format is named
        Draft202012Validator.check_schema(schema)


def test_asyncapi_payloads_take_what_the_schemas_of_the_events_take(asyncapi: dict[str, Any]) -> None:
    schemas = asyncapi["components"]["schemas"]
    closed = {name for name, schema in schemas.items() if schema.get("additionalProperties") is False}
    assert closed == {"ConditionReported", "ConditionReported.TargetRef", "ConditionReported.WorkloadRef"}
    assert schemas["ConditionReported"]["properties"]["target"]["$ref"].endswith("/ConditionReported.TargetRef")
    assert {"TargetRef", "WorkloadRef"} <= set(schemas)


def test_asyncapi_headers_are_the_envelopes(asyncapi: dict[str, Any]) -> None:
    headers = asyncapi["components"]["schemas"]["CloudEventHeaders"]
    validator = Draft202012Validator(headers)
    assert validator.is_valid({"ce_specversion": "1.0", "ce_id": "a", "ce_source": "s", "ce_type": "t"})
    assert not validator.is_valid({"ce_specversion": "1.0", "ce_id": "", "ce_source": "s", "ce_type": "t"})
    assert not validator.is_valid({"ce_specversion": "0.3", "ce_id": "a", "ce_source": "s", "ce_type": "t"})


def test_asyncapi_operations_are_the_services(asyncapi: dict[str, Any]) -> None:
    operations = asyncapi["operations"]
    for service in service_classes():
        for topic in service.sources:
            assert operations[f"{service.name}.consumes.{topic.short}"]["action"] == "receive"
        for topic in service.changelogs:
            assert operations[f"{service.name}.sends.{topic.short}"]["action"] == "send"
    for operation in operations.values():
        assert operation["channel"]["$ref"].removeprefix("#/channels/") in asyncapi["channels"]
    assert [one.name for one in participants()][-3:] == ["webhooks", "query", "gateway"]
    assert len(participants()) == len(list(service_classes())) + 3
    assert not any(name.startswith("query.sends.") for name in operations)


def test_every_topic_has_a_writer_among_the_services_and_a_reader(asyncapi: dict[str, Any]) -> None:
    sent = {one["channel"]["$ref"] for one in asyncapi["operations"].values() if one["action"] == "send"}
    assert sent == {f"#/channels/{topic.short}" for topic in TOPICS}
    consumed = {name.rpartition(".")[2] for name in asyncapi["operations"] if ".consumes." in name}
    assert CONDITION_REPORTS.short in consumed


def test_check_passes_on_a_clean_tree_and_names_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Typer()
    app.command()(command.schemas)
    folder = checkout(tmp_path)
    shutil.copytree(contract_folder() / "generated", folder / "generated")
    shutil.copytree(contract_folder() / "baseline", folder / "baseline")
    monkeypatch.setattr(command, "contract_folder", lambda: folder)
    runner = CliRunner()
    assert runner.invoke(app, ["--check"]).exit_code == 0

    drifted = folder / "generated" / "resources" / "Node.json"
    drifted.write_text("{}", "utf-8")
    (folder / "generated" / "stray.json").write_text("{}", "utf-8")
    (tmp_path / command.TYPES).write_text("", "utf-8")
    found = runner.invoke(app, ["--check"])
    assert found.exit_code == 1
    assert "resources/Node.json: differs" in found.stderr
    assert "stray.json: differs" in found.stderr
    assert f"{command.TYPES}: differs" in found.stderr

    assert runner.invoke(app, []).exit_code == 0
    assert runner.invoke(app, ["--check"]).exit_code == 0
    assert not (folder / "generated" / "stray.json").exists()


def checkout(root: Path) -> Path:
    """The parts of a checkout that the command writes to. Returns the folder of the contract."""
    types = root / command.TYPES
    types.parent.mkdir(parents=True)
    shutil.copy(contract_folder().parent / command.TYPES, types)
    (root / "schemas").mkdir()
    return root / "schemas"


def test_release_makes_the_baseline_and_refuses_a_breaking_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Typer()
    app.command()(command.schemas)
    folder = checkout(tmp_path)
    monkeypatch.setattr(command, "contract_folder", lambda: folder)
    runner = CliRunner()
    assert runner.invoke(app, ["--release"]).exit_code == 0
    assert read_schemas(folder / "baseline") == parsed(generated())

    released = folder / "baseline" / "events" / "io.moorage.timer.set.v1.json"
    older = released.read_text("utf-8").replace('"properties": {', '"properties": {"colour": {"type": "string"},', 1)
    released.write_text(older, "utf-8")
    refused = runner.invoke(app, ["--release"])
    assert refused.exit_code == 1
    assert "colour: the field was removed" in refused.stderr
    assert released.read_text("utf-8") == older


def test_schemas_are_generated_in_a_checkout_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moorage_schemas, "__file__", str(tmp_path / "moorage_schemas" / "__init__.py"))
    app = Typer()
    app.command()(command.schemas)
    refused = CliRunner().invoke(app, [], env={"COLUMNS": "400"})  # the box must not break the sentence
    assert refused.exit_code == 2
    assert "is not a checkout of Moorage" in refused.stderr


def _resolve_all(document: dict[str, Any]) -> int:
    count = 0
    waiting: list[Any] = [document]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                _lookup(document, node["$ref"])
                count += 1
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return count


def _lookup(document: dict[str, Any], reference: str) -> Any:
    found: Any = document
    assert reference.startswith("#/"), reference
    for part in reference.removeprefix("#/").split("/"):
        found = found[part.replace("~1", "/").replace("~0", "~")]
    return found


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)
