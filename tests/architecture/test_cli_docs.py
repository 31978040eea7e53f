"""The command line agrees with its help and the documentation."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.tables import table
from typer.testing import CliRunner

from moorage.cli.api.kinds import of_object
from moorage.cli.app import COMMANDS, app, load

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"(?:^|[`$\s/])moorage ((?:[a-z-]+ ?)+)")
DOCUMENTS = [
    path for path in (ROOT / "README.md", *ROOT.glob("examples/*.md"), *ROOT.glob("docs/**/*.md")) if path.is_file()
]


@table("name", COMMANDS)
def test_the_line_in_the_help_is_that_of_the_command(name: str) -> None:
    command: Any = load(name)
    assert (command.help or "").splitlines()[0] == COMMANDS[name].help


@table("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0, result.output
    for parameter in load(name).params:
        # Arguments are shown by their metavar. Options need a description.
        assert parameter.param_type_name == "argument" or parameter.help, f"{name} {parameter.name} has no help"


@table("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_documents_exist(document: Path) -> None:
    for line in document.read_text("utf-8").splitlines():
        if not (line.startswith(("    ", "$ ")) or "`moorage " in line):
            continue
        for words in COMMAND.findall(
            line if line.startswith(("    ", "$ ")) else " ".join(re.findall(r"`([^`]*)`", line))
        ):
            first = words.split()[0]
            assert first.startswith("-") or first in COMMANDS, f"{document.name}: moorage {words}"


def test_the_fleet_is_what_the_issue_of_the_demo_asks_for() -> None:
    documents = [
        document
        for file in sorted((ROOT / "examples" / "fleet").glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text("utf-8"))
    ]
    nodes = [one for one in documents if one["kind"] == "Node"]
    zones = {one["metadata"]["labels"]["topology.kubernetes.io/zone"] for one in nodes}
    pods = sum(
        {"Pod": 1, "DaemonSet": len(nodes)}.get(one["kind"], one.get("spec", {}).get("replicas", 0))
        for one in documents
    )
    assert (len(nodes), len(zones), pods) == (20, 3, 60)
    assert all(of_object(one["apiVersion"], one["kind"]) for one in documents)
    assert {"Deployment", "StatefulSet", "DaemonSet", "Pod"} <= {one["kind"] for one in documents}


def test_the_examples_of_clusters_are_of_every_kind_that_they_are_for() -> None:
    documents = [
        document
        for file in sorted((ROOT / "examples" / "karmada").rglob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text("utf-8"))
    ]
    assert all(of_object(one["apiVersion"], one["kind"]) for one in documents)
    assert {one["kind"] for one in documents} >= {
        *("Cluster", "ClusterTaintPolicy", "PropagationPolicy", "ClusterPropagationPolicy", "MachineSet"),
        *("EvictionBudget", "EvictionPause", "PodDisruptionBudget", "Deployment", "ConfigMap"),
    }
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in documents]
    assert len(set(names)) == len(names)


def test_what_the_readme_of_the_examples_types_is_understood() -> None:
    lines = (ROOT / "examples" / "README.md").read_text("utf-8").splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("    moorage ")]
    assert any(words[0] == "pause" for words in commands)
    for name, *rest in commands:
        # Only parse: an unknown or missing option is an error here.
        load(name).make_context(name, list(rest))


@pytest.mark.parametrize("example", ["probe.py", "deployer.py"])
def test_the_example_probe_and_deployer_need_the_sdk_only(example: str) -> None:
    tree = ast.parse((ROOT / "examples" / example).read_text("utf-8"))
    modules = {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    modules |= {
        name.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    assert modules - set(sys.stdlib_module_names) <= {"moorage_sdk", "moorage_schemas", "pydantic"}  # the SDK's own


def test_main_stays_light() -> None:
    import moorage.cli  # noqa: PLC0415 - the module under test

    imports = [line for line in inspect.getsource(moorage.cli).splitlines() if re.match(r"(from|import) ", line)]
    assert imports == ["from __future__ import annotations"]
