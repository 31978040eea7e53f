"""Shell completion, requested in the same way as by bash: with the environment variables of its completion."""

from __future__ import annotations

import os
import shlex
import socket
import threading
from pathlib import Path

import pytest
from tests.component.cli.fake_gateway import FakeGateway
from typer.testing import CliRunner

from moorage.cli import completion
from moorage.cli.app import app
from moorage.cli.local import services

STATUSES = ["True", "False", "Unknown"]
OWN = "/apis/moorage.io/v1alpha1"


def offered(line: str) -> list[str]:
    """The completions that bash gets at the end of a line."""
    words = shlex.split(line)
    last = len(words) if line.endswith(" ") else len(words) - 1
    asked = {"_MOORAGE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(last)}
    result = CliRunner().invoke(app, [], env=asked, prog_name="moorage")
    assert (result.exit_code, result.stderr) == (0, ""), line
    return result.stdout.split()


@pytest.fixture
def fleet(gateway: FakeGateway) -> FakeGateway:
    for name in ("a1", "a2", "b1"):
        gateway.node(name)
    for namespace in ("default", "shop"):
        gateway.put(f"/api/v1/namespaces/{namespace}", {"metadata": {"name": namespace}})
        pod = {"metadata": {"name": f"{namespace}-web", "namespace": namespace}}
        gateway.put(f"/api/v1/namespaces/{namespace}/pods/{namespace}-web", pod)
    gateway.put(f"{OWN}/zones/eu.1", {"metadata": {"name": "eu.1"}})
    gateway.put("/apis/cluster.karmada.io/v1alpha1/clusters/m1", {"metadata": {"name": "m1"}})
    managed = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
    gateway.put(f"{managed}/bergen", {"metadata": {"name": "bergen"}})
    return gateway


@pytest.mark.parametrize(
    ("line", "words"),
    [
        # kinds
        ("moorage get nod", ["nodes"]),
        ("moorage get pods,nod", ["pods,nodes"]),
        ("moorage describe evictionb", ["evictionbudgets"]),
        ("moorage taint ", ["node", "cluster", "managedcluster"]),
        ("moorage taint no", ["node"]),
        ("moorage report c", ["cluster/"]),
        ("moorage simulate --delete deploy", ["deployment/"]),
        ("moorage pause ", ["evictions"]),
        # names
        ("moorage get nodes ", ["a1", "a2", "b1"]),
        ("moorage get nodes a1 a", ["a2"]),
        ("moorage get node/a", ["node/a1", "node/a2"]),
        ("moorage describe no b", ["b1"]),
        ("moorage describe zone ", ["eu/1"]),
        ("moorage taint node b", ["b1"]),
        ("moorage taint managedcluster ", ["bergen"]),
        ("moorage cordon a", ["a1", "a2"]),
        ("moorage adm ta", ["taint"]),
        ("moorage adm taint node b", ["b1"]),
        ("moorage cordon cl", ["cluster"]),
        ("moorage cordon cluster ", ["m1"]),
        ("moorage report node/b", ["node/b1"]),
        ("moorage report node/a1 Mem", [f"MemoryPressure={status}" for status in STATUSES]),
        ("moorage report node/a1 Ready=F", ["Ready=False"]),
        ("moorage report node/a1 Ready = F", ["False"]),  # as bash splits it
        ("moorage report node/a1 Ready =", STATUSES),
        ("moorage report cluster/m1 ", [f"Ready={status}" for status in STATUSES]),
        (
            "moorage report managedcluster/bergen M",
            [f"ManagedClusterConditionAvailable={status}" for status in STATUSES],
        ),
        ("moorage report pod/web --on node/a1 H", [f"Healthy={status}" for status in STATUSES]),
        ("moorage explain pod default", ["default-web", "default/"]),
        ("moorage explain pod sh", ["shop/"]),
        ("moorage explain pod shop/", ["shop/shop-web"]),
        ("moorage explain dep", ["deployments"]),
        ("moorage pause evictions --scope n", ["namespace="]),
        ("moorage explain pod x --node b", ["b1"]),
        ("moorage explain pod x --cluster ", ["m1", "bergen"]),
        ("moorage delete pod ", ["default-web"]),
        ("moorage delete pod -n shop ", ["shop-web"]),
        ("moorage delete -n shop pod/", ["pod/shop-web"]),
        ("moorage get pods -A ", ["default-web", "shop-web"]),
        # namespaces, topics, services
        ("moorage get pods -n ", ["default", "shop"]),
        ("moorage apply --namespace sh", ["shop"]),
        ("moorage watch place", ["placements"]),
        ("moorage watch zones zone", ["zone-members", "zone-grants"]),
        ("moorage run ti", ["timer"]),
        ("moorage replay --service condition", ["condition-ingest"]),
        # what the parser knows by itself
        ("moorage describ", ["describe"]),
        ("moorage get nodes -o y", ["yaml"]),
        ("moorage kafka st", ["status"]),
    ],
)
def test_what_is_offered(fleet: FakeGateway, line: str, words: list[str]) -> None:
    assert fleet.objects
    assert sorted(offered(line)) == sorted(words)


def test_every_service_is_offered_and_none_twice(fleet: FakeGateway) -> None:
    assert set(offered("moorage run ")) == {*services.names(), "gateway", "all"}
    assert "timer" not in offered("moorage run timer ")
    assert fleet.requests == []


@pytest.mark.parametrize("line", ["moorage apply -f ", "moorage delete --filename ", "moorage simulate -f "])
def test_manifests_and_folders_are_offered(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.yaml", "b.json", "c.txt", ".hidden.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "d.yml").touch()
    monkeypatch.chdir(tmp_path)
    assert offered(line) == ["a.yaml", "b.json", "folder/"]
    assert offered(f"{line}folder/") == ["folder/d.yml"]
    assert offered(f"{line}nowhere/") == []


@pytest.mark.parametrize(
    "line", ["moorage get nodes ", "moorage get pods -n ", "moorage get frobs ", "moorage taint x "]
)
def test_nothing_is_said_when_nobody_answers(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_SERVER", "http://127.0.0.1:9")
    assert offered(line) == []
    monkeypatch.setenv("MOORAGE_SERVER", "http://[bad")
    assert offered(line) == []


def test_a_gateway_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "PATIENCE", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts connections but never answers
        monkeypatch.setenv("MOORAGE_SERVER", f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert offered("moorage get nodes ") == []


def test_the_server_on_the_line_is_asked(fleet: FakeGateway) -> None:
    threads = set(threading.enumerate())
    assert offered("moorage --server http://127.0.0.1:1 get nodes b") == ["b1"]
    assert offered("moorage get nodes --server http://127.0.0.1:1 b") == ["b1"]
    assert set(threading.enumerate()) <= threads, "it leaves no thread behind"
    assert len(fleet.requests) == 2


def test_a_misspelt_variable_is_not_warned_of_in_the_middle_of_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "MOORAGE_GATWAY_PORT", "1")
    assert offered("moorage get nod") == ["nodes"]
