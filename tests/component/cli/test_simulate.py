"""`moorage simulate`: the arguments that it accepts and refuses, and its output."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.component.cli.fake_gateway import invoke, said
from tests.component.simulation.copying import ProbedFleet
from tests.component.simulation.test_clusters import AVAILABLE, hub
from tests.support.tables import table

from moorage.cli.api import runfile
from moorage.cli.commands import simulate
from moorage.cli.flags import given
from moorage.cli.render import simulation
from moorage.insight.copy.snapshot import Snapshot, SnapshotError
from moorage.runtime.settings.process_settings import Settings


@pytest.fixture(scope="module")
def fleet() -> ProbedFleet:
    """Two nodes in each of two zones, four pods, and one pod that only fits zone a."""
    made = ProbedFleet({"a": 2, "b": 2})
    made.deploy("web", 4)
    made.deploy("picky", 1, 60, nodeSelector={"topology.kubernetes.io/zone": "a"})
    return made


@pytest.fixture(autouse=True)
def _copied(fleet: ProbedFleet, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take the copy from memory instead of Kafka."""
    seen: list[Settings] = []

    def load(settings: Settings, _progress: Any) -> Snapshot:
        seen.append(settings)
        return fleet.copy()

    monkeypatch.setenv("MOORAGE_BOOTSTRAP_SERVERS", "nowhere:9092")
    monkeypatch.setattr(simulate, "_load", load)
    yield
    assert all(settings.bootstrap_servers == "nowhere:9092" for settings in seen)


def asked(*words: str, code: int = 0, text: str | None = None) -> Any:
    """The answer as JSON."""
    result = invoke("simulate", *words, "-o", "json", text=text)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


@table(
    ("words", "problem"),
    [
        ((), "no change is given: use -f FILE"),
        (("--taint", "node/a1"), "--taint: invalid value 'node/a1': must be KIND/NAME=SPEC"),
        (("--taint", "a1=x:NoExecute"), "--taint: invalid value 'a1=x:NoExecute'"),
        (("--condition", "node/a1=Ready"), "--condition: invalid value 'node/a1=Ready': must be KIND/NAME=TYPE=STATUS"),
        (("--condition", "node/a1=Ready=Maybe"), "--condition: invalid value 'Maybe': must be True, False or Unknown"),
        (("--condition", "pod/a1=Ready=False"), "only nodes and clusters have conditions"),
        (("--outage", ""), "--outage: invalid outage ''"),
        (("--outage", "zone=a", "--outage-status", "True"), "must be Unknown or False"),
        (("--delete", "node"), "--delete: invalid value 'node': must be KIND/NAME or KIND/NAMESPACE/NAME"),
        (("--delete", "node/default/a1"), "nodes have no namespace"),
        (("--outage", "zone=a", "--for", "soon"), "--for: invalid duration 'soon'"),
        (("--outage", "zone=a", "--for", "-5m"), "--for: invalid duration '-5m'"),
        (("--outage", "zone=a", "--for", "9e15h"), "--for: invalid duration '9e15h'"),
        (("--outage", "zone=a", "--for", "99999999999h"), "must be at most 365000d"),
        (("--condition", "node/a1=Re ady=False"), "--condition: invalid value 'node/a1=Re ady=False': type: "),
        (("--outage", "zone=a", "--node-eviction-rate=fast"), "--node-eviction-rate: invalid value 'fast'"),
    ],
)
def test_what_cannot_be_understood_is_a_usage_error(words: tuple[str, ...], problem: str) -> None:
    code, out, err = said(invoke("simulate", *words))
    assert (code, out) == (2, "")
    assert problem in err


@table(
    ("words", "problem"),
    [
        (("--taint", "node/a1=x:Whatever"), "invalid taint effect: Whatever, unsupported taint effect"),
        (("--taint", "node/a1=x-"), 'taint "x" not found'),
        (("--taint", "node/z9=x:NoExecute"), 'Error from server (NotFound): nodes "z9" not found'),
        (("--taint", "pod/x=x:NoExecute"), "invalid resource type pod"),
        (("--delete", "evictions/x"), "are written by the services and cannot be deleted"),
        (("--delete", "node/z9"), 'Error from server (NotFound): nodes "z9" not found'),
        (("--condition", "node/z9=Ready=False"), "must be a declared target"),
        (("--outage", "zone=z"), "--outage zone=z: no node or cluster matches"),
        (("-f", "no-such-file.yaml"), 'the path "no-such-file.yaml" does not exist'),
    ],
)
def test_what_cannot_be_done_is_told_as_the_other_commands_tell_it(words: tuple[str, ...], problem: str) -> None:
    code, out, err = said(invoke("simulate", *words))
    assert (code, out) == (1, "")
    assert problem in err


def test_a_file_is_applied_as_apply_does_it(tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a3", "labels": {"topology.kubernetes.io/zone": "a"}},
    }
    old = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a1"},
        "spec": {"taints": [{"key": "x", "effect": "NoExecute"}]},
    }
    file = tmp_path / "change.yaml"
    file.write_text(yaml.dump_all([node, old]))
    found = asked("-f", str(file))
    assert sorted(found["changes"]) == ["node/a1 configured", "node/a3 created"]
    assert {one["target"] for one in found["leaving"]} == {"Node/a1"}
    refused = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "Not A Name"}}
    code, out, err = said(invoke("simulate", "-f", "-", text=yaml.dump(refused)))
    assert (code, out) == (1, "")
    assert "metadata.name" in err


def test_several_changes_are_one() -> None:
    words = ("--taint", "node/a1=x=y:NoExecute", "--taint", "no/a1=z:NoSchedule", "--condition", "node/b1=Ready=false")
    found = asked(*words, "--delete", "deployment/picky")
    assert found["changes"] == [
        "deployment.apps/picky deleted",
        "node/a1 tainted",
        "node/b1 reported Ready=False",
    ]
    added = {one["target"]: [taint["taint"] for taint in one["added"]] for one in found["targets"]}
    assert added["Node/a1"] == ["x=y:NoExecute", "z:NoSchedule"]
    assert added["Node/b1"] == ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"]
    (gone,) = [one for one in found["decisions"] if one["owner"] == "Deployment/default/picky"]
    assert (gone["to"], gone["reason"]) == (None, "Deleted")


def test_settings_are_taken_as_run_takes_them() -> None:
    slow = asked("--outage", "zone=a", "--for", "10m", "--node-eviction-rate", "0")
    assert slow["leaving"] == []
    assert slow["summary"]["waiting"] == 2
    fast = asked("--outage", "zone=a", "--for", "10m", "--node-eviction-rate=inf")
    assert len({one["at"] for one in fast["leaving"] if "web" in one["workload"]}) == 1


def test_the_settings_of_a_moorage_that_runs_here_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path))
    settings = given(Settings(node_eviction_rate=0, feature_gates="Failover=true"))
    started = "2026-01-01T00:00:00Z"
    with runfile.claimed():
        runfile.write(runfile.Running(os.getpid(), "http://127.0.0.1:1", "nowhere:9092", "moorage", started, settings))
        found = asked("--outage", "zone=a")
        assert found["settings"] == {"feature_gates": "Failover=true", "node_eviction_rate": "0"}
        assert found["leaving"] == []
        assert asked("--outage", "zone=a", "--node-eviction-rate=inf")["settings"]["node_eviction_rate"] == "inf"
        monkeypatch.setenv("MOORAGE_NODE_EVICTION_RATE", "0.1")
        assert asked("--outage", "zone=a")["settings"] == {"feature_gates": "Failover=true"}
        monkeypatch.delenv("MOORAGE_NODE_EVICTION_RATE")
        runfile.write(
            runfile.Running(os.getpid(), "http://127.0.0.1:1", "elsewhere:9092", "moorage", started, settings)
        )
        assert asked("--outage", "zone=a")["settings"] == {}


def test_the_tables() -> None:
    code, out, err = said(invoke("simulate", "--outage", "zone=a"))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("Simulated 60m from 2026-01-01T")
    assert lines[0].endswith("on a copy; nothing was changed.")
    assert "  outage of zone=a: node/a1, node/a2 Unknown" in lines
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Change:", "Taints:", "Zones:", "Leaving:", "Decisions:", "Nowhere to go:"]
    (lost,) = [line for line in lines if "0/4 nodes are available" in line]
    assert "node/a" in lost
    assert lines[-1].startswith("2 targets change their taints, 3 workloads leave, 2 go elsewhere, 1 has nowhere to go")
    assert any("zone /a until 5s" in line for line in lines)


def test_only_what_can_be_written_is_a_format() -> None:
    code, out, err = said(invoke("simulate", "--outage", "zone=a", "-o", "name"))
    assert (code, out) == (2, "")
    assert "'name' is not one of 'table', 'wide'" in err


def test_what_a_deleted_owner_takes_with_it_is_counted() -> None:
    code, out, _ = said(invoke("simulate", "--delete", "deployment/web"))
    assert code == 0
    assert out.endswith("\n4 workloads are deleted.\n")


def test_no_difference_is_said() -> None:
    code, out, _ = said(invoke("simulate", "--condition", "node/a1=DiskFull=False"))
    assert code == 0
    assert out.endswith("The change makes no difference in this time.\n")


def test_long_tables_are_cut_unless_every_row_is_wanted() -> None:
    row = {
        "workload": "Pod/x/p",
        "from": None,
        "to": {"state": "Placed", "targets": ["Node/n"]},
        "at": None,
        "reason": "R",
    }
    counts = dict.fromkeys(
        ("targets", "waiting", "leaving", "scheduled", "held", "spared", "moved", "placed", "nowhere", "deleted"), 0
    )
    whole = {
        "taken": "2026-01-01T00:00:00Z",
        "until": "2026-01-01T01:00:00Z",
        "quiet": False,
        "changes": ["c"],
        "unreadable": 2,
        "settings": {"node_eviction_rate": "1"},
        "summary": {**counts, "placements": 0, "decisions": 30},
        "decisions": [row] * 30,
        **{name: [] for name in ("targets", "zones", "leaving", "spared", "nowhere", "placements")},
    }
    short = simulation.text(whole, every=False)
    assert "… and 10 more (-o wide shows every row)" in short
    assert "Left out: 2 records that cannot be read." in short
    assert "Settings: --node-eviction-rate=1\n" in short
    assert "After this time something is still on its way." in short
    assert simulation.text(whole, every=True).count("pod/x/p") == 30


def test_without_kafka_or_topics_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("MOORAGE_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    code, out, err = said(invoke("simulate", "--outage", "zone=a"))
    assert (code, out) == (1, "")
    assert "Kafka at 127.0.0.1:1 does not answer" in err

    async def none(*_: Any, **__: Any) -> Snapshot:
        raise SnapshotError("no such topic: moorage.taints.v1")

    monkeypatch.setattr(Snapshot, "load", none)
    code, out, err = said(invoke("simulate", "--outage", "zone=a"))
    assert (code, out) == (1, "")
    assert "no such topic: moorage.taints.v1" in err
    assert "moorage topics apply" in err


def test_managed_clusters_and_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    made = hub()
    monkeypatch.setattr(simulate, "_load", lambda _settings, _progress: made.copy())
    words = (
        "simulate",
        "--taint",
        "managedcluster/a1=gone:NoSelect",
        "--condition",
        f"managedcluster/a2={AVAILABLE}=False",
    )
    code, out, err = said(invoke(*words))
    assert (code, err) == (0, "")
    assert "  managedcluster.cluster.open-cluster-management.io/a1 tainted" in out.splitlines()
    (row,) = [line.split() for line in out.splitlines() if "placement/default/p" in line]
    assert row[:7] == ["placement/default/p", "2", "→", "1", "b1", "a1,", "a2"]
    assert out.endswith("2 targets change their taints, 1 placement selects otherwise.\n")
