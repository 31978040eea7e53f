"""`get`, `describe`, `apply`, `edit`, `delete` and `simulate` of the fleet's configuration on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.component.cli.fake_gateway import FakeGateway, Run, invoke, said, status
from tests.component.simulation.copying import ProbedFleet

from moorage.apiserver.writing.configuration import first_configuration
from moorage.cli.commands import simulate
from moorage.insight.copy.snapshot import Snapshot
from moorage.runtime.settings.moorage_configuration import spec_of
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.configuration import ConfigurationChanged
from moorage_schemas.topics import CONFIGURATION, FLEET

ONE = "/apis/moorage.io/v1alpha1/moorageconfigurations/cluster"


@pytest.fixture
def configured(gateway: FakeGateway) -> FakeGateway:
    found = first_configuration(Settings(node_eviction_rate=float("inf"), feature_gates="Failover=true"))
    gateway.put(ONE, {**found, "metadata": {"name": "cluster", "generation": 3}})
    return gateway


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize("word", ["mc", "moorageconfiguration", "moorageconfigurations", "MoorageConfiguration"])
def test_get(run: Run, word: str) -> None:
    code, out, err = said(run("get", word))
    assert (code, err) == (0, "")
    head, row = (line.split() for line in out.splitlines())
    assert head == ["NAME", "GENERATION", "FAILOVER", "NODE-RATE", "RESOURCE-RATE", "AGE"]
    assert row == ["cluster", "3", "true", "inf", "0.5", "<unknown>"]


@pytest.mark.usefixtures("configured")
def test_get_and_describe_show_every_field(run: Run) -> None:
    found = yaml.safe_load(run("get", "mc", "cluster", "-o", "yaml").stdout)
    assert set(found["spec"]) == set(spec_of(Settings()).model_dump(mode="json"))
    text = run("describe", "mc", "cluster").stdout
    assert all(field in text for field in found["spec"])


def test_apply_changes_only_what_the_file_says(configured: FakeGateway, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mc.yaml"
    document = {
        "apiVersion": "moorage.io/v1alpha1",
        "kind": "MoorageConfiguration",
        "metadata": {"name": "cluster"},
        "spec": {"taintAddHold": "30s"},
    }
    file.write_text(yaml.safe_dump(document))
    assert said(run("apply", "-f", str(file)))[:2] == (0, "moorageconfiguration.moorage.io/cluster configured\n")
    spec = configured.objects[ONE]["spec"]
    assert (spec["taintAddHold"], spec["nodeEvictionRate"]) == ("30s", "inf")


def test_edit(configured: FakeGateway, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/taintAddHold: 0s/taintAddHold: 1m/' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    code, out, _ = said(run("edit", "moorageconfiguration", "cluster"))
    assert (code, out) == (0, "moorageconfiguration.moorage.io/cluster edited\n")
    assert configured.objects[ONE]["spec"]["taintAddHold"] == "1m"


def test_a_refused_delete_says_why(configured: FakeGateway, run: Run) -> None:
    why = "the services decide by it; change it instead"
    configured.refuse[f"DELETE {ONE}"] = status(403, "Forbidden", why)
    code, _, err = said(run("delete", "mc", "cluster"))
    assert code == 1
    assert why in err


# simulate


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> ProbedFleet:
    """A fleet whose configuration stops taints that evict, with its copy in memory instead of Kafka."""
    fleet = ProbedFleet({"a": 2, "b": 2})
    spec = spec_of(Settings(node_eviction_rate=0, node_monitor_grace_period=0))
    event = ConfigurationChanged(uid="u", generation=7, spec=spec)
    fleet.flow.produce(CONFIGURATION, "cluster", event, partition_key=FLEET)
    fleet.flow.run()

    def load(_settings: Settings, _progress: Any) -> Snapshot:
        return fleet.copy()

    monkeypatch.setenv("MOORAGE_BOOTSTRAP_SERVERS", "nowhere:9092")
    monkeypatch.setattr(simulate, "_load", load)
    return fleet


def tainted(*words: str) -> list[str]:
    result = invoke("simulate", "--condition", "node/a1=Ready=False", *words, "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    return [entry["target"] for entry in found["targets"] if "NoExecute" in json.dumps(entry["added"])]


@pytest.mark.usefixtures("copied")
def test_a_copy_decides_by_the_configuration_and_flags_change_it() -> None:
    assert tainted("--for", "10m") == []
    assert tainted("--for", "10m", "--node-eviction-rate=inf") != []


@pytest.mark.usefixtures("copied")
def test_a_copy_shows_what_another_configuration_would_do(tmp_path: Path) -> None:
    file = tmp_path / "mc.yaml"
    document = first_configuration(Settings(node_eviction_rate=float("inf"), node_monitor_grace_period=0))
    file.write_text(yaml.safe_dump(document))
    assert tainted("--for", "10m", "-f", str(file)) != []
